"""`steadyhand doctor`: what is missing on this machine, and the command that brings it. Standard library only.

Runs without the environment too (`python3 cli/steadyhand_cli/doctor.py`), since that may be what is missing.
"""
from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import os
import shutil
import socket
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OK, MISSING, NOTE = "ok", "MISSING", "note"
MAX_SLOT = 40  # as steadyhand.slot, which may not be importable here


@dataclass(frozen=True)
class Finding:
    """One line of the report; `remedy` is a command or a sentence."""

    level: str
    what: str
    remedy: str = ""


def add_arguments(parser: argparse.ArgumentParser, name: str) -> None:
    parser.add_argument("--hardware", action="store_true", help="for a machine that drives a real robot: no simulator")


def check_python() -> list[Finding]:
    version = sys.version_info[:2]
    text = f"Python {version[0]}.{version[1]}"
    if not (3, 10) <= version <= (3, 12):
        return [Finding(MISSING, text, "use Python 3.10 to 3.12: make run PYTHON=python3.11")]
    found = [Finding(OK, text)]
    if not (Path(sysconfig.get_path("include")) / "Python.h").exists():
        found.append(Finding(MISSING, "Python headers", "apt-get install python3-dev"))
    return found


def check_tools() -> list[Finding]:
    found = []
    for tool in ("cmake", "gcc", "g++", "make"):
        path = shutil.which(tool)
        found.append(Finding(OK, f"{tool} at {path}") if path else Finding(MISSING, tool, f"apt-get install {tool}"))
    return found


def pins(name: str) -> dict[str, str]:
    """Distribution name -> pinned version of one requirements file."""
    found = {}
    for line in (ROOT / "requirements" / f"{name}.txt").read_text().splitlines():
        line = line.split("#")[0].strip()
        if line:
            package, _, version = line.partition("==")
            found[package.split("[")[0]] = version
    return found


def check_packages(hardware: bool) -> list[Finding]:
    findings = []
    for group in ("runtime", "ros") if hardware else ("runtime", "ros", "sim"):
        wrong = []
        for package, version in pins(group).items():
            try:
                have = importlib.metadata.version(package)
            except importlib.metadata.PackageNotFoundError:
                have = "not installed"
            if have.split("+")[0] != version:
                wrong.append(f"{package} {have}, pinned {version}")
        if group == "ros" and wrong and importlib.util.find_spec("rclpy"):
            findings.append(Finding(NOTE, "ROS 2 of this machine is used instead of the pinned wheels"))
        elif wrong:
            findings.append(Finding(MISSING, f"{group} packages: {'; '.join(wrong[:3])}", "make setup"))
        else:
            findings.append(Finding(OK, f"{group} packages as pinned"))
    if {"onnxruntime", "onnxruntime-gpu"} <= {d.metadata["Name"] for d in importlib.metadata.distributions()}:
        both = "onnxruntime and onnxruntime-gpu share one folder"
        findings.append(Finding(MISSING, both, "uninstall both, install one"))
    if not hardware and sys.version_info[:2] == (3, 12):
        remedy = "pip builds it with g++ (about 10 minutes), or run the simulator under 3.11"
        findings.append(Finding(NOTE, "PyBullet has no wheel for Python 3.12", remedy))
    return findings


def check_interfaces() -> list[Finding]:
    if importlib.util.find_spec("steadyhand_interfaces") is None:
        return [Finding(MISSING, "steadyhand_interfaces is not built", "make setup, or colcon build in ros2_ws")]
    return [Finding(OK, "steadyhand_interfaces")]


def check_triton() -> list[Finding]:
    venv = Path(os.environ.get("STEADYHAND_TRITON_VENV", ROOT / ".venv-triton"))
    if not (venv / "bin/python").exists():
        return [Finding(MISSING, f"Triton server environment {venv}", "make setup")]
    return [Finding(OK, "Triton server environment")]


