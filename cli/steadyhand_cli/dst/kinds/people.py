"""Operators in command and in control: what they do, and how they fail."""
from __future__ import annotations

import random
from collections.abc import Callable

from steadyhand_cli.dst.kinds.kind import Apply
from steadyhand_cli.dst.kinds.links import link_fault
from steadyhand_cli.dst.people import LINK, Person
from steadyhand_cli.dst.world import World


def appears(
    commands: bool, then: Callable[[World, Person, random.Random], None] | None = None, counted: str = ""
) -> Apply:
    """One operator at a time; `then` is done to it, and `counted`, somewhat later, in the midst of what it does."""

    def apply(world: World, rng: random.Random) -> bool:
        if world.person is not None or world.mission is not None or world.mission_due:
            return False
        world.people += 1
        person = world.person = Person(world, rng, rng.uniform(1.2, 3.0), commands)

        def strike(patience: int) -> None:
            if person.over:
                return
            if patience and not (person.connected and (world.fast_now and person.in_command or not commands)):
                return world.at(world.clock.now_s + 0.1, lambda: strike(patience - 1))
            if counted:
                world.count(counted)
            return then(world, person, rng)

        if then is not None:
            world.at(world.clock.now_s + rng.uniform(0.2, 0.8), lambda: strike(50))
        return True

    return apply


def silent(world: World, person: Person, rng: random.Random) -> None:
    person.silent_until_s = world.clock.now_s + rng.uniform(0.12, 0.9)


def breaks(world: World, person: Person, rng: random.Random) -> None:
    person.leave()


def link(mode: str) -> Apply:
    """A fault of the way between such an operator and the guard, with one there to be struck."""
    strike = link_fault(LINK, mode)

    def apply(world: World, rng: random.Random) -> bool:
        commands = rng.random() < 0.7
        appears(commands, lambda world, person, rng: strike(world, rng) and None)(world, rng)
        return True

    return apply
