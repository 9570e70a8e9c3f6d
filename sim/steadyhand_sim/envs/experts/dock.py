"""The vehicle's expert: along the dock's line, slower near it, turned at last; it waits for people who cross."""
from __future__ import annotations

import math

import numpy as np

from steadyhand_sim.envs.dock_io import DOCK_AT, SPEED_M_S, TURN_RAD_S

_LINE_M, _LINE_S = 0.12, 0.8  # aims at the dock's line so far ahead: nearer when slow
_VIEW_M, _VIEW_M_S = 1.9, 0.30  # slow from here on: the marker comes into view, and the place is known better
_GATE_M, _GATE_ACROSS_M, _GATE_M_S = 1.6, 0.02, 0.06  # beside the line before the table: get onto it first
_LANE_HALF_M = 0.85  # half the vehicle's width, a person, and room
_AHEAD_M, _CROSSING_S = 2.4, 3.0


class DockExpert:
    """`act(observation, info)`; a pure function of the state observation."""

    def act(self, observation: np.ndarray, info: dict | None = None) -> np.ndarray:
        """Wanted speed and rotation, each in [-1, 1]."""
        o = {name: float(observation[i]) for name, i in DOCK_AT.items()}
        along, across = o["dock_along"], o["dock_across"]
        turn = math.atan2(o["dock_sin_turn"], o["dock_cos_turn"])
        if self._must_wait(o):
            return np.zeros(2, dtype=np.float32)
        if along < 0.004 and o["speed"] > 0.03:
            return _action(0.0, 0.0)
        if along < 0.004:  # at the dock: what is left is the heading, and a little back if it went too far
            rotation = 0.0 if abs(turn) < 0.008 else math.copysign(min(0.6, 1.5 * abs(turn) + 0.01), turn)
            creep = max(-0.05, min(0.05, along)) if abs(turn) < 0.02 and along < -0.004 else 0.0
            return _action(creep, rotation)
        aim = turn + math.atan2(across, _LINE_M + _LINE_S * abs(o["speed"]))
        speed = min(0.8, 0.9 * along, math.sqrt(2.0 * 0.35 * max(along, 0.0)))
        if along < _VIEW_M:
            speed = min(speed, _VIEW_M_S)
        if abs(aim) > 0.5 or (along < _GATE_M and abs(across) > _GATE_ACROSS_M):
            speed = min(speed, _GATE_M_S)
        return _action(max(speed, 0.012), max(-0.9, min(0.9, 1.6 * aim)))

    def _must_wait(self, o: dict[str, float]) -> bool:
        """Somebody is in the way, or will be before the vehicle is past."""
        if o["person_seen"] < 0.5:
            return False
        x, y, vy = o["person_ahead"], o["person_across"], o["person_across_rate"]
        if not 0.25 < x < _AHEAD_M:
            return False
        if abs(y) < _LANE_HALF_M:
            return True
        return y * vy < 0.0 and abs(vy) > 0.1 and (abs(y) - _LANE_HALF_M) / abs(vy) < _CROSSING_S


def _action(speed_m_s: float, rotation_rad_s: float) -> np.ndarray:
    return np.clip([speed_m_s / SPEED_M_S, rotation_rad_s / TURN_RAD_S], -1.0, 1.0).astype(np.float32)
