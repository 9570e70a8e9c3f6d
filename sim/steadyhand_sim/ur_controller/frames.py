"""Poses as the controller speaks them: (x, y, z, rx, ry, rz) in `base`, at a TCP that a program can set.

`steadyhand.kinematics` works in `base_link` at the cell's tool; here are the half turn, the adjustable TCP and the
axis-angle vector.
"""
from __future__ import annotations

import numpy as np

from steadyhand import kinematics
from steadyhand.errors import KinematicsError

# The inverse of half a turn about z is itself.
_T_BASE_BASE_LINK = kinematics.T_BASE_LINK_BASE


def transform(pose: np.ndarray) -> np.ndarray:
    """(6,) position and axis-angle vector -> (4, 4), by Rodrigues' formula."""
    pose = np.asarray(pose, dtype=float)
    angle = float(np.linalg.norm(pose[3:]))
    out = np.eye(4)
    out[:3, 3] = pose[:3]
    if angle > 1e-12:
        x, y, z = pose[3:] / angle
        k = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
        out[:3, :3] += np.sin(angle) * k + (1.0 - np.cos(angle)) * (k @ k)
    return out


def pose_vector(t: np.ndarray) -> np.ndarray:
    """(4, 4) -> (6,) position and axis-angle vector."""
    return np.concatenate([t[:3, 3], kinematics.rotation_vector(t[:3, :3])])


def forward(q_rad: np.ndarray, tcp: np.ndarray) -> np.ndarray:
    """TCP pose (6,) in `base`; `tcp` (6,) is the TCP in the flange."""
    t_base_flange = _T_BASE_BASE_LINK @ kinematics.link_transforms(q_rad)[-1]
    return pose_vector(t_base_flange @ transform(tcp))


def jacobian(q_rad: np.ndarray, tcp: np.ndarray) -> np.ndarray:
    """Geometric Jacobian (6, 6) of the TCP in `base`, rows vx vy vz wx wy wz."""
    j = kinematics.jacobian(q_rad)
    rotation = _T_BASE_BASE_LINK[:3, :3]
    flange = kinematics.link_transforms(q_rad)[-1]
    # v at the TCP = v at the cell's tool + w x (TCP - tool)
    offset = flange[:3, :3] @ (np.asarray(tcp[:3], dtype=float) - kinematics.T_TOOL0_TOOL[:3, 3])
    linear = j[:3] + np.cross(j[3:].T, offset).T
    return np.vstack([rotation @ linear, rotation @ j[3:]])


def inverse(pose: np.ndarray, q_near_rad: np.ndarray, tcp: np.ndarray) -> np.ndarray:
    """Joint angles (6,) for a TCP pose in `base`, on the branch of `q_near_rad`. KinematicsError if unreachable."""
    t_base_flange = transform(pose) @ np.linalg.inv(transform(tcp))
    wanted = kinematics.T_BASE_LINK_BASE @ t_base_flange @ kinematics.T_TOOL0_TOOL
    if not np.isfinite(wanted).all():
        raise KinematicsError(f"pose {np.asarray(pose).tolist()} is not finite")
    return kinematics.ik_near(wanted, q_near_rad, max_iterations=60)
