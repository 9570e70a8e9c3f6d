"""What the environments pay, in a room of its own.

Law of this folder: pure functions, no physics, no environment. Every term is an explicit function of (state, action,
time) with its analytic gradient (`term`, `functions`); a reward adds terms within budgets (`reward`, `tasks`); what it
does is watched from outside (`monitor`, `statistics`). `crossing` shows in the small why a vehicle freezes.
"""
from steadyhand_sim.envs.rewards.monitor import GradientAlarm, GradientMonitor
from steadyhand_sim.envs.rewards.reward import PROCESS_SHARE, Reward
from steadyhand_sim.envs.rewards.statistics import RewardStatistics
from steadyhand_sim.envs.rewards.tasks import STATE_NAMES, make, names
from steadyhand_sim.envs.rewards.term import Gradient, Term

__all__ = [
    "PROCESS_SHARE", "STATE_NAMES", "Gradient", "GradientAlarm", "GradientMonitor", "Reward", "RewardStatistics",
    "Term", "make", "names",
]
