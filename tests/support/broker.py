"""A real mosquitto for tests, on this slot's loopback address and a free port."""
import os
import socket
import subprocess
import time
from pathlib import Path

import pytest

from steadyhand.slot import current_slot
from steadyhand_cli.broker import find
from tests.support.guard_rig import _die_with_parent


class Broker:
    """`start` and `kill` as often as wanted; the port stays. `lines` are added to its configuration."""

    def __init__(self, folder: Path, lines: tuple[str, ...] = ("allow_anonymous true",)):
        found = find()
        if found is None:
            pytest.skip("no mosquitto here: make setup fetches it where apt-get is, or install it")
        self.path, self.environment = found
        self.host = current_slot().robot_host
        with socket.socket() as probe:
            probe.bind((self.host, 0))
            self.port = probe.getsockname()[1]
        self.config = folder / "mosquitto.conf"
        user = "user root\n" if os.getuid() == 0 else ""
        self.config.write_text(f"{user}listener {self.port} {self.host}\n" + "\n".join(lines) + "\n")
        self.log = folder / "mosquitto.log"
        self.process = None

    def start(self):
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [self.path, "-c", str(self.config)], stdout=log, stderr=log, env=self.environment,
                preexec_fn=_die_with_parent,
            )  # fmt: skip
        end_s = time.monotonic() + 10.0
        while time.monotonic() < end_s:
            try:
                socket.create_connection((self.host, self.port), 0.5).close()
                return self
            except OSError:
                assert self.process.poll() is None, self.log.read_text()
                time.sleep(0.01)
        raise AssertionError("mosquitto does not listen")

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait(5)
            self.process = None
