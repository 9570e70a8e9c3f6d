"""Is the candidate worse, is it not worse: two exact tests on success counts, and what many looks cost. Pure.

*Worse*: Fisher's exact test, one-sided (Fisher 1935): the probability of so few successes of the candidate, were both
equally good, given the successes of both together.

*Not worse by `margin`*: exact non-inferiority. Null hypothesis p_candidate <= p_stable - margin. With U the exact upper
bound of p_stable at confidence 1 - beta (Clopper and Pearson 1934), p = beta + P(Bin(n, U - margin) >= successes). It
is valid: U is too small with probability beta at most, and otherwise the tail is valid (Berger and Boos 1994).

A release is looked at many times. The k-th look of a kind may spend `alpha * 6 / (pi k)^2`, which sums to alpha: so the
probability that any look of this kind errs is below alpha, whenever one stops. Looks come at growing counts, the first
where it can decide anything: three of three failures, or the fewest successes without failure that show `not worse`.
"""
from __future__ import annotations

import math

import numpy as np
from scipy import special

BETA_SHARE = 0.1  # of what a look may spend, given away for not knowing p_stable
WORSE_FIRST, GROWTH = 3, 1.4


def p_worse(successes: int, n: int, stable_successes: int, stable_n: int) -> float:
    """p value of `worse`; 1 when either has no trial."""
    _check(successes, n, "candidate")
    _check(stable_successes, stable_n, "stable")
    if n == 0 or stable_n == 0:
        return 1.0
    good = successes + stable_successes
    x = np.arange(max(0, good - stable_n), successes + 1)
    # hypergeometric: C(n, x) C(stable_n, good - x) / C(n + stable_n, good)
    logs = _log_choose(n, x) + _log_choose(stable_n, good - x) - _log_choose(n + stable_n, good)
    return float(min(1.0, np.exp(logs).sum()))


def p_not_worse(successes: int, n: int, stable_successes: int, stable_n: int, margin: float, beta: float) -> float:
    """p value of `not worse by margin`: small means shown. 1 when the candidate has no trial."""
    _check(successes, n, "candidate")
    _check(stable_successes, stable_n, "stable")
    if not (0.0 < margin < 1.0 and 0.0 < beta < 1.0):
        raise ValueError(f"margin = {margin}, beta = {beta}: give above 0, below 1")
    if n == 0:
        return 1.0
    null = upper_bound(stable_successes, stable_n, beta) - margin
    if null <= 0.0:
        return beta  # even a policy that never succeeds is within the margin
    tail = 1.0 if successes == 0 else float(special.bdtrc(successes - 1, n, null))  # P(X >= successes)
    return min(1.0, beta + tail)


def upper_bound(successes: int, n: int, beta: float) -> float:
    """Exact one-sided upper confidence bound of a rate; 1 of no trial."""
    if successes >= n:
        return 1.0
    return float(special.betaincinv(successes + 1, n - successes, 1.0 - beta))


def alpha_of_look(k: int, alpha: float) -> float:
    """What the k-th look (1, 2, ...) may spend of alpha."""
    if k < 1:
        raise ValueError(f"look {k}: give 1 or more")
    return alpha * 6.0 / (math.pi * k) ** 2


def not_worse_first(margin: float, alpha: float) -> int:
    """The fewest trials that can show `not worse` at the first look: all successes, against a perfect stable."""
    tail = (1.0 - BETA_SHARE) * alpha_of_look(1, alpha)
    return math.ceil(math.log(tail) / math.log1p(-margin))


def next_look(looked_at: int, first: int) -> int:
    """The count at which the next look is due, when the last one was at `looked_at` (0: none yet)."""
    return first if looked_at < first else max(looked_at + 1, math.ceil(looked_at * GROWTH))


def _check(successes: int, n: int, who: str) -> None:
    if not 0 <= successes <= n:
        raise ValueError(f"{who}: {successes} successes of {n}")


def _log_choose(n: int, k: np.ndarray | int) -> np.ndarray:
    return special.gammaln(n + 1) - special.gammaln(np.asarray(k) + 1) - special.gammaln(n - np.asarray(k) + 1)
