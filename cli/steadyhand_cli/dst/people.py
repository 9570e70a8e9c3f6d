"""Operators at the guard's own door: one who takes command by hand and gives it back, one who is only in control.

The one in command arms a manual mode for its own connection, beats every 50 ms and jogs (short chunks at 20 Hz) or
sends a planned move; the one in control beats every 100 ms over the operator link while AUTO goes on.
"""
from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np

from steadyhand import ur5
from steadyhand.guard_protocol import Arm, Chunk, Heartbeat, Link, Reply, State, Stop, Verdict
from steadyhand_cli.dst.host import CREDENTIAL, Client
from steadyhand_cli.dst.paths import Path

if TYPE_CHECKING:
    from steadyhand_cli.dst.world import World

STEP_S = 0.05
JOG, MOVE = (8, 0.05), (64, 0.1)  # way-points, period
LINK, MANUAL = "operator-guard", "ARMED_MANUAL"
GIVE_UP_S = 6.0


class Person:
    """Connects at once; `end` is agreed on from the beginning: it releases what it holds and leaves."""

    def __init__(self, world: World, rng: random.Random, stays_s: float, commands: bool):
        self.world, self.rng, self.commands = world, rng, commands
        self.client: Client | None = None
        self.silent_until_s = float("-inf")
        self.over = self.in_command = False
        self._end_s = world.clock.now_s + (GIVE_UP_S if commands else stays_s)
        self._stays_s, self._asked_s, self._steps, self._number = stays_s, float("-inf"), 0, 0
        self._path: Path | None = None
        self._moves = commands and rng.random() < 0.5  # planned moves; else jogging
        self._move_s = float("-inf")
        if commands:
            world.operator.present = False
            world.stop(Stop("takeover", "by hand"))
        self._step()

    @property
    def connected(self) -> bool:
        """Whether the guard still knows its connection."""
        return self.client in self.world.host.clients

    def _send(self, message: Any) -> None:
        world = self.world
        world.links[LINK].send(
            message, world.clock.now_s, lambda m: world.host.deliver(self.client, m, world.clock.now_s)
        )

    def _id(self) -> str:
        self._number += 1
        return f"p{self.world.people}-{self._number}"

    def _step(self) -> None:
        world, now_s = self.world, self.world.clock.now_s
        if self.over:
            return None
        if now_s > self._end_s:
            return self.end()
        if not self.connected:
            self.client, self.in_command = world.host.connect("person", False, now_s), False
        if self.client is not None and now_s > self.silent_until_s:
            self._act(now_s)
        return world.at(now_s + STEP_S, self._step)

    def _act(self, now_s: float) -> None:
        self._steps += 1
        self._send(Heartbeat("shell", True))
        if not self.commands or self._moves:
            if self._steps % 2:
                self._send(Link("person", True))
        state = self.world.host.states[-1] if self.world.host.states else None
        if not self.commands or state is None:
            return
        if self.in_command:
            if state.mode == MANUAL:
                return self._drive(state, now_s)
            if now_s - self._asked_s > 1.0:
                self.in_command = False  # stopped: once more
        elif state.mode == "STOPPED" and state.at_rest and now_s - self._asked_s > 0.6:
            self._asked_s = now_s
            self._send(Arm("manual", CREDENTIAL, self._id(), command=True))

    def _drive(self, state: State, now_s: float) -> None:
        if self._path is None:
            top = self.rng.choice([0.4, 0.8, 1.2])
            self._path = Path(state.stamp_s, state.q_commanded_rad, state.qd_commanded_rad_s, self.rng, top)
            self._move_s = float("-inf")
        if self._moves and now_s - self._move_s < 5.0:
            return
        self._move_s = now_s
        count, period_s = MOVE if self._moves else JOG
        q = self._path.waypoints(state.stamp_s, count, period_s)
        self._send(Chunk(
            state.token, state.seq, state.stamp_s, self._id(), "planner" if self._moves else "manual",
            list(ur5.JOINT_NAMES), period_s, np.asarray(q).tolist(),
        ))  # fmt: skip

    def on_answer(self, message: Any) -> None:
        """The guard has answered this connection."""
        if isinstance(message, Reply) and message.ok and message.message.startswith("armed"):
            self.in_command, self._path = True, None
            self._end_s = self.world.clock.now_s + self._stays_s
        elif isinstance(message, Verdict) and not message.accepted:
            self._path = None

    def end(self) -> None:
        """Give back in order: disarm what it armed, end the link, close."""
        self.over = True
        if self.in_command:
            self._send(Arm("disarm", "", self._id()))
        self._send(Link("person", False, self._id()))
        self.world.at(self.world.clock.now_s + 0.3, self.leave)

    def leave(self) -> None:
        """The connection closes; the operator of the cell takes over."""
        self.over, self.world.operator.present = True, True
        self.world.host.disconnect(self.client, self.world.clock.now_s)
        if self.world.person is self:
            self.world.person = None
