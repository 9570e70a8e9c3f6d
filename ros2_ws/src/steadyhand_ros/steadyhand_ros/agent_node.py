"""ROS shell of the agent: the action, the topics and the policy's thread round `steadyhand.agent`. It decides nothing.

`Agent.step` runs under one lock, in whichever thread brings something new: the executor's (states, goals, cancels) or
the policy worker's (replies). No callback waits for a server, a file or a goal.
"""
from __future__ import annotations

import json
import secrets
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.task import Future
from std_msgs.msg import String
from std_srvs.srv import SetBool, Trigger
from steadyhand_interfaces import msg
from steadyhand_interfaces.action import ExecuteTask

from steadyhand import health
from steadyhand.agent import Agent, AgentConfig
from steadyhand.config import check_ranges, described
from steadyhand.errors import ConfigError, ProtocolError
from steadyhand.guard_state import ARMED
from steadyhand.phases import ExecutorConfig
from steadyhand.planner import PlannerConfig
from steadyhand.slot import current_slot
from steadyhand.task import Code, Decision, Feedback, Goal, Inputs, PolicyReply, Result
from steadyhand.trace import Record
from steadyhand.types import Estimate, EstimateMode, RobotState, Verdict
from steadyhand_firmware_bridge import storage
from steadyhand_firmware_bridge.storage import Store
from steadyhand_ros import conversions, qos
from steadyhand_ros.fault_publisher import FaultPublisher
from steadyhand_ros.node import ERROR, OK, WARN, SteadyhandNode, request_realtime, run
from steadyhand_ros.params import declare
from steadyhand_policies.fallback import Statistics
from steadyhand_policies.release import Release
from steadyhand_policies.shadow import Disagreement
from steadyhand_ros.policy_worker import EpisodeKeeper, PolicyServingConfig, PolicyWorker, open_policy
from steadyhand_ros.report_writer import ReportWriter
from steadyhand_ros.trace_writer import TraceWriter
from steadyhand_ros.webhook import Webhook, WebhookConfig

REALTIME_PRIORITY = 5  # below guard and shell: 100 ms without a chunk stop a moving arm, also on a busy machine
HEARTBEAT = "agent"  # input name that the guard requires for AUTO
TIMER_S, HEARTBEAT_S, FEEDBACK_S = 0.05, 0.02, 0.2
SILENT_S = 1.0  # without a state or an estimate for so long: its sender is not well


@dataclass(frozen=True)
class AgentNodeConfig:
    """Which policy, and whether a Triton server is asked for it."""

    model_repository: str = described("", "folder of the models")
    model: str = described("pick_place", "model name in the repository")
    use_triton: bool = described(True, "ask a Triton server; the model in this process is the fallback")
    triton_url: str = described("", "host:port of the server's gRPC endpoint; empty: this slot's")
    estimate_timeout_s: float = described(0.3, "silence of the estimator: there is no estimate", "s", 0.05, 5.0)
    trace: bool = described(True, "write the trace of requests, replies, chunks and verdicts")

    def __post_init__(self) -> None:
        check_ranges(self)


