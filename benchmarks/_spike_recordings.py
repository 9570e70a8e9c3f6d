"""Recordings of a real UR5 for `spikes`: channels by kind, what the detector is set on and what it is judged on."""
from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from steadyhand import ur5
from steadyhand.errors import ConfigError
from steadyhand.impulse import ImpulseConfig, prediction_weights

TUNING = (
    "Movement_No1", "Movement_No5_Acc_slow_no_disturbance", "Movement_No5_Acc_slow_w_disturbance",
    "Movement_No6_Acc_slow_Verify_Model", "Movement_No8_Singularity_Free_1", "Movement_No9_Singularity_Free_NoDist",
    "TEST",
)
JUDGED = "Movement_No3_Acc"  # the fast one: 3.5 rad/s, 25 rad/s2
UNSEEN = "Movement_No9_Singularity_Free_ForceSensor"  # slow, touched by hand; looked at by nobody before it was judged
RECEIVE_TIMES = ("Movement_No1", "Movement_No3_Acc")  # stamped on receipt: their intervals are put on the 8 ms grid
JOINT_KINDS = {"position": "q_actual", "velocity": "qd_actual", "current": "i_actual"}
IMU_KINDS = {"acceleration": slice(0, 3), "rate": slice(3, 6)}  # columns of `acc`
KINDS = (*JOINT_KINDS, *IMU_KINDS)
# A slow recording of which every second or third sample is kept is one of a motion two or three times as fast.
FASTER = (1, 2, 3)
FALSE_ALARMS = 0.01


@dataclass(frozen=True)
class Channels:
    """Readings (T, C) of one kind in one recording, and their stamps (T,), ascending."""

    stamp_s: np.ndarray
    values: np.ndarray


def load(folder: Path, name: str) -> dict[str, Channels]:
    """Channels by kind; the recordings of the IMU are of some runs only. ConfigError when the file is not there."""
    path = folder / "ur5_ntnu_2013" / f"{name}.npz"
    if not path.is_file():
        raise ConfigError(f"recording {path}: not there; give the folder that holds ur5_ntnu_2013 (--data)")
    found = {}
    with np.load(path) as file:
        stamp_s = file["t"].astype(float)
        if name in RECEIVE_TIMES:
            cycles = np.maximum(1, np.rint(np.diff(stamp_s) / ur5.SERVO_PERIOD_CB3_S))
            stamp_s = ur5.SERVO_PERIOD_CB3_S * np.concatenate([[0.0], np.cumsum(cycles)])
        for kind, key in JOINT_KINDS.items():
            found[kind] = Channels(stamp_s, file[key].astype(float))
        if "acc" in file.files:
            stamp_s = file["acc_t"].astype(float)
            later = np.concatenate([[True], np.diff(stamp_s) > 0])  # the source repeats some stamps
            for kind, columns in IMU_KINDS.items():
                found[kind] = Channels(stamp_s[later], file["acc"][later, columns].astype(float))
    return found


def noise_of(recordings: list[dict[str, Channels]]) -> dict[str, np.ndarray]:
    """Kind -> (C,) standard deviation of the differences of adjacent samples, all recordings together."""
    return {
        kind: np.concatenate([np.diff(r[kind].values, axis=0) for r in recordings if kind in r]).std(axis=0)
        for kind in KINDS
    }


def faster(channels: Channels, factor: int, start: int = 0) -> Channels:
    """As if the motion had been `factor` times as fast."""
    return Channels(channels.stamp_s[start::factor], channels.values[start::factor])


def scores(channels: Channels, config: ImpulseConfig) -> np.ndarray:
    """(T - 4, C) what `ImpulseDetector` makes of readings with a threshold that none reaches; all at once, for speed.

    A test holds it against the detector itself.
    """
    stamp_s, x = channels.stamp_s, channels.values
    k = np.arange(2, len(x) - 2)
    weights = np.array([prediction_weights(stamp_s[i - 2 : i + 3]) for i in k])
    around = np.stack([x[k + offset] for offset in (-2, -1, 1, 2)], axis=1)
    predictions = weights @ around  # (T - 4, 5, C)
    residual = np.abs(x[k] - np.median(predictions, axis=1))
    recent = np.zeros_like(residual)
    for i in range(1, config.recent_samples):
        recent[i] = np.median(residual[:i], axis=0)
    windows = np.lib.stride_tricks.sliding_window_view(residual, config.recent_samples, axis=0)
    recent[config.recent_samples :] = np.median(windows[:-1], axis=2)
    scale = np.asarray(config.noise_std) + 1.4826 * config.recent_gain * recent
    scale = scale + config.disagreement_gain * np.ptp(predictions, axis=1)
    share = ((stamp_s[1:-1] - stamp_s[:-2]) / (stamp_s[2:] - stamp_s[:-2]))[:, None]
    off_line = np.abs(x[1:-1] - x[:-2] - share * (x[2:] - x[:-2]))
    nearest = np.abs(predictions - x[k][:, None]).min(axis=1)
    return np.where((off_line[1:-1] >= off_line[2:]) & (nearest >= 0.1 * residual), residual / scale, 0.0)


def thresholds_of(recordings: list[dict[str, Channels]], noise_std: dict[str, np.ndarray]) -> dict[str, float]:
    """Kind -> score with 1 % false alarms over all recordings, as they are or made faster, whichever asks for more."""
    found = {}
    for kind in KINDS:
        asked = []
        for factor in FASTER:
            pooled = [
                scores(faster(r[kind], factor, start), ImpulseConfig(tuple(noise_std[kind]))).ravel()
                for r in recordings if kind in r for start in range(factor)
            ]
            asked.append(float(np.quantile(np.concatenate(pooled), 1 - FALSE_ALARMS)))
        found[kind] = max(asked)
    return found
