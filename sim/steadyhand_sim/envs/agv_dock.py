"""`Steadyhand/AGVDock-v0`: drive the vehicle to the loading dock beside the arm, past people who cross its way.

Success: the true pose within `DOCK_M` and `DOCK_RAD` of the dock, at rest for `REST_S`. One step is 0.2 s, five control
periods of the vehicle. Striking a person, the table or the post ends the episode. With `protective_field=False` the
scanner's field does not hold the vehicle, so that what a reward alone teaches can be studied: to freeze, or to hit.
"""
from __future__ import annotations

import math

import gymnasium
import numpy as np

from steadyhand.errors import ConfigError
from steadyhand_sim.agv.vehicle_config import VehicleConfig
from steadyhand_sim.envs import rewards
from steadyhand_sim.envs.agv_hall import Hall
from steadyhand_sim.envs.arm_config import INVALID_STREAK, OBSERVATION_LIMIT, OBSERVATIONS
from steadyhand_sim.envs.dock_io import DOCK_ACTION_NAMES, DOCK_OBSERVATION_NAMES, SPEED_M_S, TURN_RAD_S
from steadyhand_sim.look import sample_look

STEP_S = 0.2
DOCK_M, DOCK_RAD, REST_S = 0.02, 0.035, 0.4
SEEN_M, MISSED = 6.0, 0.05  # a person is seen up to here, and missed in this share of steps
_PLACE_NOISE_M, _RATE_NOISE_M_S = 0.05, 0.10
_LEFT_M = 5.0  # further from the dock than this the task is lost
_REST_M_S, _REST_RAD_S = 0.01, 0.02


