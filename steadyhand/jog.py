"""Manual jogging: a velocity command becomes a short chunk of joint way-points, which the gate judges like any other.

Pure. `Jog.step` is called with each new guard state; it answers with a chunk at most every `send_s`. Speeds are
limited, velocity changes at most by `acceleration_rad_s2` (so that way-points stay what the interpolator can follow),
joints and tool slow down before their limits, and Cartesian motion slows down before a singularity and halts at it, by
the condition number of the tool's Jacobian (m and rad mixed): slow from 17, halt at 30, the values that MoveIt Servo
publishes. Away from a singularity is always free.

A stream of commands is expected, zeros included: a released stick sends zeros and the arm comes to rest armed. A stream
that falls silent for `timeout_s` gets no more chunks: the chunk's own tail brakes, and the guard stops (S1).
"""
from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from steadyhand import kinematics, ur5
from steadyhand.config import check_ranges, described
from steadyhand.errors import SteadyhandError
from steadyhand.limits import UR5_LIMITS, Limits
from steadyhand.types import JointChunk, Mode, RobotState, Verdict

FRAMES = ("base_link", "tool")
# MoveIt Servo: lower_singularity_threshold, hard_stop_singularity_threshold
CONDITION_SLOW, CONDITION_HALT = 17.0, 30.0
MODES = (Mode.ARMED_MANUAL, Mode.RECOVERING)
SUBSTEP_S = 0.01


class JogRefused(SteadyhandError):
    """A command that cannot be used; the message names field and value."""


@dataclass(frozen=True)
class JogConfig:
    """Speeds of manual motion; the gate's limits hold besides."""

    joint_rad_s: float = described(0.5, "greatest joint speed", "rad/s", 0.01, 1.5)
    linear_m_s: float = described(0.25, "greatest speed of the tool", "m/s", 0.005, 0.25)
    angular_rad_s: float = described(0.5, "greatest turning speed of the tool", "rad/s", 0.01, 1.0)
    recover_rad_s: float = described(0.07, "greatest joint speed in RECOVERING", "rad/s", 0.01, 0.08)
    acceleration_rad_s2: float = described(2.0, "greatest joint acceleration", "rad/s2", 0.1, 4.0)
    margin_rad: float = described(0.02, "distance kept from joint limits", "rad", 0.0, 0.2)
    margin_m: float = described(0.005, "distance kept from the tool's box", "m", 0.0, 0.1)
    timeout_s: float = described(0.100, "silence of the command stream that ends the chunks", "s", 0.02, 0.1)
    send_s: float = described(0.038, "time between chunks", "s", 0.015, 0.09)
    period_s: float = described(0.040, "time between way-points", "s", 0.02, 0.1)
    waypoints: int = described(5, "way-points of a chunk", "", 3, 16)

    def __post_init__(self) -> None:
        check_ranges(self)


@dataclass(frozen=True)
class JogCommand:
    """A wanted velocity. `joint`: `values` (6,) rad/s. Else a twist (vx vy vz wx wy wz) of the tool in `frame`."""

    stamp_s: float  # monotonic, when it arrived
    values: tuple[float, ...]
    joint: bool = False
    frame: str = "base_link"

    def __post_init__(self) -> None:
        if len(self.values) != 6 or not all(isinstance(v, (int, float)) and math.isfinite(v) for v in self.values):
            raise JogRefused(f"jog values {list(self.values)[:8]}: give six finite numbers")
        if not math.isfinite(self.stamp_s):
            raise JogRefused(f"jog stamp_s {self.stamp_s}: give a finite time")
        if not self.joint and self.frame not in FRAMES:
            raise JogRefused(f"jog frame {self.frame[:40]!r}: give one of {', '.join(FRAMES)}")


@dataclass(frozen=True)
class JogStep:
    """`status` is empty, or says what holds the arm back; `scale` the share of the wanted speed that is given."""

    chunk: JointChunk | None = None
    status: str = ""
    scale: float = 1.0
    condition: float = 0.0


