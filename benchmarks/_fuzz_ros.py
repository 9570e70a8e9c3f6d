"""What `fuzz` throws at the running ROS shell, over DDS: a real graph round an emulated controller, its guard armed.

Guard, shell, estimator, perception, agent and jog run as processes of their own; this process is the publisher. Judged
from outside: a process that ends or has another id is a crash; a stranger at the controller's port writes down every
state package, and any change there of target joints or gripper outputs that no valid command explains is a motion, as
is anything hostile that was accepted. Half of a block meets AUTO, half MANUAL; before, in between and afterwards a
valid command moves the arm. Chunks go out one at a time, so that each is judged and not overtaken by the next.
"""
from __future__ import annotations

import base64
import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.action import ActionClient
from rclpy.serialization import serialize_message
from steadyhand_interfaces.action import ExecuteTask
from steadyhand_interfaces.msg import Verdict

from benchmarks import common
from benchmarks._fuzz_guard import MOVED_RAD, Outcome
from benchmarks._hostile_ros import ACTION, NODES, SERVICES, TOPICS, Input, Shell
from steadyhand.errors import RobotError
from steadyhand.slot import current_slot
from steadyhand_cli.injection import children
from steadyhand_cli.injection.running import RunningGraph
from steadyhand_firmware_bridge import operator
from steadyhand_ros import qos
from steadyhand_ros.launch_xml import ProcessSpec

# Patient, for a busy machine: what is fuzzed is content, not time. Chunks stay fresh until they are judged.
GUARD = {"inputs": {"agent": 5.0}, "shell_timeout_s": 5.0, "command_timeout_s": 2.0, "chunk_age_s": 0.5}
CHECK_EVERY, PROOF_EVERY = 200, 4000  # inputs
ANSWER_S = 5.0  # a verdict or an answer that has not come by then is missing
GAP_S = {"joint_chunk": 0.0, "gripper_command": 0.0015, "camera/image_raw": 0.02}  # least time between two of a topic
OTHER_GAP_S = 0.003
OUTSTANDING = {"gripper_command": 3}  # verdicts; of all others, one
PAUSE_S = 0.0003  # nothing can be sent just now
PATIENCE_S, TRIES = 30.0, 10
SETTLED = 25  # packages at the port without a change
KEPT = 600  # newest inputs, written down when something has gone wrong
# Counters on /diagnostics of what a node heard, and the topics that feed them.
HEARD = {
    ("guard_node", "chunks"): ("joint_chunk",), ("guard_node", "grippers"): ("gripper_command",),
    ("guard_node", "heartbeats"): ("input_heartbeat",),
}


def specs(folder: Path) -> list[ProcessSpec]:
    """The graph of launch/ur5.launch.xml with the jog, without camera and simulated cell; nothing comes back."""
    slot, models = current_slot(), str(common.ROOT / "policies" / "model_repository")
    (folder / "guard.yaml").write_text(json.dumps(GUARD))
    guard = f"steadyhand-guard --robot ur5 --robot-ip {slot.robot_host} --config {folder / 'guard.yaml'}"
    parameters = {
        "perception_node": (("model_repository", models),),
        "agent_node": (("model_repository", models), ("use_triton", "False")),
        "lifecycle_manager_node": (("node_names", f"[{', '.join(NODES)}]"),),
    }
    environment = (("STEADYHAND_OUT", str(folder / "out")),)
    nodes = [
        ProcessSpec(
            name=name, package="steadyhand_ros", executable=name, parameters=parameters.get(name, ()),
            environment=environment,
        )
        for name in (*NODES, "lifecycle_manager_node")
    ]
    return [ProcessSpec(name="guard", command=guard), *nodes]


