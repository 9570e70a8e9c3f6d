"""Looks at a UR5 before it is used: each check says what it found and what to do. Nothing here moves the robot but
`dry_run`, which its caller may only use on an operator's word.

Read over dashboard (29999), RTDE (30004), primary port (30001: kinematics, joint limits and TCP as configured) and script
port (30002). What no interface of CB3 and e-Series tells (safety checksum, speed and force limits of the safety system,
mounting) is said to be not readable, never assumed: an operator declares it from the pendant.
Sources: Universal Robots, "Dashboard Server", "RTDE Guide"; URScript manual.
"""
from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from steadyhand import kinematics, robot_status, ur5
from steadyhand.errors import RobotError
from steadyhand_firmware_bridge import commissioning_primary
from steadyhand_firmware_bridge.dashboard import DashboardClient
from steadyhand_firmware_bridge.right_robot import MODEL, unfit_firmware
from steadyhand_firmware_bridge.rtde import RtdeClient, RtdeConfig
from steadyhand_firmware_bridge.script_upload import SCRIPT_PORT
from steadyhand_firmware_bridge.ur5_fields import GRIPPER, PAYLOAD, SETPOINT

OK, NOTE, WRONG, UNKNOWN = "ok", "note", "wrong", "not checked"
ROBOTIQ_PORT = 63352
FIELDS = (
    "timestamp", "actual_q", "target_qd", "actual_TCP_pose", "robot_mode", "safety_mode", "runtime_state",
    "robot_status_bits", "payload", "payload_cog", "target_speed_fraction", "analog_io_types",
)  # fmt: skip
SLIDER = ("speed_slider_mask", "speed_slider_fraction")
DRY_RUN, DRY_RUN_SPEED, DRY_RUN_RAD, DRY_RUN_RAD_S2 = "dry run at 10 %", 0.10, 0.05, 1.4
DRY_RUN_RAD_S = 1.2 * DRY_RUN_SPEED * (DRY_RUN_RAD_S2 * DRY_RUN_RAD) ** 0.5  # its peak, and some
STOPPED, PLAYING = 1, 2  # runtime_state
TCP_TOLERANCE_M = 0.002
NOT_READABLE = "not readable over any interface: check on the pendant"
DECLARED = {  # what no interface tells -> where the pendant shows it
    "safety_checksum": "top right of the screen (e-Series), Installation, Safety (CB3)",
    "mounting": "Installation, Mounting",
    "joint_speed_limit": "Installation, Safety, Joint Limits",
    "force_limit": "Installation, Safety, General Limits (Robot Limits)",
}


@dataclass(frozen=True)
class Check:
    """One line of the report."""

    name: str
    verdict: str
    found: str
    remedy: str = ""


@dataclass(frozen=True)
class Report:
    """What `commission` found, in order."""

    host: str
    checks: tuple[Check, ...]
    declared: dict[str, str] = field(default_factory=dict)
    address: str = ""  # what `host` resolved to; empty when it did not

    @property
    def ok(self) -> bool:
        """Nothing is wrong."""
        return all(check.verdict != WRONG for check in self.checks)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "host": self.host, "ok": self.ok, "declared": dict(self.declared),
            "checks": [vars(check) for check in self.checks],
        }  # fmt: skip

    def markdown(self, when: str) -> str:
        """The report to keep."""
        rows = [f"| {c.name} | {c.verdict} | {_cell(c.found)} | {_cell(c.remedy)} |" for c in self.checks]
        verdict = "Nothing is wrong." if self.ok else "**Not ready: see the lines that are wrong.**"
        return "\n".join([
            f"# Commissioning of the robot at {self.host}", "", f"{when}. {verdict}", "",
            "| check | verdict | found | what to do |", "|---|---|---|---|", *rows, "",
        ])  # fmt: skip


def _cell(text: str) -> str:
    """Somebody else's text, as one cell of a table."""
    return " ".join(text.replace("|", "\\|").split())


