"""One vehicle's connection to the broker (paho). Its threads only hand messages over; they decide nothing.

A broker that is away, restarts or refuses changes nothing on the vehicle: it drives on, and paho tries again with
back-off; why there is no connection it says on standard error, once. Payloads go into `inbox` as they came; `Fleet`
decodes them.
"""
from __future__ import annotations

import contextlib
import queue
import socket
import ssl
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import paho.mqtt.client as mqtt

from steadyhand.errors import ConfigError
from steadyhand.vda5050.header import Identity

KEEPALIVE_S = 15  # what the standard recommends
INBOX = 1000  # messages: more than that in one period is a flood, and the newest are dropped


@dataclass(frozen=True)
class Broker:
    """Where the broker is. Raises ConfigError naming the field."""

    host: str = "127.0.0.1"
    port: int = 1883
    user: str = ""
    password: str = ""
    ca_file: Path | None = None

    def __post_init__(self) -> None:
        if not self.host or not 1 <= self.port <= 65535:
            raise ConfigError(f"broker {self.host!r}:{self.port}: give a host and a port of 1 to 65535")
        if self.ca_file is not None:
            _context(self.ca_file)


@dataclass(frozen=True)
class Received:
    """A message for one vehicle."""

    vehicle: int
    kind: str
    payload: bytes


class MqttLink:
    """`open` begins; `publish` sends what the codec has made. `will` is the payload of the last will.

    `connects` gets the vehicle's index at each connection: apart from `inbox`, so that no flood drops it.
    """

    def __init__(
        self, index: int, identity: Identity, broker: Broker, inbox: queue.Queue[Received],
        connects: queue.SimpleQueue[int], wake: Callable[[], None],
    ) -> None:
        self._index, self._identity, self._broker = index, identity, broker
        self._inbox, self._connects, self._wake = inbox, connects, wake
        self.dropped = 0
        self._told = ""
        name = f"{identity.manufacturer}.{identity.serial_number}"
        self._client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id=name, clean_session=True)
        self._client.on_connect = self._on_connect
        self._client.on_connect_fail = lambda client, userdata: self._tell("cannot be reached, or its certificate is wrong")
        self._client.on_message = self._on_message
        self._client.on_socket_open = _send_at_once
        self._client.reconnect_delay_set(min_delay=1, max_delay=8)
        if broker.user:
            self._client.username_pw_set(broker.user, broker.password)
        if broker.ca_file is not None:
            self._client.tls_set_context(_context(broker.ca_file))

    @property
    def connected(self) -> bool:
        """Whether the broker has taken the connection."""
        return self._client.is_connected()

    def open(self, will: bytes) -> None:
        """Begin to connect, and go on trying."""
        self._client.will_set(self._identity.topic("connection"), will, qos=1, retain=True)
        self._client.connect_async(self._broker.host, self._broker.port, keepalive=KEEPALIVE_S)
        self._client.loop_start()

    def publish(self, kind: str, payload: bytes, retain: bool = False) -> None:
        """Send, or drop when there is no connection: an old state is of no use."""
        qos = 1 if kind == "connection" else 0
        if self.connected:
            self._client.publish(self._identity.topic(kind), payload, qos=qos, retain=retain)

    def close(self, farewell: bytes) -> None:
        """Say OFFLINE and go, so that no last will is sent."""
        if self.connected:
            try:
                topic = self._identity.topic("connection")
                self._client.publish(topic, farewell, qos=1, retain=True).wait_for_publish(2.0)
            except (RuntimeError, ValueError):
                pass
            self._client.disconnect()
        self._client.loop_stop()

    def _on_connect(self, client, userdata, flags, reason, properties) -> None:
        if reason.is_failure:
            self._tell(f"refuses {self._identity.serial_number}: {reason}; see --user and --password-file")
            return
        self._told = ""
        client.subscribe([(self._identity.topic(kind), 1) for kind in ("order", "instantActions")])
        self._connects.put(self._index)
        self._wake()

    def _tell(self, problem: str) -> None:
        if problem != self._told:
            self._told = problem
            with contextlib.suppress(OSError):  # nobody listens any more: paho's thread lives on
                print(f"steadyhand-sim-agv: broker {self._broker.host}:{self._broker.port} {problem}", file=sys.stderr)

    def _on_message(self, client, userdata, message) -> None:
        if not message.retain:  # an order kept by the broker is an old one
            kind = message.topic.rpartition("/")[2]
            try:
                self._inbox.put_nowait(Received(self._index, kind, message.payload))
            except queue.Full:
                self.dropped += 1
            self._wake()


def _context(ca_file: Path) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=str(ca_file))
    except (OSError, ValueError) as error:
        raise ConfigError(f"broker ca_file={str(ca_file)!r}: {error}; give a file of certificates in PEM form") from error


def _send_at_once(client, userdata, sock) -> None:
    """Small messages do not wait for the acknowledgement of the last one (Nagle's algorithm): up to 40 ms each."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
