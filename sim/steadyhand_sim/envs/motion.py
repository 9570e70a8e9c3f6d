"""From single steps to set-points, through the runtime's interpolator and gate; a step's plan costs microseconds.

A step becomes a chunk of WAYPOINTS way-points: `first` from the commanded configuration that it answers, `later` from
one to the next. `interpolator.build_plan` is linear in the way-points and in the motion under way, so for each latency
the whole spline, its hand-over and the differences that the gate checks are one matrix times nine rows. The plan is
then judged by the certificate of `envelope`, or built and checked in full by the runtime's functions. Both ways give
the same set-points (tests/unit/test_env_motion.py). What follows the spline, the stop, is built only when it is needed:
when refusals or silence let a plan run out, the arm comes to rest on it.
"""
from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from steadyhand import interpolator, ur5
from steadyhand.errors import ConfigError
from steadyhand.interpolator import InterpolatorConfig, PlanRefused, build_plan
from steadyhand.plan import HISTORY, Plan, Published
from steadyhand.policy_io import PERIOD_S
from steadyhand.safety_gate import SafetyGate
from steadyhand.stop_check import setpoint_differences
from steadyhand.types import JointChunk
from steadyhand_sim.envs.envelope import Certificate

CYCLE_S = ur5.SERVO_PERIOD_CB3_S
WAYPOINTS = 5  # 250 ms: beyond the latest hand-over (72 + 176 ms), well inside what a stop may take
LATENCY_MAX_CYCLES = 9
# Rows of what a plan is made of: the state answered, the two steps, the set-points and the motion under way.
_Q, _QD, _FIRST, _LATER, _HISTORY, _QD_NOW, _QDD_NOW = 0, 1, 2, 3, slice(4, 7), 7, 8
_ROWS = 9


@dataclass(frozen=True)
class Answered:
    """The commanded motion that a step answers: control cycle, position and velocity (6,)."""

    cycle: int
    q_rad: np.ndarray
    qd_rad_s: np.ndarray


@lru_cache(maxsize=LATENCY_MAX_CYCLES + 1)
def plan_matrix(latency_cycles: int) -> tuple[np.ndarray, int]:
    """((6 N, 9), N): N set-points q, qd, qdd, then the gate's velocity, acceleration and jerk, of the nine rows."""
    if not 1 <= latency_cycles <= LATENCY_MAX_CYCLES:
        raise ConfigError(f"latency of {latency_cycles} cycles: give 1 to {LATENCY_MAX_CYCLES}")
    config = InterpolatorConfig()
    start_s = (latency_cycles - 1) * CYCLE_S
    count = int(np.ceil((WAYPOINTS * PERIOD_S - start_s) / CYCLE_S - 1e-9))
    controls = np.zeros((WAYPOINTS + 3, _ROWS))
    controls[:, _Q] = 1.0
    controls[0, _QD] = -PERIOD_S
    controls[2:, _FIRST] = 1.0
    controls[3:, _LATER] = np.arange(1, WAYPOINTS + 1)
    path = np.stack(interpolator._spline(controls, PERIOD_S, start_s + CYCLE_S * np.arange(count)))
    under_way = np.zeros((3, _ROWS))
    under_way[0, _HISTORY.stop - 1] = under_way[1, _QD_NOW] = under_way[2, _QDD_NOW] = 1.0
    basis = interpolator._hand_over(config.blend_s, config.period_s)
    rows = path[:, 1:].copy()
    rows[:, : basis.shape[1]] -= basis @ (path[:, 0] - under_way)
    history = np.zeros((HISTORY, _ROWS))
    history[:, _HISTORY] = np.eye(HISTORY)
    differences = setpoint_differences(np.concatenate([history, rows[0]]), CYCLE_S)
    matrix = np.concatenate([*rows, *differences.values()])
    matrix.setflags(write=False)
    return matrix, count - 1


