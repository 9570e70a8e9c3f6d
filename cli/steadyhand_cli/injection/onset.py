"""When deceleration begins, when the arm is at rest and when it moves again, from recorded speeds. Pure.

Times are monotonic seconds, one clock for the whole machine. A trace comes from the controller's port, a sample every
8 ms: every answer is therefore late by up to one sample, never early.
"""
from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from steadyhand.errors import ConfigError
from steadyhand.watchdog import REST_SPEED_RAD_S, REST_TIME_S

MOVING_RAD_S = 0.05  # slower than this before the event: there was no motion to stop
STEADY_BASE_S = 0.3  # of steady motion before the event, from which its noise is measured
FLOOR_RAD_S = 1e-3  # a fall smaller than this is not called one, however quiet the trace
RISE_SHARE, RISE_RAD_S = 0.05, 0.02  # a braking joint's speed may rise by so much: the path, not the command
SWING_SHARE, SWING_S = 0.2, 0.25  # the servo law swings back a little after a stop: that is no new motion
GAP_S = 0.05  # no sample for this long: nothing is known in between


@dataclass(frozen=True)
class Trace:
    """Samples of the port: reception times (N,), commanded and measured joint speeds (N, 6) in rad/s."""

    t_s: np.ndarray
    target_qd_rad_s: np.ndarray
    actual_qd_rad_s: np.ndarray

    def __post_init__(self) -> None:
        n = len(self.t_s)
        for name in ("target_qd_rad_s", "actual_qd_rad_s"):
            value = getattr(self, name)
            if value.ndim != 2 or len(value) != n:
                raise ConfigError(f"trace {name}: shape {value.shape}, wanted ({n}, joints)")
        if n and (np.diff(self.t_s) < 0).any():
            raise ConfigError("trace t_s: times fall")

    def between(self, start_s: float, end_s: float = math.inf) -> Trace:
        """Samples received in [start_s, end_s]."""
        keep = (self.t_s >= start_s) & (self.t_s <= end_s)
        return Trace(self.t_s[keep], self.target_qd_rad_s[keep], self.actual_qd_rad_s[keep])

    @property
    def target_speed(self) -> np.ndarray:
        """(N,) length of the commanded joint velocity: falls in proportion when time is scaled."""
        return np.linalg.norm(self.target_qd_rad_s, axis=1)

    @property
    def actual_speed(self) -> np.ndarray:
        """(N,) speed of the fastest joint, as rest is defined."""
        return np.abs(self.actual_qd_rad_s).max(axis=1) if len(self.t_s) else np.zeros(0)

    def longest_gap_s(self) -> float:
        """Longest time between two samples."""
        return float(np.diff(self.t_s).max()) if len(self.t_s) > 1 else math.inf


def speed_at(trace: Trace, at_s: float) -> float:
    """Commanded speed of the last sample up to `at_s`; NaN when there is none."""
    before = np.flatnonzero(trace.t_s <= at_s)
    return float(trace.target_speed[before[-1]]) if len(before) else math.nan


def steady_fall_s(trace: Trace, event_s: float, sigmas: float = 6.0) -> float:
    """Time of the first sample after `event_s` at which a motion that was steady before falls for good.

    The motion may still creep towards its speed, so the level is that of the last 40 ms before, and the noise that of
    the changes from sample to sample over 0.3 s: threshold `sigmas` of it below the level, at least 1 mrad/s. NaN when
    the arm was not moving steadily (a spread above a tenth of the speed) or comes to no standstill.
    """
    base = trace.between(event_s - STEADY_BASE_S, event_s).target_speed
    if len(base) < 10 or base.mean() < MOVING_RAD_S or base.std() > 0.1 * base.mean():
        return math.nan
    threshold = base[-5:].mean() - max(FLOOR_RAD_S, sigmas * np.diff(base).std() / math.sqrt(2))
    return _last_above_s(_to_standstill(trace, event_s), threshold)


