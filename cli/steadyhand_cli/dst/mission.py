"""The product's own agent in place of the commander for one goal: cancels on a bad link, one result, rest (I6).

It gets no sight of the tray, so that it braces, backs off, goes home and looks: motion enough for a cancel to end.
"""
from __future__ import annotations

import random
from typing import TYPE_CHECKING

import numpy as np

from steadyhand.agent import Agent
from steadyhand.guard_protocol import Chunk, Gripper, State, Stop
from steadyhand.guard_protocol import Verdict as WireVerdict
from steadyhand.task import Code, Decision, Goal, Inputs, Result
from steadyhand.types import Mode, RobotState, Verdict

if TYPE_CHECKING:
    from steadyhand_cli.dst.world import World

STEP_S = 0.016  # the shell hands on every second state
RESULT_LIMIT_S = 2.5  # from a cancel: rest within 2 s or REST_UNKNOWN, and the ways there and back
STILL_S = 0.4  # watched after a result that says rest
GIVE_UP_S = 12.0
STILL_RAD_S = 1e-3


class Mission:
    """One goal and its cancel. `world.mission` is set while it runs."""

    def __init__(self, world: World, rng: random.Random):
        self.world = world
        self.number = world.missions = world.missions + 1
        self.goal = Goal(f"goal{self.number}", "clear_tray")
        self.agent = Agent(f"m{self.number}")
        self.over = False
        self.chunks = 0
        self.results: list[Result] = []
        self._begun_s = self._result_s = world.clock.now_s
        self._verdicts: list[Verdict] = []
        self._goals: list[Goal] = []
        self._cancels: list[str] = []
        self._heard: dict[str, float] = {}
        self._newest: State | None = None
        now_s = world.clock.now_s
        goal_s = now_s + rng.uniform(0.02, 0.1)
        cancel_s = goal_s + (rng.uniform(-0.09, 0.09) if rng.random() < 0.4 else rng.uniform(0.1, 3.5))
        world.at(goal_s, lambda: self._hear(self._goals, self.goal, "goal"))
        for repeat_s in (0.0, 0.3) if rng.random() < 0.3 else (0.0,):
            world.at(cancel_s + repeat_s, lambda: self._hear(self._cancels, self.goal.goal_id, "cancel"))
        world.at(now_s, self._step)

    def on_verdict(self, verdict: WireVerdict) -> None:
        """The shell passed one on."""
        self._verdicts.append(Verdict(verdict.trace_id, verdict.accepted, verdict.reason, verdict.detail))

    def drop(self) -> None:
        """The agent's process has died: nobody is told anything any more."""
        self.over, self.world.mission = True, None

    def _hear(self, queue: list, what: Goal | str, name: str) -> None:
        queue.append(what)
        self._heard.setdefault(name, self.world.clock.now_s)

    def _step(self) -> None:
        world, now_s = self.world, self.world.clock.now_s
        if self.over:
            return
        if world.agent.frozen(now_s):
            return self.drop()  # its limits are not ours to judge then
        state = world.view(now_s)
        self._newest = state if state is not None else self._newest
        news = tuple(self._verdicts), tuple(self._goals), tuple(self._cancels)
        inputs = Inputs(now_s, _robot_state(self._newest), None, None, *news)
        self._verdicts, self._goals, self._cancels = [], [], []
        self._carry_out(self.agent.step(inputs), now_s)
        self._judge(now_s)
        if not self.over:
            world.at(now_s + STEP_S, self._step)
        return None

    def _carry_out(self, decision: Decision, now_s: float) -> None:
        chunk, world = decision.chunk, self.world
        if chunk is not None:
            self.chunks += 1
            world.command(
                Chunk(
                    chunk.token, chunk.state_seq, chunk.state_stamp_s, chunk.trace_id, chunk.source,
                    list(chunk.joint_names), chunk.period_s, np.asarray(chunk.q_rad).tolist(),
                ),
                now_s,
            )  # fmt: skip
        if decision.gripper is not None:
            grip = decision.gripper
            world.command(Gripper(grip.token, grip.width_m, grip.trace_id), now_s)
        if decision.stop:
            world.stop(Stop("agent", decision.stop))
        if decision.results:
            self._result_s = now_s
        self.results += decision.results

    def _judge(self, now_s: float) -> None:
        report, speed = self.world.checker.report, self.world.checker.setpoints.speed_rad_s
        both_s = max(self._heard.get("goal", np.inf), self._heard.get("cancel", np.inf))
        early = self._heard.get("cancel", np.inf) < self._heard.get("goal", np.inf)
        if len(self.results) > 1:
            report("I6", now_s, f"{len(self.results)} results of one goal")
        if early and self.chunks:
            report("I6", now_s, "a goal that was cancelled before it began moves the arm")
        if self.results:
            result = self.results[0]
            if early and result.code not in (Code.CANCELLED, Code.NOT_ARMED):
                report("I6", now_s, f"cancelled before it began, and ends as {result.code.name}")
            if result.at_rest and speed > STILL_RAD_S:
                report("I6", now_s, f"the result says rest, the arm is commanded at {speed:.3f} rad/s")
            if now_s - max(self._result_s, both_s if np.isfinite(both_s) else 0.0) > STILL_S:
                self._finish()
        elif now_s - both_s > RESULT_LIMIT_S:
            report("I6", now_s, f"no result {RESULT_LIMIT_S} s after the cancel")
        elif now_s - self._begun_s > GIVE_UP_S:
            self._finish()

    def _finish(self) -> None:
        self.drop()
        self.world.agent.wake_at(self.world.clock.now_s + 0.01)


def _robot_state(state: State | None) -> RobotState | None:
    if state is None:
        return None
    return RobotState(
        state.stamp_s, state.seq, state.token, Mode(state.mode), np.array(state.q_rad), np.array(state.qd_rad_s),
        np.array(state.q_commanded_rad), np.array(state.qd_commanded_rad_s), state.gripper_width_m,
        state.gripper_commanded_m, state.at_rest, tuple(state.causes),
    )  # fmt: skip
