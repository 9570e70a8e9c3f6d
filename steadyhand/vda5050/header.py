"""Topics, headers and timestamps of VDA 5050. Pure: the wall clock is an argument, and only ever written, for people.

Topics: `interface/majorVersion/manufacturer/serialNumber/kind`; interface is `uagv` in 2.x and `vda5050` in 3.x by
recommendation, and a parameter because halls differ.
"""
from __future__ import annotations

import datetime
import re
from dataclasses import dataclass, field

from steadyhand.errors import ConfigError, ProtocolError
from steadyhand.vda5050.codec import KINDS, MAX_HEADER_ID, VERSIONS
from steadyhand.vda5050.strict_json import shown

INTERFACES = {"2.1.0": "uagv", "3.0.0": "vda5050"}
_PART = re.compile(r"[A-Za-z0-9_.:-]{1,64}")  # what the standard allows in a serial number; safe in a topic


@dataclass(frozen=True)
class Identity:
    """One vehicle on one broker. Raises ConfigError naming the field for what cannot stand in a topic."""

    manufacturer: str
    serial_number: str
    version: str = "2.1.0"
    interface: str = ""  # empty: as the standard recommends for the version

    def __post_init__(self) -> None:
        if self.version not in VERSIONS:
            raise ConfigError(f"version={self.version!r}: give one of {', '.join(VERSIONS)}")
        for name in ("manufacturer", "serial_number"):
            if not isinstance(getattr(self, name), str) or not _PART.fullmatch(getattr(self, name)):
                raise ConfigError(f"{name}={getattr(self, name)!r}: give 1 to 64 characters A-Z a-z 0-9 _ . : -")
        if self.interface != "" and not (isinstance(self.interface, str) and _PART.fullmatch(self.interface)):
            raise ConfigError(f"interface={self.interface!r}: give 1 to 64 characters A-Z a-z 0-9 _ . : -")

    def topic(self, kind: str) -> str:
        """Topic of a kind of message, or a filter for all of them with kind `+`."""
        if kind not in (*KINDS, "+"):
            raise ConfigError(f"kind={kind!r}: give one of {', '.join(KINDS)}")
        major = self.version.split(".")[0]
        interface = self.interface or INTERFACES[self.version]
        return f"{interface}/v{major}/{self.manufacturer}/{self.serial_number}/{kind}"

    def kind_of(self, topic: str) -> str:
        """Kind of message on a topic of this vehicle; raises ProtocolError for another's."""
        base, _, kind = topic.rpartition("/")
        if f"{base}/+" != self.topic("+") or kind not in KINDS:
            raise ProtocolError(f"topic {shown(topic)}: none of vehicle {self.topic('+')}")
        return kind

    def header(self, header_id: int, wall_s: float) -> dict[str, object]:
        """The five fields that begin every message."""
        return {
            "headerId": header_id, "timestamp": timestamp(wall_s), "version": self.version,
            "manufacturer": self.manufacturer, "serialNumber": self.serial_number,
        }  # fmt: skip

    def check(self, kind: str, message: dict[str, object]) -> None:
        """Raise ProtocolError when the header names another vehicle than the topic does."""
        for name, own in (("manufacturer", self.manufacturer), ("serialNumber", self.serial_number)):
            if message.get(name, own) != own:
                raise ProtocolError(f"{kind}.{name}: {shown(message[name])} on the topic of {own}")


@dataclass
class HeaderIds:
    """One counter per topic, from 0, wrapping as an unsigned 32-bit number."""

    _next: dict[str, int] = field(default_factory=dict)

    def take(self, kind: str) -> int:
        """The next header id of this topic."""
        value = self._next.get(kind, 0)
        self._next[kind] = (value + 1) & MAX_HEADER_ID
        return value


def timestamp(wall_s: float) -> str:
    """ISO 8601 in UTC with milliseconds, as the standard writes it."""
    moment = datetime.datetime.fromtimestamp(wall_s, datetime.timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


def parse_timestamp(text: str) -> float:
    """Seconds since 1970 of a timestamp that has passed the schema; raises ProtocolError for a day that is none."""
    match = re.fullmatch(r"(.{19})(\.\d+)?(Z|[+-]\d\d:\d\d)", text)
    try:
        base = datetime.datetime.fromisoformat(match.group(1).replace(":60", ":59") + "+00:00")  # leap second
        zone = match.group(3)
        offset_s = 0 if zone == "Z" else int(zone[0] + "1") * (int(zone[1:3]) * 3600 + int(zone[4:6]) * 60)
        return base.timestamp() + float(match.group(2) or 0) - offset_s
    except (AttributeError, ValueError, OverflowError) as error:
        raise ProtocolError(f"timestamp: {shown(text)} is no time") from error
