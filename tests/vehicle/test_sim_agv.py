"""`steadyhand-sim-agv` as a process beside a real mosquitto and a bare paho client: what a master sees and can do."""
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import time

import paho.mqtt.client as mqtt
import pytest

from steadyhand.slot import current_slot
from steadyhand.vda5050 import codec
from steadyhand.vda5050.dialect import CONNECTION_BROKEN, read_state
from steadyhand.vda5050.header import Identity
from tests.support.agv_orders import action, instant, order, with_header
from tests.support.broker import Broker
from tests.support.first_line import first_line

pytestmark = [pytest.mark.broker, pytest.mark.process]
LINE = [(-5, 0), (-3, 0)]
LIMIT_S = 40.0


class Master:
    """A bare client. What it receives must pass the schema; `state` is the newest, `seen` all messages."""

    def __init__(self, broker, identity, name="master"):
        self.identity, self.seen, self.state, self.connection, self.sent = identity, [], None, "", 0
        self._inbox = queue.Queue()
        self.client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id=f"{name}-{identity.serial_number}")
        self.client.on_connect = lambda client, *_: client.subscribe(identity.topic("+").replace("+", "#"), 1)
        self.client.on_message = lambda c, u, m: self._inbox.put((m.topic.rpartition("/")[2], m.payload))
        self.client.connect_async(broker.host, broker.port)
        self.client.reconnect_delay_set(1, 1)
        self.client.loop_start()

    def send(self, kind, message):
        self.sent += 1
        payload = codec.encode(kind, with_header(message, self.identity, self.sent), self.identity.version)
        self.raw(kind, payload)

    def raw(self, kind, payload):
        self.client.publish(self.identity.topic(kind), payload, qos=1).wait_for_publish(5)

    def until(self, condition, limit_s=LIMIT_S):
        """Take messages until `condition()`; fails after the limit."""
        end_s = time.monotonic() + limit_s
        while not condition():
            try:
                kind, payload = self._inbox.get(timeout=max(0.0, min(0.2, end_s - time.monotonic())))
            except queue.Empty:
                assert time.monotonic() < end_s, f"not within {limit_s} s; {self.connection} {self.state}"
                continue
            if kind in ("order", "instantActions"):
                continue
            message = codec.decode(kind, payload, self.identity.version)
            self.seen.append((kind, message))
            if kind == "state":
                self.state = read_state(message, self.identity.version)
            elif kind == "connection":
                self.connection = message["connectionState"]
        return self.state

    def errors(self):
        return [e.kind for e in self.state.errors]

    def status(self, action_id):
        found = self.state.actions.get(action_id)
        return found and found.status

    def close(self):
        self.client.disconnect()
        self.client.loop_stop()


class Sim:
    """The process; `ask` is its score socket."""

    def __init__(self, folder, broker, *arguments):
        self.environment = {**os.environ, "XDG_RUNTIME_DIR": str(folder), "PYTHONPATH": ":".join(p for p in sys.path if p)}
        self.process = subprocess.Popen(
            ["timeout", "-s", "KILL", "150", sys.executable, "-m", "steadyhand_sim.agv.main", "--broker",
             f"{broker.host}:{broker.port}", "--no-noise", *arguments],
            stdout=subprocess.PIPE, text=True, env=self.environment, start_new_session=True,
        )  # fmt: skip
        self.ready = json.loads(first_line(self.process))

    def ask(self, **request):
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(10)
            client.connect(str(current_slot(self.environment).socket_dir / "sim_agv.sock"))
            stream = client.makefile("rw")
            stream.write(json.dumps(request) + "\n")
            stream.flush()
            return json.loads(stream.readline())

    def truth(self, vehicle=0):
        return self.ask(get="state", vehicle=vehicle)["state"]

    def end(self, how=signal.SIGKILL):
        if self.process.poll() is None:
            os.kill(self.ready["pid"], how)
            self.process.wait(timeout=20)
        self.process.stdout.close()


@pytest.fixture
def rig(tmp_path, request):
    """Broker, simulated vehicle and master; the parameter is the protocol's version."""
    version = getattr(request, "param", codec.VERSIONS[0])
    broker = Broker(tmp_path).start()
    sim = Sim(tmp_path, broker, "--protocol", version)
    master = Master(broker, Identity("steadyhand", "agv", version))
    try:
        master.until(lambda: master.connection == "ONLINE" and master.state is not None)
        yield sim, master, broker
    finally:
        master.close()
        sim.end()
        broker.kill()


