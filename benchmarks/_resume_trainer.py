"""A training that `benchmarks/resume.py` kills: PPO on a real environment, through the real store, until it is ended.

    python -m benchmarks._resume_trainer FOLDER ENV_ID SEED

It says what was acknowledged on its standard output, one line each after the acknowledgement: `ack SAMPLES COUNT CRC`.
What it is doing stands in the first byte of FOLDER/phase, for whoever killed it.
"""
from __future__ import annotations

import mmap
import os
import sys
import zlib
from pathlib import Path

import numpy as np

from benchmarks._small_ppo import SmallPpo
from policies.training.store.checkpoints import Checkpoints, resume
from policies.training.store.log import LogConfig
from policies.training.store.samples import Batch, SampleSchema, SampleStore, transition_schema

PHASES = ("starting", "opening", "resuming", "collecting", "appending", "learning", "checkpointing")
STEPS, ROLLOUT = 8, 256  # environment steps a batch, samples an update
SEGMENT_BYTES = 2**18  # small, so that kills meet segments being begun


def checksum(batch: Batch, schema: SampleSchema) -> int:
    """CRC-32 of a batch's content."""
    found = 0
    for field in schema.fields:
        found = zlib.crc32(np.ascontiguousarray(batch[field.name]), found)
    return found


class Phase:
    """One byte in a mapped file: the kernel keeps it when the process is killed."""

    def __init__(self, path: Path):
        with path.open("r+b") as file:  # whoever may kill us has made it: no moment without its byte
            self._byte = mmap.mmap(file.fileno(), 1)

    def __call__(self, name: str) -> None:
        self._byte[0] = PHASES.index(name)


def say(*words: object) -> None:
    """One line, at once."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


class Collector:
    """Steps of one environment as batches. A resumed one begins a new episode: the old one died with its process."""

    def __init__(self, env, schema: SampleSchema, seed: int, samples: int):
        self._env, self._schema = env, schema
        self._rng = np.random.default_rng([seed, samples])
        self._observation = self._reset()

    def _reset(self) -> np.ndarray:
        self._start = True
        return self._flat(self._env.reset(seed=int(self._rng.integers(2**31)))[0])

    @staticmethod
    def _flat(observation) -> np.ndarray:
        return np.asarray(observation, dtype=np.float32).reshape(-1)

    def steps(self, learner: SmallPpo, count: int) -> Batch:
        """The next `count` steps."""
        rows = []
        space = self._env.action_space
        for _ in range(count):
            action, log_prob, value = learner.act(self._observation, self._rng)
            done = np.clip(action.reshape(space.shape), space.low, space.high)
            seen, reward, terminated, truncated, _ = self._env.step(done)
            after = self._flat(seen)
            rows.append((
                self._observation, action, reward, terminated, truncated, self._start, value, log_prob, after, 0,
            ))  # fmt: skip
            self._start = False
            self._observation = self._reset() if terminated or truncated else after
        columns = zip(*rows)
        return {f.name: np.array(values, dtype=f.dtype) for f, values in zip(self._schema.fields, columns)}


def main(folder: Path, env_id: str, seed: int) -> None:
    """Train until killed."""
    phase = Phase(folder / "phase")
    import gymnasium

    import steadyhand_sim.envs  # noqa: F401  registers

    env = gymnasium.make(env_id, disable_env_checker=True)
    observation_dim, action_dim = (int(np.prod(s.shape)) for s in (env.observation_space, env.action_space))
    schema = transition_schema(observation_dim, action_dim)
    phase("opening")
    store = SampleStore(folder / "samples", schema, LogConfig(segment_bytes=SEGMENT_BYTES))
    phase("resuming")
    checkpoints = Checkpoints(folder / "checkpoints")
    resumption = resume(store, checkpoints)
    learner, step, rollout = SmallPpo(observation_dim, action_dim, seed), 0, [resumption.samples]
    if resumption.checkpoint is not None:
        step = resumption.checkpoint.step
        learner.load(resumption.checkpoint.parts)
    replayed, recovery = len(resumption.samples["reward"]), store.recovery
    say("resumed", store.samples, replayed, recovery.torn_bytes, recovery.unmarked, len(resumption.passed_over), step)
    collector = Collector(env, schema, seed, store.samples)
    collected = replayed
    while True:
        while collected < ROLLOUT:
            phase("collecting")
            batch = collector.steps(learner, STEPS)
            phase("appending")
            samples = store.append(batch)
            say("ack", samples, STEPS, checksum(batch, schema))
            rollout.append(batch)
            collected += STEPS
        phase("learning")
        learner.update({name: np.concatenate([b[name] for b in rollout]) for name in rollout[0]})
        step, rollout, collected = step + 1, [], 0
        phase("checkpointing")
        checkpoints.save(step, store.samples, learner.parts(), {"seed": seed, "env_id": env_id})


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
