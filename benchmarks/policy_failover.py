"""`policy_failover`: an arm in steady motion under the policy while its server dies, hangs, lies or is exchanged.

Real processes: a Triton server with its supervisor, the guard, an emulated controller, and an observer at the
controller's port. This process leads as the agent does: every 50 ms it asks the policy and sends the chunk. The arm
circles over the tray and never stands, so that every held set-point shows. Each kind of trouble strikes `--trials`
times; between client and server stands a cable that can be cut, delayed, and made to hold, swallow or cut off bytes.

`missed_cycles`: control cycles whose set-point is the one before (repeated or held), by the guard's own states and by
the observer, whichever is more. `stale_executed`: accepted chunks that answer a state older than 50 ms, or whose
actions are not what the model answers to that very observation. `next_action_*`: from a request to its chunk's sending,
of every request within three seconds of a strike. Emulated controller.
"""
from __future__ import annotations

import argparse
import contextlib
import json
import os
import queue
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from benchmarks import _kept, common
from benchmarks._controller_process import ControllerProcess
from steadyhand import kinematics, policy_io, ur5
from steadyhand.errors import KinematicsError, PolicyError, SteadyhandError
from steadyhand.guard_protocol import Chunk, State, Verdict
from steadyhand.policy_io import PERIOD_S, Target
from steadyhand.slot import current_slot
from steadyhand.types import Skill
from steadyhand_cli.injection import children, observer
from steadyhand_cli.injection.proxy import LinkProxy, Trouble
from steadyhand_firmware_bridge import operator
from steadyhand_firmware_bridge.client import GuardClient
from steadyhand_policies import contract as contracts
from steadyhand_policies import release as releases
from steadyhand_policies import repository as repositories
from steadyhand_policies.live import LivePolicy
from steadyhand_policies.local_onnx import LocalOnnxPolicy
from steadyhand_policies.member import opener
from steadyhand_policies.release import Release, ReleaseConfig, Stage
from steadyhand_policies.release_file import ReleaseFile

MODEL = repositories.PICK_PLACE
DEADLINE_S, EXPIRY_S = 0.040, 0.050  # the agent's own: of a call, and of a reply's use
WINDOW_S, CALM_S, LIMIT_S = 3.0, 1.0, 30.0
CENTRE_M, RADIUS_M, AHEAD_RAD, HEIGHT_M = np.array([0.50, -0.08]), 0.20, 0.7, 0.02
WIDTH_M = 0.062  # opening of the fingers while they approach
MOVING_RAD_S = 0.02
SAME_RAD = 1e-9
WRONG = 1e-3  # of an action's unit
COUNTED = ("disarmed", "refused", "expired", "overtaken", "served_triton", "served_local")
ONE_IN_TWO = ReleaseConfig((Stage(2, 0.2), Stage(1, 0.1)))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--trials", type=int, default=5, help="of each kind")
    parser.add_argument("--kinds", default="", help=f"some of {', '.join(KINDS)} (default: all)")
    parser.add_argument("--fresh", action="store_true", help="forget the trials that are already written")


# -- the cable -------------------------------------------------------------------------------------------------------
class Cable:
    """A `LinkProxy` to one port, in a thread; what is asked of it is done between two of its rounds."""

    def __init__(self, port: int):
        self._proxy = LinkProxy("127.0.0.1", "127.0.0.1", {0: port})
        self.port = self._proxy.ports[0]
        self._asked: queue.Queue = queue.Queue()
        self._stopping = False
        self._thread = threading.Thread(target=self._work, name="cable", daemon=True)
        self._thread.start()

    def trouble(self, **what) -> None:
        """Of what the server answers; nothing: sound again."""
        self._asked.put(lambda: self._proxy.set_trouble(self.port, "to_guard", Trouble(**what)))

    def cut(self) -> None:
        """Reset every connection."""
        self._asked.put(lambda: self._proxy.cut(self.port))

    def close(self) -> None:
        """End the thread and the connections."""
        self._stopping = True
        self._thread.join(2.0)
        self._proxy.close()

    def _work(self) -> None:
        while not self._stopping:
            self._proxy.service(0.005)
            with contextlib.suppress(queue.Empty):
                while True:
                    self._asked.get_nowait()()


