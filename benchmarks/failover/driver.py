"""The agent's part: leads the arm by the policy, chunk by chunk, and keeps everything that it did and saw."""
from __future__ import annotations

import contextlib
import queue
import select
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from steadyhand import kinematics, policy_io, ur5
from steadyhand.errors import KinematicsError, PolicyError, SteadyhandError
from steadyhand.guard_protocol import Chunk, State, Verdict
from steadyhand.policy_io import PERIOD_S, Target
from steadyhand.types import Skill
from steadyhand_firmware_bridge import operator
from steadyhand_firmware_bridge.client import GuardClient
from steadyhand_policies.live import LivePolicy

DEADLINE_S, EXPIRY_S = 0.040, 0.050  # the agent's own: of a call, and of a reply's use
EPISODE_S = 1.5  # an attempt of a skill takes so long
CENTRE_M, RADIUS_M, AHEAD_RAD, HEIGHT_M = np.array([0.50, -0.08]), 0.20, 0.7, 0.02
WIDTH_M = 0.062  # opening of the fingers while they approach
MOVING_RAD_S = 0.02


@dataclass
class Asked:
    """One request: when, of which state, and what became of it."""

    at_s: float
    observation: np.ndarray
    state: State
    sent_s: float = float("nan")  # its chunk's
    actions: np.ndarray | None = None
    error: str = ""
    accepted: bool = False


@dataclass
class Driver:
    """Leads the arm round and round; everything that it did and saw, by the monotonic clock."""

    client: GuardClient
    live: LivePolicy
    folder: Path
    asked: dict[str, Asked] = field(default_factory=dict)
    cycles: list[tuple[float, int, tuple, bool]] = field(default_factory=list)  # received, seq, commanded, moving
    counts: Counter = field(default_factory=Counter)
    stopped_by: Counter = field(default_factory=Counter)  # causes of the guard, by periods

    def __post_init__(self) -> None:
        self._requests: queue.Queue = queue.Queue(1)
        self._replies: queue.SimpleQueue = queue.SimpleQueue()
        self._stopping = False
        self._traces: dict[str, str] = {}
        self._arming: threading.Thread | None = None
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._policy, self._lead)]
        for thread in self._threads:
            thread.start()

    def said(self) -> str:
        """How things stand, for a message."""
        state, errors = self.client.state, Counter(a.error for a in list(self.asked.values())[-200:] if a.error)
        stands = f"{state.mode}: {'; '.join(state.causes)}, {dict(state.counters)}" if state is not None else "no state"
        return f"{stands}; {dict(self.counts)}; {len(self.asked)} asked, {len(self.cycles)} cycles; {dict(errors)}"

    def close(self) -> None:
        self._stopping = True
        for thread in self._threads:
            thread.join(2.0)

    def _policy(self) -> None:
        while not self._stopping:
            try:
                name, observation, pin = self._requests.get(timeout=0.1)
            except queue.Empty:
                continue
            try:
                self._replies.put((name, self.live.infer(observation, name, DEADLINE_S, pin), ""))
            except PolicyError as error:
                self._replies.put((name, None, str(error)))

    def _lead(self) -> None:
        """As the agent: one request a period, the newest state, a reply only for its own observation and in time."""
        next_s, episode_s = time.monotonic(), 0.0
        while not self._stopping:
            now_s = time.monotonic()
            with contextlib.suppress(queue.Empty):
                while True:
                    self._take(*self._replies.get_nowait())
            state = self.client.state
            if now_s >= next_s and state is not None:
                next_s = max(next_s + PERIOD_S, now_s)
                if state.mode == "ARMED_AUTO":
                    if now_s - episode_s > EPISODE_S:
                        episode_s = now_s
                        self.live.begin_episode()
                    self._ask(state, now_s)
                else:
                    self.stopped_by["; ".join(state.causes)] += 1
                    self._arm()
            select.select([self.client], [], [], max(0.0005, min(0.002, next_s - time.monotonic())))
            received_s = time.monotonic()
            for message in self.client.poll(every_state=True):
                if isinstance(message, State):
                    moving = message.mode == "ARMED_AUTO" and max(map(abs, message.qd_commanded_rad_s)) > MOVING_RAD_S
                    self.cycles.append((received_s, message.seq, tuple(message.q_commanded_rad), moving))
                elif isinstance(message, Verdict):
                    name = self._traces.get(message.trace_id)
                    if name is not None:
                        self.asked[name].accepted = message.accepted
                        self.counts["refused"] += not message.accepted

    def _arm(self) -> None:
        """In a thread: who leads beats on meanwhile."""
        if self._arming is not None and self._arming.is_alive():
            return
        self.counts["disarmed"] += 1

        def arm() -> None:
            with contextlib.suppress(SteadyhandError):
                operator.rearm("auto", folder=self.folder)

        self._arming = threading.Thread(target=arm, daemon=True)
        self._arming.start()

    def _ask(self, state: State, now_s: float) -> None:
        name = f"o{state.seq}"
        observation = policy_io.observation(
            ahead(state), np.array(state.q_commanded_rad), np.array(state.qd_commanded_rad_s), WIDTH_M, False
        )
        self.asked[name] = Asked(now_s, observation, state)
        try:
            self._requests.put_nowait((name, observation, self.live.pin))
        except queue.Full:
            self.counts["overtaken"] += 1

    def _take(self, name: str, chunk, error: str) -> None:
        asked, now_s = self.asked[name], time.monotonic()
        if chunk is None or chunk.observation_id != name:
            asked.error = error or f"answers {chunk.observation_id}"
            return
        if now_s - asked.at_s > EXPIRY_S:
            asked.error = "expired"
            self.counts["expired"] += 1
            return
        s = asked.state
        try:
            q_rad = policy_io.joint_waypoints(chunk.actions, np.array(s.q_commanded_rad))
        except KinematicsError as error:
            asked.error = str(error)
            return
        trace = f"c{len(self._traces)}"
        self._traces[trace] = name
        sent = self.client.send(Chunk(
            token=s.token, state_seq=s.seq, state_stamp_s=s.stamp_s, trace_id=trace, source="policy",
            joint_names=list(ur5.JOINT_NAMES), period_s=PERIOD_S, q_rad=q_rad.tolist(),
        ))
        if sent:
            asked.sent_s, asked.actions = time.monotonic(), chunk.actions
            self.counts[f"served_{chunk.served_by}"] += 1


def ahead(state: State) -> Target:
    """A target on the circle, always some way ahead of the tool: a pursuit that never ends."""
    tool = kinematics.pose_base_link_tool(np.array(state.q_commanded_rad))[:3, 3]
    angle = float(np.arctan2(*(tool[:2] - CENTRE_M)[::-1])) + AHEAD_RAD
    xy = CENTRE_M + RADIUS_M * np.array([np.cos(angle), np.sin(angle)])
    return Target(Skill.PICK, np.array([*xy, HEIGHT_M]), 0.0)


def moving(driver: Driver, seconds: float) -> bool:
    """Whether every cycle of the last seconds moved."""
    since_s = time.monotonic() - seconds
    recent = [c for c in driver.cycles[-round(2 * seconds / 0.008):] if c[0] >= since_s]
    return len(recent) > 0.8 * seconds / 0.008 and all(c[3] for c in recent)
