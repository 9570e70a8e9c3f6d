"""`recovery`: the robot stops itself while it is moved. When does the guard know, and how long until it is armed again?

Guard and emulated controller as processes, our commander streaming chunks, four kinds of stop at random moments.
`detect`: from the moment the act takes effect between two control cycles (so one cycle of 8 ms before any state
package can show it) to the guard's own decision; one clock, both ends on this machine. `program_ended`: from that
moment to the controller's report that the old program is stopped.
`recovered`: from the operator's first word after the cause has gone (unlock, power-on, re-arm) to armed in AUTO, with
the same processes as before and no motion until then. Every stop is kept: the run can be interrupted and goes on.
"""
from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks import common
from benchmarks._controller_process import ControllerProcess, until
from benchmarks._kept import Kept, identity
from steadyhand import ur5
from steadyhand.guard_protocol import Chunk, State
from steadyhand.slot import current_slot
from steadyhand_firmware_bridge import operator
from steadyhand_firmware_bridge.client import GuardClient

STREAM_S, STEP_RAD = 0.05, 0.010
PATIENT = {"shell_timeout_s": 1.0, "command_timeout_s": 1.0}  # the benchmark is no real-time commander
UNLOCK_AFTER_S = 5.05

# kind -> what happens, what takes its cause away at the robot, what the operator then asks for, after how long
KINDS: dict[str, tuple[str, str, tuple[str, ...], float]] = {
    "protective_stop": ("protective_stop", "", ("unlock",), UNLOCK_AFTER_S),
    "safeguard_stop": ("safeguard_stop", "release_safeguard", (), 0.0),
    "emergency_stop": ("emergency_stop", "release_emergency_stop", ("power-on", "brake-release"), 0.0),
    "paused_at_pendant": ("pause_program", "press_play", (), 0.0),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--n", type=int, default=50, help="stops of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fresh", action="store_true", help="forget what an interrupted run has kept")


class Rig:
    """Context manager: controller, guard and a commander."""

    def __init__(self, seed: int):
        self._folder = Path(tempfile.mkdtemp(prefix="recovery-"))
        self.sockets, self._rng, self._count = self._folder / "slot", random.Random(seed), 0
        config = self._folder / "guard.yaml"
        config.write_text(json.dumps(PATIENT))
        self.robot = ControllerProcess(current_slot().robot_host)
        with contextlib.suppress(OSError):  # as on a robot: its controller is starved by nobody
            os.sched_setscheduler(self.robot.process.pid, os.SCHED_FIFO, os.sched_param(10))
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        self.guard = subprocess.Popen(
            [
                sys.executable, "-m", "steadyhand_firmware_bridge.guard.main", "--robot-ip", self.robot.host,
                "--socket-dir", str(self.sockets), "--config", str(config),
            ],
            stdout=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip
        self.client = GuardClient("recovery-bench", commander=True, folder=self.sockets)
        try:
            common.await_ready(self.guard)
            self.client.connect(5.0)
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> Rig:
        return self

    def __exit__(self, *exc: object) -> None:
        self.client.close()
        self.guard.terminate()
        try:
            self.guard.wait(8.0)
        except subprocess.TimeoutExpired:
            self.guard.kill()
            self.guard.wait(5.0)
        self.robot.__exit__()

    def until(self, wanted: Callable[[State], bool], limit_s: float, what: str) -> State:
        """Poll until the newest state is `wanted`."""

        def seen() -> State | None:
            self.client.poll()
            state = self.client.state
            return state if state is not None and wanted(state) else None

        return until(seen, limit_s, what)

    def arm(self) -> float:
        """Ask until armed; when the first ask was."""
        began_s = time.monotonic()

        def armed() -> bool:
            self.client.poll()
            return operator.rearm("auto", folder=self.sockets).ok

        until(armed, 10.0, "armed")
        self.until(lambda s: s.mode == "ARMED_AUTO", 2.0, "the armed state")
        return began_s

    def move(self, seconds: float, sign: float) -> None:
        """Swing joint 0 from the commanded state."""
        next_s = time.monotonic()
        end_s = next_s + seconds
        while time.monotonic() < end_s:
            self.client.poll()
            state = self.client.state
            if time.monotonic() >= next_s and state.mode == "ARMED_AUTO":
                next_s += STREAM_S
                self._count += 1
                steps = np.outer(np.arange(1, 9) * STEP_RAD * sign, [1, 0, 0, 0, 0, 0])
                self.client.send(Chunk(
                    token=state.token, state_seq=state.seq, state_stamp_s=state.stamp_s, trace_id=f"r{self._count}",
                    source="policy", joint_names=list(ur5.JOINT_NAMES), period_s=STREAM_S,
                    q_rad=(np.array(state.q_commanded_rad) + steps).tolist(),
                ))  # fmt: skip
            time.sleep(0.001)

    def ask(self, word: str) -> float:
        """The operator's word, again while the controller's own clock has not reached its 5 s; when it was granted."""
        asked_s = 0.0

        def granted() -> bool:
            nonlocal asked_s
            self.client.poll()
            asked_s = time.monotonic()
            return operator.robot_act(word, folder=self.sockets).ok

        until(granted, 5.0, f"{word} granted")
        return asked_s

    def one(self, kind: str, k: int) -> dict:
        """One stop and the way back."""
        act, undo, words, wait_s = KINDS[kind]
        pids = (self.guard.pid, self.robot.process.pid)
        self.arm()
        number = self.client.state.last_stop.get("number", 0)
        self.move(0.6 + self._rng.uniform(0.0, 0.1), 1.0 if k % 2 else -1.0)
        sent_s = self.robot.pendant(act)["at_s"]
        state = self.until(lambda s: s.last_stop.get("number", 0) > number, 2.0, "the guard's stop")
        until(lambda: self.robot.state["runtime_state"] == "STOPPED", 2.0, "the old program ended")
        ended_s = time.monotonic()
        self.until(lambda s: s.at_rest, 3.0, "rest")
        if undo:
            self.robot.pendant(undo)
        while time.monotonic() < sent_s + wait_s:
            self.client.poll()
            time.sleep(0.01)
        before = list(self.client.state.q_rad)
        self.robot.pendant("press_play")  # whoever presses it now: nothing is left to go on
        word_s = time.monotonic()
        for word in words:
            asked_s = self.ask(word)
            word_s = asked_s if word == "unlock" else word_s
            wanted = {"power-on": 5, "brake-release": 7}.get(word)
            if wanted:
                self.until(lambda s: s.robot_mode == wanted, 5.0, word)  # noqa: B023
        self.until(lambda s: s.safety_mode == 1 and s.robot_mode == 7 and s.at_rest, 5.0, "a ready robot")
        moved_rad = float(np.abs(np.array(self.client.state.q_rad) - before).max())
        self.arm()
        armed_s = time.monotonic()
        same = pids == (self.guard.pid, self.robot.process.pid) and self.guard.poll() is None
        operator.disarm(folder=self.sockets)
        self.until(lambda s: s.mode == "STOPPED" and s.at_rest, 3.0, "disarmed")
        return {
            "kind": kind, "cause": state.last_stop["cause"], "detect_s": state.last_stop["received_s"] - sent_s,
            "ended_s": ended_s - sent_s, "recovered_s": armed_s - word_s, "moved_rad": moved_rad,
            "same_processes": same, "scheduler": state.scheduler,
        }  # fmt: skip


def run(args: argparse.Namespace) -> None:
    import benchmarks.recovery as module

    kept = Kept("recovery-stops", f"{identity(module)}-{args.seed}", args.fresh)
    with common.alone(), Rig(args.seed + len(kept.lines)) as rig:
        rig.until(lambda s: s.at_rest, 10.0, "feedback")
        for k in range(args.n):
            for kind in KINDS:
                if sum(line["kind"] == kind for line in kept.lines) <= k:
                    kept.add(rig.one(kind, k))
    lines = kept.lines
    figure = lambda name, q, rows: round(float(np.percentile([r[name] for r in rows], q)), 5)  # noqa: E731
    by_kind = {kind: [r for r in lines if r["kind"] == kind] for kind in KINDS}
    metrics = {
        "kinds": len(KINDS), "n": args.n,
        "detect_p50_ms": figure("detect_s", 50, lines) * 1e3, "detect_p99_ms": figure("detect_s", 99, lines) * 1e3,
        "program_ended_p99_ms": figure("ended_s", 99, lines) * 1e3,
        "recovered_p50_s": figure("recovered_s", 50, lines), "recovered_p99_s": figure("recovered_s", 99, lines),
        "moved_before_arming_max_rad": max(r["moved_rad"] for r in lines),
        "same_processes": sum(r["same_processes"] for r in lines),
        "by_kind": {
            kind: {
                "n": len(rows), "detect_p99_ms": figure("detect_s", 99, rows) * 1e3,
                "recovered_p99_s": figure("recovered_s", 99, rows), "causes": sorted({r["cause"] for r in rows}),
            }
            for kind, rows in by_kind.items()
        },
    }  # fmt: skip
    load = f"plant without physics; load average {os.getloadavg()[0]:.1f}"
    print(common.write("recovery", len(lines), load, lines[-1]["scheduler"], metrics).read_text())
