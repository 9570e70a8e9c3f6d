"""Links between processes, and the line to the controller: six modes each."""
from __future__ import annotations

import random

from steadyhand_cli.dst.kinds.kind import Apply
from steadyhand_cli.dst.kinds.operators import disarm
from steadyhand_cli.dst.world import World


def link_fault(link_name: str, mode: str) -> Apply:
    def apply(world: World, rng: random.Random) -> bool:
        link, now_s = world.links[link_name], world.clock.now_s
        link.pending.add(mode)
        if mode == "delay":
            link.stall_until_s = now_s + rng.choice([0.02, 0.06, 0.15, 0.5])
        elif mode == "partition":
            link.cut_until_s = now_s + rng.choice([0.03, 0.1, 0.4, 1.0])
        else:
            setattr(link, mode, rng.randint(1, 2))
            world.at(now_s + 0.6, link.forget)
        if link_name.startswith("operator"):  # seldom used: see to it that a message is met
            world.at(now_s + 0.005, lambda: world.stop() if link_name == "operator-stop" else disarm(world))
        elif mode not in ("delay", "partition") or link_name != "shell-guard":
            world.agent.wake_at(now_s + 0.005)
        return True

    return apply


def line_fault(direction: str, mode: str) -> Apply:
    def apply(world: World, rng: random.Random) -> bool:
        line, k = getattr(world.robot, direction), world.robot.tick_count
        line.pending.add(mode)
        world.at(world.clock.now_s + 0.6, line.forget)
        if mode == "delay":
            line.stall_until = k + rng.choice([1, 2, 3, 5, 6, 10, 30])
        elif mode in ("drop", "partition"):
            line.drop_until = k + (rng.randint(0, 2) if mode == "drop" else rng.choice([5, 6, 12, 60]))
        elif mode == "reorder":
            line.swap = 1
            line.stall_until = k + 2  # two packages must be there to change places
        else:
            setattr(line, mode, rng.randint(1, 2))
        return True

    return apply
