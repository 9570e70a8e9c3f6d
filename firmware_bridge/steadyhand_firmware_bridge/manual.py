"""An operator in command: arms a manual mode for its own connection, and moves the arm by chunks that the gate judges.

No threads. `poll` must be called often (it is the heartbeat of this commander); the guard stops a moving arm whose
operator falls silent. Every wait has a limit.
"""
from __future__ import annotations

import os
import secrets
import select
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from steadyhand import types, ur5
from steadyhand.errors import RobotError
from steadyhand.guard_protocol import Arm, Chunk, Gripper, Reply, State, Verdict
from steadyhand_firmware_bridge import operator
from steadyhand_firmware_bridge.client import GuardClient

TAKEOVER = "takeover"
REALTIME_PRIORITY = 5
GRIPPER_WAIT_S = 2.0


def robot_state(s: State) -> types.RobotState:
    """The guard's State as the core's RobotState."""
    return types.RobotState(
        s.stamp_s, s.seq, s.token, types.Mode(s.mode), np.array(s.q_rad), np.array(s.qd_rad_s),
        np.array(s.q_commanded_rad), np.array(s.qd_commanded_rad_s), s.gripper_width_m, s.gripper_commanded_m,
        s.at_rest, tuple(s.causes),
    )  # fmt: skip


