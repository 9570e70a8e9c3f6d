"""`steadyhand launch` round ROS 2's own launcher, and its keeper of budgets."""
import os
import signal
import sys
import threading
import time

import pytest

from steadyhand.retention import StorageConfig
from steadyhand_cli import launch

# stands in for `ros2 launch`: a child in its group; asked to end it says so, unless it is one that hangs
STAND_IN = """
import pathlib, signal, subprocess, sys, time
folder, hangs = pathlib.Path(sys.argv[1]), sys.argv[2] == "hangs"
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
def end(*_):
    (folder / "asked").touch()
    if not hangs:
        child.kill()
        sys.exit(3)
signal.signal(signal.SIGINT, end)
(folder / "child").write_text(str(child.pid))
(folder / "child").rename(folder / "up")
while True:
    time.sleep(0.01)
"""


@pytest.fixture
def handlers():
    kept = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


def within(seconds, condition):
    end_s = time.monotonic() + seconds
    while not condition() and time.monotonic() < end_s:
        time.sleep(0.01)
    return condition()


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda n: n.name)
@pytest.mark.parametrize("how", ["ends", "hangs"])
def test_whatever_ends_the_launcher_ends_what_it_launched(tmp_path, monkeypatch, handlers, number, how):
    monkeypatch.setattr(launch, "ROS2_END_S", 0.3 if how == "hangs" else 30.0)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # whoever runs the tests may have set nohup

    def ask():
        if within(30.0, (tmp_path / "up").exists):
            os.kill(os.getpid(), number)

    asking = threading.Thread(target=ask)
    asking.start()
    command = [sys.executable, "-c", STAND_IN, str(tmp_path), how]
    assert launch._ros2_launch(command, dict(os.environ)) == 0
    asking.join(30.0)
    assert not asking.is_alive()
    assert (tmp_path / "asked").exists()
    assert within(10.0, lambda: not alive(int((tmp_path / "up").read_text())))


def test_the_launchers_own_end_is_handed_on(handlers):
    assert launch._ros2_launch([sys.executable, "-c", "raise SystemExit(5)"], dict(os.environ)) == 5


def test_nohup_stays_nohup(handlers):
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    launch._stopping()
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN


def test_a_sweep_that_fails_is_said_and_the_next_one_is_made(monkeypatch, capsys):
    sweeps, stopping = [], threading.Event()

    def sweep(out, config):
        sweeps.append(out)
        if len(sweeps) == 1:
            raise OSError(5, "Input/output error")
        stopping.set()

    monkeypatch.setattr(launch.storage, "sweep", sweep)
    monkeypatch.setattr(launch.storage, "SCAN_S", 0.0)
    launch._keep_budgets(StorageConfig(), stopping)
    assert len(sweeps) == 2 and "Input/output error" in capsys.readouterr().err
