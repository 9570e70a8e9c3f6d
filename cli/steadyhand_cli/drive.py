"""`steadyhand drive NAME=X,Y[,HEADING] ...`: drive the vehicle along places of its map, as its commander.

    steadyhand drive shelf=-3,0 table=-1,2 --do shelf:pick:HARD:weight=12.5 --on-way table:signal:NONE --do table:drop

The guard decides: it refuses while the vehicle is not armed, or while the arm is where the vehicle would move. Ending
this command, by Ctrl+C too, stops a vehicle that has not arrived, and its stop domain; one that has is disarmed, which
stops nobody else.
"""
from __future__ import annotations

import argparse
import math
import secrets
import time
from collections.abc import Callable
from pathlib import Path

from steadyhand.agv import TaskState
from steadyhand.errors import ConfigError, RobotError
from steadyhand.guard_protocol import AgvState, Drive, Verdict
from steadyhand.slot import current_slot
from steadyhand_firmware_bridge import operator
from steadyhand_firmware_bridge.client import GuardClient

HERE = "here"  # the first place of every task: where the vehicle stands
POLL_S = 0.02
ENDED = (TaskState.ARRIVED.value, TaskState.FAILED.value, TaskState.STOPPED.value)


def add_arguments(parser: argparse.ArgumentParser, name: str) -> None:
    parser.add_argument("places", nargs="+", metavar="NAME=X,Y[,HEADING]", help="node id and its place, in m and rad")
    parser.add_argument("--speed", type=float, default=0.0, help="limit in m/s (0: the vehicle's own)")
    form = "NAME:KIND[:BLOCKING[:KEY=VALUE...]]"
    parser.add_argument("--do", action="append", default=[], metavar=form, help="an action there (blocking: HARD)")
    parser.add_argument("--on-way", action="append", default=[], metavar=form, help="an action on the way to there")
    parser.add_argument(
        "--deviation", action="append", default=[], metavar="NAME=M[,RAD]", help="how far from it counts as reached"
    )
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds within which it must arrive (120)")


def place(text: str) -> tuple[str, list[float]]:
    """Name and pose of NAME=X,Y[,HEADING]; ConfigError names what is wrong."""
    name, separator, numbers = text.partition("=")
    pose = parse_pose(numbers)
    if not separator or not name or name == HERE or pose is None:
        raise ConfigError(f"place {text!r}: give NAME=X,Y or NAME=X,Y,HEADING in m and rad, not named {HERE!r}")
    return name, pose


def parse_pose(text: str) -> list[float] | None:
    """X,Y or X,Y,HEADING; None when it is neither, or not finite."""
    try:
        pose = [float(part) for part in text.split(",")]
    except ValueError:
        return None
    return pose if len(pose) in (2, 3) and all(map(math.isfinite, pose)) else None


def action(text: str, names: list[str], on_way: bool) -> dict:
    """An entry of `Drive.actions`; ConfigError names what is wrong. What the vehicle takes is the guard's to say."""
    parts = text.split(":")
    name, kind, blocking, *given = parts + [""] * (3 - len(parts))
    pairs = [part.partition("=") for part in given]
    if name not in names or not kind or not all(sep and key for key, sep, _ in pairs):
        raise ConfigError(f"action {text!r}: give NAME:KIND[:BLOCKING[:KEY=VALUE...]], NAME one of {', '.join(names)}")
    parameters = {key: _value(value) for key, _, value in pairs}
    return {"at": names.index(name) + 1, "on_way": on_way, "kind": kind, "blocking": blocking or "HARD",
            "parameters": parameters}  # fmt: skip


def _value(text: str) -> str | float | bool:
    if text in ("true", "false"):
        return text == "true"
    try:
        return float(text)
    except ValueError:
        return text


def deviations(texts: list[str], names: list[str]) -> list[list[float]]:
    """`Drive.deviations` for the place where it stands and these; empty when none is given."""
    given: dict[str, list[float]] = {}
    for text in texts:
        name, _, numbers = text.partition("=")
        try:
            given[name] = [float(part) for part in numbers.split(",")]
        except ValueError:
            given[name] = []
        if name not in names or len(given[name]) not in (1, 2):
            raise ConfigError(f"--deviation {text!r}: give NAME=M or NAME=M,RAD, NAME one of {', '.join(names)}")
    return [[], *(given.get(name, []) for name in names)] if given else []


