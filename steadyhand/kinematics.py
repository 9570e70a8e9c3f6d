"""Kinematics of the UR5: forward, Jacobian, and the inverse near a known configuration.

All poses are homogeneous (4, 4) transforms in `base_link`; the controller's `base` frame is half a turn about z away
(see `steadyhand.ur5`). The inverse here follows one branch from a seed; all branches: `steadyhand_motion.ik`.
"""
from __future__ import annotations

import math

import numpy as np

from steadyhand import ur5
from steadyhand.errors import KinematicsError

T_BASE_LINK_BASE = np.diag([-1.0, -1.0, 1.0, 1.0])
T_TOOL0_TOOL = np.eye(4)
T_TOOL0_TOOL[2, 3] = ur5.TOOL_LENGTH_M

_COS_ALPHA = np.round(np.cos(ur5.DH_ALPHA_RAD), 15)
_SIN_ALPHA = np.round(np.sin(ur5.DH_ALPHA_RAD), 15)
_DH = tuple(zip(_COS_ALPHA.tolist(), _SIN_ALPHA.tolist(), ur5.DH_A_M.tolist(), ur5.DH_D_M.tolist()))


def link_transforms(q_rad: np.ndarray) -> np.ndarray:
    """Transforms of the six DH frames in `base_link`: (..., 6) -> (..., 6, 4, 4)."""
    q = np.asarray(q_rad, dtype=float)
    cos_q, sin_q = np.cos(q), np.sin(q)
    # T_i = Rz(q) Tz(d) Tx(a) Rx(alpha)
    links = np.zeros((*q.shape, 4, 4))
    links[..., 0, 0] = cos_q
    links[..., 0, 1] = -sin_q * _COS_ALPHA
    links[..., 0, 2] = sin_q * _SIN_ALPHA
    links[..., 0, 3] = ur5.DH_A_M * cos_q
    links[..., 1, 0] = sin_q
    links[..., 1, 1] = cos_q * _COS_ALPHA
    links[..., 1, 2] = -cos_q * _SIN_ALPHA
    links[..., 1, 3] = ur5.DH_A_M * sin_q
    links[..., 2, 1] = _SIN_ALPHA
    links[..., 2, 2] = _COS_ALPHA
    links[..., 2, 3] = ur5.DH_D_M
    links[..., 3, 3] = 1.0
    out = np.empty_like(links)
    pose = T_BASE_LINK_BASE
    for i in range(ur5.DOF):
        pose = pose @ links[..., i, :, :]
        out[..., i, :, :] = pose
    return out


def pose_base_link_tool(q_rad: np.ndarray) -> np.ndarray:
    """Pose of the tool (TCP): (..., 6) -> (..., 4, 4)."""
    return link_transforms(q_rad)[..., -1, :, :] @ T_TOOL0_TOOL


def jacobian(q_rad: np.ndarray) -> np.ndarray:
    """Geometric Jacobian of the tool in `base_link`: (6,) -> (6, 6), rows vx vy vz wx wy wz."""
    return _tool_and_jacobian(q_rad)[1]


