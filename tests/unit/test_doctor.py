"""The doctor names what is missing and how to get it; nothing it meets makes it fall over."""
import importlib.metadata
import socket

import pytest

from steadyhand.slot import MAX_SLOT, current_slot
from steadyhand_cli import doctor
from steadyhand_cli.main import main


def levels(findings):
    return [f.level for f in findings]


def test_a_wrong_version_is_named_with_the_pin(monkeypatch):
    real = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda n: "0.0.1" if n == "numpy" else real(n))
    (finding,) = [f for f in doctor.check_packages(hardware=True) if f.what.startswith("runtime")]
    assert finding.level == doctor.MISSING and "numpy 0.0.1, pinned" in finding.what and finding.remedy == "make setup"


def test_a_missing_tool_comes_with_its_command(monkeypatch):
    monkeypatch.setattr(doctor.shutil, "which", lambda tool: None if tool == "cmake" else f"/usr/bin/{tool}")
    assert [f.remedy for f in doctor.check_tools() if f.level == doctor.MISSING] == ["apt-get install cmake"]


def test_a_missing_model_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(doctor, "ROOT", tmp_path)
    findings = doctor.check_models()
    assert levels(findings) == [doctor.MISSING] * 2 and "pick_place/1/model.onnx" in findings[0].what


def test_a_taken_port_is_named():
    host = current_slot().robot_host
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind((host, 30004))
        taken.listen()
        (finding,) = doctor.check_ports()
    assert finding.level == doctor.MISSING and f"{host}:30004" in finding.what


@pytest.mark.parametrize("slot", ["-1", "x", "99999"])
def test_a_wrong_slot_is_a_finding(monkeypatch, slot):
    monkeypatch.setenv("STEADYHAND_SLOT", slot)
    (finding,) = doctor.check_ports()
    assert finding.level == doctor.MISSING and slot in finding.what and "0 to 40" in finding.remedy


def test_a_missing_triton_environment_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("STEADYHAND_TRITON_VENV", str(tmp_path / "none"))
    (finding,) = doctor.check_triton()
    assert finding.level == doctor.MISSING and "none" in finding.what


def test_the_exit_code_counts(monkeypatch, capsys):
    monkeypatch.setattr(doctor, "findings", lambda hardware: [doctor.Finding(doctor.MISSING, "x", "get x")])
    assert main(["doctor"]) == 1
    assert "get x" in capsys.readouterr().out


def test_a_check_that_falls_over_is_a_finding_and_the_others_are_made(monkeypatch):
    def broken():
        raise KeyError("Name")

    monkeypatch.setattr(doctor, "check_interfaces", broken)
    found = doctor.findings(hardware=True)
    assert [f.what for f in found if "fell over" in f.what] == ["a check fell over: KeyError: 'Name'"]
    assert any("ports" in f.what for f in found)


def test_asking_for_realtime_leaves_the_scheduler_as_it_was(monkeypatch):
    asked = []
    monkeypatch.setattr(doctor.os, "sched_getscheduler", lambda pid: doctor.os.SCHED_RR)
    monkeypatch.setattr(doctor.os, "sched_getparam", lambda pid: doctor.os.sched_param(7))
    note = lambda pid, policy, p: asked.append((policy, p.sched_priority))  # noqa: E731
    monkeypatch.setattr(doctor.os, "sched_setscheduler", note)
    assert levels(doctor.check_realtime()) == [doctor.OK]
    assert asked == [(doctor.os.SCHED_FIFO, 1), (doctor.os.SCHED_RR, 7)]


def test_ports_are_those_of_the_slot(monkeypatch):
    monkeypatch.setenv("STEADYHAND_SLOT", str(MAX_SLOT))
    slot = current_slot()
    with socket.socket() as first, socket.socket() as last:
        for taken, address in ((first, (slot.robot_host, 29999)), (last, ("127.0.0.1", slot.triton_metrics_port))):
            taken.bind(address)
        (finding,) = doctor.check_ports()
    assert finding.what == f"ports in use: {slot.robot_host}:29999, 127.0.0.1:{slot.triton_metrics_port}"
    assert doctor.MAX_SLOT == MAX_SLOT
