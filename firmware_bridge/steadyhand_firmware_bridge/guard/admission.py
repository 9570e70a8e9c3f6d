"""Judging a chunk: who may command what in which mode, then the gate. A refused chunk leaves the plan in force (I4)."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from steadyhand.guard_protocol import Chunk
from steadyhand.guard_state import GuardState
from steadyhand.interpolator import InterpolatorConfig
from steadyhand.limits import Limits
from steadyhand.plan import Plan, Published
from steadyhand.protocols import Feedback
from steadyhand.safety_gate import GateConfig, SafetyGate
from steadyhand.types import JointChunk, Mode, Reason, RobotState
from steadyhand_firmware_bridge.guard.config import SOURCES, GuardConfig
from steadyhand_firmware_bridge.guard.motion import Motion
from steadyhand_firmware_bridge.guard.recovering import Recovering

STATES_KEPT = 128  # published states that an action may still answer: over 100 ms at 500 Hz


@dataclass(frozen=True)
class Judgement:
    """A plan, or a reason. `waypoints_end_s`: when the last way-point is due, `end_speed_rad_s`: its greatest speed."""

    plan: Plan | None
    reason: Reason = Reason.MALFORMED
    detail: str = ""
    waypoints_end_s: float = 0.0
    end_speed_rad_s: float = 0.0


class Admission:
    """Remembers what was published and what was accepted, so that an action can be matched to its observation."""

    def __init__(self, config: GuardConfig, limits: Limits, period_s: float):
        self.config, self.limits = config, limits
        self._gate_config = GateConfig(max_age_s=config.chunk_age_s)
        self.gate = SafetyGate(limits, self._gate_config)
        self._recovering = Recovering(limits, self._gate_config, config.recover_speed_rad_s)
        self._interpolation = InterpolatorConfig(period_s=period_s)
        self._published: list[tuple[int, Published | None]] = [(-1, None)] * STATES_KEPT
        self._newest = -1
        self._last_seq = -1

    def published(self, seq: int, state: Published) -> None:
        """A state went out."""
        self._published[seq % STATES_KEPT] = (seq, state)
        self._newest = seq

    def reset(self) -> None:
        """A new arming: no chunk has been accepted yet."""
        self._last_seq = -1
        self._recovering.reset()

    def judge(
        self,
        chunk: Chunk,
        state: GuardState,
        motion: Motion,
        feedback: Feedback | None,
        next_setpoint_s: float,
        now_s: float,
    ) -> Judgement:
        """Everything that a chunk must pass before one set-point of it may move the robot."""
        if motion.plan is None or feedback is None or not state.armed:
            return Judgement(None, Reason.NOT_ARMED, f"mode is {state.mode.value}")
        if chunk.source not in SOURCES:
            detail = f"source {chunk.source[:20]!r}, wanted one of {', '.join(SOURCES)}"
            return Judgement(None, Reason.MALFORMED, detail)
        if chunk.source == "policy" and state.mode is not Mode.ARMED_AUTO:
            return Judgement(None, Reason.NOT_ARMED, f"source policy needs AUTO, mode is {state.mode.value}")
        if chunk.source == "manual" and state.mode is Mode.ARMED_AUTO:
            detail = f"source manual needs MANUAL or RECOVERING, mode is {state.mode.value}: take over first"
            return Judgement(None, Reason.NOT_ARMED, detail)
        gate = self.gate if state.mode is not Mode.RECOVERING else self._recovering.gate(motion.q_rad)
        robot_state = RobotState(
            stamp_s=now_s, seq=self._newest, token=state.token, mode=state.mode,
            q_rad=feedback.q_rad, qd_rad_s=feedback.qd_rad_s,
            q_commanded_rad=motion.q_rad, qd_commanded_rad_s=motion.qd_rad_s,
            gripper_width_m=feedback.gripper_width_m, gripper_commanded_m=feedback.gripper_commanded_m,
            at_rest=False,
        )  # fmt: skip
        proposal = JointChunk(
            token=chunk.token, state_seq=chunk.state_seq, state_stamp_s=chunk.state_stamp_s, trace_id=chunk.trace_id,
            source=chunk.source, joint_names=tuple(chunk.joint_names), period_s=chunk.period_s,
            q_rad=_array(chunk.q_rad),
        )  # fmt: skip
        verdict, plan = gate.admit(
            proposal, robot_state, state.token, self._last_seq, now_s, next_setpoint_s, motion.plan, motion.index,
            self._interpolation, self._answered,
        )  # fmt: skip
        if plan is None:
            return Judgement(None, Reason(verdict.reason), verdict.detail)
        self._last_seq = chunk.state_seq
        q = proposal.q_rad
        end_speed = float(np.abs(q[-1] - q[-2]).max()) / chunk.period_s if len(q) > 1 else 0.0
        return Judgement(
            plan, waypoints_end_s=chunk.state_stamp_s + len(q) * chunk.period_s, end_speed_rad_s=end_speed
        )

    def _answered(self, seq: int) -> Published | None:
        kept, state = self._published[seq % STATES_KEPT]
        return state if kept == seq else None


def _array(rows: list) -> np.ndarray | list:
    """(N, 6) array; ragged rows stay a list, which the gate refuses by name."""
    try:
        return np.asarray(rows, dtype=float)
    except (TypeError, ValueError, OverflowError):
        return rows
