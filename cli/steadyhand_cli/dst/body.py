"""Whether the arm touches itself, with a geometry of the checker's own: ten points of the arm, coarse round limbs.

The radii are a good centimetre below the robot's, so that only certain overlap is reported; what may stay close by its
build (limbs that share a joint) is not compared.
"""
from __future__ import annotations

import numpy as np

# Denavit-Hartenberg, written out here again; the last in quarter turns
A_M = (0.0, -0.425, -0.39225, 0.0, 0.0, 0.0)
D_M = (0.089159, 0.0, 0.0, 0.10915, 0.09465, 0.0823)
ALPHA = (1, 0, 0, 1, -1, 0)
UPPER_M, FOREARM_M = 0.136, 0.016  # of the limbs' axes beside the joints' frames
TIP_M = 0.15
# limb: from point, to point, radius
LIMBS = {
    "column": (0, 1, 0.060), "upper arm": (2, 3, 0.050), "forearm": (4, 5, 0.038), "wrist": (6, 7, 0.033),
    "hand": (8, 9, 0.045),
}  # fmt: skip
PAIRS = (
    ("column", "forearm"), ("column", "wrist"), ("column", "hand"), ("upper arm", "wrist"), ("upper arm", "hand"),
    ("forearm", "hand"),
)
_FRACTIONS = np.linspace(0.0, 1.0, 9)


def points_m(q_rad: np.ndarray) -> np.ndarray:
    """(n, 10, 3) in the controller's base frame of (n, 6): of the limbs' axes, from the foot to the tip."""
    n = len(q_rad)
    r, p, joints = np.tile(np.eye(3), (n, 1, 1)), np.zeros((n, 3)), []
    for j in range(6):
        c, s = np.cos(q_rad[:, j]), np.sin(q_rad[:, j])
        x, y, z = r[:, :, 0], r[:, :, 1], r[:, :, 2]
        nx, ny = x * c[:, None] + y * s[:, None], y * c[:, None] - x * s[:, None]
        p = p + z * D_M[j] + nx * A_M[j]
        a = ALPHA[j]
        r = np.stack([nx, a * z if a else ny, -a * ny if a else z], axis=2)
        joints.append((p, r[:, :, 2]))
    (p1, z1), (p2, _), (p3, _), (p4, _), (p5, _), (p6, z6) = joints
    return np.stack([
        np.zeros((n, 3)), p1, p1 + UPPER_M * z1, p2 + UPPER_M * z1, p2 + FOREARM_M * z1, p3 + FOREARM_M * z1, p4, p5,
        p6, p6 + TIP_M * z6,
    ], axis=1)  # fmt: skip


def overlap(q_rad: np.ndarray) -> list[str]:
    """For each of (n, 6), the two limbs that certainly overlap; empty when there are none.

    Limbs are compared by nine points of each: the distance found is never too small.
    """
    p, out = points_m(q_rad), [""] * len(q_rad)
    along = {
        name: p[:, i, None] + (p[:, j] - p[:, i])[:, None] * _FRACTIONS[:, None] for name, (i, j, _) in LIMBS.items()
    }
    for one, other in PAIRS:
        reach_m = LIMBS[one][2] + LIMBS[other][2]
        gap = along[one][:, :, None] - along[other][:, None]
        for i in np.flatnonzero((gap * gap).sum(axis=3).min(axis=(1, 2)) < reach_m**2):
            out[i] = out[i] or f"{one} and {other}"
    return out
