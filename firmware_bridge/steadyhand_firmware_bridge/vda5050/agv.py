"""A VDA 5050 vehicle as the guard sees it: `Master` behind a broker. Implements `steadyhand.agv.Agv`."""
from __future__ import annotations

import math
import secrets
import time
from collections.abc import Mapping
from typing import Any

from steadyhand.agv import ActEnd, AgvFeedback, AgvKind, DriveTo, Velocity, Waypoint, check_command
from steadyhand.errors import ProtocolError
from steadyhand.protocols import Arming
from steadyhand.vda5050 import codec
from steadyhand.vda5050.header import HeaderIds
from steadyhand_firmware_bridge.vda5050.config import BrokerConfig, MasterConfig
from steadyhand_firmware_bridge.vda5050.master import Master
from steadyhand_firmware_bridge.vda5050.mqtt import Mqtt


class VdaAgv:
    """One vehicle. Raises ConfigError when made with files that cannot be used."""

    kind = AgvKind.ORDER

    def __init__(self, config: MasterConfig, broker: BrokerConfig, period_s: float = 0.02):
        self.config, self.period_s = config, period_s
        self.name = f"{config.identity.manufacturer}/{config.identity.serial_number}"
        self.master = Master(config, f"sh{secrets.token_hex(6)}")
        self._ids = HeaderIds()
        self._now_s = -math.inf
        self._opened = False
        self.mqtt = Mqtt(broker, self.master.name, config.identity.topic("+"), self._take, self._changed)

    def open(self, now_s: float) -> None:
        """The first attempt to connect follows with the next `poll`."""
        self._opened = True

    def poll(self, now_s: float) -> None:
        """Take what has come, send what is due."""
        if not self._opened:
            return
        self._now_s = now_s
        if self.master.held_up(now_s):
            self.mqtt.reconnect("only stale messages come: its queue is emptied")
        self.mqtt.poll(now_s)
        for kind, body in self.master.due(now_s):
            self._send(kind, body)

    def _take(self, topic: str, payload: bytes, retained: bool) -> None:
        try:
            kind = self.config.identity.kind_of(topic)
        except ProtocolError:
            self.mqtt.counts["strange_topics"] = self.mqtt.counts.get("strange_topics", 0) + 1
            return
        self.master.receive(kind, payload, retained, self._now_s)

    def _changed(self, why: str) -> None:
        if why:
            self.master.disconnected(why)
        else:
            self.master.connected(self._now_s)

    def _send(self, kind: str, body: Mapping[str, Any]) -> None:
        header = self.config.identity.header(self._ids.take(kind), time.time())
        try:
            payload = codec.encode(kind, header | dict(body), self.master.version)
        except ProtocolError as error:  # a task that cannot be written was not refused by name before: say so
            self.master.refused_to_send(kind, str(error))
        else:
            self.mqtt.publish(self.config.identity.topic(kind), payload)

    def readable(self) -> list[Any]:
        """The broker's socket."""
        return self.mqtt.readable()

    def feedback(self) -> AgvFeedback | None:
        """The newest measurement."""
        return self.master.feedback()

    def troubles(self, now_s: float) -> Mapping[str, str]:
        """What forbids motion now."""
        return self.master.troubles(now_s)

    def begin_arming(self, token: int, now_s: float) -> None:
        """Ask the vehicle whether it is idle, and end our pause. The token stays here: VDA 5050 has no place for it."""
        self.master.begin_arming(now_s)

    def arming(self) -> Arming:
        """Where it stands."""
        return self.master.arming()

    def go(self, command: DriveTo | Velocity, now_s: float) -> str:
        """Begin a task."""
        return check_command(command, self.kind) or self.master.go(command, now_s)

    def hold(self, now_s: float) -> str:
        """startPause."""
        return self.master.hold(now_s)

    def resume(self, now_s: float) -> str:
        """stopPause."""
        return self.master.resume(now_s)

    def cancel(self, now_s: float) -> str:
        """cancelOrder."""
        return self.master.cancel(now_s)

    def request_factsheet(self, now_s: float) -> str:
        """factsheetRequest."""
        return self.master.request_factsheet(now_s)

    def initialise_position(self, place: Waypoint, now_s: float) -> str:
        """initPosition (2.1), initializePosition (3.0)."""
        return self.master.initialise_position(place, now_s)

    def act_end(self, act: str, now_s: float) -> ActEnd | None:
        """How the newest of them ended."""
        return self.master.act_end(act, now_s)

    def stop(self, now_s: float) -> None:
        """startPause and cancelOrder, at once and until the vehicle stands idle."""
        self.master.stop(now_s)
        if self._opened:
            self.poll(now_s)

    def counters(self) -> dict[str, int]:
        """Everything counted."""
        master = self.master
        groups = {
            "": master.counts | {"foreign": master.foreign.count, "tasks_failed": master.task.failed},
            "messages:": master.freshness.counts, "action:": master.actions.counts,
            "mqtt:": self.mqtt.counts,
        }  # fmt: skip
        return {prefix + name: n for prefix, counts in groups.items() for name, n in counts.items()}

    def close(self) -> None:
        """Leave the broker."""
        self.mqtt.close()
