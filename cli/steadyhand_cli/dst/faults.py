"""Every fault that the simulator injects: name, rate, what it does. One table, `TABLE`; nothing else injects.

A rate is the fault's weight in the draw. A kind is counted when it strikes: those of links when they meet a message,
the others when they are applied to something that is there (a process that is dead already cannot be killed).
"""
from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from steadyhand.guard_protocol import Arm, Chunk, Gripper, Heartbeat, Stop
from steadyhand_cli.dst.actors import LONG, LONG_PERIOD_S, SHORT, SHORT_PERIOD_S
from steadyhand_cli.dst.host import CREDENTIAL
from steadyhand_cli.dst.links import MODES, mutated
from steadyhand_cli.dst.world import LINKS, World

Apply = Callable[[World, random.Random], bool]  # False: nothing was there to strike


@dataclass(frozen=True)
class Kind:
    """One row. `counted` says that the link counts it itself, when it meets a message."""

    name: str
    rate: float
    apply: Apply
    counted: bool = False


TABLE: dict[str, Kind] = {}


def kind(name: str, rate: float = 1.0) -> Callable[[Apply], Apply]:
    """Enter a function into the table."""

    def enter(apply: Apply) -> Apply:
        TABLE[name] = Kind(name, rate, apply)
        return apply

    return enter


def draw(rng: random.Random) -> str:
    """A kind by the rates."""
    names = list(TABLE)
    return rng.choices(names, [TABLE[n].rate for n in names])[0]


def inject(world: World, name: str, seed: str) -> None:
    """Let a fault strike now, or, three of four times, as soon as the arm moves well (within 6 s)."""
    rng = random.Random(seed)
    patience = 24 if rng.random() < 0.75 else 0

    def strike() -> None:
        nonlocal patience
        if patience > 0 and not world.fast_now:
            patience -= 1
            return world.at(world.clock.now_s + 0.25, strike)
        entry = TABLE[name]
        if entry.apply(world, rng) and not entry.counted:
            world.count(name)
        return None

    strike()


# --- links ----------------------------------------------------------------------------------------------------------


def _link_fault(link_name: str, mode: str) -> Apply:
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
            world.at(now_s + 0.005, lambda: world.stop() if link_name == "operator-stop" else _disarm(world))
        elif mode not in ("delay", "partition") or link_name != "shell-guard":
            world.agent.wake_at(now_s + 0.005)
        return True

    return apply


def _line_fault(direction: str, mode: str) -> Apply:
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


def _disarm(world: World) -> None:
    world.operator.send(Arm("disarm", "", "d"))


for _name in LINKS:
    for _mode in MODES:
        TABLE[f"{_name}:{_mode}"] = Kind(f"{_name}:{_mode}", 0.6, _link_fault(_name, _mode), counted=True)
for _name, _direction in (("guard-controller", "up"), ("controller-guard", "down")):
    for _mode in MODES:
        if (_direction, _mode) != ("down", "corrupt"):
            TABLE[f"{_name}:{_mode}"] = Kind(f"{_name}:{_mode}", 0.8, _line_fault(_direction, _mode), counted=True)


# --- processes ------------------------------------------------------------------------------------------------------


@kind("guard killed", 2.0)
def _guard_killed(world, rng):
    if world.host.guard is None:
        return False
    world.host.kill()
    restart_s = world.clock.now_s + rng.uniform(0.1, 0.6)
    world.at(restart_s, lambda: _restart_guard(world))
    return True


def _restart_guard(world: World) -> None:
    if world.host.guard is None:
        world.host.start(world.clock.at(world.clock.cycle))
        world.shell.connect()


@kind("guard asked to end")
def _guard_ended(world, rng):
    if world.host.guard is None or world.host.ending:
        return False
    world.host.ending = True
    for delay_s in (1.0, 3.0, 5.0):
        world.at(world.clock.now_s + delay_s, lambda: _restart_guard(world))
    return True


def _freeze_guard(least_s: float, most_s: float) -> Apply:
    def apply(world, rng):
        if world.host.guard is None:
            return False
        world.host.frozen_until_s = world.clock.now_s + rng.uniform(least_s, most_s)
        return True

    return apply


kind("guard frozen below 40 ms", 2.0)(_freeze_guard(0.008, 0.036))
kind("guard frozen above 40 ms", 2.0)(_freeze_guard(0.045, 1.0))