class Triton:
    """A supervisor and its server, on a repository of its own."""

    def __init__(self, repository: Path):
        self.repository = repository
        self._status = current_slot().out_dir / "triton" / "status.json"
        self.start()

    def start(self) -> None:
        """Start the supervisor and wait until it is ready."""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "steadyhand_policies.triton_server", "--repository", str(self.repository)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env=children.environment(),
        )
        until(lambda: self.status().get("state") == "ready" and self.status()["supervisor_pid"] == self.process.pid,
              "Triton is ready")

    def status(self) -> dict:
        """What the supervisor says; empty while it says nothing readable."""
        with contextlib.suppress(OSError, ValueError):
            return json.loads(self._status.read_text())
        return {}

    def group(self) -> list[int]:
        """Processes of the server: itself first, then its stubs."""
        leader, found = self.status()["server_pid"], []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError, ValueError):
                pid, rest = _stat(stat)
                if int(rest[2]) == leader and rest[0] != "Z":
                    found.append((pid != leader, pid))
        return [pid for _, pid in sorted(found)]

    def stop(self) -> None:
        """SIGTERM, then SIGKILL."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(10)
        self.process.kill()


def _stat(path: Path) -> tuple[int, list[str]]:
    """Process id, and the fields of /proc/PID/stat behind the name: state, parent, group, ..."""
    return int(path.parent.name), path.read_text().rpartition(")")[2].split()


# -- the agent's part ------------------------------------------------------------------------------------------------
@dataclass
class Asked:
    """One request: when, of which state, and what became of it."""

    at_s: float
    observation: np.ndarray
    state: State
    sent_s: float = float("nan")  # its chunk's
    actions: np.ndarray | None = None
    error: str = ""
    accepted: bool = False


@dataclass
class Driver:
    """Leads the arm round and round; everything that it did and saw, by the monotonic clock."""

    client: GuardClient
    live: LivePolicy
    folder: Path
    asked: dict[str, Asked] = field(default_factory=dict)
    cycles: list[tuple[float, int, tuple, bool]] = field(default_factory=list)  # received, seq, commanded, moving
    counts: Counter = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._requests: queue.Queue = queue.Queue(1)
        self._replies: queue.SimpleQueue = queue.SimpleQueue()
        self._stopping = False
        self._traces: dict[str, str] = {}
        self._arming: threading.Thread | None = None
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._policy, self._lead)]
        for thread in self._threads:
            thread.start()

    def said(self) -> str:
        """How things stand, for a message."""
        state, errors = self.client.state, Counter(a.error for a in list(self.asked.values())[-200:] if a.error)
        stands = f"{state.mode}: {'; '.join(state.causes)}, {dict(state.counters)}" if state is not None else "no state"
        return f"{stands}; {dict(self.counts)}; {len(self.asked)} asked, {len(self.cycles)} cycles; {dict(errors)}"

    def close(self) -> None:
        self._stopping = True
        for thread in self._threads:
            thread.join(2.0)

    def _policy(self) -> None:
        while not self._stopping:
            try:
                name, observation, pin = self._requests.get(timeout=0.1)
            except queue.Empty:
                continue
            try:
                self._replies.put((name, self.live.infer(observation, name, DEADLINE_S, pin), ""))
            except PolicyError as error:
                self._replies.put((name, None, str(error)))

    def _lead(self) -> None:
        """As the agent: one request a period, the newest state, a reply only for its own observation and in time."""
        next_s, episode_s = time.monotonic(), 0.0
        while not self._stopping:
            now_s = time.monotonic()
            with contextlib.suppress(queue.Empty):
                while True:
                    self._take(*self._replies.get_nowait())
            state = self.client.state
            if now_s >= next_s and state is not None:
                next_s = max(next_s + PERIOD_S, now_s)
                if state.mode == "ARMED_AUTO":
                    if now_s - episode_s > 1.5:  # an attempt of a skill takes so long
                        episode_s = now_s
                        self.live.begin_episode()
                    self._ask(state, now_s)
                else:
                    self._arm()
            select.select([self.client], [], [], max(0.0005, min(0.002, next_s - time.monotonic())))
            received_s = time.monotonic()
            for message in self.client.poll(every_state=True):
                if isinstance(message, State):
                    moving = message.mode == "ARMED_AUTO" and max(map(abs, message.qd_commanded_rad_s)) > MOVING_RAD_S
                    self.cycles.append((received_s, message.seq, tuple(message.q_commanded_rad), moving))
                elif isinstance(message, Verdict):
                    name = self._traces.get(message.trace_id)
                    if name is not None:
                        self.asked[name].accepted = message.accepted
                        self.counts["refused"] += not message.accepted

    def _arm(self) -> None:
        """In a thread: who leads beats on meanwhile."""
        if self._arming is not None and self._arming.is_alive():
            return
        self.counts["disarmed"] += 1

        def arm() -> None:
            with contextlib.suppress(SteadyhandError):
                operator.rearm("auto", folder=self.folder)

        self._arming = threading.Thread(target=arm, daemon=True)
        self._arming.start()

    def _ask(self, state: State, now_s: float) -> None:
        name = f"o{state.seq}"
        observation = policy_io.observation(
            ahead(state), np.array(state.q_commanded_rad), np.array(state.qd_commanded_rad_s), WIDTH_M, False
        )
        self.asked[name] = Asked(now_s, observation, state)
        try:
            self._requests.put_nowait((name, observation, self.live.pin))
        except queue.Full:
            self.counts["overtaken"] += 1

    def _take(self, name: str, chunk, error: str) -> None:
        asked, now_s = self.asked[name], time.monotonic()
        if chunk is None or chunk.observation_id != name:
            asked.error = error or f"answers {chunk.observation_id}"
            return
        if now_s - asked.at_s > EXPIRY_S:
            asked.error = "expired"
            self.counts["expired"] += 1
            return
        s = asked.state
        try:
            q_rad = policy_io.joint_waypoints(chunk.actions, np.array(s.q_commanded_rad))
        except KinematicsError as error:
            asked.error = str(error)
            return
        trace = f"c{len(self._traces)}"
        self._traces[trace] = name
        sent = self.client.send(Chunk(
            token=s.token, state_seq=s.seq, state_stamp_s=s.stamp_s, trace_id=trace, source="policy",
            joint_names=list(ur5.JOINT_NAMES), period_s=PERIOD_S, q_rad=q_rad.tolist(),
        ))
        if sent:
            asked.sent_s, asked.actions = time.monotonic(), chunk.actions
            self.counts[f"served_{chunk.served_by}"] += 1


def ahead(state: State) -> Target:
    """A target on the circle, always some way ahead of the tool: a pursuit that never ends."""
    tool = kinematics.pose_base_link_tool(np.array(state.q_commanded_rad))[:3, 3]
    angle = float(np.arctan2(*(tool[:2] - CENTRE_M)[::-1])) + AHEAD_RAD
    xy = CENTRE_M + RADIUS_M * np.array([np.cos(angle), np.sin(angle)])
    return Target(Skill.PICK, np.array([*xy, HEIGHT_M]), 0.0)


# -- the troubles ----------------------------------------------------------------------------------------------------
@dataclass
class Rig:
    """Everything that a strike may touch."""

    triton: Triton
    cable: Cable
    driver: Driver
    file: ReleaseFile
    versions: dict[int, releases.Version]


def _killed(rig: Rig) -> None:
    os.kill(rig.triton.status()["server_pid"], signal.SIGKILL)


def _frozen(rig: Rig) -> None:
    os.kill(rig.triton.status()["server_pid"], signal.SIGSTOP)  # the supervisor restarts it after three canaries


def _stub_killed(rig: Rig) -> None:
    for pid in rig.triton.group()[1:]:
        os.kill(pid, signal.SIGKILL)


def _supervisor_killed(rig: Rig) -> None:
    rig.triton.process.kill()
    rig.triton.process.wait(5)
    threading.Timer(WINDOW_S, rig.triton.start).start()  # whoever supervises the supervisor


def _cable(**trouble):
    def strike(rig: Rig) -> None:
        rig.cable.trouble(**trouble)
        threading.Timer(WINDOW_S, rig.cable.trouble).start()
    return strike


def _cut(rig: Rig) -> None:
    rig.cable.cut()


def _released(rig: Rig) -> None:
    """A candidate begins to serve one episode in two."""
    rig.file.update(lambda now: releases.begin(
        _none_under_way(now or Release(MODEL, rig.versions[1])), rig.versions[2], "benchmark"
    ))


def _rolled_back(rig: Rig) -> None:
    """In the middle of an episode of the candidate's."""
    _released(rig)
    until(lambda: rig.driver.live.pin.version == rig.versions[2], "the candidate serves")
    at_s = time.monotonic()
    rig.file.update(lambda now: releases.roll_back(now, "benchmark"))
    until(lambda: rig.driver.live.pin.version == rig.versions[1], "the stable one serves")
    rig.driver.counts["rollback_ms_max"] = max(
        rig.driver.counts["rollback_ms_max"], int((time.monotonic() - at_s) * 1e3)
    )