def commission(host: str, declared: dict[str, str], timeout_s: float = 3.0) -> Report:
    """Every check that does not move the robot. Never raises for what a robot or a network does."""
    checks: list[Check] = []
    try:
        address = socket.gethostbyname(host)
        checks.append(Check("address", OK, f"{host} is {address}"))
    except (OSError, UnicodeError) as error:
        said = getattr(error, "strerror", None) or error
        checks.append(Check("address", WRONG, f"{host!r} does not resolve: {said}", "give the controller's address"))
        return Report(host, tuple(checks), declared)
    e_series, answered = _dashboard(address, checks, timeout_s)
    if answered:
        _rtde(address, 500.0 if e_series else 125.0, checks, timeout_s)
        _configuration(address, checks, timeout_s)
        _ports(address, checks, timeout_s)
    for name, where in DECLARED.items():
        value = declared.get(name, "")
        what = name.replace("_", " ")
        remedy = f"{where}: look there, and give --{name.replace('_', '-')} for the report"
        found = f"{NOT_READABLE}; declared: {value}" if value else f"{NOT_READABLE}; not declared"
        checks.append(Check(what, NOTE if value else UNKNOWN, found, "" if value else remedy))
    return Report(host, tuple(checks), declared, address)


def _dashboard(host: str, checks: list[Check], timeout_s: float) -> tuple[bool, bool]:
    """Version, model, modes; whether it is an e-Series, and whether anything answered."""
    client = DashboardClient(host, timeout_s=timeout_s)
    try:
        version = client.call("PolyscopeVersion")
        e_series = _version(version, checks)
        model = client.call("get robot model")
        checks.append(
            Check("model", OK, model) if model == MODEL else
            Check("model", WRONG, model, "this runtime's kinematics and limits are those of a UR5: do not use it here")
        )
        checks.append(Check("serial number", OK, client.call("get serial number")))
        _loaded(client.call("get loaded program"), checks)
        if e_series:
            remote = client.call("is in remote control").lower() == "true"
            checks.append(
                Check("remote control", OK, "remote") if remote else
                Check("remote control", WRONG, "local control", "switch the pendant to remote control")
            )
        else:
            checks.append(Check("remote control", OK, "CB3 has no such switch"))
        _mode(client.call("robotmode"), "RUNNING", "robot mode", "power on and release the brakes", checks)
        _mode(client.call("safetymode"), "NORMAL", "safety mode", "clear it at the pendant, having seen why", checks)
        return e_series, True
    except RobotError as error:
        checks.append(Check("dashboard", WRONG, str(error), "is it a UR controller, switched on, with its network up?"))
        return False, False
    finally:
        client.close()


def _version(text: str, checks: list[Check]) -> bool:
    words = text.removeprefix("URSoftware").strip().split(" ")[0].split(".")
    numbers = tuple(int(w) for w in words[:2]) if len(words) >= 2 and all(w.isdecimal() for w in words[:2]) else (0, 0)
    shown, unfit = text[:60], unfit_firmware(*numbers)
    generation = "e-Series" if numbers[0] == 5 else "CB3"
    checks.append(Check("firmware", WRONG, shown, unfit) if unfit else Check("firmware", OK, f"{shown}, {generation}"))
    return numbers[0] >= 5


def _loaded(answer: str, checks: list[Check]) -> None:
    """A program that lies ready is what a play at the pendant starts, ours or not, with whatever its URCaps add."""
    path = answer.partition("Loaded program:")[2].strip()
    remedy = "play at the pendant starts it, not the guard: load none, or know what it and its URCaps do" if path else ""
    checks.append(Check("loaded program", NOTE if path else OK, path or answer[:60], remedy))


def _mode(answer: str, wanted: str, name: str, remedy: str, checks: list[Check]) -> None:
    value = answer.partition(":")[2].strip()
    good = value == wanted
    checks.append(Check(name, OK if good else WRONG, value or answer[:60], "" if good else remedy))