@kind("guard cycle late")
def _late(world, rng):
    world.host.jitter_s = rng.uniform(0.0005, 0.006)
    return world.host.guard is not None


@kind("shell killed", 2.0)
def _shell_killed(world, rng):
    if not world.shell.alive:
        return False
    world.shell.kill(world.clock.now_s)
    world.at(world.clock.now_s + rng.uniform(0.05, 0.5), world.shell.start)
    return True


def _freeze(process: str, least_s: float, most_s: float) -> Apply:
    def apply(world, rng):
        target = getattr(world, process)
        target.frozen_until_s = world.clock.now_s + rng.uniform(least_s, most_s)
        return target.alive

    return apply


kind("shell frozen below 40 ms")(_freeze("shell", 0.008, 0.03))
kind("shell frozen above 40 ms", 2.0)(_freeze("shell", 0.05, 0.8))
kind("agent frozen", 1.5)(_freeze("agent", 0.02, 1.5))


@kind("agent killed", 1.5)
def _agent_killed(world, rng):
    if not world.agent.alive:
        return False
    world.agent.kill()
    world.at(world.clock.now_s + rng.uniform(0.05, 1.5), lambda: world.agent.start(world.clock.now_s))
    return True


@kind("agent begins to stream", 1.5)
def _stream(world, rng):
    """No fault by itself: the next faults meet a closed loop at 20 Hz."""
    world.agent.streaming, world.agent._source = rng.randint(10, 25), "policy"
    world.agent.wake_at(world.clock.now_s + 0.001)
    return False


@kind("goal and cancel", 1.5)
def _mission(world, rng):
    """The product's own agent gets a goal at the next arming, which this stop brings about, and a cancel."""
    world.mission_due = True
    world.stop()
    return True


@kind("estimator silent")
def _estimator_silent(world, rng):
    world.estimator_until_s = world.clock.now_s + rng.choice([0.2, 0.8, 1.5])
    return True


@kind("estimator reports trouble")
def _estimator_unwell(world, rng):
    world.unwell_until_s = world.clock.now_s + rng.uniform(0.2, 1.0)
    return True


@kind("operator absent", 0.3)
def _operator_absent(world, rng):
    world.operator.present = False

    def back() -> None:
        world.operator.present = True

    world.at(world.clock.now_s + rng.uniform(0.5, 2.0), back)
    return True


@kind("controller frozen below 40 ms")
def _controller_held(world, rng):
    world.robot.frozen_until = world.robot.tick_count + rng.randint(0, 3)
    return True


@kind("controller frozen above 40 ms", 1.5)
def _controller_frozen(world, rng):
    world.robot.frozen_until = world.robot.tick_count + rng.choice([5, 6, 8, 20, 60])
    return True


# --- robot ----------------------------------------------------------------------------------------------------------


def _robot_modes(robot_mode: int, safety_mode: int) -> Apply:
    def apply(world, rng):
        robot = world.robot
        robot.robot_mode, robot.safety_mode = robot_mode, safety_mode

        def clear() -> None:
            robot.robot_mode, robot.safety_mode = 7, 1

        world.at(world.clock.now_s + rng.uniform(0.05, 0.8), clear)
        return True

    return apply


for _fault, _modes, _rate in (
    ("protective stop", (7, 3), 1.5), ("emergency stop", (7, 7), 1.0), ("safeguard stop", (7, 5), 1.0),
    ("recovery mode", (7, 4), 0.5), ("reduced mode", (7, 2), 0.5), ("safety violation", (7, 8), 0.5),
    ("safety fault", (7, 9), 0.5), ("power lost", (3, 1), 1.0), ("brakes engaged", (5, 1), 1.0),
    ("freedrive from the pendant", (6, 1), 1.0), ("no controller", (0, 1), 0.5), ("unknown robot mode", (99, 1), 0.3),
):  # fmt: skip
    kind(_fault, _rate)(_robot_modes(*_modes))


@kind("freedrive button pressed")
def _freedrive(world, rng):
    return _for_a_while(world, rng, world.robot, "freedrive")


@kind("pendant takes control")
def _local(world, rng):
    return _for_a_while(world, rng, world.robot, "local")


def _for_a_while(world: World, rng: random.Random, owner: object, name: str) -> bool:
    setattr(owner, name, True)
    world.at(world.clock.now_s + rng.uniform(0.05, 0.8), lambda: setattr(owner, name, False))
    return True


