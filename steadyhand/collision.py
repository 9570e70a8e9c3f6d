"""Capsule model of the UR5 with its gripper: self-collision and the table, for whole paths at once.

Axes follow the DH frames (`kinematics.link_transforms`). The offsets along the shoulder-elbow axis are those of
ur_description's UR5 (shoulder 0.13585, elbow -0.1197 m; with wrist 1's 0.093 they add up to DH d4). Radii come from the
UR5's dimension drawing (foot 149 mm across, size-3 joints about 120-130 mm, forearm tube about 100 mm, size-1 joints
about 80-90 mm), rounded up. The fingers have one radius that contains them open. Tray and box walls are no obstacles:
the tool must reach in. The tool's box of `limits` keeps it off the table, the table plane holds for the rest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from steadyhand import cell, ur5

_UPPER_OFFSET_M, _FOREARM_OFFSET_M = 0.13585, 0.13585 - 0.1197
# Gripper of the cell: palm 100 x 60 mm, 90 mm long; fingers 12 mm thick, open 85 mm, tips 150 mm from the flange. The
# palm's capsule ends short of its face and holds its corners by its radius (0.062^2 > 0.05^2 + 0.03^2 + 0.02^2).
_HAND_LENGTH_M, _FINGERTIP_M = 0.07, 0.15

NAMES = (
    "base",
    "shoulder",
    "upper_arm",
    "elbow",
    "forearm",
    "wrist_1",
    "wrist_2",
    "wrist_3",
    "hand",
    "fingers",
    "carried",
)
RADII_M = np.array([0.075, 0.070, 0.065, 0.060, 0.050, 0.050, 0.045, 0.040, 0.062, 0.056])
_ROW = {name: i for i, name in enumerate(NAMES)}
# Pairs that can meet: neighbours share a joint, and next neighbours on offset axes cannot reach one another.
_PAIRS = (
    [("base", other) for other in NAMES[3:]]
    + [("shoulder", other) for other in NAMES[4:]]
    + [("upper_arm", other) for other in NAMES[5:]]
    + [("elbow", other) for other in NAMES[7:]]
    + [("forearm", other) for other in NAMES[7:]]
)
_TABLE = [_ROW[name] for name in NAMES[3:9]]

# Farthest that a point of the arm lies from each joint's axis (m): how far one radian can move it. Joint 1 moves no
# distance of this model: the base column is round about its axis and the table is normal to it.
LEVER_M = np.array([0.0, 1.20, 0.80, 0.42, 0.30, 0.12])


@dataclass(frozen=True)
class Clearance:
    """The smallest signed clearance found on a path, where, and between what (`table` for the table)."""

    clearance_m: float
    index: int
    pair: tuple[str, str]


def capsule_axes(links: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """End points of all capsules but the carried one: transforms (N, 6, 4, 4) -> two arrays (N, 10, 3)."""
    p, z = links[:, :, :3, 3], links[:, :, :3, 2]
    upper, forearm = z[:, 1] * _UPPER_OFFSET_M, z[:, 1] * _FOREARM_OFFSET_M
    foot = np.zeros_like(p[:, 0])
    hand = p[:, 5] + z[:, 5] * _HAND_LENGTH_M
    tip = p[:, 5] + z[:, 5] * _FINGERTIP_M
    start = (
        foot,
        p[:, 0],
        p[:, 0] + upper,
        p[:, 1] + upper,
        p[:, 1] + forearm,
        p[:, 2] + forearm,
        p[:, 3],
        p[:, 4],
        p[:, 5],
        hand,
    )
    end = (p[:, 0], start[2], start[3], start[4], start[5], p[:, 3], p[:, 4], p[:, 5], hand, tip)
    return np.stack(start, axis=1), np.stack(end, axis=1)


def clearances(links: np.ndarray, carried_radius_m: float | None = None) -> tuple[np.ndarray, list[tuple[str, str]]]:
    """Signed clearances (N, P) of all pairs and the table in metres, negative = overlap, and the columns' names."""
    a, b = capsule_axes(links)
    radii = RADII_M
    pairs = _PAIRS
    if carried_radius_m is None:
        pairs = [pair for pair in pairs if "carried" not in pair]
    else:
        tool = links[:, -1:, :3, 3] + links[:, -1:, :3, 2] * ur5.TOOL_LENGTH_M
        a, b = (np.concatenate([x, tool], axis=1) for x in (a, b))  # a ball at the grasp point
        radii = np.append(radii, carried_radius_m)
    i, j = ([_ROW[pair[k]] for pair in pairs] for k in (0, 1))
    between = segment_distance(a[:, i], b[:, i], a[:, j], b[:, j]) - radii[i] - radii[j]
    height = np.minimum(a[:, _TABLE, 2], b[:, _TABLE, 2]) - radii[_TABLE] - cell.TABLE_Z_M
    return np.concatenate([between, height], axis=1), [*pairs, *((NAMES[k], "table") for k in _TABLE)]


