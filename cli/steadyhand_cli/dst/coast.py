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
from steadyhand_cli.dst.clock import BEAT_AT_S, BEAT_CYCLES, INPUT_AT_S
from steadyhand_cli.dst.plant import MEASURED, MEASURED_SPEED
from steadyhand_firmware_bridge.guard.admission import STATES_KEPT
from steadyhand_firmware_bridge.guard.core import Guard

if TYPE_CHECKING:
    from steadyhand_cli.dst.world import World

SHORTEST = 7
LONGEST = 1200
BEFORE_EVENT = 1  # cycles run one by one before anything happens: the agent looks at a state that is 4 ms old
SURE = 0.8  # share of the tracking bound at standstill that counts as certainly within


def advance(world: World) -> int:
    """Cycles passed in one block; 0 when the next cycle must run by itself."""
    clock, guard = world.clock, world.host.guard
    k = clock.cycle
    if guard is None or not guard.state.armed:
        return 0
    count = min(LONGEST, int((world.next_event_s - clock.at(k)) / clock.period_s) - BEFORE_EVENT)
    if count < SHORTEST or not _routine(world, guard):
        return 0
    count = min(count, _until_source_is_due(guard, clock.at(k), clock.period_s))
    if world.watching:
        count = min(count, world.until_watch)
    if count < SHORTEST:
        return 0
    times_s = np.array([clock.at(k + i) for i in range(count)])
    motion, robot = guard.motion, world.robot
    q, qd, _ = motion.plan.rest_of(motion.index, count)
    first = robot.feedback()
    waiting = robot._down[0]
    states, before = robot.try_block(q)
    measured = np.concatenate([waiting.q_rad[None], states[: count - 1, MEASURED]])  # what cycle i sees
    speeds = np.concatenate([waiting.qd_rad_s[None], states[: count - 1, MEASURED_SPEED]])
    if first is None or not _follows(guard, times_s, q, measured):
        robot.undo(before)
        return 0
    stamps_s = np.array([waiting.stamp_s] + [robot.arrival_s(robot.tick_count + i) for i in range(count - 1)])
    first_seq = guard.seq
    robot.serve(guard.state.token, first_seq, q, states)
    _rest(guard.rest, speeds, stamps_s)
    _guard_memory(guard, times_s, q, qd)
    feedback = robot.feedback()
    guard._controller_stamp_s, guard._feedback_s = feedback.controller_stamp_s, feedback.stamp_s
    _host_memory(world, guard, times_s)
    world.checker.block(times_s, first_seq, q)
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
        and min(guard.inputs._last_s.values()) > now_s - 0.2
    )  # fmt: skip


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
    newest = last - (clock.cycle + last) % BEAT_CYCLES
    if newest >= 0:
        for name in guard.inputs._last_s:
            guard.inputs._last_s[name] = float(times_s[newest]) + INPUT_AT_S
        if newest == last:
            guard._shell_s = float(times_s[last]) + INPUT_AT_S
    world.host._deadline_s = world.host._next_cycle_s = clock.at(clock.cycle + last + 1)
