"""`smoothness`: jerk of the measured arm with overlapping chunks, and with each chunk played to its end. Same scenes.

The exported policy in `Steadyhand/UR5PickPlace-v0`, with the runtime's interpolator, gate and latency (20 to 60 ms).
Two ways to use its chunks:

- *overlapping* (ours): asked every 50 ms; the new chunk takes over from the running one, aligned by its state's stamp.
- *playback*: a chunk is played to its end, then the next is asked for, as an action queue does that is refilled when it
  is empty; meanwhile the arm runs out on the checked stop tail, as our guard does with everybody.

Only the approach counts, up to the closing of the fingers, of seeds on which both ways get there: afterwards contact
shakes the arm. `jerk_*`: median over episodes of the RMS, over joints and control cycles, of the second derivative of
measured joint velocity (rad/s^3). `log_dimensionless_*` is the same made independent of duration and speed (Hogan and
Sternad 2009, for a velocity signal): ln(T^3 / v_peak^2 * integral of jerk^2), lower is smoother. `seam_*`: largest step
of commanded joint velocity from one control cycle to the next.
"""
from __future__ import annotations

import argparse

import numpy as np

from benchmarks import common
from steadyhand.policy_io import HORIZON
from steadyhand_policies import repository
from steadyhand_policies.local_onnx import LocalOnnxPolicy
from steadyhand_sim.envs.chunk_player import CYCLE_S, ChunkPlayer
from steadyhand_sim.envs.pick_place import PickPlaceEnv

FIRST_SEED = 60_000
SHORTEST = 50  # control cycles of an approach; a cube that lies under the tool says nothing


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--episodes", type=int, default=100, help="seeds, each run both ways")


class RecordingPlayer(ChunkPlayer):
    """Keeps measured and commanded joint velocity of every control cycle."""

    def reset(self) -> None:
        super().reset()
        self.measured_rad_s: list[np.ndarray] = []
        self.commanded_rad_s: list[np.ndarray] = []

    def advance(self) -> None:
        super().advance()
        self.measured_rad_s.append(np.array(self._world.qd_rad_s, dtype=float))
        self.commanded_rad_s.append(np.array(self.commanded().qd_commanded_rad_s, dtype=float))


class Overlapping(PickPlaceEnv):
    """Every period's chunk is used."""

    def _new_player(self) -> ChunkPlayer:
        return RecordingPlayer(self._world)

    def closed_after(self) -> int | None:
        """Control cycles until the fingers were told to close; None when they were not."""
        close_s = self._times_s.get("close")
        return None if close_s is None else round(close_s / CYCLE_S)


class Playback(Overlapping):
    """Only every HORIZON-th chunk is used; the votes of its later steps come when they are due."""

    def reset(self, **more):
        self._count, self._playing, self._unused_stamp_s = 0, None, None
        return super().reset(**more)

    def step(self, action):
        step = self._count % HORIZON
        self._count += 1
        if step == 0:
            self._playing, self._unused_stamp_s = np.asarray(action, dtype=float), None
        else:
            self._unused_stamp_s = self._player.commanded().stamp_s
            self._grip(float(self._playing[step, -1]))
        return super().step(action)

    def _deliver(self) -> None:
        self._pending = [p for p in self._pending if p[1].stamp_s != self._unused_stamp_s]
        super()._deliver()


WAYS = {"ours": Overlapping, "playback": Playback}


def episode(env: Overlapping, policy: LocalOnnxPolicy, seed: int) -> dict | None:
    """One episode: the approach's figures and whether the cube was placed. None when the fingers never closed."""
    observation, _ = env.reset(seed=seed)
    over = success = False
    while not over:
        actions = policy.infer(observation, "o", 5.0).actions
        observation, _, terminated, truncated, info = env.step(actions)
        over, success = terminated or truncated, info["is_success"]
    cycles = env.closed_after()
    if cycles is None or cycles < SHORTEST:
        return None
    player = env._player
    found = figures(np.array(player.measured_rad_s[:cycles]))
    commanded = np.array(player.commanded_rad_s[:cycles])
    return found | {"success": bool(success), "seam": float(np.abs(np.diff(commanded, axis=0)).max()),
                    "seconds": cycles * CYCLE_S}


def figures(qd_rad_s: np.ndarray) -> dict[str, float]:
    """RMS jerk and log dimensionless jerk of joint velocities (n, 6) at the control rate."""
    jerk = np.diff(qd_rad_s, n=2, axis=0) / CYCLE_S**2
    seconds, peak = len(qd_rad_s) * CYCLE_S, np.linalg.norm(qd_rad_s, axis=1).max()
    squared = float((jerk**2).sum()) * CYCLE_S
    return {"jerk": float(np.sqrt((jerk**2).mean())), "ldj": float(np.log(seconds**3 / peak**2 * squared))}


def run(args: argparse.Namespace) -> None:
    policy = LocalOnnxPolicy(repository.policy_files(version=0)).open()
    found: dict[str, list[dict | None]] = {}
    for name, way in WAYS.items():
        env = way()
        found[name] = [episode(env, policy, FIRST_SEED + k) for k in range(args.episodes)]
        env.close()
    pairs = [(a, b) for a, b in zip(found["ours"], found["playback"]) if a is not None and b is not None]
    metrics = summary(pairs) | {
        f"placed_{name}": sum(bool(e and e["success"]) for e in episodes) for name, episodes in found.items()
    } | {f"closed_{name}": sum(e is not None for e in episodes) for name, episodes in found.items()}
    path = common.write("smoothness", args.episodes, "simulated time", "simulated time, one process", metrics)
    print(path, metrics)


def summary(pairs: list[tuple[dict, dict]]) -> dict:
    """Medians of both ways, and of the pairs' ratio with its bootstrap 95 % interval."""
    if not pairs:
        return {"pairs": 0}
    ratio = np.array([b["jerk"] / a["jerk"] for a, b in pairs])
    rng = np.random.default_rng(0)
    medians = np.median(ratio[rng.integers(len(ratio), size=(5000, len(ratio)))], axis=1)
    low, high = np.quantile(medians, [0.025, 0.975])
    metrics = {"pairs": len(pairs), "ratio": round(float(np.median(ratio)), 3), "ratio_low": round(float(low), 3),
               "ratio_high": round(float(high), 3)}
    for k, name in enumerate(WAYS):
        of = [pair[k] for pair in pairs]
        metrics |= {
            f"jerk_{name}": round(float(np.median([e["jerk"] for e in of])), 3),
            f"log_dimensionless_{name}": round(float(np.median([e["ldj"] for e in of])), 3),
            f"seconds_{name}": round(float(np.median([e["seconds"] for e in of])), 3),
            f"seam_{name}": round(max(e["seam"] for e in of), 5),
        }
    return metrics
