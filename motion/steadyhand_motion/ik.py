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
    that is not a finite rigid transform (4, 4).
    """
    pose = np.asarray(pose_base_link_tool, dtype=float)
    if pose.shape != (4, 4) or not np.isfinite(pose).all():
        raise KinematicsError(f"pose of shape {pose.shape}: give a finite (4, 4) transform")
    if not np.allclose(pose[:3, :3] @ pose[:3, :3].T, np.eye(3), atol=1e-6):
        raise KinematicsError("pose: its rotation is not orthonormal")
    flange_in_base = kinematics.T_BASE_LINK_BASE.T @ pose @ np.linalg.inv(kinematics.T_TOOL0_TOOL)
    near = np.asarray(q_near_rad, dtype=float)
    found = [_unwrapped(np.ravel(q), near) for q in _solver()(np.ascontiguousarray(flange_in_base))]
    found = [q for q in found if (q >= ur5.Q_MIN_RAD).all() and (q <= ur5.Q_MAX_RAD).all()]
    if not found:
        return np.empty((0, ur5.DOF))
    return np.array(sorted(found, key=lambda q: float(np.abs(q - near).max())))


def _unwrapped(q_rad: np.ndarray, near_rad: np.ndarray) -> np.ndarray:
    turned = near_rad + (q_rad - near_rad + np.pi) % (2 * np.pi) - np.pi
    turned = np.where(turned > ur5.Q_MAX_RAD, turned - 2 * np.pi, turned)
    return np.where(turned < ur5.Q_MIN_RAD, turned + 2 * np.pi, turned)


def _solver():
    try:
        import ur_analytic_ik
    except ImportError as error:
        raise DependencyMissing("needs ur-analytic-ik (Python 3.10 or 3.11): pip install 'steadyhand[sim]'") from error
    return ur_analytic_ik.ur5.inverse_kinematics
