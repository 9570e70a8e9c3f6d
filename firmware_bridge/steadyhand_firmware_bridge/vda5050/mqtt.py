"""MQTT by paho: one connection, kept by itself with back-off. Moves packets and decides nothing.

Only the blocking part, name look-up, connect and TLS handshake, runs in a thread; everything else happens in `poll`, on
the caller's thread, without waiting. A clean session, quality of service 0 as the standard wants for orders: nothing is
queued for us while we are away, and what no connection takes now is dropped and counted, never sent over the next one.
"""
from __future__ import annotations

import contextlib
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paho.mqtt import client as paho

from steadyhand.errors import ConfigError
from steadyhand_firmware_bridge import tls
from steadyhand_firmware_bridge.vda5050.config import BrokerConfig

MESSAGES_PER_POLL = 16
POLL_S = 0.010  # and no longer than this
MAX_UNSENT = 64  # packets that a slow broker may have outstanding
REFUSED_LOGIN = (4, 5, 134, 135)  # CONNACK codes of MQTT 3.1.1 and 5: bad user name or password, not authorised

Take = Callable[[str, bytes, bool], None]  # topic, payload, retained


@dataclass
class Mqtt:
    """`take` gets messages, `changed` "" when connected, else why not."""

    config: BrokerConfig
    client_id: str
    topic_filter: str
    take: Take
    changed: Callable[[str], None]
    counts: dict[str, int] = field(default_factory=dict)
    _client: paho.Client | None = None
    _made: list[Any] = field(default_factory=list)  # what the thread hands over: a client, or why there is none
    _thread: threading.Thread | None = None
    _next_s: float = 0.0
    _wait_s: float = 0.0
    _connected: bool = False
    _arrived: list[tuple[str, bytes, bool]] = field(default_factory=list)
    _closed: bool = False

    def __post_init__(self) -> None:
        self._password = _password(self.config)
        self._tls_config = tls.TlsConfig(self.config.ca_file, self.config.cert_file, self.config.key_file, "broker")
        if self.config.tls:
            tls.client_context(self._tls_config)  # a wrong file is told at the start
        self._wait_s = self.config.retry_s

    # --- what the owner calls ---

    def poll(self, now_s: float) -> None:
        """Read and write what is ready; begin an attempt to connect when one is due."""
        if self._closed:
            return
        if self._client is None:
            return self._attempt(now_s)
        before_s = time.monotonic()
        for _ in range(MESSAGES_PER_POLL):
            going_on = self._client is not None and self._read()
            arrived, self._arrived = self._arrived, []
            for topic, payload, retained in arrived:
                self.take(topic, payload, retained)
            if not (going_on and arrived) or time.monotonic() - before_s > POLL_S:
                break
        if self._client is not None and self._client.want_write():
            self._client.loop_write()
        if self._client is not None and self._client.loop_misc() != paho.MQTT_ERR_SUCCESS:
            self._lost("the broker is silent")
        return None

    def _read(self) -> bool:
        """What paho makes of the bytes that have come; what it raises (a topic that is no UTF-8) ends the link, not us."""
        try:
            return self._client.loop_read() == paho.MQTT_ERR_SUCCESS
        except Exception as error:
            self._lost(f"it sends what is no MQTT ({type(error).__name__}: {error}); see that this port is a broker's")
            return False

    def readable(self) -> list[Any]:
        """The socket, for select."""
        sock = self._client.socket() if self._client is not None else None
        return [sock] if sock is not None else []

    def publish(self, topic: str, payload: bytes) -> bool:
        """Send one message with quality of service 0. False when it was dropped."""
        if self._client is None or not self._connected or self._unsent() >= MAX_UNSENT:
            self._count("unsent")
            return False
        sent = self._client.publish(topic, payload, qos=0).rc == paho.MQTT_ERR_SUCCESS
        if not sent:
            self._count("unsent")
        return sent

    def reconnect(self, why: str) -> None:
        """End this connection; the next attempt follows by itself."""
        if self._client is not None:
            self._lost(why)

    def close(self) -> None:
        """Say goodbye."""
        self._closed = True
        if self._client is not None:
            self._client.on_disconnect = None
            with contextlib.suppress(OSError, ValueError):
                self._client.disconnect()  # written at once, if the socket takes it
            self._drop()

    # --- connecting ---

    def _attempt(self, now_s: float) -> None:
        if self._made:
            self._thread = None
            made = self._made.pop()
            if isinstance(made, paho.Client):
                self._client = made
                return
            self._failed(made, now_s)
        elif self._thread is None and now_s >= self._next_s:
            self._thread = threading.Thread(target=self._connect, name="mqtt-connect", daemon=True)
            self._thread.start()

    def _connect(self) -> None:
        """In the thread: everything that may block. Hands over a client, or what went wrong."""
        config = self.config
        try:
            client = self._new_client()
            client.connect(config.host, config.port, config.keepalive_s)
            made: Any = client
        except (OSError, ValueError, UnicodeError, ConfigError) as error:
            peer = None
            if isinstance(error, ssl.SSLCertVerificationError):
                peer = tls.peer_certificate(config.host, config.port, config.connect_timeout_s)
            made = str(error) if isinstance(error, ConfigError) else tls.explain(error, config.host, peer)
            if config.tls and isinstance(error, ConnectionResetError):
                made += "; mosquitto does so when the port is not one for TLS"
        except Exception as error:  # the thread's edge: without an answer nobody would try again
            made = f"{type(error).__name__}: {error}"
        self._made.append(made)

    def _new_client(self) -> paho.Client:
        client = paho.Client(  # without reconnect_on_failure=False it would connect anew, waiting, in `poll`
            paho.CallbackAPIVersion.VERSION2, self.client_id, clean_session=True, reconnect_on_failure=False
        )
        client.connect_timeout = self.config.connect_timeout_s
        if self.config.user:
            client.username_pw_set(self.config.user, self._password)
        if self.config.tls:
            client.tls_set_context(tls.client_context(self._tls_config))
        client.on_connect, client.on_disconnect = self._on_connect, self._on_disconnect
        client.on_message, client.on_subscribe = self._on_message, self._on_subscribe
        return client

    def _on_connect(self, client: paho.Client, _: Any, __: Any, code: Any, ___: Any) -> None:
        if code.is_failure:
            remedy = "; see user and password_file" if code.value in REFUSED_LOGIN else ""
            return self._lost(f"the broker refuses us: {code}{remedy}")
        self._connected, self._wait_s = True, self.config.retry_s
        client.subscribe(self.topic_filter, qos=0)
        return self.changed("")

    def _on_subscribe(self, _: paho.Client, __: Any, ___: int, codes: list[Any], ____: Any) -> None:
        if any(code.is_failure for code in codes):
            self._lost(f"the broker refuses to let us read {self.topic_filter}: allow it for user {self.config.user!r}")

    def _on_disconnect(self, client: paho.Client, _: Any, __: Any, code: Any, ___: Any) -> None:
        if client is self._client:
            self._lost(f"the connection ended: {code}")

    def _on_message(self, _: paho.Client, __: Any, message: paho.MQTTMessage) -> None:
        self._arrived.append((message.topic, message.payload, message.retain))

    def _lost(self, why: str) -> None:
        if self._client is None:
            return  # told already
        self._count("lost")
        self._drop()
        self._failed(why, time.monotonic())

    def _failed(self, why: str, now_s: float) -> None:
        self._next_s = now_s + self._wait_s
        self._wait_s = min(self.config.retry_max_s, 2.0 * self._wait_s)
        self.changed(f"broker {self.config.host}:{self.config.port}: {why}")

    def _drop(self) -> None:
        client, self._client, self._connected = self._client, None, False
        if client is not None:
            client.on_disconnect = client.on_message = None
            sock = client.socket()
            if sock is not None:
                with contextlib.suppress(OSError):
                    sock.close()

    def _unsent(self) -> int:
        return len(self._client._out_packet)  # paho tells only whether there are any

    def _count(self, name: str) -> None:
        self.counts[name] = self.counts.get(name, 0) + 1


def _password(config: BrokerConfig) -> str | None:
    if not config.password_file:
        return None
    path = Path(config.password_file)
    try:
        if path.stat().st_mode & 0o077:
            raise ConfigError(f"broker.password_file {path}: others may read it; chmod 600 it")
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"broker.password_file {path}: {getattr(error, 'strerror', None) or error}") from error
