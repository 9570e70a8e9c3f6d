"""RECOVERING: slow moves that reduce no violated margin, so that an arm beyond a limit can be jogged back (I2).

For each margin (joint ranges, tool box, clearance) that is violated, the limit is the best value reached since arming,
less a slack for rounding and interpolation that does not add up: the best value only rises.
"""
from __future__ import annotations

from dataclasses import replace

import numpy as np

from steadyhand import collision, kinematics
from steadyhand.limits import Limits
from steadyhand.safety_gate import GateConfig, SafetyGate

SLACK_RAD, SLACK_M = 1e-3, 1e-3


class Recovering:
    """Margins of one arming in mode RECOVERING. A margin is the signed distance inside a limit."""

    def __init__(self, limits: Limits, gate: GateConfig, speed_rad_s: float):
        self.limits, self._gate_config, self._speed = limits, gate, speed_rad_s
        self.reset()

    def reset(self) -> None:
        """A new arming."""
        self._best = np.full(19, -np.inf)

    def margins(self, q_rad: np.ndarray) -> np.ndarray:
        """(19,) signed: 6 lower and 6 upper joint limits, 3 lower and 3 upper sides of the tool's box, clearance."""
        limits = self.limits
        links = kinematics.link_transforms(np.asarray(q_rad, dtype=float)[None])
        tool = kinematics.pose_base_link_tool(q_rad)[:3, 3]
        clearance = collision.path_clearance(q_rad[None], links, limits.min_clearance_m).clearance_m
        return np.concatenate([
            q_rad - limits.q_min_rad, limits.q_max_rad - q_rad, tool - limits.tool_min_m, limits.tool_max_m - tool,
            [clearance - limits.min_clearance_m],
        ])  # fmt: skip

    def gate(self, q_rad: np.ndarray) -> SafetyGate:
        """The gate for a chunk that starts at the commanded `q_rad` (6,)."""
        limits = self.limits
        self._best = np.maximum(self._best, np.minimum(self.margins(q_rad), 0.0))
        slack = np.array([SLACK_RAD] * 12 + [SLACK_M] * 7)
        give = np.where(self._best < 0.0, self._best - slack, 0.0)  # 0 or negative: how far outside is allowed
        relaxed = replace(
            limits,
            qd_max_rad_s=np.minimum(limits.qd_max_rad_s, self._speed),
            q_min_rad=limits.q_min_rad + give[:6],
            q_max_rad=limits.q_max_rad - give[6:12],
            tool_min_m=limits.tool_min_m + give[12:15],
            tool_max_m=limits.tool_max_m - give[15:18],
        )
        return SafetyGate(relaxed, self._gate_config, min_clearance_m=limits.min_clearance_m + float(give[18]))
