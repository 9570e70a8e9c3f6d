"""What can be set of the UR5 environments, and the names of what they give."""
from __future__ import annotations

from dataclasses import dataclass

from steadyhand import ur5
from steadyhand.errors import ConfigError
from steadyhand.policy_io import PERIOD_S
from steadyhand_sim.envs.motion import LATENCY_MAX_CYCLES
from steadyhand_sim.envs.training_world import Rates
from steadyhand_sim.world import WorldConfig

OBSERVATION_LIMIT = 10.0
INVALID_STREAK = 3  # invalid actions in a row that end an episode
JOINT_OBSERVATION_NAMES = (
    *(f"q_{name.removesuffix('_joint')}" for name in ur5.JOINT_NAMES),  # rad, measured
    *(f"qd_{name.removesuffix('_joint')}" for name in ur5.JOINT_NAMES),  # rad/s, measured
    *(f"command_minus_q_{name.removesuffix('_joint')}" for name in ur5.JOINT_NAMES),  # rad, times 10
    "target_x", "target_y", "target_z", "target_sin_4_yaw", "target_cos_4_yaw",  # m, base_link
    "gripper_width", "gripper_commanded_closed",
    "tool_x", "tool_y", "tool_z", "tool_yaw",  # m, rad, base_link: where the measured joints put it
    "tool_tilt_x", "tool_tilt_y",  # x and y of the tool's axis, 0 when it points down
    "target_yaw",  # rad, base_link: of its four equal ones that nearest to the tool's
)  # fmt: skip
OBSERVATIONS = ("state", "image")


@dataclass(frozen=True)
class Perception:
    """Errors of the running graph's estimate of the target, standard deviations in metres and radians."""

    bias_m: float = 0.003  # per axis and episode
    noise_m: float = 0.001  # per axis and observation
    yaw_bias_rad: float = 0.03
    width_noise_m: float = 0.0003

    def __post_init__(self) -> None:
        for name in ("bias_m", "noise_m", "yaw_bias_rad", "width_noise_m"):
            if not 0.0 <= getattr(self, name) <= 0.5:
                raise ConfigError(f"{name}={getattr(self, name)}: give 0 to 0.5")


NO_NOISE = Perception(0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True)
class ArmConfig:
    """What every UR5 task has."""

    world: WorldConfig = WorldConfig()
    rates: Rates = Rates()
    perception: Perception = Perception()
    latency_min_cycles: int = 3  # 24 to 64 ms from state to plan in force, as in the running graph
    latency_max_cycles: int = 8
    time_limit_s: float = 8.0
    certify: bool = True  # False: every plan through the whole gate; same set-points, slower
    look_split: str = "train"

    def __post_init__(self) -> None:
        if not 1 <= self.latency_min_cycles <= self.latency_max_cycles <= LATENCY_MAX_CYCLES:
            raise ConfigError(
                f"latency_min_cycles={self.latency_min_cycles}, latency_max_cycles={self.latency_max_cycles}: "
                f"give 1 to {LATENCY_MAX_CYCLES}, ascending"
            )
        if not 1.0 <= self.time_limit_s <= 120.0:
            raise ConfigError(f"time_limit_s={self.time_limit_s}: give 1 to 120")

    @property
    def max_steps(self) -> int:
        """Policy periods of an episode."""
        return round(self.time_limit_s / PERIOD_S)
