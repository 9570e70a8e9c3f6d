"""Watches the guard's state stream from outside and says which invariant was broken. Imports nothing of the gate.

Pure: states in, violations out. Used by `steadyhand run` and by the benchmarks.
"""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from steadyhand.guard_protocol import State

ARMED = ("ARMED_AUTO", "ARMED_MANUAL", "RECOVERING")
REST_QD_RAD_S = 0.01  # design: at rest
STOP_LIMIT_S = 1.0  # longest braking at the arm's limits (0.5 s) and its settling, doubled
# A stop in the middle of an acceleration ends that acceleration within the jerk limit first: 8 rad/s2 at 300 rad/s3 take
# 27 ms, in which the speed still rises a little. After that the sum over the joints falls (one joint may gain).
ONSET_S, ONSET_RISE_RAD_S = 0.05, 0.3
SPEED_RISE_RAD_S = 0.05
STILL_RAD = 1e-4  # commanded joints after the stop


@dataclass(frozen=True)
class Violation:
    """One broken invariant: which, when on the guard's clock, and what was seen."""

    invariant: str
    stamp_s: float
    detail: str


class InvariantMonitor:
    """Feed every state in order to `update`; read `violations`."""

    def __init__(self) -> None:
        self.violations: list[Violation] = []
        self.stops = 0
        self.armings = 0
        self.states = 0
        self._previous: State | None = None
        self._stopped_at_s: float | None = None
        self._rest_q: np.ndarray | None = None
        self._gripper_at_stop = 0.0
        self._motion_allowed = False
        self._tokens: set[int] = set()

    def allow_motion(self, allowed: bool) -> None:
        """Say that a goal is running (True) or that nothing has been asked for (False)."""
        self._motion_allowed = allowed

    def update(self, state: State) -> None:
        """Check one state against those before it."""
        previous, self._previous = self._previous, state
        self.states += 1
        if previous is None:
            if state.mode in ARMED:
                self._tokens.add(state.token)
            return
        if state.stamp_s <= previous.stamp_s or state.seq <= previous.seq:
            if state.seq < previous.seq and state.token != previous.token and state.mode not in ARMED:
                return  # the guard started anew; it begins disarmed
            self._report("I3", state, f"state {state.seq} at {state.stamp_s:.3f} after {previous.seq}")
        was_armed, is_armed = previous.mode in ARMED, state.mode in ARMED
        if is_armed and not was_armed:
            self._armed(state)
        if was_armed and not is_armed:
            self.stops += 1
            self._stopped_at_s, self._rest_q = state.stamp_s, None
            self._gripper_at_stop = previous.gripper_commanded_m
        if not is_armed and self._stopped_at_s is not None:
            self._while_stopped(state, previous)
        if is_armed and was_armed and not self._motion_allowed and _speed(state) > REST_QD_RAD_S:
            self._report("I2", state, f"moves at {_speed(state):.3f} rad/s without a goal after arming")
            self._motion_allowed = True  # once is enough
        # before the first feedback the guard knows no pose and says NaN; armed, it must
        if is_armed and not all(np.isfinite(np.asarray(v)).all() for v in (state.q_commanded_rad, state.qd_commanded_rad_s)):
            self._report("I4", state, "a commanded value is not finite")

    def _armed(self, state: State) -> None:
        self.armings += 1
        self._stopped_at_s = self._rest_q = None
        if state.token in self._tokens:
            self._report("I3", state, f"token {state.token} was used before")
        self._tokens.add(state.token)

    def _while_stopped(self, state: State, previous: State) -> None:
        if state.gripper_commanded_m != self._gripper_at_stop:
            self._report("I12", state, f"gripper command {self._gripper_at_stop} -> {state.gripper_commanded_m} m")
            self._gripper_at_stop = state.gripper_commanded_m
        onset = state.stamp_s - self._stopped_at_s <= ONSET_S
        if _total_speed(state) > _total_speed(previous) + (ONSET_RISE_RAD_S if onset else SPEED_RISE_RAD_S):
            self._report("I1", state, f"commanded speed rose to {_total_speed(state):.3f} rad/s after the stop")
        q = np.asarray(state.q_commanded_rad)
        if self._rest_q is None:
            if _speed(state) <= REST_QD_RAD_S and state.at_rest:
                self._rest_q = q
            elif state.stamp_s - self._stopped_at_s > STOP_LIMIT_S:
                self._report("I1", state, f"not at rest {STOP_LIMIT_S} s after the stop")
                self._stopped_at_s = state.stamp_s
        elif np.abs(q - self._rest_q).max() > STILL_RAD:
            self._report("I1", state, f"commanded joints moved {np.abs(q - self._rest_q).max():.4f} rad while stopped")
            self._rest_q = q

    def _report(self, invariant: str, state: State, detail: str) -> None:
        self.violations.append(Violation(invariant, state.stamp_s, detail))


def _speed(state: State) -> float:
    return float(np.abs(state.qd_commanded_rad_s).max())


def _total_speed(state: State) -> float:
    return float(np.abs(state.qd_commanded_rad_s).sum())
