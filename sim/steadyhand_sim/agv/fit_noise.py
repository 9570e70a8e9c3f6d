"""Fits `noise.json` to the recordings: `python -m steadyhand_sim.agv.fit_noise DATA_FOLDER [OUT.json]`.

The folder holds `agv_husky/husky.npz`, `agv_tricycle_encoders/tricycle.csv.gz` and `agv_tuc_labyrinth/*.csv`. The
first 60 % of the tricycle's run and every other window of the Husky's (all its turns are late) are fitted to; the rest
is what the tests hold the figures against.
"""
from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from steadyhand.errors import SteadyhandError
from steadyhand_sim.agv import tricycle_odometry
from steadyhand_sim.agv.noise import NOISE_FILE
from steadyhand_sim.agv.recordings import Husky, Labyrinth, Tricycle

FIT_SHARE = 0.6
ODOMETRY_LATE_S = 0.4  # the Husky's odometry rate is smoothed: it trails the gyro by this (largest correlation)
HEADING_WINDOW_S = 5.0
JITTER_NEIGHBOURS = 4  # samples either side of the one whose instant is asked for
MIN_SPEED_M_S, MIN_WAY_M = 0.2, 0.2
CORE_RANGE_M = 0.25  # an error above the bias by more than this counts as one round a wall


def robust_sigma(values: np.ndarray) -> float:
    """Standard deviation from the median of absolute values: a few outliers do not matter."""
    return float(np.median(np.abs(values)) / 0.6745)


def encoder_jitter_s(log: Tricycle, metres_per_tick: float) -> tuple[float, int]:
    """How far from its stamp a counter is read: distance of a sample from its neighbours' parabola, over the speed."""
    t, way, k = log.t_s, log.traction_ticks * metres_per_tick, JITTER_NEIGHBOURS
    found = []
    for i in range(k, len(t) - k):
        near = np.r_[i - k : i, i + 1 : i + k + 1]
        _, speed, here = np.polyfit(t[near] - t[i], way[near], 2)
        if abs(speed) > MIN_SPEED_M_S:
            found.append((way[i] - here) / speed)
    return robust_sigma(np.array(found)), len(found)


def heading_windows(log: Husky) -> tuple[np.ndarray, np.ndarray]:
    """Heading change (N,) by wheels minus by gyro over windows, the mean skid taken out, and way (N,) in each."""
    gyro = np.concatenate([[0.0], np.cumsum((log.gyro_rad_s[1:] + log.gyro_rad_s[:-1]) / 2 * np.diff(log.gyro_t_s))])
    wheels = np.concatenate([[0.0], np.cumsum((log.w_rad_s[1:] + log.w_rad_s[:-1]) / 2 * np.diff(log.odom_t_s))])
    way = np.concatenate([[0.0], np.cumsum(np.abs(log.v_m_s[1:]) * np.diff(log.odom_t_s))])
    at = np.arange(1.0, log.odom_t_s[-1] - HEADING_WINDOW_S - 1.0, HEADING_WINDOW_S)

    def change(t, values, late_s=0.0):
        return np.interp(at + HEADING_WINDOW_S + late_s, t, values) - np.interp(at + late_s, t, values)

    by_gyro, by_wheels = change(log.gyro_t_s, gyro), change(log.odom_t_s, wheels, ODOMETRY_LATE_S)
    driven = change(log.odom_t_s, way)
    moving = driven > MIN_WAY_M
    gain, bias = np.polyfit(by_wheels[moving], by_gyro[moving], 1)
    return (by_wheels * gain + bias - by_gyro)[moving], driven[moving]


def split(log: Tricycle, share: float = FIT_SHARE) -> tuple[Tricycle, Tricycle]:
    """What is fitted to and what is held out."""
    n = int(share * len(log.t_s))
    return tuple(
        replace(log, t_s=log.t_s[p], steer_ticks=log.steer_ticks[p], traction_ticks=log.traction_ticks[p],
                tracker=log.tracker[p])
        for p in (slice(0, n), slice(n, None))
    )  # fmt: skip


