"""The master of one vehicle, without broker and clock: messages come in by `receive`, go out by `due`.

What it asks of the vehicle is what the guard asked for in this arming: one task at a time (`task`), a hold, a stop;
and what an operator asks between tasks (`asked`). A stop is startPause and cancelOrder together (cancelOrder alone may
end at the next node), sent again until the vehicle shows that it stands idle; also after a lost connection. Orders or
actions of somebody else (`foreign`) are a cause of their own: `agv_foreign`.
"""
from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from steadyhand.agv import ActEnd, AgvFeedback, AgvKind, DriveTo, TaskState, Waypoint, check_command
from steadyhand.errors import ProtocolError
from steadyhand.protocols import Arming, ArmingPhase
from steadyhand.vda5050 import codec, dialect
from steadyhand.vda5050.dialect import VehicleState
from steadyhand.vda5050.factsheet import read_factsheet
from steadyhand.vda5050.freshness import Freshness
from steadyhand.vda5050.strict_json import shown
from steadyhand_firmware_bridge.vda5050.actions import Ended, InstantActions, Outcome
from steadyhand_firmware_bridge.vda5050.asked import Asked
from steadyhand_firmware_bridge.vda5050.config import MasterConfig
from steadyhand_firmware_bridge.vda5050.foreign import Foreigners
from steadyhand_firmware_bridge.vda5050.task import OrderTask
from steadyhand_firmware_bridge.vda5050.told import report, state_causes

MAX_OUT = 32
RECONNECT_S = 5.0
WATCHED_S = 1.5  # after connecting and after a stop: rest is measured by several states, and nothing else asks for them
Message = tuple[str, dict[str, Any]]  # kind and body without header


