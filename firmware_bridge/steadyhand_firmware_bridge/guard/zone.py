"""Where arm and vehicle meet (I13): whether the arm is there, or is about to be. Pure."""
from __future__ import annotations

import numpy as np

from steadyhand import kinematics
from steadyhand.plan import Plan

EVERY = 4  # set-points of a plan that are looked at: 32 ms, some centimetres at the limits of speed
BEHIND = 25  # set-points that a moving arm may be behind the one sent last: 0.2 s, thrice the lag of the servo law


class Zone:
    """`box_m`: x, y, z from and x, y, z to in base_link; empty: there is no zone, and nothing is ever in it."""

    def __init__(self, box_m: tuple[float, ...]):
        self._box = np.array(box_m, dtype=float).reshape(2, 3) if box_m else None
        self._plan: tuple[Plan | None, int] = (None, -BEHIND)  # and from which set-point on it is clear for good

    def inside(self, q_rad: np.ndarray) -> np.ndarray:
        """(N,) whether a frame of a link, the middle between two of them, or the tool is in the box, for q (N, 6)."""
        if self._box is None:
            return np.zeros(len(q_rad), dtype=bool)
        links = kinematics.link_transforms(q_rad)
        joints = links[..., :3, 3]  # (N, 6, 3)
        tool = (links[:, -1] @ kinematics.T_TOOL0_TOOL)[:, None, :3, 3]
        points = np.concatenate([joints, tool], axis=1)
        points = np.concatenate([points, 0.5 * (points[:, 1:] + points[:, :-1])], axis=1)
        return ((points >= self._box[0]) & (points <= self._box[1])).all(axis=2).any(axis=1)

    def _of_plan(self, plan: Plan) -> np.ndarray:
        return self.inside(np.concatenate([plan.q_rad[::EVERY], plan.q_rad[-1:]]))

    def says(self, q_rad: np.ndarray | None, plan: Plan | None, index: int = 0, at_rest: bool = False) -> str:
        """What the vehicle's guard is told: empty when the arm is clear and stays so.

        `q_rad` is measured, `index` the next set-point of the plan, `at_rest` as measured.
        """
        if self._box is None:
            return ""
        if q_rad is None or not np.isfinite(q_rad).all():
            return "where the arm is, is unknown"
        if self.inside(q_rad[None])[0]:
            return "the arm is over the vehicle"
        if plan is not None and plan is not self._plan[0]:
            found = np.flatnonzero(self._of_plan(plan))
            self._plan = (plan, EVERY * int(found[-1] + 1) if len(found) else -BEHIND)
        reached = index if at_rest else index - BEHIND
        return "the arm is about to reach over the vehicle" if plan is not None and reached < self._plan[1] else ""

    def forbids(self, plan: Plan, q_rad: np.ndarray) -> bool:
        """Whether this plan may not begin while the vehicle moves: it enters the zone, again too, or stays there."""
        if self._box is None:
            return False
        found = np.concatenate([self.inside(q_rad[None]), self._of_plan(plan)])
        return bool(found[-1] or (found[1:] & ~found[:-1]).any())
