"""When the vehicles' process sends what: on change, on request, at the interval; what is refused is counted."""
import json
import math
import queue
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.reasoncodes import ReasonCode

from steadyhand.errors import ConfigError
from steadyhand.vda5050 import codec
from steadyhand.vda5050.header import Identity
from steadyhand_sim.agv import fleet as fleet_module
from steadyhand_sim.agv import reports
from steadyhand_sim.agv.fleet import Fleet, make_unit
from steadyhand_sim.agv.mqtt_link import Broker, MqttLink, Received
from steadyhand_sim.agv.noise import NoiseParameters
from steadyhand_sim.agv.plant import KinematicPlant
from steadyhand_sim.agv.site import Site
from steadyhand_sim.agv.vehicle_config import VehicleConfig
from tests.support.agv_orders import action, instant, order, with_header

CONFIG = VehicleConfig()


class Wire:
    """Where the link to the broker would be: keeps what is sent."""

    connected = True

    def __init__(self):
        self.sent = []

    def publish(self, kind, payload, retain=False):
        self.sent.append((kind, codec.decode(kind, payload, "2.1.0"), retain))

    def close(self, farewell):
        self.publish("connection", farewell, True)

    def kinds(self):
        found, self.sent = [kind for kind, _, _ in self.sent], []
        return found


@pytest.fixture
def fleet():
    noise, rng = NoiseParameters.none(), np.random.default_rng(0)
    plant = KinematicPlant(CONFIG, noise, rng)
    unit = make_unit(Identity("steadyhand", "t"), plant, CONFIG, Site(), noise, rng, (-5.0, 0.0, 0.0))
    unit.link = Wire()
    made = Fleet([unit], None)
    made.send_due(unit, 0.0)
    unit.link.kinds()
    yield made
    made.close()


def test_a_state_is_due_on_change_on_request_and_at_the_latest_within_the_standards_30_s(fleet):
    unit = fleet.units[0]
    times = []
    for k in range(1, 1500):
        unit.pass_period(k * 0.04, [])
        fleet.send_due(unit, k * 0.04)
        if "state" in unit.link.kinds():
            times.append(k * 0.04)
    assert 3 <= len(times) <= 7 and np.diff(times).max() <= reports.STATE_INTERVAL_S + 0.05 < 30
    unit.vehicle.safety.local_stop = True
    fleet.send_due(unit, 60.0)
    assert unit.link.kinds() == ["state"]
    fleet.send_due(unit, 60.01)
    assert unit.link.kinds() == []
    message = instant(action("stateRequest", "s"), action("factsheetRequest", "f"))
    fleet.take(unit, "instantActions", codec.encode("instantActions", with_header(message, unit.identity), "2.1.0"))
    fleet.send_due(unit, 60.02)
    assert sorted(unit.link.kinds()) == ["factsheet", "state"]


def test_a_payload_that_is_refused_is_counted_and_reported(fleet):
    unit = fleet.units[0]
    good = codec.encode("order", with_header(order([(-5, 0), (-3, 0)]), unit.identity), "2.1.0")
    for payload in (b"", good[:-1], good.replace(b'"t"', b'"u"'), good + b" {}"):
        fleet.take(unit, "order", payload)
    fleet.send_due(unit, 1.0)
    (state,) = [message for kind, message, _ in unit.link.sent if kind == "state"]
    assert {e["errorType"] for e in state["errors"]} == {"validationError"}
    assert unit.counters["refused"] == 4 and state["orderId"] == ""
    fleet.take(unit, "order", good)
    fleet.take(unit, "order", good)
    assert (unit.counters["order_new"], unit.counters["order_repeated"]) == (1, 1)


@pytest.mark.parametrize(
    "request_",
    [{}, {"get": "all"}, {"do": "fly"}, {"get": "state", "vehicle": 1}, {"get": "state", "vehicle": "0"},
     {"do": "load", "kg": -1}, {"do": "load"}, {"do": "mode", "mode": "FAST"}, {"do": "battery", "percent": 101},
     {"do": "obstacles", "obstacles": [[0, 0, -1]]}, {"do": "obstacles", "obstacles": [[float("nan"), 0, 1]]},
     {"do": "obstacles", "obstacles": 3}, {"do": "obstacles", "obstacles": [[0, 0]]},
     {"do": "obstacles", "obstacles": [[10**400, 0, 1]]}, {"do": ["load"]}, {"do": "mode", "mode": []},
     {"get": "state", "vehicle": True}],
)  # fmt: skip
def test_what_the_score_socket_cannot_do_is_named(fleet, request_):
    with pytest.raises(ConfigError, match="give"):
        fleet.handle(request_)


def test_nothing_is_made_for_a_broker_that_is_away_and_the_end_is_told(fleet):
    unit = fleet.units[0]
    unit.link.connected = False
    unit.vehicle.safety.local_stop = True
    fleet.send_due(unit, 5.0)
    assert unit.link.kinds() == [] and unit.counters["unsendable"] == 0


