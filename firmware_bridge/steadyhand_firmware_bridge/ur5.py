"""Driver of a UR5 behind a CB3 or e-Series controller: RTDE for feedback and set-points, script port for our program,
dashboard for stops. A UR5e's arm has other measures: it is refused (`right_robot`).

One thread, nothing waits: `service` advances whatever is ready. By itself it never powers on, releases brakes or
unlocks: it uploads our program at arming and asks for the controller's own stop. `begin_act` is an operator's word.
Source of the protocol facts: Universal Robots, "Real-Time Data Exchange (RTDE) Guide" and "Dashboard Server".
"""
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from steadyhand import ur5
from steadyhand.errors import ProtocolError, RobotError
from steadyhand.payload import Payload
from steadyhand.protocols import ActResult, Arming, Command, Feedback
from steadyhand_firmware_bridge.dashboard import DashboardClient, DashboardReply
from steadyhand_firmware_bridge.operator_acts import GRIPPER_ACT, OperatorDashboard
from steadyhand_firmware_bridge.primary import PrimaryClient
from steadyhand_firmware_bridge.programs import Programs
from steadyhand_firmware_bridge.robotiq.handle import RobotiqGripper
from steadyhand_firmware_bridge.rtde import RtdeClient, RtdeConfig
from steadyhand_firmware_bridge.ur5_arming import Ur5Arming
from steadyhand_firmware_bridge.ur5_fields import (
    GRIPPER, GRIPPER_MASK, OUTPUTS, PAYLOAD, SETPOINT, as_feedback, gripper_outputs,
)
from steadyhand_firmware_bridge.urscript import next_heartbeat

STOP_RETRIED_S = 5.0
NOT_STOPPED = "Failed to execute"  # so the dashboard begins when there was nothing to stop, or when it could not
REMOTE_ASKED_S = 0.25  # e-Series: how often the dashboard is asked whether the pendant has taken control


@dataclass(frozen=True)
class Ur5Config:
    """Where the controller is. `render` writes an arming token into our program (`urscript.render`)."""

    host: str
    render: Callable[..., str]
    frequency_hz: float = 125.0
    arming_timeout_s: float = 5.0
    payload: bool = False  # whether our program is told of payloads; else its registers are not claimed
    back_off_s: float = 0.2  # first wait before a new connection; doubles up to 2 s


