"""Inverse kinematics over all branches of the UR5 (at most eight), by `ur-analytic-ik`.

`steadyhand.kinematics.ik_near` follows one branch from a seed and is what moves the arm. This answers the other
question: can a pose be reached at all, and on which branches.
"""
from __future__ import annotations

import numpy as np

from steadyhand import kinematics, ur5
from steadyhand.errors import DependencyMissing, KinematicsError


def branches(pose_base_link_tool: np.ndarray, q_near_rad: np.ndarray) -> np.ndarray:
    """Every configuration (N, 6) that reaches a tool pose, each joint turned as near to `q_near_rad` as its range goes.

    Nearest first (largest joint difference). Empty when the pose is out of reach. Raises KinematicsError for a pose
    that is not a finite rigid transform (4, 4) and for a `q_near_rad` (6,) that is not finite within the joints' range.
    """
    pose = np.asarray(pose_base_link_tool, dtype=float)
    if pose.shape != (4, 4) or not np.isfinite(pose).all():
        raise KinematicsError(f"pose of shape {pose.shape}: give a finite (4, 4) transform")
    if not np.allclose(pose[:3, :3] @ pose[:3, :3].T, np.eye(3), atol=1e-6):
        raise KinematicsError("pose: its rotation is not orthonormal")
    near = np.asarray(q_near_rad, dtype=float)
    if near.shape != (ur5.DOF,) or not ((near >= ur5.Q_MIN_RAD) & (near <= ur5.Q_MAX_RAD)).all():
        raise KinematicsError(f"q_near_rad = {near}: give {ur5.DOF} finite angles within the joints' range")
    flange_in_base = kinematics.T_BASE_LINK_BASE.T @ pose @ np.linalg.inv(kinematics.T_TOOL0_TOOL)
    found = [_unwrapped(np.ravel(q), near) for q in _solver()(np.ascontiguousarray(flange_in_base))]
    if not found:
        return np.empty((0, ur5.DOF))
    return np.array(sorted(found, key=lambda q: float(np.abs(q - near).max())))


def _unwrapped(q_rad: np.ndarray, near_rad: np.ndarray) -> np.ndarray:
    """The same configuration within the joints' range, at most half a turn from `near_rad` where the range allows."""
    turned = near_rad + (q_rad - near_rad + np.pi) % (2 * np.pi) - np.pi
    turned = np.where(turned > ur5.Q_MAX_RAD, turned - 2 * np.pi, turned)
    return np.where(turned < ur5.Q_MIN_RAD, turned + 2 * np.pi, turned)


def _solver():
    try:
        import ur_analytic_ik
    except ImportError as error:
        raise DependencyMissing("needs ur-analytic-ik (Python 3.10 or 3.11): pip install 'steadyhand[sim]'") from error
    return ur_analytic_ik.ur5.inverse_kinematics
