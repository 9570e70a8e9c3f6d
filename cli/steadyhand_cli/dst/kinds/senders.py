"""Hostile or careless senders: chunks, gripper orders and heartbeats that must not be obeyed."""
from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from steadyhand.guard_protocol import Chunk, Gripper, Heartbeat
from steadyhand_cli.dst.actors import LONG, LONG_PERIOD_S, SHORT, SHORT_PERIOD_S
from steadyhand_cli.dst.kinds.kind import Apply
from steadyhand_cli.dst.world import World


def _fresh_chunk(world: World, rng: random.Random) -> Chunk | None:
    """A chunk that would be accepted now: what a sender who sees everything can make."""
    states, agent = world.host.states, world.agent
    if not states or agent.path is None:
        return None
    state = states[-1]
    q = agent.path.waypoints(state.stamp_s, SHORT, SHORT_PERIOD_S)
    chunk = agent.chunk(state)
    return replace(chunk, trace_id="h" + chunk.trace_id, period_s=SHORT_PERIOD_S, q_rad=q.tolist(), source="planner")


def hostile(change: Callable[[Chunk, World, random.Random], Chunk], commander: bool = True) -> Apply:
    """A changed chunk over the commander's own connection (a shell taken over), or over a stranger's."""

    def apply(world: World, rng: random.Random) -> bool:
        chunk = _fresh_chunk(world, rng)
        if chunk is None:
            return False
        now_s = world.clock.now_s
        client = world.shell.client if commander else world.host.connect("stranger", True, now_s)
        if client is None:
            return False
        world.host.deliver(client, change(chunk, world, rng), now_s + 0.0001)
        if not commander:
            world.at(now_s + rng.uniform(0.1, 1.0), lambda: world.host.disconnect(client, world.clock.now_s))
        return True

    return apply


def offset(joint_step_rad: float) -> Callable[[Chunk, World, random.Random], Chunk]:
    def change(chunk: Chunk, world: World, rng: random.Random) -> Chunk:
        j, k = rng.randrange(6), rng.randrange(len(chunk.q_rad))
        rows = [list(r) for r in chunk.q_rad]
        for row in rows[k:]:
            row[j] += joint_step_rad
        return replace(chunk, q_rad=rows)

    return change


def value(number: float) -> Callable[[Chunk, World, random.Random], Chunk]:
    def change(chunk: Chunk, world: World, rng: random.Random) -> Chunk:
        rows = [list(r) for r in chunk.q_rad]
        rows[rng.randrange(len(rows))][rng.randrange(6)] = number
        return replace(chunk, q_rad=rows)

    return change


def low(chunk: Chunk, world: World, rng: random.Random) -> Chunk:
    """Down through the table, so smoothly that every other rule is kept."""
    s = np.linspace(0.0, 1.0, LONG)
    q = world.agent.path.waypoints(chunk.state_stamp_s, LONG, LONG_PERIOD_S)
    q[:, 1] += rng.choice([0.5, 1.0]) * s**3 * (10 - 15 * s + 6 * s * s)
    return replace(chunk, q_rad=q.tolist(), period_s=LONG_PERIOD_S)


def old_token(chunk: Chunk, world: World, rng: random.Random) -> Chunk:
    others = sorted(world.checker.tokens - {chunk.token}) or [0]
    return replace(chunk, token=rng.choice(others))


def ago(world: World, rng: random.Random) -> bool:
    """Consistent in itself, the answer to a state that was published; but it comes too late."""
    chunk = _fresh_chunk(world, rng)
    if chunk is None:
        return False
    q = world.agent.path.waypoints(chunk.state_stamp_s, LONG, LONG_PERIOD_S)
    late = replace(chunk, q_rad=q.tolist(), period_s=LONG_PERIOD_S)
    world.at(world.clock.now_s + rng.uniform(0.12, 0.4), lambda: world.shell.relay(late))
    return True


def replay(world: World, rng: random.Random) -> bool:
    chunk = world.agent.accepted
    if chunk is None:
        return False
    for delay_s in (0.0, 0.02, 0.3, 0.8, 1.2):
        world.at(world.clock.now_s + delay_s, lambda: world.shell.relay(chunk))
    return True


def out_of_order(world: World, rng: random.Random) -> bool:
    """Two chunks that are both fresh, the newer one first."""
    new = _fresh_chunk(world, rng)
    states = world.host.states
    if new is None or len(states) < 6:
        return False
    old = replace(new, state_seq=states[-5].seq, state_stamp_s=states[-5].stamp_s, trace_id=new.trace_id + "o")
    world.shell.relay(new)
    world.at(world.clock.now_s + 0.017, lambda: world.shell.relay(old))
    return True


def flood(world: World, rng: random.Random) -> bool:
    chunk = _fresh_chunk(world, rng)
    if chunk is None:
        return False
    for k in range(60):
        delay_s = 0.001 * k
        world.at(world.clock.now_s + delay_s, lambda: world.host.deliver(world.shell.client, chunk, world.clock.now_s))
    return True


def garbage(world: World, rng: random.Random) -> bool:
    for _ in range(4):
        world.host.deliver(world.shell.client, rng.randbytes(rng.randint(0, 200)), world.clock.now_s)
    return world.shell.client is not None


def strangers_beat(world: World, rng: random.Random) -> bool:
    """A stranger says that the estimator is well while it is silent."""
    now_s = world.clock.now_s
    client = world.host.connect("stranger", False, now_s)
    if client is None:
        return False
    world.estimator_until_s = now_s + 1.2
    for k in range(14):
        world.at(now_s + 0.1 * k, lambda: world.host.deliver(client, Heartbeat("estimator", True), world.clock.now_s))
    world.at(now_s + 1.5, lambda: world.host.disconnect(client, world.clock.now_s))
    return True


def grip(change: Callable[[World, random.Random], Gripper], after_stop: bool = False, commander: bool = True) -> Apply:
    def apply(world: World, rng: random.Random) -> bool:
        now_s = world.clock.now_s
        client = world.shell.client if commander else world.host.connect("stranger", False, now_s)
        if client is None:
            return False
        order = change(world, rng)
        if after_stop:
            world.stop()
            world.at(now_s + 0.03, lambda: world.host.deliver(client, order, world.clock.now_s))
            world.at(now_s + rng.uniform(0.2, 1.0), lambda: world.host.deliver(client, order, world.clock.now_s))
        else:
            world.host.deliver(client, order, now_s)
        if not commander:
            world.at(now_s + 0.3, lambda: world.host.disconnect(client, world.clock.now_s))
        return True

    return apply


def order(world: World, rng: random.Random) -> Gripper:
    return Gripper(world.agent.token, rng.choice([0.0, 0.062, 0.085]), f"x{world.clock.cycle}")