def _rtde(host: str, hz: float, checks: list[Check], timeout_s: float) -> None:
    """States, rate, pose, payload; then whether our inputs are free."""
    client = RtdeClient(RtdeConfig(host, FIELDS, {}, hz, connect_timeout_s=timeout_s))
    try:
        client.connect(timeout_s)
        samples = _samples(client, 1.0)
    except RobotError as error:
        checks.append(Check("RTDE", WRONG, str(error), "see the reason; is port 30004 open (Settings, Security)?"))
        return
    finally:
        client.close()
    rate = _rate(samples)
    if rate is None:
        found = f"{len(samples)} states in 1 s, or their time does not advance"
        checks.append(Check("RTDE", WRONG, found, "check cable and switch; restart the controller"))
        return
    missed = client.counters.missed
    verdict = OK if missed == 0 else NOTE
    checks.append(Check("RTDE", verdict, f"protocol 2, {rate:.0f} Hz, {missed} states missed in 1 s",
                        "" if missed == 0 else "a direct cable, and SCHED_FIFO for the guard"))  # fmt: skip
    last = samples[-1]
    if int(last["robot_status_bits"]) & robot_status.TEACH_PRESSED:
        checks.append(Check("freedrive", WRONG, "the freedrive button is pressed", "let it go"))
    running = int(last["runtime_state"]) != STOPPED
    checks.append(Check("program", NOTE if running else OK, "a program runs or is paused" if running else "none runs",
                        "arming ends it: stop it at the pendant if it is somebody's" if running else ""))  # fmt: skip
    volts = bool(int(last["analog_io_types"]) & 1)
    remedy = "" if volts else "with the gripper on the outputs, set it to voltage: its width is 0..10 V (Installation, I/O)"
    checks.append(Check("analog input 0", OK if volts else NOTE, "voltage" if volts else "current", remedy))
    _pose(last, checks)


def _rate(samples: list[dict[str, Any]]) -> float | None:
    """States a second by the controller's own stamps; None when these do not tell."""
    span_s = samples[-1]["timestamp"] - samples[0]["timestamp"] if samples else 0.0
    return (len(samples) - 1) / span_s if span_s > 0.0 else None


def _samples(client: RtdeClient, seconds: float) -> list[dict[str, Any]]:
    found, end_s = [], time.monotonic() + seconds
    while (left_s := end_s - time.monotonic()) > 0 and client.fileno() >= 0:
        select.select([client], [], [], left_s)
        if (sample := client.poll(time.monotonic())) is not None:
            found.append(sample.values)
    return found


def _pose(values: dict[str, Any], checks: list[Check]) -> None:
    """Joints inside the range of a UR5, TCP by our own kinematics, payload."""
    q = np.asarray(values["actual_q"], dtype=float)
    outside = [n for n, v, low, high in zip(ur5.JOINT_NAMES, q, ur5.Q_MIN_RAD, ur5.Q_MAX_RAD) if not low <= v <= high]
    shown = ", ".join(f"{v:.3f}" for v in q)
    checks.append(Check("joints", WRONG, f"outside of the range: {', '.join(outside)}", "jog them back at the pendant")
                  if outside else Check("joints", OK, f"{shown} rad, inside +-360 deg (elbow +-180)"))  # fmt: skip
    flange = (kinematics.T_BASE_LINK_BASE @ kinematics.link_transforms(q)[-1])[:3, :]
    tool = np.asarray(values["actual_TCP_pose"], dtype=float)[:3]
    offset = flange[:, :3].T @ (tool - flange[:, 3])  # TCP in the flange
    wanted = np.array([0.0, 0.0, ur5.TOOL_LENGTH_M])
    apart = float(np.abs(offset - wanted).max())
    text = f"({', '.join(f'{v * 1e3:.1f}' for v in offset)}) mm in the flange by our kinematics"
    remedy = f"set TCP (0, 0, {ur5.TOOL_LENGTH_M * 1e3:.0f}) mm at the pendant; if it is set, the arm is no UR5"
    checks.append(Check("TCP", OK, text) if apart <= TCP_TOLERANCE_M else Check("TCP", WRONG, text, remedy))
    cog = ", ".join(f"{float(c) * 1e3:.0f}" for c in values["payload_cog"])
    checks.append(Check("payload", NOTE, f"{float(values['payload']):.3f} kg at ({cog}) mm in the flange",
                        "must be the gripper's, with nothing in it"))  # fmt: skip


