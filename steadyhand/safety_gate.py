"""The gate: refuses what must not move the robot, and says why. It never clamps (I4).

That an admitted set-point has an admissible stop is argued and checked in `stop_check`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from steadyhand import collision, kinematics, ur5
from steadyhand.errors import ConfigError
from steadyhand.interpolator import InterpolatorConfig, PlanRefused, build_plan
from steadyhand.limits import UR5_LIMITS, Limits
from steadyhand.plan import HISTORY, Plan, Published
from steadyhand.stop_check import setpoint_differences, stop_admissible
from steadyhand.types import JointChunk, Mode, Reason, RobotState, Verdict

MOVING_MODES = (Mode.ARMED_AUTO, Mode.ARMED_MANUAL, Mode.RECOVERING)
_HISTORY_TOLERANCE_RAD = 1e-9
_UNITS = {Reason.VELOCITY: "rad/s", Reason.ACCELERATION: "rad/s2", Reason.JERK: "rad/s3"}


@dataclass(frozen=True)
class GateConfig:
    """What a chunk may look like. Times in seconds on the guard's clock."""

    max_age_s: float = 0.1
    max_waypoints: int = 64
    min_waypoint_period_s: float = 0.02
    max_waypoint_period_s: float = 0.1
    collision_stride: int = 8

    def __post_init__(self) -> None:
        for name in (
            "max_age_s",
            "max_waypoints",
            "min_waypoint_period_s",
            "max_waypoint_period_s",
            "collision_stride",
        ):
            if not 0 < getattr(self, name) < math.inf:
                raise ConfigError(f"gate.{name}={getattr(self, name)!r}: must be finite and greater than 0")
        if self.min_waypoint_period_s > self.max_waypoint_period_s:
            raise ConfigError(f"gate.min_waypoint_period_s={self.min_waypoint_period_s}: above max_waypoint_period_s")


