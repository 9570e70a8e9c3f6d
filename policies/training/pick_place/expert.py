"""The scripted demonstrator: a smooth velocity law, rolled out over the horizon. Pure and vectorised.

It sees what the policy sees (relative target, commanded tool velocity, height, fingers), so that a demonstration can be
learned and any visited observation can be labelled anew (DAgger, Ross et al. 2011). Distances become speeds by a
square-root law, v = min(k d, sqrt(2 a d - (a/k)^2), v_max): exponential near the target, constant deceleration before.
"""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from steadyhand import skills
from steadyhand.policy_io import HORIZON, PERIOD_S, STEP_M, STEP_YAW_RAD


@dataclass(frozen=True)
class ExpertConfig:
    """Speeds and shapes of the demonstrated motion (m, s, rad)."""

    speed_m_s: float = 0.34
    lateral_m_s: float = 0.32
    vertical_m_s: float = 0.26
    gain_1_s: float = 3.0
    response_s: float = 0.1  # time constant from velocity error to acceleration
    deceleration_m_s2: float = 0.7
    # Bound on the change of velocity, growing with the speed: where the guard hands over to a new plan, a start from
    # rest needs up to twice the plan's own acceleration.
    start_m_s2: float = 0.35
    acceleration_m_s2: float = 1.0
    full_at_m_s: float = 0.15
    yaw_gain_1_s: float = 3.5
    yaw_rate_rad_s: float = 1.2
    yaw_deceleration_rad_s2: float = 2.2
    yaw_start_rad_s2: float = 1.0
    yaw_acceleration_rad_s2: float = 3.0
    yaw_full_at_rad_s: float = 0.4
    funnel_slope: float = 3.0  # height above the target per distance beside it
    funnel_radius_m: float = 0.006
    funnel_yaw_m_rad: float = 0.35  # height per yaw error beyond `funnel_yaw_rad`
    funnel_yaw_rad: float = 0.10
    pick_travel_m: float = 0.10  # above the target
    place_travel_m: float = 0.085
    pick_clear_z_m: float = 0.085  # below this an empty tool does not travel: neighbours are 40 mm high
    place_clear_z_m: float = 0.125  # a carried cube clears the box wall
    lift_z_m: float = 0.17
    retreat_z_m: float = skills.RETREAT_Z_M + 0.03


def expert_plan(observations: np.ndarray, config: ExpertConfig = ExpertConfig()) -> tuple[np.ndarray, np.ndarray]:
    """(N, OBSERVATION_DIM) -> accelerations (N, HORIZON, 4) of x, y, z (m/s2) and yaw (rad/s2), votes (N, HORIZON)."""
    o = np.asarray(observations, dtype=float)
    error, yaw_error = o[:, 0:3].copy(), np.arctan2(o[:, 3], o[:, 4]) / 4.0
    velocity, yaw_rate, z = o[:, 5:8].copy(), o[:, 8].copy(), o[:, 9].copy()
    width, closed, pick = o[:, 10], o[:, 11] > 0.5, o[:, 12] > 0.5
    accelerations, votes = np.zeros((len(o), HORIZON, 4)), np.zeros((len(o), HORIZON))
    for k in range(HORIZON):
        wanted, wanted_yaw_rate = _velocity(error, yaw_error, z, width, closed, pick, config)
        change = (wanted - velocity) / config.response_s
        size = np.linalg.norm(change, axis=1, keepdims=True)
        speed = np.linalg.norm(velocity, axis=1, keepdims=True)
        limit = _between(config.start_m_s2, config.acceleration_m_s2, speed / config.full_at_m_s)
        change *= np.minimum(1.0, limit / np.maximum(size, 1e-12))
        limit = _between(
            config.yaw_start_rad_s2, config.yaw_acceleration_rad_s2, np.abs(yaw_rate) / config.yaw_full_at_rad_s
        )
        yaw_change = np.clip((wanted_yaw_rate - yaw_rate) / config.response_s, -limit, limit)
        votes[:, k] = _vote(error, yaw_error, velocity, closed, pick)
        accelerations[:, k, :3], accelerations[:, k, 3] = change, yaw_change
        step = (velocity + change * PERIOD_S / 2) * PERIOD_S
        yaw_error = yaw_error - (yaw_rate + yaw_change * PERIOD_S / 2) * PERIOD_S
        velocity, yaw_rate = velocity + change * PERIOD_S, yaw_rate + yaw_change * PERIOD_S
        error, z = error - step, z + step[:, 2]
    return accelerations, votes