class StepPlayer:
    """Plays steps on a `TrainingWorld` as the guard plays chunks. Time is counted in control cycles since `reset`."""

    def __init__(self, world, certify: bool = True) -> None:
        """`certify` False: every plan is built and checked by the runtime's own functions."""
        self._world, self._gate = world, SafetyGate()
        self._certificate = Certificate() if certify else None
        self._x = np.zeros((_ROWS, ur5.DOF))

    def reset(self, q_rad: np.ndarray) -> None:
        """Stand at (6,)."""
        self.cycle, self.refused, self.accepted, self.certified = 0, Counter(), 0, 0
        q = np.array(q_rad, dtype=float)
        self._q, self._qd, self._qdd = q[None], np.zeros((1, ur5.DOF)), np.zeros((1, ur5.DOF))
        self._index = 0  # of the set-point that is sent next
        self._before = (np.repeat(q[None], HISTORY, axis=0), np.zeros(ur5.DOF), np.zeros(ur5.DOF))
        self._unfinished = None  # of a plan whose stop is not built yet: its chunk, start and what it answers

    def commanded(self) -> Answered:
        """The commanded state as the guard would publish it now."""
        history, qd, _ = self._motion()
        return Answered(self.cycle, history[-1], qd)

    def _motion(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The last three set-points (3, 6), velocity and acceleration (6,) at the last of them."""
        i = self._index
        if i == 0:
            return self._before
        if i >= HISTORY:
            history = self._q[i - HISTORY : i]
        else:
            history = np.concatenate([self._before[0][i - HISTORY :], self._q[:i]])
        return history, self._qd[i - 1], self._qdd[i - 1]

    def offer(self, first_rad: np.ndarray, later_rad: np.ndarray, answered: Answered) -> bool:
        """A step (6,) and its continuation; whether it replaces the plan under way."""
        matrix, n = plan_matrix(self.cycle - answered.cycle)
        motion = self._motion()
        x = self._x
        x[_Q], x[_QD], x[_FIRST], x[_LATER] = answered.q_rad, answered.qd_rad_s, first_rad, later_rad
        x[_HISTORY], x[_QD_NOW], x[_QDD_NOW] = motion
        if self._certificate is not None:
            rows = matrix @ x
            q = rows[:n]
            end = x[_Q] + x[_FIRST] + (WAYPOINTS - 1) * x[_LATER]
            if self._certificate.covers(q, rows[3 * n :], end, x[_LATER] / PERIOD_S, CYCLE_S):
                waiting = (x.copy(), answered, self.cycle)
                self._replace(motion, q, rows[n : 2 * n], rows[2 * n : 3 * n], waiting)
                self.certified += 1
                return True
            reason = self._certificate.refuses(rows[3 * n :])
            if reason:
                self.refused[reason] += 1
                return False
        return self._offer_in_full(x, answered, motion)

    def _offer_in_full(self, x: np.ndarray, answered: Answered, motion) -> bool:
        try:
            plan = _full_plan(x, answered, self.cycle)
        except PlanRefused as refusal:
            self.refused[refusal.reason.value] += 1
            return False
        verdict = self._gate.check_plan(plan, motion[0])
        if not verdict.accepted:
            self.refused[verdict.reason] += 1
            return False
        self._replace(motion, plan.q_rad, plan.qd_rad_s, plan.qdd_rad_s2, None)
        return True

    def _replace(self, motion, q, qd, qdd, unfinished) -> None:
        self._before = tuple(part.copy() for part in motion)
        self._q, self._qd, self._qdd, self._unfinished, self._index = q, qd, qdd, unfinished, 0
        self.accepted += 1

    def advance(self) -> None:
        """One control cycle: send the next set-point and let physics pass. Past a plan's end its rest is held."""
        if self._index >= len(self._q):
            self._finish()
        i = self._index
        self._world.cycle(self._q[i].tolist(), self._qd[i].tolist())
        self._index += 1
        self.cycle += 1

    def _finish(self) -> None:
        """Build the stop behind a certified plan, or hold the last set-point."""
        if self._unfinished is not None:
            plan = _full_plan(*self._unfinished)
            self._q, self._qd, self._qdd, self._unfinished = plan.q_rad, plan.qd_rad_s, plan.qdd_rad_s2, None
            if self._index < len(self._q):
                return
        history, qd, qdd = self._motion()
        self._before = (history.copy(), qd.copy(), qdd.copy())
        self._q, self._qd, self._qdd = history[-1:].copy(), np.zeros((1, ur5.DOF)), np.zeros((1, ur5.DOF))
        self._index = 0


def _full_plan(x: np.ndarray, answered: Answered, cycle: int) -> Plan:
    """The runtime's plan of the nine rows, for set-points from `cycle` on."""
    start_s, stamp_s = cycle * CYCLE_S, answered.cycle * CYCLE_S
    waypoints = x[_Q] + x[_FIRST] + np.arange(WAYPOINTS)[:, None] * x[_LATER]
    chunk = JointChunk(0, 0, stamp_s, f"env-{cycle}", "policy", ur5.JOINT_NAMES, PERIOD_S, waypoints)
    rest = np.zeros((1, ur5.DOF))
    under_way = Plan(
        CYCLE_S, start_s, x[_HISTORY][-1:].copy(), rest, rest.copy(), x[_HISTORY].copy(), x[_QD_NOW].copy(),
        x[_QDD_NOW].copy(),
    )
    published = Published(stamp_s, x[_Q].copy(), x[_QD].copy())
    return build_plan(chunk, start_s, under_way, 0, answered=published)