@kind("joint stuck", 1.5)
def _stuck(world, rng):
    stuck = world.robot.plant.stuck
    stuck[rng.randrange(6)] = True

    def free() -> None:
        stuck[:] = False

    world.at(world.clock.now_s + rng.uniform(0.05, 1.5), free)
    return True


@kind("arm pushed")
def _pushed(world, rng):
    world.robot.plant.x[2, rng.randrange(6)] += rng.choice([-0.08, -0.04, 0.04, 0.08])
    return True


@kind("encoder says NaN")
def _nan(world, rng):
    world.robot.nan_feedback = rng.randint(1, 4)
    return True


@kind("controller repeats itself")
def _repeats(world, rng):
    world.robot.repeat_until = world.robot.tick_count + rng.choice([3, 8, 30])
    return True


@kind("session cut", 1.5)
def _cut(world, rng):
    world.robot.cut_until = world.robot.tick_count + rng.choice([2, 10, 60, 150, 350])
    return True


@kind("line takes no packages")
def _refused(world, rng):
    world.robot.refuse_until = world.robot.tick_count + rng.choice([0, 1, 2, 3, 6, 20])
    return True


@kind("program ended at the pendant")
def _ended(world, rng):
    if world.robot.program is None:
        return False
    world.robot._end_program()
    return True


@kind("program paused and resumed")
def _paused(world, rng):
    return _for_a_while(world, rng, world.robot, "paused")


def _arming_trouble(trouble: str) -> Apply:
    def apply(world, rng):
        robot = world.robot
        robot.arming_trouble = trouble

        def clear() -> None:
            robot.arming_trouble = ""

        world.at(world.clock.now_s + 1.5, clear)
        world.stop()  # so that an arming follows
        return True

    return apply


kind("arming takes too long", 0.1)(_arming_trouble("slow"))
kind("arming fails", 0.4)(_arming_trouble("fails"))
kind("another program instead of ours", 0.1)(_arming_trouble("foreign"))


# --- clocks ---------------------------------------------------------------------------------------------------------


def _wall(step_s: float) -> Apply:
    def apply(world, rng):
        world.clock.wall_offset_s += step_s
        world.agent.wake_at(world.clock.now_s + 0.01)
        return True

    return apply


for _step_s in (5.0, -5.0, 3600.0, 0.08, -0.08):
    kind(f"wall clock {_step_s:+g} s", 0.5)(_wall(_step_s))


# --- operator -------------------------------------------------------------------------------------------------------


@kind("operator stop", 4.0)
def _stop(world, rng):
    world.stop(Stop(rng.choice(["operator", "console", "topic", "service"]), "test"))
    return True


@kind("stop on the command socket")
def _command_stop(world, rng):
    world.operator.send(Stop("console", "", "s"))
    return True


@kind("stop that cannot be read")
def _unreadable(world, rng):
    world.stop(rng.randbytes(rng.randint(0, 40)))
    return True


@kind("flood of stops", 0.3)
def _stop_flood(world, rng):
    for _ in range(150):
        world.stop()
    return True


@kind("stop during arming", 1.5)
def _stop_in_arming(world, rng):
    world.stop()
    for _ in range(3):
        world.at(world.clock.now_s + rng.uniform(0.4, 1.2), world.stop)
    return True


@kind("arm with a wrong credential")
def _wrong_credential(world, rng):
    world.operator.send(Arm("auto", rng.choice(["", "guess", CREDENTIAL[:-1], CREDENTIAL + "0"]), "w"))
    return True


@kind("arm without credential while stopped")
def _guessed_arm(world, rng):
    world.stop()
    for k in range(4):
        world.at(world.clock.now_s + 0.15 * (k + 2), lambda: world.operator.send(Arm("auto", "guess", "w")))
    return True


@kind("arm while moving")
def _arm_moving(world, rng):
    world.operator.send(Arm("auto", CREDENTIAL, "m"))
    return True


@kind("arm during a stop", 1.5)
def _arm_in_stop(world, rng):
    world.stop()
    for _ in range(3):
        world.at(world.clock.now_s + rng.uniform(0.005, 0.4), lambda: world.operator.send(Arm("auto", CREDENTIAL, "m")))
    return True