def _installed(rig: Rig) -> None:
    """A new version appears in the repository; the server loads it beside the others."""
    number = repositories.newest(rig.triton.repository, MODEL)
    repositories.install(rig.triton.repository / MODEL / str(number), rig.triton.repository, MODEL)


def _none_under_way(release: Release) -> Release:
    return releases.roll_back(release, "benchmark") if release.candidate is not None else release


KINDS = {
    "server_killed": _killed, "server_frozen": _frozen, "backend_killed": _stub_killed,
    "supervisor_killed": _supervisor_killed, "connection_cut": _cut, "answers_late": _cable(delay_s=0.06),
    "answers_held": _cable(hold=True), "answers_lost": _cable(drop=True), "answers_cut_off": _cable(truncate_bytes=30),
    "candidate_released": _released, "rolled_back": _rolled_back, "version_loaded": _installed,
}


# -- the run ---------------------------------------------------------------------------------------------------------
def run(args: argparse.Namespace) -> None:
    wanted = [k for k in args.kinds.split(",") if k] or list(KINDS)
    if set(wanted) - set(KINDS):
        raise SystemExit(f"{args.kinds}: known are {', '.join(KINDS)}")
    kept = _kept.Kept("policy_failover", _kept.identity(sys.modules[__name__]), args.fresh)
    with common.alone(), tempfile.TemporaryDirectory() as folder, rig_in(Path(folder)) as (rig, witness, scheduler):
        for k in range(args.trials):
            for kind in wanted:
                if sum(line["kind"] == kind for line in kept.lines) > k:
                    continue
                line = {"kind": kind, "scheduler": scheduler} | trial(kind, rig, witness)
                kept.add(line)
                print({n: v for n, v in line.items() if not isinstance(v, list)}, flush=True)
    report(kept.lines)


