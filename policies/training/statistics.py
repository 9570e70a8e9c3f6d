"""The statistics of paired success rates: pure functions, no simulator, no torch."""
from __future__ import annotations

import numpy as np
from scipy import stats

from steadyhand_policies.contract import wilson

__all__ = ["bootstrap_low", "mcnemar_p", "rate", "wilson"]


def rate(successes: np.ndarray) -> dict:
    """Share of successes with its Wilson 95 % interval."""
    k, n = int(np.sum(successes)), len(successes)
    low, high = wilson(k, n)
    return {"success": k / max(n, 1), "low": low, "high": high, "successes": k, "n": n}


def mcnemar_p(before: np.ndarray, after: np.ndarray) -> float:
    """One-sided exact McNemar test on the same trials: how likely so many losses are if `after` is no worse.

    Of the trials where the two differ, losses (before succeeded, after failed) are binomial(n, 1/2) under the null
    hypothesis (McNemar 1947, exact form). 1 when they never differ.
    """
    before, after = np.asarray(before, dtype=bool), np.asarray(after, dtype=bool)
    if before.shape != after.shape:
        raise ValueError(f"paired trials: shapes {before.shape} and {after.shape} differ")
    lost, won = int(np.sum(before & ~after)), int(np.sum(after & ~before))
    return float(stats.binom.sf(lost - 1, lost + won, 0.5)) if lost + won else 1.0


def bootstrap_low(success: np.ndarray, n: int = 10_000, confidence: float = 0.95, seed: int = 1) -> tuple[float, float]:
    """Interval of a mean success rate over plants (P, E): plants are drawn anew, and within each its episodes.

    Episodes of one plant resemble one another, so an interval over all episodes alone would be too narrow.
    """
    success = np.asarray(success, dtype=float)
    if success.ndim != 2 or success.size == 0:
        raise ValueError(f"success: shape {success.shape}, expected (plants, episodes)")
    plants, episodes = success.shape
    rng, means = np.random.default_rng(seed), np.empty(n)
    for k in range(n):
        drawn = success[rng.integers(plants, size=plants)]
        means[k] = np.take_along_axis(drawn, rng.integers(episodes, size=drawn.shape), axis=1).mean()
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)
