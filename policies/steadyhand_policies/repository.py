"""A model repository in Triton's layout: `<repository>/<model>/{config.pbtxt, 1/model.onnx, 1/contract.json}`."""
from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from steadyhand.errors import ConfigError, ContractError, DependencyMissing
from steadyhand_policies import contract as contracts

DEFAULT_REPOSITORY = Path(__file__).parents[1] / "model_repository"
PICK_PLACE = "pick_place"
_TYPES = {"TYPE_FP32": "float32", "TYPE_FP64": "float64", "TYPE_UINT8": "uint8", "TYPE_INT64": "int64"}


@dataclass(frozen=True)
class PolicyFiles:
    """The files of one policy; `version` is Triton's folder of that name."""

    config: Path
    model: Path
    contract: Path


def policy_files(repository: Path = DEFAULT_REPOSITORY, model: str = PICK_PLACE, version: int = 1) -> PolicyFiles:
    """Paths of a policy's files; raises ConfigError naming the first that is missing."""
    folder = Path(repository) / model
    files = PolicyFiles(folder / "config.pbtxt", folder / str(version) / "model.onnx",
                        folder / str(version) / "contract.json")
    for path in (Path(repository), files.config, files.model, files.contract):
        if not path.exists():
            raise ConfigError(f"model repository: {path} is missing; give --repository, or train a model "
                              "(docs/policies.md)")
    return files


def load_contract(files: PolicyFiles) -> contracts.PolicyContract:
    """The contract of a policy, checked against this robot, `policy_io` and the model file's hash."""
    contract = contracts.load(files.contract)
    contracts.check_runtime(contract)
    contracts.check_model_file(contract, files.model)
    return contract


def check_config(files: PolicyFiles, contract: contracts.PolicyContract) -> None:
    """Raise ContractError unless `config.pbtxt` states the tensors of the contract."""
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

    def tensors(entries) -> dict[str, tuple[str, list]]:
        names = model_config_pb2.DataType
        return {e.name: (_TYPES.get(names.Name(e.data_type), "?"), [-1, *e.dims]) for e in entries}

    contracts.check_tensors(contract, tensors(config.input), tensors(config.output))
