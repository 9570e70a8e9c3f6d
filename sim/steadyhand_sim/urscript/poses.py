"""Pose arithmetic of the script manual (module urmath): a pose is a position and a rotation vector (axis x angle)."""
from __future__ import annotations

import math

from steadyhand_sim.urscript.values import Pose

_TINY_RAD = 1e-12


def matrix(rotation: list) -> list[list[float]]:
    """Rotation vector (3) -> rotation matrix (3 rows): Rodrigues' formula."""
    x, y, z = rotation
    angle = math.sqrt(x * x + y * y + z * z)
    if angle < _TINY_RAD:
        return [[1.0, -z, y], [z, 1.0, -x], [-y, x, 1.0]]
    x, y, z = x / angle, y / angle, z / angle
    c, s = math.cos(angle), math.sin(angle)
    v = 1 - c
    return [
        [c + x * x * v, x * y * v - z * s, x * z * v + y * s],
        [y * x * v + z * s, c + y * y * v, y * z * v - x * s],
        [z * x * v - y * s, z * y * v + x * s, c + z * z * v],
    ]


def rotation_vector(m: list[list[float]]) -> list[float]:
    """Rotation matrix -> rotation vector of an angle in [0, pi]."""
    v = [m[2][1] - m[1][2], m[0][2] - m[2][0], m[1][0] - m[0][1]]
    sine2 = math.sqrt(sum(a * a for a in v))  # 2 sin(angle)
    angle = math.atan2(sine2, m[0][0] + m[1][1] + m[2][2] - 1)
    if sine2 > 1e-7:
        return [a * angle / sine2 for a in v]
    if angle < 1:
        return [a / 2 for a in v]
    # Half a turn: the axis is the largest column of (R + 1) / 2.
    diagonal = [m[i][i] for i in range(3)]
    k = diagonal.index(max(diagonal))
    column = [(m[i][k] + (i == k)) / 2 for i in range(3)]
    length = math.sqrt(sum(a * a for a in column))
    return [a * angle / length for a in column]


def _product(a: list, b: list) -> list:
    return [[sum(a[i][k] * b[k][j] for k in range(3)) for j in range(3)] for i in range(3)]


def _apply(m: list, v: list) -> list[float]:
    return [sum(m[i][k] * v[k] for k in range(3)) for i in range(3)]


def _transposed(m: list) -> list:
    return [list(row) for row in zip(*m)]


def trans(p_from: Pose, p_from_to: Pose) -> Pose:
    """T_from * T_from_to: `p_from_to`, given in the frame of `p_from`, in the frame `p_from` is given in."""
    r = matrix(p_from[3:])
    position = [a + b for a, b in zip(p_from[:3], _apply(r, p_from_to[:3]))]
    return Pose(position + rotation_vector(_product(r, matrix(p_from_to[3:]))))


def inverse(pose: Pose) -> Pose:
    """T^-1."""
    r = _transposed(matrix(pose[3:]))
    return Pose([-a for a in _apply(r, pose[:3])] + [-a for a in pose[3:]])


def add(p_1: Pose, p_2: Pose) -> Pose:
    """Positions added; rotation R_1 * R_2."""
    rotation = rotation_vector(_product(matrix(p_1[3:]), matrix(p_2[3:])))
    return Pose([a + b for a, b in zip(p_1[:3], p_2[:3])] + rotation)


def sub(p_to: Pose, p_from: Pose) -> Pose:
    """Positions subtracted; the rotation that leads from `p_from` to `p_to`: R_to * R_from^T."""
    rotation = rotation_vector(_product(matrix(p_to[3:]), _transposed(matrix(p_from[3:]))))
    return Pose([a - b for a, b in zip(p_to[:3], p_from[:3])] + rotation)


def interpolate(p_from: Pose, p_to: Pose, alpha: float) -> Pose:
    """Linear position, rotation about one axis; alpha 0 gives `p_from`, 1 gives `p_to`."""
    r_from = matrix(p_from[3:])
    step = [alpha * a for a in rotation_vector(_product(_transposed(r_from), matrix(p_to[3:])))]
    position = [a + alpha * (b - a) for a, b in zip(p_from[:3], p_to[:3])]
    return Pose(position + rotation_vector(_product(r_from, matrix(step))))
