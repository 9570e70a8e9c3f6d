"""The agent: goals, cancels and stops round the executor; the policy call as data; every command traced. Pure.

`Agent.step` is called with every new guard state (50 Hz), with every policy reply, and at least every 50 ms without.
Each goal gets exactly one terminal result, after rest was measured or has stayed unknown for `rest_limit_s` (I6). A
stop, or a change of the arming token, ends the goal; nothing resumes by itself (I2).
"""
from __future__ import annotations

import math
from collections import Counter, deque
from dataclasses import dataclass

import numpy as np

from steadyhand import diagnosis, faults, planner, policy_io, trajectory, ur5
from steadyhand.config import check_ranges, described
from steadyhand.errors import KinematicsError
from steadyhand.executor import Executor, Motion
from steadyhand.phases import POLICY_PHASES, ExecutorConfig, Phase
from steadyhand.planner import PlannerConfig
from steadyhand.policy_io import ACTION_DIM, HORIZON, PERIOD_S
from steadyhand.single_step import SingleStep
from steadyhand.task import Code, Decision, Feedback, Goal, Gripper, Inputs, PolicyReply, PolicyRequest, Result
from steadyhand.trace import Record
from steadyhand.types import Estimate, EstimateMode, JointChunk, Mode, Reason, RobotState


@dataclass(frozen=True)
class AgentConfig:
    """Time limits of the agent."""

    state_timeout_s: float = described(0.3, "silence of the guard that ends a task", "s", 0.05, 5.0)
    rest_limit_s: float = described(2.0, "rest is measured within this, or said to be unknown", "s", 0.5, 10.0)
    policy_deadline_s: float = described(0.040, "deadline of one policy call, fallback included", "s", 0.002, 1.0)
    policy_expiry_s: float = described(PERIOD_S, "a reply later than this after its request is dropped", "s", 0.01, 1.0)
    policy_outage_s: float = described(0.5, "without a usable reply for this long it is unavailable", "s", 0.1, 10.0)
    action_max: float = described(1.25, "largest action of the policy, in its own units", "", 1.0, 10.0)
    refusals_max: int = described(4, "consecutive refused chunks that fail the step", "", 1, 50)
    resend_s: float = described(0.2, "a gripper command is repeated until the guard reports it", "s", 0.05, 2.0)

    def __post_init__(self) -> None:
        check_ranges(self)


REASONS = frozenset(Reason)  # a verdict on the topic may say anything: only these get a counter of their own
PLAN_ENDED_S = 1.5  # after the last chunk: its way-points (0.8 s at half speed) and its stop tail (0.5 s) are over
REPLACED_S = 0.06  # from a braking chunk to a state that knows of it
LATENCIES_KEPT = 100_000
# No chunk sent, or none but refused ones, for this long in a policy phase: the agent brakes, before the guard's 100 ms.
BRAKE_AFTER_S = 0.07


@dataclass
class _Pending:
    """The policy call under way and the state it answers."""

    request: PolicyRequest
    state: RobotState
    sent_s: float
    speed: float  # of the policy's time


@dataclass
class _Ending:
    """A goal on its way to its one terminal result."""

    code: Code
    message: str
    since_s: float
    replaced_s: float = math.inf  # stamp at which a braking chunk replaced the plan; -inf when no plan is in force


