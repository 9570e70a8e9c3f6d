"""`steadyhand replay BAG`: a recorded UR5 through clock map, estimator, gate and contact detection. A table, and JSON.
A recorded vehicle goes through its bridge and estimator (`replay_agv`).

The gate's rules of joint space are applied to the controller's recorded targets, sample by sample. Workspace and cell
obstacles are left out: the recording's mounting and tool are not this cell's.
"""
from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from steadyhand import collision, contact, kinematics, ur5
from steadyhand.errors import ConfigError
from steadyhand.impulse import ImpulseDetector
from steadyhand.impulse_channels import CHANNELS
from steadyhand.joint_estimator import GATE_CHI2, JointEstimator
from steadyhand.limits import UR5_LIMITS
from steadyhand.link_monitor import LinkMonitor
from steadyhand.safety_gate import setpoint_differences, stop_admissible
from steadyhand.slot import current_slot
from steadyhand.types import Reason
from steadyhand_cli import agv_bag, bag, replay_agv
from steadyhand_cli.operate import link_line

MOVING_RAD_S = 0.01


def add_arguments(parser: argparse.ArgumentParser, name: str) -> None:
    bag_help = f"folder of a ROS 2 bag (MCAP): {bag.ACTUAL} and {bag.TARGET} of an arm, or a vehicle's odometry and IMU"
    parser.add_argument("bag", type=Path, help=bag_help)
    parser.add_argument("--json", type=Path, help="where the JSON goes (out/replay/<name>.json)")
    parser.add_argument("--odom", default="", metavar="TOPIC", help="of a vehicle, when the bag has several")
    parser.add_argument("--imu", default="", metavar="TOPIC", help="of a vehicle, when the bag has several")
    parser.add_argument("--config", default="", help="of a vehicle: frames and limits, such as config/agv_ros.yaml")


def run(args: argparse.Namespace) -> int:
    if agv_bag.is_vehicle(bag.topics(args.bag)):
        recording = agv_bag.read(args.bag, args.odom, args.imu)
        config = replay_agv.vehicle_config(args.config, recording)
        report, shown = replay_agv.analyse(recording, config), replay_agv.show
    else:
        recording = bag.read(args.bag)
        report, shown = analyse(recording) | {"impulses": impulses(recording.actual)}, show
    report["bag"] = args.bag.name
    path = args.json or current_slot().out_dir / "replay" / f"{args.bag.resolve().name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=2) + "\n")
    shown(Console(), report)
    print(f"report: {os.path.relpath(path)}")
    return 0


def analyse(recording: bag.Recording) -> dict:
    """Everything the report says, as plain data."""
    report = {
        "duration_s": float(recording.actual.time_s[-1] - recording.actual.time_s[0]),
        "samples": len(recording.actual.time_s),
        "refused_messages": recording.refused,
        "link": {} if recording.arrivals_s is None else judge_link(recording.arrivals_s),
        "estimator": _estimate(recording.actual),
        "tracking": None, "gate": None, "contacts": None,
    }
    if recording.target is None:
        report["note"] = f"no {bag.TARGET} in the bag: tracking, gate and contacts need the controller's targets"
        return report
    actual, target = _aligned(recording.actual, recording.target)
    report["tracking"] = _tracking(actual, target)
    report["gate"] = judge_setpoints(target.q_rad, target.qd_rad_s, _period(target.time_s))
    found, blind_s = contact.contacts(
        actual.time_s, actual.current_a, target.current_a, _derivative(target.qd_rad_s, target.time_s)
    )
    report["contacts"] = {"seen": [c.__dict__ for c in found], "blind_s": blind_s}
    return report


def judge_link(arrivals_s: np.ndarray) -> dict[str, int]:
    """What the guard would have counted of this link: the same clock map and monitor, fed message by message."""
    stamps_s = arrivals_s[:, 0]
    monitor = LinkMonitor(_period(np.sort(stamps_s[np.isfinite(stamps_s)])))
    for stamp_s, received_s in arrivals_s.tolist():
        monitor.update(stamp_s, received_s)
    return monitor.finish()


