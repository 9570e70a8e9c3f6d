"""UR5 with a parallel gripper as a URDF of primitive shapes, generated from the published DH and mass tables.

The frame of the link behind joint i is DH frame i-1 turned by q_i about z, so the URDF *is* the DH chain and forward
kinematics equals `steadyhand.kinematics`. Link placements along the axes (shoulder offset 0.136 m, elbow 0.016 m) are
those of the arm's drawing; they only place shapes, the chain does not depend on them.
"""
from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from steadyhand import ur5

# Universal Robots, "DH parameters for calculations of kinematics and dynamics", UR5: mass (kg) and centre of mass in
# the DH frame of the link (m).
LINK_MASS_KG = (3.7, 8.393, 2.33, 1.219, 1.219, 0.1879)
LINK_COM_M = (
    (0.0, -0.02561, 0.00193), (0.2125, 0.0, 0.11336), (0.15, 0.0, 0.0265),
    (0.0, -0.0018, 0.01634), (0.0, 0.0018, 0.01634), (0.0, 0.0, -0.001159),
)
LINK_NAMES = (
    "shoulder_link", "upper_arm_link", "forearm_link", "wrist_1_link", "wrist_2_link", "wrist_3_link",
)
FINGER_JOINTS = ("left_finger_joint", "right_finger_joint")
FINGER_TRAVEL_M = 0.0425
FINGER_THICKNESS_M, FINGER_WIDTH_M, FINGER_LENGTH_M = 0.012, 0.022, 0.06
FINGER_ROOT_M = 0.09  # flange to finger root; the tips reach 15 mm past the grasp point at ur5.TOOL_LENGTH_M
COLOURS = {"joint": "0.35 0.55 0.8 1", "tube": "0.72 0.72 0.74 1", "dark": "0.15 0.15 0.17 1"}


@dataclass(frozen=True)
class _Shape:
    """Box (x, y, z) or cylinder (radius, length along `axis`) at `xyz` of a link frame."""

    size: tuple[float, ...]
    xyz: tuple[float, float, float]
    colour: str
    axis: str = "z"

    def xml(self) -> str:
        rpy = {"z": "0 0 0", "x": f"0 {math.pi / 2} 0", "y": f"{math.pi / 2} 0 0"}[self.axis]
        if len(self.size) == 2:
            form = f'<cylinder radius="{self.size[0]}" length="{self.size[1]}"/>'
        else:
            form = f'<box size="{_text(self.size)}"/>'
        body = f'<origin xyz="{_text(self.xyz)}" rpy="{rpy}"/><geometry>{form}</geometry>'
        material = f'<material name="{self.colour}"><color rgba="{COLOURS[self.colour]}"/></material>'
        return f"<visual>{body}{material}</visual><collision>{body}</collision>"


_SHAPES = {
    "shoulder_link": (_Shape((0.06, 0.14), (0, 0, 0.095), "joint"),),
    "upper_arm_link": (
        _Shape((0.058, 0.13), (0, 0, 0.125), "joint"),
        _Shape((0.054, 0.425), (-0.2125, 0, 0.136), "tube", "x"),
    ),
    "forearm_link": (
        _Shape((0.052, 0.19), (0, 0, 0.095), "joint"),
        _Shape((0.043, 0.392), (-0.196, 0, 0.016), "tube", "x"),
    ),
    "wrist_1_link": (_Shape((0.038, 0.165), (0, 0, 0.073), "joint"),),
    "wrist_2_link": (_Shape((0.038, 0.115), (0, 0, 0.075), "joint"),),
    "wrist_3_link": (_Shape((0.0375, 0.045), (0, 0, 0.0598), "tube"),),
}


def _text(values) -> str:
    return " ".join(f"{float(v):.12g}" for v in values)


def _inertial(mass_kg: float, com_m, moments) -> str:
    ixx, iyy, izz = (f"{m:.6g}" for m in moments)
    return (
        f'<inertial><origin xyz="{_text(com_m)}"/><mass value="{mass_kg}"/>'
        f'<inertia ixx="{ixx}" iyy="{iyy}" izz="{izz}" ixy="0" ixz="0" iyz="0"/></inertial>'
    )


def _cylinder_moments(mass_kg: float, radius_m: float, length_m: float, axis: str) -> tuple[float, ...]:
    across, along = mass_kg * (3 * radius_m**2 + length_m**2) / 12, mass_kg * radius_m**2 / 2
    return {"x": (along, across, across), "y": (across, along, across), "z": (across, across, along)}[axis]