class Ur5Robot:
    """Implements `protocols.Robot`."""

    name = "ur5"
    joint_names = ur5.JOINT_NAMES

    def __init__(self, config: Ur5Config, gripper: RobotiqGripper | None = None):
        """`gripper` in place of the one on the controller's outputs; those are then never claimed."""
        self.config, self.gripper = config, gripper
        self.period_s = 1.0 / config.frequency_hz
        inputs = {"setpoint": SETPOINT} | ({} if gripper is not None else {"gripper": GRIPPER})
        if config.payload:
            inputs["payload"] = PAYLOAD
        self._payload: Payload | None = None
        self.rtde = RtdeClient(RtdeConfig(config.host, OUTPUTS, inputs, config.frequency_hz))
        self.dashboard = DashboardClient(config.host)
        self.watch = DashboardClient(config.host)  # of its own, so that no question delays a stop
        self.acts = OperatorDashboard(config.host)
        self.primary = PrimaryClient(config.host)
        self.programs = Programs()
        self._act_result: ActResult | None = None
        self._feedback: Feedback | None = None
        self._heartbeat = 0
        self._retry_s = 0.0
        self._back_off_s = config.back_off_s
        self._arming = Ur5Arming(self.rtde, self.dashboard, self.primary, self.programs)
        self._stop_asked = False
        self._stop_until_s = self._stop_retry_s = 0.0  # a stop that was not answered is asked for again, for a while
        self._local = False
        self._remote_asked_s = self._now_s = 0.0

    # --- connection ---

    def open(self, now_s: float) -> None:
        """Begin to connect; see `Robot.open`."""
        self.rtde.start(now_s)
        if self.gripper is not None:
            self.gripper.start()

    def service(self, now_s: float) -> None:
        """Advance connections, dashboard, upload and arming."""
        self._now_s = now_s
        if self.rtde.fileno() < 0:
            self._reconnect(now_s)
        sample = self.rtde.poll(now_s)
        if sample is not None:
            self._back_off_s = self.config.back_off_s
            try:
                widths = self.gripper.widths_m(now_s) if self.gripper is not None else None
                self._feedback = as_feedback(sample, widths)
                self.programs.update(self._feedback, self._arming.token, now_s)
            except (KeyError, ValueError, TypeError):
                self.rtde.close("feedback of unexpected content")
        for reply in self.dashboard.poll(now_s):  # also when idle: it notices that the other end has closed
            self._on_reply(reply)
        if self._stop_until_s > now_s >= self._stop_retry_s:
            self._ask_stop(now_s)
        self._watch_control(now_s)
        if self.rtde.running:
            self.primary.poll(now_s)
            self.programs.told(self.primary.events)
            self.primary.events.clear()
        self._act_result = self.acts.poll(now_s) or self._act_result
        if self.gripper is not None:
            self.gripper.poll()
            self._act_result = self.gripper.activation(now_s) or self._act_result
        if self._arming.under_way and self._arming.advance(self._feedback, self._stop_asked, now_s):
            self._ask_stop(now_s)

    def _reconnect(self, now_s: float) -> None:
        if self._retry_s == 0.0:
            self._retry_s = now_s + self._back_off_s
            self._back_off_s = min(2.0, 2.0 * self._back_off_s)
        elif now_s >= self._retry_s:
            self._retry_s = 0.0
            self.primary.close()  # nothing is ever sent over it: it would not notice that another robot has this address
            self.programs.begin_session()
            self.rtde.start(now_s)

    def _watch_control(self, now_s: float) -> None:
        """e-Series: RTDE does not tell of local control, the dashboard does."""
        version = self.rtde.controller_version
        if version is None or version[0] < 5:
            return
        for reply in self.watch.poll(now_s):
            if reply.ok:
                self._local = reply.value.lower() == "false"
            if self._local:
                self.watch.close()  # a connection from before a switch of control is not to be relied on
        if self.watch.idle and now_s - self._remote_asked_s >= REMOTE_ASKED_S:
            self._remote_asked_s = now_s
            self.watch.request("is in remote control", now_s)

    def readable(self) -> list:
        """Sockets of the sessions under way."""
        sockets = (self.rtde, self.dashboard, self.watch, self.acts, self._arming.upload, self.gripper, self.primary)
        return [s for s in sockets if s is not None and s.fileno() >= 0]

    def feedback(self) -> Feedback | None:
        """The newest measurement."""
        return self._feedback

    def troubles(self) -> Mapping[str, str]:
        """`robot_unreachable` while there is no RTDE session, `robot_local` while the pendant has taken control;
        `gripper` while one with a controller of its own cannot be relied on."""
        wrong: dict[str, str] = {}
        gripper = self.gripper.trouble(self._now_s) if self.gripper is not None else ""
        if gripper:
            wrong["gripper"] = gripper
        if self.rtde.running:
            if self._local:
                wrong["robot_local"] = "the pendant is in local control: switch it to remote"
            return wrong
        why = self.rtde.reason or f"connecting ({self.rtde.phase.value})"
        at = f"{self.config.host}:{self.rtde.config.port}"
        return wrong | {"robot_unreachable": f"RTDE {at}: {why}; check robot_ip and cable"}

    # --- arming ---

    def begin_arming(self, token: int, now_s: float) -> None:
        """Start our program; see `Robot.begin_arming`."""
        self._stop_until_s = 0.0
        self._arming.begin(token, lambda: self._program(token), self.config.arming_timeout_s, now_s)

    def _program(self, token: int) -> str:
        kept = {} if self._payload is None else {"payload": self._payload}
        return self.config.render(token, **kept)

    def arming(self) -> Arming:
        """Where the arming stands."""
        return self._arming.where

    def _on_reply(self, reply: DashboardReply) -> None:
        if reply.command == "stop":
            self._stop_asked = False
            runs = self._feedback is not None and self._feedback.program_running
            if reply.ok and not (runs and reply.text.startswith(NOT_STOPPED)):
                self._stop_until_s = 0.0
        self._arming.replied(reply)

    # --- acts of an operator ---

    def begin_act(self, act: str, now_s: float) -> None:
        """See `OperatorActs.begin_act`; the acts are `operator_acts.ACTS`, and a gripper's activation."""
        self._act_result = None
        if act == GRIPPER_ACT:
            if self.gripper is None:
                raise RobotError(f"{act}: this gripper is driven by the controller's outputs and has none")
            self.gripper.begin_activation(now_s)
            return
        self.acts.begin(act, now_s)

    def act_result(self) -> ActResult | None:
        """How it ended, once."""
        result, self._act_result = self._act_result, None
        return result

    # --- commands ---

    def send(self, command: Command, token: int, seq: int, q_rad: np.ndarray) -> bool:
        """One atomic package; the heartbeat counts with it."""
        self._heartbeat = next_heartbeat(self._heartbeat)
        try:
            return self.rtde.send("setpoint", [self._heartbeat, token, int(command), seq & 0x3FFFFFFF, *q_rad.tolist()])
        except ProtocolError:
            return False  # not finite: the gate has refused that already; here it becomes silence

    def stop_program(self, now_s: float) -> None:
        """Dashboard `stop`; asked for again each second, for 5 s, while it is not answered, or refused and a program runs."""
        if self._arming.under_way:
            self._arming.fail("stopped")
        self._stop_until_s = now_s + STOP_RETRIED_S
        self._ask_stop(now_s)

    def _ask_stop(self, now_s: float) -> None:
        self._stop_retry_s = now_s + 1.0
        if not self._stop_asked:
            try:
                self.dashboard.request("stop", now_s)
            except RobotError:
                return  # its queue is full of commands that wait for an answer; the program misses our heartbeat anyway
            self._stop_asked = True
            for reply in self.dashboard.poll(now_s):
                self._on_reply(reply)

    def command_gripper(self, width_m: float) -> bool:
        """Set the two outputs of the opening nearest to `width_m`: closed, pre-grasp, open; or queue it for a Robotiq."""
        if self.gripper is not None:
            return self.gripper.command(width_m, self._now_s)
        return self.rtde.send("gripper", [GRIPPER_MASK, gripper_outputs(width_m)])

    def program_troubles(self, ours_runs: bool) -> Mapping[str, str]:
        """See `TellsOfPrograms`."""
        return self.programs.troubles(ours_runs)

    def keep_payload(self, payload: Payload | None) -> None:
        """See `PayloadRobot`."""
        self._payload = payload

    def command_payload(self, order: int, payload: Payload) -> bool:
        """See `PayloadRobot`: one atomic package of its own recipe."""
        return self.config.payload and self.rtde.send("payload", [order, payload.mass_kg, *payload.cog_m])

    def drop_gripper_queue(self) -> None:
        """See `QueuedGripper`."""
        if self.gripper is not None:
            self.gripper.drop()

    def counters(self) -> Mapping[str, int]:
        """See `Counting`."""
        return dict(self.primary.counters) | (self.gripper.counters() if self.gripper is not None else {})

    def close(self) -> None:
        """Let go; writes nothing."""
        if self.gripper is not None:
            self.gripper.close()
        self._arming.close()
        self.dashboard.close()
        self.watch.close()
        self.acts.close()
        self.primary.close()
        self.rtde.close()
