"""Scripted pick and place on physics alone: grasps hold by friction, and by nothing else."""
import json
import subprocess
import sys

import pytest

pytest.importorskip("pybullet")
from steadyhand import cell, skills
from steadyhand_sim import scene
from steadyhand_sim.selfcheck import Script, run_episode
from steadyhand_sim.world import World, WorldConfig

pytestmark = pytest.mark.sim


def test_every_cube_of_a_full_tray_reaches_the_box():
    with World(WorldConfig(n_cubes=8), seed=0) as world:
        outcome = run_episode(world, seed=21, n_cubes=8)
    assert outcome.in_box == 8


def test_without_finger_friction_no_cube_is_placed():
    with World(WorldConfig(n_cubes=3, finger_friction=0.0), seed=0) as world:
        outcome = run_episode(world, seed=21, n_cubes=3)
    assert outcome.in_box == 0


def test_losing_friction_while_carrying_drops_the_cube():
    with World(WorldConfig(n_cubes=1), seed=4) as world:
        script = Script(world)
        positions, quaternions = world.object_poses()
        x, y, _ = positions[0]
        yaw = float(scene.cube_yaw(quaternions[0])[0])
        world.set_gripper("pregrasp")
        script.move(x, y, 0.1, yaw)
        script.move(x, y, cell.CUBE_SIZE_M / 2, yaw)
        world.set_gripper("close")
        script.hold(45)
        script.move(x, y, skills.CARRY_Z_M, yaw)
        assert world.object_poses()[0][0, 2] > 0.1
        assert skills.grasp_verified(world.gripper_width, commanded_closed=True)
        assert world.held_objects().tolist() == [True] and world.score().in_motion == 1
        world.set_finger_friction(0.0)
        script.hold(60)
        assert world.object_poses()[0][0, 2] < 0.05
        assert not skills.grasp_verified(world.gripper_width, commanded_closed=True)


_EPISODE = """
import json, sys
import numpy as np
from steadyhand import cell
from steadyhand_sim.camera import Renderer
from steadyhand_sim.look import sample_look
from steadyhand_sim.selfcheck import Script
from steadyhand_sim.world import World
world = World(seed=int(sys.argv[1]))
Script(world).pick_and_place(0, 0)
positions, quaternions = world.object_poses()
image = Renderer(sample_look(3, "train")).draw(world.snapshot(seq=9))
import hashlib
print(json.dumps([hashlib.sha256(a.tobytes()).hexdigest() for a in (world.q_rad, positions, quaternions, image)]))
"""


@pytest.mark.process
def test_two_processes_are_bit_identical():
    def run(seed):
        done = subprocess.run(
            [sys.executable, "-c", _EPISODE, str(seed)], capture_output=True, text=True, timeout=60, check=True,
            env={
                "PYTHONPATH": ":".join(p for p in sys.path if p), "PATH": "/usr/bin:/bin", "PYTHONHASHSEED": str(seed),
            },
        )
        return json.loads(done.stdout)

    assert run(5) == run(5)
    assert run(6) != run(5)