class Shells:
    """The processes, and what this one hears of them. `close` ends everything."""

    def __init__(self, folder: Path):
        self.folder, host = folder, current_slot().robot_host
        self.graph: RunningGraph | None = None
        self.controller = subprocess.Popen(
            [sys.executable, "-m", "steadyhand_sim.ur_controller", "--host", host],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=children.environment(),
        )
        try:
            common.await_ready(self.controller)
            self.graph = RunningGraph(specs(folder), folder, cable=False, ready_timeout_s=120.0)
            self.graph.__enter__()
            self._connect()
        except BaseException:
            self.close()
            raise

    def _connect(self) -> None:
        node = self.graph.session.node
        self.pubs = {name: node.create_publisher(kind, name, profile) for name, (kind, profile) in TOPICS.items()}
        self.clients = {name: node.create_client(kind, name) for name, kind in SERVICES.items()}
        self.action = ActionClient(node, ExecuteTask, ACTION)
        self.verdicts: deque[Verdict] = deque()
        self.said: dict[str, dict[str, str]] = {}
        self.said_n: Counter[str] = Counter()
        node.create_subscription(Verdict, "chunk_verdict", lambda v: self.verdicts.append(v), 1000)
        node.create_subscription(DiagnosticArray, "/diagnostics", self._on_diagnostics, qos.EVENTS)
        self.until(self._all_found, 60.0, "every topic, service and action to be discovered")
        self.until(lambda: self.said_n["guard_node"], 20.0, "diagnostics")
        self.pids = self.graph.supervisor.pids() | {"controller": self.controller.pid}

    def _all_found(self) -> bool:
        found = all(p.get_subscription_count() for p in self.pubs.values())
        return found and all(c.service_is_ready() for c in self.clients.values()) and self.action.server_is_ready()

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            name = status.name.strip("/")
            self.said[name] = {v.key: v.value for v in status.values}
            self.said_n[name] += 1

    def until(self, wanted: Callable[[], object], timeout_s: float, what: str):
        """The first true value; RobotError when it does not come."""
        return self.graph.until(wanted, timeout_s, what)

    def changed(self) -> list[str]:
        """Processes that ended, or are others now."""
        self.graph.supervisor.poll(time.monotonic())
        now = self.graph.supervisor.pids()
        if self.controller.poll() is None:
            now["controller"] = self.controller.pid
        return [name for name, pid in self.pids.items() if now.get(name) != pid]

    def log_end(self, name: str) -> str:
        """The last lines that a process said."""
        path = self.folder / "log" / f"{name}.log"
        return path.read_text(errors="replace")[-2000:] if path.exists() else ""

    def close(self) -> None:
        """End what was started."""
        if self.graph is not None:
            self.graph.__exit__(None, None, None)
        self.controller.stdin.close()
        try:
            self.controller.wait(5.0)
        except subprocess.TimeoutExpired:
            self.controller.kill()
            self.controller.wait(5.0)
        self.controller.stdout.close()