@contextlib.contextmanager
def rig_in(folder: Path):
    """All processes, the arm in motion; ends what it started."""
    repository, sockets, slot = prepare(folder), folder / "slot", current_slot()
    with contextlib.ExitStack() as stack:
        triton = Triton(repository)
        stack.callback(triton.stop)
        cable = Cable(slot.triton_grpc_port)
        stack.callback(cable.close)
        stack.enter_context(ControllerProcess(slot.robot_host))
        guard = subprocess.Popen(
            [sys.executable, "-m", "steadyhand_firmware_bridge.guard.main", "--robot", "ur5", "--robot-ip",
             slot.robot_host, "--socket-dir", str(sockets)],
            stdout=subprocess.PIPE, text=True, env=children.environment(),
        )
        stack.callback(lambda: (guard.kill(), guard.wait(5)))
        common.await_ready(guard)
        witness = stack.enter_context(observer.Observer(slot.robot_host, folder / "witness.bin"))
        client = GuardClient("bench", commander=True, folder=sockets)
        client.connect()
        client.wait(lambda m: isinstance(m, State) and m.at_rest, 10.0)
        file = ReleaseFile(folder / "policy", MODEL)
        open_version = opener(repository, MODEL, f"127.0.0.1:{cable.port}")
        live = LivePolicy(MODEL, open_version, 1, ReleaseFile(folder / "policy", MODEL), ONE_IN_TWO).open()
        stack.callback(live.close)
        versions = {n: releases.Version(n, contracts.load(repository / MODEL / str(n) / "contract.json").sha256)
                    for n in (1, 2)}
        driver = Driver(client, live, sockets)
        stack.callback(driver.close)
        until(lambda: moving(driver, CALM_S), "the arm circles", driver.said)
        yield Rig(triton, cable, driver, file, versions), witness, client.state.scheduler


