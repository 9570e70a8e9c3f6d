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
# Without feedback rest cannot be measured: then the guard has this long to measure it or to say REST_UNKNOWN (I6).
BLIND, BLIND_LIMIT_S = ("feedback_lost", "robot_unreachable"), 2.1
AWAY = "robot_unreachable"  # what comes back may be a controller that started anew, with pose and outputs of its own
# A stop in the middle of an acceleration ends that acceleration within the jerk limit first: 8 rad/s2 at 300 rad/s3
# take 27 ms, in which the speed still rises a little. After that the sum over the joints falls (one joint may gain).
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
        self._stopped_at_s: float | None = None  # since when rest is waited for and watched
        self._onset_until_s = float("-inf")
        self._rest_q: np.ndarray | None = None
        self._gripper_at_stop = 0.0
        self._away = False  # the controller was, and nothing else than before has been seen of it since
        self._new_guard = False  # it started while we watched and has not been armed yet
        self._commanded_unarmed = False
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
        was_armed, is_armed = previous.mode in ARMED, state.mode in ARMED
        if state.seq < previous.seq and state.token != previous.token and not is_armed:
            self.stops += int(was_armed)
            self._new_guard, self._commanded_unarmed, self._stopped_at_s = True, False, None
        else:
            if state.stamp_s <= previous.stamp_s or state.seq <= previous.seq:
                self._report("I3", state, f"state {state.seq} at {state.stamp_s:.3f} after {previous.seq}")
            if is_armed and not was_armed:
                self._armed(state)
            if was_armed and not is_armed:
                self.stops += 1
                self._watch_rest(state, previous.gripper_commanded_m)
                self._onset_until_s = state.stamp_s + ONSET_S
        if self._new_guard:
            self._before_arming(state)
        if not is_armed and self._stopped_at_s is not None:
            self._while_stopped(state, previous)
        if is_armed and not self._motion_allowed and _speed(state) > REST_QD_RAD_S:
            self._report("I2", state, f"moves at {_speed(state):.3f} rad/s without a goal after arming")
            self._motion_allowed = True  # once is enough
        # before the first feedback the guard knows no pose and says NaN; armed, it must
        if is_armed and not _finite(state.q_commanded_rad, state.qd_commanded_rad_s):
            self._report("I4", state, "a commanded value is not finite")

    def _armed(self, state: State) -> None:
        self.armings += 1
        self._stopped_at_s, self._new_guard = None, False
        if state.token in self._tokens:
            self._report("I3", state, f"token {state.token} was used before")
        self._tokens.add(state.token)

    def _watch_rest(self, state: State, gripper_commanded_m: float) -> None:
        """From this state on the arm must come to rest in time and stay there, and the gripper keep its command."""
        self._stopped_at_s, self._rest_q, self._gripper_at_stop = state.stamp_s, None, gripper_commanded_m
        self._away = False

    def _before_arming(self, state: State) -> None:
        """A guard that started anew, whatever the arm did when the old one died: what a stop was under way is the
        controller's, which this guard sees from its first feedback on. Of its own it commands nothing."""
        if _speed(state) > REST_QD_RAD_S and not self._commanded_unarmed:
            self._report("I1", state, f"a new guard commands {_speed(state):.3f} rad/s before it was armed")
            self._commanded_unarmed = True  # once is enough
        if self._stopped_at_s is None and _finite(state.q_rad, state.q_commanded_rad, state.gripper_commanded_m):
            self._watch_rest(state, state.gripper_commanded_m)

    def _while_stopped(self, state: State, previous: State) -> None:
        self._away |= _says(state, AWAY) and not _says(previous, AWAY)
        if self._away and self._shows_another(state):
            self._watch_rest(state, state.gripper_commanded_m)  # once an outage; from here on it must stay as it is
            return
        if state.gripper_commanded_m != self._gripper_at_stop:
            self._report("I12", state, f"gripper command {self._gripper_at_stop} -> {state.gripper_commanded_m} m")
            self._gripper_at_stop = state.gripper_commanded_m
        allowed_rise = ONSET_RISE_RAD_S if state.stamp_s <= self._onset_until_s else SPEED_RISE_RAD_S
        if _total_speed(state) > _total_speed(previous) + allowed_rise:
            self._report("I1", state, f"commanded speed rose to {_total_speed(state):.3f} rad/s after the stop")
        q = np.asarray(state.q_commanded_rad)
        if self._rest_q is None:
            blind = _says(state, BLIND)
            limit_s = BLIND_LIMIT_S if blind else STOP_LIMIT_S
            said_unknown = blind and state.mode == "REST_UNKNOWN"
            if _speed(state) <= REST_QD_RAD_S and state.at_rest and state.stamp_s > self._onset_until_s:
                self._rest_q = q  # not at once: an arm all but at rest has a last set-point under way
            elif state.stamp_s - self._stopped_at_s > limit_s and not said_unknown:
                self._report("I1", state, f"not at rest {limit_s} s after the stop")
                self._stopped_at_s = state.stamp_s
        elif np.abs(q - self._rest_q).max() > STILL_RAD:
            self._report("I1", state, f"commanded joints moved {np.abs(q - self._rest_q).max():.4f} rad while stopped")
            self._rest_q = q

    def _shows_another(self, state: State) -> bool:
        moved = self._rest_q is not None and np.abs(np.asarray(state.q_commanded_rad) - self._rest_q).max() > STILL_RAD
        return moved or state.gripper_commanded_m != self._gripper_at_stop

    def _report(self, invariant: str, state: State, detail: str) -> None:
        self.violations.append(Violation(invariant, state.stamp_s, detail))


def _says(state: State, cause: str | tuple[str, ...]) -> bool:
    return any(c.startswith(cause) for c in state.causes)


def _speed(state: State) -> float:
    return float(np.abs(state.qd_commanded_rad_s).max())


def _total_speed(state: State) -> float:
    return float(np.abs(state.qd_commanded_rad_s).sum())


def _finite(*values) -> bool:
    return all(np.isfinite(np.asarray(v)).all() for v in values)
