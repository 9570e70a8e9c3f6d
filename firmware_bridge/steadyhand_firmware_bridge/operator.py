"""What an operator does: stop, re-arm, disarm. Used by the CLI and by consoles. Waits, each time with a limit."""
from __future__ import annotations

import secrets
import socket
from collections.abc import Callable
from pathlib import Path

from steadyhand.errors import RobotError
from steadyhand.guard_protocol import (
    REARM_TOKEN_FILE, STATES, STOP_SOCKET, AgvState, Arm, Reply, RobotAct, State, Stop, VehicleAct,
    encode,
)
from steadyhand.guard_state import ARM_MODES
from steadyhand.slot import current_slot
from steadyhand_firmware_bridge.client import GuardClient
from steadyhand_firmware_bridge.guard import vehicle_acts


def stop(source: str = "operator", reason: str = "", folder: Path | None = None) -> None:
    """Request a stop on the stop socket; raises RobotError when there is no guard to take it.

    Returns as soon as the request is handed over. To learn of rest: `wait_rest`.
    """
    path = (folder or current_slot().socket_dir) / STOP_SOCKET
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.settimeout(0.5)
        try:
            sock.sendto(encode(Stop(source=source, reason=reason)), str(path))
        except TimeoutError as error:  # its buffer is full of stop requests: it is stopping
            remedy = "use the wired emergency stop if it does not stop"
            raise RobotError(f"{path}: flooded with stop requests; {remedy}") from error
        except OSError as error:
            why = error.strerror or error
            raise RobotError(f"{path}: {why}; no guard runs here: use the wired emergency stop") from error


def wait_rest(timeout_s: float = 3.0, folder: Path | None = None) -> State | AgvState:
    """The first state that says at rest, or REST_UNKNOWN; raises RobotError when neither comes in time."""
    def rests(m: object) -> bool:
        return isinstance(m, STATES) and (m.at_rest or m.mode == "REST_UNKNOWN")

    return _first(rests, "rest", timeout_s, folder)


def _first(wanted: Callable[[object], bool], what: str, timeout_s: float, folder: Path | None) -> State | AgvState:
    client = GuardClient(f"operator-{what}", folder=folder)
    client.connect()
    try:
        state = client.wait(wanted, timeout_s)
    finally:
        client.close()
    if state is None:
        raise RobotError(f"no {what} reported within {timeout_s} s; use the wired emergency stop")
    return state


def rearm(mode: str = "auto", timeout_s: float = 8.0, folder: Path | None = None) -> Reply:
    """Ask the guard to arm ("auto", "manual", "recover"); its reply says what forbids it, and what was interrupted."""
    if mode not in ARM_MODES:
        raise RobotError(f"mode {mode!r}: give one of {', '.join(ARM_MODES)}")
    return _ask(mode, credential(folder), timeout_s, folder)


def disarm(timeout_s: float = 4.0, folder: Path | None = None) -> Reply:
    """End motion in an orderly way; needs no credential."""
    return _ask("disarm", "", timeout_s, folder)


def robot_act(act: str, timeout_s: float = 10.0, folder: Path | None = None) -> Reply:
    """Ask the guard for an act on the robot itself, such as "power-on" or "unlock"; its reply is the controller's."""
    return _send(RobotAct(act, credential(folder), secrets.token_hex(8)), act, timeout_s, folder)


def vehicle_act(act: str, timeout_s: float = 8.0, folder: Path | None = None, **fields) -> Reply:
    """Ask the guard of a vehicle for one of `guard_protocol.VehicleAct`, with its other fields; the reply to it."""
    secret = "" if act in vehicle_acts.ANYBODYS else credential(folder)
    if act == "resume":
        state = _first(lambda m: isinstance(m, AgvState), "state", timeout_s, folder)
        fields |= {"token": state.token, "state_stamp_s": state.stamp_s}
    return _send(VehicleAct(act, secret, secrets.token_hex(8), **fields), act, timeout_s, folder)


def credential(folder: Path | None = None) -> str:
    """Content of the guard's token file; raises RobotError when this user may not read it or no guard runs."""
    path = (folder or current_slot().socket_dir) / REARM_TOKEN_FILE
    try:
        return path.read_text().strip()
    except OSError as error:
        remedy = "run as the guard's user, with the guard running"
        raise RobotError(f"re-arm credential {path}: {error.strerror}; {remedy}") from error


def _ask(mode: str, secret: str, timeout_s: float, folder: Path | None) -> Reply:
    return _send(Arm(mode=mode, credential=secret, request_id=secrets.token_hex(8)), mode, timeout_s, folder)


def _send(message: Arm | RobotAct | VehicleAct, what: str, timeout_s: float, folder: Path | None) -> Reply:
    client = GuardClient("operator", states=False, folder=folder)
    client.connect()
    try:
        client.send(message)
        reply = client.wait(lambda m: isinstance(m, Reply) and m.request_id == message.request_id, timeout_s)
    finally:
        client.close()
    if reply is None:
        raise RobotError(f"the guard did not answer {what!r} within {timeout_s} s")
    return reply
