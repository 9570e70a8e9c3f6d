"""The processes round the guard: the agent that commands, the shell that relays, the operator that arms again."""
from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from steadyhand import cell, ur5
from steadyhand.guard_protocol import Arm, Chunk, Gripper, Heartbeat, Reply, State, Verdict
from steadyhand_cli.dst.checker import ARMED
from steadyhand_cli.dst.host import CREDENTIAL, Client
from steadyhand_cli.dst.paths import Goal, Path, anywhere, beside_vehicle, clear_of_vehicle, low_over_tray

if TYPE_CHECKING:
    from steadyhand_cli.dst.world import World

BEAT = Heartbeat("shell", True)
LONG, LONG_PERIOD_S = 64, 0.1  # way-points of a planned chunk: 6.4 s
SHORT, SHORT_PERIOD_S = 8, 0.05  # of a policy's or a jog's
WIDTHS_M = (0.0, cell.GRIPPER_PREGRASP_M, cell.GRIPPER_OPEN_M)
NEVER = float("-inf")
ELSEWHERE_S = 5.0


class Agent:
    """Streams chunks along a path, planned (long, seldom) or as the policy does (short, at 20 Hz)."""

    def __init__(self, world: World, rng: random.Random):
        self.world, self.rng = world, rng
        self.alive, self.frozen_until_s = True, NEVER
        self.token = 0
        self.path: Path | None = None
        self.streaming = 0  # short chunks still to send before long ones
        self.sent: dict[str, Chunk] = {}  # newest chunks, for replays by others
        self.accepted: Chunk | None = None
        self._number = self._refused = 0
        self._wake: int | None = None  # event agreed on
        self._awaited = ""
        self._source = "planner"
        self._elsewhere_until_s = NEVER  # the vehicle claims the place

    def well_now(self, now_s: float) -> bool:
        """Whether it runs."""
        return self.alive and now_s > self.frozen_until_s

    def frozen(self, now_s: float) -> bool:
        """Whether the process is stopped, or gone."""
        return not self.well_now(now_s)

    def kill(self) -> None:
        """All that it knew is gone."""
        if self.world.mission is not None:
            self.world.mission.drop()
        self.alive, self.path, self.token, self._awaited = False, None, 0, ""
        self._sleep()

    def start(self, now_s: float) -> None:
        """A new process."""
        self.alive = True
        self.wake_at(now_s + 0.01)

    def wake_at(self, time_s: float) -> None:
        """Act then, instead of at any time agreed before."""
        self._sleep()
        self._wake = self.world.at(time_s, self._act)

    def _sleep(self) -> None:
        if self._wake is not None:
            self.world.forget(self._wake)
            self._wake = None

    def _act(self) -> None:
        self._wake, now_s = None, self.world.clock.now_s
        if not self.alive or self.world.mission is not None:
            return None
        if now_s <= self.frozen_until_s:
            return self.wake_at(self.frozen_until_s + 0.001)
        state = self.world.view(now_s)
        if state is None or state.mode not in ARMED:
            self.path = None
            return self.wake_at(now_s + 0.05)
        if state.token != self.token:
            self.token, self.path, self._refused = state.token, None, 0
            self._choose(state.mode)
        if self.world.mission_due and state.mode == "ARMED_AUTO":
            if state.at_rest and np.abs(np.array(state.q_commanded_rad) - low_over_tray()).max() < 0.02:
                self.path = self.accepted = None
                return self.world.begin_mission()
            if self.path is None or self.path.goal_rad is None:  # that agent begins low over the tray
                self.streaming = 0
                self.path = Path(
                    state.stamp_s, state.q_commanded_rad, state.qd_commanded_rad_s, self.rng, 1.2, low_over_tray()
                )
        if self.path is None:
            slow = state.mode == "RECOVERING"  # now and then faster than that mode allows
            top = self.rng.choice([0.05, 0.05, 0.18] if slow else [0.6, 1.0, 1.4, 1.8])
            self.path = Path(
                state.stamp_s, state.q_commanded_rad, state.qd_commanded_rad_s, self.rng, top, goal=self._goal(now_s)
            )
        chunk = self.chunk(state)
        self._awaited = chunk.trace_id
        self.sent[chunk.trace_id] = chunk
        if len(self.sent) > 8:
            self.sent.pop(next(iter(self.sent)))
        self.world.command(chunk, now_s)
        self.wake_at(now_s + (0.05 if self.streaming else 0.07))  # unless a verdict says otherwise
        return None

    def _goal(self, now_s: float) -> Goal:
        if self.world.vehicle is None:
            return anywhere
        return clear_of_vehicle if now_s < self._elsewhere_until_s else beside_vehicle

    def _choose(self, mode: str) -> None:
        self._source, self.streaming = "planner", 0
        if mode != "RECOVERING" and self.rng.random() < 0.12:
            self._source = "policy" if mode == "ARMED_AUTO" else "manual"
            self.streaming = self.rng.randint(8, 30)

    def chunk(self, state: State) -> Chunk:
        """The chunk that answers `state`."""
        short = self.streaming > 0
        count, period_s = (SHORT, SHORT_PERIOD_S) if short else (LONG, LONG_PERIOD_S)
        self.streaming = max(0, self.streaming - 1)
        q = self.path.waypoints(state.stamp_s, count, period_s)
        if not np.isfinite(q).all():
            self.path = None  # the state was spoilt on its way
        return self.chunk_of(state, q, period_s, self._source if short else "planner")

    def chunk_of(self, state: State, q_rad: np.ndarray, period_s: float, source: str = "planner") -> Chunk:
        """These way-points (n, 6) as an answer to `state`."""
        self._number += 1
        return Chunk(
            state.token, state.seq, state.stamp_s, f"c{self._number}", source, list(ur5.JOINT_NAMES), period_s,
            q_rad.tolist(),
        )  # fmt: skip

    def on_verdict(self, verdict: Verdict) -> None:
        """The shell passed a verdict on."""
        now_s = self.world.clock.now_s
        if not self.well_now(now_s):
            return None
        if self.world.mission is not None:
            return self.world.mission.on_verdict(verdict)
        if verdict.trace_id != self._awaited:
            return None
        if not verdict.accepted:
            self._refused += 1
            if "interlock" in verdict.detail:
                self._elsewhere_until_s = now_s + ELSEWHERE_S
            if self._refused >= 2 or verdict.reason not in ("expired", "flood", "out_of_order"):
                self.path = None
            return self.wake_at(now_s + 0.02)
        self._refused, self.accepted = 0, self.sent.get(verdict.trace_id)
        if self.rng.random() < 0.2:
            self._number += 1
            self.world.command(Gripper(self.token, self.rng.choice(WIDTHS_M), f"g{self._number}"), now_s)
        if not self.streaming:
            if self.rng.random() < 0.02:
                self._choose("ARMED_AUTO" if self._source == "policy" else "RECOVERING")
            self.wake_at(now_s + (self.rng.uniform(5.0, 6.0) if not self.world.mission_due else 0.3))
        return None


