"""The vehicle's control: order, actions, safety and motion together. Pure: time and readings in, commands out.

Order of authority, from the top: emergency stop and protective field (emergency brake), then whatever holds or ends the
order (service brake), then the order. A lost connection is in none of them: the vehicle drives on to the last released
node, as the standard lets it.
"""
from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from steadyhand_sim.agv.actions import Entry
from steadyhand_sim.agv.follower import Follower, Line
from steadyhand_sim.agv.instant_actions import InstantActions
from steadyhand_sim.agv.localisation import Localisation
from steadyhand_sim.agv.noise import NoiseParameters
from steadyhand_sim.agv.order import Order, Place, read_order
from steadyhand_sim.agv.order_book import AUTOMATIC_MODES, OFF_LINE_M, Answer, BookConfig, Leg, OrderBook, Situation
from steadyhand_sim.agv.plant import Readings
from steadyhand_sim.agv.refusals import Kind, Refusal
from steadyhand_sim.agv.route import end_speed_m_s, left_m, line_of
from steadyhand_sim.agv.safety import Obstacle, Safety
from steadyhand_sim.agv.site import Site
from steadyhand_sim.agv.vehicle_config import Battery, VehicleConfig

SEMIAUTOMATIC_M_S = 0.3  # what the person at the vehicle lets it drive at most
CHARGER_M = 0.3
DOCKING_LIMIT_S = 20.0
DOCK_APPROACH_M_S = 0.35
DOCK_VIEW_M = 1.5  # from here on the marker of a dock is seen
FATAL = (Kind.LOCALISATION, Kind.OFF_PATH, Kind.BATTERY_EMPTY, Kind.OVERLOAD)