def _link(name: str, inertial: str = "", shapes=()) -> str:
    return f'<link name="{name}">{inertial}{"".join(s.xml() for s in shapes)}</link>\n'


def _joint(name: str, kind: str, parent: str, child: str, xyz, rpy=(0, 0, 0), extra: str = "") -> str:
    return (
        f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
        f'<origin xyz="{_text(xyz)}" rpy="{" ".join(repr(float(v)) for v in rpy)}"/>{extra}</joint>\n'
    )


def _dh_origin(i: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Fixed part of DH row i (Tz(d) Tx(a) Rx(alpha)) as URDF xyz, rpy."""
    return (ur5.DH_A_M[i], 0.0, ur5.DH_D_M[i]), (ur5.DH_ALPHA_RAD[i], 0.0, 0.0)


def _com_behind_joint(i: int) -> np.ndarray:
    """Centre of mass of link i, given in DH frame i, in the URDF frame behind joint i."""
    c, s = math.cos(ur5.DH_ALPHA_RAD[i]), math.sin(ur5.DH_ALPHA_RAD[i])
    x, y, z = LINK_COM_M[i]
    return np.array([x + ur5.DH_A_M[i], c * y - s * z, s * y + c * z + ur5.DH_D_M[i]])


def _arm() -> str:
    foot = _Shape((0.075, 0.03), (0, 0, 0.015), "tube")
    text = _link("base_link", _inertial(4.0, foot.xyz, _cylinder_moments(4.0, *foot.size, foot.axis)), (foot,))
    parent, origin = "base_link", ((0, 0, 0), (0, 0, math.pi))  # `base` is half a turn from `base_link`
    for i, name in enumerate(LINK_NAMES):
        shape = _SHAPES[name][-1]
        moments = _cylinder_moments(LINK_MASS_KG[i], *shape.size, shape.axis)
        text += _link(name, _inertial(LINK_MASS_KG[i], _com_behind_joint(i), moments), _SHAPES[name])
        limit = (
            f'<axis xyz="0 0 1"/><limit lower="{ur5.Q_MIN_RAD[i]}" upper="{ur5.Q_MAX_RAD[i]}" '
            f'effort="{150 if i < 3 else 28}" velocity="{ur5.QD_MAX_RAD_S[i]}"/>'
        )
        text += _joint(ur5.JOINT_NAMES[i], "revolute", parent, name, *origin, extra=limit)
        parent, origin = name, _dh_origin(i)
    return text + _link("tool0", _inertial(1e-3, (0, 0, 0), (1e-6,) * 3)) + _joint(
        "tool0_fixed", "fixed", parent, "tool0", *origin
    )


def _gripper() -> str:
    palm, finger = (0.10, 0.06, FINGER_ROOT_M), (FINGER_THICKNESS_M, FINGER_WIDTH_M, FINGER_LENGTH_M)
    box = lambda m, s: (m * (s[1]**2 + s[2]**2) / 12, m * (s[0]**2 + s[2]**2) / 12, m * (s[0]**2 + s[1]**2) / 12)
    middle = (0, 0, palm[2] / 2)
    text = _link("gripper_base", _inertial(0.7, middle, box(0.7, palm)), (_Shape(palm, middle, "dark"),))
    text += _joint("gripper_fixed", "fixed", "tool0", "gripper_base", (0, 0, 0))
    for joint, side in zip(FINGER_JOINTS, (1, -1)):
        name = joint.removesuffix("_joint")
        at = (side * finger[0] / 2, 0, finger[2] / 2)
        text += _link(name, _inertial(0.1, at, box(0.1, finger)), (_Shape(finger, at, "dark"),))
        extra = f'<axis xyz="{side} 0 0"/><limit lower="0" upper="{FINGER_TRAVEL_M}" effort="100" velocity="0.15"/>'
        text += _joint(joint, "prismatic", "gripper_base", name, (0, 0, FINGER_ROOT_M), extra=extra)
    text += _link("tool", _inertial(1e-3, (0, 0, 0), (1e-6,) * 3))
    return text + _joint("tool_fixed", "fixed", "gripper_base", "tool", (0, 0, ur5.TOOL_LENGTH_M))


def ur5_urdf() -> str:
    """URDF text of the arm with its gripper, rooted at `base_link`; links `tool0` and `tool` are the tool frames."""
    return f'<?xml version="1.0"?>\n<robot name="ur5_primitive">\n{_arm()}{_gripper()}</robot>\n'
