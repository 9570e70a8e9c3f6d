"""Contact from motor currents: the low-passed difference of actual and target current beyond what friction explains.

Thresholds come from recordings of a real UR5 without contact (NTNU 2013, runs No1, No5, No8, No9 without disturbance):
the greatest low-passed residual there, 5 % added. While the target itself is cut abruptly the current saturates (same
recordings, No6), so the detector is blind for `BLIND_S` after a target acceleration above `ABRUPT_RAD_S2`; it says so.
"""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from steadyhand import ur5
from steadyhand.config import check_ranges, described

THRESHOLD_A = np.array([1.61, 1.37, 0.98, 0.50, 0.36, 0.58])
ABRUPT_RAD_S2 = 8.0
BLIND_S = 0.30  # J1's oscillation after a cut has settled (0.25 s in No6)


@dataclass(frozen=True)
class ContactConfig:
    """Filter and hysteresis of the detector."""

    time_constant_s: float = described(0.05, "low-pass of the current residual", "s", 0.005, 1.0)
    release_share: float = described(0.7, "share of the threshold below which a contact has ended", "", 0.1, 1.0)
    min_duration_s: float = described(0.04, "shorter excursions are not contacts", "s", 0.0, 1.0)

    def __post_init__(self) -> None:
        check_ranges(self)


@dataclass(frozen=True)
class Contact:
    """One contact: when, on which joint it was strongest, and by how much."""

    start_s: float
    end_s: float
    joint: str
    peak_a: float  # residual current, signed
    threshold_a: float


def residual(current_a: np.ndarray, target_a: np.ndarray, time_s: np.ndarray, time_constant_s: float) -> np.ndarray:
    """Low-passed residual (N, 6) of currents (N, 6) at times (N,): first order, exact for varying steps."""
    raw = np.asarray(current_a) - np.asarray(target_a)
    out = np.empty_like(raw, dtype=float)
    out[0] = raw[0]
    keep = np.exp(-np.diff(time_s) / time_constant_s)
    for k in range(1, len(raw)):
        out[k] = keep[k - 1] * out[k - 1] + (1.0 - keep[k - 1]) * raw[k]
    return out


def blind(qdd_target_rad_s2: np.ndarray, time_s: np.ndarray) -> np.ndarray:
    """(N,) where the detector cannot judge: during and shortly after an abrupt change of the target."""
    abrupt = np.abs(qdd_target_rad_s2).max(axis=1) > ABRUPT_RAD_S2
    times = np.where(abrupt, time_s, -np.inf)
    return time_s - np.maximum.accumulate(times) <= BLIND_S


def contacts(
    time_s: np.ndarray,
    current_a: np.ndarray,
    target_current_a: np.ndarray,
    qdd_target_rad_s2: np.ndarray,
    config: ContactConfig = ContactConfig(),
) -> tuple[list[Contact], float]:
    """Contacts in a recording, and the time (s) for which the detector was blind. Arrays (N,), (N, 6)."""
    filtered = residual(current_a, target_current_a, time_s, config.time_constant_s)
    cannot = blind(qdd_target_rad_s2, time_s)
    ratio = np.where(cannot[:, None], 0.0, np.abs(filtered) / THRESHOLD_A)
    strongest = ratio.max(axis=1)
    found, start = [], None
    for k in range(len(time_s)):
        if start is None and strongest[k] > 1.0:
            start = k
        elif start is not None and (strongest[k] < config.release_share or k == len(time_s) - 1):
            if time_s[k] - time_s[start] >= config.min_duration_s:
                found.append(_contact(start, k, time_s, filtered, ratio))
            start = None
    step_s = float(np.median(np.diff(time_s))) if len(time_s) > 1 else 0.0
    return found, float(cannot.sum() * step_s)


def _contact(start: int, end: int, time_s: np.ndarray, filtered: np.ndarray, ratio: np.ndarray) -> Contact:
    at, joint = np.unravel_index(np.argmax(ratio[start:end]), ratio[start:end].shape)
    return Contact(
        float(time_s[start]), float(time_s[end]), ur5.JOINT_NAMES[joint], float(filtered[start + at, joint]),
        float(THRESHOLD_A[joint]),
    )
