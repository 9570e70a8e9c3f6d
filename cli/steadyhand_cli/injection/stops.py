"""A moving arm and every way to stop it: what one stop costs, from the sender, from the guard's receipt, to rest.

The rig: simulated cell behind the emulated controller, guard, ROS shell, a streaming commander; an observer at the
controller's port. `StopRig.fire` is one stop by one source; `measure` (pure) reads its times from what was recorded.
"""
from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from std_msgs.msg import String
from std_srvs.srv import Trigger

from steadyhand import ur5
from steadyhand.errors import RobotError
from steadyhand.guard_protocol import Link
from steadyhand.slot import current_slot
from steadyhand_cli.injection import minimum, observer, onset
from steadyhand_cli.injection.commander import JOINTS, SPEED_RAD_S
from steadyhand_cli.injection.running import RunningGraph
from steadyhand_firmware_bridge import operator
from steadyhand_firmware_bridge.client import GuardClient
from steadyhand_ros import qos
from steadyhand_ros.launch_xml import ProcessSpec

SENDER_PRIORITY = 30  # SCHED_FIFO for the moment of sending: a preempted sender would be counted as a slow stop
STEADY_S = onset.STEADY_BASE_S + 0.2  # the controller's servo law settles, then the base of the trace
BEAT_S = 0.1
WAY_S, WAYS = 1.5, 5  # from one end of the commander's way to the other takes longer
STOPPED, PLAYING = 1, 2  # runtime_state
# The whole graph of a stop without real-time rights, as on a machine that grants none.
NO_REALTIME = "setpriv --bounding-set=-sys_nice --inh-caps=-sys_nice "

ROBOT = {  # what happens at the robot, and what ends it
    "protective_stop": ("unlock_protective_stop",), "safeguard_stop": ("release_safeguard",),
    "emergency_stop": ("release_emergency_stop", "power_on", "brake_release"),
}  # fmt: skip
DEATHS = {  # process, signal
    "guard_killed": ("guard", signal.SIGKILL), "guard_frozen": ("guard", signal.SIGSTOP),
    "shell_killed": ("guard_node", signal.SIGKILL), "shell_frozen": ("guard_node", signal.SIGSTOP),
    "source_killed": ("commander", signal.SIGKILL), "source_frozen": ("commander", signal.SIGSTOP),
    "source_silent": ("commander", signal.SIGUSR1),
}  # fmt: skip
SOURCES = ("topic", "service", "stop_channel", "operator_link", *ROBOT, *DEATHS)


def specs(folder: Path, sched: str) -> list[ProcessSpec]:
    """Processes of the rig; `sched` "fifo" or "other" is what guard, shell and commander may have."""
    host, config = current_slot().robot_host, folder / "guard.yaml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(json.dumps({"inputs": {"agent": 0.5}, "moving_inputs": {"agent": 0.075}}))
    python = sys.executable
    plain = NO_REALTIME if sched == "other" and shutil.which("setpriv") else ""
    lines = {
        "sim": f"steadyhand-sim --host {host} --cubes 1 --seed 5",
        "guard": f"{plain}steadyhand-guard --robot ur5 --robot-ip {host} --config {config} --sched {sched}",
        "guard_node": f"{plain}{python} -m steadyhand_ros.guard_node",
        "lifecycle_manager_node": f"{python} -m steadyhand_ros.lifecycle_manager_node "
        f"--ros-args -p node_names:=[guard_node]",
        "commander": f"{plain}{python} -m steadyhand_cli.injection.commander",
    }
    return [ProcessSpec(name=n, command=line, respawn=True, respawn_delay_s=0.05) for n, line in lines.items()]


@contextlib.contextmanager
def urgent() -> Iterator[None]:
    """Above the whole graph for a moment; children and threads made meanwhile are not."""
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(SENDER_PRIORITY))
    except PermissionError:
        pass
    try:
        yield
    finally:
        os.sched_setscheduler(0, before[0] & ~os.SCHED_RESET_ON_FORK, before[1])


