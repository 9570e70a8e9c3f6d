"""The committed plan under way: which set-point is next, braking it, replacing it, and whether the arm follows it."""
from __future__ import annotations

import math
from collections import deque

import numpy as np

from steadyhand import ur5
from steadyhand.braking import scale_to_rest
from steadyhand.limits import Limits
from steadyhand.plan import Plan, hold_plan
from steadyhand.safety_gate import SafetyGate

STILL_RAD_S = 1e-3  # a commanded speed not worth speaking of


class Motion:
    """Holds a plan and an index; `advance` gives the set-point of one cycle. No plan: nothing is commanded."""

    def __init__(self, period_s: float, limits: Limits, lag_s: float):
        self.period_s, self.limits = period_s, limits
        self.plan: Plan | None = None
        self.index = 0  # the next set-point
        self._still_from = 0  # the first set-point with none behind it that moves
        self.q_rad = np.zeros(ur5.DOF)  # last set-point sent
        self.qd_rad_s = np.zeros(ur5.DOF)
        self._lag_s = lag_s
        self._sent: deque[tuple[float, np.ndarray]] = deque(maxlen=4 + math.ceil(2 * lag_s / period_s))

    def begin(self, q_rad: np.ndarray, now_s: float) -> None:
        """Hold `q_rad`, the controller's own target: the first set-point after arming."""
        self._replace(hold_plan(q_rad, self.period_s, now_s))
        self.q_rad, self.qd_rad_s = np.array(q_rad, dtype=float), np.zeros(ur5.DOF)
        self._sent.clear()

    def clear(self) -> None:
        """Empty everything: no plan, no memory of what was sent."""
        self.plan = None
        self.qd_rad_s = np.zeros(ur5.DOF)
        self._sent.clear()

    def commit(self, plan: Plan) -> None:
        """A checked plan replaces the one under way from the next set-point on."""
        self._replace(plan)

    def _replace(self, plan: Plan) -> None:
        self.plan, self.index = plan, 0
        moves = np.flatnonzero(np.abs(plan.qd_rad_s).max(axis=1) > STILL_RAD_S)
        self._still_from = int(moves[-1]) + 1 if len(moves) else 0

    def brake(self) -> float:
        """S1: play the plan to rest by scaling time; the stop's duration in seconds. Raises when there is no plan."""
        stop = scale_to_rest(self.plan, self.index, self.limits)
        self._replace(stop.plan)
        return stop.stop_s

    def advance(self, now_s: float) -> np.ndarray:
        """The next set-point (6,), which the caller sends now."""
        self.q_rad, self.qd_rad_s, _ = self.plan.setpoint(self.index)
        self.index += 1
        self._sent.append((now_s, self.q_rad))
        return self.q_rad

    @property
    def ended(self) -> bool:
        """Whether the plan's last set-point, which is at rest, has been sent (or there is none)."""
        return self.plan is None or self.index >= len(self.plan)

    @property
    def moving(self) -> bool:
        """Whether the set-point sent last had a speed worth speaking of."""
        return bool(np.abs(self.qd_rad_s).max() > STILL_RAD_S)

    @property
    def settled(self) -> bool:
        """Whether neither the set-point sent last nor any behind it moves: a plan that turns round stands for a moment."""
        return not self.moving and (self.plan is None or self.index >= self._still_from)

    def left_s(self) -> float:
        """Time to the plan's rest."""
        return 0.0 if self.plan is None else self.plan.left_s(self.index)

    def tracking_fault(self, gate: SafetyGate, q_measured_rad: np.ndarray, stamp_s: float) -> str:
        """Why the arm does not follow what was sent `lag_s` ago; empty when it does."""
        if not self._sent:
            return ""
        times_s, q_rad = zip(*self._sent)
        verdict = gate.check_cycle(
            np.array(times_s), np.concatenate(q_rad).reshape(-1, ur5.DOF), q_measured_rad, stamp_s, self._lag_s
        )
        return verdict.detail
