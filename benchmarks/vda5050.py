"""`vda5050`: simulated vehicles of one process on one mosquitto, and a bare client that waits for them.

`order_ack`: from publishing an order to the state that has its id. `estop_visible`: from the button at the vehicle to
the state that shows it. `last_will`: from `kill -9` of a vehicle's process to CONNECTIONBROKEN. Every message that the
client received is held to the official schema afterwards. Half of the vehicles drive meanwhile.
"""
from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import paho.mqtt.client as mqtt

from benchmarks import common
from steadyhand.errors import ProtocolError
from steadyhand.slot import current_slot
from steadyhand.vda5050 import codec
from steadyhand.vda5050.dialect import CONNECTION_BROKEN
from steadyhand.vda5050.header import Identity

LIMIT_S = 10.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--vehicles", type=int, default=20)
    parser.add_argument("--orders", type=int, default=1000)
    parser.add_argument("--stops", type=int, default=200)
    parser.add_argument("--deaths", type=int, default=30)
    parser.add_argument("--messages", type=int, default=10_000, help="go on receiving until there are so many")
    parser.add_argument("--protocol", choices=codec.VERSIONS, default=codec.VERSIONS[0])


class Client:
    """Receives everything, with the time of arrival; checks it later."""

    def __init__(self, host: str, port: int) -> None:
        self.kept: list[tuple[str, bytes]] = []
        self._inbox: queue.SimpleQueue = queue.SimpleQueue()
        self.mqtt = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
        self.mqtt.on_message = lambda c, u, m: self._inbox.put((time.perf_counter(), m.topic, m.payload))
        self.mqtt.on_connect = lambda client, *_: client.subscribe("#")
        self.mqtt.on_socket_open = lambda c, u, s: s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.mqtt.connect(host, port)
        self.mqtt.loop_start()

    def wait(self, wanted, limit_s: float = LIMIT_S) -> float:
        """Time of arrival of the first message for which `wanted(topic, payload)`; RuntimeError after the limit."""
        end_s = time.perf_counter() + limit_s
        while True:
            try:
                arrived, topic, payload = self._inbox.get(timeout=max(0.0, end_s - time.perf_counter()))
            except queue.Empty:
                raise RuntimeError(f"no answer within {limit_s} s") from None
            self.kept.append((topic, payload))
            if wanted(topic, payload):
                return arrived


class Act:
    """A person at the vehicles: their score socket."""

    def __init__(self, folder: Path) -> None:
        environment = {**os.environ, "XDG_RUNTIME_DIR": str(folder)}
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(LIMIT_S)
        self._socket.connect(str(current_slot(environment).socket_dir / "sim_agv.sock"))
        self._stream = self._socket.makefile("rw")

    def __call__(self, **request) -> dict:
        self._stream.write(json.dumps(request) + "\n")
        self._stream.flush()
        return json.loads(self._stream.readline())


def vehicles(folder: Path, address: str, *arguments: str) -> subprocess.Popen:
    """The simulated vehicles as a process, said to be ready."""
    path = os.pathsep.join(p for p in sys.path if p)
    process = subprocess.Popen(
        [sys.executable, "-m", "steadyhand_sim.agv.main", "--broker", address, *arguments], stdout=subprocess.PIPE,
        text=True, env={**os.environ, "XDG_RUNTIME_DIR": str(folder), "PYTHONPATH": path},
    )  # fmt: skip
    common.await_ready(process)
    return process


def an_order(identity: Identity, order_id: str, points: list[tuple[float, float]]) -> bytes:
    """The payload of an order along points, all released."""
    nodes = [
        {"nodeId": f"n{i}", "sequenceId": 2 * i, "released": True, "actions": [],
         "nodePosition": {"x": x, "y": y, "mapId": "hall"}}
        for i, (x, y) in enumerate(points)
    ]  # fmt: skip
    edges = [
        {"edgeId": f"e{i}", "sequenceId": 2 * i + 1, "released": True, "startNodeId": f"n{i}", "endNodeId": f"n{i + 1}",
         "actions": []}
        for i in range(len(points) - 1)
    ]  # fmt: skip
    body = {"orderId": order_id, "orderUpdateId": 0, "nodes": nodes, "edges": edges}
    return codec.encode("order", identity.header(0, time.time()) | body, identity.version)


