"""The units by systemd's own checkers, and the switch between versions on folders that look like installations."""
import fcntl
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from steadyhand_firmware_bridge.guard.loop import FIFO_PRIORITY

OPS = Path(__file__).parents[2] / "ops"
UNITS = sorted((OPS / "systemd").iterdir())
SERVICES = [p for p in UNITS if p.suffix == ".service"]
GUARDS = [p for p in SERVICES if "guard@" in p.name]
NO_SYSTEMD = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")


@NO_SYSTEMD
def test_systemd_takes_the_units_and_finds_them_hardened(tmp_path):
    for path in UNITS:  # the programs are not installed here: another one stands in for their paths only
        text = re.sub(r"^(ExecStart=)\S+", rf"\1{shutil.which('true')}", path.read_text(), flags=re.MULTILINE)
        (tmp_path / path.name).write_text(text)
    there = [str(tmp_path / p.name) for p in UNITS]
    checked = subprocess.run(["systemd-analyze", "verify", *there], capture_output=True, text=True, timeout=60)
    assert (checked.returncode, [line for line in checked.stderr.splitlines() if "steadyhand" in line]) == (0, [])
    for path, most in ((p, "25" if p in GUARDS else "40") for p in SERVICES):  # of 100; an unhardened one has 92
        command = ["systemd-analyze", "security", "--offline=yes", f"--threshold={most}", str(tmp_path / path.name)]
        assert subprocess.run(command, capture_output=True, timeout=60).returncode == 0, path.name


def settings(path):
    """Settings of a unit; one that is given several times is joined."""
    found = {}
    for line in path.read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            name, value = line.split("=", 1)
            found[name] = f"{found[name]} {value}" if name in found else value
    return found


@pytest.mark.parametrize("path", SERVICES, ids=lambda p: p.name)
def test_every_service_grants_what_its_processes_ask_for_and_shares_the_slots_folders(path):
    unit = settings(path)
    assert unit["LimitRTPRIO"] == str(FIFO_PRIORITY) and "RestrictRealtime" not in unit
    assert unit["Type"] == "notify" and float(unit["WatchdogSec"]) >= 1 and unit["NotifyAccess"] == "main"
    assert unit["RuntimeDirectoryPreserve"] == "yes"  # a restart must not take the sockets of the others away
    assert unit["PartOf"] == "steadyhand@%i.target" and not {"Requires", "BindsTo"} & set(unit)
    slot, out, runtime, _ = unit["Environment"].split()[:4]
    assert (slot, out) == ("STEADYHAND_SLOT=%i", "STEADYHAND_OUT=/var/lib/" + unit["StateDirectory"])
    assert runtime == "XDG_RUNTIME_DIR=/run/" + unit["RuntimeDirectory"]


@pytest.mark.parametrize("path", GUARDS, ids=lambda p: p.name)
def test_a_guard_has_its_memory_and_the_time_to_come_to_rest(path):
    unit = settings(path)
    assert unit["LimitMEMLOCK"] == "infinity" and float(unit["TimeoutStopSec"]) > 4.0


def test_the_graph_runs_without_the_guard_that_is_a_service_of_its_own():
    assert " guard:=false " in settings(OPS / "systemd/steadyhand-graph@.service")["ExecStart"]
    wanted = settings(OPS / "systemd/steadyhand@.target")["Wants"].split()
    assert wanted == ["steadyhand-guard@%i.service", "steadyhand-graph@%i.service"]


def test_the_example_of_a_robots_settings_is_one_that_systemd_reads_and_the_units_use():
    lines = [line.removeprefix("#") for line in (OPS / "robot.env").read_text().splitlines() if "=" in line]
    used = "".join(p.read_text() for p in SERVICES) + "STEADYHAND_STORAGE ROS_DOMAIN_ID"
    for line in lines:
        name, value = line.split("=", 1)
        assert re.fullmatch(r"[A-Z_]+", name) and name in used and "#" not in value, line


@pytest.fixture
def prefix(tmp_path):
    for version, code in (("1.0", 0), ("1.1", 0), ("2.0", 1)):
        program = tmp_path / version / ".venv/bin/steadyhand"
        program.parent.mkdir(parents=True)
        program.write_text(f'#!/bin/sh\n[ "$1" = doctor ] && exit {code}\n')
        program.chmod(0o755)
    return tmp_path


def switch(prefix, version, runtime="/none", by=()):
    done = subprocess.run(
        [*by, str(OPS / "switch.sh"), str(prefix), version], capture_output=True, text=True, timeout=20,
        env={"PATH": "/usr/bin:/bin", "STEADYHAND_RUNTIME": str(runtime)},
    )  # fmt: skip
    current = prefix / "current"
    return done.returncode, current.readlink().name if current.is_symlink() else None, done.stdout + done.stderr


