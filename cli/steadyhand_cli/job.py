"""The main job: bring the simulated cell up, clear the tray, stop and re-arm once in the middle, score, summarise.

`run_job` is what `steadyhand run` shows and what the benchmarks repeat; it reports progress through a callback and
returns everything as data.
"""
from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from steadyhand_interfaces.action import ExecuteTask

from steadyhand import cell
from steadyhand.errors import ConfigError, RobotError
from steadyhand.slot import current_slot
from steadyhand_cli.launch import launch_path
from steadyhand_cli.session import Goal, Session
from steadyhand_cli.watcher import GuardWatcher
from steadyhand_firmware_bridge import operator
from steadyhand_ros.launch_runner import child_environment, command_of, read_launch
from steadyhand_ros.process_supervisor import ProcessSupervisor
from steadyhand_sim.score_client import ScoreClient

TRITON_SHARE_WANTED = 0.99
STOP_ABOVE_RAD_S = 0.5  # the operator's stop in the middle comes when the arm is well under way
DEATHS_AT_START = 3  # of one process before the first arming: it cannot run here, and its log says why
RESULT_NAMES = {
    0: "OK", 1: "UNKNOWN_TASK", 2: "EMPTY_TRAY", 3: "UNREACHABLE", 4: "NOT_ARMED", 5: "STOPPED", 6: "CANCELLED",
    7: "L3_FAILURE", 8: "PERCEPTION_LOST", 9: "POLICY_UNAVAILABLE", 10: "BUSY", 99: "INTERNAL",
}