def _configuration(host: str, checks: list[Check], timeout_s: float) -> None:
    """Kinematics, joint limits and TCP that the controller has configured."""
    verdicts = {True: OK, False: WRONG, None: NOTE}
    try:
        items = commissioning_primary.read(host, timeout_s)
    except RobotError as error:
        remedy = "check kinematics, joint limits and TCP on the pendant; is the port allowed (Settings, Security)?"
        checks.append(Check("configuration", UNKNOWN, f"not readable: {error}", remedy))
        return
    checks += [Check(f.name, verdicts[f.good], f.found, f.remedy) for f in commissioning_primary.judge(items)]


def _ports(host: str, checks: list[Check], timeout_s: float) -> None:
    """Inputs that somebody else has claimed (URCaps, PLCs, a guard that runs), and the ports we need."""
    inputs = {"setpoint": SETPOINT, "gripper": GRIPPER, "payload": PAYLOAD}
    client = RtdeClient(RtdeConfig(host, ("timestamp",), inputs))
    try:
        client.connect(timeout_s)
        checks.append(Check("registers", OK, "the guard's inputs are free"))
    except RobotError as error:
        remedy = "stop the guard, URCap or PLC that writes them (one RTDE client owns an input)"
        checks.append(Check("registers", WRONG, str(error), remedy))
    finally:
        client.close()
    checks.append(
        Check("script port", OK, f"{SCRIPT_PORT} open") if _open(host, SCRIPT_PORT, timeout_s) else
        Check("script port", WRONG, f"{SCRIPT_PORT} closed", "allow it at the pendant (Settings, Security, Services)")
    )
    urcap = _open(host, ROBOTIQ_PORT, 0.5)
    said = "answers: a Robotiq URCap" if urcap else "closed"
    checks.append(Check("gripper URCap", NOTE, f"port {ROBOTIQ_PORT} {said}"))


def _open(host: str, port: int, timeout_s: float) -> bool:
    try:
        socket.create_connection((host, port), timeout=timeout_s).close()
    except OSError:
        return False
    return True


# URScript's own speed and acceleration, of which the slider leaves a tenth: 8 s there and back
PROGRAM = """def steadyhand_dry_run():
  q = get_target_joint_positions()
  q[5] = q[5] + {turn}
  movej(q, a={acceleration}, v=1.05)
  q[5] = q[5] - {turn}
  movej(q, a={acceleration}, v=1.05)
end
"""


def dry_run(host: str, confirmed: Callable[[], bool], timeout_s: float = 20.0) -> Check:
    """Turn the last joint by 0.05 rad and back, with the speed slider at 10 %. Moves only if `confirmed()`.

    `timeout_s` is the controller's time; a controller whose time goes slower (a simulated one may) gets thrice that.
    The slider goes back only when the program is known to have ended: nothing of it may go on at full speed.
    """
    if not confirmed():
        return Check(DRY_RUN, UNKNOWN, "the operator did not agree: nothing was moved")
    client = RtdeClient(RtdeConfig(host, FIELDS, {"slider": SLIDER}))
    try:
        client.connect(5.0)
        return _dry_run(client, host, _samples(client, 0.2)[-1], timeout_s)
    except (RobotError, OSError, IndexError) as error:
        return Check(DRY_RUN, WRONG, f"{error or 'no state came'}", "see the checks above")
    finally:
        client.close()


def _dry_run(client: RtdeClient, host: str, before: dict[str, Any], timeout_s: float) -> Check:
    unready = _unready(before)  # a person's yes may have taken minutes
    if unready:
        return Check(DRY_RUN, WRONG, f"{unready}: nothing was moved", "see to it, and commission again")
    speed = float(before["target_speed_fraction"])
    if not client.send("slider", [1, DRY_RUN_SPEED]):
        return Check(DRY_RUN, WRONG, "the speed slider was not taken", "see the RTDE check")
    if not any(abs(v["target_speed_fraction"] - DRY_RUN_SPEED) < 1e-6 for v in _samples(client, 0.3)):
        client.send("slider", [1, speed])
        return Check(DRY_RUN, WRONG, "the speed slider did not follow", "nothing was moved; is remote control on?")
    try:
        with socket.create_connection((host, SCRIPT_PORT), timeout=2.0) as peer:
            peer.sendall(PROGRAM.format(turn=DRY_RUN_RAD, acceleration=DRY_RUN_RAD_S2).encode())
            check = _watched(client, before["actual_q"], timeout_s)
    except BaseException:  # also an operator's Ctrl-C
        _end(client, host, speed)
        raise
    if check.verdict == OK:
        client.send("slider", [1, speed])
        return check
    return replace(check, found=check.found + _end(client, host, speed))