def expert_actions(observations: np.ndarray, config: ExpertConfig = ExpertConfig()) -> np.ndarray:
    """(N, OBSERVATION_DIM) -> (N, HORIZON, ACTION_DIM) within [-1, 1]: the plan integrated from the velocity seen."""
    accelerations, votes = expert_plan(observations, config)
    start = np.asarray(observations, dtype=float)[:, None, 5:9]
    end = start + np.cumsum(accelerations, axis=1) * PERIOD_S
    steps = (np.concatenate([start, end[:, :-1]], axis=1) + end) / 2 * PERIOD_S
    steps /= np.array([STEP_M, STEP_M, STEP_M, STEP_YAW_RAD])
    return np.clip(np.concatenate([steps, votes[:, :, None]], axis=2), -1.0, 1.0)


def _velocity(error, yaw_error, z, width, closed, pick, c: ExpertConfig):
    """Wanted tool velocity (N, 3) and yaw rate (N,)."""
    distance = np.hypot(error[:, 0], error[:, 1])
    approach = pick != closed  # pick with open fingers, place with closed ones: on the way to the target
    travel = np.where(pick, c.pick_travel_m, c.place_travel_m)
    misaligned = np.maximum(np.abs(yaw_error) - c.funnel_yaw_rad, 0.0) * c.funnel_yaw_m_rad
    above = np.minimum(c.funnel_slope * np.maximum(distance - c.funnel_radius_m, 0.0) + misaligned, travel)
    up = np.where(pick, c.lift_z_m - z, c.retreat_z_m - z)
    # fingers first: no lifting before the pads have met the cube, no retreat before they let go of it
    ready = np.where(pick, _ramp(0.050 - width, 0.006), _ramp(width - 0.046, 0.006))
    rise = np.where(approach, error[:, 2] + above, up * (up > 0))
    vertical = _speed(rise, c.gain_1_s, c.deceleration_m_s2, c.vertical_m_s) * np.where(approach, 1.0, ready)
    clear = np.where(pick, c.pick_clear_z_m, c.place_clear_z_m)
    free = np.maximum(_ramp(z - clear + 0.02, 0.02), 1.0 - _ramp(distance - 0.015, 0.015))
    lateral = _speed(distance, c.gain_1_s, c.deceleration_m_s2, c.lateral_m_s) * free * approach
    direction = error[:, :2] / np.maximum(distance, 1e-9)[:, None]
    velocity = np.column_stack([direction * lateral[:, None], vertical])
    size = np.linalg.norm(velocity, axis=1, keepdims=True)
    velocity *= np.minimum(1.0, c.speed_m_s / np.maximum(size, 1e-9))
    yaw_rate = _speed(yaw_error, c.yaw_gain_1_s, c.yaw_deceleration_rad_s2, c.yaw_rate_rad_s) * approach
    return velocity, yaw_rate


def _vote(error, yaw_error, velocity, closed, pick):
    """+1 close, -1 open; graded by the smallest margin, so that it is a continuous function of the observation."""
    distance, height = np.hypot(error[:, 0], error[:, 1]), np.abs(error[:, 2])
    speed = np.linalg.norm(velocity, axis=1)
    yaw = np.abs(yaw_error)
    at_cube = np.minimum.reduce([1 - distance / 0.007, 1 - height / 0.006, 1 - yaw / 0.09, 1 - speed / 0.06])
    at_place = np.minimum.reduce([1 - distance / 0.012, 1 - height / 0.010, 1 - speed / 0.06])
    grade = lambda margin: np.clip(2.5 * margin, -1.0, 1.0)
    return np.where(pick, np.where(closed, 1.0, grade(at_cube)), np.where(closed, -grade(at_place), -1.0))


def _speed(distance, gain, deceleration, limit):
    """Square-root law, odd in the distance."""
    d = np.abs(distance)
    knee = deceleration / gain**2
    far = np.sqrt(np.maximum(2 * deceleration * d - (deceleration / gain) ** 2, 0.0))
    return np.sign(distance) * np.minimum(np.where(d < knee, gain * d, far), limit)


def _between(low, high, share):
    """From low at 0 to high at 1, smooth."""
    return low + (high - low) * _ramp(share, 1.0)


def _ramp(value, width):
    """0 below 0, 1 above `width`, smooth between."""
    u = np.clip(value / width, 0.0, 1.0)
    return u * u * (3 - 2 * u)


class Demonstrator:
    """The demonstrator as any training asks for one: `act(observation, info)` -> chunk (HORIZON, ACTION_DIM)."""

    def act(self, observation: np.ndarray, info: dict | None = None) -> np.ndarray:
        return expert_actions(np.asarray(observation)[None])[0]


def expert(env_id: str) -> Demonstrator:
    """`demonstrations.expert` of a run in `Steadyhand/UR5PickPlace-v0`."""
    return Demonstrator()