def path_clearance(
    q_rad: np.ndarray,
    links: np.ndarray,
    min_clearance_m: float,
    stride: int = 8,
    carried_radius_m: float | None = None,
    table: bool = True,
) -> Clearance:
    """Lower bound of the clearance on a whole path (N, 6), between its set-points too.

    Every `stride`-th set-point is computed. Between two of them no clearance falls below (c1 + c2 - m) / 2, where m
    bounds how far any point of the arm moves on the way (sum of |dq| times LEVER_M). Where that is less than
    `min_clearance_m` all set-points between are computed.
    """
    count = len(q_rad)
    moved = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(q_rad, axis=0)) @ LEVER_M)])
    rows = np.unique(np.append(np.arange(0, count, stride), count - 1))
    values, names = _worst(links[rows], carried_radius_m, table)
    if count > 1:
        bound = (values[0][:-1] + values[0][1:] - np.diff(moved[rows])) / 2
        doubtful = np.flatnonzero(bound < min_clearance_m)
        if len(doubtful):
            extra = np.concatenate([np.arange(rows[k], rows[k + 1]) for k in doubtful])
            fine, _ = _worst(links[extra], carried_radius_m, table)
            order = np.argsort(np.append(rows, extra), kind="stable")
            rows = np.append(rows, extra)[order]
            values = tuple(np.append(v, f)[order] for v, f in zip(values, fine))
            bound = (values[0][:-1] + values[0][1:] - np.diff(moved[rows])) / 2
        k = int(np.argmin(bound))
        nearer = k if values[0][k] <= values[0][k + 1] else k + 1
        return Clearance(float(bound[k]), int(rows[nearer]), names[int(values[1][nearer])])
    return Clearance(float(values[0][0]), 0, names[int(values[1][0])])


def _worst(links: np.ndarray, carried_radius_m: float | None, table: bool):
    values, names = clearances(links, carried_radius_m)
    if not table:
        values = values[:, : -len(_TABLE)]
    column = np.argmin(values, axis=1)
    return (values[np.arange(len(values)), column], column), names


def segment_distance(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> np.ndarray:
    """Distance between segments ab and cd, broadcast over leading axes of (..., 3); points are allowed.

    The least of the four end-to-segment distances and, where the common perpendicular meets both inside, that of the
    lines (Ericson, Real-Time Collision Detection, 5.1.9).
    """
    u, v, w = b - a, d - c, a - c
    uu, vv, uv = _dot(u, u), _dot(v, v), _dot(u, v)
    uw, vw = _dot(u, w), _dot(v, w)
    safe_uu, safe_vv = np.where(uu > 1e-12, uu, 1.0), np.where(vv > 1e-12, vv, 1.0)

    def at(s: np.ndarray, t: np.ndarray) -> np.ndarray:
        offset = w + s[..., None] * u - t[..., None] * v
        return _dot(offset, offset)

    def on_ab(t: np.ndarray) -> np.ndarray:
        return np.clip((t * uv - uw) / safe_uu, 0.0, 1.0)

    def on_cd(s: np.ndarray) -> np.ndarray:
        return np.clip((s * uv + vw) / safe_vv, 0.0, 1.0)

    zero, one = np.zeros_like(uu), np.ones_like(uu)
    det = uu * vv - uv * uv
    skew = det > 1e-12
    s = np.where(skew, np.clip((uv * vw - vv * uw) / np.where(skew, det, 1.0), 0.0, 1.0), 0.0)
    squared = at(s, on_cd(s))
    for s, t in ((zero, on_cd(zero)), (one, on_cd(one)), (on_ab(zero), zero), (on_ab(one), one)):
        squared = np.minimum(squared, at(s, t))
    return np.sqrt(squared)


def _dot(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.einsum("...i,...i->...", x, y)
