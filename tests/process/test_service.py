"""A guard as a service, a real process: on a disk that is full, told to its manager, and in the way of a switch."""
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from steadyhand import ur5
from steadyhand.guard_protocol import STATES, Chunk, Verdict
from steadyhand_firmware_bridge import operator
from steadyhand_firmware_bridge.client import GuardClient
from tests.support.small_disk import fill, small_disk

pytestmark = pytest.mark.process
SWITCH = Path(__file__).parents[2] / "ops/switch.sh"


@pytest.fixture
def guard(tmp_path):
    """`guard(log, words)` starts one on a robot (or a vehicle) in its process; it is ready then."""
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind(str(tmp_path / "notify"))
    manager.settimeout(20.0)
    config = tmp_path / "guard.yaml"
    config.write_text("{shell_timeout_s: 1.0, command_timeout_s: 1.0}")
    started = []

    def start(log, words=("main", "--robot", "fake", "--config", str(config))):
        runtime = tmp_path / "steadyhand-8"
        env = os.environ | {
            "NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "1000000", "XDG_RUNTIME_DIR": str(runtime),
            "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), "STEADYHAND_SLOT": "8",
        }  # fmt: skip
        command = [sys.executable, "-m", f"steadyhand_firmware_bridge.guard.{words[0]}", *words[1:]]
        process = subprocess.Popen(command, env=env, stdout=log, stderr=log)
        started.append(process)
        assert manager.recv(1000).startswith(b"READY=1\nSTATUS=SCHED_")
        return process, manager, runtime / "slot8"

    yield start
    for process in started:
        process.kill()
        process.wait(5)
    manager.close()


def armed(folder):
    """A commander whose arm is armed."""
    client = GuardClient("commander", commander=True, folder=folder)
    client.connect()
    assert operator.wait_rest(5.0, folder).at_rest
    reply = operator.rearm("auto", folder=folder)
    assert reply.ok, reply
    assert client.wait(lambda m: isinstance(m, STATES) and m.mode == "ARMED_AUTO", 5.0)
    return client


def test_a_full_disk_behind_its_log_costs_the_guard_nothing(guard, tmp_path):
    with small_disk(tmp_path / "disk", 1) as disk, (disk / "guard.log").open("ab", buffering=0) as log:
        fill(disk)
        process, manager, folder = guard(log)
        client = armed(folder)
        s = client.state
        q = np.array(s.q_commanded_rad) + np.outer(np.arange(1, 9) * 0.002, [1, 0, 0, 0, 0, 0])
        client.send(Chunk(
            token=s.token, state_seq=s.seq, state_stamp_s=s.stamp_s, trace_id="t", source="planner",
            joint_names=list(ur5.JOINT_NAMES), period_s=0.05, q_rad=q.tolist(),
        ))  # fmt: skip
        verdict = client.wait(lambda m: isinstance(m, Verdict), 5.0)
        assert verdict.accepted, verdict
        assert manager.recv(100) == b"WATCHDOG=1"
        operator.stop("panel", "", folder)
        assert operator.wait_rest(5.0, folder).at_rest
        client.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
        manager.settimeout(0.0)
        assert [said for said in iter(lambda: _heard(manager), b"") if said != b"WATCHDOG=1"] == [b"STOPPING=1"]
        assert (disk / "guard.log").read_bytes() == b""  # there really was no room for a line


def test_a_guard_that_hangs_says_nothing_to_its_manager(guard):
    """Frozen, as by a debugger: no thread and no timer of its own keeps the watchdog quiet."""
    process, manager, _ = guard(subprocess.DEVNULL)
    assert manager.recv(100) == b"WATCHDOG=1"
    process.send_signal(signal.SIGSTOP)
    manager.settimeout(0.0)
    end_s = time.monotonic() + 5.0
    while _heard(manager):  # what was sent before
        assert time.monotonic() < end_s
    manager.settimeout(1.0)  # the limit: by then systemd ends it
    with pytest.raises(TimeoutError):
        manager.recv(100)
    manager.settimeout(20.0)
    process.send_signal(signal.SIGCONT)
    assert manager.recv(100) == b"WATCHDOG=1"


def _heard(manager):
    try:
        return manager.recv(100)
    except BlockingIOError:
        return b""


def test_versions_are_not_switched_under_an_armed_arm(guard, tmp_path):
    prefix = tmp_path / "prefix"
    path = os.pathsep.join(p for p in sys.path if p)
    for version in ("1.0", "1.1"):
        program = prefix / version / ".venv/bin/steadyhand"
        program.parent.mkdir(parents=True)
        asked = f'exec env PYTHONPATH="{path}" "{sys.executable}" -m steadyhand_cli.main "$@"'
        program.write_text(f'#!/bin/sh\n[ "$1" = doctor ] && exit 0\n{asked}\n')
        program.chmod(0o755)
    (prefix / "current").symlink_to("1.0")

    def switch():
        env = {"PATH": "/usr/bin:/bin", "STEADYHAND_RUNTIME": str(tmp_path / "steadyhand-*")}
        done = subprocess.run([SWITCH, prefix, "1.1"], capture_output=True, text=True, timeout=60, env=env)
        return done.returncode, (prefix / "current").readlink().name, done.stdout + done.stderr

    _, _, folder = guard(subprocess.DEVNULL, ("agv_main", "--bridge", "fake"))  # a busy machine disarms it less soon
    folder /= "agv"
    client = armed(folder)
    code, current, said = switch()
    client.poll()
    assert (code, current) == (1, "1.0") and "says ARMED_AUTO" in said, (said, client.state.causes)
    operator.stop("panel", "", folder)
    assert operator.wait_rest(5.0, folder).at_rest
    client.close()
    assert switch()[:2] == (0, "1.1")