class Vehicle:
    """One vehicle. The shell calls `step` each period and hands in messages; `follower` holds the commanded speeds."""

    def __init__(self, config: VehicleConfig, site: Site, noise: NoiseParameters, charge_percent: float = 80.0) -> None:
        self.config, self.site = config, site
        half = config.width_m / 2
        self.book = OrderBook(BookConfig(
            (site.map_id,), lambda a, b: site.passable(a, b, half), site.find, height_m=config.height_m
        ))  # fmt: skip
        self.instant = InstantActions(self)
        self.safety = Safety(config)
        self.localisation = Localisation(config, noise)
        self.follower = Follower(config)
        self.battery = Battery(config, config.battery_wh * charge_percent / 100.0)
        self.load_kg, self.load_id = 0.0, ""
        self.cancelling = ""  # why the order ends as soon as the vehicle stands
        self.state_wanted = self.factsheet_wanted = False
        self.since_node_m = 0.0
        self.refusals: list[Refusal] = []  # of orders, until one is taken
        self._failures: list[Refusal] = []  # of actions, until an order is taken
        self._off_path = False
        self._line: tuple[int, Line] | None = None  # what was begun from beside the line, by sequence id of the node

    # -- messages ----------------------------------------------------------------------------------------------------
    def on_order(self, message: Mapping[str, Any]) -> Answer:
        """An order message, valid by its schema."""
        order = read_order(message)
        if isinstance(order, Refusal):
            self.refuse(order)
            return Answer.REFUSED
        answer, refusal = self.book.receive(order, self._situation())
        if refusal is not None:
            self.refuse(refusal)
        elif answer in (Answer.NEW, Answer.UPDATED):
            self._taken(order, answer)
        return answer

    def _taken(self, order: Order, answer: Answer) -> None:
        self.refusals, self.state_wanted = [], True
        if answer is Answer.NEW:
            self._failures, self._off_path, self._line, self.since_node_m = [], False, None, 0.0
            self.instant.new_order()

    def on_instant_actions(self, message: Mapping[str, Any]) -> None:
        """An instantActions message, valid by its schema. Answered by the next state, which is due at once."""
        self.instant.take(message)
        self.state_wanted = True

    def refuse(self, refusal: Refusal) -> None:
        """Report what was refused, also a message that passed no schema."""
        self.refusals = [r for r in self.refusals if r != refusal][-9:] + [refusal]
        self.state_wanted = True

    def _situation(self) -> Situation:
        x, y, _ = self.localisation.pose()
        localised = self.localisation.initialised and not self.localisation.lost
        return Situation(x, y, self.site.map_id, localised, self.safety.mode, bool(self.cancelling))

    # -- what the state tells ----------------------------------------------------------------------------------------
    @property
    def at_rest(self) -> bool:
        """Whether nothing is commanded and no wheel turns."""
        return self.follower.at_rest and self.localisation.standing

    @property
    def errors(self) -> list[Refusal]:
        """All that is active."""
        return [*self._conditions(), *self.refusals, *self._failures, *self.instant.refusals]

    def _conditions(self) -> list[Refusal]:
        found = []
        if self.localisation.lost:
            found.append(Refusal(Kind.LOCALISATION, "ranges do not fit the pose; send initPosition"))
        if self._off_path:
            order = (("orderId", self.book.order_id),)
            found.append(Refusal(Kind.OFF_PATH, "too far off the edge; cancel the order", order))
        if self.load_kg > self.config.max_load_kg:
            found.append(Refusal(Kind.OVERLOAD, f"load {self.load_kg:g} kg, limit {self.config.max_load_kg:g} kg"))
        if self.battery.percent <= self.config.battery_empty_percent:
            found.append(Refusal(Kind.BATTERY_EMPTY, f"battery {self.battery.percent:.0f} %; charge by hand"))
        elif self.battery.percent <= self.config.battery_low_percent:
            found.append(Refusal(Kind.BATTERY_LOW, f"battery {self.battery.percent:.0f} %; charge soon"))
        return found

    @property
    def new_base_request(self) -> bool:
        """The base is about to end before its horizon: a longer one would spare the braking."""
        legs = self.book.legs()
        if not legs or len(legs) == len(self.book.edges):
            return False
        x, y, _ = self.localisation.pose()
        near = 1.5 * self.config.stopping_m(self._top_m_s(), self.load_kg) + 0.5
        return left_m(legs, x, y) < near

    # -- acts at the vehicle -----------------------------------------------------------------------------------------
    def set_mode(self, mode: str) -> None:
        """The key switch. Leaving a master's control ends the order, as the standard says."""
        if mode == self.safety.mode:
            return
        if mode not in AUTOMATIC_MODES or self.safety.mode not in AUTOMATIC_MODES:
            if self.book.active:
                self.cancelling = f"operatingMode {mode}"
            else:
                self.book.cancel(f"operatingMode {mode}")  # nor can a finished one go on from wherever it is driven to
            if mode in ("SERVICE", "TEACHIN"):
                self.book.last_node_id, self.book.last_node_sequence_id = "", 0
        self.safety.mode = mode

    def trigger(self, kind: str = "") -> bool:
        """What `waitForTrigger` waits for has happened; False when nothing waits for this kind."""
        waiting = [
            e for e in self.book.queue.under_way
            if e.action.action_type == "waitForTrigger" and kind in ("", e.action.parameters.get("triggerType", ""))
        ]
        for entry in waiting:
            entry.end("FINISHED", f"triggered: {kind}" if kind else "triggered")
        return bool(waiting)

    def start_charging(self) -> str:
        """Why it cannot charge here; empty when it does."""
        x, y, _ = self.localisation.pose()
        if not self.at_rest:
            return "the vehicle moves"
        for name in self.site.chargers:
            if math.hypot(self.site.nodes[name][0] - x, self.site.nodes[name][1] - y) <= CHARGER_M:
                self.battery.charging = True
                return ""
        return f"no charger here; chargers: {', '.join(self.site.chargers)}"

    # -- each period -------------------------------------------------------------------------------------------------
    def step(self, now_s: float, readings: Readings, obstacles: Iterable[Obstacle] = ()) -> None:
        """Pass one control period: estimate, decide, command."""
        former_speed = self.follower.speed_m_s
        self.localisation.move(readings)
        self.since_node_m += abs(self.localisation.speed_m_s) * self.config.period_s
        turning = self.follower.speed_m_s == 0.0 and self.follower.rotation_rad_s != 0.0
        self.safety.watch_field(now_s, self.localisation.pose(), self._field_speed(), turning, obstacles)
        self._drive()
        self._work()
        acceleration = (self.follower.speed_m_s - former_speed) / self.config.period_s
        self.battery.step(self.config.period_s, self.follower.speed_m_s, acceleration, self.load_kg)

    def _field_speed(self) -> float:
        """Signed speed that the field is for: before it starts backwards, it looks back."""
        if self.follower.speed_m_s != 0.0:
            return self.follower.speed_m_s
        legs, dock = self.book.legs(), self.dock_place() if self._docking() else None
        back = _offset(dock, self.localisation.pose())[0] < 0.0 if dock else legs and legs[0].edge.backwards
        return -1e-6 if back else 0.0

    def _top_m_s(self) -> float:
        return SEMIAUTOMATIC_M_S if self.safety.mode == "SEMIAUTOMATIC" else self.config.max_speed_m_s

    def _drive(self) -> None:
        if self.safety.stop_hard:
            self.follower.emergency()
        elif self.cancelling:
            self.follower.stop(self.load_kg)
            self._end_order()
        elif self.safety.hold or self.safety.mode not in AUTOMATIC_MODES or self._must_stand():
            self.follower.stop(self.load_kg)
        elif docking := self._docking():
            self._dock(docking)
        elif self.book.queue.driving_allowed and (legs := self.book.legs()):
            self._along(legs)
        else:
            self.follower.stop(self.load_kg)
        if self.safety.stop_hard and self.cancelling:
            self._end_order()

    def _must_stand(self) -> bool:
        return not self.localisation.initialised or self.battery.charging or any(
            r.kind in FATAL for r in self._conditions()
        )

    def _end_order(self) -> None:
        """At rest the order goes; actions that cannot be interrupted run on first."""
        self.book.queue.cancel(self.cancelling)
        if self.at_rest and self.book.queue.all_over:
            self.book.cancel(self.cancelling)
            self.cancelling, self._off_path, self._line = "", False, None

    def _along(self, legs: list[Leg]) -> None:
        leg, load, top, pose = legs[0], self.load_kg, self._top_m_s(), self.localisation.pose()
        dock = self.dock_place()
        if dock is not None and math.hypot(leg.place.x_m - dock.x_m, leg.place.y_m - dock.y_m) < CHARGER_M:
            top = min(top, DOCK_APPROACH_M_S)
        self.book.enter_edge()
        end_speed = end_speed_m_s(legs, top, self.config, load)
        line = line_of(leg, top, end_speed, self._start_beside(leg, pose))
        left, off = line.split(pose[0], pose[1])
        if self._off_path or abs(off) > self.config.off_path_m:
            self._off_path = True
            self.follower.stop(load)
            return
        near = max(self.config.arrival_m, min(leg.place.deviation_m, 0.5))
        if end_speed > 0.0:
            if left <= near:
                self._traverse()
            self.follower.follow(line, pose, load)
            return
        missed = math.hypot(leg.place.x_m - pose[0], leg.place.y_m - pose[1])
        if left <= self.config.arrival_m / 2 or self.follower.speed_m_s == 0.0 and missed <= self.config.arrival_m:
            self._arrive(leg, pose, near)
        else:
            self.follower.follow(line, pose, load)

    def _start_beside(self, leg: Leg, pose: tuple[float, float, float]) -> tuple[float, float] | None:
        """A leg begun from rest beside its line leads straight from there; None for the leg's own line."""
        if self._line is not None and self._line[0] == leg.node.sequence_id:
            return self._line[1].start
        if not self.at_rest:
            return None
        own = line_of(leg, self.config.max_speed_m_s)
        left, off = own.split(pose[0], pose[1])
        if abs(off) <= OFF_LINE_M and left <= own.length_m + OFF_LINE_M or left < OFF_LINE_M:
            return None
        here = Place(pose[0], pose[1], self.site.map_id)
        away = math.hypot(off, max(0.0, left - own.length_m))
        if away > max(self.config.off_path_m, leg.start.deviation_m):
            self._off_path = True
            return None
        if self.book.config.passable(here, leg.place):  # something stands in the straight way: back to its line first
            return None
        line = line_of(leg, self.config.max_speed_m_s, start=pose[:2])
        self._line = (leg.node.sequence_id, line)
        return line.start

    def _arrive(self, leg: Leg, pose: tuple[float, float, float], near_m: float) -> None:
        """At the node: rest, turn to its heading, then it is traversed."""
        place, load = leg.place, self.load_kg
        if self.follower.speed_m_s != 0.0:
            self.follower.stop(load)
            return
        if place.theta_rad is not None:
            error = math.remainder(place.theta_rad - pose[2], math.tau)
            allowed = max(self.config.arrival_rad, place.deviation_rad or 0.0)
            if abs(error) > (allowed if self.follower.rotation_rad_s == 0.0 else self.config.arrival_rad / 3):
                self.follower.turn(error, load)
                return
        self.follower.stop(load)
        if self.at_rest:
            away = math.hypot(place.x_m - pose[0], place.y_m - pose[1])
            if away > max(near_m, self.config.arrival_limit_m):
                self._off_path = True
            else:
                self._traverse()

    def _traverse(self) -> None:
        self.book.traverse()
        self._line, self.since_node_m = None, 0.0

    # -- actions of the order ----------------------------------------------------------------------------------------
    def _work(self) -> None:
        self.instant.step()
        held = self.safety.hold or self.safety.stop_hard
        for entry in self.book.queue.step(self.config.period_s, held, self.at_rest):
            self._due(entry)

    def _due(self, entry: Entry) -> None:
        kind, p = entry.action.action_type, entry.action.parameters
        if kind in ("pick", "drop") and not self.at_rest:  # it brakes for the load that it has
            self._fail(entry, f"{kind}: the vehicle moves; give blockingType SOFT or HARD")
        elif kind == "pick":
            if self.load_kg > 0.0:
                self._fail(entry, "pick: there is a load aboard")
            else:
                self.load_kg = float(p.get("weight", 10.0))
                self.load_id = str(p.get("loadId", "")) or entry.action.action_id
                entry.end("FINISHED")
        elif kind == "drop":
            if self.load_kg <= 0.0:
                self._fail(entry, "drop: no load aboard")
            else:
                self.load_kg, self.load_id = 0.0, ""
                entry.end("FINISHED")
        elif kind == "startCharging":
            why = self.start_charging()
            self._fail(entry, why) if why else entry.end("FINISHED")
        elif kind == "signal":
            entry.end("FINISHED")
        elif kind == "stopCharging":
            self.battery.charging = False
            entry.end("FINISHED")

    def _fail(self, entry: Entry, why: str) -> None:
        entry.end("FAILED", why)
        failure = Refusal(Kind.ACTION_FAILED, why, (("actionId", entry.action.action_id),))
        self._failures = [*self._failures, failure][-10:]

    def dock_place(self) -> Place | None:
        """The dock whose marker the vehicle sees from where it believes to be; None when it sees none."""
        x, y, _ = self.localisation.pose()
        docks = (self.site.find(name) for name in self.site.docks)
        return next((d for d in docks if math.hypot(d.x_m - x, d.y_m - y) < DOCK_VIEW_M), None)

    def _docking(self) -> Entry | None:
        return next((e for e in self.book.queue.under_way if e.action.action_type == "finePositioning"), None)

    def _dock(self, entry: Entry) -> None:
        """Fine positioning: heading, then the way along it; what is off to the side cannot be driven out here."""
        dock, pose = self.dock_place(), self.localisation.pose()
        if dock is None or entry.elapsed_s > DOCKING_LIMIT_S:
            self._fail(entry, "finePositioning: no dock in view" if dock is None else "finePositioning: took too long")
            return
        along, across, turn = _offset(dock, pose)
        if abs(across) > self.config.dock_m and self.at_rest:
            self._fail(entry, f"finePositioning: {abs(across) * 1000:.0f} mm beside the dock, allowed "
                              f"{self.config.dock_m * 1000:.0f} mm; approach it again")  # fmt: skip
        elif abs(turn) > self.config.dock_rad / 2 and self.follower.speed_m_s == 0.0:
            self.follower.turn(turn, self.load_kg)
        elif abs(along) > self.config.dock_m / 3:
            self.follower.creep(along, self.load_kg)
        else:
            self.follower.stop(self.load_kg)
            if self.at_rest:
                entry.end("FINISHED", f"{along * 1000:.0f} mm along, {across * 1000:.0f} mm across, {turn:.3f} rad")


def _offset(dock: Place, pose: tuple[float, float, float]) -> tuple[float, float, float]:
    """The dock seen from a pose: way along its heading, to its left, and turn."""
    c, s = math.cos(dock.theta_rad), math.sin(dock.theta_rad)
    dx, dy = dock.x_m - pose[0], dock.y_m - pose[1]
    return c * dx + s * dy, -s * dx + c * dy, math.remainder(dock.theta_rad - pose[2], math.tau)
