"""One seed is one run: its schedule of injections, what came of it, the smallest part of it that still goes wrong."""
from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

from steadyhand_cli.dst import faults
from steadyhand_cli.dst.cell import mix_of
from steadyhand_cli.dst.checker import Violation
from steadyhand_cli.dst.clock import START_S
from steadyhand_cli.dst.world import World

LENGTH_S = 300.0
FIRST_S, QUIET_S = 3.0, 24.0  # before the first injection; after the last one it must run again
EVERY_S, DENSE_S = 60.0, 6.0  # between two clusters: in a campaign, and when a defect is looked for
JUDGED_S = 10.0  # at the end of that; people may have taken over meanwhile, and a planned motion begins every 6 s
CLUSTER_SPREAD_S, CLUSTER_SIZE = 0.4, 6.0
EXACT_SHARE = 100  # one episode in so many runs without blocks


@dataclass(frozen=True)
class Injection:
    """A fault of the table, at a time from the start of the episode."""

    at_s: float
    kind: str
    number: int  # makes its random choices its own


@dataclass(frozen=True)
class Outcome:
    """What an episode showed."""

    seed: int
    violations: tuple[Violation, ...]
    robot_s: float
    virtual_s: float
    block_s: float
    injected: Counter
    fast: int
    stops: int
    arms: int

    @property
    def ok(self) -> bool:
        """Whether every invariant held."""
        return not self.violations


def schedule(seed: int, length_s: float = LENGTH_S, every_s: float = EVERY_S) -> tuple[Injection, ...]:
    """Injections in clusters, so that faults meet while others are being handled."""
    rng, mix, out, at_s = random.Random(f"{seed}/schedule"), mix_of(seed), [], FIRST_S
    while True:
        at_s += rng.expovariate(1.0 / every_s)
        if at_s > length_s - QUIET_S - 3.0:
            return tuple(sorted(out, key=lambda i: i.at_s))
        for _ in range(1 + int(rng.expovariate(1.0 / (CLUSTER_SIZE - 1)))):
            out.append(Injection(round(at_s + rng.uniform(0.0, CLUSTER_SPREAD_S), 4), faults.draw(rng, mix), len(out)))


def run(
    seed: int, injections: tuple[Injection, ...] | None = None, length_s: float = LENGTH_S, every_s: float = EVERY_S,
    blocks: bool | None = None,
) -> Outcome:
    """Play an episode to its end or to the first violation."""
    planned = schedule(seed, length_s, every_s) if injections is None else injections
    world = World(seed, blocks=seed % EXACT_SHARE != 0 if blocks is None else blocks)
    world.begin()
    for i in planned:
        world.at(START_S + i.at_s, lambda i=i: faults.inject(world, i.kind, f"{seed}/{i.number}"))
    last_s = planned[-1].at_s if planned else 0.0
    world.run_until(START_S + min(length_s, last_s + QUIET_S) - JUDGED_S)
    moved = world.checker.setpoints.moving
    world.run_until(START_S + min(length_s, last_s + QUIET_S))
    checker = world.checker
    if not checker.violations and checker.setpoints.moving == moved:
        state = world.host.states[-1] if world.host.states else None
        seen = f"{state.mode}: {'; '.join(state.causes)}" if state else "no guard"
        stuck = f"not running again after the last fault: {seen}"
        checker.violations.append(Violation("I11", world.clock.now_s, stuck))
    world.run_until(START_S + length_s)
    return Outcome(
        seed, tuple(checker.violations), checker.setpoints.moving * world.clock.period_s, world.clock.now_s - START_S,
        world.block_cycles * world.clock.period_s, world.injected, world.fast, checker.stops, checker.arms,
    )  # fmt: skip


def shrink(seed: int, length_s: float = LENGTH_S, every_s: float = EVERY_S, budget: int = 100) -> tuple[Injection, ...]:
    """The injections of a failing seed, as few as still break the same invariant (delta debugging, Zeller 2002)."""
    kept = schedule(seed, length_s, every_s)
    first = run(seed, kept, length_s).violations
    if not first:
        return ()
    wanted, end_s = first[0].invariant, first[0].stamp_s - START_S
    kept = tuple(i for i in kept if i.at_s <= end_s)
    if first[0].detail.startswith("not running"):
        end_s = length_s

    def fails(some: tuple[Injection, ...]) -> bool:
        nonlocal budget
        budget -= 1
        found = run(seed, some, min(length_s, end_s + QUIET_S)).violations
        return bool(found) and found[0].invariant == wanted

    parts = 2
    while len(kept) >= 1 and budget > 0:
        size = max(1, len(kept) // parts)
        for start in range(0, len(kept), size):
            rest = kept[:start] + kept[start + size:]
            if fails(rest):
                kept, parts = rest, max(2, parts - 1)
                break
        else:
            if size == 1:
                break
            parts = min(len(kept), 2 * parts)
    return kept
