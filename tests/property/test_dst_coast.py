"""Blocks of cycles leave the very same bits as the cycles one by one: guard, robot, checker, and what follows."""
import dataclasses
from collections import deque

import numpy as np
import pytest

from steadyhand_cli.dst import coast, episode, faults, paths
from steadyhand_cli.dst.clock import START_S
from steadyhand_cli.dst.world import World

LENGTH_S = 45.0
SKIPPED = ("world", "answer", "fresh_token", "rng", "clock", "config", "limits", "robot", "gate", "command_gripper", "plan")


def memory(thing, depth=0):
    """Everything that an object remembers, as plain comparable values."""
    if isinstance(thing, np.ndarray):
        return thing.tobytes()
    if isinstance(thing, (list, tuple, deque)):
        return [memory(x, depth + 1) for x in thing]
    if isinstance(thing, dict):
        return {k: memory(v, depth + 1) for k, v in thing.items()}
    if dataclasses.is_dataclass(thing) or type(thing).__module__.startswith("steadyhand"):
        if not hasattr(thing, "__dict__") or callable(thing):
            return repr(thing)
        return {k: memory(v, depth + 1) for k, v in vars(thing).items() if k not in SKIPPED and not callable(v)}
    return repr(thing)


def start(seed, blocks):
    world = World(seed, blocks)
    world.begin()
    for i in episode.schedule(seed, LENGTH_S):
        world.at(START_S + i.at_s, lambda i=i: faults.inject(world, i.kind, f"{seed}/{i.number}"))
    return world


def snapshot(world):
    plan = world.host.guard.motion.plan
    return {
        "guard": memory(world.host.guard), "robot": memory(world.robot), "plant": world.robot.plant.x.tobytes(),
        "plan": memory(plan), "moving": world.checker.setpoints.moving, "state": memory(world.host.states[-1]),
        "setpoints": memory(world.checker.setpoints), "injected": dict(world.injected),
        "told": memory(world.host.told), "vehicle": memory(world.vehicle), "cell": memory(world.checker.cell),
    }  # fmt: skip


@pytest.mark.parametrize("seed", range(2, 8))
def test_blocks_and_single_cycles_leave_the_same_bits(seed):
    assert compared_blocks(seed, LENGTH_S) >= 3


def test_blocks_of_an_arm_that_comes_and_goes_where_a_vehicle_stands(monkeypatch):
    monkeypatch.setattr(paths, "OVER_SHARE", 0.5)
    assert compared_blocks(3, 25.0) >= 8


def compared_blocks(seed, length_s):
    """How many blocks of a run left the bits of single cycles."""
    fast, slow = start(seed, True), start(seed, False)
    compared = 0
    while fast.clock.now_s < START_S + length_s:
        blocks = fast.block_cycles
        fast.cycle()
        if fast.block_cycles > blocks:
            fast.cycle()  # one more, which also renews what is only published
            while slow.clock.cycle < fast.clock.cycle:
                slow.cycle()
            a, b = snapshot(fast), snapshot(slow)
            for name in a:
                assert a[name] == b[name], (seed, name, fast.clock.now_s)
            compared += 1
    assert fast.block_cycles > 0.2 * fast.clock.cycle
    return compared


def test_a_block_is_taken_back_when_a_cycle_of_it_might_decide(monkeypatch):
    world = start(1, True)
    world.run_until(START_S + 2.0)
    before = world.robot.plant.x.tobytes()
    monkeypatch.setattr(coast, "_follows", lambda *_: False)
    assert coast.advance(world) == 0 and world.robot.plant.x.tobytes() == before


def test_no_block_begins_when_the_other_guards_robot_is_unsafe():
    world, twin = start(3, False), start(3, False)  # with a vehicle
    for each in (world, twin):
        each.run_until(START_S + 2.0)
    while not coast.advance(twin):
        twin.cycle()
        world.cycle()
    world.vehicle.unsafe = "robot_safety:emergency"
    told = world.vehicle.told = world.vehicle.beat()
    now_s = world.clock.now_s = world.clock.at(world.clock.cycle)
    world.host.peer(told, now_s)
    assert world.host.guard.state.armed and coast.advance(world) == 0
    world.cycle()
    assert not world.host.guard.state.armed and world.checker.violations == []
