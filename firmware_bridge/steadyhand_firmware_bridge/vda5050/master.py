"""The master of one vehicle, without broker and clock: messages come in by `receive`, go out by `due`.

What it asks of the vehicle is what the guard asked for in this arming: one task at a time, released piece by piece
(`route`), a hold, a stop. A stop is startPause and cancelOrder together (cancelOrder alone may end at the next node),
sent again until the vehicle shows that it stands idle; also after a lost connection. Orders or actions of somebody
else, on the topics or in the vehicle's state, are a cause of their own: `agv_foreign`.
"""
from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from steadyhand.agv import AgvFeedback, AgvKind, DriveTo, TaskState, check_command
from steadyhand.errors import ProtocolError
from steadyhand.protocols import Arming, ArmingPhase
from steadyhand.vda5050 import codec, dialect
from steadyhand.vda5050.dialect import VehicleState
from steadyhand.vda5050.freshness import Freshness
from steadyhand.vda5050.strict_json import shown
from steadyhand_firmware_bridge.vda5050.actions import Ended, InstantActions, Outcome
from steadyhand_firmware_bridge.vda5050.config import MasterConfig
from steadyhand_firmware_bridge.vda5050.route import Route, first_route

MAX_OUT = 32
RECONNECT_S = 5.0
ORDER_TRIES = 3  # an order message is sent so often; a vehicle ignores what it has already
UNDER_WAY = (TaskState.SENT, TaskState.UNDER_WAY)
Message = tuple[str, dict[str, Any]]  # kind and body without header


