"""Way-points at the policy's rate -> a committed plan at the control period: spline, blend, stop tail.

Three fixed linear filters of the path, and no clamp; what comes out is judged by the gate:
1. *Uniform cubic B-spline* with the way-points as control points (de Boor 1978). C2, no overshoot; its velocity and
   acceleration are convex combinations of the way-points' first and second differences. It passes a way-point at
   (q[k-1] + 4 q[k] + q[k+1]) / 6, that is period^2 * acceleration / 6 away (0.4 mm at 1 m/s2 and 50 ms). Before the
   first and after the last way-point the polygon goes on straight, so that the last one is met exactly.
2. *Quintic smoothstep blend* over `blend_s` from the plan under way (10 u^3 - 15 u^4 + 6 u^5: zero first and second
   derivative at both ends), so that commanded velocity and acceleration never step.
3. *Stop tail* behind the last way-point: jerk-limited to rest (ruckig).
"""
from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from steadyhand import ur5
from steadyhand.braking import stop_tail
from steadyhand.errors import ConfigError, SteadyhandError
from steadyhand.limits import UR5_LIMITS, Limits
from steadyhand.plan import Plan
from steadyhand.types import JointChunk, Reason

# Rows: weights of four control points for 1, u, u^2, u^3.
_BASIS = np.array([[1, 4, 1, 0], [-3, 0, 3, 0], [3, -6, 3, 0], [-1, 3, -3, 1]]) / 6.0


class PlanRefused(SteadyhandError):
    """No plan can be made of a chunk; `reason` and `detail` are those of the verdict."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason.value}: {detail}")
        self.reason, self.detail = reason, detail


@dataclass(frozen=True)
class InterpolatorConfig:
    """`period_s` is the control period, `blend_s` the length of the window in which a new plan takes over."""

    period_s: float = ur5.SERVO_PERIOD_CB3_S
    blend_s: float = 0.2

    def __post_init__(self) -> None:
        if not 0.0005 <= self.period_s <= 0.02:
            raise ConfigError(f"interpolator.period_s={self.period_s!r}: give 0.0005 to 0.02 s")
        if not 4 * self.period_s <= self.blend_s <= 1.0:
            raise ConfigError(f"interpolator.blend_s={self.blend_s!r}: give 4 control periods to 1 s")


def build_plan(
    chunk: JointChunk,
    next_setpoint_s: float,
    current: Plan,
    next_index: int,
    limits: Limits = UR5_LIMITS,
    config: InterpolatorConfig = InterpolatorConfig(),
) -> Plan:
    """The plan that a chunk asks for, its set-point 0 due at `next_setpoint_s` in place of `current[next_index]`.

    Way-points in the past shape the spline but are not returned to. `current` is the plan under way, or
    `plan.hold_plan` at standstill. The chunk must be finite and well shaped (`SafetyGate.check_chunk`). Raises
    PlanRefused when every way-point is past, or when the chunk ends faster than a joint may move.
    """
    start_s = next_setpoint_s - chunk.state_stamp_s  # of set-point 0, on the chunk's own time axis
    end_s = len(chunk.q_rad) * chunk.period_s
    if end_s <= start_s:
        raise PlanRefused(Reason.EXPIRED, f"last way-point was due {start_s - end_s:.3f} s ago")
    controls = _control_points(chunk.q_rad)
    end = tuple(x[0] for x in _spline(controls, chunk.period_s, np.array([end_s])))
    fast = np.abs(end[1]) > limits.qd_max_rad_s
    if fast.any():
        j = int(np.argmax(fast))
        raise PlanRefused(
            Reason.VELOCITY, f"{ur5.JOINT_NAMES[j]} {end[1][j]:.3f} rad/s at the last way-point, limit {limits.qd_max_rad_s[j]:.3f}"
        )
    times_s = start_s + config.period_s * np.arange(int(np.ceil((end_s - start_s) / config.period_s - 1e-9)))
    first_s = start_s + config.period_s * len(times_s) - end_s  # of the first sample of the tail, behind the spline
    spline = _spline(controls, chunk.period_s, times_s)
    tail = stop_tail(*end, limits, config.period_s, first_s)
    new = [np.concatenate(pair) for pair in zip(spline, tail)]

    window, window_d, window_dd = _smoothstep(config.blend_s, config.period_s)
    count = max(len(new[0]), len(window))
    new = [_extend(x, count, hold=i == 0) for i, x in enumerate(new)]
    old = current.rest_of(next_index, count)
    # q = old + b (new - old), and its derivatives; behind the window b = 1
    b = _extend(window, count, hold=True)[:, None]
    bd, bdd = _extend(window_d, count, hold=False)[:, None], _extend(window_dd, count, hold=False)[:, None]
    d, dd, ddd = (n - o for n, o in zip(new, old))
    before = current.state_before(next_index)
    return Plan(
        period_s=config.period_s,
        start_s=next_setpoint_s,
        q_rad=old[0] + b * d,
        qd_rad_s=old[1] + b * dd + bd * d,
        qdd_rad_s2=old[2] + b * ddd + 2 * bd * dd + bdd * d,
        history_rad=current.history_at(next_index),
        qd_before_rad_s=before[1].copy(),
        qdd_before_rad_s2=before[2].copy(),
        trace_id=chunk.trace_id,
        source=chunk.source,
        state_seq=chunk.state_seq,
    )


def _control_points(waypoints_rad: np.ndarray) -> np.ndarray:
    """(N, 6) -> (N + 3, 6): row k belongs to time (k - 1) * period; the polygon goes on straight at both ends."""
    q = np.asarray(waypoints_rad, dtype=float)
    first = q[1] - q[0] if len(q) > 1 else np.zeros_like(q[0])
    last = q[-1] - q[-2] if len(q) > 1 else first
    return np.vstack([q[0] - 2 * first, q[0] - first, q, q[-1] + last])


def _spline(controls: np.ndarray, h: float, times_s: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(q, qd, qdd) at times in [0, (len(controls) - 3) * h]."""
    segment = np.clip(np.floor(times_s / h + 1e-9).astype(int), 0, len(controls) - 4)
    u = (times_s / h - segment)[:, None]
    c = np.einsum("ij,njd->ind", _BASIS, controls[segment[:, None] + np.arange(4)])
    return (
        c[0] + u * (c[1] + u * (c[2] + u * c[3])),
        (c[1] + u * (2 * c[2] + u * 3 * c[3])) / h,
        (2 * c[2] + u * 6 * c[3]) / h**2,
    )


@lru_cache(maxsize=8)
def _smoothstep(blend_s: float, period_s: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The blend window and its derivatives at the control period; sample 0 is one period after the last set-point."""
    count = int(np.ceil(blend_s / period_s))
    u = np.arange(1, count + 1) / count
    scale = 1.0 / (count * period_s)
    return (
        u**3 * (10 + u * (-15 + 6 * u)),
        30 * u**2 * (1 - u) ** 2 * scale,
        60 * u * (1 - u) * (1 - 2 * u) * scale**2,
    )


def _extend(values: np.ndarray, count: int, hold: bool) -> np.ndarray:
    """First `count` rows; missing ones repeat the last (`hold`) or are zero."""
    missing = count - len(values)
    if missing <= 0:
        return values[:count]
    fill = values[-1:] if hold else np.zeros_like(values[-1:])
    return np.concatenate([values, np.repeat(fill, missing, axis=0)])