def request_realtime() -> str:
    """Ask for SCHED_FIFO for this process, whose silence of 100 ms stops a moving arm; the scheduler that it got."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(REALTIME_PRIORITY))
    except (OSError, AttributeError):  # not permitted; or no Linux
        return "SCHED_OTHER"
    return "SCHED_FIFO"


class ManualSession:
    """One operator's connection. Use as a context manager: at its end the arm is disarmed and the connection closed."""

    def __init__(self, name: str = "operator", folder: Path | None = None):
        self.client = GuardClient(name, folder=folder)
        self.name, self.folder = name, folder
        self.verdicts: list[types.Verdict] = []  # since the last `poll`
        self.on_state: Callable[[types.RobotState], None] | None = None  # told of each new state, in waits too
        self._seq = -1
        self._replies: dict[str, Reply] = {}
        self._number = 0

    def __enter__(self) -> ManualSession:
        self.client.connect()
        self.refresh()
        return self

    def __exit__(self, *exc) -> None:
        try:
            if self.client.connected and self.client.commander:
                self.release()
        finally:
            self.client.close()

    @property
    def state(self) -> types.RobotState:
        """The newest state."""
        return robot_state(self.client.state)

    def poll(self) -> types.RobotState | None:
        """What has come; the newest state when it is a new one. Raises RobotError when the guard has gone."""
        self.verdicts = []
        for message in self.client.poll():
            if isinstance(message, Verdict):
                self.verdicts.append(types.Verdict(message.trace_id, message.accepted, message.reason, message.detail))
            elif isinstance(message, Reply):
                self._replies[message.request_id] = message
        if not self.client.connected:
            raise RobotError("the guard has gone; use the wired emergency stop if the arm moves")
        state = self.client.state
        if state is None or state.seq == self._seq:
            return None
        self._seq = state.seq
        new = robot_state(state)
        if self.on_state is not None:
            self.on_state(new)
        return new

    def wait(self, wanted, timeout_s: float, what: str) -> None:
        """Poll until `wanted()`; RobotError naming `what` after the limit."""
        deadline_s = time.monotonic() + timeout_s
        while not wanted():
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                raise RobotError(f"waited {timeout_s} s for {what}")
            select.select([self.client], [], [], min(left_s, 0.05))
            self.poll()

    def refresh(self) -> None:
        """Drain what has piled up while nobody polled, and wait for the next state."""
        self.poll()
        seq = self._seq
        self.wait(lambda: self._seq > seq, 2.0, "a new state of the guard")

    # --- acts ---

    def take(self, mode: str = "manual", timeout_s: float = 8.0) -> Reply:
        """Arm `mode` for this connection. The reply says what forbids it; nothing is retried."""
        self.refresh()
        request = secrets.token_hex(8)
        self.client.send(Arm(mode, operator.credential(self.folder), request, command=True))
        self.wait(lambda: request in self._replies, timeout_s, f"the guard's answer to arming {mode}")
        reply = self._replies.pop(request)
        if reply.ok:
            self.client.commander = True
            wanted = {"manual": types.Mode.ARMED_MANUAL, "recover": types.Mode.RECOVERING}[mode]
            self.refresh()
            self.refresh()  # the state that was under way with the reply may be older than it
            if self.state.mode is not wanted:
                self.client.commander = False
                return Reply(request, False, "armed, then stopped at once", list(self.state.causes))
        return reply

    def take_over(self, timeout_s: float = 4.0) -> Reply:
        """From AUTO under motion: brake along the path (a stop of its own name), wait for rest, arm MANUAL there.

        The first set-point is the controller's own target and what follows is blended from it, so commanded velocity
        and acceleration never step. Whatever fails in between leaves the arm stopped.
        """
        self.stand(timeout_s)
        return self.take("manual")

    def stand(self, timeout_s: float = 4.0) -> None:
        """The first half of a takeover: whatever is armed is stopped under its name; returns when rest is measured."""
        self.refresh()
        if self.state.mode is not types.Mode.STOPPED:
            operator.stop(TAKEOVER, f"by {self.name}", self.folder)
        stands = lambda: self.state.mode is types.Mode.STOPPED and self.state.at_rest  # noqa: E731
        self.wait(stands, timeout_s, "rest before the takeover")

    def release(self, timeout_s: float = 4.0) -> None:
        """Give command back: disarm and wait for rest. Needs no credential."""
        self.client.send(Arm("disarm", "", secrets.token_hex(8)))
        self.wait(
            lambda: self.state.at_rest and self.state.mode in (types.Mode.STOPPED, types.Mode.REST_UNKNOWN), timeout_s,
            "rest after disarming",
        )
        self.client.commander = False

    def send_chunk(self, chunk: types.JointChunk) -> bool:
        """A chunk as it stands."""
        return self.client.send(Chunk(
            chunk.token, chunk.state_seq, chunk.state_stamp_s, chunk.trace_id, chunk.source, list(chunk.joint_names),
            chunk.period_s, np.asarray(chunk.q_rad, dtype=float).tolist(),
        ))  # fmt: skip

    def send_waypoints(self, state: types.RobotState, q_rad: np.ndarray, period_s: float) -> str:
        """Way-points (N, 6) of a planned path, answering `state`; the trace id."""
        self._number += 1
        trace_id = f"{self.name}-{self._number}"
        self.send_chunk(types.JointChunk(
            state.token, state.seq, state.stamp_s, trace_id, "planner", ur5.JOINT_NAMES, period_s, q_rad,
        ))  # fmt: skip
        return trace_id

    def set_gripper(self, width_m: float) -> None:
        """Move the gripper, at standstill only. Raises RobotError when the arm moves or the guard refuses."""
        state = self.state
        if not state.at_rest or np.abs(state.qd_commanded_rad_s).max() > 1e-3:
            raise RobotError("the arm moves: the gripper is moved by hand at standstill only")
        self._number += 1
        trace_id = f"{self.name}-g{self._number}"
        self.client.send(Gripper(state.token, width_m, trace_id))
        found: list[types.Verdict] = []

        def answered() -> bool:
            found.extend(v for v in self.verdicts if v.trace_id == trace_id)
            return bool(found)

        self.wait(answered, 1.0, "the guard's verdict on the gripper")
        if not found[0].accepted:
            raise RobotError(f"gripper refused: {found[0].reason}: {found[0].detail}")
        taken = lambda: abs(self.state.gripper_commanded_m - width_m) < 0.015  # noqa: E731
        self.wait(taken, GRIPPER_WAIT_S, "the controller to take it")