class Master:
    """One vehicle. `name` is random per process: it begins the ids of our orders and actions."""

    def __init__(self, config: MasterConfig, name: str):
        self.config, self.name, self.version = config, name, config.identity.version
        self.freshness = Freshness(config.max_delay_s)
        self.actions = InstantActions(name, self.version, config.acknowledge_s, config.action_s)
        self.counts: dict[str, int] = {}
        self.factsheet: dict[str, Any] | None = None
        self.last_refused = ""  # what was wrong with the newest refused message
        self.state: VehicleState | None = None
        self.route: Route | None = None
        self.task_state, self.task_detail = TaskState.NONE, ""
        self._link = "not connected yet"
        self._vehicle = ""  # its connectionState
        self._state_s = self._heard_s = self._asked_s = -math.inf
        self._dropped_s = -math.inf
        self._twist: tuple[float, float, float] | None = None
        self._twist_s = -math.inf
        self._pose: tuple[float, float, float] | None = None
        self._out: list[Message] = []
        self._order_sent_s, self._order_tries = -math.inf, 0
        self._known_order, self._known_actions = "", frozenset()
        self._foreign, self._foreign_s = "", -math.inf
        self._arming, self._arming_since_s = Arming(ArmingPhase.IDLE), 0.0
        self._stopping, self._stop_sent_s = False, -math.inf
        self._failed_action = ""
        self._orders = 0

    # --- the link ---

    def connected(self, now_s: float) -> None:
        """The broker took us: ask for the state, resume nothing."""
        self._link, self._vehicle = "", ""
        self.freshness.reset()
        self._heard_s = now_s  # silence counts from here
        if self.task_state in UNDER_WAY:  # nobody stopped it meanwhile
            self._fail_task("the connection was lost while it was under way; what the vehicle does is not known")
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
                return self._overheard(kind, message, now_s)
            if kind == "connection":
                return self._connection(message, retained, now_s)
            if retained and kind != "factsheet":
                return self._count("retained")  # of an earlier time
            if kind == "factsheet":
                self.factsheet = message
                return None
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

    def _overheard(self, kind: str, message: Mapping[str, Any], now_s: float) -> None:
        """Our own messages come back too; whatever else is on these topics is another master."""
        if kind == "order":
            if not message["orderId"].startswith(f"{self.name}-"):
                self._foreigner(f"order {shown(message['orderId'])} on the topic", now_s)
        else:
            for action in message["actions"]:
                if not self.actions.ours(action["actionId"]):
                    self._foreigner(f"{shown(action['actionType'])} {shown(action['actionId'])} on the topic", now_s)

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
        self._look_for_foreigners(state, now_s)
        self._follow_task(state, now_s)

    # --- two masters on one vehicle ---

    def _look_for_foreigners(self, state: VehicleState, now_s: float) -> None:
        if self._arming.phase is not ArmingPhase.READY:
            return  # nothing was said about who commands; an arming looks whether it is idle
        order = state.order_id
        if self.route is None or order != self.route.order_id:  # an old one of ours, too, is somebody's doing
            if order not in ("", self._known_order) or state.nodes:
                self._foreigner(f"order {shown(order)} in its state", now_s)
        elif state.order_update_id > self.route.update_id:
            self._foreigner(f"update {state.order_update_id} of our order in its state, which we never sent", now_s)
        strange = [i for i in state.actions if i not in self._known_actions and not self.actions.ours(i)]
        if strange:
            self._foreigner(f"action {shown(strange[0])} in its state", now_s)

    def _foreigner(self, what: str, now_s: float) -> None:
        self._count("foreign")
        self._foreign, self._foreign_s = what, now_s

    # --- what the guard asks ---

    def begin_arming(self, now_s: float) -> None:
        """Ask for the state; `due` looks at the answer."""
        self.task_state, self.task_detail, self._failed_action = TaskState.NONE, "", ""
        self._arming, self._arming_since_s = Arming(ArmingPhase.UNDER_WAY, "waiting for a state"), now_s
        self._request("stateRequest", now_s)

    def arming(self) -> Arming:
        """Where it stands."""
        return self._arming

    def go(self, task: DriveTo, now_s: float) -> str:
        """Begin a task."""
        refused = check_command(task, AgvKind.ORDER) or self._not_ready(now_s)
        if not refused and self.task_state in UNDER_WAY:
            refused = f"task {self.route.task.task_id} is under way: stop it first"
        if not refused:
            refused = self._apart(task)
        if refused:
            return refused
        self._orders += 1
        self._known_order = self.state.order_id
        self.route = first_route(f"{self.name}-{self._orders}", task, self.config)
        self.task_state, self.task_detail, self._order_tries = TaskState.SENT, "", 0
        self._send_order(now_s)
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

    def initialise_position(self, pose: tuple[float, float, float], map_id: str, node: str, now_s: float) -> str:
        """Tell a standing vehicle where it is. Empty when it was sent."""
        if self._link or self.state is None or self.state.driving or not self.state.idle:
            return self._link or "the vehicle is not idle"
        if not all(isinstance(v, (int, float)) and math.isfinite(v) for v in pose):
            return f"pose={pose!r}: give finite numbers for x, y and theta"
        x, y, theta = pose
        parameters = {"x": x, "y": y, "theta": theta, "mapId": map_id, "lastNodeId": node}
        self._put("instantActions", self.actions.message(["initializePosition"], now_s, parameters))
        return ""

    def request_factsheet(self, now_s: float) -> str:
        """Ask for the factsheet, which then is in `factsheet`."""
        if not self._link:
            self._request("factsheetRequest", now_s)
        return self._link

    def stop(self, now_s: float) -> None:
        """Rest and no task; kept up by `due`."""
        if self._arming.phase is ArmingPhase.UNDER_WAY:
            self._arming = Arming(ArmingPhase.FAILED, "stopped")
        else:
            self._arming = Arming(ArmingPhase.IDLE)
        if self.task_state in UNDER_WAY:
            self.task_state = TaskState.STOPPED
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
            self._repeat_order(now_s)
            watched = self._stopping or self._arming.phase in (ArmingPhase.UNDER_WAY, ArmingPhase.READY)
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
            self._stopping = False
            return
        if now_s - self._stop_sent_s > self.config.stop_repeat_s:
            kinds = ["startPause"]
            if self.state is None or not self.state.idle or self._order_in_flight():
                kinds.append("cancelOrder")
            self._put("instantActions", self.actions.message(kinds, now_s), first=True)
            self._stop_sent_s = now_s
            self._count("stops_sent")

    def _idle_at_rest(self) -> bool:
        """The vehicle stands without an order, and has answered for one that it has not shown."""
        state = self.state
        if state.driving or state.nodes or state.edges:
            return False
        return not self._order_in_flight() or not self.actions.under_way("cancelOrder")

    def _order_in_flight(self) -> bool:
        """An order of ours that the vehicle has not shown yet may still be on its way."""
        return self.route is not None and self.state is not None and self.state.order_id != self.route.order_id

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
        elif state.paused:
            step = "the vehicle does not leave its pause: release it at the vehicle"
            if not self.actions.under_way("stopPause"):
                self._request("stopPause", now_s)
        else:
            self.route, self._known_order, self._known_actions = None, state.order_id, frozenset(state.actions)
            self._arming = Arming(ArmingPhase.READY)
            return
        self._arming = Arming(ArmingPhase.FAILED if late else ArmingPhase.UNDER_WAY, step)

    def refused_to_send(self, kind: str, why: str) -> None:
        """A message of ours is not valid: what it was for fails."""
        self._count("unsendable")
        if kind == "order":
            self._fail_task(why[:300])

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

    # --- the task ---

    def _send_order(self, now_s: float) -> None:
        self._order_sent_s, self._order_tries = now_s, self._order_tries + 1
        self._put("order", self.route.message())

    def _acknowledged(self) -> bool:
        state, route = self.state, self.route
        return state.order_id == route.order_id and state.order_update_id >= route.update_id

    def _repeat_order(self, now_s: float) -> None:
        if self.task_state not in UNDER_WAY or self._acknowledged() or self.troubles(now_s):
            return
        if now_s - self._order_sent_s <= self.config.acknowledge_s:
            return
        if self._order_tries >= ORDER_TRIES:
            return self._fail_task(f"update {self.route.update_id} was not acknowledged after {ORDER_TRIES} tries")
        self._send_order(now_s)

    def _follow_task(self, state: VehicleState, now_s: float) -> None:
        if self.task_state not in UNDER_WAY:
            return
        refusal = next((e for e in state.errors if e.refers(dialect.ORDER_ID, self.route.order_id)), None)
        if refusal is not None:
            return self._fail_task(f"{refusal.kind} ({refusal.level}): {refusal.text}"[:300])
        given_up = self._given_up(state)
        if given_up:
            return self._fail_task(given_up)
        if not self._acknowledged():
            return
        self.task_state = TaskState.UNDER_WAY
        if state.idle and not state.driving:
            self.task_state = TaskState.ARRIVED
        if not state.nodes:
            return
        if self._stopping or self.troubles(now_s):
            return  # nothing more is released while something is wrong
        update = self.route.extended(self._passed(state))
        if update is not None:
            self.route, self._order_tries = update, 0
            self._send_order(now_s)

    def _given_up(self, state: VehicleState) -> str:
        """Why the vehicle will not end the task: it had the order and has it no more. Sent anew, it would begin."""
        route = self.route
        if state.order_id != route.order_id:
            had = self.task_state is TaskState.UNDER_WAY
            return f"the vehicle has lost the order; it has {shown(state.order_id)} now" if had else ""
        last = state.last_node_id, state.last_node_sequence_id
        if state.nodes or last == (route.task.waypoints[-1].name, 2 * route.last):
            return ""
        return f"the vehicle has given the order up at node {shown(state.last_node_id)}"

    def _passed(self, state: VehicleState) -> int:
        """Index of the last node passed. By the nodes left, too: lastNodeSequenceId may be of the order before."""
        left = min(node.sequence_id for node in state.nodes)
        return max(0, min(left // 2 - 1, state.last_node_sequence_id // 2, self.route.base))

    def _fail_task(self, why: str) -> None:
        self._count("tasks_failed")
        self.task_state, self.task_detail = TaskState.FAILED, why

    def _action_ended(self, ended: Ended) -> None:
        if self._arming.phase is not ArmingPhase.READY or ended.outcome is Outcome.FINISHED:
            return
        if ended.kind in ("stateRequest", "cancelOrder", "factsheetRequest"):
            return  # what these fail to do shows by itself
        said = f": {ended.text[:200]}" if ended.text else ""
        self._failed_action = f"{ended.kind} {ended.outcome.value}{said}"

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
        if now_s - self._foreign_s <= self.config.foreign_s:
            found["agv_foreign"] = f"another master commands this vehicle: {self._foreign}; take one of the two away"
        if self._failed_action:
            found["robot_mode:action"] = f"{self._failed_action}; see the vehicle"
        if self.task_state is TaskState.FAILED and self._arming.phase is ArmingPhase.READY:
            found["robot_mode:task"] = self.task_detail
        return found | (state_causes(self.state) if self.state is not None else {})

    def held_up(self, now_s: float) -> bool:
        """Whether messages come, but no state that is news: a new connection empties every queue, begins a new clock.
        One that is still being made is left alone.
        """
        return not self._link and self._dropped_s > self._heard_s and now_s - self._heard_s > RECONNECT_S

    def feedback(self) -> AgvFeedback | None:
        """What the vehicle says of itself; None before its first valid state."""
        state, route = self.state, self.route
        if state is None:
            return None
        base = AgvFeedback(
            stamp_s=self._state_s, driving=state.driving, pose_m_rad=self._pose, map_id=state.map_id,
            twist_m_s_rad_s=self._twist, twist_stamp_s=self._twist_s, paused=state.paused,
            operating_mode=state.operating_mode, battery_percent=state.battery_percent,
            last_waypoint=state.last_node_id, waypoints_left=len(state.nodes),
        )  # fmt: skip
        if route is None:
            return base
        return replace(base, task_id=route.task.task_id, task_state=self.task_state, task_detail=self.task_detail)

    def _count(self, name: str) -> None:
        self.counts[name] = self.counts.get(name, 0) + 1


def state_causes(state: VehicleState) -> dict[str, str]:
    """What in a state forbids motion. eStop is the vehicle's own doing: read and obeyed, never a command."""
    found = {}
    if state.e_stop != "NONE":
        found["robot_safety:e_stop"] = f"emergency stop of the vehicle ({state.e_stop}): acknowledge it there"
    if state.operating_mode != "AUTOMATIC":
        found["robot_mode:operating_mode"] = f"{state.operating_mode}, wanted AUTOMATIC: switch it at the vehicle"
    for error in state.errors:
        if error.blocks:
            found[f"robot_mode:{error.kind[:40]}"] = f"{error.level} {error.text[:200]}: clear it at the vehicle"
    if not state.localised:
        found["robot_mode:not_localised"] = "the vehicle does not know where it is: initialise its position"
    return found