def _estimate(joints: bag.JointRecording) -> dict:
    estimator = JointEstimator()
    nis, restarts = [], 0
    for time_s, q, qd in zip(joints.time_s, joints.q_rad, joints.qd_rad_s):
        estimate = estimator.update(time_s, q, qd)
        if estimate is not None:
            restarts += estimate.restarted
            nis.append(estimate.nis)
    nis = np.array(nis)
    return {
        "rejected": estimator.rejected, "restarts": restarts, "nis_mean": float(nis.mean()),
        "degrees_of_freedom": 2 * ur5.DOF, "outliers": int((nis > GATE_CHI2).sum()),
    }


def impulses(joints: bag.JointRecording) -> dict:
    """Single readings that nothing around them explains, by channel and joint (`steadyhand.impulse`)."""
    found = {}
    for kind, rows in (("position", joints.q_rad), ("velocity", joints.qd_rad_s), ("current", joints.current_a)):
        detector = ImpulseDetector(CHANNELS[kind])
        for time_s, row in zip(joints.time_s, rows):
            detector.update(time_s, row)
        found[kind] = dict(zip(ur5.JOINT_NAMES, detector.found.tolist()))
    return found


def _aligned(actual: bag.JointRecording, target: bag.JointRecording) -> tuple[bag.JointRecording, bag.JointRecording]:
    """The samples of both topics with equal stamps (to half a period): of each measured one the nearest target."""
    after = np.clip(np.searchsorted(target.time_s, actual.time_s), 1, len(target.time_s) - 1)
    nearer = actual.time_s - target.time_s[after - 1] < target.time_s[after] - actual.time_s
    index = after - nearer
    near = np.abs(target.time_s[index] - actual.time_s) < 0.5 * _period(target.time_s)
    if near.sum() < 10:
        raise ConfigError(f"{bag.ACTUAL} and {bag.TARGET} share {int(near.sum())} stamps: record both from one clock")

    def take(r: bag.JointRecording, rows) -> bag.JointRecording:
        return bag.JointRecording(r.time_s[rows], r.q_rad[rows], r.qd_rad_s[rows], r.current_a[rows])

    return take(actual, np.flatnonzero(near)), take(target, index[near])


def _period(time_s: np.ndarray) -> float:
    return float(np.median(np.diff(time_s)))


def _derivative(values: np.ndarray, time_s: np.ndarray) -> np.ndarray:
    steps = np.maximum(np.diff(time_s), 1e-4)[:, None]
    return np.vstack([np.zeros((1, values.shape[1])), np.diff(values, axis=0) / steps])


def _tracking(actual: bag.JointRecording, target: bag.JointRecording) -> dict:
    error = np.abs(actual.q_rad - target.q_rad)
    return {
        name: {"rms_mrad": float(np.sqrt((error[:, j] ** 2).mean()) * 1e3), "max_mrad": float(error[:, j].max() * 1e3)}
        for j, name in enumerate(ur5.JOINT_NAMES)
    }


