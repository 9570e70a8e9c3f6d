"""`check_policy`: what any policy must do before it may be wired to a robot. For users and for CI."""
from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from steadyhand.errors import ContractError, PolicyError
from steadyhand_policies import contract as contracts
from steadyhand_policies.fallback import Policy
from steadyhand_policies.runtime_facts import RuntimeFacts


@dataclass(frozen=True)
class PolicyReport:
    """What was measured while checking."""

    observations: int
    served_by: tuple[str, ...]
    latency_p50_ms: float
    latency_max_ms: float


def make_observation(contract: contracts.PolicyContract, rng: np.random.Generator) -> np.ndarray:
    """A valid observation (D,) float32: the canary's, disturbed by a tenth of the statistics' spread, within range."""
    base = np.asarray(contract.canary.observation)
    spread = 0.1 * np.asarray(contract.normalisation.std)
    values = base + spread * rng.standard_normal(base.shape)
    return np.clip(values, contract.observation.minimum, contract.observation.maximum).astype(np.float32)


def check_policy(
    policy: Policy, contract: contracts.PolicyContract, n: int = 50, deadline_s: float = 0.05, seed: int = 0,
    facts: RuntimeFacts | None = None,
) -> PolicyReport:
    """Check a policy by asking it; raises ContractError saying what it did wrong.

    The contract fits the robot and `policy_io`; the canary gets its recorded answer; answers name their observation,
    are finite, of the right shape, within range, the same for the same observation, and in time; an observation that
    is not finite, misshapen or out of range is refused with PolicyError.
    """
    contracts.check_runtime(contract, facts=facts)
    canary = np.float32(contract.canary.observation)
    contracts.check_canary(contract, _ask(policy, contract, canary, "canary", deadline_s)[0])
    rng = np.random.default_rng(seed)
    latencies_s, servers = [], set()
    for i in range(n):
        observation = make_observation(contract, rng)
        first, latency_s, served_by = _ask(policy, contract, observation, f"check-{i}", deadline_s)
        again, _, _ = _ask(policy, contract, observation, f"check-{i}-again", deadline_s)
        if np.abs(first - again).max() > contract.canary.tolerance:
            raise ContractError(f"actions: two answers to one observation differ by {np.abs(first - again).max():.3g}")
        latencies_s.append(latency_s)
        servers.add(served_by)
    _check_refusals(policy, contract, deadline_s)
    return PolicyReport(
        n, tuple(sorted(servers)), float(np.median(latencies_s)) * 1e3, float(np.max(latencies_s)) * 1e3
    )


def _ask(policy, contract, observation, observation_id, deadline_s) -> tuple[np.ndarray, float, str]:
    start_s = time.monotonic()
    try:
        chunk = policy.infer(observation, observation_id, deadline_s)
    except PolicyError as error:
        raise ContractError(f"infer({observation_id}): {error}") from error
    latency_s = time.monotonic() - start_s
    if chunk.observation_id != observation_id:
        raise ContractError(f"observation_id: reply names {chunk.observation_id!r}, asked {observation_id!r}")
    return contracts.check_actions(contract, chunk.actions), latency_s, chunk.served_by


def _check_refusals(policy, contract, deadline_s) -> None:
    good = np.float32(contract.canary.observation)
    nan, infinite, outside = good.copy(), good.copy(), good.copy()
    nan[0], infinite[-1], outside[0] = np.nan, np.inf, 1.1 * contract.observation.maximum[0]
    for name, bad in (("NaN", nan), ("infinite", infinite), ("out of range", outside), ("too short", good[:-1])):
        try:
            policy.infer(bad, f"check-{name}", deadline_s)
        except PolicyError:
            continue
        raise ContractError(f"observation: a {name} one was answered instead of refused")
