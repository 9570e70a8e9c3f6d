"""Blocks: as many cycles at once as certainly decide nothing, to the same bits as one by one.

A cycle in which the guard is armed, every beat is on time, the line is clear and the arm follows, only advances: plan
index, sequence numbers, what was sent and published lately, the rest detector. `advance` moves plant and set-points
through such cycles together, checks on the results that no cycle would have decided anything (in doubt: it takes the
block back and the cycles run one by one), and leaves the guard with the memory that those cycles would have left.
`tests/property/test_dst_coast.py` compares both ways bit for bit.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from steadyhand.plan import Published
from steadyhand.watchdog import RestDetector
from steadyhand_cli.dst import vehicle
from steadyhand_cli.dst.body import depth_m
from steadyhand_cli.dst.cell import ZONE_M
from steadyhand_cli.dst.clock import BEAT_AT_S, INPUT_AT_S
from steadyhand_cli.dst.plant import MEASURED, MEASURED_SPEED
from steadyhand_firmware_bridge.guard.admission import STATES_KEPT
from steadyhand_firmware_bridge.guard.core import Guard
from steadyhand_firmware_bridge.guard.peers import SEND_EVERY
from steadyhand_firmware_bridge.guard.zone import BEHIND

if TYPE_CHECKING:
    from steadyhand_cli.dst.world import World

SHORTEST = 7
LONGEST = 1200
BEFORE_EVENT = 1  # cycles run one by one before anything happens: the agent looks at a state that is 4 ms old
UNSURE_M = 1e-6  # two kinematics differ by less
ARRIVES_CYCLES = 16  # more than the arm is behind the set-points, and than `SHORTEST`
STRIDE, SURELY_M = 8, 0.1  # rows; no point of the arm moves so far in half as many cycles
SURE = 0.8  # share of the tracking bound at standstill that counts as certainly within


def advance(world: World) -> int:
    """Cycles passed in one block; 0 when the next cycle must run by itself."""
    clock, guard = world.clock, world.host.guard
    k = clock.cycle
    if guard is None or not guard.state.armed:
        return 0
    count = min(LONGEST, int((world.next_event_s - clock.at(k)) / clock.period_s) - BEFORE_EVENT)
    if count < SHORTEST or k < world.single_until or not _routine(world, guard):
        return 0
    count = min(count, _until_source_is_due(guard, clock.at(k), clock.period_s))
    if world.watching:
        count = min(count, world.until_watch)
    if count < SHORTEST:
        return 0
    motion, robot = guard.motion, world.robot
    q, qd, _ = motion.plan.rest_of(motion.index, count)
    if world.vehicle is not None:
        count = min(count, _tells_the_same(guard, q[0], q, qd) + ARRIVES_CYCLES)  # not much more, by what is sent
        q, qd = q[:count], qd[:count]
    times_s = np.array([clock.at(k + i) for i in range(count)])
    first = robot.feedback()
    waiting = robot._down[0]
    states, before = robot.try_block(q)
    measured = np.concatenate([waiting.q_rad[None], states[: count - 1, MEASURED]])  # what cycle i sees
    speeds = np.concatenate([waiting.qd_rad_s[None], states[: count - 1, MEASURED_SPEED]])
    if first is None or not _follows(guard, times_s, q, measured):
        robot.undo(before)
        return 0
    if world.vehicle is not None:
        count = _tells_the_same(guard, first.q_rad, measured, qd)
        if count < SHORTEST:
            robot.undo(before)
            world.single_until = k + max(count, 0) + 2  # when what is told has changed
            return 0
        robot.shorten(states[:count], q[:count])
        times_s, q, qd, states, speeds = times_s[:count], q[:count], qd[:count], states[:count], speeds[:count]
    stamps_s = np.array([waiting.stamp_s] + [robot.arrival_s(robot.tick_count + i) for i in range(count - 1)])
    first_seq = guard.seq
    robot.serve(guard.state.token, first_seq, q, states)
    _rest(guard.rest, speeds, stamps_s)
    _guard_memory(guard, times_s, q, qd)
    feedback = robot.feedback()
    guard._controller_stamp_s, guard._feedback_s = feedback.controller_stamp_s, feedback.stamp_s
    _host_memory(world, guard, times_s)
    world.checker.block(times_s, first_seq, q)
    if world.vehicle is not None:
        _beats_memory(world, guard, times_s, q)
    world.checker.controller.block(robot.inputs.heartbeat, robot.program.goal_rad)
    world.checker.feedback_block(robot.feedback(), guard.rest._since_s, guard.rest._last_s)
    clock.cycle, clock.now_s = k + count, clock.at(k + count)
    return count


def _routine(world: World, guard: Guard) -> bool:
    """Whether everything round the guard is as it is when nothing is wrong."""
    now_s, host, motion = world.clock.at(world.clock.cycle), world.host, guard.motion
    state = host.states[-1] if host.states else None
    return (
        state is not None and state.seq == guard.seq and not guard.pending and not host.ending and not host.jitter_s
        and not host.frozen(now_s) and host._deadline_s == now_s and not host._stops
        and guard._arm_asked is None and guard._link_refusals == 0
        and not guard.state.holding and not guard.inputs._trouble and not guard.links._links
        and world.shell.well_now(now_s) and world.shell.client is not None and guard.commander is world.shell.client
        and world.agent.well_now(now_s) and now_s > world.estimator_until_s and now_s > world.unwell_until_s
        and not any(c.queue for c in host.clients)
        and all(link.clear(now_s) for link in world.links.values())
        and motion.plan is not None and motion.index > 0 and len(motion._sent) == motion._sent.maxlen
        and world.robot.undisturbed
        and len(guard.inputs._last_s) == len(guard.inputs.limits_s)
        and min(guard.inputs._last_s.values()) > now_s - world.beat_cycles * world.clock.period_s - INPUT_AT_S
        and now_s > world.agent_until_s
        and (world.vehicle is None or world.vehicle.routine(now_s) and _hears_routine(world, guard, now_s))
    )  # fmt: skip


def _hears_routine(world: World, guard: Guard, now_s: float) -> bool:
    """Whether the guard knows what the vehicle's tells, which is no reason to stop, and goes on hearing it."""
    domain, every_s = guard.domain, vehicle.BEAT_CYCLES * world.clock.period_s
    return all(
        beat == world.vehicle.told and not beat.unsafe and domain._last_s[name] > now_s - every_s
        for name, beat in domain._beats.items()
    ) and bool(domain._beats)


