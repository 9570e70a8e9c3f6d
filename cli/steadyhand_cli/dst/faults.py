"""Every fault that the simulator injects: one table of names and rates, `TABLE`; nothing else injects.

A rate is the fault's weight in the draw; what a fault does is in `kinds`, by layer. A kind is counted when it strikes:
those of links when they meet a message, the others when they are applied to something that is there (a process that is
dead already cannot be killed).
"""
from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from steadyhand_cli.dst.cell import Mix
from steadyhand_cli.dst.kinds import aimed, cell, links, operators, people, processes, robot, senders
from steadyhand_cli.dst.kinds.kind import Apply
from steadyhand_cli.dst.links import MODES, mutated
from steadyhand_cli.dst.vehicle import LINKS as VEHICLE_LINKS
from steadyhand_cli.dst.world import LINKS, World

PATIENCE_S, SOON_S = 6.0, (0.02, 0.15)


@dataclass(frozen=True)
class Kind:
    """One row. `counted`: the link counts it itself, when it meets a message. `needs`: the part of `Mix` it is about."""

    name: str
    rate: float
    apply: Apply
    counted: bool = False
    needs: str = ""


def _person(name: str, rate: float, commands: bool, then: Callable) -> Kind:
    return Kind(name, rate, people.appears(commands, then, name), counted=True)


_ROBOT_MODES = (  # robot mode, safety mode, rate
    ("protective stop", 7, 3, 1.5), ("emergency stop", 7, 7, 1.0), ("safeguard stop", 7, 5, 1.0),
    ("recovery mode", 7, 4, 0.5), ("reduced mode", 7, 2, 0.5), ("safety violation", 7, 8, 0.5),
    ("safety fault", 7, 9, 0.5), ("power lost", 3, 1, 1.0), ("brakes engaged", 5, 1, 1.0),
    ("freedrive from the pendant", 6, 1, 1.0), ("no controller", 0, 1, 0.5), ("unknown robot mode", 99, 1, 0.3),
)  # fmt: skip

# chunks of the commander, one thing about each of them wrong: change(chunk, world, rng), rate
_CHUNKS = (
    ("chunk with an old token", senders.old_token, 1.5),
    ("chunk with a guessed token", lambda c, w, r: replace(c, token=r.choice([0, -1, c.token + 1])), 0.5),
    ("chunk that has expired", lambda c, w, r: replace(c, state_stamp_s=c.state_stamp_s - r.choice([0.2, 60])), 0.7),
    ("chunk from the future", lambda c, w, r: replace(c, state_stamp_s=c.state_stamp_s + r.choice([0.05, 5.0])), 0.7),
    ("chunk for a state not published", lambda c, w, r: replace(c, state_seq=c.state_seq + r.randint(1, 99)), 0.7),
    ("chunk for another observation", lambda c, w, r: replace(c, state_seq=c.state_seq - 3), 0.7),
    ("chunk with NaN", senders.value(float("nan")), 1.0),
    ("chunk with infinity", senders.value(float("inf")), 0.5),
    ("chunk with huge numbers", senders.value(1e300), 0.5),
    ("chunk outside the joints' range", senders.value(7.0), 0.5),
    ("chunk with a jump", senders.offset(0.8), 1.0),
    ("chunk with a small jump", senders.offset(0.06), 1.0),
    ("chunk into the table", senders.low, 1.5),
    ("chunk that leads the arm into itself", aimed.into_itself, 1.5),
    ("chunk with more jerk than allowed", aimed.shaken, 1.0),
    ("chunk with joints in another order", lambda c, w, r: replace(c, joint_names=r.sample(c.joint_names, 6)), 0.5),
    ("chunk of another shape", lambda c, w, r: replace(c, q_rad=[row[:5] for row in c.q_rad]), 0.5),
    ("chunk without way-points", lambda c, w, r: replace(c, q_rad=[]), 0.5),
    ("chunk with a strange period", lambda c, w, r: replace(c, period_s=r.choice([0.0, -0.05, 1e-9, 50.0])), 0.5),
    ("chunk of an unknown source", lambda c, w, r: replace(c, source="stop"), 0.5),
    ("chunk with one field changed", lambda c, w, r: mutated(c, r), 2.0),
)

