"""The robot's own stops and modes, its sensors and its line, its program; and the wall clock of the host."""
from __future__ import annotations

import random

from steadyhand_cli.dst.kinds.kind import Apply
from steadyhand_cli.dst.world import World


def robot_modes(robot_mode: int, safety_mode: int) -> Apply:
    def apply(world: World, rng: random.Random) -> bool:
        robot = world.robot
        robot.robot_mode, robot.safety_mode = robot_mode, safety_mode

        def clear() -> None:
            robot.robot_mode, robot.safety_mode = 7, 1

        world.at(world.clock.now_s + rng.uniform(0.05, 0.8), clear)
        return True

    return apply


def freedrive(world: World, rng: random.Random) -> bool:
    return for_a_while(world, rng, world.robot, "freedrive")


def local(world: World, rng: random.Random) -> bool:
    return for_a_while(world, rng, world.robot, "local")


def for_a_while(world: World, rng: random.Random, owner: object, name: str) -> bool:
    setattr(owner, name, True)
    world.at(world.clock.now_s + rng.uniform(0.05, 0.8), lambda: setattr(owner, name, False))
    return True


def stuck(world: World, rng: random.Random) -> bool:
    stuck = world.robot.plant.stuck
    stuck[rng.randrange(6)] = True

    def free() -> None:
        stuck[:] = False

    world.at(world.clock.now_s + rng.uniform(0.05, 1.5), free)
    return True


def pushed(world: World, rng: random.Random) -> bool:
    world.robot.plant.x[2, rng.randrange(6)] += rng.choice([-0.08, -0.04, 0.04, 0.08])
    return True


def nan(world: World, rng: random.Random) -> bool:
    world.robot.nan_feedback = rng.randint(1, 4)
    return True


def repeats(world: World, rng: random.Random) -> bool:
    world.robot.repeat_until = world.robot.tick_count + rng.choice([3, 8, 30])
    return True


def cut(world: World, rng: random.Random) -> bool:
    world.robot.cut_until = world.robot.tick_count + rng.choice([2, 10, 60, 150, 350])
    return True


def refused(world: World, rng: random.Random) -> bool:
    world.robot.refuse_until = world.robot.tick_count + rng.choice([0, 1, 2, 3, 6, 20])
    return True


def ended(world: World, rng: random.Random) -> bool:
    if world.robot.program is None:
        return False
    world.robot._end_program()
    return True


def paused(world: World, rng: random.Random) -> bool:
    return for_a_while(world, rng, world.robot, "paused")


def arming_trouble(trouble: str) -> Apply:
    def apply(world: World, rng: random.Random) -> bool:
        robot = world.robot
        robot.arming_trouble = trouble

        def clear() -> None:
            robot.arming_trouble = ""

        world.at(world.clock.now_s + 1.5, clear)
        world.stop()  # so that an arming follows
        return True

    return apply


def wall(step_s: float) -> Apply:
    def apply(world: World, rng: random.Random) -> bool:
        world.clock.wall_offset_s += step_s
        world.agent.wake_at(world.clock.now_s + 0.01)
        return True

    return apply
