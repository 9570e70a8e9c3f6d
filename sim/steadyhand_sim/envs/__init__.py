"""Gymnasium environments on the simulated cell: the running graph's own plant, conversions, interpolator and gate.

    import gymnasium, steadyhand_sim.envs
    env = gymnasium.make("Steadyhand/UR5Grasp-v0", formulation="joint_delta")

Importing this package registers them (gymnasium itself is imported here, nowhere else in the package). Law of the
folder: whatever passes time is a world, whatever decides what moves is the runtime's, whatever pays is in `rewards`;
ground truth is for rewards and success, never for an observation. `docs/environments.md` is the user's page.
"""
from steadyhand.errors import DependencyMissing

try:
    import gymnasium
except ImportError as error:
    raise DependencyMissing("environments need gymnasium: pip install 'steadyhand[sim]'") from error

PICK_PLACE_ID = "Steadyhand/UR5PickPlace-v0"
GRASP_ID = "Steadyhand/UR5Grasp-v0"
INSERT_ID = "Steadyhand/UR5Insert-v0"
DOCK_ID = "Steadyhand/AGVDock-v0"

_ENTRY_POINTS = {
    PICK_PLACE_ID: "steadyhand_sim.envs.pick_place:PickPlaceEnv",
    GRASP_ID: "steadyhand_sim.envs.ur5_grasp:UR5GraspEnv",
    INSERT_ID: "steadyhand_sim.envs.ur5_insert:UR5InsertEnv",
    DOCK_ID: "steadyhand_sim.envs.agv_dock:AGVDockEnv",
}

for _name, _entry_point in _ENTRY_POINTS.items():
    if _name not in gymnasium.registry:
        gymnasium.register(_name, entry_point=_entry_point)
