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
TIP_M, TOOL_M = 0.15, 0.135  # of the hand, and of the point that its limits are about
BASE_LINK = np.array([-1.0, -1.0, 1.0])  # the controller's base is half a turn away
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


def frames_m(q_rad: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of (n, 6), in the controller's base frame: origins (n, 6, 3) of the joints' frames, and the axes (n, 3) of the
    first and the last: of joints 2 to 4, and of the tool. Joints 2 to 4 turn in one upright plane.
    """
    c, s = np.cos(q_rad), np.sin(q_rad)
    c1, s1, zero = c[:, 0], s[:, 0], np.zeros(len(q_rad))
    q23 = q_rad[:, 1] + q_rad[:, 2]
    q234 = q23 + q_rad[:, 3]
    c4, s4 = np.cos(q234), np.sin(q234)
    out, up = A_M[1] * c[:, 1], D_M[0] + A_M[1] * s[:, 1]  # of the elbow, along the plane and upwards
    out3, up3 = out + A_M[2] * np.cos(q23), up + A_M[2] * np.sin(q23)
    out5, up5 = out3 + D_M[4] * s4, up3 - D_M[4] * c4
    c5, s5 = c[:, 4], s[:, 4]
    out6, side6, up6 = -s5 * c4, c5, -s5 * s4  # the tool's axis
    along = np.array([zero, out, out3, out3, out5, out5 + D_M[5] * out6, out6])
    beside = np.array([zero, zero, zero, zero + D_M[3], zero + D_M[3], D_M[3] + D_M[5] * side6, side6])
    upwards = np.array([zero + D_M[0], up, up3, up3, up5, up5 + D_M[5] * up6, up6])
    found = np.array([along * c1 + beside * s1, along * s1 - beside * c1, upwards]).transpose(2, 1, 0)
    return found[:, :6], np.array([s1, -c1, zero]).T, found[:, 6]


def points_m(q_rad: np.ndarray) -> np.ndarray:
    """(n, 10, 3) in the controller's base frame of (n, 6): of the limbs' axes, from the foot to the tip."""
    frames, z1, z6 = frames_m(q_rad)
    p1, p2, p3, p4, p5, p6 = frames.transpose(1, 0, 2)
    return np.stack([
        np.zeros_like(p1), p1, p1 + UPPER_M * z1, p2 + UPPER_M * z1, p2 + FOREARM_M * z1, p3 + FOREARM_M * z1, p4, p5,
        p6, p6 + TIP_M * z6,
    ], axis=1)  # fmt: skip


def depth_m(q_rad: np.ndarray, box_m: tuple[float, ...]) -> np.ndarray:
    """(n,) how deep the deepest of the joints' frames, the tool and the middles between them is in a box of base_link.

    Negative outside: then by how much the nearest of them misses it along one axis.
    """
    frames, _, z6 = frames_m(q_rad)
    p = np.concatenate([frames, (frames[:, 5] + TOOL_M * z6)[:, None]], axis=1) * BASE_LINK
    p = np.concatenate([p, 0.5 * (p[:, 1:] + p[:, :-1])], axis=1)
    return np.minimum(p - box_m[:3], np.array(box_m[3:]) - p).min(axis=2).max(axis=1)


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
