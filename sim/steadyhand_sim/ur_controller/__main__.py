"""`python -m steadyhand_sim.ur_controller`: the emulated controller over the plant without physics, on its own.

Its standard input is the pendant: a line names a method of the controller (`protective_stop`, `stop_program` ...) or
`state`; each is answered by one JSON line. The process ends when the input is closed.
"""
from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import sys
import time

from steadyhand.errors import ConfigError, SteadyhandError
from steadyhand_sim.ur_controller.controller import ControllerConfig, URController
from steadyhand_sim.ur_controller.kinematic_plant import KinematicPlant
from steadyhand_sim.ur_controller.realtime import GRIPPERS, ControllerServer

PENDANT = (
    "protective_stop", "unlock_protective_stop", "safeguard_stop", "release_safeguard", "emergency_stop",
    "release_emergency_stop", "power_on", "power_off", "brake_release", "pause_program", "play_program", "stop_program",
    "reduced_mode", "normal_mode", "local_control", "remote_control_on", "press_freedrive", "release_freedrive",
    "press_play", "recovery_mode", "leave_recovery", "violation", "fault", "restart_safety",
    "automatic_safeguard_stop", "three_position_stop",
)  # fmt: skip

INPUT_BITS = 18  # 8 standard, 8 configurable, 2 at the tool


class Pendant:
    """Lines from a file descriptor, read without blocking."""

    def __init__(self, server: ControllerServer, fd: int):
        self._server, self._fd, self._buffer = server, fd, b""
        self.closed = False
        os.set_blocking(fd, False)

    def poll(self) -> None:
        """Act on complete lines."""
        try:
            data = os.read(self._fd, 4096)
        except BlockingIOError:
            return
        self.closed = not data
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            print(json.dumps(self._act(line.decode("utf-8", "replace").strip())), flush=True)

    def _act(self, command: str) -> dict:
        controller = self._server.controller
        if command in PENDANT:
            at_s = time.monotonic()  # between two control cycles: the next one shows it
            return {"command": command, "result": getattr(controller, command)(), "at_s": at_s}
        if command != "state":
            return {"command": command, **self._at_the_plant(*command.split())}
        return {
            "cycle": controller.cycle,
            "robot_mode": controller.robot_mode.name,
            "safety_mode": controller.safety_mode.name,
            "runtime_state": controller.runtime_state.name,
            "freedrive": controller.freedrive,
            "gripper_width_m": controller.plant.gripper_width_m(),
            "gripper_writes": self._server.robotiq.writes if self._server.robotiq is not None else 0,
            "digital_outputs": controller.digital_outputs,
            "popup": controller.popup,
            "payload_kg": controller.payload_kg,
            "payload_cog_m": controller.payload_cog_m,
            "gravity_m_s2": controller.gravity_m_s2,
            "loaded": controller.loaded_program,
            "program": controller.program_name,
            "counters": controller.counters | self._server.net.counters,
            "overruns": self._server.overruns,
            "messages": [text for _, text in controller.messages],
        }

    def _at_the_plant(self, name: str = "", *values: str) -> dict:
        """`touch FX FY FZ` presses against the tool (N, `base`); `shove JOINT SPEED` knocks a joint (0..5, rad/s);
        `digital_input N 0|1` sets an input; `object WIDTH` puts something of that width (m, 0 for nothing) between the
        fingers; `gripper_fault FLT` is a Robotiq's."""
        plant = self._server.controller.plant
        try:
            if name == "touch":
                force = [float(v) for v in values]
                if len(force) != 3 or not all(map(math.isfinite, force)):
                    raise ValueError("give three finite numbers, N")
                plant.tcp_force_n[:3] = force
                return {"result": None}
            if name == "shove":
                joint, speed = int(values[0]), float(values[1])
                if not (0 <= joint < 6 and abs(speed) <= 10.0):
                    raise ValueError("give a joint of 0 to 5, and up to 10 rad/s")
                plant.shove(joint, speed)
                return {"result": None}
            if name == "digital_input":
                bit, on = map(int, values)
                if not 0 <= bit < INPUT_BITS or on not in (0, 1):
                    raise ValueError(f"give an input of 0 to {INPUT_BITS - 1}, and 0 or 1")
                plant.digital_inputs = plant.digital_inputs & ~(1 << bit) | bool(on) << bit
                return {"result": None}
            if name == "object":
                plant.object_m = float(values[0]) or None
                return {"result": None}
            if name == "gripper_fault" and self._server.robotiq is not None:
                self._server.robotiq.fault = int(values[0])
                return {"result": None}
        except (ValueError, IndexError) as error:
            return {"error": f"{name}: {error}"}
        others = "state, touch FX FY FZ, shove JOINT SPEED, digital_input N 0|1, object WIDTH, gripper_fault FLT"
        return {"error": f"give {others} or one of {', '.join(PENDANT)}"}


def _plant(text: str) -> KinematicPlant:
    if not text:
        return KinematicPlant()
    try:
        q_rad = [float(word) for word in text.split(",")]
    except ValueError:
        q_rad = []
    if len(q_rad) != 6 or not all(math.isfinite(q) for q in q_rad):
        raise ConfigError(f"--q {text!r}: give six angles in rad, separated by commas")
    return KinematicPlant(q_rad)


def _version(text: str, config: ControllerConfig) -> tuple[int, ...]:
    words = text.split(".") if text else [str(n) for n in config.version]
    if len(words) != 4 or not all(word.isdecimal() for word in words):
        raise ConfigError(f"--version {text!r}: give four numbers with points between them")
    return tuple(int(word) for word in words)


def main() -> int:
    """Parse arguments and serve."""
    parser = argparse.ArgumentParser(prog="ur_controller", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--q", default="", help="six joint angles at the start, rad, comma-separated (default: home)")
    parser.add_argument("--e-series", action="store_true", help="500 Hz, PolyScope 5 (default: CB3, 125 Hz)")
    parser.add_argument("--model", default="UR5", help="what the dashboard says it is")
    parser.add_argument("--kinematics", default="UR5", help="whose DH lengths it has configured")
    parser.add_argument("--version", default="", help="MAJOR.MINOR.FIX.BUILD in place of the generation's own")
    parser.add_argument("--gripper", choices=GRIPPERS, default="io", help="on the outputs, or a Robotiq with its URCap")
    arguments = parser.parse_args()
    config = ControllerConfig.e_series() if arguments.e_series else ControllerConfig.cb3()
    try:
        config = dataclasses.replace(
            config, model=arguments.model, version=_version(arguments.version, config), kinematics=arguments.kinematics
        )
        server = ControllerServer(URController(_plant(arguments.q), config), arguments.host, gripper=arguments.gripper)
    except SteadyhandError as error:
        print(error, file=sys.stderr)
        return 1
    pendant = Pendant(server, sys.stdin.fileno())
    print(json.dumps({"ready": arguments.host}), flush=True)
    try:
        server.run(until=lambda: pendant.closed, each_cycle=pendant.poll)
    except KeyboardInterrupt:
        pass
    finally:
        server.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