_VEHICLE = (
    ("vehicle stops", 4.0, cell.stopped),
    ("vehicle's own safety acts", 3.0, cell.safety),
    ("vehicle's guard hangs below 100 ms", 2.0, cell.hangs(0.02, 0.055)),
    ("vehicle's guard hangs above 100 ms", 3.0, cell.hangs(0.11, 1.0)),
    ("vehicle's guard dies", 3.0, cell.dies(0.15, 2.0)),
    ("vehicle's guard is started anew at once", 3.0, cell.dies(0.01, 0.05)),
    ("vehicle's guard tells late", 2.0, cell.tells_late),
    ("vehicle leaves as the arm reaches", 4.0, cell.leaves(heeds=True)),
    ("vehicle leaves under the arm", 3.0, cell.leaves(heeds=False)),
    ("arm reaches over the vehicle again and again", 3.0, cell.reaches),
    ("arm reaches while the vehicle's guard is silent", 3.0, cell.reach_in_silence),
    ("stranger in the stop domain", 2.0, cell.stranger),
    ("flood of beats", 1.0, cell.flood),
)  # fmt: skip

_ROWS = (
    # --- links and the line to the controller
    *(Kind(f"{name}:{mode}", 0.6, links.link_fault(name, mode), counted=True)
      for name in LINKS if name != people.LINK for mode in MODES),
    *(Kind(f"{people.LINK}:{mode}", 0.3, people.link(mode), counted=True) for mode in MODES),
    *(
        Kind(f"{name}:{mode}", 0.8, links.line_fault(direction, mode), counted=True)
        for name, direction in (("guard-controller", "up"), ("controller-guard", "down"))
        for mode in MODES
        if (direction, mode) != ("down", "corrupt")
    ),
    # --- processes
    Kind("guard killed", 2.0, processes.guard_killed),
    Kind("guard asked to end", 1.0, processes.guard_ended),
    Kind("guard frozen below 40 ms", 2.0, processes.freeze_guard(0.008, 0.036)),
    Kind("guard frozen above 40 ms", 2.0, processes.freeze_guard(0.045, 1.0)),
    Kind("guard cycle late", 1.0, processes.late),
    Kind("shell killed", 2.0, processes.shell_killed),
    Kind("shell frozen below 40 ms", 1.0, processes.freeze("shell", 0.008, 0.03)),
    Kind("shell frozen above 40 ms", 2.0, processes.freeze("shell", 0.05, 0.8)),
    Kind("agent frozen", 1.5, processes.freeze("agent", 0.02, 1.5)),
    Kind("agent killed", 1.5, processes.agent_killed),
    Kind("agent begins to stream", 1.5, processes.stream),
    Kind("goal and cancel", 1.5, processes.mission),
    Kind("estimator silent", 1.0, processes.estimator_silent),
    Kind("estimator reports trouble", 1.0, processes.estimator_unwell),
    Kind("operator absent", 0.3, processes.operator_absent),
    Kind("controller frozen below 40 ms", 1.0, processes.controller_held),
    Kind("controller frozen above 40 ms", 1.5, processes.controller_frozen),
    # --- robot
    *(Kind(name, rate, robot.robot_modes(mode, safety)) for name, mode, safety, rate in _ROBOT_MODES),
    Kind("freedrive button pressed", 1.0, robot.freedrive),
    Kind("pendant takes control", 1.0, robot.local),
    Kind("joint stuck", 1.5, robot.stuck),
    Kind("arm pushed", 1.0, robot.pushed),
    Kind("encoder says NaN", 1.0, robot.nan),
    Kind("controller repeats itself", 1.0, robot.repeats),
    Kind("session cut", 1.5, robot.cut),
    Kind("line takes no packages", 1.0, robot.refused),
    Kind("program ended at the pendant", 1.0, robot.ended),
    Kind("program paused and resumed", 1.0, robot.paused),
    Kind("arming takes too long", 0.1, robot.arming_trouble("slow")),
    Kind("arming fails", 0.4, robot.arming_trouble("fails")),
    Kind("another program instead of ours", 0.1, robot.arming_trouble("foreign")),
    *(Kind(f"wall clock {step_s:+g} s", 0.5, robot.wall(step_s)) for step_s in (5.0, -5.0, 3600.0, 0.08, -0.08)),
    # --- operators
    Kind("operator stop", 4.0, operators.stop),
    Kind("stop on the command socket", 1.0, operators.command_stop),
    Kind("stop that cannot be read", 1.0, operators.unreadable),
    Kind("flood of stops", 0.3, operators.stop_flood),
    Kind("stop during arming", 1.5, operators.stop_in_arming),
    Kind("arm with a wrong credential", 1.0, operators.wrong_credential),
    Kind("arm without credential while stopped", 1.0, operators.guessed_arm),
    Kind("arm while moving", 1.0, operators.arm_moving),
    Kind("arm during a stop", 1.5, operators.arm_in_stop),
    Kind("arm twice at once", 1.0, operators.arm_twice),
    Kind("arm in an unknown mode", 0.3, operators.arm_unknown),
    Kind("disarm", 1.0, operators.disarmed),
    Kind("arm while a cause holds", 1.5, operators.arm_with_cause),
    # --- operators with a connection of their own
    Kind("operator takes command and gives it back", 1.0, people.appears(True)),
    _person("operator in command falls silent", 1.5, True, people.silent),
    _person("connection of an operator in command breaks", 1.0, True, people.breaks),
    Kind("operator in control for a while", 0.5, people.appears(False)),
    _person("operator in control falls silent", 1.0, False, people.silent),
    _person("connection of an operator in control breaks", 1.0, False, people.breaks),
    # --- hostile senders
    *(Kind(name, rate, senders.hostile(change)) for name, change, rate in _CHUNKS),
    Kind("second commander", 1.5, senders.hostile(lambda c, w, r: c, commander=False)),
    Kind("replay of accepted chunks", 1.5, senders.replay),
    Kind("chunk for a state long ago", 0.7, senders.ago),
    Kind("chunks out of order", 1.0, senders.out_of_order),
    Kind("flood of chunks", 0.5, senders.flood),
    Kind("garbage on the command socket", 1.0, senders.garbage),
    Kind("stranger's heartbeats", 1.0, senders.strangers_beat),
    Kind("gripper order after a stop", 1.0, senders.grip(senders.order, after_stop=True)),
    Kind("gripper order of a stranger", 0.7, senders.grip(senders.order, commander=False)),
    Kind("gripper order with another token", 0.7,
         senders.grip(lambda w, r: replace(senders.order(w, r), token=w.agent.token ^ 1))),
    Kind("gripper order out of range", 0.7,
         senders.grip(lambda w, r: replace(senders.order(w, r), width_m=r.choice([-0.01, 5.0, float("nan")])))),
    # --- a vehicle and its guard beside the arm
    *(Kind(f"{name}:{mode}", 1.5, cell.link(name, mode), True, "vehicle") for name in VEHICLE_LINKS for mode in MODES),
    *(Kind(name, rate, apply, needs="vehicle") for name, rate, apply in _VEHICLE),
    # --- inputs with a tighter limit while the arm moves
    Kind("agent's heartbeats slow", 3.0, cell.agent_beats((0.5, 1.5), 12), needs="moving_inputs"),
    Kind("agent silent below 75 ms", 3.0, cell.agent_beats((0.02, 0.04)), needs="moving_inputs"),
    Kind("agent silent above 75 ms", 4.0, cell.agent_beats((0.08, 0.3)), needs="moving_inputs"),
)  # fmt: skip
TABLE: dict[str, Kind] = {row.name: row for row in _ROWS}


def draw(rng: random.Random, mix: Mix) -> str:
    """A kind by the rates, of those that an episode with this mix has."""
    names = [name for name, kind in TABLE.items() if not kind.needs or getattr(mix, kind.needs)]
    return rng.choices(names, [TABLE[n].rate for n in names])[0]


def inject(world: World, name: str, seed: str) -> None:
    """Let a fault strike now, or, three of four times, soon after the arm is seen to move well (within 6 s)."""
    rng = random.Random(seed)
    entry = TABLE[name]
    until_s = world.clock.now_s + PATIENCE_S

    def strike() -> None:
        if waits and not world.fast_now and world.clock.now_s < until_s and rng.random() < 0.5:
            return world.when_fast(look)  # another one has stopped the arm meanwhile
        if entry.apply(world, rng) and not entry.counted:
            world.count(name)
        return None

    def look() -> None:
        if world.fast_now or world.clock.now_s > until_s:
            world.at(world.clock.now_s + rng.uniform(*SOON_S), strike)
        else:
            world.when_fast(look)

    waits = rng.random() < 0.75
    if waits and not world.fast_now:
        world.when_fast(look)
    else:
        strike()