def prepare(folder: Path) -> Path:
    """A repository of two versions with the shipped weights, sealed as two: what is measured is the change."""
    repository = folder / "models"
    shutil.copytree(repositories.DEFAULT_REPOSITORY, repository)
    newest = repositories.newest(repository, MODEL)
    for number in (1, 2):
        target = repository / MODEL / str(number)
        if not target.exists():
            shutil.copytree(repository / MODEL / str(newest), target)
    path = repository / MODEL / "2" / "contract.json"
    contract = contracts.load(path)
    other = replace(contract.training, seed=contract.training.seed + 1)
    path.write_text(contracts.dump(replace(contract, training=other)))
    return repository


def trial(kind: str, rig: Rig, witness: observer.Observer) -> dict:
    """Calm, strike, watch; then wait until all is well again."""
    driver = rig.driver
    until(lambda: driver.live.statistics().primary_healthy, "served by Triton")
    until(lambda: moving(driver, CALM_S), "the arm circles", driver.said)
    before = Counter(driver.counts)
    start_s = time.monotonic()
    KINDS[kind](rig)
    time.sleep(max(0.0, start_s + WINDOW_S - time.monotonic()))
    end_s = time.monotonic()
    time.sleep(0.2)  # verdicts
    line = judge(driver, witness, start_s, end_s)
    changed = driver.counts - before
    line |= {name: changed[name] for name in COUNTED}
    line["rollback_ms"] = driver.counts["rollback_ms_max"] if kind == "rolled_back" else 0
    line["primary_failures"] = dict(driver.live.statistics().failures)
    if kind in ("candidate_released", "rolled_back"):
        rig.file.update(lambda now: _none_under_way(now))
    until(lambda: driver.live.statistics().primary_healthy, "served by Triton again")
    return line


def judge(driver: Driver, witness: observer.Observer, start_s: float, end_s: float) -> dict:
    """What the window shows."""
    cycles = [c for c in list(driver.cycles) if start_s <= c[0] <= end_s]
    held = sum(
        a[3] and b[3] and np.abs(np.subtract(a[2], b[2])).max() < SAME_RAD for a, b in zip(cycles, cycles[1:])
    )
    stood = sum(not c[3] for c in cycles)
    rows = witness.rows(start_s)
    rows = rows[rows["received_s"] <= end_s]
    step = np.diff(rows["input_int_register_27"])
    new = np.flatnonzero(step > 0) + 1
    same = np.abs(rows["setpoint"][new] - rows["setpoint"][new - 1]).max(axis=1) < SAME_RAD if len(new) else np.zeros(0)
    cycles_there = (rows["timestamp"][-1] - rows["timestamp"][0]) / 0.008 if len(rows) > 1 else 0.0
    behind = max(0, round(cycles_there) - int(step.sum()) - 1) if len(rows) > 1 else 0
    asked = [a for a in list(driver.asked.values()) if start_s <= a.at_s <= end_s]
    executed = [a for a in asked if a.accepted]
    local = _reference()
    wrong = sum(
        np.abs(local.infer(a.observation, "r", 1.0).actions - a.actions).max() > WRONG for a in executed
    )
    old = sum(a.sent_s - a.at_s > EXPIRY_S for a in executed)
    answered = [a.sent_s - a.at_s for a in asked if np.isfinite(a.sent_s)]
    return {
        "missed_cycles": int(max(held + stood, int(same.sum()) + behind)), "held": int(held), "stood": int(stood),
        "witness_held": int(same.sum()), "witness_behind": int(behind), "cycles": len(cycles),
        "witness_rows": len(rows),
        "stale_executed": int(wrong + old), "requests": len(asked), "unanswered": len(asked) - len(answered),
        "next_action_s": [round(v, 5) for v in answered],
        "chunk_gap_max_ms": round(_gap_s(asked) * 1e3, 1),
    }


