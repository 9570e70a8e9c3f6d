"""One cell of the matrix: bring the task into a phase, do one act, measure from outside, recover, judge.

The graph runs on from cell to cell, as it must survive every fault: a cell begins by mending what the last one left.
"""
from __future__ import annotations

import contextlib
import math
import time
from collections import deque
from dataclasses import replace

import numpy as np

from steadyhand import ur5
from steadyhand.errors import RobotError
from steadyhand.guard_protocol import State
from steadyhand_cli.injection import judge, observer, onset
from steadyhand_cli.injection.acts import Operators, perform
from steadyhand_cli.injection.running import RunningGraph
from steadyhand_cli.injection.table import Injection, Kind, Signal, process_of
from steadyhand_cli.job import RESULT_NAMES

PHASE_TIMEOUT_S = 60.0
# strike when the arm is this fast and gains no more, or so long after the phase began
UNDER_WAY_RAD_S, UNDER_WAY_S = 0.2, 0.6
STALL_S = 0.2  # no sample for this long, although the controller lives: the machine was held up
WATCH_S = 1.2  # after the act, longer than the longest limit
STATE_AGAIN_S = 6.0  # a guard that died speaks again within this
RESULT_S = 12.0
GOAL_S = 20.0
REPAIRS = (
    "unlock_protective_stop", "release_safeguard", "normal_mode", "release_freedrive", "camera_ok", "restore_feedback",
)  # fmt: skip


