"""What a factsheet says of a vehicle, whichever version it is written in: what an operator reads, and its actions.

Source: VDA 5050 2.1.0, section 6.15; 3.0.0, the same topic. Input has passed the schema.
"""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from steadyhand.vda5050.strict_json import printable

NAMES = {  # shown: (section, name in 2.1, name in 3.0)
    "series": ("typeSpecification", "seriesName", "seriesName"),
    "class": ("typeSpecification", "agvClass", "mobileRobotClass"),
    "kinematics": ("typeSpecification", "agvKinematic", "mobileRobotKinematics"),
    "max_load_kg": ("typeSpecification", "maxLoadMass", "maximumLoadMass"),
    "max_speed_m_s": ("physicalParameters", "speedMax", "maximumSpeed"),
    "max_deceleration_m_s2": ("physicalParameters", "decelerationMax", "maximumDeceleration"),
    "length_m": ("physicalParameters", "length", "length"),
    "width_m": ("physicalParameters", "width", "width"),
    "max_height_m": ("physicalParameters", "heightMax", "maximumHeight"),
}
MAX_ACTIONS, MAX_TEXT = 64, 80


@dataclass(frozen=True)
class Factsheet:
    """`actions`: scopes (NODE, EDGE, INSTANT, ZONE) by action type. `zones`: kinds of zones that it knows."""

    facts: Mapping[str, str | float] = field(default_factory=dict)
    actions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    zones: tuple[str, ...] = ()

    def refuses(self, kind: str, scope: str) -> str:
        """Why it cannot do an action there, naming it; empty when it can."""
        scopes = self.actions.get(kind)
        if scopes is None:
            known = ", ".join(name for name, where in self.actions.items() if scope in where)
            return f"kind={kind!r}: the vehicle's factsheet has no such action; of scope {scope}: {known or 'none'}"
        if scope not in scopes:
            return f"kind={kind!r}: no {scope} action of the vehicle; allowed: {', '.join(scopes)}"
        return ""

    def plain(self) -> dict[str, Any]:
        """For an operator, bounded."""
        listed = list(self.actions.items())[:MAX_ACTIONS]
        return {**self.facts, "zones": list(self.zones), "actions": {kind: list(scopes) for kind, scopes in listed}}


def read_factsheet(message: Mapping[str, Any], version: str) -> Factsheet:
    """The factsheet in a message valid for `version`."""
    two = version == "2.1.0"
    facts = {}
    for shown, (section, *names) in NAMES.items():
        value = message[section].get(names[0 if two else 1])
        if value is not None:
            facts[shown] = printable(value[:MAX_TEXT]) if isinstance(value, str) else float(value)
    listed = message["protocolFeatures"]["agvActions" if two else "mobileRobotActions"]
    actions = {printable(entry["actionType"][:MAX_TEXT]): tuple(dict.fromkeys(entry["actionScopes"])) for entry in listed}
    zones = message["typeSpecification"].get("supportedZones", ())
    return Factsheet(facts, actions, tuple(str(zone)[:MAX_TEXT] for zone in zones[:MAX_ACTIONS]))
