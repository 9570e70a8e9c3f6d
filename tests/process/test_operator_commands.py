"""`steadyhand estop ...` and `steadyhand link` as processes, against a guard that moves the emulated controller."""
import os
import pty
import signal
import subprocess
import sys
import threading
import time

import pytest

from steadyhand.slot import current_slot
from steadyhand_firmware_bridge import operator
from tests.support.first_line import first_line
from tests.support.guard_rig import Rig

pytestmark = pytest.mark.process


@pytest.fixture
def rig(tmp_path):
    rig = Rig(tmp_path)
    (tmp_path / f"slot{current_slot().index}").symlink_to(rig.folder)  # where the commands look for the guard
    rig.started = []
    yield rig
    for process in rig.started:
        process.kill()
        process.wait(5)
        process.stdout.close()
    rig.close()


def start(rig, *words, stdin=subprocess.DEVNULL):
    """Run a command; returns when it has said its first line."""
    env = os.environ | {
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), "XDG_RUNTIME_DIR": str(rig.folder.parent),
        "PYTHONUNBUFFERED": "1",
    }  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-m", "steadyhand_cli.main", *words], env=env, stdin=stdin, stdout=subprocess.PIPE, text=True
    )
    rig.started.append(process)
    process.first = first_line(process)
    assert process.first, process.wait(5)
    return process


def set_moving(rig):
    rig.arm()
    end_s = time.monotonic() + 5.0
    while max(map(abs, rig.client.state.qd_commanded_rad_s)) < 0.1:
        assert time.monotonic() < end_s, (rig.client.state, rig.verdicts[-1:])
        rig.move(0.1)


def stops_for(rig, cause):
    rig.until(lambda s: s.mode == "STOPPED" and any(c.startswith(cause) for c in s.causes), 1.0)
    rig.until(lambda s: s.at_rest, 3.0)


class Box:
    """The button box at the other end of a serial line: beats until told otherwise."""

    def __init__(self):
        self.fd, line = pty.openpty()
        self.device, self._line = os.ttyname(line), line
        self.say = "beat"
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self):
        k = 0
        while not self._end.wait(0.03):
            if self.say == "beat":
                os.write(self.fd, bytes([0x55, 0xAA])[k % 2 : k % 2 + 1])
                k += 1
            elif self.say == "press":
                os.write(self.fd, b"S")

    def close(self):
        self._end.set()
        self._thread.join(2)
        os.close(self.fd)
        os.close(self._line)


@pytest.mark.parametrize("how", ["press", "silence"])
def test_a_serial_button_box(rig, how):
    box = Box()
    try:
        start(rig, "estop", "serial", box.device, "--timeout", "0.3")
        rig.until(lambda s: s.at_rest, 3.0)
        end_s = time.monotonic() + 5.0
        while not operator.rearm("auto", folder=rig.folder).ok:  # until the first beats have been seen
            assert time.monotonic() < end_s
        rig.move(0.6)
        box.say = how
        stops_for(rig, "stop_requested: estop:serial")
        assert not operator.rearm("auto", folder=rig.folder).ok or rig.until(lambda s: s.mode == "STOPPED", 1.0)
        box.say = "beat"
        end_s = time.monotonic() + 5.0
        while True:
            rig.until(lambda s: s.at_rest, 3.0)
            if operator.rearm("auto", folder=rig.folder).ok and rig.until(lambda s: True, 0.5).mode == "ARMED_AUTO":
                break
            assert time.monotonic() < end_s
    finally:
        box.close()


def test_a_key_of_a_terminal(rig):
    person, terminal = pty.openpty()
    process = start(rig, "estop", "keyboard", stdin=terminal)
    set_moving(rig)
    os.write(person, b"x")
    stops_for(rig, "stop_requested: estop:keyboard")
    assert process.poll() is None
    os.close(person)
    os.close(terminal)
    assert process.wait(5) == 0  # its terminal is gone: it stops and ends


def test_a_pin(rig, tmp_path):
    value = tmp_path / "value"
    value.write_text("1\n")
    process = start(rig, "estop", "gpio", "--sysfs", str(value))
    set_moving(rig)
    value.write_text("0\n")
    stops_for(rig, "stop_requested: estop:gpio")
    assert not operator.rearm("auto", folder=rig.folder).ok or rig.until(lambda s: s.mode == "STOPPED", 1.0)
    value.write_text("1\n")
    time.sleep(0.1)
    rig.until(lambda s: s.at_rest, 3.0)
    set_moving(rig)
    process.terminate()
    stops_for(rig, "stop_requested: estop:gpio")  # a plug-in that ends stops
    assert process.wait(5) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP])
def test_the_operator_link(rig, number):
    process = start(rig, "link", "--name", "ann")
    set_moving(rig)
    process.send_signal(number)
    rig.move(0.9)
    if number == signal.SIGTERM:
        assert process.wait(5) == 0
        rig.move(0.2)
        assert rig.client.state.mode == "ARMED_AUTO"
    else:
        stops_for(rig, "operator_link")