_REFERENCE: list[LocalOnnxPolicy] = []


def _reference() -> LocalOnnxPolicy:
    """The same weights, in this process, asked after the fact."""
    if not _REFERENCE:
        _REFERENCE.append(LocalOnnxPolicy(repositories.policy_files(version=0)).open())
    return _REFERENCE[0]


def _gap_s(asked: list[Asked]) -> float:
    sent = sorted(a.sent_s for a in asked if a.accepted)
    return max(np.diff(sent), default=float("nan"))


def moving(driver: Driver, seconds: float) -> bool:
    """Whether every cycle of the last seconds moved."""
    since_s = time.monotonic() - seconds
    recent = [c for c in driver.cycles[-round(2 * seconds / 0.008):] if c[0] >= since_s]
    return len(recent) > 0.8 * seconds / 0.008 and all(c[3] for c in recent)


def until(condition, what: str, said=lambda: "") -> None:
    """Poll; RuntimeError after the limit, with what is `said` then."""
    end_s = time.monotonic() + LIMIT_S
    while not condition():
        if time.monotonic() > end_s:
            raise RuntimeError(f"not within {LIMIT_S:.0f} s: {what}; {said()}")
        time.sleep(0.02)


def report(lines: list[dict]) -> Path:
    """Write the figures."""
    by_kind = {kind: [line for line in lines if line["kind"] == kind] for kind in KINDS}
    by_kind = {kind: found for kind, found in by_kind.items() if found}
    waits_ms = np.array([v for line in lines for v in line["next_action_s"]]) * 1e3
    metrics = {
        "kinds": len(by_kind), "trials": len(lines),
        "missed_cycles": sum(line["missed_cycles"] for line in lines),
        "stale_executed": sum(line["stale_executed"] for line in lines),
        "next_action_p99_ms": round(float(np.percentile(waits_ms, 99)), 2) if len(waits_ms) else None,
        "next_action_max_ms": round(float(waits_ms.max()), 2) if len(waits_ms) else None,
        "requests": sum(line["requests"] for line in lines), "unanswered": sum(line["unanswered"] for line in lines),
        "cycles": sum(line["cycles"] for line in lines), "stops": sum(line["disarmed"] for line in lines),
        "chunk_gap_max_ms": max((line["chunk_gap_max_ms"] for line in lines), default=None),
        "rollback_max_ms": max((line["rollback_ms"] for line in lines), default=0),
        "by_kind": {
            kind: {
                "trials": len(found), "missed_cycles": sum(f["missed_cycles"] for f in found),
                "served_triton": sum(f["served_triton"] for f in found),
                "served_local": sum(f["served_local"] for f in found),
                "next_action_max_ms": round(max((max(f["next_action_s"], default=0.0) for f in found)) * 1e3, 2),
            }
            for kind, found in by_kind.items()
        },
    }
    schedulers = ", ".join(sorted({line["scheduler"] for line in lines}))
    path = common.write("policy_failover", len(lines), "the processes themselves", f"guard {schedulers}", metrics)
    print(path, {n: metrics[n] for n in ("kinds", "missed_cycles", "stale_executed", "next_action_p99_ms")})
    return path
