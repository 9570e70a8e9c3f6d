"""The unit file by systemd's own checker, and the switch between versions on folders that look like installations."""
import shutil
import subprocess
from pathlib import Path

import pytest

from steadyhand_firmware_bridge.guard.loop import FIFO_PRIORITY

OPS = Path(__file__).parents[2] / "ops"
UNIT = OPS / "systemd/steadyhand@.service"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
def test_systemd_takes_the_unit(tmp_path):
    text = UNIT.read_text()
    start = next(line for line in text.splitlines() if line.startswith("ExecStart="))
    there = tmp_path / UNIT.name  # its program is not installed here: another one stands in for the path only
    there.write_text(text.replace(start.split("=", 1)[1].split()[0], shutil.which("true")))
    checked = subprocess.run(["systemd-analyze", "verify", str(there)], capture_output=True, text=True, timeout=60)
    assert (checked.returncode, [line for line in checked.stderr.splitlines() if UNIT.name in line]) == (0, [])


def test_the_unit_grants_what_the_guard_asks_for():
    assert f"LimitRTPRIO={FIFO_PRIORITY}\n" in UNIT.read_text()


@pytest.fixture
def prefix(tmp_path):
    for version, code in (("1.0", 0), ("1.1", 0), ("2.0", 1)):
        program = tmp_path / version / ".venv/bin/steadyhand"
        program.parent.mkdir(parents=True)
        program.write_text(f'#!/bin/sh\n[ "$1" = doctor ] && exit {code}\n')
        program.chmod(0o755)
    return tmp_path


def switch(prefix, version):
    command = [str(OPS / "switch.sh"), str(prefix), version]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    current = prefix / "current"
    return done.returncode, current.readlink().name if current.is_symlink() else None, done.stdout + done.stderr


def test_upgrade_and_back(prefix):
    assert switch(prefix, "1.0")[:2] == (0, "1.0")
    assert switch(prefix, "1.1") == (0, "1.1", "current: 1.1 (before: 1.0)\n")
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


@pytest.mark.parametrize(("version", "code"), [("9.9", 1), ("../1.0", 2), ("--back", 1), ("", 1)])
def test_what_is_no_version_changes_nothing(prefix, version, code):
    assert switch(prefix, version)[:2] == (code, None)