class Agent:
    """See the module. `prefix` makes trace ids unique across restarts; give it something random."""

    def __init__(
        self, prefix: str, config: AgentConfig = AgentConfig(), executor: ExecutorConfig = ExecutorConfig(),
        plan: PlannerConfig = PlannerConfig(),
    ):
        self.config, self._executor_config, self._plan_config = config, executor, plan
        self.counters: Counter[str] = Counter()
        self._counters_before: Counter[str] = Counter()  # when the goal began
        self._prefix, self._number = prefix, 0
        self._goal: Goal | None = None
        self._early_cancels: deque[str] = deque(maxlen=64)
        self._executor: Executor | None = None
        self._ending: _Ending | None = None
        self._token = 0
        self._pending: _Pending | None = None
        self._state: RobotState | None = None
        self._state_arrived_s = -math.inf
        self._next_tick_s = -math.inf
        self._last_reply_s = -math.inf  # stamp of the last usable reply
        self._last_sent_s = -math.inf  # stamp of the newest state when the last chunk was sent
        self._standing: deque[tuple[str, float]] = deque(maxlen=16)  # chunks sent and not refused: trace id, stamp
        self._brake: trajectory.Trajectory | None = None
        self._refused_in_a_row, self._refusal = 0, ""
        self._gripper: Gripper | None = None
        self._gripper_phase: Phase | None = None
        self._gripper_sent_s = -math.inf
        self._used_points: set[int] = set()
        self._single_step = SingleStep()
        self._latencies_s: deque[float] = deque(maxlen=LATENCIES_KEPT)
        self._clear()

    # -- the step ----------------------------------------------------------------------------------------------------
    def step(self, inputs: Inputs) -> Decision:
        """Decide. Never raises: an error inside asks the guard for a stop and ends the goal as INTERNAL."""
        self._clear()
        try:
            self._step(inputs)
        except Exception as error:  # the last line of defence of a pure function: whatever it was, nothing may move on
            self._end_broken(f"{type(error).__name__}: {error}", inputs.now_s)
        return Decision(
            self._chunk, self._grip, self._request, self._feedback(inputs.estimate), tuple(self._results),
            tuple(self._faults), self._stop, self._report, tuple(self._records),
        )

    @property
    def busy(self) -> bool:
        """Whether a goal is active."""
        return self._goal is not None

    def latencies_s(self) -> np.ndarray:
        """Latencies (n,) of the usable policy replies, the newest LATENCIES_KEPT."""
        return np.array(self._latencies_s)

    def _step(self, inputs: Inputs) -> None:
        if inputs.single_step is not None:
            self._single_step.turn(inputs.single_step)
        if inputs.next_step and self._executor is not None:
            self._single_step.grant(self._executor.run.phase)
        new = self._take_state(inputs)
        self._count_verdicts(inputs)
        for goal in inputs.goals:
            self._take_goal(goal, inputs)
        self._take_cancels(inputs)
        if self._goal is None:
            return
        self._watch_guard(inputs)
        if self._ending is not None:
            self._await_rest(inputs, new)
        elif self._executor is not None and self._state is not None:
            self._run(inputs, new)

    # -- goals, cancels, ends ---------------------------------------------------------------------------------------
    def _take_goal(self, goal: Goal, inputs: Inputs) -> None:
        self._record("goal", inputs.now_s, goal_id=goal.goal_id, task=goal.task, max_objects=goal.max_objects)
        at_rest = self._state is not None and self._state.at_rest
        if goal.goal_id in self._early_cancels:  # cancelled before it was accepted: it never starts
            self._early_cancels.remove(goal.goal_id)
            self._result(Result(goal.goal_id, Code.CANCELLED, "cancelled before it began", at_rest), inputs.now_s)
        elif self._goal is not None:
            message = f"goal {self._goal.goal_id} is being executed: cancel it first"
            self._result(Result(goal.goal_id, Code.BUSY, message, at_rest), inputs.now_s)
        elif goal.task not in planner.TASKS:
            message = f"task {goal.task[:64]!r}: expected one of {', '.join(planner.TASKS)}"
            self._result(Result(goal.goal_id, Code.UNKNOWN_TASK, message, at_rest), inputs.now_s)
        elif not self._armed(inputs.now_s):
            mode = self._state.mode.value if self._state else "no state from the guard"
            causes = "; ".join(self._state.causes) if self._state else ""
            message = f"not armed for AUTO ({mode}{': ' + causes if causes else ''}): re-arm first"
            self._result(Result(goal.goal_id, Code.NOT_ARMED, message, at_rest), inputs.now_s)
        else:
            state = self._state
            if state.token != self._token:  # a new arming: no plan of before holds, the guard's clock may be another
                self._last_sent_s = -math.inf
                self._standing.clear()
            self._goal, self._token, self._ending = goal, state.token, None
            if len(self._used_points) >= planner.RELEASE_POINTS:
                self._used_points.clear()
            self._executor = Executor(
                self._executor_config, self._plan_config, state, goal.max_objects, self._used_points
            )
            self._single_step.begin()
            self._counters_before = Counter(self.counters)
            self._drop_commands(state.stamp_s)

    def _take_cancels(self, inputs: Inputs) -> None:
        for goal_id in inputs.cancels:
            if self._goal is not None and goal_id == self._goal.goal_id:
                if self._ending is None:
                    self._end(Code.CANCELLED, "cancelled", inputs.now_s)
            elif goal_id not in self._early_cancels:
                self._early_cancels.append(goal_id)

    def _end(self, code: Code, message: str, now_s: float) -> None:
        """Begin the end of the goal: drop every command and wait for rest."""
        stamp_s = self._state.stamp_s if self._state else 0.0
        idle = stamp_s - self._last_sent_s > PLAN_ENDED_S
        self._ending = _Ending(code, message, now_s, -math.inf if idle else math.inf)
        self._drop_commands(stamp_s)

    def _end_broken(self, error: str, now_s: float) -> None:
        """An error inside: ask for a stop and end the goal, within the limit of rest even when each step fails anew."""
        self._raise("internal_error", now_s, error)
        self._stop, self._chunk = f"agent: internal error: {error}", None
        if self._goal is None:
            return
        since_s = self._ending.since_s if self._ending is not None else now_s
        self._end(Code.INTERNAL, f"{error}; see the log and the trace", now_s)
        self._ending.since_s = since_s
        if now_s - since_s > self.config.rest_limit_s:
            self._conclude(False, now_s)

    def _await_rest(self, inputs: Inputs, new: bool) -> None:
        """Rest counts when nothing can move any more: disarmed, or the plan in force replaced by braking."""
        state, ending = self._state, self._ending
        fresh = inputs.now_s - self._state_arrived_s <= self.config.state_timeout_s
        still = state is not None and bool(np.abs(state.qd_commanded_rad_s).max() < 0.02)
        armed = self._armed(inputs.now_s) and state.token == self._token
        if new and armed and (ending.replaced_s == math.inf or not still):
            self._send_brake(state)
            if self._chunk is not None:
                ending.replaced_s = min(ending.replaced_s, state.stamp_s)
        settled = not armed or state.stamp_s - ending.replaced_s > REPLACED_S
        if new and fresh and settled and state.at_rest and still:
            self._conclude(True, inputs.now_s)
        elif inputs.now_s - ending.since_s > self.config.rest_limit_s:
            self._raise("rest_unknown", inputs.now_s, f"no rest measured within {self.config.rest_limit_s:.1f} s")
            self._conclude(False, inputs.now_s)

    def _conclude(self, at_rest: bool, now_s: float) -> None:
        executor, ending = self._executor, self._ending
        result = Result(
            self._goal.goal_id, ending.code, ending.message, at_rest,
            executor.run.placed if executor else 0, executor.attempted if executor else 0, self._statistics(),
        )
        self._goal = self._ending = self._executor = None
        self._result(result, now_s)

    def _result(self, result: Result, now_s: float) -> None:
        self._results.append(result)
        self.counters[f"result_{result.code.name.lower()}"] += 1
        self._record("result", now_s, goal_id=result.goal_id, code=result.code.name, message=result.message,
                     at_rest=result.at_rest, placed=result.placed)

    # -- the guard ---------------------------------------------------------------------------------------------------
    def _take_state(self, inputs: Inputs) -> bool:
        """Whether a new valid state came."""
        state = inputs.state
        if state is None or (self._state is not None and state is self._state):
            return False
        numbers = np.concatenate([
            state.q_rad, state.qd_rad_s, state.q_commanded_rad, state.qd_commanded_rad_s,
            [state.stamp_s, state.gripper_width_m, state.gripper_commanded_m],
        ])
        if numbers.shape != (4 * ur5.DOF + 3,) or not np.isfinite(numbers).all():
            self._raise("state_invalid", inputs.now_s, f"state {state.seq}: not finite or of the wrong shape")
            return False
        old = self._state
        if old is not None and state.stamp_s <= old.stamp_s and state.token == old.token:
            self.counters["state_out_of_order"] += 1
            return False
        self._state, self._state_arrived_s = state, inputs.now_s
        return True

    def _armed(self, now_s: float) -> bool:
        fresh = now_s - self._state_arrived_s <= self.config.state_timeout_s
        return self._state is not None and fresh and self._state.mode is Mode.ARMED_AUTO

    def _watch_guard(self, inputs: Inputs) -> None:
        """Highest level first: a goal does not outlive the arming under which it began."""
        if self._ending is not None:
            return
        state, silence_s = self._state, inputs.now_s - self._state_arrived_s
        if silence_s > self.config.state_timeout_s:
            self._raise("guard_silent", inputs.now_s, f"no state for {silence_s * 1e3:.0f} ms")
            self._end(Code.STOPPED, "no state from the guard: check guard and guard_node", inputs.now_s)
        elif state.mode is not Mode.ARMED_AUTO or state.token != self._token:
            lost = inputs.estimate is not None and inputs.estimate.mode is EstimateMode.LOST
            code = Code.PERCEPTION_LOST if lost else Code.STOPPED
            causes = "; ".join(state.causes) or state.mode.value
            self._raise("disarmed", inputs.now_s, causes)
            self._end(code, f"stopped ({causes}); {self._snapshot()}; re-arm, then send the goal again", inputs.now_s)

    def _snapshot(self) -> str:
        """What was in progress, for people; never resumed by itself."""
        run = self._executor.run
        object_id = run.pick.object_id if run.pick else -1
        hand = "holding an object" if run.place else "hand empty"
        return f"was in {run.phase.value}, object {object_id}, {hand}, {run.placed} placed"

    def _count_verdicts(self, inputs: Inputs) -> None:
        for verdict in inputs.verdicts:
            self._record("verdict", inputs.now_s, trace_id=verdict.trace_id, accepted=verdict.accepted,
                         reason=verdict.reason, detail=verdict.detail)
            if verdict.trace_id.startswith(f"{self._prefix}-g"):
                self.counters["gripper_refused"] += not verdict.accepted  # repeated by itself until it takes
            elif not verdict.trace_id.startswith(f"{self._prefix}-c"):
                self.counters["verdicts_of_others"] += 1  # a person's chunks, or those of this process's predecessor
            elif verdict.accepted:
                self._refused_in_a_row = 0
            else:
                self._standing = deque((s for s in self._standing if s[0] != verdict.trace_id), maxlen=16)
                self._refused_in_a_row, self._refusal = self._refused_in_a_row + 1, verdict.detail
                self.counters[f"refused_{verdict.reason if verdict.reason in REASONS else 'otherwise'}"] += 1

    # -- running -----------------------------------------------------------------------------------------------------
    def _run(self, inputs: Inputs, new: bool) -> None:
        executor, state = self._executor, self._state
        before = executor.run.phase
        failed = len(executor.run.failures)
        if new:
            executor.on_state(state)
        if self._refused_in_a_row >= self.config.refusals_max:
            self._refused_in_a_row = 0
            executor.fail("chunks_refused", state, self._refusal)
        if inputs.policy_reply is not None:
            self._take_reply(inputs.policy_reply, inputs.now_s)
        self._expire_policy(inputs.now_s)
        if new and (state.stamp_s >= self._next_tick_s or executor.run.phase is not before):
            self._next_tick_s = max(self._next_tick_s + PERIOD_S, state.stamp_s + PERIOD_S / 2)
            self._tick(inputs)
        elif executor.run.phase is not before:  # granted by a reply: the next phase begins at once
            self._tick(inputs)
        self._keep_braking(new)
        self._repeat_gripper()
        self._note_changes(before, failed, inputs)
        if executor.finished:
            self._end(executor.run.code, executor.run.message, inputs.now_s)
            self._await_rest(inputs, True)

    def _tick(self, inputs: Inputs) -> None:
        executor, state = self._executor, self._state
        if self._single_step.may_run(executor.run.phase):
            motion = executor.tick(state, inputs.estimate)
            if executor.finished:
                return  # the goal ends now, and its end brakes by itself
            if not self._single_step.waits_before(executor.run.phase):
                self._apply(motion, inputs)
                return
        # the operator has not said "next": stand, with nothing of the phase begun and its clock stopped
        executor.restart_phase(state)
        self._pending = self._gripper = None
        self._last_reply_s = state.stamp_s
        if np.abs(state.qd_commanded_rad_s).max() > 1e-3:
            self._send_brake(state)
        else:
            self._brake = None

    def _apply(self, motion: Motion, inputs: Inputs) -> None:
        state = self._state
        if self._executor.run.phase is not self._gripper_phase:
            self._gripper, self._gripper_phase = None, self._executor.run.phase  # no command outlives its phase
        if motion.gripper_m is not None:
            self._gripper = Gripper(state.token, motion.gripper_m, self._trace_id("g"))
            self._gripper_sent_s = -math.inf
        if motion.waypoints_rad is not None:
            self._pending = None  # its reply would answer an older state than this chunk
            self._brake = None
            self._send(motion.waypoints_rad, state, "planner")
        elif motion.policy_target is not None:
            if self._pending is not None:  # a whole period without a reply: it could only be late
                self._raise("policy_timeout", inputs.now_s, self._pending.request.observation_id)
            self._ask(motion, inputs)

    def _ask(self, motion: Motion, inputs: Inputs) -> None:
        state = self._state
        observation = policy_io.observation(  # in the policy's time, as its way-points are
            motion.policy_target, state.q_commanded_rad, state.qd_commanded_rad_s / motion.speed, state.gripper_width_m,
            state.gripper_commanded_m < 0.02,
        )
        seen = inputs.estimate.observation_id if inputs.estimate else ""
        request = PolicyRequest(f"{seen}/{state.seq}", observation, self.config.policy_deadline_s)
        self._pending = _Pending(request, state, inputs.now_s, motion.speed)
        self._request = request
        self.counters["policy_calls"] += 1
        self._record("request", inputs.now_s, observation_id=request.observation_id, observation=observation,
                     state_seq=state.seq)

    def _take_reply(self, reply: PolicyReply, now_s: float) -> None:
        pending = self._pending
        if pending is None or reply.observation_id != pending.request.observation_id:
            self._raise("policy_reply_foreign", now_s, reply.observation_id)
            return
        self._pending = None
        waited_s = now_s - pending.sent_s
        if reply.chunk is None or waited_s > self.config.policy_expiry_s:
            self._raise("policy_timeout", now_s, reply.error or f"reply after {waited_s * 1e3:.0f} ms")
            return
        actions = np.asarray(reply.chunk.actions, dtype=float)
        wrong = self._wrong_actions(actions)
        if wrong:
            self._raise("policy_output_invalid", now_s, wrong)
            return
        self.counters[f"served_{reply.chunk.served_by}"] += 1
        self._latencies_s.append(reply.chunk.latency_s)
        self._last_reply_s = self._state.stamp_s
        self._record("reply", now_s, observation_id=reply.observation_id, served_by=reply.chunk.served_by,
                     latency_s=reply.chunk.latency_s, actions=actions)
        phase = self._executor.run.phase
        self._executor.on_actions(actions, self._state)
        if self._executor.run.phase is not phase or phase not in POLICY_PHASES:
            return  # a granted transition takes over: the next phase brakes
        try:
            waypoints = policy_io.joint_waypoints(actions, pending.state.q_commanded_rad)
        except KinematicsError as error:
            self._executor.fail("path_infeasible", self._state, str(error))
            return
        self._brake = None
        self._send(waypoints, pending.state, "policy", reply.observation_id, PERIOD_S / pending.speed)

    def _wrong_actions(self, actions: np.ndarray) -> str:
        """Why a reply's actions cannot be used; empty when they can. Refused, never clipped."""
        if actions.shape != (HORIZON, ACTION_DIM):
            return f"actions of shape {actions.shape}, expected {(HORIZON, ACTION_DIM)}"
        largest = np.abs(actions[:, :-1]).max()
        if not (np.isfinite(actions).all() and largest <= self.config.action_max):
            return f"largest action {largest:.3f}, limit {self.config.action_max}"
        return ""

    def _expire_policy(self, now_s: float) -> None:
        executor, state = self._executor, self._state
        if self._pending is not None and now_s - self._pending.sent_s > self.config.policy_expiry_s:
            self._raise("policy_timeout", now_s, self._pending.request.observation_id)
            self._pending = None
        if executor.run.phase not in POLICY_PHASES:
            self._pending = None
            self._last_reply_s = state.stamp_s
        elif state.stamp_s - self._last_reply_s > self.config.policy_outage_s:
            self._last_reply_s = state.stamp_s
            executor.fail("policy_unavailable", state, f"no usable reply for {self.config.policy_outage_s:.1f} s")

    def _keep_braking(self, new: bool) -> None:
        """A policy phase without replies, or with refused ones, brakes by itself before the guard must."""
        state = self._state
        if not new or self._executor.run.phase not in POLICY_PHASES or self._chunk is not None:
            return
        moving = bool(np.abs(state.qd_commanded_rad_s).max() > 0.02)
        standing_s = self._standing[-1][1] if self._standing else -math.inf
        if moving and state.stamp_s - standing_s > BRAKE_AFTER_S:
            self._send_brake(state)

    def _send_brake(self, state: RobotState) -> None:
        if self._brake is None:
            self._brake = trajectory.brake(state.stamp_s, state.q_commanded_rad, state.qd_commanded_rad_s, 4.0)
            self.counters["braked"] += 1
        if state.stamp_s - self._last_sent_s >= PERIOD_S - 0.005:
            self._pending = None  # its reply would answer an older state than this chunk
            self._send(self._brake.waypoints(state.stamp_s, 12, PERIOD_S), state, "planner")

    def _repeat_gripper(self) -> None:
        state, command = self._state, self._gripper
        if command is None:
            return
        if abs(state.gripper_commanded_m - command.width_m) < 0.005:
            self._gripper = None
        elif state.stamp_s - self._gripper_sent_s > self.config.resend_s:
            self._gripper_sent_s, self._grip = state.stamp_s, command
            self._record("gripper", state.stamp_s, trace_id=command.trace_id, width_m=command.width_m)

    def _send(
        self, waypoints_rad: np.ndarray, state: RobotState, source: str, observation_id: str = "",
        period_s: float = PERIOD_S,
    ) -> None:
        trace_id = self._trace_id("c")
        self._chunk = JointChunk(
            state.token, state.seq, state.stamp_s, trace_id, source, ur5.JOINT_NAMES, period_s, waypoints_rad
        )
        self._last_sent_s = self._state.stamp_s
        self._standing.append((trace_id, self._state.stamp_s))
        self.counters[f"chunks_{source}"] += 1
        self._record("chunk", state.stamp_s, trace_id=trace_id, observation_id=observation_id, source=source,
                     phase=self._executor.run.phase.value, state_seq=state.seq, q_last_rad=waypoints_rad[-1])

    # -- parts -------------------------------------------------------------------------------------------------------
    def _drop_commands(self, stamp_s: float) -> None:
        self._pending = self._brake = self._gripper = self._chunk = self._grip = self._request = None
        self._refused_in_a_row = 0
        self._last_reply_s = stamp_s
        self._next_tick_s = -math.inf

    def _clear(self) -> None:
        self._chunk: JointChunk | None = None
        self._grip: Gripper | None = None
        self._request: PolicyRequest | None = None
        self._results: list[Result] = []
        self._faults: list = []
        self._records: list[Record] = []
        self._stop, self._report = "", None

    def _note_changes(self, before: Phase, failed: int, inputs: Inputs) -> None:
        run, stamp = self._executor.run, self._state.stamp_s
        for failure in run.failures[failed:]:
            self._raise(failure.fault, stamp, f"{failure.phase}: {failure.detail}; next: {failure.recovery}")
            if failure.recovery == "diagnose":
                self._raise("repeated_failure", stamp, run.message)
                self._report = diagnosis.diagnose(run.failures, run.message, self._evidence(inputs))
        if run.phase is before:
            return
        self._record("phase", stamp, phase=run.phase.value, before=before.value,
                     object_id=run.pick.object_id if run.pick else -1, detail=run.last_grip)
        if run.phase is Phase.BLIND:
            self._raise("perception_lost", stamp, inputs.estimate.reason if inputs.estimate else "no estimate")

    def _evidence(self, inputs: Inputs) -> diagnosis.Evidence:
        executor = self._executor
        return diagnosis.Evidence(
            self._state, inputs.estimate, self.counters - self._counters_before,
            executor.run.placed, executor.attempted, self._goal.task, self._goal.goal_id,
            (self.latencies_s() * 1e3)[-1000:],
        )

    def _raise(self, name: str, stamp_s: float, detail: str = "") -> None:
        self._faults.append(faults.fault(name, stamp_s, detail))
        self.counters[f"fault_{name}"] += 1
        self._record("fault", stamp_s, name=name, detail=detail, level=int(faults.level(name)))

    def _record(self, kind: str, stamp_s: float, **fields: object) -> None:
        self._records.append(Record(kind, stamp_s, fields))

    def _trace_id(self, kind: str) -> str:
        self._number += 1
        return f"{self._prefix}-{kind}{self._number}"

    def _feedback(self, estimate: Estimate | None) -> Feedback | None:
        if self._goal is None or self._executor is None:
            return None
        run = self._executor.run
        phase = "stopping" if self._ending is not None else run.phase.value
        detail = self._ending.message if self._ending is not None else run.last_grip
        if self._ending is None and self._single_step.waits_before(run.phase):
            detail = f"waiting for the operator before {phase}"
        if not detail and estimate is not None and estimate.mode is not EstimateMode.NOMINAL:
            detail = f"estimate {estimate.mode.name.lower()}: {estimate.reason}"
        return Feedback(phase, run.pick.object_id if run.pick else -1, run.placed, self._executor.attempted,
                        self._executor.level, detail)

    def _statistics(self) -> dict[str, object]:
        """Calls, latencies and counters are totals of this process; attempts and failures are those of the goal."""
        run, counters = self._executor.run, self.counters
        latency_ms = self.latencies_s() * 1e3
        served = {name.removeprefix("served_"): n for name, n in counters.items() if name.startswith("served_")}
        unanswered = counters["fault_policy_timeout"] + counters["fault_policy_output_invalid"]
        percentiles = {"p50": 50, "p99": 99, "max": 100} if len(latency_ms) else {}
        return {
            "policy_calls": sum(served.values()) + unanswered,
            "served_by": served,
            "policy_latency_ms": {n: round(float(np.percentile(latency_ms, q)), 3) for n, q in percentiles.items()},
            "attempts": {str(k): v for k, v in run.attempts.items()},
            "failures": [f"{f.fault} in {f.phase}: {f.detail}; next: {f.recovery}" for f in run.failures],
            "counters": dict(counters),
        }