@dataclass(frozen=True)
class JobConfig:
    """One run of the main job."""

    cubes: int = 5
    seed: int = 0
    triton: bool = True
    operator_stop: bool = True
    launch_file: str = "ur5"
    launch_arguments: tuple[tuple[str, str], ...] = ()
    ready_timeout_s: float = 45.0
    job_timeout_s: float = 240.0
    # (name, ((parameter, value), ...)) injected into the simulator between arming and goal, for negative controls
    sim_faults: tuple[tuple[str, tuple[tuple[str, float], ...]], ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= self.cubes <= cell.MAX_CUBES:
            raise ConfigError(f"cubes={self.cubes}: give 1 to {cell.MAX_CUBES}")
        if self.seed < 0:
            raise ConfigError(f"seed={self.seed}: give 0 or more")


@dataclass
class JobProgress:
    """What the live display shows."""

    phase: str = "starting"
    mode: str = ""
    placed: int = 0
    attempted: int = 0
    executor: str = ""
    log: list[str] = field(default_factory=list)

    def say(self, line: str) -> None:
        self.log.append(line)


def run_job(config: JobConfig, show: Callable[[JobProgress], None] = lambda progress: None, record=None) -> dict:
    """Run the main job in this slot and return its summary. Raises SteadyhandError when it cannot even start."""
    slot = current_slot()
    out = slot.out_dir / "run"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    progress = JobProgress()
    environment = child_environment()
    given = {"sim": "true", "cubes": str(config.cubes), "seed": str(config.seed), "triton": str(config.triton).lower()}
    specs = read_launch(launch_path(config.launch_file), given | dict(config.launch_arguments))
    supervisor = ProcessSupervisor(specs, lambda s: command_of(s, environment), environment, out / "log", progress.say)
    job = _Job(config, slot, supervisor, progress, show, record)
    try:
        summary = job.run()
    finally:
        supervisor.stop()
        job.close()
    (out / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
    return summary


class _Job:
    """The course of one job; `tick` keeps processes, display and recording going while anything waits."""

    def __init__(self, config, slot, supervisor, progress, show, record):
        self.config, self.slot, self.supervisor = config, slot, supervisor
        self.progress, self.show, self.record = progress, show, record
        self.deaths: list[str] = []
        self.session: Session | None = None
        self.watcher: GuardWatcher | None = None
        self.score_client: ScoreClient | None = None
        self.goals: list[Goal] = []
        self.stop_report: dict = {}
        self.times: dict[str, float] = {}
        self._faults_before = 0

    def run(self) -> dict:
        start = time.monotonic()
        self._phase("starting processes")
        self.supervisor.start()
        pids = self.supervisor.pids()
        self.session, self.watcher = Session(), GuardWatcher()
        self._await(self.session.ready.is_set, self.config.ready_timeout_s, "the nodes to become active")
        self.times["graph_active_s"] = time.monotonic() - start
        self.score_client = ScoreClient()
        self._arm()
        for name, parameters in self.config.sim_faults:
            self.score_client.fault(name, **dict(parameters))
        self.times["armed_s"] = time.monotonic() - start
        self._faults_before = len(self.session.faults)  # what was missing while the graph came up is none of the job's
        job_start = time.monotonic()
        self._phase("clearing the tray")
        self._run_goal(stop_after=self._stop_after())
        if self.stop_report:
            self._phase("re-arming")
            self._arm()
            self.stop_report["rearmed"] = True
            self._phase("clearing the tray")
            self._run_goal(stop_after=None)
        self.times["job_s"] = time.monotonic() - job_start
        self._phase("scoring")
        final = self.watcher.wait(lambda s: s.at_rest, 3.0)
        score = self.score_client.score()
        return self._summary(score, pids, final is not None)

    def close(self) -> None:
        for part in (self.score_client, self.watcher):
            if part is not None:
                part.close()
        if self.session is not None:
            self.session.__exit__(None, None, None)

    # -- steps ----------------------------------------------------------------------------------------------------
    def _stop_after(self) -> int | None:
        return max(1, self.config.cubes // 2) if self.config.operator_stop else None

    def _arm(self) -> None:
        """Re-arm through the guard's authenticated local channel; what still comes up is waited for, with a limit."""
        deadline = time.monotonic() + self.config.ready_timeout_s
        while True:
            reply = operator.rearm("auto")
            if reply.ok:
                return
            if time.monotonic() > deadline:
                raise RobotError(f"cannot arm: {reply.message}; causes: {'; '.join(reply.causes) or 'none given'}")
            self.progress.say(f"not armed yet: {reply.message} {'; '.join(reply.causes)}")
            self._pause(0.3)

    def _run_goal(self, stop_after: int | None) -> None:
        self.watcher.monitor.allow_motion(True)
        goal = self._send_goal()
        deadline = time.monotonic() + self.config.job_timeout_s
        stopped = False
        while not goal.done.is_set():
            self._tick()
            feedback = goal.feedback
            if stop_after is not None and not stopped and feedback is not None:
                moving = max(abs(v) for v in self.watcher.state.qd_commanded_rad_s) > STOP_ABOVE_RAD_S
                if feedback.placed >= stop_after and moving:
                    self._operator_stop()
                    stopped = True
            if time.monotonic() > deadline:
                self.progress.say(f"no result within {self.config.job_timeout_s} s: cancelling")
                self.session.cancel(goal)
                if not goal.done.wait(5.0):
                    self.progress.say("no result after the cancellation either")
                    break
        self.watcher.monitor.allow_motion(False)

    def _send_goal(self) -> Goal:
        """A goal that runs. The agent hears of the arming a few states after us, and says NOT_ARMED until then."""
        deadline = time.monotonic() + 2.0
        while True:
            goal = self.session.send_goal("clear_tray")
            while not goal.done.is_set() and goal.feedback is None and time.monotonic() < deadline:
                self._tick()
            refused = goal.result is not None and goal.result.code == ExecuteTask.Result.NOT_ARMED
            if not refused or time.monotonic() > deadline:
                break
        self.goals.append(goal)
        return goal

    def _operator_stop(self) -> None:
        self._phase("operator stop")
        before = self.watcher.state
        operator.stop("operator", "main job: stop in the middle")
        stopped = self.watcher.wait(lambda s: s.mode not in ("ARMED_AUTO",), 1.0)
        rest = self.watcher.wait(lambda s: s.mode == "STOPPED" and s.at_rest, 3.0)
        self.stop_report = {
            "speed_before_rad_s": max(abs(v) for v in before.qd_commanded_rad_s),
            "latched_after_s": None if stopped is None else stopped.stamp_s - before.stamp_s,
            "rest_after_s": None if rest is None else rest.stamp_s - before.stamp_s,
            "causes": list(rest.causes) if rest else [],
            "rearmed": False,
        }
        said = f"after {rest.stamp_s - before.stamp_s:.2f} s" if rest is not None else "not seen within 3 s"
        self.progress.say(f"operator stop: rest {said}")

    # -- plumbing -------------------------------------------------------------------------------------------------
    def _phase(self, phase: str) -> None:
        self.progress.phase = phase
        self.progress.say(phase)
        self.show(self.progress)

    def _tick(self) -> None:
        for item in self.supervisor.poll(time.monotonic()):
            self.deaths.append(item.spec.name)
            if "armed_s" not in self.times and self.deaths.count(item.spec.name) >= DEATHS_AT_START:
                raise RobotError(f"{item.spec.name} keeps ending: {_last_line(item.log_path)}")
        if self.record is not None:
            self.record.tick()
        goal = self.goals[-1] if self.goals else None
        if goal is not None and goal.feedback is not None:
            f = goal.feedback
            before = [g.result for g in self.goals[:-1] if g.result]
            self.progress.placed = f.placed + sum(r.placed for r in before)
            self.progress.attempted = f.attempted + sum(r.attempted for r in before)
            self.progress.executor = f"{f.phase} {f.detail}"
        if self.watcher is not None and self.watcher.state is not None:
            self.progress.mode = self.watcher.state.mode
        self.show(self.progress)
        time.sleep(0.02)

    def _pause(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._tick()

    def _await(self, condition: Callable[[], bool], timeout_s: float, what: str) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            self._tick()
            if time.monotonic() > deadline:
                logs = self.slot.out_dir / "run/log"
                raise RobotError(f"waited {timeout_s:.0f} s for {what}; see the logs in {logs}")

    def _summary(self, score: dict, pids: dict, at_rest: bool) -> dict:
        statistics = merge_statistics([json.loads(g.result.statistics_json or "{}") for g in self.goals if g.result])
        state, monitor = self.watcher.state, self.watcher.monitor
        violations = [asdict(v) for v in monitor.violations]
        codes = [RESULT_NAMES.get(g.result.code, str(g.result.code)) if g.result else "NO_RESULT" for g in self.goals]
        calls = statistics.get("policy_calls", 0)
        triton_share = statistics.get("served_by", {}).get("triton", 0) / calls if calls else 0.0
        placed = int(score["in_box"])
        problems = []
        if placed < self.config.cubes:
            problems.append(f"{placed} of {self.config.cubes} cubes are in the box")
        if "NO_RESULT" in codes:
            problems.append("a goal ended without a result")
        if violations:
            problems.append(f"{len(violations)} invariant violations")
        if self.config.triton and triton_share < TRITON_SHARE_WANTED:
            problems.append(f"Triton served {triton_share:.1%} of the policy calls, wanted {TRITON_SHARE_WANTED:.0%}")
        if self.config.operator_stop and not self.stop_report.get("rearmed"):
            problems.append("the operator stop in the middle did not take place")
        if not at_rest:
            problems.append("the arm is not known to be at rest")
        counters = state.counters if state else {}
        return {
            "ok": not problems, "problems": problems,
            "cubes_attempted": self.config.cubes, "cubes_placed": placed, "score": score,
            "results": codes, "messages": [g.result.message if g.result else "" for g in self.goals],
            "seed": self.config.seed, "triton": self.config.triton, "robot": "emulated controller, simulated cell",
            "times": self.times, "cycle_time_s": self.times.get("job_s", 0.0) / max(placed, 1),
            "policy": statistics, "triton_share": triton_share,
            "stop": self.stop_report, "stops": monitor.stops, "armings": monitor.armings,
            "guard_counters": counters, "scheduler": state.scheduler if state else "",
            "violations": violations, "states_checked": monitor.states,
            "faults": sorted({f.name for f in self.session.faults[self._faults_before:]}),
            "processes": {"pids": pids, "died": self.deaths},
        }


def _last_line(path: Path) -> str:
    lines = [line for line in path.read_text(errors="replace").splitlines() if line.strip()]
    return f"{lines[-1][:300]} (log: {path})" if lines else f"it says nothing (log: {path})"


def merge_statistics(parts: list[dict]) -> dict:
    """Statistics of several goals of one agent process, which counts on: the last has the totals."""
    return parts[-1] if parts else {}
