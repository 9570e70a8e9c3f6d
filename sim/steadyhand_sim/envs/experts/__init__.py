"""Scripted experts, one per environment and formulation: `expert(env_id, formulation)`.

    actor = expert("Steadyhand/UR5Grasp-v0", "joint_delta")
    action = actor.act(observation, info)

They see what a policy sees, the state observation, and nothing else: a demonstration can be learned. Law of the folder:
no physics, no environment, no ground truth; `act` is a pure function of the observation.
"""
from __future__ import annotations

from steadyhand.errors import ConfigError
from steadyhand_sim.envs import DOCK_ID, GRASP_ID, INSERT_ID
from steadyhand_sim.envs.experts.arm import GraspExpert, InsertExpert
from steadyhand_sim.envs.experts.dock import DockExpert
from steadyhand_sim.envs.formulations import CARTESIAN, check_formulation


def expert(env_id: str, formulation: str = CARTESIAN):
    """An object with `act(observation, info) -> action`; raises ConfigError for an environment that has none."""
    if env_id == DOCK_ID:
        return DockExpert()
    makers = {GRASP_ID: GraspExpert, INSERT_ID: InsertExpert}
    if env_id not in makers:
        raise ConfigError(f"no expert for {env_id!r}; there are: {', '.join([*makers, DOCK_ID])}")
    return makers[env_id](check_formulation(formulation))
