"""The clean set's verdict on a checkpoint: the same scenes as for the best one so far, so the test is a paired one."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from policies.training.statistics import mcnemar_p


@dataclass(frozen=True)
class Verdict:
    """`better`: more scenes than the best so far. `worse`: so many fewer that chance hardly explains it."""

    better: bool
    worse: bool
    success: float
    p: float


def judge(best: np.ndarray | None, now: np.ndarray, p_value: float) -> Verdict:
    """Compare successes (N,) with the best checkpoint's on the same scenes; the first is better than none.

    A checkpoint replaces the best one only by more successes: an equal one later has been selected more often.
    """
    now = np.asarray(now, dtype=bool)
    success = float(now.mean())
    if best is None:
        return Verdict(True, False, success, 1.0)
    p = mcnemar_p(best, now)
    return Verdict(bool(now.sum() > np.sum(best)), p < p_value, success, p)
