"""`steadyhand-sim`: the simulated cell behind an emulated UR controller, in real time, one process, one thread.

Opens the controller's ports on one loopback address, the scene socket for the camera and the score socket for tests,
then prints one JSON line {"ready": ...}. Ends on SIGTERM or SIGINT.
"""
from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import signal
import sys
import time

from steadyhand.errors import ConfigError, SteadyhandError
from steadyhand.slot import Slot, current_slot
from steadyhand_sim.agv.body_link import VehicleInCell
from steadyhand_sim.agv.vehicle_config import parse_pose
from steadyhand_sim.faults import TimedFault
from steadyhand_sim.json_lines import JsonLinesServer
from steadyhand_sim.look import SPLITS
from steadyhand_sim.motor_model import MotorParameters
from steadyhand_sim.plant import CellPlant
from steadyhand_sim.scene_stream import SceneServer
from steadyhand_sim.simulated_cell import SimulatedCell
from steadyhand_sim.ur_controller.controller import ControllerConfig, URController
from steadyhand_sim.ur_controller.realtime import GRIPPERS, ControllerServer
from steadyhand_sim.world import World, WorldConfig

SCENE_HZ = 62.5
FIFO_PRIORITY = 10  # below the guard's: the controller emulated here is a computer of its own on a real robot


class CellServer(ControllerServer):
    """The controller's ports, the scene socket and the score socket around one simulated cell."""

    def __init__(self, cell: SimulatedCell, host: str, slot: Slot, gripper: str = "io") -> None:
        super().__init__(cell.controller, host, gripper=gripper)
        self.cell = cell
        cell.loop_state = self._loop_state
        self._started_s, self._started_cpu_s = time.monotonic(), time.process_time()
        self._scene_every = max(1, round(cell.controller.config.control_hz / SCENE_HZ))
        sockets = contextlib.ExitStack()
        sockets.callback(super().close)
        try:
            self._scene = sockets.enter_context(contextlib.closing(SceneServer(slot)))
            self._score = JsonLinesServer(slot.socket_dir / "sim_score.sock", cell.handle)
        except OSError as error:
            sockets.close()
            raise ConfigError(f"socket folder {slot.socket_dir}: {error}") from error

    def cycle(self) -> None:
        """One control cycle; due faults and the vehicle's command come before it, states and the scene go out after it."""
        self.cell.apply_due_faults()
        if self.cell.vehicle is not None:
            self.cell.vehicle.before_cycle()
        if self.cell.stall_s > 0.0:
            time.sleep(self.cell.stall_s)
            self.cell.stall_s = 0.0
        self.step()
        if self.cell.vehicle is not None:
            self.cell.vehicle.after_cycle()
        if self.cell.feedback:
            self.rtde.publish()
        if self.controller.cycle % self._scene_every == 0:
            self._scene.publish(self.cell.snapshot())
        self._score.poll()

    def _loop_state(self) -> dict:
        elapsed_s = max(time.monotonic() - self._started_s, 1e-9)
        return {
            "overruns": self.overruns, "dropped_cycles": self.dropped_cycles, "scene_dropped": self._scene.dropped,
            "cpu_share": (time.process_time() - self._started_cpu_s) / elapsed_s, "elapsed_s": elapsed_s,
            "score_socket": self._score.counters, "ports": self.net.counters, "scheduler": scheduler_name(),
        }

    def close(self) -> None:
        """Close all ports and sockets."""
        if self.cell.vehicle is not None:
            self.cell.vehicle.close()
        self._scene.close()
        self._score.close()
        super().close()


def scheduler_name() -> str:
    """Scheduling class this process has."""
    return {os.SCHED_FIFO: "SCHED_FIFO", os.SCHED_RR: "SCHED_RR"}.get(os.sched_getscheduler(0), "SCHED_OTHER")


