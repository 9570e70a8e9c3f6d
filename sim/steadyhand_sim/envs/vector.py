"""Many environments at once through Gymnasium's vector interface, in processes or in this one.

Environment i of `reset(seed=s)` is seeded with s + i, whichever way they run: the results are the same, bit by bit
(tests/scenario/test_env_vector.py). Processes are spawned, not forked: a physics client does not survive a fork.
"""
from __future__ import annotations

from functools import partial

import gymnasium
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from steadyhand.errors import ConfigError


def make_one(env_id: str, **kwargs) -> gymnasium.Env:
    """One environment, made in whichever process runs it."""
    import steadyhand_sim.envs  # noqa: F401  registers, also in a spawned process

    return gymnasium.make(env_id, **kwargs)


def make_vector(
    env_id: str, n: int, processes: bool = True, autoreset_mode: AutoresetMode = AutoresetMode.NEXT_STEP, **kwargs
) -> gymnasium.vector.VectorEnv:
    """`n` environments with the keyword arguments of one. Close it: its processes live until then."""
    if not 1 <= n <= 256:
        raise ConfigError(f"n={n}: give 1 to 256 environments")
    makers = [partial(make_one, env_id, **kwargs)] * n
    if processes:
        return AsyncVectorEnv(makers, context="spawn", autoreset_mode=autoreset_mode)
    return SyncVectorEnv(makers, autoreset_mode=autoreset_mode)
