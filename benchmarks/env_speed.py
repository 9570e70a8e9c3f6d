"""`env_speed`: environment steps per second and core of UR5Grasp with state observations, beside panda-gym.

One run, one core, slices in turn: `random` actions in ours, random actions in panda-gym's PandaPickAndPlace (the same
kind of task: arm, parallel gripper, one cube; it passes 40 ms a step, ours 50 ms), then ours driven by the scripted
expert. Step and automatic reset are timed, by CPU time, choosing the action is not; wall time is told too. panda-gym
lives in an environment of its own, made by `python3.11 -m venv .venv-panda` and `.venv-panda/bin/pip install -r
requirements/panda.txt`; without it only ours is measured, and the result says so.
"""
from __future__ import annotations

import argparse
import json
import os
import subprocess
import time
from pathlib import Path

import numpy as np

from benchmarks import common

PANDA_ID = "PandaPickAndPlace-v3"
STEP_S = {"ours": 0.05, "panda_gym": 0.04}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--slices", type=int, default=10, help="of each side, in turn")
    parser.add_argument("--steps", type=int, default=1500, help="of each slice")
    parser.add_argument("--core", type=int, default=0)
    parser.add_argument("--panda-python", type=Path, default=common.ROOT / ".venv-panda/bin/python")
    parser.add_argument("--formulation", default="cartesian_delta")


class Ours:
    """Our side: an environment and who drives it."""

    def __init__(self, driver: str, formulation: str, seed: int) -> None:
        import gymnasium

        from steadyhand_sim.envs import GRASP_ID
        from steadyhand_sim.envs.experts import expert

        self._env = gymnasium.make(GRASP_ID, formulation=formulation)
        self._env.action_space.seed(seed)
        self._expert = expert(GRASP_ID, formulation) if driver == "expert" else None
        self._observation, self._info = self._env.reset(seed=seed)
        self.certified = self.accepted = 0

    def slice(self, steps: int) -> dict:
        """Some steps and what they took."""
        env, cpu, wall, episodes = self._env, 0.0, 0.0, 0
        for _ in range(steps):
            action = env.action_space.sample() if self._expert is None else self._expert.act(self._observation)
            cpu_from, wall_from = time.process_time(), time.perf_counter()
            observation, _, terminated, truncated, info = env.step(action)
            if terminated or truncated:
                episodes += 1
                self.certified, self.accepted = self.certified + info["certified"], self.accepted + info["accepted"]
                observation, info = env.reset()
            cpu, wall = cpu + time.process_time() - cpu_from, wall + time.perf_counter() - wall_from
            self._observation = observation
        return {"steps": steps, "cpu_s": cpu, "wall_s": wall, "episodes": episodes}

    def close(self) -> None:
        """Free the physics."""
        self._env.close()


class Panda:
    """panda-gym in a process of its own."""

    def __init__(self, python: Path, core: int, seed: int) -> None:
        side = Path(__file__).with_name("_panda_gym_side.py")
        self._process = subprocess.Popen(
            [str(python), str(side), PANDA_ID, str(seed), str(core)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True,
        )
        common.await_ready(self._process, 120.0)

    def slice(self, steps: int) -> dict:
        """As `Ours.slice`."""
        self._process.stdin.write(f"{steps}\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        """End the process."""
        self._process.stdin.close()
        try:
            self._process.wait(20.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def rates(slices: list[dict]) -> dict:
    """Steps per second over all slices, by CPU and by wall time, and the slowest and fastest slice by CPU time."""
    each = [s["steps"] / s["cpu_s"] for s in slices]
    steps = sum(s["steps"] for s in slices)
    return {
        "steps_per_cpu_s": round(steps / sum(s["cpu_s"] for s in slices), 1),
        "steps_per_wall_s": round(steps / sum(s["wall_s"] for s in slices), 1),
        "slowest_slice": round(float(np.min(each)), 1), "fastest_slice": round(float(np.max(each)), 1),
        "episodes": sum(s["episodes"] for s in slices), "steps": steps,
    }


def run(args: argparse.Namespace) -> Path:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {args.core})
    sides: dict = {"random": Ours("random", args.formulation, 1), "expert": Ours("expert", args.formulation, 2)}
    if args.panda_python.exists():
        sides["panda_gym"] = Panda(args.panda_python, args.core, 1)
    else:
        print(f"no {args.panda_python}: panda-gym is not measured (see this benchmark's text)")
    try:
        with common.alone():
            for side in sides.values():
                side.slice(200)  # warm-up
            found = {name: [] for name in sides}
            for _ in range(args.slices):
                for name, side in sides.items():
                    found[name].append(side.slice(args.steps))
    finally:
        for side in sides.values():
            side.close()
        os.sched_setaffinity(0, before)
    by_side = {name: rates(slices) for name, slices in found.items()}
    ours, panda = by_side["random"], by_side.get("panda_gym")
    metrics = {
        "steps_per_s_per_core": ours["steps_per_cpu_s"],
        "panda_gym_steps_per_s_per_core": panda["steps_per_cpu_s"] if panda else None,
        "ahead_of_panda_gym": round(ours["steps_per_cpu_s"] / panda["steps_per_cpu_s"], 3) if panda else None,
        "expert_steps_per_s_per_core": by_side["expert"]["steps_per_cpu_s"],
        "simulated_s_per_s": round(STEP_S["ours"] * ours["steps_per_cpu_s"], 1),
        "panda_gym_simulated_s_per_s": round(STEP_S["panda_gym"] * panda["steps_per_cpu_s"], 1) if panda else None,
        "formulation": args.formulation, "panda_gym_environment": PANDA_ID,
        "plans_certified_share": {
            name: round(sides[name].certified / max(1, sides[name].accepted), 4) for name in ("random", "expert")
        },
        "sides": by_side,
    }
    path = common.write("env_speed", sum(s["steps"] for s in by_side.values()), "one core, sides in turn",
                        _scheduler(), metrics)
    print(path.read_text())
    return path


def _scheduler() -> str:
    policy = os.sched_getscheduler(0)
    return {os.SCHED_OTHER: "SCHED_OTHER", os.SCHED_IDLE: "SCHED_IDLE", os.SCHED_FIFO: "SCHED_FIFO"}.get(
        policy, str(policy)
    )
