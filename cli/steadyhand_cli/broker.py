"""`steadyhand broker`: an MQTT broker for a simulated cell. Real mosquitto, on a loopback address, without logins.

A hall's own broker has TLS and a login for each (docs/agv.md); this one is for simulation, so it serves loopback only.
"""
from __future__ import annotations

import argparse
import ipaddress
import os
import shutil
import sys
from pathlib import Path

from steadyhand.errors import ConfigError, DependencyMissing
from steadyhand.slot import current_slot
from steadyhand_firmware_bridge.guard.server import private_folder

PORT = 1883
MAX_MESSAGE_BYTES = 262_144  # as much as is read here (docs/agv.md)


def add_arguments(parser: argparse.ArgumentParser, name: str) -> None:
    parser.add_argument("--at", default="", help=f"HOST[:PORT], loopback (default: the slot's address, port {PORT})")


def find() -> tuple[str, dict[str, str]] | None:
    """Path of mosquitto and the environment that it needs; None when there is none."""
    installed = shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if installed:
        return installed, dict(os.environ)
    unpacked = Path(sys.prefix) / "broker"
    if (unpacked / "usr/sbin/mosquitto").exists():
        libraries = sorted({str(p.parent) for p in unpacked.rglob("*.so*")})
        return str(unpacked / "usr/sbin/mosquitto"), os.environ | {"LD_LIBRARY_PATH": ":".join(libraries)}
    return None


def require() -> tuple[str, dict[str, str]]:
    """As `find`; DependencyMissing when there is none."""
    found = find()
    if found is None:
        raise DependencyMissing("no mosquitto here: `make setup` fetches it where apt-get is; else install mosquitto")
    return found


def address(text: str, default_host: str) -> tuple[str, int]:
    """Host and port of HOST[:PORT]; ConfigError for anything that others could reach."""
    host, _, port = (text or default_host).partition(":")
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        raise ConfigError(f"--at {text!r}: give a loopback address (127.x.y.z); this broker asks nobody for a login")
    if port and not (port.isdecimal() and 0 < int(port) < 65536):
        raise ConfigError(f"--at {text!r}: give HOST or HOST:PORT")
    return host, int(port or PORT)


def configuration(host: str, port: int) -> str:
    """mosquitto.conf: nothing kept on disk, messages bounded. Root would be changed to a user that may not exist."""
    lines = [f"listener {port} {host}", "allow_anonymous true", f"message_size_limit {MAX_MESSAGE_BYTES}"]
    return "\n".join([*(["user root"] if os.getuid() == 0 else []), *lines]) + "\n"


def run(args: argparse.Namespace) -> int:
    slot = current_slot()
    host, port = address(args.at, slot.robot_host)
    path, environment = require()
    private_folder(slot.socket_dir)
    config = slot.socket_dir / f"broker-{port}.conf"
    config.write_text(configuration(host, port))
    sys.stdout.flush()
    os.execve(path, [path, "-c", str(config)], environment)
    return 1  # never reached: this process is mosquitto now
