"""A robot that hands out prepared observations and writes down what it is sent."""
from __future__ import annotations

import time
from typing import Any

import numpy as np
from lerobot.robots.robot import Robot

from benchmarks.peers.lerobot_plugin.config_recorder import ACTION_NAMES, STATE_NAMES, STATE_SCALE, RecorderConfig
from benchmarks.peers.loop import Log


class Recorder(Robot):
    """Stamps travel with the state, in seconds since the start of the log, and come back with each action."""

    config_class = RecorderConfig
    name = "steadyhand_recorder"

    def __init__(self, config: RecorderConfig) -> None:
        super().__init__(config)
        self._log: Log | None = None
        self._observations = np.empty((0, 0))

    def attach(self, log: Log, observations: np.ndarray) -> None:
        """Where to write, and what to hand out, one row a call."""
        self._log, self._observations = log, observations

    @property
    def observation_features(self) -> dict:
        return dict.fromkeys(STATE_NAMES, float)

    @property
    def action_features(self) -> dict:
        return dict.fromkeys(ACTION_NAMES, float)

    @property
    def is_connected(self) -> bool:
        return True

    @property
    def is_calibrated(self) -> bool:
        return True

    def connect(self, calibrate: bool = True) -> None: ...

    def calibrate(self) -> None: ...

    def configure(self) -> None: ...

    def disconnect(self) -> None: ...

    def get_observation(self) -> dict[str, Any]:
        k = len(self._log.stamps_s) % len(self._observations)
        stamp_s = time.monotonic()
        self._log.stamps_s.append(stamp_s)
        values = (*(self._observations[k] * STATE_SCALE).tolist(), stamp_s - self._log.start_s)
        return dict(zip(STATE_NAMES, values))

    def send_action(self, action: dict[str, Any]) -> dict[str, Any]:
        *values, meant_for_s = (action[name] for name in ACTION_NAMES)
        self._log.execute(np.array(values), self._log.start_s + meant_for_s)
        return action