class ShellTarget:
    """Hostile inputs for the running shell, from a seed."""

    def __init__(self, seed: int):
        self.seed, self.rng, self.outcome = seed, np.random.default_rng(seed), Outcome()
        self.folder = Path(tempfile.mkdtemp(prefix="fuzz-shell-"))
        self.hostile = Shell(self.rng)
        self.newest: deque[tuple[float, Input]] = deque(maxlen=KEPT)
        self.sent_of: Counter[str] = Counter()  # inputs by topic
        self.awaited: dict[str, tuple[float, str]] = {}  # trace id -> when sent, topic
        self.answers: dict[str, tuple[float, object]] = {}  # service -> when sent, future
        self.next_s: dict[str, float] = {}
        self.sign, self.failures, self.proof = 1, 0, None
        try:
            self.shells = Shells(self.folder)
        except BaseException:
            self._keep_logs()
            shutil.rmtree(self.folder, ignore_errors=True)
            raise
        self.graph, self.watcher = self.shells.graph, self.shells.graph.watcher
        self.watcher.monitor.allow_motion(True)  # proofs move the arm; motion is judged at the port

    # -- arming and proofs --------------------------------------------------------------------------------------------
    def arm(self, mode: str) -> None:
        """Stopped, if need be, then armed in this mode; the port's target stands from now on."""
        wanted = {"auto": "ARMED_AUTO", "manual": "ARMED_MANUAL"}[mode]
        if self.watcher.state.mode not in (wanted, "STOPPED"):
            operator.stop("fuzz")
        self.until(lambda: self.watcher.state.mode in (wanted, "STOPPED") and self.watcher.state.at_rest, PATIENCE_S, "rest")
        if self.watcher.state.mode != wanted:
            self.hostile.old_tokens = [*self.hostile.old_tokens[-5:], self.watcher.state.token]
        for _ in range(TRIES):  # a busy machine may stop the arm again at once
            with contextlib.suppress(RobotError):
                self.graph.arm(mode=mode)
                break
        self.mode, self.hostile.state = mode, self.watcher.state
        self.hostile.old_tokens = [t for t in self.hostile.old_tokens if t != self.watcher.state.token]
        self.mark()

    def mark(self) -> None:
        """Where the arm stands: what the port has shown for some packages without any change."""
        begun_s = time.monotonic()

        def settled() -> bool:
            q = self.graph.observer.rows(begun_s)["target_q"]
            return len(q) >= SETTLED and np.ptp(q[-SETTLED:], axis=0).max() <= MOVED_RAD

        self.until(settled, PATIENCE_S, "the target at the controller's port to stand")
        row = self.graph.observer.rows(begun_s)[-1]
        self.since_s, self.q, self.outputs = row["received_s"], row["target_q"], row["actual_digital_output_bits"]

    def until(self, wanted: Callable[[], object], timeout_s: float, what: str):
        """As `Shells.until`, taking verdicts meanwhile."""
        def taken() -> object:
            self.take_answers()
            return wanted()

        return self.shells.until(taken, timeout_s, what)

    def prove(self) -> None:
        """A valid command of this mode moves the target at the port: what was refused met an armed, working gate."""
        self.drain()
        self.check()
        for _ in range(TRIES):
            before = self.q.copy()
            if (self._prove_auto if self.mode == "auto" else self._prove_manual)():
                self.mark()
                if np.abs(self.q - before).max() > 0.01:  # else a busy machine stopped it on its way
                    self.outcome["proofs"] += 1
                    return
            self.outcome["proofs tried again"] += 1
            self.arm(self.mode)
        raise RobotError(f"no valid command moved the arm: {self.proof}; {self.watcher.state}")

    def _resting(self) -> bool:
        state = self.watcher.state
        return not state.mode.startswith("ARMED") or (state.at_rest and state.plan_left_s <= 0.0)

    def _prove_auto(self) -> bool:
        self.hostile.state, self.proof, self.sign = self.watcher.state, None, -self.sign
        joint = int(self.rng.integers(6))
        self.shells.pubs["joint_chunk"].publish(self.hostile.valid_chunk(joint, "proof", 0.03 * self.sign))
        self.until(lambda: self.proof is not None, PATIENCE_S, "a verdict on a valid chunk")
        if not self.proof.accepted:
            return False
        seq = self.watcher.state.seq
        self.until(lambda: self.watcher.state.seq > seq + 60 and self._resting(), PATIENCE_S, "the end of a valid chunk")
        return True

    def _prove_manual(self) -> bool:
        self.sign = -self.sign
        begun, z_m_s = self.watcher.state, 0.05 * self.sign

        def jogged() -> bool:
            moved = np.abs(np.array(self.watcher.state.q_commanded_rad) - begun.q_commanded_rad).max() > 0.02
            self.shells.pubs["jog_twist"].publish(self.hostile.valid_twist(0.0 if moved else z_m_s))
            time.sleep(0.01)
            return (moved and self._resting()) or not self.watcher.state.mode.startswith("ARMED")

        self.until(jogged, PATIENCE_S, "a valid jog")
        return self.watcher.state.mode == begun.mode

    # -- inputs -------------------------------------------------------------------------------------------------------
    def send(self, item: Input) -> None:
        """Publish or ask."""
        now_s = time.monotonic()
        if item.sink in self.shells.clients or item.sink == ACTION:
            if item.sink == ACTION:
                future = self.shells.action.send_goal_async(item.content)
            else:
                future = self.shells.clients[item.sink].call_async(item.content)
            self.answers[item.sink] = (now_s, future)
        else:
            if item.trace_id:
                self.awaited[item.trace_id.strip()] = (now_s, item.sink)
            self.next_s[item.sink] = now_s + GAP_S.get(item.sink, OTHER_GAP_S)
            self.shells.pubs[item.sink].publish(item.content)
            self.sent_of[item.sink] += 1
        self.newest.append((now_s, item))
        self.outcome["messages"] += 1
        # counted as a mutation where it met what it was aimed at: an armed guard
        self.outcome["mutations"] += item.mutation and self.hostile.state.mode.startswith("ARMED")
        self.outcome[f"kind {item.kind}"] += 1

    def free(self, sink: str) -> bool:
        """Whether a way in takes something now: its topic's queue, the verdict before it, the answer before it."""
        if sink in self.answers:
            return False
        outstanding = sum(sink == of for _, of in self.awaited.values())
        return outstanding < OUTSTANDING.get(sink, 1) and time.monotonic() >= self.next_s.get(sink, 0.0)

    def take_answers(self) -> None:
        """Verdicts and answers that have come; what was accepted of hostile ones is a motion."""
        now_s = time.monotonic()
        while self.shells.verdicts:
            verdict = self.shells.verdicts.popleft()
            if verdict.trace_id == "proof":
                self.proof = verdict
            elif verdict.trace_id.startswith("h"):
                awaited = self.awaited.pop(verdict.trace_id.split(" ")[0], None)
                if verdict.accepted:  # however late it is said
                    self.fail("motions", f"accepted: {verdict.trace_id[:40]}")
                elif awaited:
                    self.outcome["refused by verdict"] += 1
                    self.outcome[f"refused {verdict.reason}"] += 1
        for sink, (sent_s, future) in list(self.answers.items()):
            if future.done():
                del self.answers[sink]
                self._judge_answer(sink, future.result())
            elif now_s - sent_s > ANSWER_S:
                del self.answers[sink]
                self.outcome[f"unanswered {sink}"] += 1
        for trace_id, (sent_s, sink) in list(self.awaited.items()):
            if now_s - sent_s > ANSWER_S:
                del self.awaited[trace_id]
                self.outcome[f"without verdict {sink}"] += 1
                self.keep(f"without verdict: {trace_id}")

    def _judge_answer(self, sink: str, answer) -> None:
        self.outcome["answered"] += 1
        if sink == "rearm" and answer.success:
            self.fail("motions", "an arming was accepted")
        if sink.endswith("change_state") and answer.success:
            self.fail("motions", f"{sink}: a transition that an active node does not have was accepted")

    def drain(self) -> None:
        """Wait for what is owed."""
        self.until(lambda: not self.awaited and not self.answers, PATIENCE_S, "verdicts and answers")

    # -- judging ------------------------------------------------------------------------------------------------------
    def check(self) -> bool:
        """Ids, port, arming. False when a process has gone: nothing more can be learned from this graph."""
        gone = self.shells.changed()
        if not gone and not self.watcher.state.mode.startswith("ARMED"):
            self._settle(0.5)  # a process that dies lets go of its connection first
            gone = self.shells.changed()
        if gone:
            said = {name: self.shells.log_end(name) for name in gone}
            self.fail("crashes", f"{', '.join(gone)} ended", said)
            return False
        rows = self.graph.observer.rows(self.since_s)
        if len(rows):
            way = np.abs(rows["target_q"] - self.q).max(axis=1)
            moved = (way > MOVED_RAD) | (rows["actual_digital_output_bits"] != self.outputs)
            self.outcome["packages watched"] += len(rows)
            if moved.any():
                at_s = rows["received_s"][np.argmax(moved)]
                self.fail("motions", f"the target at the port moved at {at_s:.3f} s, by {way.max():.2e} rad so far")
                self.mark()
            else:
                self.since_s = rows["received_s"][-1]
        if not self.watcher.state.mode.startswith("ARMED"):
            cause = (self.watcher.state.causes or ["?"])[0]
            self.outcome[f"disarmed: {cause}"[:60]] += 1
            if not cause.startswith(("stop_requested", "input")):
                self.keep(f"disarmed: {cause}")
            self._settle_stops()
            self.arm(self.mode)
        return True

    def _settle_stops(self) -> None:
        """A stop request behind the one that was answered must not meet the next arming: its reply has come by now."""
        self.until(lambda: not self.answers, PATIENCE_S, "answers")

    def _settle(self, seconds: float) -> None:
        end_s = time.monotonic() + seconds
        self.until(lambda: time.monotonic() > end_s, seconds + 5.0, "a while")

    def fail(self, what: str, why: str, said: dict | None = None) -> None:
        """Count it and keep the inputs that led to it."""
        self.outcome[what] += 1
        self.outcome[f"{what[:-1]}: {why}"[:200]] += 1
        self.keep(why, said)

    def keep(self, why: str, said: dict | None = None) -> None:
        """The newest inputs, oldest first, with what they were sent to, to be sent again."""
        self.failures += 1
        if self.failures > 20:
            return
        path = common.out_path(f"fuzz-failures/{self.seed}-{self.failures}.json")
        inputs = [
            {"sent_s": sent_s, "kind": item.kind, "sink": item.sink, "type": type(item.content).__name__,
             "cdr": base64.b64encode(_bytes(item.content)).decode()}
            for sent_s, item in self.newest
        ]  # fmt: skip
        path.write_text(json.dumps({"seed": self.seed, "why": why, "said": said or {}, "inputs": inputs}, indent=1))
        print(f"seed {self.seed}: {why}; inputs in {path}", flush=True)

    def _keep_logs(self) -> None:
        logs = self.folder / "log"
        if logs.is_dir():
            for log in sorted(logs.glob("*.log")):
                print(f"--- {log.name}\n{log.read_text(errors='replace')[-1500:]}", flush=True)

    # -- a block ------------------------------------------------------------------------------------------------------
    def run(self, n: int) -> Outcome:
        """`n` inputs, half of them in each mode."""
        for mode, until_n in (("auto", n // 2), ("manual", n)):
            self.arm(mode)
            self.prove()
            if not self._throw(until_n):
                return self.outcome
            self.prove()
        self._close_books()
        return self.outcome

    def _throw(self, until_n: int) -> bool:
        check_n, proof_n = (self.outcome["messages"] + n for n in (CHECK_EVERY, PROOF_EVERY))
        while self.outcome["messages"] < until_n:
            self.take_answers()
            self.hostile.state = self.watcher.state
            item = self.hostile.draw(self.free)
            if item is None:
                time.sleep(PAUSE_S)
                continue
            self.send(item)
            if item.stops:
                self._await_stop()
            if not self.watcher.state.mode.startswith("ARMED") or self.outcome["messages"] >= check_n:
                check_n = self.outcome["messages"] + CHECK_EVERY
                if not self.check():
                    return False
            if self.outcome["messages"] >= proof_n:
                proof_n = self.outcome["messages"] + PROOF_EVERY
                self.prove()
        self.drain()
        return self.check()

    def _await_stop(self) -> None:
        """A stop is obeyed: without one within the limit, that is a finding of its own."""
        end_s = time.monotonic() + 2.0
        while self.watcher.state.mode.startswith("ARMED"):
            if time.monotonic() > end_s:
                self.outcome["stop without effect"] += 1
                self.keep("a stop had no effect")
                return
            self.take_answers()
            time.sleep(0.002)
        self.outcome["stops obeyed"] += 1

    def _close_books(self) -> None:
        """What the nodes say that they heard: what was lost on the way is taken off the count."""
        said = Counter(self.shells.said_n)
        self.until(lambda: all(self.shells.said_n[n] >= said[n] + 3 for n in NODES), 30.0, "diagnostics")
        for (node, counter), topics in HEARD.items():
            heard, sent = int(self.shells.said[node][counter]), sum(self.sent_of[t] for t in topics)
            self.outcome[f"heard {node} {counter}"] += heard
            self.outcome["lost"] += max(0, sent - heard)
        for node in NODES:
            counters = {k: v for k, v in self.shells.said[node].items() if v.lstrip("-").isdigit()}
            for name, value in counters.items():
                if not name.startswith("guard.") or name.startswith(("guard.malformed", "guard.refused:")):
                    self.outcome[f"{node} {name}"] += int(value)
        for what in ("messages", "mutations"):  # as if none of the lost ones had been anything else
            self.outcome[what] -= self.outcome["lost"]
        self.outcome["violations"] += len(self.watcher.monitor.violations)
        for log in (self.folder / "log").glob("*.log"):
            self.outcome[f"tracebacks {log.stem}"] += log.read_text(errors="replace").count("Traceback")

    def close(self) -> None:
        """End what was started."""
        self.shells.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def _bytes(content) -> bytes:
    return content if isinstance(content, bytes) else serialize_message(content)
