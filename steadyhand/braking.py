"""Stops: the jerk-limited tail of every plan, and S1, braking along the checked path by scaling time.

S1. With the path q(s), s in seconds of plan time, a stop plays q(s(t)) with s'(t) falling from 1 to 0. Then
    qd = q' s',   qdd = q'' s'^2 + q' s'',   qddd = q''' s'^3 + 3 q'' s' s'' + q' s'''.
The profiles of s' are fixed: a trapezoid of deceleration with ramps of an eighth of its duration (at least two cycles),
in a ladder of durations. The fastest one whose set-points keep every joint within its limits is taken; positions lie on
the path, so nothing else has to be checked anew. If none is (it cannot happen to an admitted plan, see `safety_gate`),
the plan is run out: it ends at rest and was checked as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from ruckig import ControlInterface, InputParameter, Result, Ruckig, Synchronization, Trajectory

from steadyhand import ur5
from steadyhand.errors import SteadyhandError
from steadyhand.limits import UR5_LIMITS, Limits
from steadyhand.plan import Plan

SHORTEST_STOP_CYCLES = 5
LADDER_RATIO = 1.15
LONGEST_STOP_S = 2.0


@dataclass(frozen=True)
class Profile:
    """One way to bring s' from 1 to 0. `s` and its derivatives at cycles 1..K (s in seconds)."""

    duration_s: float
    s_s: np.ndarray
    sd: np.ndarray
    sdd_1_s: np.ndarray
    deceleration_1_s: float  # greatest |s''|
    jerk_1_s2: float  # greatest |s'''|


@dataclass(frozen=True)
class Stop:
    """An S1 stop: the plan to play next, from the very next cycle, and what it costs."""

    plan: Plan
    stop_s: float
    distance_rad: np.ndarray  # (6,) travelled by each joint
    ran_out: bool  # no profile was admissible: the plan itself is played to its rest


@lru_cache(maxsize=4)
def profiles(period_s: float) -> tuple[Profile, ...]:
    """The ladder of profiles, fastest first."""
    cycles, count = [], float(SHORTEST_STOP_CYCLES)
    while count * period_s <= LONGEST_STOP_S:
        if not cycles or int(count) > cycles[-1]:
            cycles.append(int(count))
        count *= LADDER_RATIO
    return tuple(_profile(k, period_s) for k in cycles)


def _profile(cycles: int, period_s: float) -> Profile:
    duration = cycles * period_s
    ramp = max(duration / 8, 2 * period_s)
    b = 1.0 / (duration - ramp)
    jerk = b / ramp
    t = period_s * np.arange(1, cycles + 1)
    left = duration - t
    up, down = t <= ramp, left <= ramp
    sd = np.where(up, 1 - jerk * t**2 / 2, np.where(down, jerk * left**2 / 2, 1 - b * (t - ramp / 2)))
    sdd = -np.where(up, jerk * t, np.where(down, jerk * left, b))
    at_ramp = ramp - jerk * ramp**3 / 6
    middle = at_ramp + (t - ramp) - b * (t**2 - ramp**2) / 2 + b * ramp * (t - ramp) / 2
    s = np.where(up, t - jerk * t**3 / 6, np.where(down, duration / 2 - jerk * left**3 / 6, middle))
    sd[-1] = sdd[-1] = 0.0
    return Profile(duration, s, sd, sdd, b, jerk)


def scale_to_rest(plan: Plan, index: int, limits: Limits = UR5_LIMITS) -> Stop:
    """S1 from the state after set-point `index - 1` was sent: the first set-point of the result is sent next.

    `index` is the plan's next set-point, as for `interpolator.build_plan`.
    """
    history = plan.history_at(index)
    start_s = plan.start_s + index * plan.period_s
    remaining = plan.rest_of(index, 1 if index >= len(plan) else len(plan) - index)
    before = plan.state_before(index)
    path = tuple(np.concatenate([a[None], b]) for a, b in zip(before, remaining))  # s = 0: the set-point sent last
    ladder = profiles(plan.period_s)
    low, high, best = 0, len(ladder) - 1, None
    while low <= high:  # slower is gentler, nearly always: bisect, then sweep
        middle = (low + high) // 2
        trial = _scaled(path, ladder[middle], plan.period_s)
        if _within(history, trial[0], plan.period_s, limits):
            best, high = trial, middle - 1
        else:
            low = middle + 1
    if best is None:
        for profile in ladder:
            trial = _scaled(path, profile, plan.period_s)
            if _within(history, trial[0], plan.period_s, limits):
                best = trial
                break
    ran_out = best is None or len(best[0]) > len(remaining[0])
    q, qd, qdd = remaining if ran_out else best
    moved = np.abs(np.diff(np.concatenate([history[-1:], q]), axis=0)).sum(axis=0)
    stopped = Plan(
        plan.period_s,
        start_s,
        q.copy(),
        qd.copy(),
        qdd.copy(),
        history,
        before[1].copy(),
        before[2].copy(),
        plan.trace_id,
        "stop",
        plan.state_seq,
    )
    return Stop(stopped, len(q) * plan.period_s, moved, ran_out)


