"""From a launch file's processes to command lines, and their supervision: respawn, limits, whole groups ended."""
import os
import signal
import sys
import time

import pytest

from steadyhand.errors import ConfigError
from steadyhand_ros import launch_runner
from steadyhand_ros.launch_xml import ProcessSpec
from steadyhand_ros.process_supervisor import ProcessSupervisor, describe


def test_a_node_gets_its_ros_arguments(tmp_path):
    file = tmp_path / "p.yaml"
    file.write_text("")
    spec = ProcessSpec(
        name="n", package="steadyhand_ros", executable="guard_node", namespace="cell", parameters=(("k", "v"),),
        parameter_files=(str(file),), remappings=(("a", "b"),), arguments="--x",
    )
    command = launch_runner.command_of(spec, {"PATH": os.environ["PATH"]})
    assert command[:3] == [launch_runner.PYTHON, "-m", "steadyhand_ros.guard_node"]
    assert command[3:] == [
        "--x", "--ros-args", "--disable-external-lib-logs", "-r", "__node:=n", "-r", "__ns:=/cell",
        "--params-file", str(file), "-p", "k:=v", "-r", "a:=b",
    ]


def test_an_installed_executable_wins(tmp_path):
    path = tmp_path / "lib/steadyhand_ros/guard_node"
    path.parent.mkdir(parents=True)
    path.write_text("")
    spec = ProcessSpec(name="n", package="steadyhand_ros", executable="guard_node")
    assert launch_runner.command_of(spec, {"AMENT_PREFIX_PATH": str(tmp_path)})[0] == str(path)


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        (ProcessSpec(name="x", command="no-such-command --a"), "no-such-command"),
        (ProcessSpec(name="x", package="steadyhand_ros", executable="no_node"), "no_node"),
        (ProcessSpec(name="x", package="no_package", executable="guard_node"), "no_package"),
        (
            ProcessSpec(name="x", package="steadyhand_ros", executable="guard_node", parameter_files=("/no/p.yaml",)),
            "/no/p.yaml",
        ),
    ],
)
def test_what_cannot_be_started_is_named(spec, named):
    with pytest.raises(ConfigError) as caught:
        launch_runner.command_of(spec, {"PATH": os.environ["PATH"]})
    assert named in str(caught.value)


def test_an_unknown_package_has_no_share():
    with pytest.raises(ConfigError, match="no_package"):
        launch_runner.find_share("no_package", {})


def test_the_real_launch_system_is_taken_when_it_is_there(monkeypatch):
    monkeypatch.setattr(launch_runner.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(launch_runner.shutil, "which", lambda name: "/opt/ros/bin/ros2")
    assert launch_runner.real_launch_available()
    monkeypatch.setattr(launch_runner.shutil, "which", lambda name: None)
    assert not launch_runner.real_launch_available()


def test_children_stay_in_the_slot():
    environment = launch_runner.child_environment({"STEADYHAND_SLOT": "7", "PATH": "/bin"})
    assert environment["ROS_DOMAIN_ID"] == "27" and environment["STEADYHAND_ROBOT_HOST"] == "127.0.0.8"
    given = {"STEADYHAND_SLOT": "7", "STEADYHAND_ROBOT_HOST": "10.0.0.5", "PATH": "/bin"}
    kept = launch_runner.child_environment(given)
    assert kept["STEADYHAND_ROBOT_HOST"] == "10.0.0.5"


# -- supervision ---------------------------------------------------------------------------------------------------
def supervise(tmp_path, code, **changes):
    spec = ProcessSpec(name="p", command="-", **changes)
    said = []
    supervisor = ProcessSupervisor([spec], lambda s: [sys.executable, "-c", code], os.environ, tmp_path, said.append)
    supervisor.start()
    return supervisor, said


def until(condition, timeout_s=10.0):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.005)


def test_respawn_waits_for_its_delay_and_happens_only_where_asked(tmp_path):
    supervisor, _ = supervise(tmp_path, "raise SystemExit(3)", respawn=True, respawn_delay_s=100.0)
    died = []
    until(lambda: died.extend(supervisor.poll(0.0)) or died)
    assert died[0].returncode == 3 and supervisor.pids() == {}
    assert supervisor.poll(99.0) == [] and supervisor.pids() == {}
    supervisor.poll(100.0)
    assert supervisor.running[0].starts == 2
    supervisor.stop()

    supervisor, said = supervise(tmp_path, "raise SystemExit(3)")
    until(lambda: supervisor.poll(0.0))
    supervisor.poll(1e9)
    assert supervisor.running[0].starts == 1 and "exit code 3" in said[0]
    supervisor.stop()


@pytest.mark.parametrize(("obeys", "returncode"), [(False, -signal.SIGKILL), (True, 5)])
def test_stop_ends_what_ignores_signals_and_its_children(tmp_path, monkeypatch, obeys, returncode):
    steps = ((signal.SIGINT, 5.0 if obeys else 0.3), (signal.SIGKILL, 2.0))
    monkeypatch.setattr("steadyhand_ros.process_supervisor.STOP_STEPS", steps)
    handler = "lambda *_: os._exit(5)" if obeys else "signal.SIG_IGN"
    deaf = "import signal, time; signal.signal(2, signal.SIG_IGN); print(1, flush=True); time.sleep(60)"
    code = (
        f"import os, signal, subprocess, sys; signal.signal(signal.SIGINT, {handler})\n"
        f"child = subprocess.Popen([sys.executable, '-c', {deaf!r}], stdout=subprocess.PIPE)\n"
        "child.stdout.readline(); print(child.pid, flush=True); child.wait()"
    )
    supervisor, _ = supervise(tmp_path, code)
    log = tmp_path / "p.log"
    until(lambda: log.read_text().strip())
    child = int(log.read_text())
    supervisor.stop()
    assert supervisor.running[0].returncode == returncode

    def gone():
        try:
            return open(f"/proc/{child}/stat").read().split()[2] == "Z"
        except FileNotFoundError:
            return True

    until(gone)


def test_a_command_that_cannot_be_executed(tmp_path):
    supervisor = ProcessSupervisor([ProcessSpec(name="p", command="-")], lambda s: ["/no/such"], {}, tmp_path, print)
    with pytest.raises(ConfigError, match="p: cannot start '/no/such'"):
        supervisor.start()


def test_describe():
    assert (describe(2), describe(-9)) == ("exit code 2", "signal SIGKILL")
