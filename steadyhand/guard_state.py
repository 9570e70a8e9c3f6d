"""The guard's latched state machine: what may move now, and what each event does about it. Pure: time is an argument.

`step(state, event, now_s)` gives the next state and decisions as data; the loop of the guard carries them out. Events
are frozen dataclasses, faults are names looked up in `RULES`. The highest reaction wins in every mode. An armed state
is built in one place only, from a state that was arming, which is built in one place only, from a verified request:
the other transitions cannot be written.
"""
from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from steadyhand.types import Mode

ARMED = frozenset({Mode.RECOVERING, Mode.ARMED_AUTO, Mode.ARMED_MANUAL})
ARM_MODES = {"auto": Mode.ARMED_AUTO, "manual": Mode.ARMED_MANUAL, "recover": Mode.RECOVERING}
REST_LIMIT_S = 2.0  # requirement I6: rest is measured within this, or said to be unknown
MAX_COUNTED_NAMES = 64
# What is wrong comes from outside too (a vehicle may name thousands of errors), and must fit into a packet to a client.
MAX_CAUSES, NAME_MAX, DETAIL_MAX = 12, 80, 500


class Reaction(enum.IntEnum):
    """How to stop; a higher one overrides a lower one under way."""

    BRAKE = 1  # S1: scale time along the checked path to rest, then halt the program
    SILENCE = 2  # S2: send no more heartbeats; the controller program stops by itself
    WITHDRAW = 3  # S0: the robot's own safety acted: send nothing and stop the old program now


@dataclass(frozen=True)
class Rule:
    """What a fault does: its reaction, and the modes that it forbids while it holds."""

    reaction: Reaction
    forbids: frozenset[Mode] = ARMED


RULES: Mapping[str, Rule] = {
    "robot_safety": Rule(Reaction.WITHDRAW),
    "robot_mode": Rule(Reaction.WITHDRAW),
    "robot_reduced": Rule(Reaction.BRAKE),
    "robot_local": Rule(Reaction.BRAKE),
    "robot_speed": Rule(Reaction.BRAKE),
    "robot_shared": Rule(Reaction.BRAKE),
    "robot_unreachable": Rule(Reaction.SILENCE),
    "feedback_lost": Rule(Reaction.SILENCE),
    "link_lost": Rule(Reaction.SILENCE),
    "program_lost": Rule(Reaction.WITHDRAW),
    "loop_late": Rule(Reaction.SILENCE),
    "internal_error": Rule(Reaction.SILENCE),
    "tracking": Rule(Reaction.BRAKE),
    "margin": Rule(Reaction.BRAKE, frozenset({Mode.ARMED_AUTO, Mode.ARMED_MANUAL})),
    "payload": Rule(Reaction.BRAKE),
    "gripper": Rule(Reaction.BRAKE, frozenset({Mode.ARMED_AUTO})),
    "input": Rule(Reaction.BRAKE, frozenset({Mode.ARMED_AUTO})),
    "command_source_silent": Rule(Reaction.BRAKE),
    "shell_lost": Rule(Reaction.BRAKE),
    "operator_link": Rule(Reaction.BRAKE),
    "peer": Rule(Reaction.BRAKE),
    "interlock": Rule(Reaction.BRAKE),
    "agv_foreign": Rule(Reaction.BRAKE),
    "stop_requested": Rule(Reaction.BRAKE),
    "script_error": Rule(Reaction.BRAKE, frozenset()),  # the name of a cause: what it ended has its own rule
    "foreign_program": Rule(Reaction.BRAKE, frozenset()),  # while disarmed; an arming ends it
    "arming_failed": Rule(Reaction.WITHDRAW),
    "disarmed": Rule(Reaction.BRAKE),
    "shutdown": Rule(Reaction.BRAKE),
    "started": Rule(Reaction.BRAKE),
}


def rule_of(name: str) -> Rule:
    """Rule of a fault name; `input:camera` is ruled by `input`. An unknown fault stops and forbids everything."""
    return RULES.get(name.partition(":")[0], Rule(Reaction.SILENCE))


# --- events ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StopRequest:
    """Somebody wants a stop. `count` merges a flood of the same requests."""

    source: str
    reason: str = ""
    snapshot: Mapping[str, Any] = field(default_factory=dict)
    count: int = 1


@dataclass(frozen=True)
class FaultRaised:
    """Something happened at one moment and does not persist."""

    name: str
    detail: str = ""
    snapshot: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Cycle:
    """One control cycle: everything that is wrong now (name -> detail), and whether the arm has been measured at rest.

    `at_rest` must be false while the commanded motion has not ended, and when feedback is not fresh.
    """

    holding: Mapping[str, str]
    at_rest: bool
    snapshot: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ArmRequest:
    """An operator asks for a mode. `verified` says that the credential was checked; `fresh_token` is random, unused."""

    mode: Mode
    verified: bool
    fresh_token: int


