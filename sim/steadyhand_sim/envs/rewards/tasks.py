"""The rewards by task and name.

`bounded` (the default): success pays 1, process terms less than a tenth. `source`: the control arm of the source
documents, position error and joint speed only for the arm, +10 on arrival and -50 on a collision for the vehicle. The
weights of the source's arm reward are not in the documents; ours are such that an arm's error of 10 cm weighs as much
as joints at 1 rad/s, as theirs roughly does in the text. `tests/scenario/test_envs.py` holds both to account.
"""
from __future__ import annotations

from steadyhand.errors import ConfigError
from steadyhand_sim.envs.rewards.functions import Distance, Effort, Haste, Linear, Near, Reached, Saturating, Square
from steadyhand_sim.envs.rewards.reward import Reward
from steadyhand_sim.envs.rewards.term import Term

PERIOD_S = {"grasp": 0.05, "insert": 0.05, "dock": 0.2}
STATE_NAMES = {
    # target minus tool (m), yaw error (rad), norm of the commanded joint rates (rad/s), both pads touch, height (m)
    "grasp": ("dx", "dy", "dz", "yaw_error", "joint_rate", "held", "lifted", "success"),
    # of the peg's lower face in the socket's frame (m), z over its floor; yaw error, joint rates, deflection (m)
    "insert": ("x", "y", "z", "yaw_error", "joint_rate", "deflection", "success"),
    # the dock from the vehicle (m, rad), speed (m/s), rotation (rad/s), distance to the person (m)
    "dock": ("along", "across", "turn", "speed", "rotation", "person_gap", "success", "hit"),
}
HIT = -0.5  # a person or a thing struck: less than a success, or standing still would pay better than driving well


def _at(task: str, *names: str) -> tuple[int, ...]:
    return tuple(STATE_NAMES[task].index(name) for name in names)


def _grasp(max_steps: int) -> list[Term]:
    success, held, lifted = _at("grasp", "success", "held", "lifted")
    place = _at("grasp", "dx", "dy", "dz", "yaw_error")
    return [
        Term("success", "outcome", Linear(success, 1.0), 1.0),
        Term("reach", "potential", Near(place, (0.10, 0.10, 0.10, 0.5), 0.025), 0.025),
        Term("grip", "potential", Linear(held, 0.02), 0.02),
        Term("lift", "potential", Reached(lifted, 0.08, held, 0.03), 0.03),
        Term("effort", "cost", Effort(0.015, omit=1), 0.015),
        Term("haste", "potential", Haste(0.01, max_steps * PERIOD_S["grasp"]), 0.01),
    ]


def _insert(max_steps: int) -> list[Term]:
    success, deflection = _at("insert", "success", "deflection")
    return [
        Term("success", "outcome", Linear(success, 1.0), 1.0),
        Term("align", "potential", Near(_at("insert", "x", "y", "yaw_error"), (0.01, 0.01, 0.2), 0.03), 0.03),
        Term("insert", "potential", Near(_at("insert", "x", "y", "z"), (0.02, 0.02, 0.03), 0.03), 0.03),
        Term("press", "cost", Saturating(deflection, 0.01, 0.015), 0.015),
        Term("effort", "cost", Effort(0.015, omit=1), 0.015),
        Term("haste", "potential", Haste(0.01, max_steps * PERIOD_S["insert"]), 0.01),
    ]


def _dock(max_steps: int) -> list[Term]:
    success, hit = _at("dock", "success", "hit")
    return [
        Term("success", "outcome", Linear(success, 1.0), 1.0),
        Term("hit", "outcome", Linear(hit, HIT), HIT),
        Term("approach", "potential", Near(_at("dock", "along", "across"), (1.0, 0.5), 0.04), 0.04),
        Term("align", "potential", Near(_at("dock", "along", "across", "turn"), (0.1, 0.05, 0.2), 0.03), 0.03),
        Term("effort", "cost", Effort(0.01), 0.01),
        Term("haste", "potential", Haste(0.02, max_steps * PERIOD_S["dock"]), 0.02),
    ]


def _source_arm(task: str, position: tuple[str, ...]) -> list[Term]:
    return [
        Term("position_error", "free", Distance(_at(task, *position), 1.0), 0.0),
        Term("joint_speed", "free", Square(_at(task, "joint_rate")[0], 0.1), 0.0),
    ]


def _source_dock(max_steps: int) -> list[Term]:
    success, hit = _at("dock", "success", "hit")
    return [
        Term("arrival", "outcome", Linear(success, 10.0), 10.0),
        Term("collision", "outcome", Linear(hit, -50.0), -50.0),
    ]


_REWARDS = {
    ("grasp", "bounded"): _grasp,
    ("insert", "bounded"): _insert,
    ("dock", "bounded"): _dock,
    ("grasp", "source"): lambda max_steps: _source_arm("grasp", ("dx", "dy", "dz")),
    ("insert", "source"): lambda max_steps: _source_arm("insert", ("x", "y", "z")),
    ("dock", "source"): _source_dock,
}


def names(task: str) -> tuple[str, ...]:
    """Rewards of a task."""
    return tuple(name for of, name in _REWARDS if of == task)


def make(task: str, name: str, max_steps: int) -> Reward:
    """A reward by name; raises ConfigError naming those that there are."""
    if (task, name) not in _REWARDS:
        raise ConfigError(f"reward={name!r}: give one of {', '.join(names(task)) or 'none: task ' + repr(task)}")
    return Reward(f"{task}/{name}", STATE_NAMES[task], _REWARDS[task, name](max_steps), max_steps, name == "source")