def descent_s(trace: Trace, event_s: float) -> float:
    """Time at which the descent to the first standstill after `event_s` begins, for any motion.

    The descent reaches back to where speed last rose by more than a twentieth (and 0.02 rad/s); it begins when 2 % of
    its greatest speed are lost. A rise to less than a fifth of the speed a quarter of a second before is the swing of
    the servo law, which is part of the descent. NaN without a standstill. A motion that was ending by itself begins to end at once.
    """
    part = _to_standstill(trace, event_s)
    speed = part.target_speed
    peak, start = 0.0, len(speed)
    for start in range(len(speed) - 1, -1, -1):
        before = speed[(part.t_s >= part.t_s[start] - SWING_S) & (part.t_s <= part.t_s[start])]
        if speed[start] < peak - (RISE_RAD_S + RISE_SHARE * peak) and peak > SWING_SHARE * before.max():
            break  # it rose from here to the peak: the descent began after
        peak = max(peak, speed[start])
    if not len(speed):
        return math.nan
    if peak < FLOOR_RAD_S:
        return event_s  # it stood already
    return max(event_s, _last_above_s(part.between(part.t_s[start]), 0.98 * peak - FLOOR_RAD_S))


def _to_standstill(trace: Trace, event_s: float) -> Trace:
    """Samples after `event_s` up to the first one that commands no motion; none when there is no such one."""
    part = trace.between(np.nextafter(event_s, math.inf))
    still = np.flatnonzero(part.target_speed < FLOOR_RAD_S)
    return part.between(-math.inf, part.t_s[still[0]] if len(still) else -math.inf)


def _last_above_s(part: Trace, threshold: float) -> float:
    """Time of the sample after the last one above `threshold`; NaN when there is none."""
    above = np.flatnonzero(part.target_speed > threshold)
    first = int(above[-1]) + 1 if len(above) else 0
    return float(part.t_s[first]) if first < len(part.t_s) else math.nan


def setpoints_end_s(trace: Trace, event_s: float) -> float:
    """Time at which the set-points begin to slow down to a standstill after `event_s`, or cease while still moving.

    `trace`: of the set-points that arrived. What comes after a pause of 50 ms counts for nothing: they had ceased, and
    the program stops by itself. NaN when they go on.
    """
    part = trace.between(event_s)
    pauses = np.flatnonzero(np.diff(part.t_s, prepend=event_s) > GAP_S)
    part = part.between(-math.inf, part.t_s[pauses[0] - 1] if pauses[0] else -math.inf) if len(pauses) else part
    if not len(part.t_s):
        return event_s  # none came any more
    began = descent_s(part, event_s)
    return float(part.t_s[-1]) if math.isnan(began) and part.target_speed[-1] > FLOOR_RAD_S else began


def accelerating(trace: Trace, at_s: float) -> bool:
    """Whether the commanded speed was still rising: by more than 2 % in the last 40 ms."""
    speed = trace.between(at_s - 0.04, at_s).target_speed
    return len(speed) > 1 and bool(speed[-1] > 1.02 * speed[0] + FLOOR_RAD_S)


def rest_s(trace: Trace, event_s: float) -> float:
    """When rest began: measured speed below 0.01 rad/s from here on for 100 ms without a gap. NaN: not in the trace."""
    part = trace.between(event_s)
    speed, t = part.actual_speed, part.t_s
    since = None
    for i in range(len(t)):
        if not speed[i] < REST_SPEED_RAD_S or (i and t[i] - t[i - 1] > GAP_S):
            since = t[i] if speed[i] < REST_SPEED_RAD_S else None
        elif since is None:
            since = t[i]
        if since is not None and t[i] - since >= REST_TIME_S:
            return float(since)
    return math.nan


def greatest_rise(speed: np.ndarray) -> float:
    """Greatest rise of a speed (N,) above what it had fallen to before: a tail that dies away has none."""
    return float((speed - np.minimum.accumulate(speed)).max()) if len(speed) else 0.0


def moves_s(trace: Trace, after_s: float, above_rad_s: float = MOVING_RAD_S) -> float:
    """First sample after `after_s` with a commanded speed above the limit; NaN when there is none."""
    part = trace.between(after_s)
    found = np.flatnonzero(part.target_speed > above_rad_s)
    return float(part.t_s[found[0]]) if len(found) else math.nan
