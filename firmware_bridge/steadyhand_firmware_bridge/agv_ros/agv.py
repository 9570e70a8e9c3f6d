"""A vehicle on ROS 2 as the guard sees it. Implements `steadyhand.agv.Agv`; ROS is behind `Link`."""
from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from steadyhand.agv import AgvFeedback, AgvKind, DriveTo, Velocity, check_command
from steadyhand.protocols import Arming, ArmingPhase
from steadyhand_firmware_bridge.agv_ros import graph, ramp, task, wire
from steadyhand_firmware_bridge.agv_ros.config import RosVehicleConfig
from steadyhand_firmware_bridge.agv_ros.link_core import Stage
from steadyhand_firmware_bridge.agv_ros.link_process import Link, OpenLink
from steadyhand_firmware_bridge.agv_ros.odometry import OdometryReader, Reading

SILENCE_S = 0.5  # of the link process, or what the guard was told last is too old
HANGS_S, STARTS_S = 5.0, 30.0  # silence after which it is ended and started anew; while it starts
GRAPH_AGE_S = 2.0
STANDS = 0.02  # m/s and rad/s: fast enough to refuse an arming
RETRY_S, RETRY_MAX_S = 0.5, 10.0
ASK_AGAIN_S = 0.1


class RosAgv:
    """One vehicle. `open_link` starts the process that carries ROS."""

    def __init__(self, config: RosVehicleConfig, open_link: OpenLink, period_s: float = 0.02):
        self.config, self.period_s = config, period_s
        self.kind = AgvKind.ORDER if config.nav2 else AgvKind.VELOCITY
        self.name = f"ros:{config.name_of(config.cmd_vel)}"
        self.odometry = OdometryReader(config)
        self.task = task.NavTask()
        self.restarts = 0
        self._open_link = open_link
        self._link: Link | None = None
        self._opened = False
        self._why = "not connected yet"
        self._retry_s, self._wait_s = -math.inf, RETRY_S
        self._status: wire.Status | None = None
        self._graph: wire.Graph | None = None
        self._reading: Reading | None = None
        self._heard_s = self._opened_s = self._alive_s = -math.inf
        self._phase, self._detail = ArmingPhase.IDLE, ""
        self._token, self._deadline_s, self._asked_s = 0, 0.0, -math.inf
        self._seq, self._held = 0, False
        self._halt, self._halt_s = False, -math.inf  # whether a stop is not acknowledged yet; when it was sent

    # --- the link ---

    def open(self, now_s: float) -> None:
        """The link process is started by the next `poll`."""
        self._opened, self._opened_s = True, now_s

    def poll(self, now_s: float) -> None:
        """Take what has come, send what is due."""
        if not self._opened:
            return
        self._tend(now_s)
        if self._link is None:
            return
        for message in self._link.receive():
            self._take(message, now_s)
        if now_s - self._alive_s >= 0.5 * self.period_s and self._link.send(wire.Alive(now_s)):
            self._alive_s = now_s
        if self._halt and now_s - self._halt_s >= ASK_AGAIN_S:
            self._send_halt(now_s)
        self._arm(now_s)
        if self._status is not None:
            self.task.advance(self._status, now_s)
        self._next_goal(now_s)

    def _tend(self, now_s: float) -> None:
        """Start the process, and again when it has ended, with back-off."""
        if self._link is not None and now_s - self._heard_s > (STARTS_S if self._status is None else HANGS_S):
            self._link.kill()
        why = "" if self._link is None else self._link.dead()
        if why:
            self._link.drop()
            self._link, self._status, self._graph = None, None, None
            self._later(f"the link process has gone ({why}); its messages say why", now_s)
        if self._link is None and now_s >= self._retry_s:
            self.restarts += self._retry_s > -math.inf
            try:
                self._link, self._heard_s = self._open_link(self.config), now_s
            except OSError as error:
                self._later(f"the link process cannot be started: {error}", now_s)

    def _later(self, why: str, now_s: float) -> None:
        self._why = why
        self._retry_s, self._wait_s = now_s + self._wait_s, min(2.0 * self._wait_s, RETRY_MAX_S)

    def _take(self, message: Any, now_s: float) -> None:
        match message:
            case wire.Status():
                self._status, self._heard_s, self._wait_s = message, now_s, RETRY_S
                if self._halt and message.token == 0 and message.stage == Stage.STOPPED.value:
                    self._halt = message.stamp_s < self._halt_s  # said before it was told
            case wire.Graph():
                self._graph = message
            case wire.Odom():
                self._reading = self.odometry.take(message) or self._reading

    def readable(self) -> list[Any]:
        """The link's socket."""
        return [] if self._link is None else list(self._link.readable())

    # --- what is known ---

    def feedback(self) -> AgvFeedback | None:
        """The newest measurement. It drives also while something is commanded, and while Nav2 has a goal."""
        reading, status = self._reading, self._status
        if reading is None:
            return None
        driving = status is not None and (any(status.velocity) or status.goals)
        return AgvFeedback(
            stamp_s=reading.measured_s, driving=driving, pose_m_rad=reading.pose_m_rad, map_id=self.config.odom_frame,
            twist_m_s_rad_s=reading.twist, twist_stamp_s=reading.measured_s, paused=self._held,
            task_id=self.task.task_id, task_state=self.task.state, task_detail=self.task.detail,
            last_waypoint=self.task.last_waypoint, waypoints_left=self.task.left,
        )  # fmt: skip

    def troubles(self, now_s: float) -> Mapping[str, str]:
        """What forbids motion now."""
        if self._link is None or self._status is None:
            why = self._why if self._link is None else "the link process is starting"
            return {"robot_unreachable": why}
        if now_s - self._heard_s > SILENCE_S:
            return {"robot_unreachable": f"the link process has been silent for {now_s - self._heard_s:.1f} s"}
        if self._graph is None or now_s - self._graph.stamp_s > GRAPH_AGE_S:
            return {"robot_unreachable": "the link process has not told what it sees of the ROS graph"}
        wrong = graph.troubles(self.config, self._graph)
        wrong |= self._odometry_troubles(now_s)
        if self.task.unanswered:  # it may still be taken, and driven: a stop cancels it then
            wrong["robot_mode:nav2"] = self.task.unanswered
        if self._phase is ArmingPhase.READY and self._status.token != self._token:
            wrong["link_lost"] = f"the link process ended the arming: {self._status.ended or 'it was started anew'}"
        return wrong

    def _odometry_troubles(self, now_s: float) -> dict[str, str]:
        wrong, topic = {}, self.config.name_of(self.config.odom)
        reason, why = self.odometry.trouble(now_s)
        if reason:
            wrong[f"feedback_lost:odom_{reason}"] = f"{topic}: {why}"
        reading = self._reading
        if reading is None:
            wrong.setdefault("robot_unreachable", f"no odometry on {topic}: does the base publish it?")
        elif now_s - reading.measured_s > self.config.feedback_timeout_s:
            limit_ms = self.config.feedback_timeout_s * 1e3
            wrong["feedback_lost:odom_stale"] = f"{topic}: nothing newer than {limit_ms:.0f} ms"
        return wrong

    def counters(self) -> dict[str, int]:
        """Everything counted."""
        counts = {f"odom_refused:{name}": n for name, n in self.odometry.refused.items()}
        if self._status is not None:
            counts |= {f"link:{name}": n for name, n in self._status.counters.items() if isinstance(n, int)}
        return counts | {"link:restarts": self.restarts, "link:malformed": getattr(self._link, "malformed", 0)}

    # --- arming ---

    def begin_arming(self, token: int, now_s: float) -> None:
        """The link follows us from its answer on. Nothing moves: zero goes out, or nothing where Nav2 drives."""
        self._phase, self._detail = ArmingPhase.UNDER_WAY, "asking the link process"
        self._token, self._deadline_s, self._asked_s = token, now_s + self.config.arming_s, -math.inf
        self._held, self._halt = False, False
        self.task = task.NavTask()

    def arming(self) -> Arming:
        """Where it stands."""
        return Arming(self._phase, self._detail)

    def _arm(self, now_s: float) -> None:
        if self._phase is not ArmingPhase.UNDER_WAY:
            return
        wrong = self._forbids(now_s)
        if not wrong and self._status.token == self._token:
            self._phase, self._detail = ArmingPhase.READY, ""
        elif now_s > self._deadline_s:
            self._phase, self._detail = ArmingPhase.FAILED, wrong or "the link process did not answer"
            self._halt, self._halt_s = True, -math.inf  # should it have heard of it after all
        elif not wrong and now_s - self._asked_s >= ASK_AGAIN_S:
            self._link.send(wire.Begin(self._token, now_s))
            self._asked_s = now_s

    def _forbids(self, now_s: float) -> str:
        wrong = "; ".join(self.troubles(now_s).values())
        if wrong:
            return wrong
        twist = self._reading.twist
        return f"it moves: {twist}; wait until it stands" if max(map(abs, twist)) > STANDS else ""

    # --- commands ---

    def go(self, command: DriveTo | Velocity, now_s: float) -> str:
        """Take a velocity, or a task for Nav2."""
        refused = check_command(command, self.kind)
        if refused:
            return refused
        if self._phase is not ArmingPhase.READY:
            return "not armed"
        if isinstance(command, DriveTo):
            return self._go_to(command)
        v = (command.vx_m_s, command.vy_m_s, command.omega_rad_s)
        refused = ramp.above(v, self.config.limits, self.config.holonomic)
        if not refused and self._held and v != ramp.ZERO:
            refused = "held: resume first"
        if refused or self._held:
            return refused
        self._seq += 1
        taken = self._link is not None and self._link.send(wire.SetPoint(self._token, self._seq, now_s, *map(float, v)))
        return "" if taken else "the link process takes nothing"

    def _go_to(self, command: DriveTo) -> str:
        refused = task.refused(command, self.config)
        if not refused and self.task.state in task.UNDER_WAY:
            refused = f"task {self.task.task_id} is under way"
        if not refused and self._held:
            refused = "held: resume first"
        if not refused:
            self.task.begin(command)
        return refused

    def _next_goal(self, now_s: float) -> None:
        due = self.task.due()
        if due is None or self._phase is not ArmingPhase.READY or self._status is None or self._status.goals:
            return
        self._seq += 1
        if self._link.send(wire.Goal(self._token, self._seq, now_s, *map(float, due))):
            self.task.sent(self._seq, now_s)

    def hold(self, now_s: float) -> str:
        """To rest by the ramp of slowing down; Nav2's goal is cancelled and kept here."""
        if self._phase is not ArmingPhase.READY:
            return "not armed"
        return self._held_to(True)

    def resume(self, now_s: float) -> str:
        """Go on: velocities are taken again, Nav2 gets its goal again."""
        if self._phase is not ArmingPhase.READY:
            return "not armed"
        return self._held_to(False)

    def _held_to(self, on: bool) -> str:
        if self._link is None or not self._link.send(wire.Hold(self._token, on)):
            return "the link process takes nothing"
        if self._held != on:
            self._held = on
            self.task.pause(on)
        return ""

    def cancel(self, now_s: float) -> str:
        """Nav2's goal is cancelled and not kept; the vehicle is held afterwards, until `resume`."""
        if self.kind is AgvKind.VELOCITY:
            return "this vehicle is driven by velocity: it has no task; pause or stop it"
        if self.task.state not in task.UNDER_WAY:
            return "no task is under way"
        refused = self.hold(now_s)
        if not refused:
            self.task.stop()
        return refused

    def stop(self, now_s: float) -> None:
        """Told at once and again until the link process says that it stops; also to one that was started anew."""
        self._phase, self._detail, self._held = ArmingPhase.IDLE, "", False
        self.task.stop()
        self._halt, self._halt_s = True, -math.inf
        if self._link is not None:
            self._send_halt(now_s)

    def _send_halt(self, now_s: float) -> None:
        if self._link.send(wire.Halt(now_s)):
            self._halt_s = now_s

    def close(self) -> None:
        """Let go; the link process brakes what moves and ends."""
        self._opened = False
        if self._link is not None:
            self._link.close()
            self._link = None
