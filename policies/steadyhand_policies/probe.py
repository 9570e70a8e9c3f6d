"""Whether a model answers as a policy: many plausible observations, each answer checked, and the answers told apart.

The canary proves that a model is the one that was exported; a model that was exported broken passes it. This finds
what a contract cannot state: answers that are not finite, misshapen or out of range for some observations, that differ
for the same one, or that are the same for every one.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from steadyhand.errors import ContractError
from steadyhand_policies import contract as contracts

OBSERVATIONS = 32
SAME = 1e-6  # in units of the action: below, an element does not depend on the observation

Run = Callable[[np.ndarray], np.ndarray]  # (1, D) float32 -> (1, H, A)


@dataclass(frozen=True)
class Probed:
    """`still`: names of actions that never changed, though others did."""

    observations: int
    still: tuple[str, ...]
    largest: float  # |action|


def probe(contract: contracts.PolicyContract, run: Run, n: int = OBSERVATIONS, seed: int = 0) -> Probed:
    """Ask a model; raises ContractError saying what it does wrong. Any exception of the engine counts as a refusal."""
    answers = []
    for observation in observations(contract, n, seed):
        answers.append(contracts.check_actions(contract, _asked(run, observation)))
    again = contracts.check_actions(contract, _asked(run, observations(contract, 1, seed)[0]))
    if (difference := float(np.abs(again - answers[0]).max())) > contract.canary.tolerance:
        raise ContractError(f"actions: two answers to one observation differ by {difference:.3g}")
    spread = np.ptp(np.stack(answers), axis=0).max(axis=0)  # (A,)
    names = contract.action.names
    if (spread < SAME).all():
        raise ContractError(f"actions: constant; {n} different observations got the same answer in every element "
                            f"({', '.join(names)}): the model does not look")
    still = tuple(name for name, s in zip(names, spread) if s < SAME)
    return Probed(n, still, float(np.abs(answers).max()))


def observations(contract: contracts.PolicyContract, n: int, seed: int = 0) -> np.ndarray:
    """(n, D) float32: the canary's first, then normal about the training's mean with its deviation, within range."""
    rng = np.random.default_rng(seed)
    mean, std = np.asarray(contract.normalisation.mean), np.asarray(contract.normalisation.std)
    values = mean + std * rng.standard_normal((n, len(mean)))
    values = np.clip(values, contract.observation.minimum, contract.observation.maximum)
    values[0] = contract.canary.observation
    return values.astype(np.float32)


def _asked(run: Run, observation: np.ndarray) -> np.ndarray:
    try:
        return run(observation[None])
    except Exception as error:  # an engine raises classes of its own; each means that the model cannot be used
        raise ContractError(f"actions: the model cannot be run ({str(error)[:160]})") from error