@kind("arm twice at once")
def _arm_twice(world, rng):
    world.stop()
    for _ in range(2):
        world.at(world.clock.now_s + 0.9, lambda: world.operator.send(Arm("auto", CREDENTIAL, "t")))
    return True


@kind("arm in an unknown mode", 0.3)
def _arm_unknown(world, rng):
    world.operator.send(Arm(rng.choice(["", "ARMED_AUTO", "\x00", "full speed"]), CREDENTIAL, "u"))
    return True


@kind("disarm")
def _disarmed(world, rng):
    _disarm(world)
    return True


@kind("arm while a cause holds", 1.5)
def _arm_with_cause(world, rng):
    now_s, robot = world.clock.now_s, world.robot
    robot.safety_mode = 3

    def clear() -> None:
        robot.safety_mode = 1

    for delay_s in (0.7, 0.8, 0.9):
        world.at(now_s + delay_s, lambda: world.operator.send(Arm("auto", CREDENTIAL, "c")))
    world.at(now_s + 1.2, clear)
    return True


# --- hostile senders ------------------------------------------------------------------------------------------------


def _fresh_chunk(world: World, rng: random.Random) -> Chunk | None:
    """A chunk that would be accepted now: what a sender who sees everything can make."""
    states, agent = world.host.states, world.agent
    if not states or agent.path is None:
        return None
    state = states[-1]
    q = agent.path.waypoints(state.stamp_s, SHORT, SHORT_PERIOD_S)
    chunk = agent.chunk(state)
    return replace(chunk, trace_id="h" + chunk.trace_id, period_s=SHORT_PERIOD_S, q_rad=q.tolist(), source="planner")


def _hostile(change: Callable[[Chunk, World, random.Random], Chunk], commander: bool = True) -> Apply:
    """A changed chunk over the commander's own connection (a shell taken over), or over a stranger's."""

    def apply(world, rng):
        chunk = _fresh_chunk(world, rng)
        now_s = world.clock.now_s
        client = world.shell.client if commander else world.host.connect("stranger", True, now_s)
        if chunk is None or client is None:
            return False
        world.host.deliver(client, change(chunk, world, rng), now_s + 0.0001)
        if not commander:
            world.at(now_s + rng.uniform(0.1, 1.0), lambda: world.host.disconnect(client, world.clock.now_s))
        return True

    return apply


def _offset(joint_step_rad: float) -> Callable[[Chunk, World, random.Random], Chunk]:
    def change(chunk, world, rng):
        j, k = rng.randrange(6), rng.randrange(len(chunk.q_rad))
        rows = [list(r) for r in chunk.q_rad]
        for row in rows[k:]:
            row[j] += joint_step_rad
        return replace(chunk, q_rad=rows)

    return change


def _value(value: float) -> Callable[[Chunk, World, random.Random], Chunk]:
    def change(chunk, world, rng):
        rows = [list(r) for r in chunk.q_rad]
        rows[rng.randrange(len(rows))][rng.randrange(6)] = value
        return replace(chunk, q_rad=rows)

    return change


def _low(chunk: Chunk, world: World, rng: random.Random) -> Chunk:
    """Down through the table, so smoothly that every other rule is kept."""
    s = np.linspace(0.0, 1.0, LONG)
    q = world.agent.path.waypoints(chunk.state_stamp_s, LONG, LONG_PERIOD_S)
    q[:, 1] += rng.choice([0.5, 1.0]) * s**3 * (10 - 15 * s + 6 * s * s)
    return replace(chunk, q_rad=q.tolist(), period_s=LONG_PERIOD_S)


def _old_token(chunk: Chunk, world: World, rng: random.Random) -> Chunk:
    others = sorted(world.checker.tokens - {chunk.token}) or [0]
    return replace(chunk, token=rng.choice(others))