def test_upgrade_and_back(prefix):
    assert switch(prefix, "1.0")[:2] == (0, "1.0")
    code, current, said = switch(prefix, "1.1")
    assert (code, current) == (0, "1.1") and said.startswith("current: 1.1 (before: 1.0)\n") and "restart" in said
    assert switch(prefix, "1.1")[:2] == (0, "1.1")
    assert switch(prefix, "--back")[:2] == (0, "1.0") and switch(prefix, "--back")[:2] == (0, "1.1")


def test_a_version_whose_doctor_says_no_is_not_taken(prefix):
    switch(prefix, "1.0")
    code, current, said = switch(prefix, "2.0")
    assert (code, current) == (1, "1.0") and "its doctor says no; 1.0 stays current" in said


def test_a_link_that_cannot_be_made_is_no_success(prefix):
    switch(prefix, "1.0")
    (prefix / ".current.new/1.1").mkdir(parents=True)  # in the way of the new link
    code, current, said = switch(prefix, "1.1")
    assert code != 0 and current == "1.0" and "current: 1.1" not in said


@pytest.mark.parametrize(("version", "code"), [
    ("9.9", 1), ("../1.0", 2), ("--back", 1), ("", 1), ("current", 2), ("-x", 2),
])  # fmt: skip
def test_what_is_no_version_changes_nothing(prefix, version, code):
    assert switch(prefix, version)[:2] == (code, None)


@pytest.fixture
def guarded(prefix, tmp_path):
    """`guarded(said, folder)`: switch to 1.1 while a guard runs whose status is `said` (None: it does not answer)."""
    switch(prefix, "1.0")

    def go(said, folder="slot3"):
        runtime = tmp_path / "run/steadyhand-3"
        (runtime / folder).mkdir(parents=True, exist_ok=True)
        answer = f"echo '{said}'" if said is not None else "exit 2"
        (prefix / "1.0/.venv/bin/steadyhand").write_text(
            f'#!/bin/sh\n[ "$XDG_RUNTIME_DIR $STEADYHAND_SLOT" = "{runtime} 3" ] || exit 9\n{answer}\n'
        )
        with (runtime / folder / "guard.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return switch(prefix, "1.1", tmp_path / "run/steadyhand-*")

    return go


@pytest.mark.parametrize(("mode", "at_rest", "named"), [
    ("ARMED_AUTO", "true", "says ARMED_AUTO"), ("ARMED_MANUAL", "true", "says ARMED_MANUAL"),
    ("RECOVERING", "true", "says RECOVERING"), ("REST_UNKNOWN", "true", "says REST_UNKNOWN"),
    ("STOPPED", "false", "measures no rest"), ("", "true", "says nothing"),
    ("STOPPED", 'false,\n  "report": {\n    "at_rest": true\n  }', "measures no rest"),
])  # fmt: skip
@pytest.mark.parametrize("folder", ["slot3", "slot3/agv"])
def test_no_switch_while_anything_is_armed_or_may_move(guarded, mode, at_rest, named, folder):
    code, current, said = guarded(f'{{\n  "mode": "{mode}",\n  "at_rest": {at_rest}\n}}', folder)
    assert (code, current) == (1, "1.0") and named in said and "1.0 stays current" in said


def test_a_guard_that_does_not_answer_forbids_the_switch_and_one_that_has_ended_does_not(prefix, guarded, tmp_path):
    code, current, said = guarded(None)
    assert (code, current) == (1, "1.0") and "does not answer" in said
    assert (tmp_path / "run/steadyhand-3/slot3/guard.lock").exists()
    assert switch(prefix, "1.1", tmp_path / "run/steadyhand-*")[:2] == (0, "1.1")


def test_a_guard_that_is_stopped_at_rest_permits_the_switch(guarded):
    assert guarded('{\n  "mode": "STOPPED",\n  "at_rest": true\n}')[:2] == (0, "1.1")


@pytest.mark.parametrize("folder", ["steadyhand-3", "user/1001"])
def test_no_switch_past_a_folder_where_a_guard_may_run_unseen(prefix, tmp_path, folder):
    switch(prefix, "1.0")
    runtime = tmp_path / "run" / folder
    runtime.mkdir(parents=True, mode=0)
    dropped = "-dac_override,-dac_read_search"  # what lets root look everywhere
    by = ["setpriv", f"--bounding-set={dropped}", f"--inh-caps={dropped}"] if os.geteuid() == 0 else []
    code, current, said = switch(prefix, "1.1", runtime, by)
    assert (code, current) == (1, "1.0") and f"{runtime} is not readable" in said
    runtime.chmod(0o700)
    assert switch(prefix, "1.1", runtime, by)[:2] == (0, "1.1")


def test_one_switch_at_a_time(prefix):
    with (prefix / ".switch.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        code, current, said = switch(prefix, "1.0")
    assert (code, current) == (1, None) and "another switch" in said