class AgentNode(SteadyhandNode):
    """See the module."""

    def __init__(self):
        super().__init__("agent_node")
        self._lock = threading.RLock()
        self._agent: Agent | None = None
        self._policy = self._server = self._worker = self._trace = self._reports = self._episodes = None
        self._state: RobotState | None = None
        self._state_arrived_s = 0.0
        self._estimate: Estimate | None = None
        self._estimate_arrived_s = 0.0
        self._verdicts: list[Verdict] = []
        self._goals: dict[str, tuple[object, Future]] = {}
        self._feedback: tuple[Feedback | None, float] = (None, 0.0)
        self._heartbeat_s = 0.0
        self._malformed = 0
        self._health = {name: health.Component(name) for name in ("guard", "estimate", "policy", "recording")}

    # -- lifecycle ---------------------------------------------------------------------------------------------------
    def build(self) -> None:
        self.config = declare(self, AgentNodeConfig)
        if not self.config.model_repository:
            raise ConfigError("model_repository: give the folder of the models")
        self._webhook_config = declare(self, WebhookConfig, "webhook")
        self._storage = storage.load()
        self._prefix = secrets.token_hex(3)
        self._agent = Agent(
            self._prefix, declare(self, AgentConfig, "agent"), declare(self, ExecutorConfig, "executor"),
            declare(self, PlannerConfig, "planner"),
        )
        c = self.config
        self._policy = open_policy(
            Path(c.model_repository), c.model, c.use_triton, c.triton_url, declare(self, PolicyServingConfig, "policy"),
            self.get_logger().warning, self._on_disagreement,
        )
        self._chunk_pub = self.create_publisher(msg.JointChunk, "joint_chunk", qos.COMMAND)
        self._gripper_pub = self.create_publisher(msg.GripperCommand, "gripper_command", qos.COMMAND)
        self._heartbeat_pub = self.create_publisher(msg.InputHeartbeat, "input_heartbeat", qos.EVENTS)
        self._stop_pub = self.create_publisher(String, "operator_stop", qos.COMMAND)
        self._faults = FaultPublisher(self)
        self._entities = [
            self.create_subscription(msg.SafetyState, "safety_state", self._on_state, qos.NEWEST),
            self.create_subscription(msg.StateEstimate, "state_estimate", self._on_estimate, qos.NEWEST),
            self.create_subscription(msg.Verdict, "chunk_verdict", self._on_verdict, qos.COMMAND),
            self.create_timer(TIMER_S, self._on_timer),
            self.create_service(SetBool, "single_step", self._on_single_step),
            self.create_service(Trigger, "next_step", self._on_next_step),
        ]
        self._server = ActionServer(
            self, ExecuteTask, "execute_task", self._execute, goal_callback=self._on_goal,
            cancel_callback=self._on_cancel,
        )

    def open(self) -> None:
        out = current_slot().out_dir
        if self.config.trace:
            self._trace = TraceWriter(
                Store(out, "trace", self._storage), Store(out, "stops", self._storage, bulky=False),
                f"agent-{self._prefix}", out / "log", self.get_logger().warning,
            )
        webhook = Webhook(self._webhook_config) if self._webhook_config.url else None
        self._reports = ReportWriter(Store(out, "reports", self._storage, bulky=False), self._prefix, webhook)
        self._episodes = EpisodeKeeper(self._policy)
        self._worker = PolicyWorker(self._policy, self._on_reply)

    def close(self) -> None:
        with self._lock:
            worker, trace, reports = self._worker, self._trace, self._reports
            self._worker = self._trace = self._reports = None
            for goal_id in list(self._goals):
                self._resolve(Result(goal_id, Code.INTERNAL, "agent_node was deactivated", False))
        if worker is not None:
            worker.close()
        for writer in (trace, reports):
            if writer is not None:
                writer.close()

    def tear_down(self) -> None:
        if self._policy is not None:
            self._policy.close()
            self._policy = None
        if self._server is not None:
            self._server.destroy()
            self._server = None

    # -- inputs ------------------------------------------------------------------------------------------------------
    def _on_state(self, m: msg.SafetyState) -> None:
        try:
            state = conversions.robot_state(m)
        except ProtocolError as error:
            self._malformed += 1
            self.get_logger().warning(str(error), throttle_duration_sec=1.0)
            return
        with self._lock:
            before, self._state, self._state_arrived_s = self._state, state, time.monotonic()
            if self._trace is not None and before is not None and before.mode in ARMED and state.mode not in ARMED:
                self._trace.stop(state.causes[0] if state.causes else "", stop_record(state))
            self._step()

    def _on_estimate(self, m: msg.StateEstimate) -> None:
        try:
            estimate = conversions.estimate(m)
        except ProtocolError:
            self._malformed += 1
            return
        with self._lock:
            self._estimate, self._estimate_arrived_s = estimate, time.monotonic()

    def _on_verdict(self, m: msg.Verdict) -> None:
        with self._lock:
            self._verdicts.append(conversions.verdict(m))

    def _on_reply(self, reply: PolicyReply) -> None:
        with self._lock:
            self._step(policy_reply=reply)

    def _on_disagreement(self, found: Disagreement) -> None:
        """From the shadow's thread: it goes into the trace and nowhere else."""
        trace = self._trace
        if trace is not None:
            trace.put(Record("shadow", time.monotonic(), {
                "observation_id": found.observation_id, "largest": found.largest, "votes": found.votes,
                "error": found.error,
            }))

    def _on_timer(self) -> None:
        """Time passes without states too: silence of the guard must end a goal."""
        with self._lock:
            self._step()

    def _on_single_step(self, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        with self._lock:
            self._step(single_step=request.data)
        response.success = self.active
        said = f"single-step {'on' if request.data else 'off'}"
        response.message = said if self.active else "agent_node is not active"
        return response

    def _on_next_step(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        with self._lock:
            self._step(next_step=True)
            last, _ = self._feedback
        response.success = self.active
        response.message = f"{last.phase} {last.detail}" if last else "no task is active"
        return response

    # -- the action --------------------------------------------------------------------------------------------------
    def _on_goal(self, request) -> GoalResponse:
        """Accepted whenever the node is active: what cannot be done ends in a result that says why."""
        return GoalResponse.ACCEPT if self.active else GoalResponse.REJECT

    def _on_cancel(self, handle) -> CancelResponse:
        with self._lock:
            self._step(cancels=(_goal_id(handle),))
        return CancelResponse.ACCEPT

    async def _execute(self, handle) -> ExecuteTask.Result:
        goal_id, done = _goal_id(handle), Future(executor=self.executor)
        with self._lock:
            self._goals[goal_id] = (handle, done)
            if self._worker is None:
                self._resolve(Result(goal_id, Code.INTERNAL, "agent_node is not active", False))
            else:
                self._step(goals=(Goal(goal_id, handle.request.task, handle.request.max_objects),))
        result: Result = await done
        if result.code is Code.OK:
            handle.succeed()
        elif result.code is Code.CANCELLED and handle.is_cancel_requested:
            handle.canceled()
        else:
            handle.abort()
        return ExecuteTask.Result(
            code=int(result.code), message=result.message, at_rest=result.at_rest, placed=result.placed,
            attempted=result.attempted, statistics_json=json.dumps(result.statistics),
        )

    def _resolve(self, result: Result) -> None:
        _, done = self._goals.pop(result.goal_id, (None, None))
        if done is not None:
            done.set_result(result)

    # -- the step ----------------------------------------------------------------------------------------------------
    def _step(self, policy_reply=None, goals=(), cancels=(), single_step=None, next_step=False) -> None:
        """One step of the agent and everything it decided; the lock is held."""
        if self._worker is None:
            return
        now_s = time.monotonic()
        known = self._estimate is not None and now_s - self._estimate_arrived_s <= self.config.estimate_timeout_s
        verdicts, self._verdicts = tuple(self._verdicts), []
        decision = self._agent.step(Inputs(
            now_s, self._state, self._estimate if known else None, policy_reply, verdicts, goals, cancels,
            single_step, next_step,
        ))
        self._carry_out(decision, now_s)
        if now_s - self._heartbeat_s >= HEARTBEAT_S:
            self._heartbeat_s = now_s
            self._heartbeat_pub.publish(msg.InputHeartbeat(name=HEARTBEAT, ok=True))

    def _carry_out(self, decision: Decision, now_s: float) -> None:
        if decision.stop:
            self._stop_pub.publish(String(data=decision.stop))
        if decision.chunk is not None:
            self._chunk_pub.publish(conversions.joint_chunk_msg(decision.chunk))
        if decision.gripper is not None:
            g = decision.gripper
            self._gripper_pub.publish(msg.GripperCommand(token=g.token, width=float(g.width_m), trace_id=g.trace_id))
        said = self._episodes.take(decision.records, now_s)  # before the request: it names the version that answers
        if decision.policy_request is not None:
            self._worker.ask(decision.policy_request)
        self._publish_feedback(decision.feedback, now_s)
        self._faults.publish(decision.faults, now_s)
        if self._trace is not None:
            for record in (*decision.records, *said):
                self._trace.put(record)
        if decision.report is not None and self._reports is not None:
            self.get_logger().error(f"task given up; report: {self._reports.put(decision.report)}")
        for result in decision.results:
            self.get_logger().info(f"goal {result.goal_id[:8]}: {result.code.name}: {result.message}")
            self._resolve(result)

    def _publish_feedback(self, feedback: Feedback | None, now_s: float) -> None:
        last, last_s = self._feedback
        if feedback is None or not self._goals or (feedback == last and now_s - last_s < FEEDBACK_S):
            return
        self._feedback = (feedback, now_s)
        m = ExecuteTask.Feedback(
            phase=feedback.phase, object_id=feedback.object_id, placed=feedback.placed, attempted=feedback.attempted,
            level=feedback.level, detail=feedback.detail,
        )
        handle, _ = next(iter(self._goals.values()))  # one goal is executed at a time; others are answered BUSY at once
        if handle.is_active:
            handle.publish_feedback(m)

    # -- health ------------------------------------------------------------------------------------------------------
    def diagnostics(self):
        if not self.active:
            return WARN, "inactive", {}
        now_s, parts = time.monotonic(), self._health
        with self._lock:
            state, estimate, counters = self._state, self._estimate, dict(self._agent.counters)
        statistics = self._policy.statistics()
        if state is not None and now_s - self._state_arrived_s < SILENT_S:
            parts["guard"].report(health.Level.OK, state.mode.value, now_s)
        else:
            parts["guard"].report(health.Level.ERROR, "no state from guard_node", now_s)
        levels = {EstimateMode.NOMINAL: health.Level.OK, EstimateMode.DEGRADED: health.Level.WARN}
        if estimate is not None and now_s - self._estimate_arrived_s < SILENT_S:
            parts["estimate"].report(levels.get(estimate.mode, health.Level.ERROR), estimate.reason, now_s)
        troubles = policy_troubles(self.config.use_triton, statistics, self._policy.trouble)
        parts["policy"].report(health.Level.WARN if troubles else health.Level.OK, "; ".join(troubles), now_s)
        paused = self._trace.store.why if self._trace is not None else ""
        parts["recording"].report(health.Level.WARN if paused else health.Level.OK, paused, now_s)
        worst = max(parts.values(), key=lambda c: c.level(now_s))
        level = {health.Level.OK: OK, health.Level.WARN: WARN}.get(worst.level(now_s), ERROR)
        values = counters | {
            "policy_p50_ms": statistics.p50_ms, "policy_p99_ms": statistics.p99_ms, "malformed": self._malformed,
            "policy_version": self._policy.pin.version.number, "policy_provider": statistics.local_provider,
            "policy_delay_ms": statistics.delay_ms, "policy_steps_over": statistics.steps_over,
            "policy_too_slow": statistics.too_slow, "policy_seam_largest": statistics.seam_largest,
            "policy_release": release_said(self._policy.release()),
            **{f"policy_episodes_{name}": n for name, n in self._episodes.counts.items()},
            "requests_overtaken": self._worker.overtaken, "reports_lost": self._reports.dropped + self._reports.errors,
        }
        shadow = self._policy.shadow_statistics()
        if shadow is not None:
            values |= {
                "shadow_version": shadow.version, "shadow_compared": shadow.compared, "shadow_refused": shadow.refused,
                "shadow_differing": shadow.differing, "shadow_vote_differs": shadow.vote_differs,
            }
        if self._trace is not None:
            trace = self._trace
            values |= {
                "trace_dropped": trace.buffer.dropped, "trace_errors": trace.errors, "stops_kept": trace.evidence,
                "stops_lost": trace.stops_lost,
                "recording": paused or "on", "recording_pauses": trace.store.pauses,
            }
        if self._reports.webhook is not None:
            values |= {f"webhook_{name}": n for name, n in self._reports.webhook.counters.items()}
            values["webhook_error"] = self._reports.webhook.last_error
        return level, "ready" if level == OK else f"{worst.name}: {worst.message}", values


def policy_troubles(use_triton: bool, statistics: Statistics, release_trouble: str) -> list[str]:
    """What is degraded about the policy, for people; empty when well (I7: a fallback is announced)."""
    troubles = []
    if use_triton and not statistics.primary_healthy:
        troubles.append(f"served locally: {statistics.primary_cause}")
    if statistics.local_trouble:
        troubles.append(statistics.local_trouble)
    if release_trouble:
        troubles.append(f"release: {release_trouble}")
    return troubles


def release_said(release: Release) -> str:
    """Which versions serve, in a line."""
    if release.candidate is None:
        return f"stable {release.stable}"
    stage = f"stage {release.stage + 1}"
    return f"stable {release.stable}, candidate {release.candidate} in {stage}: {release.candidate_counts}"


def stop_record(state: RobotState) -> Record:
    """What is kept of the state that says that the arm was stopped."""
    return Record("stop", state.stamp_s, {
        "mode": state.mode.value, "causes": state.causes, "at_rest": state.at_rest, "seq": state.seq,
        "token": state.token, "q_rad": state.q_rad, "qd_rad_s": state.qd_rad_s,
        "q_commanded_rad": state.q_commanded_rad, "gripper_width_m": state.gripper_width_m,
    })


def _goal_id(handle) -> str:
    return bytes(handle.goal_id.uuid).hex()


def main() -> int:
    request_realtime(REALTIME_PRIORITY)
    return run(AgentNode, coroutines=True)


if __name__ == "__main__":
    raise SystemExit(main())
