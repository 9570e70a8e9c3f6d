"""The whole graph of the launch file with a task under way, and what an operator sees and does of it."""
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import yaml

from steadyhand_cli.injection.running import RunningGraph
from steadyhand_cli.launch import launch_path
from steadyhand_firmware_bridge import operator
from steadyhand_ros.launch_runner import find_share, read_launch
from tests.support.guard_rig import PATIENT
from tests.support.state_log import steps

# A busy machine may hold up an operator, the shell, the emulated controller and the simulated camera, which is drawn in
# software: those limits are not the subject here.
GUARD = PATIENT | {"feedback_timeout_s": 0.2, "inputs": {"estimator": 1.0, "agent": 1.0}}
NODES = {
    "estimator_node": {"image_age_max_s": 0.6, "prediction_max_s": 0.6}, "perception_node": {"image_timeout_s": 0.6},
    "agent_node": {"estimate_timeout_s": 1.0},
}  # fmt: skip
UNDER_WAY_RAD_S = 0.3
TRIES = 12
COMMAND = ("-u", "-m", "steadyhand_cli.main")


def launch(folder, **arguments) -> RunningGraph:
    """The graph of launch/ur5.launch.xml, policy in process, with the jogging node."""
    config = folder / "guard.yaml"
    config.write_text(json.dumps(GUARD))
    nodes = yaml.safe_load(Path(find_share("steadyhand"), "config", "ur5.yaml").read_text())
    for name, changes in NODES.items():
        nodes[f"/**/{name}"]["ros__parameters"] |= changes
    params = folder / "ur5.yaml"
    params.write_text(yaml.safe_dump(nodes))
    given = {"sim": "true", "triton": "false", "teleop": "true", "guard_config": str(config)}
    given |= {"params": str(params), **arguments}
    return RunningGraph(read_launch(launch_path("ur5"), given), folder, cable=False)


def speed(state) -> float:
    """Of the fastest joint, commanded."""
    return float(np.abs(state.qd_commanded_rad_s).max())


def stands(state) -> bool:
    return state.at_rest and speed(state) < 1e-3


def phase(goal) -> str:
    return goal.feedback.phase if goal.feedback else ""


def fast(goal, state) -> bool:
    return speed(state) > UNDER_WAY_RAD_S


def start(graph, reached=fast):
    """A running goal for which `reached(goal, state)`. What a stop of a busy machine's own making ends is sent anew."""
    said = []
    for _ in range(TRIES):
        if graph.watcher.state.mode != "ARMED_AUTO":
            graph.arm()
        graph.watcher.monitor.allow_motion(True)
        goal = graph.session.send_goal("clear_tray")
        graph.until(lambda: goal.done.is_set() or reached(goal, graph.watcher.state), 60.0, "the task to be under way")
        if not goal.done.is_set():
            return goal
        said.append(goal.result.message)
        graph.wait(0.2)  # the agent hears of an arming through two processes
    raise AssertionError(said)


def finish(graph):
    """The task done to its end; its result. What a busy machine stops is sent anew, as an operator would."""
    for _ in range(4):
        goal = start(graph, lambda goal, state: speed(state) > 0.01)
        graph.until(goal.done.is_set, 120.0, "the result")
        if goal.result.code == goal.result.OK:
            break
    return goal.result


def results_of(graph, goal) -> list[str]:
    """The terminal results that the agent has given to this goal, from its log."""
    short = bytes(goal.handle.goal_id.uuid).hex()[:8]
    return re.findall(rf"goal {short}: ([A-Z_0-9]+):", (graph.folder / "log" / "agent_node.log").read_text())


def answer(graph, *words) -> tuple[int, str]:
    """Exit code and output of a `steadyhand` command."""
    child = graph.helper(*COMMAND, *words)
    graph.until(lambda: child.poll() is not None, 30.0, f"steadyhand {words[0]} to end")
    return child.returncode, child.stdout.read()


class Keyboard:
    """`steadyhand takeover` on a terminal of its own."""

    def __init__(self, graph):
        self.graph = graph
        self._person, terminal = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, *COMMAND, "takeover"], env=graph.environment, stdin=terminal, stdout=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        os.close(terminal)
        graph.helpers.append(self.process)

    def hold(self, key, until, timeout_s=15.0):
        """Hold a key, as a terminal repeats it, until `until(state)`; then let go and wait for rest."""
        graph = self.graph

        def there():
            os.write(self._person, key)
            graph.wait(0.03)
            return until(graph.watcher.state)

        graph.until(there, timeout_s, f"what key {key!r} is held for")
        graph.until(lambda: stands(graph.watcher.state), 5.0, "rest when the key is let go")

    def press(self, key):
        os.write(self._person, key)

    def end(self):
        """It has been told to leave: its exit code."""
        self.graph.until(lambda: self.process.poll() is not None, 15.0, "takeover to end")
        os.close(self._person)
        return self.process.returncode


def recordings(graph) -> list[list[dict]]:
    """Every intervention that has its end, oldest first."""
    files = (graph.slot.out_dir / "interventions").glob("*.jsonl")
    read = [[json.loads(line) for line in p.read_text().splitlines() if line.endswith("}")] for p in files]
    return sorted((r for r in read if r and r[-1]["kind"] == "end"), key=lambda r: r[0]["stamp_s"])


def recording(graph, token: int, by_node: bool) -> list[dict]:
    """What the node, or the other process, recorded of the arming with this token."""

    def found():
        return next((r for r in recordings(graph) if r[0]["token"] == token
                     and (r[0]["by"] == "teleop_node") == by_node), None)

    return graph.until(found, 10.0, f"the recording of arming {token}")


def at_port(graph, since_s) -> tuple[float, float, float]:
    """Of the set-points that came in at the controller since then: greatest speed, and acceleration over its limit;
    and the greatest change of its own target speed within one of its cycles, rad/s."""
    rows = graph.observer.rows(since_s)
    number = np.diff(rows["input_int_register_27"])
    new = np.flatnonzero(number != 0) + 1
    q, gap = rows["setpoint"][new], number[new - 1]
    found = [steps(part) for part in np.split(q, np.flatnonzero(gap != 1)) if len(part) > 3]  # a lost one is no step
    cycle = np.diff(rows["timestamp"])
    change = np.abs(np.diff(rows["target_qd"], axis=0)).max(axis=1)[(cycle > 0) & (cycle < 0.009)]
    return max(f[0] for f in found), max(f[1] for f in found), float(change.max())


def refused(mode="auto") -> list[str]:
    """The causes with which the guard refuses to arm."""
    reply = operator.rearm(mode)
    assert not reply.ok, reply
    return reply.causes
