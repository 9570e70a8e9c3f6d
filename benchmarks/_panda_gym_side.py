"""The other side of `env_speed`, in an environment of its own: panda-gym steps on request. Prints "ready" first.

Reads lines of a number of steps; answers each with a JSON line {"steps", "cpu_s", "wall_s", "episodes"}. Imports
nothing of this project: panda-gym needs other versions than it.
"""
import json
import os
import sys
import time

# PyBullet prints banners to stdout, where the answers go: they get a descriptor of their own, the banners stderr.
ANSWERS = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)

import gymnasium  # noqa: E402
import panda_gym  # noqa: E402, F401  registers


def main() -> None:
    """`_panda_gym_side.py ENV_ID SEED CORE`."""
    env_id, seed, core = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    os.sched_setaffinity(0, {core})
    env = gymnasium.make(env_id)
    env.reset(seed=seed)
    env.action_space.seed(seed)
    print("ready", env_id, file=ANSWERS, flush=True)
    for line in sys.stdin:
        steps, episodes, cpu, wall = int(line), 0, 0.0, 0.0
        for _ in range(steps):
            action = env.action_space.sample()
            cpu_from, wall_from = time.process_time(), time.perf_counter()
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                episodes += 1
                env.reset()
            cpu, wall = cpu + time.process_time() - cpu_from, wall + time.perf_counter() - wall_from
        answer = {"steps": steps, "cpu_s": cpu, "wall_s": wall, "episodes": episodes}
        print(json.dumps(answer), file=ANSWERS, flush=True)


if __name__ == "__main__":
    main()