@pytest.mark.parametrize("rig", codec.VERSIONS, indirect=True)
def test_an_order_is_taken_driven_and_reported(rig):
    sim, master, _ = rig
    version = master.identity.version
    master.until(lambda: "factsheet" in [kind for kind, _ in master.seen])
    acts = {1: [action("pick", "load", weight=5.0)]}
    master.send("order", order([*LINE, (-1, 0)], released=2, actions=acts, version=version))
    master.until(lambda: master.state.order_id == "order")
    master.until(lambda: master.state.driving)
    master.until(lambda: master.status("load") == "FINISHED")
    assert master.state.last_node_id == "n1" and len(master.state.loads) == 1 and not master.state.driving
    assert [(n.id, n.released) for n in master.state.nodes] == [("n2", False)]
    master.send("order", order([LINE[1], (-1, 0)], first=1, update_id=1, actions={0: acts[1]}, version=version))
    master.until(lambda: master.state.idle and master.state.order_update_id == 1)
    assert abs(sim.truth()["pose"][0] + 1) < 0.05 and master.errors() == []
    master.send("instantActions", instant(action("factsheetRequest", "f"), action("stateRequest", "s")))
    master.until(lambda: "s" in master.state.actions)
    assert {kind for kind, _ in master.seen} == {"connection", "factsheet", "state", "visualization"}
    ids = [m["headerId"] for kind, m in master.seen if kind == "state"]
    assert ids == list(range(ids[0], ids[0] + len(ids)))
    assert sim.truth()["counters"].get("unsendable", 0) == 0


