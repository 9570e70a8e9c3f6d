"""The guard of the vehicle beside the arm, the way to it, and an arm that reaches over the vehicle at a bad moment."""
from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from steadyhand.guard_protocol import Beat, Stop, encode
from steadyhand_cli.dst.actors import LONG
from steadyhand_cli.dst.kinds.kind import Apply
from steadyhand_cli.dst.paths import PEAK_ACCELERATION, PEAK_VELOCITY, over_vehicle
from steadyhand_cli.dst.vehicle import Vehicle
from steadyhand_cli.dst.world import World

REACH_RAD_S, REACH_RAD_S2, LEAST_PERIOD_S = 1.6, 4.0, 0.02
TRIES = 5


def link(name: str, mode: str) -> Apply:
    """Beats come all the time: each fault meets some."""

    def apply(world: World, rng: random.Random) -> bool:
        way, now_s = world.links[name], world.clock.now_s
        way.pending.add(mode)
        if mode == "delay":
            way.stall_until_s = now_s + rng.choice([0.03, 0.09, 0.15, 0.5])
        elif mode == "partition":
            way.cut_until_s = now_s + rng.choice([0.05, 0.09, 0.15, 0.4, 1.0])
        else:
            setattr(way, mode, rng.choice([1, 2, 4]))
            world.at(now_s + 0.6, way.forget)
        return True

    return apply


def _vehicle(act: Callable[[Vehicle, World, random.Random], None]) -> Apply:
    """Done to the vehicle when its guard runs."""

    def apply(world: World, rng: random.Random) -> bool:
        if not world.vehicle.runs(world.clock.now_s):
            return False
        act(world.vehicle, world, rng)
        return True

    return apply


@_vehicle
def stopped(vehicle: Vehicle, world: World, rng: random.Random) -> None:
    vehicle.stop("stop_requested", counts=True)


@_vehicle
def safety(vehicle: Vehicle, world: World, rng: random.Random) -> None:
    """Its own scanners, or its emergency stop."""
    vehicle.unsafe = "robot_safety:emergency"
    vehicle.stop("robot_safety", counts=vehicle.armed)

    def clear() -> None:
        vehicle.unsafe = ""

    world.at(world.clock.now_s + rng.uniform(0.05, 1.0), clear)


def hangs(least_s: float, most_s: float) -> Apply:
    return _vehicle(lambda vehicle, world, rng: vehicle.hang(rng.uniform(least_s, most_s)))


def dies(least_s: float, most_s: float) -> Apply:
    @_vehicle
    def apply(vehicle: Vehicle, world: World, rng: random.Random) -> None:
        vehicle.kill()
        world.at(world.clock.now_s + rng.uniform(least_s, most_s), vehicle.start)

    return apply


@_vehicle
def tells_late(vehicle: Vehicle, world: World, rng: random.Random) -> None:
    vehicle.late_s, vehicle.late_until_s = rng.uniform(0.02, 0.09), world.clock.now_s + rng.uniform(0.3, 1.5)


def leaves(heeds: bool) -> Apply:
    """It sets out, and the arm begins to reach over it at about the same moment."""

    def apply(world: World, rng: random.Random) -> bool:
        vehicle = world.vehicle
        reaches = rng.random() < 0.7 and reach(world, rng, rng.uniform(0.0, 0.25))
        world.at(world.clock.now_s + rng.uniform(0.0, 0.15), lambda: vehicle.set_out_now(heeds))
        return reaches or vehicle.runs(world.clock.now_s)

    return apply


def reach(world: World, rng: random.Random, delay_s: float = 0.0) -> bool:
    """A chunk that keeps every rule but leads the arm over the vehicle's place; nobody else commands meanwhile."""

    def send() -> None:
        states, agent, now_s = world.host.states, world.agent, world.clock.now_s
        if not states or not world.checker.armed or not world.shell.alive or world.mission is not None:
            return
        state = states[-1]
        q0, qd0 = np.array(state.q_commanded_rad), np.array(state.qd_commanded_rad_s)
        goal = over_vehicle(rng)
        distance = np.abs(goal - q0).max()
        duration_s = max(PEAK_VELOCITY * distance / REACH_RAD_S, (PEAK_ACCELERATION * distance / REACH_RAD_S2) ** 0.5)
        period_s, s = max(duration_s / LONG, LEAST_PERIOD_S), np.linspace(0.0, 1.0, LONG + 1)[1:, None]
        coast = qd0 * period_s * LONG * s * (1 - s) ** 3 * (1 + 3 * s)
        q = q0 + s**3 * (10 - 15 * s + 6 * s * s) * (goal - q0) + coast
        agent.path = None
        agent.wake_at(now_s + period_s * LONG + 0.3)
        chunk = agent.chunk_of(state, q, period_s)
        world.shell.relay(replace(chunk, trace_id="r" + chunk.trace_id))

    world.at(world.clock.now_s + delay_s, send)
    return True


def reaches(world: World, rng: random.Random) -> bool:
    """Again and again for a while: whatever the vehicle does, and its guard's silence, meets some of them."""
    for k in range(TRIES):
        reach(world, rng, 0.5 * k)
    return True


@_vehicle
def reach_in_silence(vehicle: Vehicle, world: World, rng: random.Random) -> None:
    """Its guard is silent for about as long as it may be, and the arm begins to reach over the vehicle."""
    vehicle.hang(rng.uniform(0.08, 0.3))
    for delay_s in (0.05, 0.09, 0.12):
        reach(world, rng, delay_s)


def stranger(world: World, rng: random.Random) -> bool:
    """Somebody else beats, while the other guard is silent: in its own name, and what is no beat in nobody's."""
    world.vehicle.hang(0.4)
    for k in range(40):
        beat = Beat("forklift", 7, k, "", "", "")
        packet = rng.choice([beat, encode(beat), encode(Stop("x")), rng.randbytes(rng.randint(0, 60))])
        world.at(world.clock.now_s + 0.01 * k, lambda packet=packet: world.host.peer(packet, world.clock.now_s))
    return True


@_vehicle
def flood(vehicle: Vehicle, world: World, rng: random.Random) -> None:
    for k in range(200):
        world.at(world.clock.now_s + 0.0002 * k, lambda: world.host.peer(vehicle.beat(), world.clock.now_s))


def agent_beats(silence_s: tuple[float, float], cycles: int = 0) -> Apply:
    """The agent runs, and its heartbeats come every so many cycles, or not at all, for a while."""

    def apply(world: World, rng: random.Random) -> bool:
        if not world.agent.well_now(world.clock.now_s):
            return False
        world.agent_until_s, world.agent_beat_cycles = world.clock.now_s + rng.uniform(*silence_s), cycles
        return True

    return apply
