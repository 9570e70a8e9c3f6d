"""The simulator's vehicle beside the arm keeps the rules of docs/cell.md, and nobody has to stop while it does."""
from dataclasses import replace

import pytest

from steadyhand_cli.dst.world import World

SEED = 3  # with a vehicle


@pytest.fixture
def world():
    made = World(SEED)
    made.begin()
    return made


def run(world, seconds, each=lambda: None):
    end_s = world.clock.now_s + seconds
    while world.clock.now_s < end_s:
        world.cycle()
        each()
    assert world.checker.violations == []


def run_until_it_rolls_near(world):
    for _ in range(60):
        run(world, 1.0)
        if world.vehicle.rolls_near:
            return
    raise AssertionError("it never sets out")


def test_it_comes_and_goes_with_notice_and_the_arm_works_on(world):
    seen = {"claimed_s": None, "rolls": False, "trips": 0}

    def look():
        vehicle, now_s = world.vehicle, world.clock.now_s
        if not (vehicle.near and vehicle.claims):
            seen["claimed_s"] = None
        elif seen["claimed_s"] is None:
            seen["claimed_s"] = now_s
        if vehicle.rolls_near and not seen["rolls"] and vehicle._to_m > 0:
            assert now_s - seen["claimed_s"] > 0.08 and not vehicle.heard.zone
            seen["trips"] += 1
        seen["rolls"] = vehicle.rolls_near

    run(world, 120.0, look)
    assert seen["trips"] >= 2 and world.checker.stops == 0 and world.vehicle.stops == 0
    assert world.checker.setpoints.moving > 60.0 / world.clock.period_s


@pytest.mark.parametrize("act, within_s", [
    (lambda vehicle: vehicle.stop("stop_requested", counts=True), 0.03), (lambda vehicle: vehicle.kill(), 0.15),
    (lambda vehicle: vehicle.hang(1.0), 0.15),
])  # fmt: skip
def test_what_happens_to_it_stops_the_arm(world, act, within_s):
    run(world, 5.0)
    assert world.checker.armed
    act(world.vehicle)
    run(world, within_s)
    assert not world.checker.armed


def test_the_arms_stop_and_its_silence_stop_it_and_it_goes_on_when_it_is_armed_again(world):
    run_until_it_rolls_near(world)
    world.stop()
    run(world, 0.05)
    assert not world.vehicle.armed and world.vehicle.stops == 0  # not told on
    run(world, 40.0)
    assert world.vehicle.armed and world.checker.armed
    world.host.kill()
    run(world, 0.15)
    assert not world.vehicle.armed


def test_a_guard_that_dies_leaves_a_vehicle_that_rolls_on(world):
    run_until_it_rolls_near(world)
    before_m, boot = world.vehicle._x_m, world.vehicle.boot
    world.vehicle.kill()
    run(world, 8.0)
    assert not world.vehicle.rolling and world.vehicle._x_m != before_m
    world.vehicle.start()
    assert world.vehicle.boot != boot and bool(world.vehicle.beat().zone) == world.vehicle.near  # rest is not measured yet


def test_it_looks_again_before_it_begins_and_gives_its_claim_up(world):
    run(world, 1.0)
    vehicle = world.vehicle
    assert vehicle.near and not vehicle.heard.zone
    vehicle._set_out()
    assert vehicle.claims and not vehicle.rolling  # it waits for as long as a silence may last
    vehicle.heard = replace(vehicle.heard, zone="the arm is about to")
    vehicle._begin()
    assert not vehicle.rolling and not vehicle.claims