class Shell:
    """Relays commands and states; its heartbeat tells the guard that it lives."""

    def __init__(self, world: World):
        self.world = world
        self.alive, self.frozen_until_s = True, NEVER
        self.client: Client | None = None

    def well_now(self, now_s: float) -> bool:
        """Whether it runs."""
        return self.alive and now_s > self.frozen_until_s

    def connect(self) -> None:
        """Try to reach the guard, again and again."""
        world, now_s = self.world, self.world.clock.now_s
        if not self.alive or self._connected():
            return
        if self.well_now(now_s):
            self.client = world.host.connect("shell", True, now_s)
            if self.client is not None and not self.client.commander:
                world.host.disconnect(self.client, now_s)
                self.client = None
        if not self._connected():
            world.at(now_s + 0.1, self.connect)

    def _connected(self) -> bool:
        return self.client is not None and self.client in self.world.host.clients

    def kill(self, now_s: float) -> None:
        """The process dies: its connection closes."""
        self.alive = False
        client, self.client = self.client, None
        self.world.host.disconnect(client, now_s)

    def start(self) -> None:
        """A new process."""
        self.alive = True
        self.connect()

    def relay(self, message: Any) -> None:
        """A command of the agent has come: to the guard, when there is a way."""
        world, now_s = self.world, self.world.clock.now_s
        if not self.alive:
            return
        if now_s <= self.frozen_until_s:
            return world.at(self.frozen_until_s + 0.0005, lambda: self.relay(message))
        return world.links["shell-guard"].send(
            message, now_s, lambda m: world.host.deliver(self.client, m, world.clock.now_s)
        )


class Operator:
    """Arms again when the arm is at rest and nothing holds; chooses the mode."""

    def __init__(self, world: World, rng: random.Random):
        self.world, self.rng = world, rng
        self.present = True
        self.client: Client | None = None
        self.planned = False  # an act is agreed on
        self.disarm_s: float | None = None
        self._number = 0

    def watch(self, armed: bool, now_s: float) -> None:
        """Each cycle: see to it that somebody acts when the guard is not armed."""
        if not self.planned and self.present:
            if not armed:
                self._plan(now_s + self.rng.uniform(0.02, 0.15))
            elif self.disarm_s is not None:
                self._plan(self.disarm_s)

    def _plan(self, time_s: float) -> None:
        self.planned = True
        self.world.at(time_s, self._act)

    def _act(self) -> None:
        self.planned = False
        world, now_s = self.world, self.world.clock.now_s
        state = world.host.states[-1] if world.host.states else None
        if state is None or not self.present:
            return
        if state.mode in ARMED:
            if self.disarm_s is not None and now_s >= self.disarm_s:
                self.disarm_s = None
                self.send(Arm("disarm", "", self._id()))
            return
        if state.at_rest:
            mode = self.rng.choices(["auto", "manual", "recover"], [90, 8, 2])[0]
            self.disarm_s = now_s + self.rng.uniform(2.0, 8.0) if mode != "auto" else None
            self.send(Arm(mode, CREDENTIAL, self._id()))

    def _id(self) -> str:
        self._number += 1
        return f"o{self._number}"

    def send(self, message: Any) -> None:
        """Over the operator's own connection."""
        world, now_s = self.world, self.world.clock.now_s
        if self.client not in world.host.clients:
            self.client = world.host.connect("operator", False, now_s)
        world.links["operator-arm"].send(
            message, now_s, lambda m: world.host.deliver(self.client, m, world.clock.now_s)
        )

    def on_reply(self, reply: Reply) -> None:
        """An answer: the next look at the state decides."""


def spoilt(state: State, rng: random.Random) -> State:
    """A state as a broken link shows it."""
    q = list(state.q_commanded_rad)
    q[rng.randrange(6)] = rng.choice([float("nan"), 0.0, 9.9])
    return replace(state, q_commanded_rad=q)