def fit(data: Path) -> dict:
    """The content of `noise.json`; raises ConfigError for an absent or malformed recording."""
    husky = Husky.load(data / "agv_husky" / "husky.npz")
    tricycle, _ = split(Tricycle.load(data / "agv_tricycle_encoders" / "tricycle.csv.gz"))
    labyrinth = Labyrinth.load(data / "agv_tuc_labyrinth")

    parameters = tricycle_odometry.calibrate(tricycle)
    jitter_s, n_jitter = encoder_jitter_s(tricycle, parameters[0])
    w = tricycle_odometry.windows(tricycle, parameters)
    moving = w.distance_m > MIN_WAY_M
    slip = float(np.std(w.along_m[moving] / np.sqrt(w.distance_m[moving])))

    still = (np.interp(husky.gyro_t_s, husky.odom_t_s, np.abs(husky.v_m_s)) < 0.005) & (
        np.interp(husky.gyro_t_s, husky.odom_t_s, np.abs(husky.w_rad_s)) < 0.005
    )
    error, way = (values[::2] for values in heading_windows(husky))

    bias = float(np.median(labyrinth.range_error_m))
    core = np.abs(labyrinth.range_error_m - bias) < CORE_RANGE_M
    rolling = labyrinth.wheel_m_s > 0.1
    scale = float(labyrinth.true_m_s[rolling].sum() / labyrinth.wheel_m_s[rolling].sum())
    outliers = labyrinth.range_error_m[~core] - bias
    return {
        "encoder": {
            "source": "Tricycle AGV, raw encoder ticks and tracker (G. Grisetti, Probabilistic Robotics, Sapienza Rome; "
                      "github.com/MichaelCorelli/Calibration_of_a_real_Robot 2393c55, Apache-2.0). Jitter: distance of a "
                      "sample from its neighbours' parabola over speed. Slip: error along the way after 2 s, over the "
                      "root of the way; the tracker's own noise is in it, so it is an upper bound.",
            "n": {"samples": n_jitter, "windows": int(moving.sum())},
            "parameters": {"encoder_jitter_s": round(jitter_s, 5), "slip_per_sqrt_m": round(slip, 4)},
        },
        "gyro": {
            "source": "Clearpath Husky, odometry and IMU (robot_localization test1.bag 1cb9533, BSD/Apache-2.0). White "
                      "noise and bias: gyro at standstill. Heading: 5 s of wheel odometry against the gyro, mean skid "
                      "taken out, over the root of the way; every other window.",
            "n": {"still_samples": int(still.sum()), "windows": len(error)},
            "parameters": {
                "gyro_white_rad_s": round(float(husky.gyro_rad_s[still].std()), 5),
                "gyro_hz": round(float(1.0 / np.median(np.diff(husky.gyro_t_s))), 2),
                "gyro_bias_rad_s": round(abs(float(husky.gyro_rad_s[still].mean())), 6),
                "heading_per_sqrt_m": round(float(np.std(error / np.sqrt(way))), 4),
            },
        },
        "range": {
            "source": "TU Chemnitz labyrinth, UWB ranges, wheel speeds, ground truth (T. Pfeifer, libRSF d54801a, CC BY-SA "
                      "4.0). Bias: median error. Sigma: robust, within 0.25 m of it. Scale: true over wheel way. These "
                      "figures are derived from that data: this entry is CC BY-SA 4.0.",
            "n": {"ranges": len(core), "speeds": int(rolling.sum())},
            "parameters": {
                "range_bias_m": round(bias, 4),
                "range_sigma_m": round(robust_sigma(labyrinth.range_error_m[core] - bias), 4),
                "range_outlier_share": round(float(1.0 - core.mean()), 4),
                "range_outlier_m": round(float(np.abs(outliers).mean()) if len(outliers) else 0.0, 3),
                "scale_error": round(abs(1.0 - scale), 4),
            },
        },
    }  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    """Exit code 2 when a recording is absent."""
    arguments = sys.argv[1:] if argv is None else argv
    if len(arguments) not in (1, 2):
        print("fit_noise: give the data folder, and perhaps a file to write", file=sys.stderr)
        return 2
    try:
        found = fit(Path(arguments[0]))
    except SteadyhandError as error:
        print(f"fit_noise: {error}", file=sys.stderr)
        return 2
    target = Path(arguments[1]) if len(arguments) == 2 else NOISE_FILE
    target.write_text(json.dumps(found, indent=2) + "\n")
    print(json.dumps({k: v["parameters"] | v["n"] for k, v in found.items()}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
