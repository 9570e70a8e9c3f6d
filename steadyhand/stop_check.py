"""Differences of set-points, and whether every one of them can be stopped from: cheap enough for each plan.

Why an admitted set-point has an admissible stop. A plan ends at rest and is checked as a whole, so running it out is a
checked stop; that is enough for set-points with at most `max_stop_s` left. For earlier ones the stop is S1
(`braking`): q(s(t)) on the same path, s' from 1 to 0. By the triangle inequality its acceleration is at most
|q''| s'^2 + |q'| |s''| and its jerk at most |q'''| s'^3 + 3 |q''| s' |s''| + |q'| |s'''|, cycle by cycle, the path's
derivatives being the greatest of the neighbouring set-points' differences and `_MARGIN` for what lies between. If
that keeps the limits for one profile no longer than `max_stop_s`, then `braking.scale_to_rest`, which tries the same
profiles exactly, finds one at least as fast. All set-points are bounded at once.
"""

from __future__ import annotations

import numpy as np
from scipy.ndimage import maximum_filter1d

from steadyhand import braking
from steadyhand.limits import UR5_LIMITS, Limits
from steadyhand.types import Reason

_MARGIN = 1.1
_BLOCK = 64  # set-points judged at once by the fine bound


def setpoint_differences(points_rad: np.ndarray, period_s: float) -> dict[Reason, np.ndarray]:
    """Backward differences of (3 + N, 6) set-points, row i of each (N, 6) for set-point i behind the three."""
    velocity = np.diff(points_rad, axis=0) / period_s
    acceleration = np.diff(velocity, axis=0) / period_s
    jerk = np.diff(acceleration, axis=0) / period_s
    return {Reason.VELOCITY: velocity[2:], Reason.ACCELERATION: acceleration[1:], Reason.JERK: jerk}


def stop_admissible(
    points_rad: np.ndarray, period_s: float, limits: Limits = UR5_LIMITS, until_failure: bool = False
) -> np.ndarray:
    """Whether a stop within `max_stop_s` is certain before each set-point (N,) of (3 + N, 6) points that end at rest.

    With `until_failure` the work ends soon after the first that is not, and later ones may be wrongly False.
    """
    differences = setpoint_differences(points_rad, period_s)
    count = len(differences[Reason.JERK])
    moving = np.flatnonzero(np.abs(differences[Reason.VELOCITY]).max(axis=1) > 1e-9)
    end = moving[-1] + 1 if len(moving) else 0  # set-points from here on are at rest
    admitted = (end - np.arange(count)) * period_s <= limits.max_stop_s
    if admitted.all():
        return admitted
    # what a scaled set-point sees lies within one row of its own place on the path
    v, a, j = (maximum_filter1d(np.abs(x) * _MARGIN, 3, axis=0, mode="nearest") for x in differences.values())
    ladder = [p for p in braking.profiles(period_s) if p.duration_s <= limits.max_stop_s][::-1]
    admitted |= _gentle(v, a, j, ladder[0], period_s, limits)
    for block in np.array_split(np.flatnonzero(~admitted), max(1, count // _BLOCK)):
        for profile in ladder:
            if not len(block):
                break
            fits = _bounded(v, a, j, block, profile, period_s, limits)
            admitted[block] = fits
            block = block[~fits]
        if len(block) and until_failure:
            break
    return admitted


def _bounded(
    v: np.ndarray,
    a: np.ndarray,
    j: np.ndarray,
    starts: np.ndarray,
    profile: braking.Profile,
    period_s: float,
    limits: Limits,
) -> np.ndarray:
    """Whether the stop with one profile is certain from each of the set-points `starts`, bounded cycle by cycle."""
    place = np.minimum(starts[:, None] + (profile.s_s / period_s).astype(int), len(v) - 1)
    sd = np.append(1.0, profile.sd[:-1])[:, None]  # s' falls: its greatest value in a cycle is that at the start
    sdd = np.maximum(np.abs(profile.sdd_1_s), np.abs(np.append(0.0, profile.sdd_1_s[:-1])))[:, None]
    acceleration = a[place] * sd**2 + v[place] * sdd
    jerk = j[place] * sd**3 + 3 * a[place] * sd * sdd + v[place] * profile.jerk_1_s2
    fits = (acceleration <= limits.qdd_max_rad_s2) & (jerk <= limits.qddd_max_rad_s3)
    return fits.all(axis=(1, 2))


def _gentle(
    v: np.ndarray, a: np.ndarray, j: np.ndarray, profile: braking.Profile, period_s: float, limits: Limits
) -> np.ndarray:
    """Set-points whose stop with one profile is certain without looking cycle by cycle: cheap, for most of a path."""
    b = profile.deceleration_1_s
    fits = (a + b * v <= limits.qdd_max_rad_s2) & (j + 3 * b * a + profile.jerk_1_s2 * v <= limits.qddd_max_rad_s3)
    fails = np.concatenate([[0], np.cumsum(~fits.all(axis=1))])
    end = np.minimum(np.arange(len(v)) + int(np.ceil(profile.s_s[-1] / period_s)) + 1, len(v))
    return fails[end] == fails[:-1]
