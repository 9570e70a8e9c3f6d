"""Services as real processes: a guard on a full disk, told to its manager, in the way of a switch, apart from the graph.
"""
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
from steadyhand.errors import RobotError
from steadyhand.guard_protocol import STATES, Chunk, Verdict
from steadyhand.slot import current_slot
from steadyhand_firmware_bridge import operator
from steadyhand_firmware_bridge.client import GuardClient
from tests.support.small_disk import fill, small_disk

pytestmark = pytest.mark.process
SWITCH = Path(__file__).parents[2] / "ops/switch.sh"


class Manager:
    """Starts services as systemd does, and hears what they tell."""

    def __init__(self, folder):
        self.slot, self.runtime, self.started = current_slot().index, folder / "steadyhand-8", []
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(folder / "notify"))
        self.socket.settimeout(20.0)
        self.config = folder / "guard.yaml"
        self.config.write_text("{shell_timeout_s: 1.0, command_timeout_s: 1.0}")  # a busy machine is not the test
        self.environment = os.environ | {
            "NOTIFY_SOCKET": str(folder / "notify"), "WATCHDOG_USEC": "1000000", "XDG_RUNTIME_DIR": str(self.runtime),
            "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        }  # fmt: skip

    def start(self, *words, log=subprocess.DEVNULL):
        """One service, which is ready."""
        process = subprocess.Popen([sys.executable, "-m", *words], env=self.environment, stdout=log, stderr=log)
        self.started.append(process)
        while not (said := self.socket.recv(1000)).startswith(b"READY=1\nSTATUS="):
            assert said == b"WATCHDOG=1"
        return process

    def guard(self, log=subprocess.DEVNULL):
        """A guard of a robot in its process; its folder of sockets."""
        words = ("steadyhand_firmware_bridge.guard.main", "--robot", "fake", "--config", str(self.config))
        return self.start(*words, log=log), self.runtime / f"slot{self.slot}"

    def close(self):
        for process in self.started:  # asked first: a launcher that is killed leaves its nodes behind
            process.terminate()
        for process in self.started:
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(5)
        self.socket.close()


@pytest.fixture
def manager(tmp_path):
    manager = Manager(tmp_path)
    yield manager
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


def test_a_full_disk_behind_its_log_costs_the_guard_nothing(manager, tmp_path):
    with small_disk(tmp_path / "disk", 1) as disk, (disk / "guard.log").open("ab", buffering=0) as log:
        fill(disk)
        process, folder = manager.guard(log)
        client = armed(folder)
        s = client.state
        q = np.array(s.q_commanded_rad) + np.outer(np.arange(1, 9) * 0.002, [1, 0, 0, 0, 0, 0])
        client.send(Chunk(
            token=s.token, state_seq=s.seq, state_stamp_s=s.stamp_s, trace_id="t", source="planner",
            joint_names=list(ur5.JOINT_NAMES), period_s=0.05, q_rad=q.tolist(),
        ))  # fmt: skip
        verdict = client.wait(lambda m: isinstance(m, Verdict), 5.0)
        assert verdict.accepted, verdict
        assert manager.socket.recv(100) == b"WATCHDOG=1"
        operator.stop("panel", "", folder)
        assert operator.wait_rest(5.0, folder).at_rest
        client.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
        manager.socket.settimeout(0.0)
        assert [said for said in iter(lambda: _heard(manager), b"") if said != b"WATCHDOG=1"] == [b"STOPPING=1"]
        assert (disk / "guard.log").read_bytes() == b""  # there really was no room for a line


def test_a_guard_that_hangs_says_nothing_to_its_manager(manager):
    """Frozen, as by a debugger: no thread and no timer of its own keeps the watchdog quiet."""
    process, _ = manager.guard()
    assert manager.socket.recv(100) == b"WATCHDOG=1"
    process.send_signal(signal.SIGSTOP)
    manager.socket.settimeout(0.0)
    end_s = time.monotonic() + 5.0
    while _heard(manager):  # what was sent before
        assert time.monotonic() < end_s
    manager.socket.settimeout(1.0)  # the limit: by then systemd ends it
    with pytest.raises(TimeoutError):
        manager.socket.recv(100)
    manager.socket.settimeout(20.0)
    process.send_signal(signal.SIGCONT)
    assert manager.socket.recv(100) == b"WATCHDOG=1"


def _heard(manager):
    try:
        return manager.socket.recv(100)
    except BlockingIOError:
        return b""


GRAPH = """<launch>
  <node pkg="steadyhand_ros" exec="lifecycle_manager_node" respawn="true">
    <param name="node_names" value="[guard_node]"/>
  </node>
  <node pkg="steadyhand_ros" exec="guard_node" respawn="true"/>
</launch>
"""


@pytest.mark.ros
def test_the_graph_may_be_restarted_and_the_guard_goes_on(manager, tmp_path):
    guard, folder = manager.guard()
    launch_file = tmp_path / "graph.launch.xml"
    launch_file.write_text(GRAPH)
    for _ in range(2):
        graph = manager.start("steadyhand_cli.main", "launch", str(launch_file))
        until(lambda: seat_taken(folder))
        watch = GuardClient("watch", folder=folder)
        watch.connect()
        assert watch.wait(lambda m: isinstance(m, STATES) and m.at_rest, 5.0)
        reply = operator.rearm("manual", folder=folder)
        assert reply.ok, reply
        assert watch.wait(lambda m: isinstance(m, STATES) and m.mode == "ARMED_MANUAL", 5.0)
        graph.send_signal(signal.SIGTERM)
        stopped = watch.wait(lambda m: isinstance(m, STATES) and m.mode == "STOPPED", 10.0)
        assert any(cause.startswith("shell_lost") for cause in stopped.causes), stopped.causes
        assert graph.wait(15) == 0 and guard.poll() is None  # the same process, the same socket
        while manager.socket.recv(1000) != b"STOPPING=1":  # of the graph
            pass
        watch.close()


def until(condition, timeout_s=20.0):
    end_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end_s, "not in time"
        time.sleep(0.02)


def seat_taken(folder):
    """Whether somebody commands already."""
    probe = GuardClient("probe", commander=True, folder=folder)
    try:
        probe.connect()
    except RobotError as error:
        return "second commander" in str(error)
    finally:
        probe.close()
    return False


def test_versions_are_not_switched_under_an_armed_arm(manager, tmp_path):
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

    # a busy machine disarms a vehicle less soon
    manager.start("steadyhand_firmware_bridge.guard.agv_main", "--bridge", "fake")
    folder = manager.runtime / f"slot{manager.slot}/agv"
    client = armed(folder)
    code, current, said = switch()
    client.poll()
    assert (code, current) == (1, "1.0") and "says ARMED_AUTO" in said, (said, client.state.causes)
    operator.stop("panel", "", folder)
    assert operator.wait_rest(5.0, folder).at_rest
    client.close()
    assert switch()[:2] == (0, "1.1")
