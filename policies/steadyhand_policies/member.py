"""One version of a policy, ready to serve: its server's client, its local model, and the fallback between them."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from steadyhand_policies import contract as contracts
from steadyhand_policies import repository as repositories
from steadyhand_policies.fallback import FallbackPolicy
from steadyhand_policies.local_onnx import LocalOnnxPolicy
from steadyhand_policies.release import Version
from steadyhand_policies.repository import PolicyFiles
from steadyhand_policies.runtime_facts import RuntimeFacts
from steadyhand_policies.triton_client import TritonConfig, TritonPolicy

PRIMARY_DEADLINE_S = 0.020  # then the local model answers within the same policy period


@dataclass(frozen=True, eq=False)
class Member:
    """`policy` answers; `local` and `triton` belong to it and end with it."""

    version: Version
    contract: contracts.PolicyContract
    policy: FallbackPolicy
    local: LocalOnnxPolicy
    triton: TritonPolicy | None

    def close(self) -> None:
        """End the canary's thread, the channel and the session."""
        self.policy.close()
        if self.triton is not None:
            self.triton.close()
        self.local.close()


Open = Callable[[int], Member]


def opener(
    repository, model: str, triton_url: str = "", provider: str = "cpu", facts: RuntimeFacts | None = None
) -> Open:
    """A function that opens a version by its number, checked and warm. No `triton_url`: the local model only.

    It raises ContractError, ConfigError or DependencyMissing.
    """

    def open_version(number: int) -> Member:
        files: PolicyFiles = repositories.policy_files(repository, model, number)
        local = LocalOnnxPolicy(files, provider, facts).open()
        contract, triton = local.contract, None
        if triton_url:
            config = TritonConfig(triton_url, model, str(files.version), PRIMARY_DEADLINE_S)
            triton = TritonPolicy(config, contract).open()
        policy = FallbackPolicy(triton, local, contract, PRIMARY_DEADLINE_S).start()
        return Member(Version(files.version, contract.sha256), contract, policy, local, triton)

    return open_version