class Cells:
    """Runs cells on one graph. `begin` once; `run` per cell."""

    def __init__(self, graph: RunningGraph):
        self.graph, self.operators = graph, Operators(graph)
        self._tray = self.graph.score.state()["position_m"]

    def run(self, injection: Injection, phase: str) -> dict:
        """Record of one cell (`judge.to_record`); a cell that cannot even be set up says why."""
        graph = self.graph
        measured, reached = judge.Measured(injection.name, phase, phase_reached=False), False
        try:
            self._mend()
            self.operators.prepare(graph, injection.act)
            goal = self._start()
            reached = self._reach(goal, phase)
            if reached:
                measured = self._strike(injection, phase, goal)
        except RobotError as error:
            came = [] if reached else judge.problems(measured, injection.expect)
            return judge.to_record(replace(measured, phase_reached=reached), [*came, str(error)])
        finally:
            self.operators.release()
        return judge.to_record(measured, judge.problems(measured, injection.expect))

    # --- before ---

    def _mend(self) -> None:
        """Good cable, processes up, robot well, tray filled, armed."""
        graph = self.graph
        graph.link.heal()
        graph.until(lambda: len(graph.supervisor.pids()) == len(graph.supervisor.running), 10.0, "every process")
        self._robot_well()
        for index, position in enumerate(self._tray):
            graph.score.fault("move_cube", index=index, x_m=position[0], y_m=position[1])
        graph.score.fault("finger_friction", value=1.2)
        graph.until(graph.session.ready.is_set, 30.0, "active nodes")
        graph.arm()

    def _robot_well(self) -> None:
        graph = self.graph
        for name in REPAIRS:
            graph.score.fault(name)
        controller = graph.score.state()["controller"]
        if "EMERGENCY" in controller["safety_mode"]:
            graph.score.fault("release_emergency_stop")
        if controller["safety_mode"] in ("VIOLATION", "FAULT"):  # a shove that the safety system ended with the brakes
            graph.score.fault("restart_safety")
            controller = graph.score.state()["controller"]
        if controller["robot_mode"] != "RUNNING":
            graph.score.fault("power_on")
            graph.wait(0.6)
            graph.score.fault("brake_release")
        graph.until(lambda: self._state_of_controller() == ("RUNNING", "NORMAL"), 10.0, "the robot to be well")

    def _state_of_controller(self) -> tuple[str, str]:
        self.graph.score.fault("unlock_protective_stop")
        controller = self.graph.score.state()["controller"]
        return controller["robot_mode"], controller["safety_mode"]

    def _start(self):
        """A running goal. The agent hears of the arming a little later and says NOT_ARMED until then."""
        graph, deadline = self.graph, time.monotonic() + GOAL_S
        graph.watcher.monitor.allow_motion(True)
        while True:
            try:
                goal = graph.session.send_goal("clear_tray", timeout_s=1.0)
                end = time.monotonic() + 0.4
                while not goal.done.is_set() and time.monotonic() < end:
                    graph.tick()
                if not goal.done.is_set():
                    self.operators.goal = goal
                    return goal
                said = f"{result_name(goal)} {goal.result.message if goal.result else ''}"
            except RobotError as error:  # nobody there: an agent that died is not missed at once
                said = str(error)
                graph.tick()
            if time.monotonic() > deadline:
                raise RobotError(f"no goal runs: {said}")

    def _reach(self, goal, phase: str) -> bool:
        """Whether the goal comes into the phase; then the arm is well under way in it, or it has lasted a while."""
        graph, deadline = self.graph, time.monotonic() + PHASE_TIMEOUT_S
        began, speeds = None, deque(maxlen=4)
        while not goal.done.is_set() and time.monotonic() < deadline:
            graph.tick()
            now = goal.feedback.phase if goal.feedback else ""
            if now != phase:
                if began is not None:
                    return True  # it has just ended: strikes at the seam, which is as good
                continue
            began = began or time.monotonic()
            speeds.append(float(np.linalg.norm(graph.watcher.state.qd_commanded_rad_s)))
            steady = len(speeds) == speeds.maxlen and speeds[-1] < 1.02 * speeds[0]
            if steady and speeds[-1] > UNDER_WAY_RAD_S or time.monotonic() - began > UNDER_WAY_S:
                return True
        return False

    # --- the act ---

    def _strike(self, injection: Injection, phase: str, goal) -> judge.Measured:
        graph, monitor = self.graph, self.graph.watcher.monitor
        pids, broken = graph.supervisor.pids(), len(monitor.violations)
        with contextlib.closing(perform(graph, injection.act, self.operators)) as course:
            act_s = next(course)
            seen = self._watch(course, act_s, injection)
        over_s, since_s = time.monotonic(), act_s
        if injection.blind:
            graph.score.close()  # that end may have died
        speed_after, moved, times = 0.0, 0.0, {}
        before = graph.observer.trace(act_s - 0.1)
        if seen:
            if injection.blind:
                since_s = graph.until(lambda: self._back_s(act_s), 10.0, "a sign of the controller")
            # the end of a motion before the stop is not its rest
            stop_s = max(since_s, max((s.last_stop["received_s"] for s in seen if s.last_stop), default=since_s))
            graph.until(lambda: _number(onset.rest_s(graph.observer.trace(since_s), stop_s)), 5.0, "rest at the port")
            times = self._times(act_s, since_s, stop_s, seen)
            moved = self._moved_meanwhile()
        result = self._end_goal(goal, injection)
        if seen:
            after = graph.observer.trace(since_s + times["rest_s"] + onset.REST_TIME_S).target_speed
            speed_after = onset.greatest_rise(after)
        monitor.allow_motion(False)
        recover_s = self._recover()
        struck, after_pids = process_of(injection.act), graph.supervisor.pids()
        changed = [name for name, pid in after_pids.items() if name != struck and pids.get(name) != pid]
        self._check(act_s, seen, injection)
        broke = monitor.violations[broken:]
        return judge.Measured(
            injection.name, phase, True, speed_rad_s=onset.speed_at(before, act_s), recover_s=recover_s - over_s,
            accelerating=onset.accelerating(before, act_s), disarmed=bool(seen),
            causes=tuple(sorted({c for s in seen for c in s.causes})), speed_after_rest_rad_s=speed_after,
            plant_moved_rad=moved, changed=tuple(changed), recovered=not math.isnan(recover_s), result=result,
            violations=tuple(f"{v.invariant}: {v.detail} ({v.stamp_s - act_s:+.2f} s)" for v in broke), **times,
        )

    def _times(self, act_s: float, since_s: float, stop_s: float, seen: list[State]) -> dict[str, float]:
        """When the guard noticed, by its own stamp; at the port: set-points braked, the arm decelerated, it stood."""
        rows = self.graph.observer.rows(since_s)
        port, setpoints = observer.trace(rows), observer.setpoint_trace(rows, ur5.SERVO_PERIOD_CB3_S)
        return {
            "detect_s": max((s.last_stop["received_s"] for s in seen if s.last_stop), default=math.nan) - act_s,
            "brake_s": onset.setpoints_end_s(setpoints, since_s) - since_s,
            "decelerate_s": onset.descent_s(port, since_s) - since_s,
            "rest_s": onset.rest_s(port, stop_s) - since_s,
        }

    def _check(self, act_s: float, seen: list[State], injection: Injection) -> None:
        """RobotError when something else came first: another stop, or a machine that stood still itself."""
        if any(0.0 < s.last_stop.get("received_s", 0.0) < act_s for s in seen):
            raise RobotError(f"not a measurement: stopped before it was struck: {'; '.join(seen[0].causes)}")
        gap_s = 0.0 if injection.blind else self.graph.observer.trace(act_s - 0.1).longest_gap_s()
        if gap_s > STALL_S:
            raise RobotError(f"not a measurement: the port was not observed for {gap_s:.1f} s")

    def _watch(self, course, act_s: float, injection: Injection) -> list[State]:
        """Until the fault is over and long enough after the act: the guard's states in which it was disarmed."""
        graph, found, more = self.graph, {}, True
        deadline = act_s + WATCH_S
        while more or time.monotonic() < deadline:
            waits = injection.expect.kind is Kind.STOP and not found and time.monotonic() < act_s + STATE_AGAIN_S
            deadline = max(deadline, time.monotonic() + 0.1) if waits else deadline
            if more:
                more = next(course, None) is not None
                if not more:
                    deadline = max(deadline, time.monotonic() + 0.3)
            graph.tick()
            state = graph.watcher.state
            if state is not None and not state.mode.startswith(("ARMED", "RECOVERING")) and state.stamp_s > act_s:
                found[tuple(state.causes)] = state
        return list(found.values())

    def _back_s(self, act_s: float) -> float:
        """When the controller's port showed its first package after the silence that the act began; 0 while silent."""
        t_s = self.graph.observer.trace(act_s - 0.1).t_s
        gaps = np.flatnonzero((np.diff(t_s) > onset.GAP_S) & (t_s[1:] > act_s))
        return float(t_s[gaps[0] + 1]) if len(gaps) else 0.0

    def _moved_meanwhile(self) -> float:
        """How far the simulated joints move in 0.3 s, at rest."""
        before = np.array(self.graph.score.state()["q_rad"])
        self.graph.wait(0.3)
        return float(np.abs(np.array(self.graph.score.state()["q_rad"]) - before).max())

    def _end_goal(self, goal, injection: Injection) -> str:
        """The goal's result; one that still runs is cancelled. An agent that died takes its goal with it."""
        graph, act = self.graph, injection.act
        died = isinstance(act, Signal) and act.process == "agent_node"
        deadline = time.monotonic() + (0.0 if injection.expect.kind is not Kind.STOP else RESULT_S)
        while not goal.done.is_set() and time.monotonic() < deadline and not died:
            graph.tick()
        if not goal.done.is_set() and not died:
            graph.session.cancel(goal)
            deadline = time.monotonic() + RESULT_S
            while not goal.done.is_set() and time.monotonic() < deadline:
                graph.tick()
        return result_name(goal)

    def _recover(self) -> float:
        """Time at which the port shows motion again, of a new goal after re-arming; then that goal is cancelled."""
        graph = self.graph
        try:
            self._mend()
            started_s = time.monotonic()
            goal = self._start()
            trace = graph.observer.trace
            moves_s = graph.until(lambda: _number(onset.moves_s(trace(started_s), started_s)), 15.0, "motion")
        except RobotError:
            return math.nan
        graph.session.cancel(goal)
        graph.until(goal.done.is_set, RESULT_S, "the result of a cancelled goal")
        graph.watcher.monitor.allow_motion(False)
        return moves_s


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


def result_name(goal) -> str:
    """Name of the goal's result, NO_RESULT when it has none."""
    return "NO_RESULT" if goal.result is None else RESULT_NAMES.get(goal.result.code, str(goal.result.code))
