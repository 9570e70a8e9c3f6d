"""The hall that the vehicle knows: map, nodes, anchors, docks, chargers, and where it cannot drive.

The map's frame is `base_link` of the arm's cell seen from above, so a dock is given by where the arm can load.
"""
from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path

from steadyhand.errors import ConfigError
from steadyhand_sim.agv.order import Place
from steadyhand_sim.scene import TABLE_CENTRE_XY_M, TABLE_HALF_EXTENTS_M

CLEARANCE_M = 0.03  # beside what stands in the hall
ARM_DOCK = "dock_arm"
_TABLE = (
    TABLE_CENTRE_XY_M[0] - TABLE_HALF_EXTENTS_M[0], TABLE_CENTRE_XY_M[0] + TABLE_HALF_EXTENTS_M[0],
    TABLE_CENTRE_XY_M[1] - TABLE_HALF_EXTENTS_M[1], TABLE_CENTRE_XY_M[1] + TABLE_HALF_EXTENTS_M[1],
)  # fmt: skip


@dataclass(frozen=True)
class Site:
    """Rectangles are (x_min, x_max, y_min, y_max) in metres, nodes are (x, y, heading or None)."""

    map_id: str = "hall"
    map_version: str = "1"
    bounds_m: tuple[float, float, float, float] = (-12.0, 6.0, -12.0, 12.0)
    blocked_m: tuple[tuple[float, float, float, float], ...] = (_TABLE,)
    anchors_m: tuple[tuple[float, float], ...] = ((-12.0, -12.0), (-12.0, 12.0), (6.0, 12.0), (6.0, -12.0))
    nodes: dict[str, tuple[float, float, float | None]] = field(default_factory=lambda: {
        "home": (-5.0, 0.0, None),
        "dock_entry": (-0.66, -2.0, None),
        ARM_DOCK: (-0.66, 0.0, math.pi / 2),  # beside the table, behind the arm: the deck is 0.66 m from its base
        "dock_exit": (-0.66, 2.0, None),
        "charger": (-8.0, -4.0, None),
    })  # fmt: skip
    docks: tuple[str, ...] = (ARM_DOCK,)
    chargers: tuple[str, ...] = ("charger",)

    def __post_init__(self) -> None:
        for name in ("bounds_m", *(f"blocked_m[{i}]" for i in range(len(self.blocked_m)))):
            box = self.bounds_m if name == "bounds_m" else self.blocked_m[int(name[10:-1])]
            if len(box) != 4 or not all(math.isfinite(v) for v in box) or box[0] >= box[1] or box[2] >= box[3]:
                raise ConfigError(f"site {name}={box}: give x_min < x_max, y_min < y_max in metres")
        if len(self.anchors_m) < 3 or not all(len(a) == 2 and all(map(math.isfinite, a)) for a in self.anchors_m):
            raise ConfigError(f"site anchors_m={self.anchors_m}: give at least 3 anchors as x, y in metres")
        for name, at in self.nodes.items():
            if len(at) != 3 or not all(math.isfinite(v) for v in at if v is not None) or None in at[:2]:
                raise ConfigError(f"site nodes[{name!r}]={at}: give x, y in metres and a heading in rad or none")
        for name in (*self.docks, *self.chargers):
            if name not in self.nodes:
                raise ConfigError(f"site: dock or charger {name!r} is no node; nodes: {', '.join(self.nodes)}")
        for name in self.docks:
            if self.nodes[name][2] is None:
                raise ConfigError(f"site: dock {name!r} has no heading; give x, y, heading")

    @staticmethod
    def load(path: Path) -> Site:
        """From a JSON file with the fields of this class; raises ConfigError naming what is wrong."""
        try:
            entry = json.loads(Path(path).read_text())
            as_tuples = {k: _tuples(v) for k, v in entry.items() if k != "nodes"}
            nodes = {str(k): (float(v[0]), float(v[1]), None if len(v) < 3 or v[2] is None else float(v[2]))
                     for k, v in entry.get("nodes", {}).items()}  # fmt: skip
            return Site(**as_tuples, **({"nodes": nodes} if nodes else {}))
        except (OSError, ValueError, TypeError, AttributeError, IndexError, KeyError, OverflowError) as error:
            raise ConfigError(f"site file {path}: {error!r}") from error

    def find(self, node_id: str) -> Place | None:
        """A node of the map as a place."""
        at = self.nodes.get(node_id)
        return None if at is None else Place(at[0], at[1], self.map_id, at[2])

    def passable(self, start: Place, end: Place, half_width_m: float) -> str:
        """Why a vehicle cannot drive straight from one place to another; empty when it can."""
        x_min, x_max, y_min, y_max = self.bounds_m
        for place in (start, end):
            if not (x_min + half_width_m <= place.x_m <= x_max - half_width_m
                    and y_min + half_width_m <= place.y_m <= y_max - half_width_m):  # fmt: skip
                return f"({place.x_m:g}, {place.y_m:g}) is not inside the hall {self.bounds_m}"
        away = half_width_m + CLEARANCE_M
        for box in self.blocked_m:
            grown = (box[0] - away, box[1] + away, box[2] - away, box[3] + away)
            if _crosses((start.x_m, start.y_m), (end.x_m, end.y_m), grown):
                return f"blocked: nearer than {away:g} m to what stands at {box}"
        return ""


def _tuples(value):
    return tuple(_tuples(v) for v in value) if isinstance(value, list) else value


def _crosses(a: tuple[float, float], b: tuple[float, float], box: tuple[float, float, float, float]) -> bool:
    """Whether a segment has a point inside a rectangle (slab test)."""
    low, high = 0.0, 1.0
    for start, end, least, most in ((a[0], b[0], box[0], box[1]), (a[1], b[1], box[2], box[3])):
        step = end - start
        if abs(step) < 1e-12:
            if not least < start < most:
                return False
            continue
        first, last = sorted(((least - start) / step, (most - start) / step))
        low, high = max(low, first), min(high, last)
    return low < high