@dataclass(frozen=True)
class ArmingEnded:
    """The driver finished the arming with this token, or failed and says why."""

    token: int
    ok: bool
    detail: str = ""


@dataclass(frozen=True)
class DisarmRequest:
    """An orderly end of motion. Needs no credential: it can only stop."""

    source: str
    snapshot: Mapping[str, Any] = field(default_factory=dict)


Event = StopRequest | FaultRaised | Cycle | ArmRequest | ArmingEnded | DisarmRequest


# --- decisions ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stop:
    """Stop by this reaction. Plan, chunks and targets are emptied whichever it is. `cause`: the fault that decided."""

    reaction: Reaction
    cause: str = field(default="", compare=False)


@dataclass(frozen=True)
class HaltProgram:
    """At rest after a stop: end the controller program, so that it holds no target."""


@dataclass(frozen=True)
class BeginArming:
    """Upload a program with this token and wait for it."""

    mode: Mode
    token: int


@dataclass(frozen=True)
class Armed:
    """Motion commands that carry this token are accepted from now on."""

    mode: Mode
    token: int
    snapshot: Mapping[str, Any]


@dataclass(frozen=True)
class Refused:
    """An arm request is refused; `causes` persist."""

    causes: tuple[str, ...]


Decision = Stop | HaltProgram | BeginArming | Armed | Refused


# --- state ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GuardState:
    """Everything latched. Build the first one with `initial`; later ones come from `step`."""

    mode: Mode
    token: int
    arming: Mode | None = None
    stopping: Reaction | None = None
    stop_since_s: float = 0.0
    latched: tuple[tuple[str, str], ...] = ()  # what stopped it: cleared by the next arming
    holding: tuple[tuple[str, str], ...] = ()  # what is wrong now
    at_rest: bool = False
    snapshot: Mapping[str, Any] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.mode in ARMED and (self.stopping is not None or self.arming is not None):
            raise ValueError(f"mode {self.mode.value} with stopping={self.stopping}, arming={self.arming}")
        if self.arming is not None and self.stopping is not None:
            raise ValueError(f"arming {self.arming.value} while stopping by {self.stopping.name}")

    @property
    def armed(self) -> bool:
        """Whether motion commands are accepted."""
        return self.mode in ARMED

    def causes(self) -> list[str]:
        """What stopped it and what holds, as `name: detail`, for people and the state message: MAX_CAUSES at most."""
        seen = dict(self.latched)
        seen.update(self.holding)
        told = [f"{name}: {detail}" if detail else name for name, detail in seen.items()]
        return told if len(told) <= MAX_CAUSES else [*told[: MAX_CAUSES - 1], f"and {len(told) - MAX_CAUSES + 1} more"]


def initial(token: int, now_s: float) -> GuardState:
    """State at start: stopped, and nothing known about rest yet."""
    return GuardState(Mode.STOPPED, token, stop_since_s=now_s, latched=(("started", "arm to begin"),))


def step(state: GuardState, event: Event, now_s: float) -> tuple[GuardState, tuple[Decision, ...]]:
    """Next state and what to do. Never raises for any event in any state."""
    match event:
        case Cycle():
            return _on_cycle(state, event, now_s)
        case StopRequest():
            state = _count(state, f"stop:{event.source}", event.count)
            detail = f"{event.source}: {event.reason}" if event.reason else event.source
            return _stop(state, "stop_requested", detail, event.snapshot, now_s)
        case FaultRaised():
            return _stop(_count(state, f"fault:{event.name}"), event.name, event.detail, event.snapshot, now_s)
        case DisarmRequest():
            return _stop(_count(state, "disarm"), "disarmed", event.source, event.snapshot, now_s)
        case ArmRequest():
            return _on_arm(state, event)
        case ArmingEnded():
            return _on_arming_ended(state, event, now_s)
    raise TypeError(f"{event!r} is no event of the guard")


def blockers(state: GuardState, mode: Mode) -> tuple[str, ...]:
    """What forbids arming this mode now, as `name: detail`."""
    found = [f"{n}: {d}" if d else n for n, d in state.holding if mode in rule_of(n).forbids]
    if state.armed:
        found.append(f"already armed: {state.mode.value}; stop or disarm first")
    if state.arming is not None:
        found.append(f"arming {state.arming.value} is under way")
    if state.stopping is not None:
        found.append("stop under way: wait for rest")
    if state.mode is Mode.REST_UNKNOWN or not state.at_rest:
        found.append("rest not measured: the robot moves, or its feedback is not fresh")
    return tuple(found)


