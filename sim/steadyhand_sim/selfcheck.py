"""Scripted pick and place straight on the world: proves that grasps and the cell's geometry work.

    python -m steadyhand_sim.selfcheck --seeds 20 --cubes 5
"""
from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import dataclass

import numpy as np

from steadyhand import cell, kinematics, skills, ur5
from steadyhand_sim import scene
from steadyhand_sim.world import World, WorldConfig

CYCLE_S = ur5.SERVO_PERIOD_CB3_S
SPEED_RAD_S, ACCELERATION_RAD_S2 = 1.6, 8.0  # bounds of the scripted moves' largest joint motion
APPROACH_Z_M = 0.10
SETTLE_CYCLES, GRIP_CYCLES = 12, 45


@dataclass(frozen=True)
class Outcome:
    """One episode."""

    seed: int
    n_cubes: int
    in_box: int
    dropped: int
    simulated_s: float


class Script:
    """Moves one world by joint-space quintics between tool poses."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.q = np.array(world.config.q_start_rad)
        self._substeps = max(1, round(CYCLE_S / world.physics_period_s))

    def hold(self, cycles: int) -> None:
        """Stand still."""
        for _ in range(cycles):
            self.world.step(self.q, np.zeros(6), self._substeps)

    def move(self, x: float, y: float, z: float, yaw: float) -> None:
        """To a tool pose pointing down."""
        self.move_joints(kinematics.ik_near(kinematics.tool_down(x, y, z, yaw), self.q))

    def move_joints(self, q_end: np.ndarray) -> None:
        """To a configuration; peak velocity of a quintic is 15/8 of the mean, peak acceleration 5.77 D/T^2."""
        distance = np.abs(q_end - self.q).max()
        duration = max(1.875 * distance / SPEED_RAD_S, np.sqrt(5.7735 * distance / ACCELERATION_RAD_S2), CYCLE_S)
        start, n = self.q, int(np.ceil(duration / CYCLE_S))
        for k in range(1, n + 1):
            s = k / n
            self.world.step(
                start + (q_end - start) * (10 * s**3 - 15 * s**4 + 6 * s**5),
                (q_end - start) * (30 * s**2 - 60 * s**3 + 30 * s**4) / (n * CYCLE_S), self._substeps,
            )
        self.q = np.array(q_end)

    def pick_and_place(self, index: int, placed: int) -> None:
        """One cube, by ground truth."""
        positions, quaternions = self.world.object_poses()
        x, y, _ = positions[index]
        yaw = float(scene.cube_yaw(quaternions[index])[0])
        self.world.set_gripper("pregrasp")
        self.move(x, y, APPROACH_Z_M, yaw)
        self.move(x, y, cell.CUBE_SIZE_M / 2, yaw)
        self.hold(SETTLE_CYCLES)
        self.world.set_gripper("close")
        self.hold(GRIP_CYCLES)
        self.move(x, y, skills.CARRY_Z_M, yaw)
        target = skills.release_target(placed)
        self.move(*target.position_m[:2], skills.CARRY_Z_M, target.yaw_rad)
        self.move(*target.position_m, target.yaw_rad)
        self.hold(SETTLE_CYCLES)
        self.world.set_gripper("pregrasp")
        self.hold(GRIP_CYCLES)
        self.move(*target.position_m[:2], skills.RETREAT_Z_M, target.yaw_rad)


def run_episode(world: World, seed: int, n_cubes: int) -> Outcome:
    """Pick and place every cube of a seed's scene once."""
    world.reset(seed, n_cubes)
    script = Script(world)
    for index in range(n_cubes):
        script.pick_and_place(index, index)
    script.move_joints(cell.HOME_Q_RAD)
    score = world.score()
    return Outcome(seed, n_cubes, score.in_box, score.dropped, world.time_s)


def main(argv: list[str] | None = None) -> int:
    """Run the self-check; prints JSON; exit code 0 if at least 99 % of the cubes are in the box."""
    parser = argparse.ArgumentParser(prog="steadyhand_sim.selfcheck", description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--cubes", type=int, default=5)
    parser.add_argument("--finger-friction", type=float, default=WorldConfig.finger_friction)
    args = parser.parse_args(argv)
    if args.seeds < 1 or args.first_seed < 0 or not 1 <= args.cubes <= cell.MAX_CUBES:
        parser.error(
            f"--seeds {args.seeds} --first-seed {args.first_seed} --cubes {args.cubes}: "
            f"give 1 or more seeds from 0 on, 1 to {cell.MAX_CUBES} cubes"
        )
    outcomes = []
    started = time.process_time()
    with World(WorldConfig(n_cubes=args.cubes, finger_friction=args.finger_friction)) as world:
        for seed in range(args.first_seed, args.first_seed + args.seeds):
            outcomes.append(run_episode(world, seed, args.cubes))
    placed, attempted = sum(o.in_box for o in outcomes), sum(o.n_cubes for o in outcomes)
    report = {
        "cubes_placed": placed,
        "cubes_attempted": attempted,
        "cycle_s_per_cube": sum(o.simulated_s for o in outcomes) / attempted,
        "simulated_s_per_cpu_s": sum(o.simulated_s for o in outcomes) / (time.process_time() - started),
        "failed_seeds": [o.seed for o in outcomes if o.in_box != o.n_cubes],
    }
    print(json.dumps(report))
    return 0 if placed >= 0.99 * attempted else 1


if __name__ == "__main__":
    sys.exit(main())