class AGVDockEnv(gymnasium.Env):
    """`info` as in the arm's environments, and `field_stops`."""

    metadata = {"render_modes": []}
    task = "dock"

    def __init__(
        self, observations: str = "state", noise: bool = True, reward: str = "bounded", protective_field: bool = True,
        time_limit_s: float = 40.0, vehicle: VehicleConfig | None = None, look_split: str = "train",
    ) -> None:
        if observations not in OBSERVATIONS:
            raise ConfigError(f"observations={observations!r}: give one of {', '.join(OBSERVATIONS)}")
        if not 5.0 <= time_limit_s <= 600.0:
            raise ConfigError(f"time_limit_s={time_limit_s}: give 5 to 600")
        self.observations, self.noise, self.protective_field = observations, bool(noise), bool(protective_field)
        self.max_steps, self.vehicle, self._split = round(time_limit_s / STEP_S), vehicle or VehicleConfig(), look_split
        self.reward = rewards.make(self.task, reward, self.max_steps)
        self.action_names, self.observation_names = DOCK_ACTION_NAMES, DOCK_OBSERVATION_NAMES
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
        self._hall: Hall | None = None
        self._view = None
        limit = OBSERVATION_LIMIT
        if observations == "state":
            self.observation_space = gymnasium.spaces.Box(-limit, limit, (len(self.observation_names),), np.float32)
        else:
            from steadyhand_sim.envs.views import VehicleView, proprioception

            self._view, self._proprioception = VehicleView(), proprioception(self.observation_names)
            self.observation_space = self._view.space(len(self._proprioception))
        self.state_names = self.observation_names if self._view is None else tuple(
            self.observation_names[i] for i in self._proprioception
        )

    def reset(self, *, seed: int | None = None, options: dict | None = None):
        """A new start, a new person. Everything random in the episode follows from the seed."""
        super().reset(seed=seed)
        if self._hall is not None:
            self._hall.close()
        # the hall draws from a generator of its own: what it draws does not depend on when the environment draws
        self._hall_seed = int(self.np_random.integers(2**31))
        self._hall = Hall(
            np.random.default_rng([self._hall_seed, 3]), self.noise, self.protective_field, self.vehicle
        )
        self._steps, self._invalid, self._invalid_total, self._rest_s, self._refused = 0, 0, 0, 0.0, {}
        self._look = sample_look(self._hall_seed, self._split) if self._view is not None else None
        self.reward.reset(self._reward_state(False, ""))
        return self._observe(), self._info("", False, {})

    def step(self, action: np.ndarray):
        """0.2 s. ConfigError for a wrong shape; not finite or out of [-1, 1] is not driven: the vehicle brakes."""
        action = np.asarray(action, dtype=float)
        if action.shape != self.action_space.shape:
            raise ConfigError(f"action: shape {action.shape}, expected {self.action_space.shape}")
        speed, rotation = self._wanted(action)
        hall, struck = self._hall, ""
        for _ in range(round(STEP_S / self.vehicle.period_s)):
            hall.pass_period(speed, rotation)
            struck = struck or hall.struck()
        self._steps += 1
        success = not struck and self._docked()
        failure = {"person": "hit_person", "thing": "hit_thing"}.get(struck, "")
        if not success and not failure:
            along, across, _ = hall.dock_from(hall.pose())
            failure = "lost" if math.hypot(along, across) > _LEFT_M else ""
            failure = failure or ("invalid_actions" if self._invalid >= INVALID_STREAK else "")
        truncated = not success and not failure and self._steps >= self.max_steps
        if truncated:
            failure = "time"
        paid = action if np.isfinite(action).all() else np.zeros(2)
        reward, terms = self.reward.step(self._reward_state(success, struck), paid, self._steps * STEP_S)
        terminated = success or (failure != "" and not truncated)
        return self._observe(), reward, terminated, truncated, self._info(failure, success, terms)

    def close(self) -> None:
        """Free physics and renderer."""
        if self._hall is not None:
            self._hall.close()
            self._hall = None
        if self._view is not None:
            self._view.close()

    def _wanted(self, action: np.ndarray) -> tuple[float, float]:
        reason = ""
        if not np.isfinite(action).all():
            reason = "not_finite"
        elif np.abs(action).max() > 1.0 + 1e-6:
            reason = "out_of_range"
        if reason:
            self._refused[reason] = self._refused.get(reason, 0) + 1
            self._invalid += 1
            self._invalid_total += 1
            return 0.0, 0.0
        self._invalid = 0
        return float(action[0]) * SPEED_M_S, float(action[1]) * TURN_RAD_S

    def _docked(self) -> bool:
        along, across, turn = self._hall.dock_from(self._hall.pose())
        speed, rotation = self._hall.plant.twist()
        still = abs(speed) < _REST_M_S and abs(rotation) < _REST_RAD_S
        if still and math.hypot(along, across) <= DOCK_M and abs(turn) <= DOCK_RAD:
            self._rest_s += STEP_S
        else:
            self._rest_s = 0.0
        return self._rest_s >= REST_S - 1e-9

    def _observe(self):
        hall = self._hall
        pose = hall.localisation.pose()
        along, across, turn = hall.dock_from(pose)
        values = [
            along, across, math.sin(turn), math.cos(turn),
            hall.localisation.speed_m_s, hall.localisation.rotation_rad_s,
            hall.speed_m_s, hall.rotation_rad_s, float(hall.safety.field_violation), *self._person_seen(),
        ]
        state = np.clip(np.array(values, dtype=np.float32), -OBSERVATION_LIMIT, OBSERVATION_LIMIT)
        if self._view is None:
            return state
        image = self._view.draw(hall, self._look, (self._hall_seed, self._steps))
        return {"image": image, "state": state[self._proprioception]}

    def _person_seen(self) -> tuple[float, ...]:
        """Seen or not, place and velocity in the vehicle's frame, with the scanner's noise."""
        missed, *noise = self.np_random.random(), *self.np_random.standard_normal(4).tolist()
        hall = self._hall
        person = hall.person_xy_m()
        if person is None or (self.noise and missed < MISSED):
            return (0.0,) * 5
        pose = hall.pose()
        ahead, across = hall.in_vehicle(pose, *person)
        if math.hypot(ahead, across) > SEEN_M:
            return (0.0,) * 5
        scale_m, scale_m_s = (_PLACE_NOISE_M, _RATE_NOISE_M_S) if self.noise else (0.0, 0.0)
        rate = hall.person.velocity_m_s
        return (
            1.0, ahead + scale_m * noise[0], across + scale_m * noise[1],
            math.cos(pose[2]) * rate + scale_m_s * noise[2], -math.sin(pose[2]) * rate + scale_m_s * noise[3],
        )

    def _reward_state(self, success: bool, struck: str) -> np.ndarray:
        hall = self._hall
        along, across, turn = hall.dock_from(hall.pose())
        speed, rotation = hall.plant.twist()
        gap = hall.person_gap_m()
        return np.array([along, across, turn, speed, rotation, gap, float(success), float(bool(struck))])

    def _info(self, failure: str, success: bool, terms: dict[str, float]) -> dict:
        return {
            "success": success, "is_success": success, "failure": failure, "terms": terms,
            "time_s": self._steps * STEP_S, "invalid_streak": self._invalid, "invalid_total": self._invalid_total,
            "refused": dict(self._refused), "field_stops": self._hall.field_stops,
        }