def _scaled(path: tuple[np.ndarray, ...], profile: Profile, period_s: float) -> tuple[np.ndarray, ...]:
    """(q, qd, qdd) of the path played with a profile: quintic Hermite between the path's own set-points."""
    q, qd, qdd = path
    last = len(q) - 1
    x = np.minimum(profile.s_s / period_s, last)
    i = np.minimum(x.astype(int), max(last - 1, 0))
    k = np.minimum(i + 1, last)
    u = (x - i)[:, None]
    t = period_s
    a0, a1, a2 = q[i], qd[i] * t, qdd[i] * (t * t / 2)
    gap, v1, w1 = q[k] - a0, qd[k] * t, qdd[k] * (t * t / 2)
    r0, r1, r2 = gap - a1 - a2, v1 - a1 - 2 * a2, w1 - a2
    a3, a4, a5 = 10 * r0 - 4 * r1 + r2, -15 * r0 + 7 * r1 - 2 * r2, 6 * r0 - 3 * r1 + r2
    p = a0 + u * (a1 + u * (a2 + u * (a3 + u * (a4 + u * a5))))
    pd = (a1 + u * (2 * a2 + u * (3 * a3 + u * (4 * a4 + u * 5 * a5)))) / t
    pdd = (2 * a2 + u * (6 * a3 + u * (12 * a4 + u * 20 * a5))) / (t * t)
    sd, sdd = profile.sd[:, None], profile.sdd_1_s[:, None]
    return p, pd * sd, pdd * sd**2 + pd * sdd


def _within(history: np.ndarray, q: np.ndarray, period_s: float, limits: Limits) -> bool:
    """Whether set-points, continued from `history` and held at their end, keep velocity, acceleration and jerk."""
    points = np.concatenate([history, q, q[-1:], q[-1:], q[-1:]])
    for limit in (limits.qd_max_rad_s, limits.qdd_max_rad_s2, limits.qddd_max_rad_s3):
        points = np.diff(points, axis=0) / period_s
        if (np.abs(points) > limit).any():
            return False
    return True


def stop_tail(
    q_rad: np.ndarray,
    qd_rad_s: np.ndarray,
    qdd_rad_s2: np.ndarray,
    limits: Limits = UR5_LIMITS,
    period_s: float = ur5.SERVO_PERIOD_CB3_S,
    first_s: float | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(q, qd, qdd), each (K, 6), from a state to rest: time-optimal under the stop limits, in phase if possible.

    Samples at `first_s` (default one period) and every period after; the last one is exactly at rest.
    """
    inp = InputParameter(ur5.DOF)
    inp.control_interface = ControlInterface.Velocity
    inp.synchronization = Synchronization.Phase
    inp.current_position, inp.current_velocity = list(map(float, q_rad)), list(map(float, qd_rad_s))
    inp.current_acceleration = list(map(float, qdd_rad_s2))
    inp.target_velocity = inp.target_acceleration = [0.0] * ur5.DOF
    inp.max_acceleration, inp.max_jerk = limits.stop_qdd_rad_s2.tolist(), limits.stop_qddd_rad_s3.tolist()
    trajectory = Trajectory(ur5.DOF)
    result = Ruckig(ur5.DOF).calculate(inp, trajectory)
    if result not in (Result.Working, Result.Finished):
        raise SteadyhandError(f"no stop from qd={np.round(qd_rad_s, 3).tolist()} rad/s: ruckig says {result}")
    first = period_s if first_s is None else first_s
    count = max(1, int(np.ceil((trajectory.duration - first) / period_s - 1e-9)) + 1)
    samples = np.array([trajectory.at_time(min(first + k * period_s, trajectory.duration)) for k in range(count)])
    samples[-1, 1:] = 0.0
    return samples[:, 0], samples[:, 1], samples[:, 2]