class Endless:
    """An inbox that is filled faster than it can be emptied."""

    taken = 0

    def get_nowait(self):
        self.taken += 1
        assert self.taken < 100_000, "the flood holds up the loop"
        return Received(0, "order", b"{}")


def test_a_flood_of_messages_does_not_hold_up_the_vehicles(fleet):
    fleet._inbox = Endless()
    fleet.take_messages()
    assert 0 < fleet._inbox.taken < 100_000


def a_link(fleet, size=2):
    fleet._inbox = queue.Queue(size)
    broker = Broker(user="somebody", password="wrong")
    return MqttLink(0, fleet.units[0].identity, broker, fleet._inbox, fleet._connects, fleet._wake)


def test_a_flood_at_connecting_does_not_keep_the_vehicle_from_saying_that_it_is_there(fleet):
    link, message = a_link(fleet), SimpleNamespace(retain=False, topic="uagv/v2/steadyhand/t/order", payload=b"{}")
    for _ in range(5):
        link._on_message(None, None, message)
    link._on_connect(SimpleNamespace(subscribe=lambda topics: None), None, None, SimpleNamespace(is_failure=False), None)
    assert link.dropped == 3
    fleet.take_messages()
    assert fleet.units[0].link.kinds()[:3] == ["connection", "factsheet", "state"]


def test_a_broker_that_refuses_is_named_once(fleet, capsys):
    link = a_link(fleet)
    for _ in range(3):
        link._on_connect(None, None, None, ReasonCode(PacketTypes.CONNACK, "Not authorized"), None)
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "refuses t: Not authorized" in said and "--user" in said
    link._client.on_connect_fail(None, None)
    assert "cannot be reached" in capsys.readouterr().err
    fleet.take_messages()
    assert fleet.units[0].link.kinds() == []


def test_a_closed_standard_error_does_not_end_the_link(fleet, monkeypatch):
    def write(text):
        raise BrokenPipeError

    monkeypatch.setattr(sys, "stderr", SimpleNamespace(write=write, flush=lambda: None))
    a_link(fleet)._tell("is away")


@pytest.mark.parametrize("content", [None, b"", b"no certificate", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_a_wrong_certificate_file_is_named(tmp_path, content):
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match="ca.pem"):
        Broker(ca_file=path)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"nodes": {"a": [math.nan, 0.0]}}, "nodes"), ({"nodes": {"a": [0.0, 0.0, math.inf]}}, "nodes"),
        ({"nodes": {"a": [10**400, 0.0]}}, "site file"), ({"nodes": {"a": [0.0]}}, "site file"),
        ({"anchors_m": [[0, 0], [1, 1], [math.nan, 2]]}, "anchors_m"), ({"anchors_m": [[0, 0], [1, 1], [2]]}, "anchors_m"),
        ({"anchors_m": [[0, 0], [1, 1]]}, "anchors_m"), ({"bounds_m": [1, 0, 0, 1]}, "bounds_m"), ({"walls": []}, "walls"),
        ({"docks": ["nowhere"]}, "nowhere"), ({"docks": ["home"]}, "heading"),
    ],
)  # fmt: skip
def test_a_wrong_site_is_named(tmp_path, fields, named):
    path = tmp_path / "site.json"
    path.write_text(json.dumps(fields))
    with pytest.raises(ConfigError, match=named):
        Site.load(path)


def test_what_changes_at_rest_is_told_at_once(fleet):
    acts = ["load", "e_stop", "release", "acknowledge", "mode"]
    for request_ in ({"do": act, "kg": 5, "mode": "MANUAL"} for act in acts):
        fleet.units[0].state_sent_s = fleet.units[0].visualization_sent_s = time.monotonic()  # not due by time
        fleet.handle(request_)
        assert fleet.units[0].link.kinds() == ([] if request_["do"] == "release" else ["state"]), request_


def test_a_message_that_the_broker_kept_is_not_taken(fleet):
    link = a_link(fleet)
    link._on_message(None, None, SimpleNamespace(retain=True, topic="uagv/v2/steadyhand/t/order", payload=b"{}"))
    assert fleet._inbox.empty()


def test_after_a_stall_periods_are_left_out_and_counted_and_people_are_served_all_the_same(fleet, monkeypatch):
    now = [100.0]

    def monotonic():
        now[0] += 0.001
        return now[0]

    monkeypatch.setattr(fleet_module, "time", SimpleNamespace(monotonic=monotonic, time=lambda: 1e9))
    monkeypatch.setattr(fleet_module, "select", SimpleNamespace(select=lambda *_: ([], [], [])))
    unit, polls = fleet.units[0], []
    fleet.run(lambda: unit.periods >= 5, lambda: polls.append(now[0]))
    assert fleet.late_periods == 0
    now[0] += 10.0
    before, polled = unit.periods, len(polls)
    fleet.late_periods = 0
    stalled = iter([0.0, 10.0])

    def until():
        now[0] += next(stalled, 0.0)
        return unit.periods >= before + 8

    fleet.run(until, lambda: polls.append(now[0]))
    assert unit.periods == before + 8 and 240 <= fleet.late_periods <= 250 and len(polls) - polled >= 8