def _stop(state, name, detail, snapshot, now_s):
    """Latch a stop. The one way out of armed and arming; in a stopped mode it adds the cause and may escalate."""
    reaction, detail = rule_of(name).reaction, detail[:DETAIL_MAX]
    latched = state.latched if any(n == name for n, _ in state.latched) else (*state.latched, (name, detail))
    if state.armed or state.arming is not None:
        if state.arming is not None:
            reaction = Reaction.WITHDRAW  # nothing was commanded yet: end the program that was being started
        latched = tuple(c for c in latched if c[0] != "started")
        stopped = replace(
            state, mode=Mode.STOPPED, arming=None, stopping=reaction, stop_since_s=now_s, latched=latched,
            at_rest=False, snapshot=dict(snapshot) if state.armed else state.snapshot,
        )
        return stopped, (Stop(reaction, name),)
    if state.stopping is not None and reaction > state.stopping:  # highest level first, in every mode
        return replace(state, stopping=reaction, latched=latched), (Stop(reaction, name),)
    return replace(state, latched=latched), ()


def _held(holding):
    """What is wrong, shortened, the worst MAX_CAUSES of it: what is left out forbids and does no more than these."""

    def weight(cause):
        rule = rule_of(cause[0])  # the other guards of the cell hear of `robot_safety`: it is never left out
        return rule.reaction, len(rule.forbids), cause[0].partition(":")[0] == "robot_safety"

    found = list(holding.items())
    if len(found) > MAX_CAUSES:
        found.sort(key=weight, reverse=True)
    return tuple((name[:NAME_MAX], detail[:DETAIL_MAX]) for name, detail in found[:MAX_CAUSES])


def _on_cycle(state, event, now_s):
    holding = _held(event.holding)
    if holding != state.holding:
        state = replace(state, holding=holding)
    concerned = state.mode if state.armed else state.arming
    if concerned is not None:
        wrong = [(rule_of(n).reaction, n, d) for n, d in holding if concerned in rule_of(n).forbids]
        if wrong:
            decisions: tuple[Decision, ...] = ()
            for _, name, detail in sorted(wrong, key=lambda w: -w[0]):  # highest level first
                state, more = _stop(_count(state, f"fault:{name}"), name, detail, event.snapshot, now_s)
                decisions += more
            return state, decisions
    elif state.stopping is not None:
        name, detail = max(holding, key=lambda h: rule_of(h[0]).reaction, default=("", ""))
        if name and rule_of(name).reaction > state.stopping:  # highest level first
            return _stop(_count(state, f"fault:{name}"), name, detail, event.snapshot, now_s)
    return _on_rest(state, event.at_rest, now_s)


def _on_rest(state, at_rest, now_s):
    if at_rest != state.at_rest:
        state = replace(state, at_rest=at_rest)
    if state.armed or state.arming is not None:
        return state, ()
    if at_rest and (state.stopping is not None or state.mode is Mode.REST_UNKNOWN):
        halt = (HaltProgram(),) if state.stopping is Reaction.BRAKE else ()
        return replace(state, mode=Mode.STOPPED, stopping=None), halt
    if state.stopping is not None and now_s - state.stop_since_s > REST_LIMIT_S:
        # Braking did not end in measured rest: leave it to the controller, and say so.
        return replace(state, mode=Mode.REST_UNKNOWN, stopping=None), (Stop(Reaction.WITHDRAW, "rest_unknown"),)
    return state, ()


def _on_arm(state, event):
    causes = blockers(state, event.mode)
    if not event.verified:
        causes = ("credential refused",)
    elif event.mode not in ARMED:
        causes = (f"mode {event.mode.value} cannot be asked for",)
    elif event.fresh_token == state.token:
        causes = ("token not fresh",)
    if causes:
        return _count(state, "arm_refused"), (Refused(causes),)
    arming = replace(state, mode=Mode.STOPPED, arming=event.mode, token=event.fresh_token)
    return arming, (BeginArming(event.mode, event.fresh_token),)


def _on_arming_ended(state, event, now_s):
    if state.arming is None or event.token != state.token:
        return state, ()  # answer to an arming that a stop has ended
    if not event.ok:
        return _stop(_count(state, "arming_failed"), "arming_failed", event.detail, {}, now_s)
    armed = _count(replace(state, mode=state.arming, arming=None, latched=(), snapshot={}), "armed")
    return armed, (Armed(armed.mode, armed.token, state.snapshot),)


def _count(state, name, n=1):
    """Add to a counter; names come from outside too, so that their number is bounded."""
    key = name[:NAME_MAX] if name[:NAME_MAX] in state.counts or len(state.counts) < MAX_COUNTED_NAMES else "other"
    return replace(state, counts={**state.counts, key: state.counts.get(key, 0) + n})
