"""What is really there, in the words of a contract: robot, formulation, streams with their units, calibration.

Made from the core's own constants, so that a change there is a change here. A robot with a calibrated kinematics, or a
policy that sees a camera, gives its own facts (`with_camera`, `kinematics_sha256`).
"""
from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from steadyhand import policy_io, ur5
from steadyhand.errors import ConfigError, ContractError
from steadyhand_policies.contract_format import CARTESIAN_DELTA, Calibration, Sensor

FRAME = "base_link"
KINEMATICS, CAMERA = "kinematics", "camera"
STATE_HZ = 62.5  # every second state of the guard
OBJECTS_HZ = 15.0  # the slowest camera of a shipped configuration; between images the estimator predicts

# Units by element, the first is the name for people; the others mean the same.
_METRE, _PER_S, _TURN_PER_S, _NONE = ("m",), ("m/s",), ("rad/s",), ("1",)
_OBSERVATION_UNITS = {
    "target_minus_tool_x": _METRE, "target_minus_tool_y": _METRE, "target_minus_tool_z": _METRE,
    "sin_4_yaw_error": _NONE, "cos_4_yaw_error": _NONE, "tool_vx": _PER_S, "tool_vy": _PER_S, "tool_vz": _PER_S,
    "tool_yaw_rate": _TURN_PER_S, "tool_z": _METRE, "gripper_width": _METRE, "gripper_commanded_closed": _NONE,
    "skill_pick": _NONE, "skill_place": _NONE,
}
_LENGTH = (f"{policy_io.STEP_M * 1e3:g} mm a period",)
_ANGLE = (f"{policy_io.STEP_YAW_RAD:g} rad a period",)
_ACTION_UNITS = {"dx": _LENGTH, "dy": _LENGTH, "dz": _LENGTH, "dyaw": _ANGLE, "grip": ("vote",)}

Units = tuple[tuple[str, tuple[str, ...]], ...]  # (name, its accepted units), in order


@dataclass(frozen=True)
class RuntimeFacts:
    """What a contract must agree with."""

    robot: str
    formulation: str
    joint_names: tuple[str, ...]
    tool_length_m: float
    frame: str
    observation: Units
    action: Units
    steps: Mapping[str, float]  # field of the contract -> SI units that an action of 1 means
    period_s: float
    horizon: int
    sensors: tuple[Sensor, ...]
    calibration: Mapping[str, str]  # of what -> SHA-256 of the numbers in use


def this_runtime(joint_names: tuple[str, ...] = ur5.JOINT_NAMES) -> RuntimeFacts:
    """The UR5 as this runtime moves it: `steadyhand.policy_io` on `steadyhand.ur5`."""
    return RuntimeFacts(
        robot="ur5", formulation=CARTESIAN_DELTA, joint_names=joint_names, tool_length_m=ur5.TOOL_LENGTH_M,
        frame=FRAME,
        observation=tuple((name, _OBSERVATION_UNITS[name]) for name in policy_io.OBSERVATION_NAMES),
        action=tuple((name, _ACTION_UNITS[name]) for name in policy_io.ACTION_NAMES),
        steps={"step_m": policy_io.STEP_M, "step_yaw_rad": policy_io.STEP_YAW_RAD, "step_rad": 0.0},
        period_s=policy_io.PERIOD_S, horizon=policy_io.HORIZON, sensors=STATE_SENSORS,
        calibration={KINEMATICS: kinematics_sha256()},
    )


STATE_SENSORS = (
    Sensor("commanded_joints", "rad", FRAME, (ur5.DOF,), STATE_HZ),
    Sensor("gripper_width", "m", "", (1,), STATE_HZ),
    Sensor("objects", "m", FRAME, (3,), OBJECTS_HZ),
)


def kinematics_sha256(
    a_m: np.ndarray = ur5.DH_A_M, d_m: np.ndarray = ur5.DH_D_M, alpha_rad: np.ndarray = ur5.DH_ALPHA_RAD,
    tool_length_m: float = ur5.TOOL_LENGTH_M,
) -> str:
    """Hash of the kinematics in use: Denavit-Hartenberg parameters and tool length, as little-endian float64.

    A robot whose calibrated parameters are loaded gives those, and policies trained on the nominal ones are refused.
    """
    return hashlib.sha256(np.asarray([*a_m, *d_m, *alpha_rad, tool_length_m], dtype="<f8").tobytes()).hexdigest()


def own_calibration() -> tuple[Calibration, ...]:
    """The calibration that a policy trained on this runtime's kinematics states."""
    return (Calibration(KINEMATICS, kinematics_sha256()),)


def with_camera(facts: RuntimeFacts, perception_contract: Path, rate_hz: float = OBJECTS_HZ) -> RuntimeFacts:
    """The facts and the camera as the perception model in use declares it: channels, size, intrinsics and pose.

    Raises ConfigError or ContractError naming file and field.
    """
    try:
        content = json.loads(Path(perception_contract).read_text())
    except (OSError, ValueError) as error:
        raise ConfigError(f"{perception_contract}: no readable contract of perception ({error})") from error
    camera = _field(perception_contract, content, "camera", dict)
    height, width = (_field(perception_contract, camera, name, int) for name in ("height_px", "width_px"))
    encoding, frame = (_field(perception_contract, content, name, str) for name in ("encoding", "frame"))
    digest = hashlib.sha256(json.dumps(camera, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    return replace(
        facts, sensors=(*facts.sensors, Sensor(CAMERA, encoding, frame, (height, width, 3), rate_hz)),
        calibration={**facts.calibration, CAMERA: digest},
    )


def _field(path: Path, content: Any, name: str, kind: type) -> Any:
    value = content.get(name) if isinstance(content, dict) else None
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ContractError(f"{path}: {name} is {str(value)[:40]!r}, must be a {kind.__name__}")
    return value