def ask_for_fifo() -> None:
    """SCHED_FIFO where it is permitted; `scheduler_name` says what came of it."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(FIFO_PRIORITY))
    except OSError:
        pass


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="steadyhand-sim", description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=0, help="scene, plant and look; 0 or more")
    parser.add_argument("--cubes", type=int, default=5)
    parser.add_argument("--hz", type=int, choices=(125, 500), default=125, help="125: CB3 controller, 500: e-Series")
    parser.add_argument("--host", default=None, help="loopback address of the controller (default: the slot's)")
    parser.add_argument("--look", choices=SPLITS, default="test", help="range the scene's look is drawn from")
    parser.add_argument("--look-seed", type=int, default=None, help="default: the seed")
    parser.add_argument("--finger-friction", type=float, default=WorldConfig.finger_friction)
    parser.add_argument("--gripper", choices=GRIPPERS, default="io", help="on the outputs, or a Robotiq with its URCap")
    parser.add_argument("--motors", default="ur5", help="variant in motors.json")
    parser.add_argument("--camera", default="ok", help="state of the camera at the start: ok, blank, frozen, off")
    parser.add_argument("--fault", action="append", default=[], metavar="NAME@SECONDS[,key=value...]")
    parser.add_argument("--agv", action="store_true", help="a vehicle's body in this world, for steadyhand-sim-agv")
    parser.add_argument("--agv-pose", default="-5,0,0", help="X,Y,HEADING where it stands at the start, in m and rad")
    parser.add_argument("--no-fifo", action="store_true", help="do not ask for SCHED_FIFO")
    return parser.parse_args(argv)


def build(args: argparse.Namespace) -> SimulatedCell:
    """World, controller and cell of the command line; raises SteadyhandError naming what is wrong."""
    look_seed = args.seed if args.look_seed is None else args.look_seed
    for name, value in (("seed", args.seed), ("look-seed", look_seed)):
        if value < 0:
            raise ConfigError(f"--{name} {value}: give 0 or more")
    schedule = [TimedFault.parse(text) for text in args.fault]
    config = WorldConfig(
        n_cubes=args.cubes, finger_friction=args.finger_friction, motors=MotorParameters.load(variant=args.motors)
    )
    world = World(config, args.seed)
    controller_config = ControllerConfig.cb3() if args.hz == 125 else ControllerConfig.e_series()
    cell = SimulatedCell(
        world, URController(CellPlant(world), controller_config), look_seed, args.look, schedule
    )
    cell.set_camera(args.camera)
    return cell


def add_vehicle(cell: SimulatedCell, args: argparse.Namespace, slot: Slot) -> None:
    """Put the vehicle of the command line into the cell; raises ConfigError."""
    if not args.agv:
        return
    pose = parse_pose("--agv-pose", args.agv_pose)
    try:
        cell.vehicle = VehicleInCell(cell.world.client, slot, pose)
    except OSError as error:
        raise ConfigError(f"socket folder {slot.socket_dir}: {error}") from error


def main(argv: list[str] | None = None) -> int:
    """Run until a signal; exit code 2 for a wrong argument, a taken port or slot."""
    args = _arguments(argv)
    stopping = False

    def stop(*_) -> None:
        nonlocal stopping
        stopping = True

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    try:
        slot = current_slot()
        cell = build(args)
        server = CellServer(cell, args.host or slot.robot_host, slot, args.gripper)
        add_vehicle(cell, args, slot)  # after the ports: a taken slot is named by them
    except SteadyhandError as error:
        print(f"steadyhand-sim: {error}", file=sys.stderr)
        return 2
    if not args.no_fifo:
        ask_for_fifo()
    gc.collect()
    gc.freeze()
    print(json.dumps({
        "ready": server.host, "hz": args.hz, "seed": args.seed, "cubes": args.cubes, "pid": os.getpid(),
        "scheduler": scheduler_name(), "agv": cell.vehicle is not None,
    }), flush=True)
    try:
        server.run(until=lambda: stopping)
    finally:
        server.close()
        cell.world.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