def judge_setpoints(q_rad: np.ndarray, qd_rad_s: np.ndarray, period_s: float) -> dict:
    """What the gate's joint-space rules say of recorded targets (N, 6): moving samples, refused, and why.

    Differences are taken of the recorded velocity: the recorded position is a rounded single-precision number whose
    third difference is noise. `first` names the first refusal of each reason.
    """
    limits = UR5_LIMITS
    moving = np.abs(qd_rad_s).max(axis=1) > MOVING_RAD_S
    # A path of integrated velocities has exactly the recorded velocities as differences; before its start the first
    # velocity goes on, since a recording may begin in motion.
    before = q_rad[:1] - qd_rad_s[:1] * period_s * np.array([[3.0], [2.0], [1.0]])
    path = np.vstack([before, before[-1:] + np.cumsum(qd_rad_s * period_s, axis=0)])
    differences = setpoint_differences(path, period_s)
    allowed = {
        Reason.VELOCITY: limits.qd_max_rad_s, Reason.ACCELERATION: limits.qdd_max_rad_s2,
        Reason.JERK: limits.qddd_max_rad_s3,
    }
    refused = {reason.value: np.abs(values) > allowed[reason] for reason, values in differences.items()}
    refused[Reason.POSITION.value] = (q_rad < limits.q_min_rad) | (q_rad > limits.q_max_rad)
    by_sample = {name: over.any(axis=1) for name, over in refused.items()}
    by_sample[Reason.STOP_INADMISSIBLE.value] = ~stop_admissible(path, period_s)
    by_sample[Reason.SELF_COLLISION.value] = _self_collision(q_rad)
    any_reason = np.any(list(by_sample.values()), axis=0) & moving
    reasons, first = {}, {}
    for name, hit in by_sample.items():
        hit = hit & moving
        if hit.any():
            k = int(np.argmax(hit))
            reasons[name] = int(hit.sum())
            first[name] = f"at {k * period_s:.3f} s" + _worst_joint(refused.get(name), k)
    return {
        "moving_samples": int(moving.sum()), "refused": int(any_reason.sum()),
        "refused_share": float(any_reason.sum() / max(1, moving.sum())), "reasons": reasons, "first": first,
    }


def _worst_joint(over: np.ndarray | None, k: int) -> str:
    return "" if over is None else f", {ur5.JOINT_NAMES[int(np.argmax(over[k]))]}"


def _self_collision(q_rad: np.ndarray) -> np.ndarray:
    """(N,) arm against itself only: the recording's table and tool are not this cell's."""
    values, pairs = collision.clearances(kinematics.link_transforms(q_rad))
    of_the_arm = [k for k, pair in enumerate(pairs) if "table" not in pair and not {"hand", "fingers"} & set(pair)]
    return (values[:, of_the_arm] < UR5_LIMITS.min_clearance_m).any(axis=1)


def show(console: Console, report: dict) -> None:
    """The report as tables."""
    e = report["estimator"]
    console.print(
        f"{report['samples']} samples over {report['duration_s']:.1f} s; "
        f"refused messages: {report['refused_messages'] or 'none'}\n"
        f"estimator: {e['outliers']} outliers, "
        f"mean NIS {e['nis_mean']:.1f} for {e['degrees_of_freedom']} degrees of freedom, "
        f"{e['rejected']} rejected, {e['restarts']} starts\n"
        f"impulses: {', '.join(f'{sum(n.values())} in {kind}' for kind, n in report['impulses'].items())}",
        highlight=False,
    )
    if "clock_drift_ppb" in report["link"]:
        console.print(link_line(report["link"]), highlight=False)
    if report["tracking"] is None:
        console.print(report["note"])
        return
    table = Table(title="Tracking: target against measured")
    for column in ("joint", "rms mrad", "max mrad"):
        table.add_column(column)
    for name, row in report["tracking"].items():
        table.add_row(name, f"{row['rms_mrad']:.2f}", f"{row['max_mrad']:.2f}")
    console.print(table)
    gate = report["gate"]
    console.print(
        f"gate: would have refused {gate['refused']} of {gate['moving_samples']} moving samples "
        f"({gate['refused_share']:.2%})", highlight=False,
    )
    for name, count in gate["reasons"].items():
        console.print(f"  {name}: {count}, first {gate['first'][name]}", highlight=False)
    seen = report["contacts"]["seen"]
    blind = f"blind for {report['contacts']['blind_s']:.1f} s after abrupt targets"
    console.print(f"contacts: {len(seen)} ({blind})", highlight=False)
    for c in seen:
        console.print(
            f"  {c['start_s']:.2f} to {c['end_s']:.2f} s on {c['joint']}: "
            f"{c['peak_a']:+.2f} A beyond the model, threshold {c['threshold_a']:.2f}", highlight=False,
        )
