"""`check_robot`: does a driver keep the contract of `protocols.Robot`? For those who write a driver, and before motion.

Passive: it connects, watches for a while and lets go. It arms nothing, sends no set-point and writes no output.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from steadyhand import ur5
from steadyhand.errors import ContractError
from steadyhand.protocols import Feedback, Robot

METHODS = (
    "open", "service", "readable", "feedback", "troubles", "begin_arming", "arming", "send", "stop_program",
    "command_gripper", "close",
)  # fmt: skip
VECTORS = ("q_rad", "qd_rad_s", "q_target_rad", "qd_target_rad_s")
LOOSE_Q_RAD = 2 * np.pi + 0.1  # beyond it the driver most likely reports degrees


@dataclass(frozen=True)
class RobotReport:
    """What was seen. `call_max_s` is the longest `service` took: it must stay far below the control period."""

    samples: int
    period_s: float  # median distance of the controller's stamps
    call_max_s: float


def check_robot(
    robot: Robot,
    clock: Callable[[], float],
    wait: Callable[[float], None],
    watch_s: float = 1.0,
    connect_timeout_s: float = 5.0,
    joint_names: Sequence[str] = ur5.JOINT_NAMES,
) -> RobotReport:
    """Watch a robot through its driver; raises ContractError naming each field that is wrong and what was wanted.

    `clock` gives monotonic seconds, `wait` waits that many seconds (pass `time.monotonic`, `time.sleep`, or simulated
    ones). Moves nothing.
    """
    _check_shape(robot, joint_names)
    robot.open(clock())
    try:
        samples, slowest_s = _watch(robot, clock, wait, watch_s, connect_timeout_s)
    finally:
        robot.close()
    problems = [p for sample in samples for p in _problems(sample)]
    stamps = np.array([s.stamp_s for s in samples])
    controller = np.array([s.controller_stamp_s for s in samples])
    if len(samples) < 0.5 * watch_s / robot.period_s:
        problems.append(f"feedback: {len(samples)} samples in {watch_s} s, wanted about {watch_s / robot.period_s:.0f}")
    elif (np.diff(stamps) < 0).any() or (np.diff(controller) <= 0).any():
        problems.append("stamp_s, controller_stamp_s: must rise from sample to sample")
    elif not problems:
        problems += _rates(samples, controller, robot.period_s)
    if problems:
        raise ContractError(f"robot {robot.name!r}: " + "; ".join(dict.fromkeys(problems)))
    return RobotReport(len(samples), float(np.median(np.diff(controller))), slowest_s)


def _check_shape(robot: Robot, joint_names: Sequence[str]) -> None:
    missing = [m for m in METHODS if not callable(getattr(robot, m, None))]
    if missing:
        raise ContractError(f"robot {getattr(robot, 'name', robot)!r}: no method {', '.join(missing)}")
    if tuple(robot.joint_names) != tuple(joint_names):
        raise ContractError(f"robot {robot.name!r}: joint_names {list(robot.joint_names)}, wanted {list(joint_names)}")
    if not (np.isfinite(robot.period_s) and 0.001 <= robot.period_s <= 0.05):
        raise ContractError(f"robot {robot.name!r}: period_s {robot.period_s!r}, wanted 0.001 to 0.05 s")


def _watch(robot, clock, wait, watch_s, connect_timeout_s):
    """Distinct measurements in `watch_s` from the first one on."""
    samples: list[Feedback] = []
    deadline_s, slowest_s = clock() + connect_timeout_s, 0.0
    while clock() < deadline_s:
        before_s = clock()
        robot.service(before_s)
        slowest_s = max(slowest_s, clock() - before_s)
        feedback = robot.feedback()
        if feedback is not None and (not samples or feedback.controller_stamp_s != samples[-1].controller_stamp_s):
            if not samples:
                deadline_s = clock() + watch_s
            samples.append(feedback)
        wait(robot.period_s / 4)
    if not samples:
        raise ContractError(f"robot {robot.name!r}: no feedback within {connect_timeout_s} s: {dict(robot.troubles())}")
    if robot.troubles():
        raise ContractError(f"robot {robot.name!r}: {dict(robot.troubles())}")
    return samples, slowest_s


def _problems(sample: Feedback) -> list[str]:
    found = []
    for name in VECTORS:
        value = np.asarray(getattr(sample, name))
        if value.shape != (ur5.DOF,):
            found.append(f"{name}: shape {value.shape}, wanted ({ur5.DOF},)")
        elif not np.isfinite(value).all():
            found.append(f"{name}: not finite")
        elif name in ("q_rad", "q_target_rad") and np.abs(value).max() > LOOSE_Q_RAD:
            found.append(f"{name}: {np.abs(value).max():.1f}, wanted radians")
    if not (np.isfinite(sample.gripper_width_m) and -0.005 <= sample.gripper_width_m <= 0.5):
        found.append(f"gripper_width_m: {sample.gripper_width_m!r}, wanted metres")
    return found


def _rates(samples: list[Feedback], controller_s: np.ndarray, period_s: float) -> list[str]:
    """The stated period is the real one, and qd is the derivative of q (units and order of the two agree)."""
    found = []
    median_s = float(np.median(np.diff(controller_s)))
    if not 0.5 * period_s < median_s < 1.5 * period_s:
        found.append(f"period_s: {period_s}, but states come every {median_s:.4f} s")
    q = np.stack([s.q_rad for s in samples])
    qd = np.stack([s.qd_rad_s for s in samples])
    moved, integrated = q[-1] - q[0], np.trapezoid(qd, controller_s, axis=0)
    off = np.abs(moved - integrated) > 0.02 + 0.2 * np.abs(moved)
    if off.any():
        joint = int(np.argmax(off))
        found.append(
            f"qd_rad_s: joint {joint} moved {moved[joint]:.3f} rad, "
            f"but its speed adds up to {integrated[joint]:.3f} rad"
        )
    return found