class Master:
    """One vehicle. `name` is random per process: it begins the ids of our orders and actions."""

    def __init__(self, config: MasterConfig, name: str):
        self.config, self.name, self.version = config, name, config.identity.version
        self.freshness = Freshness(config.max_delay_s)
        self.actions = InstantActions(name, self.version, config.acknowledge_s, config.action_s)
        self.counts: dict[str, int] = {}
        self.task = OrderTask(config, name)
        self.foreign = Foreigners(name, config.foreign_s)
        self.asked = Asked(config.action_s)
        self.last_refused = ""  # what was wrong with the newest refused message
        self.state: VehicleState | None = None
        self._link = "not connected yet"
        self._vehicle = ""  # its connectionState
        self._state_s = self._heard_s = self._asked_s = -math.inf
        self._dropped_s = -math.inf
        self._twist: tuple[float, float, float] | None = None
        self._twist_s = -math.inf
        self._pose: tuple[float, float, float] | None = None
        self._report: dict[str, Any] = {}
        self._out: list[Message] = []
        self._arming, self._arming_since_s = Arming(ArmingPhase.IDLE), 0.0
        self._stopping, self._stop_sent_s = False, -math.inf
        self._watched_s = -math.inf  # until then states are requested
        self._failed_action = ""

    # --- the link ---

    def connected(self, now_s: float) -> None:
        """The broker took us: ask for the state, resume nothing."""
        self._link, self._vehicle = "", ""
        self.freshness.reset()
        self._heard_s = now_s  # silence counts from here
        self._watched_s = now_s + WATCHED_S
        if self.task.under_way:  # nobody stopped it meanwhile
            self.task.fail("the connection was lost while it was under way; what the vehicle does is not known")
        self._request("stateRequest", now_s)
        if self._stopping:
            self._stop_sent_s = -math.inf

    def disconnected(self, why: str) -> None:
        """The broker is gone. What was on its way is lost; nobody repeats it but a stop."""
        self._link = why
        self._out.clear()
        self.actions.clear()

    def receive(self, kind: str, payload: bytes, retained: bool, now_s: float) -> None:
        """One message of the vehicle, or of whoever else publishes on its topics. Refused ones are counted."""
        try:
            message = codec.decode(kind, payload, self.version)
            self.config.identity.check(kind, message)
            if kind in ("order", "instantActions"):
                return self.foreign.overheard(kind, message, now_s)
            if kind == "connection":
                return self._connection(message, retained, now_s)
            if retained and kind != "factsheet":
                return self._count("retained")  # of an earlier time
            if kind == "factsheet":
                return self.asked.take_factsheet(read_factsheet(message, self.version), now_s)
            dropped = self.freshness.take(kind, message, now_s)
            if dropped:
                self._dropped_s = now_s
                return None
        except ProtocolError as error:
            self.last_refused = str(error)
            return self._count("version_refused" if ".version:" in str(error) else "invalid")
        if kind == "visualization":
            return self._visualization(message, now_s)  # says nothing of safety, mode and errors: no sign of life
        self._heard_s = now_s
        return self._take_state(dialect.read_state(message, self.version), now_s)

    def _connection(self, message: Mapping[str, Any], retained: bool, now_s: float) -> None:
        # No freshness here: a last will is stamped when it is deposited, and the broker keeps the order of a topic.
        said = message["connectionState"]
        if said == "ONLINE" and not retained and self._vehicle != said:
            self.freshness.reset()  # it may have been started anew
            self._request("stateRequest", now_s)
        self._vehicle = said

    def _visualization(self, message: Mapping[str, Any], now_s: float) -> None:
        twist = dialect.read_velocity(message.get("velocity"))
        if twist is not None:
            self._twist, self._twist_s = twist, now_s
        position = message.get("agvPosition" if self.version == "2.1.0" else "mobileRobotPosition")
        if position is not None:
            self._pose = dialect.read_position(position)[0]

    def _take_state(self, state: VehicleState, now_s: float) -> None:
        self.state, self._state_s = state, now_s
        self._pose = state.pose_m_rad
        if state.velocity_m_s_rad_s is not None:
            self._twist, self._twist_s = state.velocity_m_s_rad_s, now_s
        for ended in self.actions.heard(state.actions):
            self._action_ended(ended)
        if self._arming.phase is ArmingPhase.READY:  # else nothing was said about who commands: an arming looks
            self.foreign.look(state, self.task.route, self.task.ended, now_s)
        release = not (self._stopping or self.troubles(now_s))  # nothing more while something is wrong
        self._report = report(state, self.task.kind_of)
        self._order(self.task.follow(state, self.actions.under_way("cancelOrder"), release, now_s))

    # --- what the guard asks ---

    def begin_arming(self, now_s: float) -> None:
        """Ask for the state; `due` looks at the answer."""
        self.task.clear()
        self._failed_action = ""
        self._arming, self._arming_since_s = Arming(ArmingPhase.UNDER_WAY, "waiting for a state"), now_s
        self._request("stateRequest", now_s)

    def arming(self) -> Arming:
        """Where it stands."""
        return self._arming

    def go(self, task: DriveTo, now_s: float) -> str:
        """Begin a task."""
        refused = check_command(task, AgvKind.ORDER) or self._not_ready(now_s)
        if not refused and self.task.under_way:
            refused = f"task {self.task.route.task.task_id} is under way: stop or cancel it first"
        if not refused and self.state.paused:
            refused = "the vehicle is paused: resume it first"
        refused = refused or self._apart(task) or self.asked.impossible(task)
        if refused:
            return refused
        self.foreign.know_order(self.state.order_id)
        self._order(self.task.begin(task, now_s))
        return ""

    def _apart(self, task: DriveTo) -> str:
        """A task begins where the vehicle stands, by name or by place."""
        first = task.waypoints[0]
        if first.name == self.state.last_node_id or self._pose is None:
            return ""
        apart_m = math.hypot(first.x_m - self._pose[0], first.y_m - self._pose[1])
        if apart_m <= self.config.start_deviation_m:
            return ""
        limit = self.config.start_deviation_m
        return f"waypoints[0]={first.name!r} is {apart_m:.2f} m from where the vehicle stands, limit {limit} m"

    def _not_ready(self, now_s: float) -> str:
        if self._arming.phase is not ArmingPhase.READY:
            return "not armed"
        return "; ".join(f"{name}: {detail}" for name, detail in self.troubles(now_s).items())

    def hold(self, now_s: float) -> str:
        """startPause."""
        if self._link:
            return self._link
        self._request("startPause", now_s)
        return ""

    def resume(self, now_s: float) -> str:
        """stopPause."""
        refused = self._not_ready(now_s)
        if not refused:
            self._request("stopPause", now_s)
        return refused

    def cancel(self, now_s: float) -> str:
        """cancelOrder alone: an orderly end, for which a vehicle may drive to its next node."""
        refused = self._not_ready(now_s)
        if not refused and not self.task.under_way:
            refused = "no task is under way"
        if not refused and not self.task.cancelling:
            self.task.cancel()
            self._request("cancelOrder", now_s)
        return refused

    def initialise_position(self, place: Waypoint, now_s: float) -> str:
        """Tell a standing vehicle where it is. Empty when it was sent."""
        refused = self._link or self.asked.wrong_position(place, self.state)
        if not refused and self.actions.under_way("initializePosition"):
            refused = "the vehicle has not answered to another position yet: ask again"
        if not refused:
            parameters = {
                "x": float(place.x_m), "y": float(place.y_m), "theta": float(place.yaw_rad), "mapId": place.map_id,
                "lastNodeId": place.name,
            }  # fmt: skip
            self._put("instantActions", self.actions.message(["initializePosition"], now_s, parameters))
            self.asked.begin("position", now_s)
        return refused

    def request_factsheet(self, now_s: float) -> str:
        """Ask for the factsheet; empty when it was sent."""
        if not self._link:
            self._request("factsheetRequest", now_s)
            self.asked.begin("factsheet", now_s)
        return self._link

    def act_end(self, act: str, now_s: float) -> ActEnd | None:
        """How what was asked last ended; None before."""
        return self.asked.end(act, now_s)

    def stop(self, now_s: float) -> None:
        """Rest and no task; kept up by `due`."""
        if self._arming.phase is ArmingPhase.UNDER_WAY:
            self._arming = Arming(ArmingPhase.FAILED, "stopped")
        else:
            self._arming = Arming(ArmingPhase.IDLE)
        self.task.stop()
        self._stopping, self._stop_sent_s, self._failed_action = True, -math.inf, ""
        self._out.clear()  # neither an order nor the end of a pause may follow the stop

    # --- what goes out ---

    def due(self, now_s: float) -> list[Message]:
        """Messages to send now, with whatever the passing of time asks for."""
        for ended in self.actions.expired(now_s):
            self._action_ended(ended)
        if self._link:
            self._out.clear()
        else:
            self._keep_stopping(now_s)
            if self.state is not None and not self.troubles(now_s):
                self._order(self.task.repeat(self.state, now_s))
            armed = self._arming.phase in (ArmingPhase.UNDER_WAY, ArmingPhase.READY)
            watched = self._stopping or armed or now_s < self._watched_s
            newest = max(self._heard_s if not self._stopping else self._state_s, self._asked_s)
            if watched and now_s - newest > self.config.request_s:
                self._request("stateRequest", now_s)
        self._advance_arming(now_s)
        out, self._out = self._out, []
        return out

    def _keep_stopping(self, now_s: float) -> None:
        if not self._stopping:
            return
        sent = self._stop_sent_s > -math.inf
        if sent and self._state_s > self._stop_sent_s and self._idle_at_rest():
            self._stopping, self._watched_s = False, now_s + WATCHED_S
            return
        if now_s - self._stop_sent_s > self.config.stop_repeat_s:
            kinds = ["startPause"]
            if self.state is None or not self.state.idle or self.task.in_flight(self.state):
                kinds.append("cancelOrder")
            self._put("instantActions", self.actions.message(kinds, now_s), first=True)
            self._stop_sent_s = now_s
            self._count("stops_sent")

    def _idle_at_rest(self) -> bool:
        """The vehicle stands without an order, and has answered for one that it has not shown."""
        state = self.state
        if state.driving or state.nodes or state.edges:
            return False
        return not self.task.in_flight(state) or not self.actions.under_way("cancelOrder")

    def _advance_arming(self, now_s: float) -> None:
        if self._arming.phase is not ArmingPhase.UNDER_WAY:
            return
        late = now_s - self._arming_since_s > self.config.arming_s
        state = self.state
        if self._stopping and not self._link:
            step = "the stop is not through: the vehicle does not show that it stands idle"
        elif self._link or self._state_s <= self._arming_since_s:
            step = self._link or "no state came after the request"
        elif state.nodes or state.edges:
            late = True
            step = f"the vehicle has order {shown(state.order_id)}: cancel it where it came from, or stop first"
        elif not state.idle:
            step = "an action of the vehicle has not ended: wait for it, or end it where it came from"
        elif self.actions.under_way("initializePosition"):
            step = "the vehicle has not answered to the position that it was told"
        elif state.paused:
            step = "the vehicle does not leave its pause: release it at the vehicle"
            if not self.actions.under_way("stopPause"):
                self._request("stopPause", now_s)
        else:
            self.task.route = None
            self.foreign.know(state)
            self._arming = Arming(ArmingPhase.READY)
            return
        self._arming = Arming(ArmingPhase.FAILED if late else ArmingPhase.UNDER_WAY, step)

    def refused_to_send(self, kind: str, why: str) -> None:
        """A message of ours is not valid: what it was for fails."""
        self._count("unsendable")
        if kind == "order":
            self.task.fail(why[:300])

    def _request(self, kind: str, now_s: float) -> None:
        if kind == "stateRequest":
            self._asked_s = now_s
        if not self._link:
            self._put("instantActions", self.actions.message([kind], now_s))

    def _put(self, kind: str, body: dict[str, Any], first: bool = False) -> None:
        if len(self._out) >= MAX_OUT:
            self._count("unsent")
            self._out.pop()
        self._out.insert(0 if first else len(self._out), (kind, body))

    def _order(self, body: dict[str, Any] | None) -> None:
        if body is not None:
            self._put("order", body)

    def _action_ended(self, ended: Ended) -> None:
        said = f"{ended.kind} {ended.outcome.value}" + (f": {ended.text[:200]}" if ended.text else "")
        finished = ended.outcome is Outcome.FINISHED
        self.asked.action_ended(ended.kind, finished, said)
        if self._arming.phase is not ArmingPhase.READY or finished:
            return
        if ended.kind == "cancelOrder" and self.task.cancelling:
            self.task.fail(said)  # it goes on, for all that is known: a trouble stops it
        elif ended.kind not in ("stateRequest", "cancelOrder", "factsheetRequest"):
            self._failed_action = said  # what those fail to do shows by itself

    # --- what holds ---

    def troubles(self, now_s: float) -> dict[str, str]:
        """Named causes, as `Agv.troubles`."""
        if self._link:
            return {"robot_unreachable": self._link}
        found: dict[str, str] = {}
        if self._vehicle != "ONLINE":
            said = f"the vehicle's connection is {self._vehicle}" if self._vehicle else "the vehicle was not heard of"
            found["robot_unreachable"] = f"{said}: switch it on, see its network, or correct its name in the topics"
        limit_s = self.config.idle_timeout_s
        if self._stopping or self._arming.phase in (ArmingPhase.READY, ArmingPhase.UNDER_WAY):
            limit_s = self.config.feedback_timeout_s
        if self.state is None:
            found["feedback_lost"] = "no valid state yet" + (f"; {self.last_refused}" if self.last_refused else "")
        elif now_s - self._heard_s > limit_s:
            found["feedback_lost"] = f"no fresh state for more than {limit_s:g} s"
        foreign = self.foreign.seen(now_s)
        if foreign:
            found["agv_foreign"] = f"another master commands this vehicle: {foreign}; take one of the two away"
        if self._failed_action:
            found["robot_mode:action"] = f"{self._failed_action}; see the vehicle"
        if self.task.state is TaskState.FAILED and self._arming.phase is ArmingPhase.READY:
            found["robot_mode:task"] = self.task.detail
        return found | (state_causes(self.state) if self.state is not None else {})

    def held_up(self, now_s: float) -> bool:
        """Whether messages come, but no state that is news: a new connection empties every queue, begins a new clock.
        One that is still being made is left alone.
        """
        return not self._link and self._dropped_s > self._heard_s and now_s - self._heard_s > RECONNECT_S

    def feedback(self) -> AgvFeedback | None:
        """What the vehicle says of itself; None before its first valid state."""
        state, task = self.state, self.task
        if state is None:
            return None
        base = AgvFeedback(
            stamp_s=self._state_s, driving=state.driving, pose_m_rad=self._pose, map_id=state.map_id,
            twist_m_s_rad_s=self._twist, twist_stamp_s=self._twist_s, paused=state.paused,
            operating_mode=state.operating_mode, battery_percent=state.battery_percent,
            last_waypoint=state.last_node_id, waypoints_left=len(state.nodes), report=self._report,
        )  # fmt: skip
        if task.route is None:
            return base
        return replace(base, task_id=task.route.task.task_id, task_state=task.state, task_detail=task.detail)

    def _count(self, name: str) -> None:
        self.counts[name] = self.counts.get(name, 0) + 1