class SafetyGate:
    """Checks chunks, plans and the running robot against limits. Holds no state but its configuration."""

    def __init__(
        self, limits: Limits = UR5_LIMITS, config: GateConfig = GateConfig(), min_clearance_m: float | None = None
    ) -> None:
        """`min_clearance_m` replaces that of the limits; it may be negative, for an arm that is too close already."""
        self.limits, self.config = limits, config
        self.min_clearance_m = limits.min_clearance_m if min_clearance_m is None else min_clearance_m

    def admit(
        self,
        chunk: JointChunk,
        state: RobotState,
        token: int,
        last_seq: int,
        now_s: float,
        next_setpoint_s: float,
        current: Plan,
        next_index: int,
        interpolation: InterpolatorConfig = InterpolatorConfig(),
        published: Callable[[int], Published | RobotState | None] | None = None,
        carried_radius_m: float | None = None,
    ) -> tuple[Verdict, Plan | None]:
        """The whole way of a chunk: protocol, plan, motion. The plan is None when refused; `current` stays in force."""
        verdict = self.check_chunk(chunk, state, token, last_seq, now_s, published)
        if not verdict.accepted:
            return verdict, None
        try:
            self._check_waypoints(chunk)
            answered = published(chunk.state_seq) if published else None
            plan = build_plan(chunk, next_setpoint_s, current, next_index, self.limits, interpolation, answered)
        except PlanRefused as refusal:
            return Verdict(chunk.trace_id, False, refusal.reason.value, refusal.detail), None
        verdict = self.check_plan(plan, current.history_at(next_index), carried_radius_m)
        return verdict, plan if verdict.accepted else None

    def check_chunk(
        self,
        chunk: JointChunk,
        state: RobotState,
        token: int,
        last_seq: int,
        now_s: float,
        published: Callable[[int], Published | RobotState | None] | None = None,
    ) -> Verdict:
        """Protocol: finite, shape, joint order, armed and token, fresh, in order, answering a state that was published.

        `state` is the newest published state, `last_seq` the `state_seq` of the last accepted chunk (-1: none),
        `published` gives the state published with a sequence number (None: never published, or too long ago).
        """
        c, limit = self.config, ur5.DOF

        def refuse(reason: Reason, detail: str) -> Verdict:
            return Verdict(chunk.trace_id, False, reason.value, detail)

        try:
            q = np.asarray(chunk.q_rad, dtype=float)
            period_s, stamp_s = float(chunk.period_s), float(chunk.state_stamp_s)
            joint_names, seq = tuple(chunk.joint_names), int(chunk.state_seq)
        except (TypeError, ValueError, OverflowError) as error:
            return refuse(Reason.MALFORMED, f"q_rad, period_s, state_stamp_s, state_seq, joint_names: {error}")
        if not np.isfinite(q).all():
            where = np.argwhere(~np.isfinite(q))[0].tolist()
            return refuse(Reason.NOT_FINITE, f"q_rad{where}={q[tuple(where)]}")
        if not np.isfinite(period_s) or not np.isfinite(stamp_s):
            return refuse(Reason.NOT_FINITE, f"period_s={period_s}, state_stamp_s={stamp_s}")
        if q.ndim != 2 or q.shape[1] != limit or not 1 <= len(q) <= c.max_waypoints:
            return refuse(Reason.SHAPE, f"q_rad is {q.shape}, wanted (1..{c.max_waypoints}, {limit})")
        if not c.min_waypoint_period_s <= period_s <= c.max_waypoint_period_s:
            return refuse(
                Reason.MALFORMED, f"period_s={period_s}, wanted {c.min_waypoint_period_s} to {c.max_waypoint_period_s}"
            )
        if joint_names != ur5.JOINT_NAMES:
            return refuse(Reason.JOINT_ORDER, f"{list(joint_names)}, wanted {list(ur5.JOINT_NAMES)}")
        if state.mode not in MOVING_MODES:
            return refuse(Reason.NOT_ARMED, f"mode is {state.mode.value}")
        if chunk.token != token:
            return refuse(Reason.FOREIGN_TOKEN, f"token {chunk.token} is not of this arming")
        age_s = now_s - stamp_s
        if age_s > c.max_age_s:
            return refuse(Reason.EXPIRED, f"answers a state {age_s * 1e3:.1f} ms old, limit {c.max_age_s * 1e3:.0f} ms")
        if age_s < 0:
            return refuse(Reason.FROM_FUTURE, f"answers a state {-age_s * 1e3:.1f} ms in the future")
        if seq <= last_seq:
            return refuse(Reason.OUT_OF_ORDER, f"state_seq {seq} after {last_seq}")
        if seq > state.seq:
            return refuse(Reason.WRONG_OBSERVATION, f"state_seq {seq} not published yet, newest {state.seq}")
        if published is not None:
            answered = published(seq)
            if answered is None or answered.stamp_s != stamp_s:
                says = "is not known" if answered is None else f"has stamp {answered.stamp_s}"
                return refuse(Reason.WRONG_OBSERVATION, f"state_seq {seq} {says}, the chunk says {stamp_s}")
        return Verdict(chunk.trace_id, True)

    def _check_waypoints(self, chunk: JointChunk) -> None:
        """Before anything is computed from them: no way-point outside the joints' range."""
        q, limits = np.asarray(chunk.q_rad, dtype=float), self.limits
        outside = (q < limits.q_min_rad) | (q > limits.q_max_rad)
        if outside.any():
            k, j = np.argwhere(outside)[0]
            raise PlanRefused(Reason.POSITION, f"way-point {k}: {_position(j, q[k, j], limits)}")

    def check_plan(self, plan: Plan, commanded_rad: np.ndarray, carried_radius_m: float | None = None) -> Verdict:
        """Motion: every set-point of a plan, continued from the last three *commanded* set-points (3, 6)."""
        limits, q = self.limits, plan.q_rad

        def refuse(reason: Reason, detail: str) -> Verdict:
            return Verdict(plan.trace_id, False, reason.value, detail)

        for name in ("q_rad", "qd_rad_s", "qdd_rad_s2", "history_rad", "qd_before_rad_s", "qdd_before_rad_s2"):
            if not np.isfinite(getattr(plan, name)).all():
                return refuse(Reason.NOT_FINITE, f"{name} of the plan")
        gap = np.abs(plan.history_rad - commanded_rad)
        if not gap.max() <= _HISTORY_TOLERANCE_RAD:
            j = int(np.argmax(gap.max(axis=0)))
            return refuse(Reason.CONTINUITY, f"{ur5.JOINT_NAMES[j]} starts {gap[:, j].max():.2e} rad off the commanded")
        outside = (q < limits.q_min_rad) | (q > limits.q_max_rad)
        if outside.any():
            i, j = np.argwhere(outside)[0]
            return refuse(Reason.POSITION, f"set-point {i}: {_position(j, q[i, j], limits)}")
        points = np.concatenate([commanded_rad, q, np.repeat(q[-1:], HISTORY, axis=0)])
        differences = setpoint_differences(points, plan.period_s)
        for reason, values in differences.items():
            over = np.abs(values) > _limit(limits, reason)
            if over.any():
                i, j = np.argwhere(over)[0]
                limit = f"limit {_limit(limits, reason)[j]:g}"
                text = f"set-point {i}: {ur5.JOINT_NAMES[j]} {values[i, j]:.3f} {_UNITS[reason]}, {limit}"
                return refuse(Reason.CONTINUITY, f"{reason.value} at {text}") if i == 0 else refuse(reason, text)
        if plan.qd_rad_s[-1].any() or plan.qdd_rad_s2[-1].any():
            return refuse(Reason.STOP_INADMISSIBLE, "the plan does not end at rest")
        links = kinematics.link_transforms(q)
        tool = links[:, -1, :3, 3] + links[:, -1, :3, 2] * ur5.TOOL_LENGTH_M
        outside = (tool < limits.tool_min_m) | (tool > limits.tool_max_m)
        if outside.any():
            i, axis = np.argwhere(outside)[0]
            low, high = limits.tool_min_m[axis], limits.tool_max_m[axis]
            return refuse(
                Reason.WORKSPACE, f"set-point {i}: tool {'xyz'[axis]} {tool[i, axis]:.4f} m, box {low} to {high}"
            )
        near = collision.path_clearance(
            q, links, self.min_clearance_m, self.config.collision_stride, carried_radius_m
        )
        if near.clearance_m < self.min_clearance_m:
            return refuse(
                Reason.SELF_COLLISION,
                f"set-point {near.index}: {' - '.join(near.pair)} {near.clearance_m * 1e3:.1f} mm, "
                f"limit {self.min_clearance_m * 1e3:.1f} mm",
            )
        stoppable = stop_admissible(points, plan.period_s, limits, until_failure=True)[: len(q)]
        if not stoppable.all():
            i = int(np.argmin(stoppable))
            return refuse(
                Reason.STOP_INADMISSIBLE, f"set-point {i}: no stop along the path within {limits.max_stop_s} s"
            )
        return Verdict(plan.trace_id, True)

    def check_cycle(
        self,
        commanded_s: np.ndarray,
        commanded_rad: np.ndarray,
        measured_rad: np.ndarray,
        measured_s: float,
        lag_s: float,
    ) -> Verdict:
        """At run time: |commanded(measured_s - lag_s) - measured|, against a bound that grows with the commanded speed.

        `commanded_s` (M,) ascending times and `commanded_rad` (M, 6) of the set-points sent.
        """
        measured = np.asarray(measured_rad, dtype=float)
        if measured.shape != (ur5.DOF,) or not np.isfinite(measured).all():
            return Verdict("", False, Reason.NOT_FINITE.value, f"measured q {measured.tolist()}")
        limits, at = self.limits, measured_s - lag_s
        times = np.array([at - limits.tracking_slack_s, at, at + limits.tracking_slack_s])
        wanted = np.stack([np.interp(times, commanded_s, commanded_rad[:, j]) for j in range(ur5.DOF)], axis=1)
        # commanded speed times the slack, as the farther of the two neighbours
        bound = limits.tracking_rad + np.abs(wanted - wanted[1]).max(axis=0)
        error = np.abs(wanted[1] - measured)
        if not (error <= bound).all():
            j = int(np.argmax(error - bound))
            return Verdict(
                "", False, Reason.TRACKING.value, f"{ur5.JOINT_NAMES[j]} {error[j]:.4f} rad off, bound {bound[j]:.4f}"
            )
        return Verdict("", True)


def _limit(limits: Limits, reason: Reason) -> np.ndarray:
    return {
        Reason.VELOCITY: limits.qd_max_rad_s,
        Reason.ACCELERATION: limits.qdd_max_rad_s2,
        Reason.JERK: limits.qddd_max_rad_s3,
    }[reason]


def _position(joint: int, value: float, limits: Limits) -> str:
    low, high = limits.q_min_rad[joint], limits.q_max_rad[joint]
    return f"{ur5.JOINT_NAMES[joint]} {value:.4f} rad, range {low:.4f} to {high:.4f}"
