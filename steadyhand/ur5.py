"""Facts of the UR5 (CB3): joint names, kinematics, limits, each with its source.

Frames: `base` is the controller's own frame (DH, the one that actual_TCP_pose uses). `base_link` is the ROS frame
(REP-103, x forward); it differs by a half turn about z, as in ur_description. Everything outside a driver uses
`base_link`. `tool0` is the flange; `tool` (TCP) lies `TOOL_LENGTH_M` along its z axis.
"""
from __future__ import annotations

import math

import numpy as np

JOINT_NAMES = (
    "shoulder_pan_joint",
    "shoulder_lift_joint",
    "elbow_joint",
    "wrist_1_joint",
    "wrist_2_joint",
    "wrist_3_joint",
)
DOF = 6

# Denavit-Hartenberg parameters: Universal Robots support article "DH parameters for calculations of kinematics and
# dynamics", UR5 column (metres, radians).
DH_A_M = np.array([0.0, -0.42500, -0.39225, 0.0, 0.0, 0.0])
DH_D_M = np.array([0.089159, 0.0, 0.0, 0.10915, 0.09465, 0.0823])
DH_ALPHA_RAD = np.array([math.pi / 2, 0.0, 0.0, math.pi / 2, -math.pi / 2, 0.0])

# UR5 user manual (CB3), technical specifications: all joints +-360 deg, 180 deg/s. The elbow is held to +-180 deg, as
# ur_description does by default: the arm cannot pass through itself.
Q_MIN_RAD = np.array([-2 * math.pi, -2 * math.pi, -math.pi, -2 * math.pi, -2 * math.pi, -2 * math.pi])
Q_MAX_RAD = -Q_MIN_RAD
QD_MAX_RAD_S = np.full(DOF, math.pi)

TOOL_LENGTH_M = 0.135  # flange to grasp point of the parallel gripper of the simulated cell

SERVO_PERIOD_CB3_S = 0.008
