"""A model repository in Triton's layout: `<repository>/<model>/{config.pbtxt, N/model.onnx, N/contract.json}`.

N is the version. A version is never changed once it is there: a new training is a new version (`install`).
"""
from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from steadyhand.errors import ConfigError, ContractError, DependencyMissing
from steadyhand_policies import contract as contracts
from steadyhand_policies.runtime_facts import RuntimeFacts

DEFAULT_REPOSITORY = Path(__file__).parents[1] / "model_repository"
PICK_PLACE = "pick_place"
_TYPES = {"TYPE_FP32": "float32", "TYPE_FP64": "float64", "TYPE_UINT8": "uint8", "TYPE_INT64": "int64"}
_PARTS = ("model.onnx", "contract.json")


@dataclass(frozen=True)
class PolicyFiles:
    """The files of one policy; `version` is Triton's folder of that name."""

    config: Path
    model: Path
    contract: Path

    @property
    def version(self) -> int:
        """The number of its folder; 0 for a folder that is no version."""
        name = self.model.parent.name
        return int(name) if name.isdecimal() else 0


def policy_files(repository: Path = DEFAULT_REPOSITORY, model: str = PICK_PLACE, version: int = 1) -> PolicyFiles:
    """Paths of a policy's files; raises ConfigError naming the first that is missing. `version` 0: the newest."""
    folder = Path(repository) / model
    if version == 0:
        version = newest(repository, model)
    files = PolicyFiles(folder / "config.pbtxt", folder / str(version) / "model.onnx",
                        folder / str(version) / "contract.json")
    for path in (Path(repository), files.config, files.model, files.contract):
        if not path.exists():
            raise ConfigError(f"model repository: {path} is missing; give --repository, or train a model "
                              "(docs/policies.md)")
    return files


def versions(repository: Path = DEFAULT_REPOSITORY, model: str = PICK_PLACE) -> tuple[int, ...]:
    """Numbers of the versions that are there, ascending; folders that Triton would not take for one are left out."""
    try:
        folders = [p for p in (Path(repository) / model).iterdir() if p.is_dir()]
    except OSError:
        return ()
    names = [p.name for p in folders if p.name.isascii() and p.name.isdecimal() and not p.name.startswith("0")]
    return tuple(sorted(int(name) for name in names))


def newest(repository: Path = DEFAULT_REPOSITORY, model: str = PICK_PLACE) -> int:
    """The highest version; raises ConfigError when there is none."""
    found = versions(repository, model)
    if not found:
        raise ConfigError(f"model repository: {Path(repository) / model} holds no version; give --repository, or train "
                          "a model (docs/policies.md)")
    return found[-1]


def load_contract(files: PolicyFiles, facts: RuntimeFacts | None = None) -> contracts.PolicyContract:
    """The contract of a policy, checked against this robot, its sensors and calibration, and against the model file."""
    contract = contracts.load(files.contract)
    contracts.check_runtime(contract, facts=facts)
    contracts.check_model_file(contract, files.model)
    return contract


def install(source: Path, repository: Path, model: str = PICK_PLACE) -> int:
    """Copy a trained folder (`model.onnx`, `contract.json`) into the repository as its next version; the number.

    The caller has checked it. Whole or not at all: it is copied beside, written through to the disk, and renamed.
    """
    source, folder = Path(source), Path(repository) / model
    for name in _PARTS:
        if not (source / name).is_file():
            raise ConfigError(f"{source / name} is missing; give the folder of a trained model")
    scratch = folder / f".incoming-{os.getpid()}"  # Triton takes no such name for a version
    try:
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        for name in _PARTS:
            shutil.copyfile(source / name, scratch / name)
            _sync(scratch / name)
        number = (versions(repository, model) or (0,))[-1] + 1
        scratch.rename(folder / str(number))  # fails when somebody else was faster: no version is ever replaced
        _sync(folder)
    except OSError as error:
        shutil.rmtree(scratch, ignore_errors=True)
        raise ConfigError(f"model repository {folder}: {error.strerror}") from error
    return number


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def check_config(files: PolicyFiles, contract: contracts.PolicyContract) -> None:
    """Raise ContractError unless `config.pbtxt` states the tensors of the contract, and serves every version."""
    try:
        from google.protobuf import text_format
        from tritonclient.grpc import model_config_pb2
    except ImportError as error:
        raise DependencyMissing("needs tritonclient: pip install 'tritonclient[grpc]'") from error
    config = model_config_pb2.ModelConfig()
    try:
        text_format.Parse(files.config.read_text(), config)
    except text_format.ParseError as error:
        raise ContractError(f"{files.config}: {error}") from error
    if config.name != contract.model:
        raise ContractError(f"config.pbtxt name: found {config.name!r}, expected {contract.model!r}")
    if config.max_batch_size < 1:
        raise ContractError(f"config.pbtxt max_batch_size: {config.max_batch_size}, expected 1 or more")
    if config.version_policy.WhichOneof("policy_choice") != "all":
        raise ContractError("config.pbtxt version_policy: expected `all { }`: a release serves two versions at once")

    def tensors(entries) -> dict[str, tuple[str, list]]:
        names = model_config_pb2.DataType
        return {e.name: (_TYPES.get(names.Name(e.data_type), "?"), [-1, *e.dims]) for e in entries}

    contracts.check_tensors(contract, tensors(config.input), tensors(config.output))