def acknowledgements(client: Client, act: Act, fleet: list[Identity], count: int) -> list[float]:
    """Orders of one node to the vehicles that stand, in turn; the others are sent to and fro before."""
    driving, standing = fleet[len(fleet) // 2:], list(enumerate(fleet))[: max(1, len(fleet) // 2)]
    for number, identity in enumerate(driving, len(fleet) // 2):
        x, y, _ = act(get="state", vehicle=number)["state"]["estimate"]
        there_and_back = [(x + 1.5 * (k % 2), y) for k in range(80)]
        client.mqtt.publish(identity.topic("order"), an_order(identity, "drive", there_and_back))
    where = {number: tuple(act(get="state", vehicle=number)["state"]["estimate"][:2]) for number, _ in standing}
    found = []
    for k, (number, identity) in zip(range(count), itertools.cycle(standing)):
        payload = an_order(identity, f"order-{k}", [where[number]])
        topic, needle = identity.topic("state"), f'"orderId":"order-{k}"'.encode()
        begin = time.perf_counter()
        client.mqtt.publish(identity.topic("order"), payload)
        found.append(client.wait(lambda t, p: t == topic and needle in p) - begin)
    return found


def stops(client: Client, act: Act, fleet: list[Identity], count: int) -> list[float]:
    """The emergency stop button of each vehicle in turn, and its release."""
    found = []
    for k in range(count):
        number = k % len(fleet)
        topic = fleet[number].topic("state")
        begin = time.perf_counter()
        act(do="e_stop", vehicle=number)
        found.append(client.wait(lambda t, p: t == topic and b'top":"MANUAL"' in p) - begin)
        act(do="release", vehicle=number)
        act(do="acknowledge", vehicle=number)
        client.wait(lambda t, p: t == topic and b'top":"NONE"' in p)
    return found


def deaths(client: Client, folder: Path, address: str, version: str, count: int) -> list[float]:
    """A vehicle's process each time, killed when it is online."""
    found = []
    for k in range(count):
        identity = Identity("steadyhand", f"mortal{k}", version)
        process = vehicles(folder, address, "--serial", identity.serial_number, "--protocol", version)
        try:
            topic, broken = identity.topic("connection"), CONNECTION_BROKEN[version].encode()
            client.wait(lambda t, p: t == topic and b"ONLINE" in p, 30.0)
            begin = time.perf_counter()
            process.send_signal(signal.SIGKILL)
            found.append(client.wait(lambda t, p: t == topic and broken in p, 30.0) - begin)
        finally:
            process.kill()
            process.wait()
    return found


def schema_errors(kept: list[tuple[str, bytes]], version: str) -> list[str]:
    """What the official schemas say of all messages that were received, the client's own orders too."""
    found = []
    for topic, payload in kept:
        try:
            codec.decode(topic.rpartition("/")[2], payload, version)
        except ProtocolError as error:
            found.append(str(error))
    return found


def measure(args: argparse.Namespace) -> dict:
    """All of it; RuntimeError for a vehicle that does not answer."""
    from tests.support.broker import Broker

    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as ends:
        folder = Path(name)
        broker = Broker(folder, ("allow_anonymous true", "set_tcp_nodelay true")).start()
        ends.callback(broker.kill)
        address = f"{broker.host}:{broker.port}"
        client = Client(broker.host, broker.port)
        ends.callback(client.mqtt.loop_stop)
        process = vehicles(folder, address, "--vehicles", str(args.vehicles), "--protocol", args.protocol, "--no-noise")
        ends.callback(process.wait)
        ends.callback(process.kill)
        serials = ["agv"] if args.vehicles == 1 else [f"agv{k + 1}" for k in range(args.vehicles)]
        fleet = [Identity("steadyhand", serial, args.protocol) for serial in serials]
        act = Act(folder)
        waiting = {identity.topic("factsheet") for identity in fleet}
        client.wait(lambda t, p: waiting.discard(t) or not waiting, 60.0)
        acknowledged = acknowledgements(client, act, fleet, args.orders)
        seen = stops(client, act, fleet, args.stops)
        lasts = deaths(client, folder / "mortal", address, args.protocol, args.deaths)
        client.wait(lambda t, p: len(client.kept) >= args.messages, 600.0)
        errors = schema_errors(client.kept, args.protocol)
        late_periods = act(get="state")["state"]["late_periods"]
        return {
            "order_ack_p99_ms": common.percentiles_ms(acknowledged)["p99_ms"],
            "estop_visible_p99_ms": common.percentiles_ms(seen)["p99_ms"],
            "last_will_p99_ms": common.percentiles_ms(lasts)["p99_ms"],
            "messages": len(client.kept), "schema_errors": len(errors), "vehicles": args.vehicles,
            "order_ack": common.percentiles_ms(acknowledged) | {"n": len(acknowledged)},
            "estop_visible": common.percentiles_ms(seen) | {"n": len(seen)},
            "last_will": common.percentiles_ms(lasts) | {"n": len(lasts)},
            "late_periods": late_periods, "errors": errors[:10], "protocol": args.protocol,
        }  # fmt: skip


def run(args: argparse.Namespace) -> None:
    with common.alone():
        metrics = measure(args)
    load = f"mosquitto, {args.vehicles} vehicles, half of them driving; load average {os.getloadavg()[0]:.1f}"
    print(common.write("vda5050", args.orders, load, "SCHED_OTHER", metrics).read_text())