class Jog:
    """One operator's jogging. `prefix` makes trace ids unique; `limits` are those of the gate."""

    def __init__(self, prefix: str, config: JogConfig = JogConfig(), limits: Limits = UR5_LIMITS):
        self.config, self.limits = config, limits
        self._prefix, self._number = prefix, 0
        self._sent_s = -math.inf
        self._token = 0
        self._blocked: JogCommand | None = None  # what the gate refused, until the command changes or is let go
        self._last: JogCommand | None = None

    def step(self, state: RobotState, command: JogCommand | None, now_s: float) -> JogStep:
        """The next chunk, or why there is none. `state` must be the newest; `now_s` is the clock of its stamps."""
        if state.token != self._token:
            self._token, self._sent_s, self._blocked = state.token, -math.inf, None
        if state.mode not in MODES:
            return JogStep(status=f"not in manual mode ({state.mode.value})")
        if state.stamp_s - self._sent_s < self.config.send_s:
            return JogStep()
        silent = command is None or now_s - command.stamp_s > self.config.timeout_s
        moving = bool(np.abs(state.qd_commanded_rad_s).max() > 1e-3)
        if silent:  # no more chunks: silence is a stop
            return JogStep(status=f"no command for {self.config.timeout_s * 1e3:.0f} ms")
        if self._blocked is not None and not self._same_way(command):
            self._blocked = None
        wanted = self._clipped(command)
        if self._blocked is not None:
            wanted = np.zeros(6)
        if not moving and not wanted.any():
            return JogStep(status="refused by the gate: go another way" if self._blocked else "")
        q, scale, condition, status = self._integrate(state, command, wanted)
        self._number += 1
        self._sent_s, self._last = state.stamp_s, command
        chunk = JointChunk(
            token=state.token, state_seq=state.seq, state_stamp_s=state.stamp_s,
            trace_id=f"{self._prefix}-{self._number}", source="manual", joint_names=ur5.JOINT_NAMES,
            period_s=self.config.period_s, q_rad=q,
        )  # fmt: skip
        status = "refused by the gate: go another way" if self._blocked is not None else status
        return JogStep(chunk, status, scale, condition)

    def on_verdict(self, verdict: Verdict) -> None:
        """A refused chunk: brake, and go no further that way until the command changes."""
        if not verdict.accepted and verdict.trace_id.startswith(f"{self._prefix}-"):
            self._blocked = self._last

    # -- parts --------------------------------------------------------------------------------------------------------
    def _same_way(self, command: JogCommand) -> bool:
        """Whether a command still asks for what was refused: same kind and less than 60 degrees away."""
        before = self._blocked
        if (command.joint, command.frame) != (before.joint, before.frame):
            return False
        a, b = np.array(command.values), np.array(before.values)
        return float(a @ b) > 0.5 * float(np.linalg.norm(a) * np.linalg.norm(b)) > 0.0

    def _clipped(self, command: JogCommand) -> np.ndarray:
        """The wanted velocity (6,), shortened to the greatest speeds with its direction kept."""
        v, c = np.array(command.values, dtype=float), self.config
        if command.joint:
            return v / max(1.0, float(np.abs(v).max()) / c.joint_rad_s)
        return v / max(1.0, float(np.linalg.norm(v[:3])) / c.linear_m_s, float(np.linalg.norm(v[3:])) / c.angular_rad_s)

    def _integrate(self, state: RobotState, command: JogCommand, wanted: np.ndarray):
        """Way-points (N, 6) from the commanded state on, with the least scale, the condition number and a status."""
        c = self.config
        q, qd = state.q_commanded_rad.copy(), state.qd_commanded_rad_s.copy()
        substeps = max(1, round(c.period_s / SUBSTEP_S))
        dt = c.period_s / substeps
        # gently in RECOVERING: the interpolator's hand-over overshoots a ramp, and 0.1 rad/s is a limit of the gate
        change = dt * (10 * c.recover_rad_s if state.mode is Mode.RECOVERING else c.acceleration_rad_s2)
        rows, least, first_condition, status = [], 1.0, 0.0, ""
        for k in range(c.waypoints):
            for _ in range(substeps):
                target, scale, condition, why = self._joint_velocity(q, command, wanted, state.mode)
                first_condition = first_condition or condition
                if scale < least:
                    least, status = scale, why
                step = target - qd  # towards it along a straight line, so that the direction is kept
                qd = qd + step * min(1.0, change / max(float(np.abs(step).max()), 1e-12))
                q = q + qd * dt
            rows.append(q)
        return np.stack(rows), least, first_condition, status

    def _joint_velocity(self, q: np.ndarray, command: JogCommand, wanted: np.ndarray, mode: Mode):
        """(qd (6,), scale, condition number, what limits it) at a configuration."""
        c = self.config
        jacobian = kinematics.jacobian(q)
        condition = float(np.linalg.cond(jacobian))
        scale, status = 1.0, ""
        if command.joint:
            qd = wanted
        else:
            twist = wanted
            if command.frame == "tool":
                rotation = kinematics.pose_base_link_tool(q)[:3, :3]
                twist = np.concatenate([rotation @ wanted[:3], rotation @ wanted[3:]])
            qd = _damped(jacobian, twist)
            if condition > CONDITION_SLOW and twist.any():
                ahead = float(np.linalg.cond(kinematics.jacobian(q + qd * 0.02)))
                if ahead >= condition:
                    scale = min(1.0, max(0.0, (CONDITION_HALT - condition) / (CONDITION_HALT - CONDITION_SLOW)))
                    status = f"singularity near: condition number {condition:.0f}"
        fastest = c.recover_rad_s if mode is Mode.RECOVERING else c.joint_rad_s
        peak = float(np.abs(qd).max())
        if peak * scale > fastest:
            scale, status = fastest / peak, status or f"joint speed limit {fastest:.2f} rad/s"
        if mode is not Mode.RECOVERING:
            limited, why = self._near_limits(q, qd * scale, jacobian)
            if limited < 1.0:
                scale, status = scale * limited, why
        return qd * scale, scale, condition, status

    def _near_limits(self, q: np.ndarray, qd: np.ndarray, jacobian: np.ndarray) -> tuple[float, str]:
        """Share of `qd` from which every joint and the tool can stop before its limit: v^2 <= 2 a d."""
        c, limits = self.config, self.limits
        slow = 0.5 * c.acceleration_rad_s2  # leaves room for the ramp of the velocity itself
        tool, v = kinematics.pose_base_link_tool(q)[:3, 3], jacobian[:3] @ qd
        scale, why = 1.0, ""
        sides = (
            (qd, q, limits.q_min_rad, limits.q_max_rad, c.margin_rad, slow, ur5.JOINT_NAMES),
            (v, tool, limits.tool_min_m, limits.tool_max_m, c.margin_m, 0.5 * slow, ("tool x", "tool y", "tool z")),
        )
        for speed, at, low, high, margin, deceleration, names in sides:
            left = np.where(speed > 0, high - at, at - low) - margin
            allowed = np.sqrt(2 * deceleration * np.maximum(left, 0.0))
            share = np.where(np.abs(speed) > 1e-6, allowed / np.maximum(np.abs(speed), 1e-9), 1.0)
            k = int(np.argmin(share))
            if share[k] < scale:
                scale, why = float(share[k]), f"{names[k]} near its limit"
        return scale, why


def _damped(jacobian: np.ndarray, twist: np.ndarray, damping: float = 1e-3) -> np.ndarray:
    """Joint velocity of a twist, damped least squares (Nakamura and Hanafusa 1986)."""
    return jacobian.T @ np.linalg.solve(jacobian @ jacobian.T + damping**2 * np.eye(6), twist)