def check_models() -> list[Finding]:
    findings = []
    for model in ("pick_place", "tray_poses"):
        folder = ROOT / "policies/model_repository" / model
        wanted = [folder / "config.pbtxt", folder / "1/model.onnx", folder / "1/contract.json"]
        gone = [str(p.relative_to(ROOT)) for p in wanted if not p.is_file()]
        if gone:
            remedy = "git checkout, or train it: docs/policies.md, docs/perception.md"
            findings.append(Finding(MISSING, f"model {model}: {', '.join(gone)}", remedy))
        else:
            findings.append(Finding(OK, f"model {model}"))
    return findings


def check_realtime() -> list[Finding]:
    try:
        before, priority = os.sched_getscheduler(0), os.sched_getparam(0)
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        os.sched_setscheduler(0, before, priority)
        return [Finding(OK, "SCHED_FIFO is permitted")]
    except (PermissionError, AttributeError):
        remedy = "ulimit -r 80, or a file in /etc/security/limits.d that grants rtprio"
        return [Finding(NOTE, "SCHED_FIFO is not permitted: the guard runs under SCHED_OTHER and says so", remedy)]


def check_memory_lock() -> list[Finding]:
    try:
        from steadyhand_firmware_bridge.guard import memory
    except ImportError:
        return []  # said by the checks of packages
    why = memory.may_lock()
    if why:
        return [Finding(NOTE, "memory may not be locked: a cycle of the guard may wait for a page", why)]
    return [Finding(OK, "memory may be locked")]


def check_disk() -> list[Finding]:
    try:
        from steadyhand.errors import ConfigError
        from steadyhand.slot import current_slot
        from steadyhand_firmware_bridge import storage
    except ImportError:
        return []
    try:
        config, out = storage.load(), current_slot().out_dir
    except ConfigError as error:
        return [Finding(MISSING, str(error), "correct it")]
    free_mb = storage.free_bytes(out) / 1e6
    if free_mb < config.resume_free_mb:
        remedy = f"free some; recording stops below {config.min_free_mb:g} MB (docs/operations.md)"
        return [Finding(NOTE, f"{free_mb:.0f} MB free for {out}", remedy)]
    return [Finding(OK, f"{free_mb / 1e3:.0f} GB free for {out}")]


def check_ports() -> list[Finding]:
    index = os.environ.get("STEADYHAND_SLOT", "0")
    if not index.isdecimal() or int(index) > MAX_SLOT:
        return [Finding(MISSING, f"STEADYHAND_SLOT={index!r}", f"give a whole number from 0 to {MAX_SLOT}")]
    host, base = f"127.0.0.{int(index) + 1}", 18000 + 10 * int(index)
    wanted = [(host, port) for port in (29999, 30001, 30002, 30003, 30004)]
    wanted += [("127.0.0.1", base + k) for k in range(3)]
    taken = []
    for address in wanted:
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                sock.bind(address)
            except OSError:
                taken.append("%s:%d" % address)
    if taken:
        remedy = "stop what uses them, or choose another STEADYHAND_SLOT"
        return [Finding(MISSING, f"ports in use: {', '.join(taken)}", remedy)]
    return [Finding(OK, f"ports of slot {index} are free")]


def findings(hardware: bool) -> list[Finding]:
    """Every check's lines; a check that fails itself is a finding, not a crash."""
    checks: list[Callable[[], list[Finding]]] = [
        check_python, check_tools, lambda: check_packages(hardware), check_interfaces, check_triton, check_models,
        check_realtime, check_memory_lock, check_disk, check_ports,
    ]
    lines = []
    for check in checks:
        try:
            lines += check()
        except Exception as error:  # a broken environment has broken metadata of many kinds; the other checks go on
            lines.append(Finding(MISSING, f"a check fell over: {type(error).__name__}: {error}", "mend what it names"))
    return lines


def run(args: argparse.Namespace) -> int:
    lines = findings(args.hardware)
    for line in lines:
        print(f"{line.level:8s} {line.what}" + (f"\n         -> {line.remedy}" if line.remedy else ""))
    missing = sum(line.level == MISSING for line in lines)
    print(f"{missing} missing" if missing else "nothing is missing")
    return 1 if missing else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser, "doctor")
    sys.exit(run(parser.parse_args()))
