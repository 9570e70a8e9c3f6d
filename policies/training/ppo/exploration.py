"""How widely actions are tried: a ceiling that falls linearly, then stays."""
from __future__ import annotations

import math

from policies.training.config import ExplorationConfig

GAUSSIAN_ENTROPY = 0.5 * math.log(2 * math.pi * math.e)  # of a standard normal, nats


def std_ceiling(config: ExplorationConfig, done: float) -> float:
    """Highest standard deviation once `done` (0 to 1) of the steps are over."""
    share = 1.0 if config.anneal_until == 0 else min(1.0, done / config.anneal_until)
    return config.std_start + share * (config.std_end - config.std_start)


def entropy_nats(log_std: float) -> float:
    """Differential entropy of one action element."""
    return GAUSSIAN_ENTROPY + log_std
