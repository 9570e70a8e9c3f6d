"""The emulated Robotiq drives the same fingers as the outputs do: it closes on a cube of the cell, and says so."""
import numpy as np
import pytest

pytest.importorskip("pybullet")
from steadyhand import cell, skills
from steadyhand_sim import scene
from steadyhand_sim.plant import CellPlant
from steadyhand_sim.robotiq.device import RobotiqDevice
from steadyhand_sim.selfcheck import Script
from steadyhand_sim.ur_controller.plant import CLOSE_BIT, PlantCommand
from steadyhand_sim.world import World, WorldConfig

pytestmark = pytest.mark.sim
DT_S = 0.008


def test_it_closes_on_a_cube_and_reports_the_contact():
    with World(WorldConfig(n_cubes=1), seed=4) as world:
        plant = CellPlant(world)
        plant.gripper_by_outputs = False
        device = RobotiqDevice(plant, lambda: True, activated=True)
        script = Script(world)
        (x, y, _), yaw = world.object_poses()[0][0], float(scene.cube_yaw(world.object_poses()[1][0])[0])
        script.move(x, y, 0.1, yaw)
        script.move(x, y, cell.CUBE_SIZE_M / 2, yaw)
        hold = PlantCommand(world.q_rad, np.zeros(6), np.zeros(6), digital_outputs=CLOSE_BIT)
        for _ in range(60):  # the outputs say close, and do nothing
            assert plant.step(hold, DT_S).analog_inputs_v[0] == 0.0
            device.step(DT_S)
        assert abs(world.gripper_width - cell.GRIPPER_OPEN_M) < 0.002
        assert device.write({"POS": 255, "SPE": 255, "FOR": 24, "GTO": 1})
        for _ in range(150):
            plant.step(hold, DT_S)
            device.step(DT_S)
        assert device.read("OBJ") == 2 and skills.grasp_verified(world.gripper_width, commanded_closed=True)
        assert abs(device.read("POS") - round(255 * (1 - world.gripper_width / 0.085))) <= 1
        script.move(x, y, skills.CARRY_Z_M, yaw)
        assert world.held_objects().tolist() == [True] and world.object_poses()[0][0, 2] > 0.1
