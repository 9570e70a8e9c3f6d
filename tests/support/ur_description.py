"""What ur_description makes of a UR's nominal kinematics: the six joints of its URDF, and nothing else of it.

The numbers are those of its `config/*/default_kinematics.yaml`; a test holds the UR5's against the DH parameters.
"""
import math

from steadyhand import ur5

HALF, PI = math.pi / 2, math.pi
LINKS = ("base_link_inertia", "shoulder_link", "upper_arm_link", "forearm_link", "wrist_1_link", "wrist_2_link", "wrist_3_link")


def _origins(d1, a2, a3, d4, d5, d6):
    return (
        ((0, 0, d1), (0, 0, 0)), ((0, 0, 0), (HALF, 0, 0)), ((a2, 0, 0), (0, 0, 0)), ((a3, 0, d4), (0, 0, 0)),
        ((0, -d5, 0), (HALF, 0, 0)), ((0, d6, 0), (HALF, PI, PI)),
    )  # fmt: skip


ARMS = {
    "ur5": _origins(0.089159, -0.425, -0.39225, 0.10915, 0.09465, 0.0823),
    "ur5e": _origins(0.1625, -0.425, -0.3922, 0.1333, 0.0997, 0.0996),
    "ur3": _origins(0.1519, -0.24365, -0.21325, 0.11235, 0.08535, 0.0819),
}


def urdf(arm: str = "ur5", prefix: str = "") -> str:
    """The description of one arm, with a transmission as drivers add it."""
    joints = []
    for i, (name, (xyz, rpy)) in enumerate(zip(ur5.JOINT_NAMES, ARMS[arm])):
        joints.append(
            f'<joint name="{prefix}{name}" type="revolute"><parent link="{prefix}{LINKS[i]}"/>'
            f'<child link="{prefix}{LINKS[i + 1]}"/><origin xyz="{" ".join(map(str, xyz))}" rpy="{" ".join(map(str, rpy))}"/>'
            f'<axis xyz="0 0 1"/></joint><ros2_control><joint name="{prefix}{name}"/></ros2_control>'
        )
    return f'<?xml version="1.0"?><robot name="ur"><link name="world"/>{"".join(joints)}</robot>'
