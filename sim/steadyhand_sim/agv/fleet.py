"""Vehicles in real time: plants, sensors, control, and what they send. One loop; messages wake it at once."""
from __future__ import annotations

import os
import queue
import select
import time
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from steadyhand.errors import ConfigError, ProtocolError
from steadyhand.vda5050 import codec
from steadyhand.vda5050.header import HeaderIds, Identity
from steadyhand_sim.agv import reports
from steadyhand_sim.agv.mqtt_link import INBOX, Broker, MqttLink, Received
from steadyhand_sim.agv.noise import NoiseParameters
from steadyhand_sim.agv.plant import Plant, Sensors
from steadyhand_sim.agv.refusals import Kind, Refusal
from steadyhand_sim.agv.safety import MODES, Obstacle
from steadyhand_sim.agv.site import Site
from steadyhand_sim.agv.vehicle import Vehicle
from steadyhand_sim.agv.vehicle_config import VehicleConfig

RANGE_EVERY = 3  # periods between two ranges: 8.3 Hz, as the labyrinth recording's 7.8 Hz
TAKE_S = 0.005  # messages are taken for no longer than this at a time: a flood does not hold up the vehicles
MAX_CATCH_UP = 3  # periods passed at once after a delay of this process; more are left out, and counted


@dataclass
class Unit:
    """One vehicle with its body, senses and link."""

    identity: Identity
    vehicle: Vehicle
    plant: Plant
    sensors: Sensors
    site: Site
    link: MqttLink | None = None
    headers: HeaderIds = field(default_factory=HeaderIds)
    counters: Counter = field(default_factory=Counter)
    periods: int = 0
    signature: tuple = ()
    state_sent_s: float = -1e9
    visualization_sent_s: float = -1e9
    state_header_id: int = 0

    def pass_period(self, now_s: float, obstacles: list[Obstacle]) -> None:
        """Body, senses, control."""
        v = self.vehicle
        self.plant.step(v.follower.speed_m_s, v.follower.rotation_rad_s, v.load_kg)
        self.periods += 1
        v.step(now_s, self.sensors.read(), obstacles)
        if self.periods % RANGE_EVERY == 0:  # after the step: a fix measures where the period has ended
            anchor = self.site.anchors_m[self.periods // RANGE_EVERY % len(self.site.anchors_m)]
            v.localisation.range_fix(anchor, self.sensors.range_m(anchor))
        if v.dock_place() is not None:
            v.localisation.pose_fix(self.sensors.dock_pose(), Sensors.DOCK_SIGMA_M, Sensors.DOCK_SIGMA_RAD)


class Fleet:
    """The loop. `handle` answers the score socket; nothing in it is read by the runtime."""

    def __init__(self, units: list[Unit], broker: Broker | None) -> None:
        self.units, self.obstacles = units, []
        self._inbox: queue.Queue[Received] = queue.Queue(INBOX)
        self._connects: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.late_periods = 0
        if broker is not None:
            now_s = time.monotonic()
            for index, unit in enumerate(units):
                # Not all at once:
                unit.visualization_sent_s = now_s - reports.VISUALIZATION_INTERVAL_S * index / len(units)
                unit.link = MqttLink(index, unit.identity, broker, self._inbox, self._connects, self._wake)
                unit.link.open(self._payload(unit, "connection", reports.connection(unit.identity.version, "broken")))

    def _wake(self) -> None:
        try:
            os.write(self._wake_write, b"\0")
        except BlockingIOError:  # full: it will wake anyway
            pass

    # -- in ----------------------------------------------------------------------------------------------------------
    def take_messages(self) -> None:
        """What has arrived, for `TAKE_S` at most; each is answered by a state at once."""
        end_s = time.monotonic() + TAKE_S
        while not self._connects.empty():
            unit = self.units[self._connects.get_nowait()]
            self._send(unit, "connection", reports.connection(unit.identity.version, reports.ONLINE), retain=True)
            self._send(unit, "factsheet", reports.factsheet(unit.vehicle, unit.identity.version), retain=True)
            unit.vehicle.state_wanted = True
            self.send_due(unit, time.monotonic())
        while True:
            try:
                received = self._inbox.get_nowait()
            except queue.Empty:
                return
            unit = self.units[received.vehicle]
            self.take(unit, received.kind, received.payload)
            self.send_due(unit, time.monotonic())
            if time.monotonic() >= end_s:
                self._wake()  # the rest comes after what else is due
                return

    def take(self, unit: Unit, kind: str, payload: bytes) -> None:
        """One payload of a master. What breaks JSON, schema or header is refused, named and counted."""
        unit.counters[kind] += 1
        try:
            message = codec.decode(kind, payload, unit.identity.version)
            unit.identity.check(kind, message)
        except ProtocolError as error:
            unit.counters["refused"] += 1
            unit.vehicle.refuse(Refusal(Kind.MALFORMED, str(error), (("topic", kind),)))
            return
        if kind == "order":
            unit.counters[f"order_{unit.vehicle.on_order(message).value}"] += 1
        else:
            unit.vehicle.on_instant_actions(message)

    # -- out ---------------------------------------------------------------------------------------------------------
    def _payload(self, unit: Unit, kind: str, message: dict) -> bytes:
        header = unit.identity.header(unit.headers.take(kind), time.time())
        if kind == "state":
            unit.state_header_id = header["headerId"]
        return codec.encode(kind, header | message, unit.identity.version)

    def _send(self, unit: Unit, kind: str, message: dict, retain: bool = False) -> None:
        if unit.link is None or not unit.link.connected:
            return
        try:
            unit.link.publish(kind, self._payload(unit, kind, message), retain)
            unit.counters["sent"] += 1
        except ProtocolError:  # a bug of ours: counted and shown by `state`, the vehicle drives on
            unit.counters["unsendable"] += 1

    def send_due(self, unit: Unit, now_s: float) -> None:
        """State on change, on request and at the interval; factsheet on request; visualization at its interval."""
        v, version = unit.vehicle, unit.identity.version
        signature = reports.signature(v)
        if v.state_wanted or signature != unit.signature or now_s - unit.state_sent_s >= reports.STATE_INTERVAL_S:
            unit.signature, v.state_wanted, unit.state_sent_s = signature, False, now_s
            self._send(unit, "state", reports.state(v, version))
        if v.factsheet_wanted:
            v.factsheet_wanted = False
            self._send(unit, "factsheet", reports.factsheet(v, version), retain=True)
        if now_s - unit.visualization_sent_s >= reports.VISUALIZATION_INTERVAL_S:
            unit.visualization_sent_s = now_s
            self._send(unit, "visualization", reports.visualization(v, version, unit.state_header_id))

    # -- the loop ----------------------------------------------------------------------------------------------------
    def run(self, until, poll=lambda: None, files=list, period_s: float = 0.04) -> None:
        """Real time until `until()`; `poll` serves the score socket, input on whose `files()` wakes the loop too."""
        due_s = time.monotonic()
        while not until():
            now_s = time.monotonic()
            if now_s < due_s:
                readable, _, _ = select.select([self._wake_read, *files()], [], [], due_s - now_s)
                if self._wake_read in readable:
                    os.read(self._wake_read, 65536)
                self.take_messages()
                poll()
                continue
            behind = int((now_s - due_s) / period_s)
            if behind > MAX_CATCH_UP:
                self.late_periods += behind - MAX_CATCH_UP
                due_s += (behind - MAX_CATCH_UP) * period_s
            for unit in self.units:
                unit.pass_period(due_s, self.obstacles)
                self.send_due(unit, now_s)
                self.take_messages()  # neither an order nor a button waits until a whole fleet has passed its period
                poll()
            due_s += period_s

    def close(self) -> None:
        """Say OFFLINE for every vehicle and let go."""
        for unit in self.units:
            if unit.link is not None:
                version = unit.identity.version
                unit.link.close(self._payload(unit, "connection", reports.connection(version, reports.OFFLINE)))
            unit.plant.close()
        os.close(self._wake_read)
        os.close(self._wake_write)

    # -- score socket ------------------------------------------------------------------------------------------------
    def handle(self, request: dict) -> dict:
        """`{"get": "state", "vehicle": n}`, or `{"do": ACT, "vehicle": n, ...}`: a person or a thing in the hall."""
        number = request.get("vehicle", 0)
        if type(number) is not int or not 0 <= number < len(self.units):
            raise ConfigError(f"vehicle {number!r}: give 0 to {len(self.units) - 1}")
        unit = self.units[number]
        if request.get("get") == "state":
            return {"state": self._truth(unit)}
        act = ACTS.get(request["do"]) if isinstance(request.get("do"), str) else None
        if act is None:
            raise ConfigError(f"request {str(request)[:200]}: give get=state or do=one of {', '.join(ACTS)}")
        answer = act(self, unit, request)
        self.send_due(unit, time.monotonic())
        return {"done": request["do"]} if not answer else {"refused": answer}

    def _truth(self, unit: Unit) -> dict:
        v = unit.vehicle
        return {
            "pose": list(unit.plant.pose()), "twist": list(unit.plant.twist()), "estimate": list(v.localisation.pose()),
            "deviation_m": v.localisation.deviation_m(), "driving": not v.at_rest, "e_stop": v.safety.e_stop,
            "field_violation": v.safety.field_violation, "paused": v.safety.hold, "mode": v.safety.mode,
            "load_kg": v.load_kg, "battery_percent": v.battery.percent, "last_node": v.book.last_node_id,
            "nodes_left": len(v.book.nodes), "base_left": v.book.base_left, "counters": dict(unit.counters),
            "ranges_refused": v.localisation.refused, "late_periods": self.late_periods,
            "instant_repeated": v.instant.repeated, "messages_dropped": unit.link.dropped if unit.link else 0,
            "connected": unit.link is not None and unit.link.connected, "serial": unit.identity.serial_number,
        }  # fmt: skip


def _load(fleet: Fleet, unit: Unit, request: dict) -> str:
    kg = request.get("kg")
    if not isinstance(kg, (int, float)) or not 0 <= kg <= 1000:
        raise ConfigError(f"kg={kg!r}: give 0 to 1000")
    unit.vehicle.load_kg, unit.vehicle.load_id = float(kg), str(request.get("load_id", ""))[:64] if kg else ""
    return ""


def _mode(fleet: Fleet, unit: Unit, request: dict) -> str:
    if request.get("mode") not in MODES:
        raise ConfigError(f"mode={request.get('mode')!r}: give one of {', '.join(MODES)}")
    unit.vehicle.set_mode(request["mode"])
    return ""


def _obstacles(fleet: Fleet, unit: Unit, request: dict) -> str:
    given = request.get("obstacles", [])
    try:
        fleet.obstacles = [Obstacle(*map(float, o)) for o in given]
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(f"obstacles={str(given)[:100]}: give a list of [x, y, radius] in metres") from error
    return ""


def _battery(fleet: Fleet, unit: Unit, request: dict) -> str:
    percent = request.get("percent")
    if not isinstance(percent, (int, float)) or not 0 <= percent <= 100:
        raise ConfigError(f"percent={percent!r}: give 0 to 100")
    unit.vehicle.battery.charge_wh = unit.vehicle.config.battery_wh * percent / 100
    return ""


def _done(act):
    return lambda fleet, unit, request: act(unit.vehicle.safety) or ""


def _local_stop(on: bool):
    return lambda fleet, unit, request: setattr(unit.vehicle.safety, "local_stop", on) or ""


ACTS = {
    "e_stop": _done(lambda s: s.press()),
    "release": _done(lambda s: s.release()),
    "acknowledge": _done(lambda s: s.acknowledge()),
    "local_stop": _local_stop(True),
    "local_go": _local_stop(False),
    "mode": _mode,
    "load": _load,
    "obstacles": _obstacles,
    "battery": _battery,
    "trigger": lambda fleet, unit, r: "" if unit.vehicle.trigger(str(r.get("kind", ""))) else "nothing waits",
}


def make_unit(
    identity: Identity, plant: Plant, config: VehicleConfig, site: Site, noise: NoiseParameters,
    rng: np.random.Generator, pose: tuple[float, float, float], localised: bool = True, charge_percent: float = 80.0,
) -> Unit:
    """A vehicle that stands at a pose; not `localised`: it waits for initPosition."""
    plant.put(*pose)
    vehicle = Vehicle(config, site, noise, charge_percent)
    if localised:
        vehicle.localisation.start(*pose)
    return Unit(identity, vehicle, plant, Sensors(plant, config, noise, rng), site)