class StopRig:
    """Context manager: the rig running. `fire(source)` gives the record of one stop."""

    def __init__(self, folder: Path, sched: str, seed: int = 0):
        self.graph = RunningGraph(specs(folder, sched), folder, cable=False)
        self._rng = np.random.default_rng(seed)
        self._link: GuardClient | None = None
        self._beat_s = 0.0
        self._minimum: dict[tuple, float] = {}

    def __enter__(self) -> StopRig:
        self.graph.__enter__()
        node = self.graph.session.node
        self._topic = node.create_publisher(String, "operator_stop", qos.COMMAND)
        self._service = node.create_client(Trigger, "stop")
        return self

    def __exit__(self, *exc) -> None:
        self._let_go()
        self.graph.__exit__(*exc)

    def fire(self, source: str) -> dict:
        """Arm, move steadily, stop by `source` at a random moment of the cycle, measure, make everything well again."""
        self._make_well(source)
        self._move(source)
        time.sleep(float(self._rng.uniform(0.0, 2 * ur5.SERVO_PERIOD_CB3_S)))
        act = self._act(source)
        with urgent():
            sent_s = time.monotonic()
            act()
        self._until(lambda: not math.isnan(onset.rest_s(self._port(sent_s), sent_s)), 5.0, "rest at the port")
        self._undo(source)
        stop = self._latched(source, sent_s)
        rows = self.graph.observer.rows(sent_s - STEADY_S)
        return {"source": source, **measure(rows, sent_s, stop, self._minimum_s)}

    # --- parts of one stop ---

    def _make_well(self, source: str) -> None:
        graph = self.graph
        graph.until(lambda: len(graph.supervisor.pids()) == len(graph.supervisor.running), 10.0, "every process")
        graph.until(graph.session.ready.is_set, 20.0, "an active shell")
        if source == "topic":
            graph.until(lambda: self._topic.get_subscription_count() > 0, 10.0, "a subscriber of operator_stop")
        if source == "service":
            graph.until(self._service.service_is_ready, 10.0, "the service stop")
        self._arm(source)

    def _arm(self, source: str) -> None:
        """A link that is there already falls silent meanwhile, which forbids arming: it comes after."""
        self._let_go()
        self.graph.arm()
        if source == "operator_link":
            self._link = GuardClient("link-bench", states=False)
            self._link.connect()

    def _move(self, source: str) -> None:
        """Until the commanded speed has been steady for long enough.

        The way is about two seconds long. On a busy machine this process may look up too late and find the arm at its
        end, where nothing can be stopped: then the arm is sent back the other way. A shell that was frozen is found
        again by the commander after seconds: a guard that stops meanwhile, before any motion, is armed again.
        """
        for _ in range(WAYS):
            if self._until(self._steadily(), 5.0, "steady motion") == "steady":
                return
            operator.stop("bench: once more")
            self._arm(source)
        raise RobotError(f"saw no steady motion on {WAYS} ways: is the machine overloaded?")

    def _steadily(self) -> Callable[[], str]:
        wanted, since, begun_s = SPEED_RAD_S * math.sqrt(len(JOINTS)), [math.inf], time.monotonic()
        moved = [False]

        def steady() -> str:
            state, now_s = self.graph.watcher.state, time.monotonic()
            speed = float(np.linalg.norm(state.qd_commanded_rad_s))
            moved[0] = moved[0] or speed > onset.MOVING_RAD_S
            if not state.mode.startswith("ARMED"):
                if not moved[0] and state.last_stop.get("cause") == "input:agent":
                    return "not found yet"
                raise RobotError(f"stopped before it was asked to: {'; '.join(state.causes)}")
            since[0] = min(since[0], now_s) if abs(speed - wanted) < 0.02 * wanted else math.inf
            if now_s - since[0] > STEADY_S:
                return "steady"
            return "used up" if now_s - begun_s > WAY_S and speed < 0.5 * wanted else ""

        return steady

    def _act(self, source: str) -> Callable[[], object]:
        if source == "topic":
            message = String(data="bench")
            return lambda: self._topic.publish(message)
        if source == "service":
            request = Trigger.Request()
            return lambda: self._service.call_async(request)
        if source == "stop_channel":
            return lambda: operator.stop("bench")
        if source == "operator_link":
            return self._let_go
        if source in ROBOT:
            return lambda: self.graph.score.fault(source)
        process, number = DEATHS[source]
        pid = self.graph.pid(process)
        return lambda: os.kill(pid, number)

    def _undo(self, source: str) -> None:
        graph = self.graph
        if source in DEATHS:
            process, number = DEATHS[source]
            again = {signal.SIGSTOP: signal.SIGCONT, signal.SIGUSR1: signal.SIGUSR2}.get(number)
            if again is not None:
                os.kill(graph.pid(process), again)
        for name in ROBOT.get(source, ()):
            graph.score.fault(name)
            if name in ("power_on", "release_safeguard"):
                graph.wait(0.5)
        if source in ROBOT:
            graph.until(self._robot_well, 10.0, "the robot to be well again")
        graph.until(lambda: "guard" in graph.supervisor.pids(), 5.0, "the guard")

    def _robot_well(self) -> bool:
        graph = self.graph
        controller = graph.score.state()["controller"]
        return (controller["robot_mode"], controller["safety_mode"]) == ("RUNNING", "NORMAL")

    def _latched(self, source: str, sent_s: float) -> dict:
        """The guard's own record of the stop; empty when that guard has died."""
        if source == "guard_killed":
            return {}
        state = self.graph.until(lambda: _stopped(self.graph.watcher.state, sent_s), 5.0, "the guard's word")
        return state.last_stop

    def _let_go(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None

    def _port(self, since_s: float) -> onset.Trace:
        return self.graph.observer.trace(since_s)

    def _until(self, condition, timeout_s: float, what: str):
        def beating() -> object:
            now_s = time.monotonic()
            if self._link is not None and now_s - self._beat_s > BEAT_S:
                self._beat_s = now_s
                self._link.poll()
                self._link.send(Link("bench", True))
            return condition()

        return self.graph.until(beating, timeout_s, what)

    def _minimum_s(self, qd_rad_s: np.ndarray) -> float:
        """Cached: the motion is always the same but for its sign."""
        key = tuple(np.round(qd_rad_s, 2).tolist())
        if key not in self._minimum:
            self._minimum[key] = minimum.minimum_rest_s(np.array(key))
        return self._minimum[key]


def _stopped(state, since_s: float):
    if state is None or state.mode.startswith("ARMED") or state.last_stop.get("received_s", 0.0) < since_s:
        return None
    return state


def measure(rows: np.ndarray, sent_s: float, stop: dict, minimum_s: Callable[[np.ndarray], float]) -> dict:
    """Times of one stop in seconds, NaN (as None) where there is none.

    `rows`: records of the port from 0.3 s before. `stop`: the guard's `last_stop`. Set-point times are those of the
    port's first package that shows it, so up to one cycle late.
    """
    period_s = ur5.SERVO_PERIOD_CB3_S
    port, setpoints = observer.trace(rows), observer.setpoint_trace(rows, period_s)
    decelerates, rest = onset.steady_fall_s(port, sent_s), onset.rest_s(port, sent_s)
    braking = onset.steady_fall_s(setpoints, sent_s) if "braking_s" in stop else math.nan
    received, sent_by_guard = stop.get("received_s", math.nan), stop.get("braking_s", math.nan)
    steady = port.between(sent_s - onset.STEADY_BASE_S, sent_s).target_qd_rad_s
    shortest = minimum_s(steady.mean(axis=0)) if len(steady) else math.nan
    withdrawn = stop.get("reaction") == "WITHDRAW"
    began = braking if not math.isnan(braking) else decelerates
    times = {
        "sent_to_received_s": received - sent_s,
        "received_to_braking_s": sent_by_guard - received,  # by the guard's own clock: the cycle that sent it
        "received_to_setpoint_s": braking - received,
        "sent_to_setpoint_s": braking - sent_s,
        "sent_to_decelerate_s": decelerates - sent_s,
        "received_to_decelerate_s": decelerates - received,
        "received_to_withdrawn_s": _withdrawn_s(rows, received) - received if withdrawn else math.nan,
        "sent_to_rest_s": rest - sent_s,
        "rest_over_minimum": (rest - began) / shortest,
        "rest_from_sender_over_minimum": (rest - sent_s) / shortest,
        "minimum_s": shortest,
        "speed_rad_s": onset.speed_at(port, sent_s),
    }
    found = {name: None if math.isnan(value) else round(value, 6) for name, value in times.items()}
    return found | {"cause": stop.get("cause", ""), "reaction": stop.get("reaction", "")}


def _withdrawn_s(rows: np.ndarray, since_s: float) -> float:
    """Time of the last new heartbeat of the guard at the port: after it, the guard sent nothing more."""
    beats = np.flatnonzero(np.diff(rows["input_int_register_24"])) + 1
    return max(float(rows["received_s"][beats[-1]]), since_s) if len(beats) and not math.isnan(since_s) else math.nan