def run(args: argparse.Namespace) -> int:
    places = [place(text) for text in args.places]
    if not 0.0 <= args.speed <= 10.0:
        raise ConfigError(f"--speed {args.speed}: give 0 to 10")
    if not 0.0 < args.timeout <= 3600.0:
        raise ConfigError(f"--timeout {args.timeout}: give more than 0, at most 3600")
    names = [name for name, _ in places]
    actions = [action(text, names, on_way) for on_way in (False, True) for text in (args.on_way if on_way else args.do)]
    allowed = deviations(args.deviation, names)
    with Driver() as driver:
        state = driver.drive(places, args.timeout, args.speed, _show, actions=actions, deviations=allowed)
        print(f"arrived at {state.last_waypoint or names[-1]}: {_pose(state)}", flush=True)
        driver.disarm()
    return 0


def _show(state: AgvState) -> None:
    print(f"{state.task_state}, {state.waypoints_left} places left, last {state.last_waypoint or '-'}: {_pose(state)}")


def _pose(state: AgvState) -> str:
    return ", ".join(f"{v:.2f}" for v in state.pose_m_rad)


class Driver:
    """A vehicle's commander, for one task after the other. Context manager: leaving it stops what is armed."""

    def __init__(self, folder: Path | None = None) -> None:
        self._client = GuardClient("drive", commander=True, folder=folder or current_slot().socket_dir / "agv")
        self._client.connect()

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *exc) -> None:
        self.close()

    def close(self) -> None:
        """Leave."""
        self._client.close()

    @property
    def connected(self) -> bool:
        """Whether the guard is still there."""
        return self._client.connected

    def disarm(self) -> None:
        """An orderly end: to leave an armed vehicle would be a lost commander, which stops the whole stop domain."""
        reply = operator.disarm(folder=self._client.folder)
        if not reply.ok:
            raise RobotError(f"not disarmed: {reply.message}")

    def state(self, timeout_s: float = 2.0) -> AgvState:
        """The next state; RobotError when there is none in time."""
        self._client.poll()  # what has come since the last task is old
        state = self._client.wait(lambda m: isinstance(m, AgvState), timeout_s)
        if state is None:
            raise RobotError(f"the AGV's guard sent no state within {timeout_s} s")
        return state

    def drive(
        self, places: list[tuple[str, list[float]]], timeout_s: float, speed_m_s: float = 0.0,
        show: Callable[[AgvState], None] = lambda state: None, **extras,
    ) -> AgvState:
        """Drive there; the state at the end. `extras` are further fields of `Drive`.

        RobotError naming why not: refused, failed, stopped, not in time.
        """
        start = self.state()
        if not start.pose_m_rad:
            raise RobotError("the vehicle does not say where it stands; see steadyhand status --agv")
        names, poses = [HERE, *(n for n, _ in places)], [start.pose_m_rad[:2], *(p for _, p in places)]
        task = f"drive-{secrets.token_hex(4)}"
        self._client.send(
            Drive(start.token, start.stamp_s, task, task, names, poses, start.map_id, speed_m_s=speed_m_s, **extras)
        )
        return self._follow(task, time.monotonic() + timeout_s, show)

    def _follow(self, task: str, end_s: float, show: Callable[[AgvState], None]) -> AgvState:
        told = None
        while time.monotonic() < end_s:
            for message in self._client.poll():
                if isinstance(message, Verdict) and not message.accepted and message.trace_id == task:
                    raise RobotError(f"refused: {message.reason}: {message.detail}")
            if not self._client.connected:
                raise RobotError("the AGV's guard has gone; the vehicle drives on to its last released node")
            state = self._client.state
            if isinstance(state, AgvState) and state.task_id == task:
                if (state.task_state, state.waypoints_left) != told:
                    told = (state.task_state, state.waypoints_left)
                    show(state)
                if state.task_state == TaskState.ARRIVED.value:
                    return state
                if state.task_state in ENDED:
                    raise RobotError(f"{state.task_state}: {state.task_detail} {'; '.join(state.causes)}".rstrip())
            time.sleep(POLL_S)
        self._client.close()
        raise RobotError("not there in time: stopped")
