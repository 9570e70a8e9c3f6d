"""`steadyhand-sim-agv`: simulated vehicles that speak VDA 5050 to an MQTT broker, in real time, one process.

Prints one JSON line {"ready": ...} when it drives; whether the broker is there it does not wait for. Ends on SIGTERM or
SIGINT, saying OFFLINE. `sim_agv.sock` (JSON lines) is for tests: truth, buttons, obstacles, load.
"""
from __future__ import annotations

import argparse
import gc
import json
import os
import signal
import sys
from pathlib import Path

import numpy as np

from steadyhand.errors import ConfigError, SteadyhandError
from steadyhand.slot import current_slot
from steadyhand.vda5050.codec import VERSIONS
from steadyhand.vda5050.header import Identity
from steadyhand_sim.agv.fleet import Fleet, Unit, make_unit
from steadyhand_sim.agv.mqtt_link import Broker
from steadyhand_sim.agv.noise import NoiseParameters
from steadyhand_sim.agv.order import Place
from steadyhand_sim.agv.plant import KinematicPlant
from steadyhand_sim.agv.site import Site
from steadyhand_sim.agv.vehicle_config import VehicleConfig, parse_pose
from steadyhand_sim.json_lines import JsonLinesServer

MAX_VEHICLES = 50
START = "-5,0,0"
ROW_M = 0.9  # between vehicles that start side by side


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="steadyhand-sim-agv", description=__doc__.split("\n")[0])
    parser.add_argument("--broker", default=None, help="HOST[:PORT] (default: the slot's address, port 1883)")
    parser.add_argument("--user", default="", help="user at the broker")
    parser.add_argument("--password-file", type=Path, default=None, help="file that holds the password only")
    parser.add_argument("--ca-file", type=Path, default=None, help="TLS: certificate authority of the broker")
    parser.add_argument("--vehicles", type=int, default=1)
    parser.add_argument("--manufacturer", default="steadyhand")
    parser.add_argument("--serial", default="agv", help="the vehicle's; with several SERIAL1, SERIAL2, ...")
    parser.add_argument("--protocol", choices=VERSIONS, default=VERSIONS[0], help="VDA 5050 version")
    parser.add_argument("--interface", default="", help="first part of the topics (default: the standard's)")
    parser.add_argument("--site", type=Path, default=None, help="JSON file of the hall")
    parser.add_argument("--pose", default=None, help=f"X,Y,HEADING of the (first) vehicle in m and rad ({START})")
    parser.add_argument("--not-localised", action="store_true", help="wait for initPosition")
    parser.add_argument("--plant", choices=("kinematic", "bullet", "cell"), default="kinematic",
                        help="bullet: a PyBullet cell of its own; cell: the arm's world (steadyhand-sim --agv)")
    parser.add_argument("--no-noise", action="store_true", help="perfect sensors and floor")
    parser.add_argument("--load", type=float, default=0.0, help="kg on the deck")
    parser.add_argument("--charge", type=float, default=80.0, help="of the battery, percent")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(argv)


def _broker(args: argparse.Namespace, default_host: str) -> Broker:
    host, _, port = (args.broker or default_host).rpartition(":") if ":" in (args.broker or "") else (
        args.broker or default_host, "", "1883")  # fmt: skip
    if not port.isdecimal():
        raise ConfigError(f"--broker {args.broker!r}: give HOST or HOST:PORT")
    password = ""
    if args.password_file is not None:
        try:
            password = args.password_file.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            said = getattr(error, "strerror", None) or error
            raise ConfigError(f"--password-file {str(args.password_file)!r}: {said}") from error
    return Broker(host, int(port), args.user, password, args.ca_file)


def _plant(args: argparse.Namespace, config: VehicleConfig, noise: NoiseParameters, rng: np.random.Generator):
    if args.plant == "kinematic":
        return KinematicPlant(config, noise, rng)
    if args.plant == "cell":
        from steadyhand_sim.agv.body_link import RemoteBody

        return RemoteBody(current_slot())
    from steadyhand_sim.agv.bullet_plant import BulletPlant  # PyBullet only where it is asked for

    return BulletPlant.in_own_cell(config)


def build(args: argparse.Namespace) -> list[Unit]:
    """The vehicles of the command line; raises SteadyhandError naming what is wrong."""
    if not 1 <= args.vehicles <= MAX_VEHICLES:
        raise ConfigError(f"--vehicles {args.vehicles}: give 1 to {MAX_VEHICLES}")
    if args.plant != "kinematic" and args.vehicles > 1:
        raise ConfigError(f"--plant {args.plant} is for one vehicle; leave --vehicles out or take the kinematic plant")
    if args.plant == "cell" and args.pose is not None:
        raise ConfigError(f"--pose {args.pose!r}: with --plant cell it stands where steadyhand-sim --agv-pose says")
    if args.seed < 0:
        raise ConfigError(f"--seed {args.seed}: give 0 or more")
    config = VehicleConfig()
    for name, value, most in (("load", args.load, 1000.0), ("charge", args.charge, 100.0)):
        if not 0.0 <= value <= most:
            raise ConfigError(f"--{name} {value}: give 0 to {most:g}")
    noise = NoiseParameters.none() if args.no_noise else NoiseParameters.load()
    site = Site() if args.site is None else Site.load(args.site)
    x, y, heading = parse_pose("--pose", args.pose or START)
    units = []
    for number in range(args.vehicles):
        serial = args.serial if args.vehicles == 1 else f"{args.serial}{number + 1}"
        identity = Identity(args.manufacturer, serial, args.protocol, args.interface)
        rng = np.random.default_rng([args.seed, number])
        side = (number + 1) // 2 * (1 if number % 2 else -1)
        plant = _plant(args, config, noise, rng)
        pose = plant.pose() if args.plant == "cell" else (x, y + ROW_M * side, heading)
        stands = Place(pose[0], pose[1], site.map_id)
        if why := site.passable(stands, stands, 0.0):
            raise ConfigError(f"vehicle {serial}: {why}; give another --pose, or fewer --vehicles beside one another")
        unit = make_unit(identity, plant, config, site, noise, rng, pose, not args.not_localised, args.charge)
        unit.vehicle.load_kg = args.load
        units.append(unit)
    return units


def main(argv: list[str] | None = None) -> int:
    """Run until a signal; exit code 2 for a wrong argument or a taken slot, 3 when the cell's world has ended."""
    args = _arguments(argv)
    stopping = False

    def stop(*_) -> None:
        nonlocal stopping
        stopping = True

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    try:
        slot = current_slot()
        broker = _broker(args, slot.robot_host)
        units = build(args)
        score = JsonLinesServer(slot.socket_dir / "sim_agv.sock", lambda request: fleet.handle(request))
    except SteadyhandError as error:
        print(f"steadyhand-sim-agv: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"steadyhand-sim-agv: socket folder {slot.socket_dir}: {error}", file=sys.stderr)
        return 2
    fleet = Fleet(units, broker)
    gc.collect()
    gc.freeze()
    serials = [unit.identity.serial_number for unit in units]
    print(json.dumps({"ready": serials, "broker": f"{broker.host}:{broker.port}", "pid": os.getpid()}), flush=True)
    try:
        fleet.run(until=lambda: stopping, poll=score.poll, files=score.files, period_s=units[0].vehicle.config.period_s)
    except SteadyhandError as error:
        print(f"steadyhand-sim-agv: {error}", file=sys.stderr)
        return 3
    finally:
        fleet.close()
        score.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
