"""Faults of the simulated cell: a closed list of names, each with checked parameters, and seeded schedules of them.

A fault changes the world, the camera or the controller, as the thing itself would change; the runtime learns of it only
through images and the controller's ports.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from steadyhand import cell
from steadyhand.errors import ConfigError

if TYPE_CHECKING:
    from steadyhand_sim.simulated_cell import SimulatedCell


@dataclass(frozen=True)
class Parameter:
    """A number with its range; without default it must be given."""

    low: float
    high: float
    default: float | None = None


@dataclass(frozen=True)
class FaultSpec:
    """One fault that can be injected."""

    apply: Callable[[SimulatedCell, dict[str, float]], None]
    parameters: dict[str, Parameter] = field(default_factory=dict)
    needs_cube: bool = False  # parameter `index` names a cube of the scene


def _camera(state: str) -> FaultSpec:
    return FaultSpec(lambda target, _: target.set_camera(state))


def _controller(method: str) -> FaultSpec:
    return FaultSpec(lambda target, _: getattr(target.controller, method)())


def _move_cube(target: SimulatedCell, p: dict[str, float]) -> None:
    target.world.move_object(int(p["index"]), np.array([p["x_m"], p["y_m"], p["z_m"]]), p["yaw_rad"])


FAULTS: dict[str, FaultSpec] = {
    "camera_ok": _camera("ok"),
    "camera_blank": _camera("blank"),
    "camera_freeze": _camera("frozen"),
    "camera_off": _camera("off"),
    "finger_friction": FaultSpec(
        lambda target, p: target.world.set_finger_friction(p["value"]), {"value": Parameter(0.0, 5.0, 0.0)}
    ),
    "move_cube": FaultSpec(_move_cube, {
        "index": Parameter(0, cell.MAX_CUBES - 1), "x_m": Parameter(-1.0, 1.0), "y_m": Parameter(-1.0, 1.0),
        "z_m": Parameter(0.0, 1.0, cell.TABLE_Z_M + cell.CUBE_SIZE_M / 2), "yaw_rad": Parameter(-math.pi, math.pi, 0.0),
    }, needs_cube=True),
    "push": FaultSpec(
        lambda target, p: target.world.push_tool(
            np.array([p["fx_n"], p["fy_n"], p["fz_n"]]), p["duration_s"]
        ),
        {
            "fx_n": Parameter(-300, 300, 0.0), "fy_n": Parameter(-300, 300, 0.0), "fz_n": Parameter(-300, 300, 0.0),
            "duration_s": Parameter(0.002, 5.0, 0.2),
        },
    ),
    "stall": FaultSpec(lambda target, p: target.stall(p["duration_s"]), {"duration_s": Parameter(0.0, 5.0)}),
    "protective_stop": _controller("protective_stop"),
    "unlock_protective_stop": _controller("unlock_protective_stop"),
    "emergency_stop": _controller("emergency_stop"),
    "release_emergency_stop": _controller("release_emergency_stop"),
    "safeguard_stop": _controller("safeguard_stop"),
    "release_safeguard": _controller("release_safeguard"),
    "restart_safety": _controller("restart_safety"),
    "power_off": _controller("power_off"),
    "power_on": _controller("power_on"),
    "brake_release": _controller("brake_release"),
    "reduced_mode": _controller("reduced_mode"),
    "normal_mode": _controller("normal_mode"),
    "press_freedrive": _controller("press_freedrive"),
    "release_freedrive": _controller("release_freedrive"),
    "pause": _controller("pause_program"),
    "play": _controller("play_program"),
    "stop_program": _controller("stop_program"),
    "kill_feedback": FaultSpec(lambda target, _: target.set_feedback(False)),
    "impulse_noise": FaultSpec(
        lambda target, p: target.set_impulses(p["sigmas"], p["every_steps"]),
        {"sigmas": Parameter(0.0, 100.0, 5.0), "every_steps": Parameter(1.0, 1e6, 100.0)},
    ),
    "restore_feedback": FaultSpec(lambda target, _: target.set_feedback(True)),
}


@dataclass(frozen=True)
class TimedFault:
    """A fault and the simulated time at which it happens."""

    time_s: float
    name: str
    parameters: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not (math.isfinite(self.time_s) and self.time_s >= 0):
            raise ConfigError(f"fault {self.name}: time_s={self.time_s}: give 0 or more")
        check(self.name, self.parameters)

    @staticmethod
    def parse(text: str) -> TimedFault:
        """`NAME@SECONDS[,key=value...]`, for example `push@4.5,fx_n=60`."""
        try:
            head, *pairs = text.split(",")
            name, at = head.split("@")
            return TimedFault(float(at), name, {k: float(v) for k, v in (pair.split("=") for pair in pairs)})
        except ValueError as error:
            raise ConfigError(f"fault {text!r}: give NAME@SECONDS[,key=value...]") from error


def check(name: str, parameters: dict, n_cubes: int = cell.MAX_CUBES) -> dict[str, float]:
    """Parameters completed with defaults, for a scene of so many cubes; raises ConfigError naming the offender."""
    spec = FAULTS.get(name) if isinstance(name, str) else None
    if spec is None:
        raise ConfigError(f"fault {name!r}: give one of {', '.join(FAULTS)}")
    if not isinstance(parameters, dict) or set(parameters) - set(spec.parameters):
        raise ConfigError(f"fault {name}: parameters {parameters!r}, known are {', '.join(spec.parameters) or 'none'}")
    checked = {}
    for key, parameter in spec.parameters.items():
        value = parameters.get(key, parameter.default)
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or not parameter.low <= value <= parameter.high:  # NaN compares false
            raise ConfigError(f"fault {name}: {key}={value!r}: give {parameter.low} to {parameter.high}")
        checked[key] = float(value)
    if spec.needs_cube and checked["index"] not in range(n_cubes):
        raise ConfigError(f"fault {name}: index={checked['index']:g}: the scene has {n_cubes} cubes, counted from 0")
    return checked


def sample_schedule(
    seed: int, n_faults: int, horizon_s: float, names: tuple[str, ...], n_cubes: int = cell.MAX_CUBES
) -> tuple[TimedFault, ...]:
    """A seeded schedule of `n_faults` over `horizon_s`, sorted by time; required parameters are drawn from their range.

    Raises ConfigError for an unknown name.
    """
    unknown = set(names) - set(FAULTS)
    if unknown or not names:
        raise ConfigError(f"fault names {names!r}: give some of {', '.join(FAULTS)}")
    rng = np.random.default_rng([seed, 3])
    times = np.sort(rng.uniform(0.0, horizon_s, n_faults))
    schedule = []
    for time_s in times:
        name = names[rng.integers(len(names))]
        drawn = {
            key: float(rng.uniform(p.low, p.high)) for key, p in FAULTS[name].parameters.items() if p.default is None
        }
        if FAULTS[name].needs_cube:
            drawn["index"] = float(rng.integers(n_cubes))
        schedule.append(TimedFault(float(time_s), name, drawn))
    return tuple(schedule)