@pytest.mark.parametrize("rig", codec.VERSIONS, indirect=True)
def test_bad_messages_are_named_move_nothing_and_a_good_one_clears_them(rig):
    sim, master, _ = rig
    two = master.identity.version == "2.1.0"
    malformed = "validationError" if two else "VALIDATION_FAILURE"
    good = with_header(order(LINE, version=master.identity.version), master.identity)
    text = json.dumps(good)
    payloads = [
        b"", b"\xff\xfe", b"{", text[: len(text) // 2].encode(), b"[]", b"[" * 5000,
        text.replace('"x": -5', '"x": NaN').encode(),
        json.dumps(good | {"version": "1.1.0"}).encode(),
        json.dumps(good | {"serialNumber": "other"}).encode(),
        json.dumps(good | {"nodes": "n0"}).encode(),
        json.dumps(good | {"orderUpdateId": -1}).encode(),
        json.dumps(good | {"orderId": "x" * 300_000}).encode(),
        json.dumps(good | {"edges": []}).encode(),
    ]  # fmt: skip
    for number, payload in enumerate(payloads, 1):
        master.raw("order", payload)
        master.until(lambda: len(master.state.errors) >= min(number, 9))
        assert set(master.errors()) == {malformed}
    master.raw("instantActions", b"{}")
    master.until(lambda: sim.truth()["counters"].get("refused") == len(payloads))  # the last order passed the schema
    assert not master.state.driving and master.state.order_id == ""
    for bad, name in (
        (order([(-5, 0), (0.3, 0)], version=master.identity.version), "noRouteError" if two else "NO_ROUTE_TO_TARGET"),
        (order([(1, -3), (2, -3)], version=master.identity.version), "noRouteError" if two else "START_NODE_OUT_OF_RANGE"),
        (order(LINE, actions={1: [action("fly", "f")]}, version=master.identity.version),
         "orderError" if two else "INVALID_ORDER_ACTION"),
    ):  # fmt: skip
        master.send("order", bad)
        master.until(lambda: name in master.errors())
    master.send("order", order(LINE, version=master.identity.version))
    master.until(lambda: master.state.order_id == "order")
    assert master.errors() == []
    master.until(lambda: master.state.idle)


def test_pause_and_cancel_while_driving(rig):
    sim, master, _ = rig
    master.send("order", order([(-5, 0), (5, -3)]))
    master.until(lambda: master.state.driving)
    master.send("instantActions", instant(action("startPause", "p")))
    master.until(lambda: master.state.paused and not master.state.driving and master.status("p") == "FINISHED")
    master.send("instantActions", instant(action("stopPause", "q")))
    master.until(lambda: master.state.driving and not master.state.paused)
    master.send("instantActions", instant(action("cancelOrder", "c")))
    master.until(lambda: master.status("c") == "FINISHED")
    assert master.state.idle and not master.state.driving and sim.truth()["twist"] == [0.0, 0.0]
    master.send("instantActions", instant(action("cancelOrder", "again")))
    master.until(lambda: "noOrderToCancel" in master.errors())


def test_the_vehicles_own_stops_are_seen_and_need_no_master(rig):
    sim, master, _ = rig
    master.send("order", order([(-5, 0), (5, -3)]))
    master.until(lambda: master.state.driving)
    sim.ask(do="e_stop")
    master.until(lambda: master.state.e_stop == "MANUAL")
    master.until(lambda: not master.state.driving)
    assert "refused" in sim.ask(do="acknowledge")
    sim.ask(do="release")
    assert sim.ask(do="acknowledge")["done"] == "acknowledge"
    master.until(lambda: master.state.e_stop == "NONE")
    assert master.state.paused and not master.state.driving
    master.send("instantActions", instant(action("stopPause", "q")))
    master.until(lambda: master.state.driving)
    sim.ask(do="local_stop")
    master.until(lambda: master.state.paused and not master.state.driving)
    sim.ask(do="local_go")
    master.until(lambda: master.state.driving)
    sim.ask(do="mode", mode="MANUAL")
    master.until(lambda: master.state.operating_mode == "MANUAL" and master.state.idle)


def test_without_a_broker_it_drives_on_to_the_last_released_node_and_no_further(rig):
    sim, master, broker = rig
    master.send("order", order([(-5, 0), (-3.5, 0), (-2, 0), (-0.6, -1.5)], released=3))
    master.until(lambda: master.state.driving)
    broker.kill()
    end_s = time.monotonic() + LIMIT_S
    while sim.truth()["last_node"] != "n2" or sim.truth()["driving"]:
        assert time.monotonic() < end_s, sim.truth()
        time.sleep(0.05)
    truth = sim.truth()
    assert not truth["connected"] and truth["base_left"] == 0 and truth["nodes_left"] == 1
    assert abs(truth["pose"][0] + 2) < 0.06 and truth["twist"] == [0.0, 0.0]
    broker.start()
    master.state, master.connection = None, ""
    master.until(lambda: master.connection == "ONLINE" and master.state is not None)
    assert master.state.last_node_id == "n2" and [n.id for n in master.state.nodes] == ["n3"] and not master.state.driving
    master.send("order", order([(-2, 0), (-0.6, -1.5)], first=2, update_id=1))
    master.until(lambda: master.state.idle)


def test_a_second_masters_order_is_refused_and_the_first_ones_goes_on(rig):
    sim, master, broker = rig
    other = Master(broker, master.identity, "other")
    try:
        master.send("order", order([(-5, 0), (-2, 0)]))
        master.until(lambda: master.state.driving)
        other.until(lambda: other.state is not None)
        other.send("order", order(LINE, order_id="theirs"))
        other.until(lambda: "orderUpdateError" in other.errors())
        assert other.state.order_id == "order"
        master.until(lambda: master.state.idle)
        assert master.state.last_node_id == "n1"
    finally:
        other.close()


def test_death_is_told_by_the_broker_and_an_orderly_end_by_the_vehicle(rig, tmp_path):
    sim, master, broker = rig
    sim.end(signal.SIGKILL)
    master.until(lambda: master.connection == CONNECTION_BROKEN["2.1.0"])
    late = Master(broker, master.identity, "late")
    again = Sim(tmp_path, broker)
    try:
        late.until(lambda: late.connection == "ONLINE")
        again.end(signal.SIGTERM)
        late.until(lambda: late.connection == "OFFLINE")
    finally:
        late.close()
        again.end()


def test_an_order_that_the_broker_kept_is_not_driven(tmp_path):
    broker = Broker(tmp_path).start()
    identity = Identity("steadyhand", "agv")
    master = Master(broker, identity)
    payload = codec.encode("order", with_header(order(LINE), identity), identity.version)
    sim = None
    try:
        master.until(lambda: master.client.is_connected())
        master.client.publish(identity.topic("order"), payload, qos=1, retain=True).wait_for_publish(5)
        sim = Sim(tmp_path, broker)
        master.until(lambda: master.state is not None)
        master.send("instantActions", instant(action("stateRequest", "s")))
        master.until(lambda: "s" in master.state.actions)
        assert master.state.order_id == "" and "order" not in sim.truth()["counters"]
    finally:
        master.close()
        if sim is not None:
            sim.end()
        broker.kill()


def test_twenty_vehicles_on_one_broker(tmp_path):
    broker = Broker(tmp_path).start()
    sim = Sim(tmp_path, broker, "--vehicles", "20")
    masters = [Master(broker, Identity("steadyhand", serial)) for serial in sim.ready["ready"]]
    try:
        assert len(masters) == 20
        for number, master in enumerate(masters):
            master.until(lambda: master.state is not None and master.connection == "ONLINE")
            x, y, _ = sim.truth(number)["pose"]
            master.send("order", order([(x, y), (x + 1.0, y)]))
        for master in masters:
            master.until(lambda: master.state.order_id == "order" and master.state.idle)
            assert master.errors() == []
        assert all(sim.truth(n)["counters"].get("unsendable", 0) == 0 for n in range(20))
    finally:
        for master in masters:
            master.close()
        sim.end()
        broker.kill()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--vehicles", "0"], "--vehicles 0"), (["--pose", "here"], "--pose 'here'"), (["--serial", "a/b"], "serial_number"),
        (["--broker", "host:port"], "--broker"), (["--ca-file", "absent.pem"], "ca_file"), (["--site", "absent"], "site file"),
        (["--plant", "bullet", "--vehicles", "2"], "--plant bullet"), (["--load", "-1"], "--load"),
        (["--password-file", sys.executable], "--password-file"), (["--ca-file", sys.executable], "ca_file"),
        (["--vehicles", "50"], "fewer --vehicles"), (["--pose", "-5,99,0"], "--pose"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_named(tmp_path, arguments, named):
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path), "PYTHONPATH": ":".join(p for p in sys.path if p)}
    done = subprocess.run(
        [sys.executable, "-m", "steadyhand_sim.agv.main", *arguments], check=False, capture_output=True, text=True,
        env=environment, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2 and named in done.stderr and "Traceback" not in done.stderr
