"""Which versions a running Triton server has, kept in step with the repository: each checked before it is loaded.

Triton loads a model's new version beside the ones that serve and then puts the whole in place, without a pause; when
one cannot be loaded, what served goes on serving (its documentation, "Model Management"). Which version answers is
named in each request, so a version that is loaded serves nobody before a release says so.
"""
from __future__ import annotations

from pathlib import Path

import numpy as np

from steadyhand.errors import ConfigError, ContractError, PolicyError
from steadyhand_policies import contract as contracts
from steadyhand_policies import repository as repositories
from steadyhand_policies.engine import open_session
from steadyhand_policies.local_onnx import session_tensors
from steadyhand_policies.probe import probe
from steadyhand_policies.triton_client import TritonPolicy

LOAD_TIMEOUT_S = 20.0


def check_version(repository: Path, number: int, model: str = repositories.PICK_PLACE) -> contracts.PolicyContract:
    """Everything that can be known of a version without serving it; its contract.

    Raises ConfigError for what is missing, ContractError naming the version and the field that disagrees.
    """
    files = repositories.policy_files(repository, model, number)
    try:
        contract = repositories.load_contract(files)
        repositories.check_config(files, contract)
        session = open_session(files.model)
        contracts.check_tensors(contract, *session_tensors(session))
        canary = session.run([contracts.OUTPUT_NAME], {contracts.INPUT_NAME: canary_batch(contract)})[0]
        contracts.check_canary(contract, canary)
        probe(contract, lambda batch: session.run([contracts.OUTPUT_NAME], {contracts.INPUT_NAME: batch})[0])
    except ContractError as error:
        raise ContractError(f"{model} version {number}: {error}") from error
    return contract


def canary_batch(contract: contracts.PolicyContract) -> np.ndarray:
    """The canary's observation as (1, D) float32."""
    return np.asarray(contract.canary.observation, dtype=np.float32)[None]


class ServedVersions:
    """`served`: numbers that the server was told to load; `refused`: number -> why it was not loaded."""

    def __init__(self, repository: Path, model: str = repositories.PICK_PLACE) -> None:
        self._repository, self._model = repository, model
        self.served: tuple[int, ...] = ()
        self.refused: dict[int, str] = {}
        self._sound = set(repositories.versions(repository, model))  # whoever starts a server has checked them

    def restarted(self) -> None:
        """A new server is being started: it loads whatever it can of what lies in the repository now."""
        self.served = repositories.versions(self._repository, self._model)

    def follow(self, client: TritonPolicy) -> list[str]:
        """Load what is new and sound; lines for the log. Called between canaries, never by a control loop.

        The server loads every version that lies there. So while one is refused none is loaded: what serves goes on.
        """
        there = repositories.versions(self._repository, self._model)
        lines = [f"version {number}, which was refused, is gone" for number in set(self.refused) - set(there)]
        self.refused = {number: why for number, why in self.refused.items() if number in there}
        self._sound &= set(there)
        for number in set(there) - self._sound - set(self.refused):
            try:
                check_version(self._repository, number, self._model)
                self._sound.add(number)
            except (ConfigError, ContractError) as error:
                self.refused[number] = str(error)
                lines.append(f"version {number} is not loaded: {error}")
        if self.refused or there == self.served:
            return lines
        try:
            client.load_model(LOAD_TIMEOUT_S)
        except PolicyError as error:
            new = sorted(set(there) - set(self.served))
            self.refused |= {number: str(error) for number in new}
            return [*lines, f"versions {new} are not loaded: {error}"]
        before, self.served = self.served, there
        return [*lines, f"versions served: {list(there)}, before {list(before)}"]
