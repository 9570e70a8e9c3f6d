"""Processes that die, freeze, fall silent, or get something to do."""
from __future__ import annotations

import random

from steadyhand_cli.dst.kinds.kind import Apply
from steadyhand_cli.dst.world import World


def guard_killed(world: World, rng: random.Random) -> bool:
    if world.host.guard is None:
        return False
    world.host.kill()
    restart_s = world.clock.now_s + rng.uniform(0.1, 0.6)
    world.at(restart_s, lambda: _restart_guard(world))
    return True


def _restart_guard(world: World) -> None:
    if world.host.guard is None:
        world.host.start(world.clock.at(world.clock.cycle))
        world.shell.connect()


def guard_ended(world: World, rng: random.Random) -> bool:
    if world.host.guard is None or world.host.ending:
        return False
    world.host.ending = True
    for delay_s in (1.0, 3.0, 5.0):
        world.at(world.clock.now_s + delay_s, lambda: _restart_guard(world))
    return True


def freeze_guard(least_s: float, most_s: float) -> Apply:
    def apply(world: World, rng: random.Random) -> bool:
        if world.host.guard is None:
            return False
        world.host.frozen_until_s = world.clock.now_s + rng.uniform(least_s, most_s)
        return True

    return apply


def late(world: World, rng: random.Random) -> bool:
    world.host.jitter_s = rng.uniform(0.0005, 0.006)
    return world.host.guard is not None


def shell_killed(world: World, rng: random.Random) -> bool:
    if not world.shell.alive:
        return False
    world.shell.kill(world.clock.now_s)
    world.at(world.clock.now_s + rng.uniform(0.05, 0.5), world.shell.start)
    return True


def freeze(process: str, least_s: float, most_s: float) -> Apply:
    def apply(world: World, rng: random.Random) -> bool:
        target = getattr(world, process)
        target.frozen_until_s = world.clock.now_s + rng.uniform(least_s, most_s)
        return target.alive

    return apply


def agent_killed(world: World, rng: random.Random) -> bool:
    if not world.agent.alive:
        return False
    world.agent.kill()
    world.at(world.clock.now_s + rng.uniform(0.05, 1.5), lambda: world.agent.start(world.clock.now_s))
    return True


def stream(world: World, rng: random.Random) -> bool:
    """No fault by itself: the next faults meet a closed loop at 20 Hz."""
    world.agent.streaming, world.agent._source = rng.randint(10, 25), "policy"
    world.agent.wake_at(world.clock.now_s + 0.001)
    return False


def mission(world: World, rng: random.Random) -> bool:
    """The product's own agent gets a goal at the next arming, which this stop brings about, and a cancel."""
    world.mission_due = True
    world.stop()
    return True


def estimator_silent(world: World, rng: random.Random) -> bool:
    world.estimator_until_s = world.clock.now_s + rng.choice([0.2, 0.8, 1.5])
    return True


def estimator_unwell(world: World, rng: random.Random) -> bool:
    world.unwell_until_s = world.clock.now_s + rng.uniform(0.2, 1.0)
    return True


def operator_absent(world: World, rng: random.Random) -> bool:
    world.operator.present = False

    def back() -> None:
        world.operator.present = True

    world.at(world.clock.now_s + rng.uniform(0.5, 2.0), back)
    return True


def controller_held(world: World, rng: random.Random) -> bool:
    world.robot.frozen_until = world.robot.tick_count + rng.randint(0, 3)
    return True


def controller_frozen(world: World, rng: random.Random) -> bool:
    world.robot.frozen_until = world.robot.tick_count + rng.choice([5, 6, 8, 20, 60])
    return True
