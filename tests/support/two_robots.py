"""Two robots on one machine: a slot and a namespace for each, one ROS domain for both, so that only names part them."""
import json
import os
import time
from dataclasses import replace
from pathlib import Path

from steadyhand.errors import RobotError
from steadyhand.guard_protocol import State
from steadyhand.slot import current_slot
from steadyhand_cli.launch import launch_path
from steadyhand_cli.session import Session
from steadyhand_firmware_bridge.client import GuardClient
from steadyhand_ros.launch_runner import child_environment, command_of, read_launch
from steadyhand_ros.process_supervisor import ProcessSupervisor

LIMIT_S = 60.0
NODES = ("lifecycle_manager_node", "guard_node", "agent_node")
# As far as a task comes without a camera. A busy machine may hold up everything; those limits are not the subject.
GUARD = {"inputs": {"agent": 5.0}, "shell_timeout_s": 5.0, "feedback_timeout_s": 0.2}


class Robot:
    """Guard (before a fake), shell, agent and lifecycle manager of launch/ur5.launch.xml; what its guard says."""

    def __init__(self, name: str, slot_index: int, domain_id: int, folder: Path, **guard: object):
        self.name = name
        environment = child_environment(os.environ | {"STEADYHAND_SLOT": str(slot_index)})
        self.slot = current_slot(environment)
        config = folder / f"{name}.yaml"
        config.write_text(json.dumps(GUARD | {"name": name} | guard))
        given = {"triton": "false", "namespace": name, "guard_config": str(config)}
        specs = [s for s in read_launch(launch_path("ur5"), given, environment) if s.name in ("guard", *NODES)]
        specs = [self._changed(s) for s in specs]
        environment |= {"ROS_DOMAIN_ID": str(domain_id)}
        self.said: list[str] = []
        self.supervisor = ProcessSupervisor(
            specs, lambda s: command_of(s, environment), environment, folder / name, self.said.append
        )
        self.guard: GuardClient | None = None
        self.session: Session | None = None
        self.causes: set[str] = set()

    @staticmethod
    def _changed(spec):
        if spec.name == "guard":
            return replace(spec, command=spec.command.replace("--robot ur5", "--robot fake"))
        if spec.name == "lifecycle_manager_node":
            return replace(spec, parameters=(("node_names", "[guard_node, agent_node]"),))
        return spec

    def start(self):
        self.supervisor.start()
        self.session = Session(f"operator_of_{self.name}", namespace=self.name)

    def poll(self):
        self.supervisor.poll(time.monotonic())
        if self.guard is None or not self.guard.connected:
            try:
                self.guard = GuardClient("watcher", folder=self.slot.socket_dir)
                self.guard.connect(0.1)
            except RobotError:
                return
        self.guard.poll()
        if self.state is not None:
            self.causes.update(self.state.causes)

    @property
    def state(self) -> State | None:
        return self.guard.state

    @property
    def armings(self) -> int:
        """How often it was armed. A busy machine may stop it at once: who waits for an armed state may wait long."""
        return self.state.counters.get("armed", 0)

    @property
    def stops(self) -> dict[str, int]:
        """How often a stop was asked of it, by who asked."""
        return {name: n for name, n in self.state.counters.items() if name.startswith("stop:")}

    def close(self):
        if self.session is not None:
            self.session.__exit__(None, None, None)
        if self.guard is not None:
            self.guard.close()
        self.supervisor.stop()


class TwoRobots:
    """Context manager."""

    def __init__(self, folder: Path, **guard: dict):
        here = current_slot()
        other = (here.index + 1) % 40
        self.left = Robot("left", here.index, here.ros_domain_id, folder, **guard.get("left", {}))
        self.right = Robot("right", other, here.ros_domain_id, folder, **guard.get("right", {}))
        self.folder, self.both = folder, (self.left, self.right)

    def __enter__(self):
        try:
            for robot in self.both:
                robot.start()
            for robot in self.both:
                self.until(robot.session.ready.is_set, f"the nodes of {robot.name}")
                self.until(lambda robot=robot: robot.guard and robot.state, f"a state of {robot.name}")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc):
        for robot in self.both:
            robot.close()

    def until(self, wanted, what, seconds=LIMIT_S):
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            for robot in self.both:
                robot.poll()
            if value := wanted():
                return value
            time.sleep(0.005)
        logs = "\n".join(f"--- {p}\n{p.read_text()[-600:]}" for p in sorted(self.folder.rglob("*.log")))
        raise AssertionError(f"{what}: not within {seconds} s; {[r.guard and r.guard.state for r in self.both]}\n{logs}")

    def later(self, robot, states=60):
        """So many states of its guard on: what was meant for it, or came to it by mistake, has come by then."""
        seq = robot.state.seq
        self.until(lambda: robot.state.seq > seq + states, f"states of {robot.name}")
