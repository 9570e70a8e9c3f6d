"""The vehicle in PyBullet: it rolls, brakes, slips, bumps, and docks where the arm reaches its deck."""
import math

import numpy as np
import pytest

pytest.importorskip("pybullet")
from steadyhand import cell, kinematics
from steadyhand.vda5050.header import Identity
from steadyhand_motion import ik
from steadyhand_sim.agv import bullet_plant
from steadyhand_sim.agv.bullet_plant import BulletPlant
from steadyhand_sim.agv.fleet import make_unit
from steadyhand_sim.agv.noise import NoiseParameters
from steadyhand_sim.agv.site import ARM_DOCK, Site
from steadyhand_sim.agv.vehicle_config import VehicleConfig
from steadyhand_sim.world import World, WorldConfig
from tests.support.agv_orders import action, order

pytestmark = pytest.mark.sim
CONFIG = VehicleConfig()


@pytest.fixture
def plant():
    made = BulletPlant.in_own_cell(CONFIG)
    yield made
    made.close()


def drive(plant, speed, rotation, seconds, load_kg=0.0, ramp=True):
    for k in range(round(seconds / CONFIG.period_s)):
        share = min(1.0, (k + 1) * CONFIG.period_s * 0.6 / max(abs(speed), 0.1)) if ramp else 1.0
        plant.step(speed * share, rotation * share, load_kg)


@pytest.mark.parametrize("load_kg", [0.0, 40.0])
def test_it_rolls_as_it_is_told(plant, load_kg):
    plant.put(-5.0, 0.0, 0.0)
    drive(plant, 0.8, 0.0, 4.0, load_kg)
    x, y, heading = plant.pose()
    left, right = plant.rolled_m()
    assert plant.twist()[0] == pytest.approx(0.8, abs=0.02) and abs(y) < 0.02 and abs(heading) < 0.02
    assert x + 5.0 == pytest.approx((left + right) / 2, abs=0.03)
    drive(plant, 0.0, 0.6, 3.0, load_kg)
    assert plant.twist()[1] == pytest.approx(0.6, abs=0.05)


def test_it_stands_still_when_it_stands(plant):
    plant.put(-5.0, 0.0, 0.3)
    drive(plant, 0.0, 0.0, 5.0)
    assert math.dist(plant.pose()[:2], (-5.0, 0.0)) < 1e-3 and abs(plant.pose()[2] - 0.3) < 1e-3
    assert abs(plant.twist()[0]) < 1e-3


def test_it_is_stopped_by_a_wall(plant):
    p = plant._p
    wall = p.createMultiBody(0, p.createCollisionShape(p.GEOM_BOX, halfExtents=(0.1, 2, 0.5)), -1, (-3.0, 0, -0.3))
    plant.put(-5.0, 0.0, 0.0)
    drive(plant, 0.5, 0.0, 8.0)
    assert plant.touches(wall) and plant.pose()[0] < -3.1 - CONFIG.length_m / 2 + 0.02
    assert abs(plant.twist()[0]) < 0.02


def test_wheels_slip_on_a_slippery_floor(plant):
    plant._p.changeDynamics(plant.floor, -1, lateralFriction=0.08)
    plant.put(-5.0, 0.0, 0.0)
    drive(plant, 1.0, 0.0, 0.8, ramp=False)
    rolled, way = sum(plant.rolled_m()) / 2, plant.pose()[0] + 5.0
    assert rolled > way + 0.1 and plant.twist()[0] < 0.08 * 9.81 * 0.8 + 0.1


def test_it_docks_beside_the_arm_in_the_arms_own_world_and_the_deck_is_in_reach():
    with World(WorldConfig(n_cubes=0)) as world:
        plant = BulletPlant(world.client, CONFIG)
        rng, noise = np.random.default_rng(3), NoiseParameters.load()
        unit = make_unit(Identity("steadyhand", "t"), plant, CONFIG, Site(), noise, rng, (-0.66, -2.2, math.pi / 2))
        message = order([(-0.66, -2.2), (-0.66, 0.0)], actions={1: [action("finePositioning", "dock")]})
        message["nodes"][1]["nodePosition"]["theta"] = math.pi / 2
        unit.vehicle.on_order(message)
        plant.step = lambda speed, rotation, load_kg: step_world(world, plant, speed, rotation, load_kg)
        now_s = 0.0
        while unit.vehicle.book.active:
            now_s += CONFIG.period_s
            assert now_s < 40.0, unit.vehicle.errors
            unit.pass_period(now_s, [])
        x, y, heading = plant.pose()
        dock = Site().nodes[ARM_DOCK]
        assert math.dist((x, y), dock[:2]) < 0.02 and abs(heading - dock[2]) < 0.03
        assert not plant.touches(world._robot) and np.abs(world.q_rad - cell.HOME_Q_RAD).max() < 0.02
        for dx, dy in ((0, 0), (0.1, 0.15), (-0.1, -0.15)):  # the gripper over the deck, pointing down, 6 cm above it
            pose = np.eye(4)
            pose[:3, :3] = np.diag([1.0, -1.0, -1.0])
            pose[:3, 3] = (x + dx, y + dy, bullet_plant.FLOOR_Z_M + CONFIG.height_m + 0.06)
            found = ik.branches(pose, cell.HOME_Q_RAD)
            assert len(found)
            reached = kinematics.pose_base_link_tool(found[0])
            assert np.allclose(reached, pose, atol=1e-4)


def step_world(world, plant, speed, rotation, load_kg):
    """One control period of the vehicle while the arm holds its pose in its own cycles."""
    plant.command(speed, rotation, load_kg)
    for _ in range(5):
        world.step(cell.HOME_Q_RAD, np.zeros(6), 4)
    plant.settle()
