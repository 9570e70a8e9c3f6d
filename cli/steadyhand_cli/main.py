"""Entry point of the `steadyhand` command."""
from __future__ import annotations

import argparse
import errno
import importlib
import sys

from steadyhand.errors import SteadyhandError

# Sub-commands by name; each module is imported only when it is asked for, so that `doctor` works when others cannot.
COMMANDS = {
    "run": ("steadyhand_cli.run", "the main job in simulation: clear the tray, with one operator stop in the middle"),
    "cell": ("steadyhand_cli.cell_run", "arm and vehicle in simulation: dock, load, carry away; one operator stop"),
    "launch": ("steadyhand_cli.launch", "run a launch file: steadyhand launch ur5 sim:=true"),
    "broker": ("steadyhand_cli.broker", "an MQTT broker on the slot's address, for a simulated vehicle"),
    "drive": ("steadyhand_cli.drive", "drive the vehicle along places, through its guard"),
    "agv": ("steadyhand_cli.agv", "the vehicle: state, factsheet, position, pause, resume, cancel"),
    "stop": ("steadyhand_cli.operate", "stop the robot through the guard's own stop channel"),
    "rearm": ("steadyhand_cli.operate", "re-arm after a stop; shows what stopped it and what was in progress"),
    "status": ("steadyhand_cli.operate", "what the guard says"),
    "takeover": ("steadyhand_cli.teleop", "stop AUTO along its path and take the arm over by keyboard"),
    "teleop": ("steadyhand_cli.teleop", "jog the arm by keyboard, in MANUAL or RECOVERING"),
    "home": ("steadyhand_cli.after_stop", "after a stop: drive home on a checked path, slowly, in MANUAL"),
    "release": ("steadyhand_cli.after_stop", "after a stop: say what the gripper holds, and open it when confirmed"),
    "step": ("steadyhand_cli.step", "single-step of a task: on, off, next"),
    "commission": ("steadyhand_cli.commission", "look at a robot before it is used; keeps a report"),
    "robot": ("steadyhand_cli.robot", "power on, release brakes, unlock: an operator's word to the robot"),
    "estop": ("steadyhand_cli.estop", "a stop plug-in: keyboard, serial button box or GPIO pin"),
    "link": ("steadyhand_cli.link", "an operator is in control: silence of this process stops the arm"),
    "replay": ("steadyhand_cli.replay", "a recorded ROS 2 bag of a UR5 (estimator, gate, contacts) or of a vehicle"),
    "ssi": ("steadyhand_cli.ssi", "stability of what perception says, on rendered scenes or a recording; a report"),
    "calibrate": ("steadyhand_cli.calibrate", "camera: intrinsics from images of a board; hand-eye: where the camera is"),
    "dst": ("steadyhand_cli.dst.command", "deterministic simulation: the guard in virtual time against every fault"),
    "policy": ("steadyhand_cli.policy", "versions of the policy: check, staged release, roll-back, shadow"),
    "storage": ("steadyhand_cli.storage", "what the output takes on the disk, and its budgets; --sweep deletes"),
    "doctor": ("steadyhand_cli.doctor", "what is missing on this machine and how to get it"),
}


def main(argv: list[str] | None = None) -> int:
    """Run one sub-command; 2 for wrong use or a refused input, with the reason on stderr."""
    argv = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(prog="steadyhand", description="Robotics agent runtime for a UR5 and an AGV.")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    wanted = next((word for word in argv if not word.startswith("-")), None)
    for name, (module, summary) in COMMANDS.items():
        sub = subparsers.add_parser(name, help=summary, description=summary)
        if name == wanted:  # only the one asked for is imported
            importlib.import_module(module).add_arguments(sub, name)
    args = parser.parse_args(argv)
    try:
        return importlib.import_module(COMMANDS[args.command][0]).run(args)
    except SteadyhandError as error:
        print(f"steadyhand {args.command}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        where = f"{error.filename}: " if error.filename else ""
        said = f"{where}{error.strerror}; `steadyhand storage` shows what lies there"
        print(f"steadyhand {args.command}: {said}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