def _unready(values: dict[str, Any]) -> str:
    """Why nothing may be started now; empty when it may."""
    robot_mode, safety_mode = int(values["robot_mode"]), int(values["safety_mode"])
    if robot_mode != robot_status.RUNNING:
        return f"robot mode {robot_mode}, wanted {robot_status.RUNNING}"
    if safety_mode != robot_status.NORMAL:
        return f"safety mode {safety_mode}, wanted {robot_status.NORMAL}"
    return "" if int(values["runtime_state"]) == STOPPED else "somebody's program runs or is paused"


def _end(client: RtdeClient, host: str, speed: float) -> str:
    """End the program, then give the slider back; what to know when it is not known to have ended."""
    dashboard = DashboardClient(host, timeout_s=2.0)
    try:
        dashboard.call("stop")  # whatever is answered: the states tell
    except RobotError:
        pass
    finally:
        dashboard.close()
    states = [int(values["runtime_state"]) for values in _samples(client, 1.0)]
    if states and set(states[len(states) // 2:]) == {STOPPED} and client.send("slider", [1, speed]):
        return ""
    return "; its program may still run: stop it at the pendant (the speed slider was left at 10 %)"


def _astray(moved: np.ndarray, speed: float) -> Check | None:
    """What the arm does that it was not told."""
    if not speed <= DRY_RUN_RAD_S:
        found = f"told to go at {speed:.3f} rad/s, 10 % are {DRY_RUN_RAD_S / 1.2:.3f}"
        return Check(DRY_RUN, WRONG, found, "the speed slider does not hold it back")
    if not (float(np.abs(moved[:5]).max()) <= 0.01 and float(np.abs(moved[5])) <= 1.5 * DRY_RUN_RAD):
        shown = ", ".join(f"{v:.3f}" for v in moved)
        return Check(DRY_RUN, WRONG, f"the joints moved by {shown} rad", "it does not do what it is told")
    return None


def _watched(client: RtdeClient, q_start: np.ndarray, timeout_s: float) -> Check:
    far, fastest, began, end_s, passed_s, first_s = 0.0, 0.0, False, time.monotonic() + 3.0 * timeout_s, 0.0, None
    while time.monotonic() < end_s and passed_s < timeout_s and client.fileno() >= 0:
        for values in _samples(client, 0.1):
            first_s = values["timestamp"] if first_s is None else first_s
            passed_s = values["timestamp"] - first_s
            moved, speed = np.asarray(values["actual_q"]) - q_start, float(np.abs(values["target_qd"]).max())
            astray = _astray(moved, speed)
            if astray is not None:
                return astray
            far, fastest = max(far, float(moved[5])), max(fastest, speed)
            began |= int(values["runtime_state"]) == PLAYING
            if began and far > 0.8 * DRY_RUN_RAD and int(values["runtime_state"]) == STOPPED:
                if abs(float(moved[5])) <= 0.01:
                    return Check(DRY_RUN, OK, f"wrist 3 turned by {far:.3f} rad and back, at {fastest:.3f} rad/s at most")
                return Check(DRY_RUN, WRONG, f"wrist 3 is {float(moved[5]):.3f} rad from its start", "who stopped it?")
    lost = f": {client.reason}" if client.fileno() < 0 else ""
    found = f"not done within {timeout_s:g} s (moved {far:.3f} rad){lost}"
    return Check(DRY_RUN, WRONG, found, "remote control? safety mode?")
