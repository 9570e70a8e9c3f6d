"""`gate_admission`: what the gate refuses of good motion; both headline shares should be <= 0.01.

`real_moves_refused`: share of the moving samples (max |qd_target| > 0.01 rad/s) of a real UR5 (NTNU 2013, 125 Hz, CB2)
that break a set-point rule. Velocity, acceleration and jerk are differences taken of qd_target on the controller's
nominal 8 ms cycle; position and self-collision (arm without tool) are those of q_target; the stop must be admissible.
Workspace and table are left out: they belong to another cell. No1 and No3 carry PC receive times; their recorder
lost two samples of four (gaps of 8 and 24 ms in turn), so the nominal cycle overstates their accelerations up to
threefold, against the gate. Runs sampled at exactly 8 ms are also checked by differences of q_target.
The fast No3 and No6 with its abrupt cuts are reported apart: refusing those is right.
`chunks_refused`: share of chunks refused in closed loop in the simulated cell, of the undisturbed demonstrator and of
the shipped policy together (`--episodes` of each, new scenes). Beside it the generator in `_policy_chunks`, and, with
`--training FILE.npz`, the demonstrations that the training recorded, whose executed actions are disturbed on purpose.
The limits were fixed and published before (docs/limits.md).
"""

from __future__ import annotations

import argparse
import gc
import os
import time
from collections import Counter
from pathlib import Path

import numpy as np

from benchmarks import common
from benchmarks._policy_chunks import Noise, Session, move, random_target
from policies.training.pick_place.rollout import Actor, run_episodes
from steadyhand import braking, cell, collision, kinematics, policy_io, ur5
from steadyhand.limits import UR5_LIMITS
from steadyhand.plan import Published
from steadyhand.safety_gate import SafetyGate, setpoint_differences, stop_admissible
from steadyhand.types import Reason
from steadyhand_policies import repository

