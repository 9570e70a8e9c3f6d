"""The arm loads the docked vehicle, in virtual time: every move passes the gate of the cell's configuration."""
import math
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pybullet")
from steadyhand import cell, collision, kinematics
from steadyhand.slot import current_slot
from steadyhand_cli.loading import BEHIND, deck, pick
from steadyhand_firmware_bridge.guard import config
from steadyhand_firmware_bridge.guard.zone import Zone
from steadyhand_sim import scene
from steadyhand_sim.agv.body_link import VehicleInCell
from steadyhand_sim.world import World, WorldConfig

pytestmark = pytest.mark.sim
ARM = config.load(Path(__file__).parents[2] / "config/cell_guard_ur5.yaml")
ZONE, LIMITS = Zone(ARM.interlock_zone_m), ARM.limits()
CYCLE_S, SPEED_RAD_S = 0.008, 1.2


class Loading:
    """One world; `move` refuses what the gate's box, joint ranges or clearances would."""

    def __init__(self, folder):
        self.world = World(WorldConfig(n_cubes=2), 0)
        slot = current_slot({"STEADYHAND_SLOT": "3", "XDG_RUNTIME_DIR": str(folder)})
        self.vehicle = VehicleInCell(self.world.client, slot, (-0.66, 0.0, math.pi / 2))
        self.q = np.array(cell.HOME_Q_RAD)

    def step(self, q):
        self.vehicle.before_cycle()
        self.world.step(q)
        self.vehicle.after_cycle()
        self.q = np.array(q)

    def move(self, q_rad):
        """Go there; whether the arm was over the vehicle on its way."""
        steps = max(20, round(1.5 * np.abs(q_rad - self.q).max() / SPEED_RAD_S / CYCLE_S))
        share = np.linspace(0, 1, steps + 1)[1:, None]
        path = self.q + (q_rad - self.q) * share**2 * (3 - 2 * share)
        tool = kinematics.pose_base_link_tool(path)[:, :3, 3]
        assert ((tool >= LIMITS.tool_min_m) & (tool <= LIMITS.tool_max_m)).all(), tool
        assert ((path >= LIMITS.q_min_rad) & (path <= LIMITS.q_max_rad)).all()
        found = collision.path_clearance(path, kinematics.link_transforms(path), LIMITS.min_clearance_m)
        assert found.clearance_m >= LIMITS.min_clearance_m, found
        for q in path:
            self.step(q)
        return bool(ZONE.inside(path).any())

    def grip(self, command, seconds=1.0):
        self.world.set_gripper(command)
        for _ in range(round(seconds / CYCLE_S)):
            self.step(self.q)

    def loaded(self):
        return self.vehicle.state(self.world.object_poses()[0], self.world.robot)


def test_cubes_go_from_the_tray_to_places_of_their_own_on_the_vehicle(tmp_path):
    rig = Loading(tmp_path)
    try:
        for place in (1, 2):
            cube = place - 1
            positions, quaternions = rig.world.object_poses()
            above, at = pick(positions[cube], float(scene.cube_yaw(quaternions)[cube]))
            over, low = deck(place)
            rig.grip("pregrasp")
            assert not any([rig.move(above), rig.move(at)])
            rig.grip("close")
            # never over the vehicle's way
            assert not any([rig.move(above), rig.move(cell.HOME_Q_RAD), rig.move(BEHIND)])
            assert all([rig.move(over), rig.move(low)]) and rig.loaded()["loaded"] == list(range(cube))
            rig.grip("pregrasp")
            assert all([rig.move(over), rig.move(BEHIND)])
            assert not rig.move(cell.HOME_Q_RAD)
            seen = rig.loaded()
            assert seen["loaded"] == list(range(place)) and not seen["touches_arm"]
        assert math.dist(seen["pose"][:2], (-0.66, 0.0)) < 2e-3  # nobody has pushed the vehicle
    finally:
        rig.vehicle.close()
        rig.world.close()
