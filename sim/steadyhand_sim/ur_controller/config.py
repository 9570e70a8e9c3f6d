"""What distinguishes one emulated controller from another."""
from __future__ import annotations

import math
from dataclasses import dataclass

from steadyhand import ur5
from steadyhand.errors import ConfigError

# a, d in m: Universal Robots, "DH parameters for calculations of kinematics and dynamics"
KINEMATICS: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "UR5": (tuple(ur5.DH_A_M), tuple(ur5.DH_D_M)),
    "UR5e": ((0.0, -0.425, -0.3922, 0.0, 0.0, 0.0), (0.1625, 0.0, 0.0, 0.1333, 0.0997, 0.0996)),
    "UR10": ((0.0, -0.612, -0.5723, 0.0, 0.0, 0.0), (0.1273, 0.0, 0.0, 0.163941, 0.1157, 0.0922)),
}
# A program somebody left on the controller: swings the last joint for ever, as whoever presses play would see.
WAVE = """def wave():
  while True:
    q = get_target_joint_positions()
    q[5] = q[5] + 0.2
    movej(q, a=1.0, v=0.5)
    q[5] = q[5] - 0.2
    movej(q, a=1.0, v=0.5)
  end
end
"""


@dataclass(frozen=True)
class ControllerConfig:
    """A controller generation and what the real one leaves to its installation file."""

    version: tuple[int, int, int, int] = (3, 15, 8, 106339)
    control_hz: float = 125.0
    tcp: tuple[float, ...] = (0.0, 0.0, ur5.TOOL_LENGTH_M, 0.0, 0.0, 0.0)  # in the flange
    program_stop_rad_s2: float = 10.0  # a program ends or pauses while moving; the vendor publishes no figure
    safety_stop_rad_s2: float = 15.0  # controlled stop of category 1 and 2; below the motors' own 19-34 (NTNU 2013)
    joint_speed_limit_rad_s: float = 3.34  # 191 deg/s: safety limit of the UR5's most restricted preset
    deviation_limit_rad: float = 0.15  # measured against target: protective stop ("position deviates from path")
    contact_n: float = 10.0  # tool_contact reports a contact from here on; the vendor publishes no figure
    power_on_s: float = 0.4  # simulated; the real one takes seconds
    brake_release_s: float = 0.4
    unlock_delay_s: float = 5.0  # dashboard manual: a protective stop is not unlocked before
    serial_number: str = "20155300001"
    model: str = "UR5"
    kinematics: str = "UR5"  # DH lengths that the controller has configured; the plant stays what it is
    programs: tuple[tuple[str, str], ...] = (("wave.urp", WAVE),)  # files on the controller: name, text

    def __post_init__(self) -> None:
        if len(self.version) != 4 or not all(0 <= n < 2**32 for n in self.version):
            raise ConfigError(f"ControllerConfig.version={self.version}: give four numbers of 0 to {2**32 - 1}")
        if not 10.0 <= self.control_hz <= 1000.0:
            raise ConfigError(f"ControllerConfig.control_hz={self.control_hz}: give 125 (CB3) or 500 (e-Series)")
        if len(self.tcp) != 6 or not all(math.isfinite(x) for x in self.tcp):
            raise ConfigError(f"ControllerConfig.tcp={self.tcp}: give six finite numbers")
        for name in ("program_stop_rad_s2", "safety_stop_rad_s2", "joint_speed_limit_rad_s", "deviation_limit_rad", "contact_n"):
            if not getattr(self, name) > 0.0:
                raise ConfigError(f"ControllerConfig.{name}={getattr(self, name)}: give a positive number")
        if self.kinematics not in KINEMATICS:
            raise ConfigError(f"ControllerConfig.kinematics={self.kinematics!r}: give one of {', '.join(KINEMATICS)}")
        for name in ("power_on_s", "brake_release_s", "unlock_delay_s"):
            if not 0.0 <= getattr(self, name) <= 60.0:
                raise ConfigError(f"ControllerConfig.{name}={getattr(self, name)}: give 0 to 60 s")

    @staticmethod
    def cb3() -> ControllerConfig:
        """UR5 with a CB3 controller: 125 Hz, PolyScope 3.15."""
        return ControllerConfig()

    @staticmethod
    def e_series() -> ControllerConfig:
        """e-Series controller: 500 Hz, PolyScope 5.11. The arm behind it stays what the plant is."""
        return ControllerConfig(version=(5, 11, 6, 110120), control_hz=500.0, serial_number="20205500001")

    @property
    def is_e_series(self) -> bool:
        """PolyScope 5."""
        return self.version[0] >= 5

    @property
    def steptime_s(self) -> float:
        """Length of a control cycle."""
        return 1.0 / self.control_hz