GOOD = (
    "Movement_No1",
    "Movement_No5_Acc_slow_no_disturbance",
    "Movement_No5_Acc_slow_w_disturbance",
    "Movement_No8_Singularity_Free_1",
    "Movement_No9_Singularity_Free_ForceSensor",
    "Movement_No9_Singularity_Free_NoDist",
    "TEST",
)
APART = ("Movement_No3_Acc", "Movement_No6_Acc_slow_Verify_Model")
MOVING_RAD_S = 0.01
FIRST_SEED = 70_000  # scenes of no training, validation or evaluation
PERIOD_S = ur5.SERVO_PERIOD_CB3_S
LIMIT_OF = {
    Reason.VELOCITY: UR5_LIMITS.qd_max_rad_s,
    Reason.ACCELERATION: UR5_LIMITS.qdd_max_rad_s2,
    Reason.JERK: UR5_LIMITS.qddd_max_rad_s3,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    data = os.environ.get("STEADYHAND_DATA", str(common.ROOT.parent / "shared" / "data"))
    parser.add_argument(
        "--data", type=Path, default=Path(data), help="folder that holds ur5_ntnu_2013 (STEADYHAND_DATA)"
    )
    parser.add_argument("--moves", type=int, default=150, help="generated moves of each kind")
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--load", default="otherwise idle machine", help="what else ran, for the record")
    parser.add_argument("--episodes", type=int, default=20, help="of the demonstrator, and of the policy")
    parser.add_argument("--training", type=Path, help="demonstrations.npz of a training run, disturbed; reported apart")


def run(args: argparse.Namespace) -> None:
    with common.alone():
        gc.disable()
        real = {name: replay(args.data / "ur5_ntnu_2013" / f"{name}.npz") for name in (*GOOD, *APART)}
        chunks = {"generator": generated(args.moves, args.seed)}
        model = repository.policy_files().model
        for name, actor in (("demonstrator", Actor()), ("policy", Actor(model))):
            episodes = run_episodes(actor, list(range(FIRST_SEED, FIRST_SEED + args.episodes)))
            source = f"{name}, {args.episodes} episodes"
            chunks[name] = recorded(source, [e.chunks for e in episodes], policy_io.PERIOD_S)
        if args.training:
            chunks["training"] = training(args.training)
        gc.enable()
    good = [real[name] for name in GOOD]
    moving, refused = sum(r["moving"] for r in good), sum(r["refused"] for r in good)
    headline = [chunks["demonstrator"], chunks["policy"]]
    shares = {
        "real_moves_refused": refused / moving,
        "chunks_refused": sum(c["refused"] for c in headline) / sum(c["offered"] for c in headline),
    }
    path = common.write(
        "gate_admission",
        moving + sum(c["offered"] for c in chunks.values()),
        args.load,
        "SCHED_OTHER",
        shares
        | {"goal_met": max(shares.values()) <= 0.01, "real_moving_samples": moving, "real": real, "chunks": chunks},
    )
    print(
        f"real moves refused {refused}/{moving}; "
        + "; ".join(f"{n}: {c['refused']}/{c['offered']}" for n, c in chunks.items())
    )
    print(path)


def replay(path: Path) -> dict:
    """Moving samples of one recording, and how many break each rule."""
    with np.load(path) as file:
        q, qd = file["q_target"].astype(float), file["qd_target"].astype(float)
        even = np.allclose(np.diff(file["t"]), PERIOD_S, atol=1e-6)
    moving = (np.abs(qd).max(axis=1) > MOVING_RAD_S)[3:]
    path = q[:1] + np.cumsum(qd * PERIOD_S, axis=0)  # its differences are those of qd_target
    by_reason = {Reason.POSITION: ((q < UR5_LIMITS.q_min_rad) | (q > UR5_LIMITS.q_max_rad)).any(axis=1)[3:]}
    largest = {}
    for reason, values in setpoint_differences(path, PERIOD_S).items():
        by_reason[reason] = (np.abs(values) > LIMIT_OF[reason]).any(axis=1)
        largest[reason.value] = np.abs(values[moving]).max(axis=0).round(2).tolist()
    values, pairs = collision.clearances(kinematics.link_transforms(q[3:]))
    arm = [k for k, pair in enumerate(pairs) if not {"table", "hand", "fingers"} & set(pair)]
    by_reason[Reason.SELF_COLLISION] = values[:, arm].min(axis=1) < UR5_LIMITS.min_clearance_m
    by_reason[Reason.STOP_INADMISSIBLE] = ~stop_admissible(path, PERIOD_S, UR5_LIMITS)
    refused = np.any(list(by_reason.values()), axis=0) & moving
    by_position = ~stop_admissible(q, PERIOD_S, UR5_LIMITS)
    for reason, values in setpoint_differences(q, PERIOD_S).items():
        by_position |= (np.abs(values) > LIMIT_OF[reason]).any(axis=1)
    return {
        "moving": int(moving.sum()),
        "refused": int(refused.sum()),
        "largest": largest,
        "refused_by_q_target": int((by_position & moving).sum()) if even else None,
        "reasons": {
            reason.value: int((hit & moving).sum()) for reason, hit in by_reason.items() if (hit & moving).any()
        },
    }


class TimedSession(Session):
    """Times each chunk's way through the gate, and an S1 stop from a set-point of each accepted plan."""

    def offer(self, *args, **kwargs) -> bool:
        start, cpu = time.perf_counter(), time.thread_time()
        accepted = super().offer(*args, **kwargs)
        self.admit_cpu_s.append(time.thread_time() - cpu)
        self.admit_s.append(time.perf_counter() - start)
        if accepted:
            start, cpu = time.perf_counter(), time.thread_time()
            stop = braking.scale_to_rest(self.plan, len(self.admit_s) % 10)
            self.brake_cpu_s.append(time.thread_time() - cpu)
            self.brake_s.append(time.perf_counter() - start)
            self.stops.append(stop.stop_s)
        return accepted

    def __post_init__(self) -> None:
        super().__post_init__()
        self.admit_s, self.brake_s, self.admit_cpu_s, self.brake_cpu_s, self.stops = [], [], [], [], []


def generated(moves: int, seed: int) -> dict:
    """Closed-loop moves of both kinds over tray and box."""
    sessions, noise = [], Noise()
    for reactive in (False, True):
        rng = np.random.default_rng([seed, reactive])
        session = TimedSession(SafetyGate(), cell.HOME_Q_RAD)
        for _ in range(moves):
            move(session, random_target(rng), rng, reactive, noise)
        sessions.append(session)
    return {"source": f"generator, {moves} moves of each kind, {noise}"} | _summary(sessions)


def training(path: Path) -> dict:
    """The demonstrations of a training run: one file, its `episode` array tells them apart."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files if name not in ("period_s", "observation")}
        period_s = file["period_s"]
    numbers = np.unique(arrays["episode"])
    split = [{k: v[arrays["episode"] == n] for k, v in arrays.items() if k != "episode"} for n in numbers]
    return recorded(f"{path.name}, {len(numbers)} episodes", split, float(period_s))


def recorded(source: str, episodes: list[dict], period_s: float) -> dict:
    """Chunks of recorded episodes, offered to the gate at their recorded cycles. Refused ones are among them too."""
    sessions = []
    for arrays in episodes:
        session = TimedSession(SafetyGate(), arrays["q_commanded_rad"][0])
        for row, arrival_cycle in enumerate(arrays["arrival_cycle"]):
            answered = Published(
                float(arrays["stamp_s"][row]), arrays["q_commanded_rad"][row], arrays["qd_commanded_rad_s"][row]
            )
            session.run(int(arrival_cycle) - session.cycle)
            # the recording environment sends the set-point of a cycle after the chunks that arrived before it
            session.offer(answered, arrays["q_rad"][row], period_s, next_setpoint_s=session.now_s)
        sessions.append(session)
    return {"source": source} | _summary(sessions)


def _summary(sessions: list[TimedSession]) -> dict:
    verdicts = [v for s in sessions for v in s.verdicts]
    refused = [v for v in verdicts if not v.accepted]
    return {
        "offered": len(verdicts),
        "refused": len(refused),
        "reasons": dict(Counter(v.reason for v in refused)),
        "examples": [f"{v.reason}: {v.detail}" for v in refused[:5]],
        **{
            name: common.percentiles_ms([x for s in sessions for x in getattr(s, f"{name}_s")])
            for name in ("admit", "admit_cpu", "brake", "brake_cpu")
        },
        "stop_s_max": max(x for s in sessions for x in s.stops),
    }