def _tool_and_jacobian(q_rad: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Tool pose (4, 4) and Jacobian (6, 6) of one configuration, in plain floats: such small arrays cost more."""
    xx, xy, xz, yx, yy, yz, zx, zy, zz = -1.0, 0.0, 0.0, 0.0, -1.0, 0.0, 0.0, 0.0, 1.0  # columns x, y, z: of `base`
    px = py = pz = 0.0
    joints = []
    for angle, (cos_alpha, sin_alpha, a, d) in zip(np.asarray(q_rad, dtype=float).tolist(), _DH):
        joints.append((zx, zy, zz, px, py, pz))  # axis and origin of the joint
        c, s = math.cos(angle), math.sin(angle)
        nx, ny, nz = xx * c + yx * s, xy * c + yy * s, xz * c + yz * s  # x turned about z
        mx, my, mz = yx * c - xx * s, yy * c - xy * s, yz * c - xz * s
        px, py, pz = px + a * nx + d * zx, py + a * ny + d * zy, pz + a * nz + d * zz
        xx, xy, xz = nx, ny, nz
        yx, yy, yz, zx, zy, zz = (
            mx * cos_alpha + zx * sin_alpha, my * cos_alpha + zy * sin_alpha, mz * cos_alpha + zz * sin_alpha,
            zx * cos_alpha - mx * sin_alpha, zy * cos_alpha - my * sin_alpha, zz * cos_alpha - mz * sin_alpha,
        )  # fmt: skip
    px, py, pz = px + ur5.TOOL_LENGTH_M * zx, py + ur5.TOOL_LENGTH_M * zy, pz + ur5.TOOL_LENGTH_M * zz
    columns = []
    for ax, ay, az, ox, oy, oz in joints:
        dx, dy, dz = px - ox, py - oy, pz - oz
        columns.append((ay * dz - az * dy, az * dx - ax * dz, ax * dy - ay * dx, ax, ay, az))
    pose = np.array(((xx, yx, zx, px), (xy, yy, zy, py), (xz, yz, zz, pz), (0.0, 0.0, 0.0, 1.0)))
    return pose, np.array(columns).T


def rotation_vector(rotation: np.ndarray) -> np.ndarray:
    """Axis times angle of a rotation matrix: (3, 3) -> (3,). Exact near 0 and near pi."""
    skew = 0.5 * np.array(
        [rotation[2, 1] - rotation[1, 2], rotation[0, 2] - rotation[2, 0], rotation[1, 0] - rotation[0, 1]]
    )
    sine, cosine = np.linalg.norm(skew), (np.trace(rotation) - 1.0) / 2.0
    angle = np.arctan2(sine, cosine)
    if sine > 1e-9:
        return skew * (angle / sine)
    if cosine > 0:
        return skew
    symmetric = (rotation + np.eye(3)) / 2.0  # half a turn: the axis is its dominant column
    column = symmetric[:, np.argmax(np.diag(symmetric))]
    return np.pi * column / np.linalg.norm(column)


def tool_down(x_m: float, y_m: float, z_m: float, yaw_rad: float) -> np.ndarray:
    """Tool pose (4, 4) pointing straight down at a point, fingers turned by `yaw_rad` about the vertical."""
    c, s = np.cos(yaw_rad), np.sin(yaw_rad)
    return np.array([[c, s, 0, x_m], [s, -c, 0, y_m], [0, 0, -1, z_m], [0, 0, 0, 1.0]])


def ik_near(
    pose_base_link_tool_wanted: np.ndarray,
    q_seed_rad: np.ndarray,
    tolerance: float = 1e-6,
    max_iterations: int = 30,
    damping: float = 1e-3,
) -> np.ndarray:
    """Joint configuration (6,) that reaches a tool pose on the seed's branch (damped Gauss-Newton).

    Damping as Nakamura and Hanafusa 1986: dq = J^T (J J^T + l^2 I)^-1 e. Raises KinematicsError when it does not
    converge: out of reach, through a singularity, or too far from the seed.
    """
    wanted = np.asarray(pose_base_link_tool_wanted, dtype=float)
    q = np.array(q_seed_rad, dtype=float)
    for _ in range(max_iterations):
        pose, j = _tool_and_jacobian(q)
        error = np.concatenate([wanted[:3, 3] - pose[:3, 3], rotation_vector(wanted[:3, :3] @ pose[:3, :3].T)])
        if np.abs(error).max() < tolerance:
            return q
        step = j.T @ np.linalg.solve(j @ j.T + damping**2 * np.eye(6), error)
        q = q + np.clip(step, -0.3, 0.3)
    raise KinematicsError(
        f"pose at {np.round(wanted[:3, 3], 4).tolist()} m not reached from seed "
        f"{np.round(q_seed_rad, 3).tolist()} rad: residual {np.abs(error).max():.2e}; "
        "give a pose inside the workspace or a closer seed"
    )