def _tells_the_same(guard: Guard, before_rad: np.ndarray, measured: np.ndarray, qd: np.ndarray) -> int:
    """Of how many cycles in a row the beat to the vehicle's guard is certainly that of the cycle before them.

    What it says is that the arm is there, or is about to be (until some set-point of the plan), or neither.
    """
    index = guard.motion.index + np.arange(len(measured) + 1)
    clear_from = guard.zone._plan[1]
    depth = _depth(np.concatenate([before_rad[None], measured]))
    says = np.where(depth > 0.0, 2, (index - BEHIND < clear_from).astype(int))
    slow = np.concatenate([[True], np.abs(qd).max(axis=1) <= 1e-3]) | (index >= len(guard.motion.plan))
    unsure = (np.abs(depth) < UNSURE_M) | slow & (says == 1) & (index >= clear_from)  # it may be said to be at rest
    if guard.zone._plan[0] is not guard.motion.plan:
        unsure |= says < 2  # not looked at yet, while the arm is there
    changes = np.flatnonzero(unsure | (says != says[0]))
    return int(changes[0]) - 1 if len(changes) else len(measured)


def _depth(q_rad: np.ndarray) -> np.ndarray:
    """(n,) `depth_m` in the place that arm and vehicle share: exact where it is small, else of a row close by."""
    coarse = np.repeat(depth_m(q_rad[STRIDE // 2 :: STRIDE], ZONE_M), STRIDE)[: len(q_rad)]
    depth = np.concatenate([coarse, np.zeros(len(q_rad) - len(coarse))])  # the last rows are looked at
    rows = np.flatnonzero(np.abs(depth) < SURELY_M)
    if len(rows):
        depth[rows] = depth_m(q_rad[rows], ZONE_M)
    return depth


def _until_source_is_due(guard: Guard, now_s: float, period_s: float) -> int:
    source = guard.source
    if source._source in source.streaming:
        return 0
    due_s = source._end_s + source.timeout_s
    return LONGEST if due_s == float("inf") else int((due_s - now_s) / period_s) - 1


def _follows(guard: Guard, times_s: np.ndarray, q: np.ndarray, measured: np.ndarray) -> bool:
    """Whether every measurement is certainly within the tracking bound and the joints' range."""
    limits, motion = guard.limits, guard.motion
    sent = np.concatenate([np.stack([s[1] for s in motion._sent]), q])
    old = len(sent) - len(q)
    lag = motion._lag_s / motion.period_s
    # cycle i sees a measurement of about half a period before it: set-points between i - lag - 1 and i - lag
    rows = np.arange(len(q)) + old - int(lag) - 1
    off = np.abs(measured - 0.5 * (sent[rows] + sent[rows - 1])).max(axis=1)
    inside = (measured > limits.q_min_rad) & (measured < limits.q_max_rad)
    return bool((off < SURE * limits.tracking_rad).all() and inside.all() and np.isfinite(measured).all())


def _rest(rest: RestDetector, speeds_rad_s: np.ndarray, stamps_s: np.ndarray) -> None:
    """What `RestDetector.update` would have kept after each of these measurements in turn."""
    still = np.abs(speeds_rad_s).max(axis=1) < rest.speed_rad_s
    moved = np.flatnonzero(~still)
    if len(moved):
        last = int(moved[-1])
        rest._since_s = float(stamps_s[last + 1]) if last + 1 < len(stamps_s) else None
    elif rest._since_s is None:
        rest._since_s = float(stamps_s[0])
    rest._last_s = float(stamps_s[-1])


def _guard_memory(guard: Guard, times_s: np.ndarray, q: np.ndarray, qd: np.ndarray) -> None:
    motion, admission, count = guard.motion, guard.admission, len(q)
    motion.index += count
    motion.q_rad, motion.qd_rad_s, _ = motion.plan.setpoint(motion.index - 1)
    keep = motion._sent.maxlen
    for i in range(max(0, count - keep), count):
        motion._sent.append((float(times_s[i]), q[i]))
    for i in range(max(0, count - STATES_KEPT), count):
        admission.published(guard.seq + 1 + i, Published(float(times_s[i]), q[i], qd[i]))
    guard.seq += count


def _host_memory(world: World, guard: Guard, times_s: np.ndarray) -> None:
    clock, last = world.clock, len(times_s) - 1
    guard._shell_s = float(times_s[last]) + BEAT_AT_S
    newest = last - (clock.cycle + last) % world.beat_cycles
    if newest >= 0:
        for name in guard.inputs._last_s:
            guard.inputs._last_s[name] = float(times_s[newest]) + INPUT_AT_S
        if newest == last:
            guard._shell_s = float(times_s[last]) + INPUT_AT_S
    world.host._deadline_s = world.host._next_cycle_s = clock.at(clock.cycle + last + 1)


def _beats_memory(world: World, guard: Guard, times_s: np.ndarray, q_rad: np.ndarray) -> None:
    """Beats between the guards: neither told anything new."""
    host, partner, cycle, last = world.host, world.vehicle, world.clock.cycle, len(times_s) - 1
    host.beat_cycles += last + 1
    newest = last - host.beat_cycles % SEND_EVERY
    partner.heard_s = float(times_s[newest])
    heard = last - (cycle + last) % vehicle.BEAT_CYCLES
    if heard >= 0:
        partner.told_s = float(times_s[heard])
        for name in guard.domain._last_s:
            guard.domain._last_s[name] = partner.told_s + vehicle.BEAT_AT_S
    world.checker.cell.block(times_s, q_rad, partner.told_s + vehicle.BEAT_AT_S, last - newest + 1)
