"""Replay recorded targets through the motor model and compare with what the robot did, beside the identity model.

    python -m steadyhand_sim.motor_validation RECORDING.npz [--variant ur5]

A recording has q_target, q_actual, qd_target, qd_actual (N, 6) at 125 Hz, as `data` of the NTNU UR5 recordings does.
"""
from __future__ import annotations

import argparse
import json
import sys
import zipfile
from pathlib import Path

import numpy as np

from steadyhand import ur5
from steadyhand.errors import ConfigError
from steadyhand_sim.motor_model import MotorModel, MotorParameters

CYCLE_S = ur5.SERVO_PERIOD_CB3_S
SUBSTEPS = 4
FIELDS = ("q_target", "q_actual", "qd_target", "qd_actual")


def replay(parameters: MotorParameters, q_target: np.ndarray, qd_target: np.ndarray, q0, qd0) -> np.ndarray:
    """Model's joint positions (N, 6) for targets (N, 6), started from the robot's first measured state."""
    model = MotorModel(parameters, CYCLE_S / SUBSTEPS)
    model.reset(q0)
    model.qd_rad_s = np.array(qd0, dtype=float)
    out = [model.q_rad]
    for k in range(1, len(q_target)):
        for share in np.arange(1, SUBSTEPS + 1) / SUBSTEPS:
            model.step(
                q_target[k - 1] + share * (q_target[k] - q_target[k - 1]),
                qd_target[k - 1] + share * (qd_target[k] - qd_target[k - 1]),
                (qd_target[k] - qd_target[k - 1]) / CYCLE_S,
            )
        out.append(model.q_rad)
    return np.array(out)


def compare(parameters: MotorParameters, recording: dict[str, np.ndarray], skip: int = 42) -> dict[str, np.ndarray]:
    """Errors in rad per joint (6,): rmse and max of model and identity; the first `skip` samples settle the model."""
    arrays = {}
    for name in FIELDS:
        arrays[name] = np.asarray(recording[name], dtype=float) if name in recording else None
        if arrays[name] is None or arrays[name].ndim != 2 or arrays[name].shape[1] != ur5.DOF:
            raise ConfigError(f"recording: {name} missing or not (N, 6)")
        if not np.isfinite(arrays[name]).all() or len(arrays[name]) <= skip:
            raise ConfigError(f"recording: {name} is not finite, or shorter than {skip + 1} samples")
    simulated = replay(
        parameters, arrays["q_target"], arrays["qd_target"], arrays["q_actual"][0], arrays["qd_actual"][0]
    )
    model = (simulated - arrays["q_actual"])[skip:]
    identity = (arrays["q_target"] - arrays["q_actual"])[skip:]
    return {
        "model_rmse": np.sqrt((model**2).mean(axis=0)), "identity_rmse": np.sqrt((identity**2).mean(axis=0)),
        "model_max": np.abs(model).max(axis=0), "identity_max": np.abs(identity).max(axis=0),
    }


def main(argv: list[str] | None = None) -> int:
    """Print the comparison in mrad as JSON."""
    parser = argparse.ArgumentParser(prog="steadyhand_sim.motor_validation", description=__doc__.split("\n")[0])
    parser.add_argument("recording", type=Path)
    parser.add_argument("--variant", default="ur5")
    args = parser.parse_args(argv)
    try:
        with np.load(args.recording) as data:
            errors = compare(MotorParameters.load(variant=args.variant), {n: data[n] for n in FIELDS if n in data})
    except (OSError, EOFError, ValueError, zipfile.BadZipFile, ConfigError) as error:  # np.load raises them all
        print(f"motor_validation: {error}", file=sys.stderr)
        return 2
    print(json.dumps({name: np.round(values * 1e3, 3).tolist() for name, values in errors.items()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
