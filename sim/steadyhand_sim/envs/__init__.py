"""Gymnasium environments on the simulated cell: the running graph's own plant, conversions, interpolator and gate.

    import gymnasium, steadyhand_sim.envs
    env = gymnasium.make("Steadyhand/UR5PickPlace-v0")

Importing this package registers them (gymnasium itself is imported here, nowhere else in the package).
"""
from steadyhand.errors import DependencyMissing

try:
    import gymnasium
except ImportError as error:
    raise DependencyMissing("environments need gymnasium: pip install 'steadyhand[sim]'") from error

PICK_PLACE_ID = "Steadyhand/UR5PickPlace-v0"

if PICK_PLACE_ID not in gymnasium.registry:
    gymnasium.register(PICK_PLACE_ID, entry_point="steadyhand_sim.envs.pick_place:PickPlaceEnv")