HOSTILE: dict[str, tuple[Callable[[Chunk, World, random.Random], Chunk], float]] = {
    "chunk with an old token": (_old_token, 1.5),
    "chunk with a guessed token": (lambda c, w, r: replace(c, token=r.choice([0, -1, c.token + 1])), 0.5),
    "chunk that has expired": (lambda c, w, r: replace(c, state_stamp_s=c.state_stamp_s - r.choice([0.2, 60])), 0.7),
    "chunk for a state long ago": (lambda c, w, r: _ago(c, w, r), 0.7),
    "chunk from the future": (lambda c, w, r: replace(c, state_stamp_s=c.state_stamp_s + r.choice([0.05, 5.0])), 0.7),
    "chunk for a state not published": (lambda c, w, r: replace(c, state_seq=c.state_seq + r.randint(1, 99)), 0.7),
    "chunk for another observation": (lambda c, w, r: replace(c, state_seq=c.state_seq - 3), 0.7),
    "chunk with NaN": (_value(float("nan")), 1.0),
    "chunk with infinity": (_value(float("inf")), 0.5),
    "chunk with huge numbers": (_value(1e300), 0.5),
    "chunk outside the joints' range": (_value(7.0), 0.5),
    "chunk with a jump": (_offset(0.8), 1.0),
    "chunk with a small jump": (_offset(0.06), 1.0),
    "chunk into the table": (_low, 1.5),
    "chunk with joints in another order": (lambda c, w, r: replace(c, joint_names=r.sample(c.joint_names, 6)), 0.5),
    "chunk of another shape": (lambda c, w, r: replace(c, q_rad=[row[:5] for row in c.q_rad]), 0.5),
    "chunk without way-points": (lambda c, w, r: replace(c, q_rad=[]), 0.5),
    "chunk with a strange period": (lambda c, w, r: replace(c, period_s=r.choice([0.0, -0.05, 1e-9, 50.0])), 0.5),
    "chunk of an unknown source": (lambda c, w, r: replace(c, source="stop"), 0.5),
    "chunk with one field changed": (lambda c, w, r: mutated(c, r), 2.0),
}


def _ago(chunk: Chunk, world: World, rng: random.Random) -> Chunk:
    """Consistent in itself: stamp and sequence of a state that was published, but too long ago."""
    states = world.host.states
    state = states[-min(len(states), rng.randint(16, 60))]
    return replace(chunk, state_seq=state.seq, state_stamp_s=state.stamp_s)


for _name, (_change, _rate) in HOSTILE.items():
    kind(_name, _rate)(_hostile(_change))
kind("second commander", 1.5)(_hostile(lambda c, w, r: c, commander=False))


@kind("replay of accepted chunks", 1.5)
def _replay(world, rng):
    chunk = world.agent.accepted
    if chunk is None:
        return False
    for delay_s in (0.0, 0.02, 0.3, 0.8, 1.2):
        world.at(world.clock.now_s + delay_s, lambda: world.shell.relay(chunk))
    return True


@kind("chunks out of order", 1.0)
def _out_of_order(world, rng):
    """Two chunks that are both fresh, the newer one first."""
    new = _fresh_chunk(world, rng)
    states = world.host.states
    if new is None or len(states) < 6:
        return False
    old = replace(new, state_seq=states[-5].seq, state_stamp_s=states[-5].stamp_s, trace_id=new.trace_id + "o")
    world.shell.relay(new)
    world.at(world.clock.now_s + 0.017, lambda: world.shell.relay(old))
    return True


@kind("flood of chunks", 0.5)
def _flood(world, rng):
    chunk = _fresh_chunk(world, rng)
    if chunk is None:
        return False
    for k in range(60):
        delay_s = 0.001 * k
        world.at(world.clock.now_s + delay_s, lambda: world.host.deliver(world.shell.client, chunk, world.clock.now_s))
    return True


@kind("garbage on the command socket")
def _garbage(world, rng):
    for _ in range(4):
        world.host.deliver(world.shell.client, rng.randbytes(rng.randint(0, 200)), world.clock.now_s)
    return world.shell.client is not None


@kind("stranger's heartbeats")
def _strangers_beat(world, rng):
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


def _grip(change: Callable[[World, random.Random], Gripper], after_stop: bool = False, commander: bool = True) -> Apply:
    def apply(world, rng):
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


def _order(world: World, rng: random.Random) -> Gripper:
    return Gripper(world.agent.token, rng.choice([0.0, 0.062, 0.085]), f"x{world.clock.cycle}")


kind("gripper order after a stop")(_grip(_order, after_stop=True))
kind("gripper order of a stranger", 0.7)(_grip(_order, commander=False))
kind("gripper order with another token", 0.7)(_grip(lambda w, r: replace(_order(w, r), token=w.agent.token ^ 1)))
kind("gripper order out of range", 0.7)(
    _grip(lambda w, r: replace(_order(w, r), width_m=r.choice([-0.01, 5.0, float("nan")])))
)
