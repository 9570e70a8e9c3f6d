"""The cell of launch/cell.launch.xml without its ROS nodes: one simulated world, a broker, two guards, two commanders."""
import json
import threading
import time
from pathlib import Path

import numpy as np
import yaml

from steadyhand import ur5
from steadyhand.errors import RobotError
from steadyhand.guard_protocol import Chunk, Gripper, Verdict
from steadyhand.slot import current_slot
from steadyhand_cli import broker
from steadyhand_cli.drive import Driver
from steadyhand_cli.launch import launch_path
from steadyhand_cli.operate import read_state
from steadyhand_firmware_bridge import operator
from steadyhand_firmware_bridge.client import GuardClient
from steadyhand_ros.launch_runner import child_environment, command_of, find_share, read_launch
from steadyhand_ros.process_supervisor import ProcessSupervisor
from steadyhand_sim.score_client import ScoreClient
from tests.support.interlocked import BUSY

LIMIT_S = 60.0
STEP_S, SPEED_RAD_S = 0.1, 0.9
TRIES = 20
# A busy machine may hold up everything here; those limits are not the subject.
PEER = {"peer_timeout_s": 1.0}
ARM = PEER | {"shell_timeout_s": 1.0, "command_timeout_s": 1.0, "feedback_timeout_s": 0.2, "chunk_age_s": 0.5}
AGV = PEER | {"shell_timeout_s": 5.0, "command_age_s": 5.0}


class CellRig:
    """Context manager. Moves of the arm go on to their end however often a busy machine stops it on its way."""

    def __init__(self, folder: Path, **arguments: str):
        config = Path(find_share("steadyhand")) / "config"
        arm = yaml.safe_load((config / "cell_guard_ur5.yaml").read_text())
        del arm["inputs"], arm["moving_inputs"]  # of the nodes that do not run here
        agv = yaml.safe_load((config / "cell_agv.yaml").read_text())
        agv["guard"] |= AGV
        agv["vehicle"]["feedback_timeout_s"] = 5.0
        (folder / "arm.yaml").write_text(json.dumps(arm | ARM))
        (folder / "agv.yaml").write_text(json.dumps(agv))
        self.slot = current_slot()
        given = {
            "triton": "false", "guard_config": str(folder / "arm.yaml"), "agv_config": str(folder / "agv.yaml"),
            "broker": f"{self.slot.robot_host}:{broker.PORT}", **arguments,
        }  # fmt: skip
        environment = child_environment()
        specs = [s for s in read_launch(launch_path("cell"), given) if not s.package]
        self.log = folder / "log"
        self.said: list[str] = []
        self.supervisor = ProcessSupervisor(
            specs, lambda s: command_of(s, environment), environment, self.log, self.said.append
        )
        self.arm = self.score = None
        self.verdicts: dict[str, Verdict] = {}
        self._count = 0

    def __enter__(self):
        try:
            self.supervisor.start()
            self.score = ScoreClient()
            self.connect()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc):
        self.supervisor.stop()
        for part in (self.arm, self.score):
            if part is not None:
                part.close()

    def until(self, wanted, what, seconds=LIMIT_S):
        """Poll processes and the arm's commander until `wanted()` holds, which may also raise RobotError meanwhile."""
        end_s, why = time.monotonic() + seconds, ""
        while time.monotonic() < end_s:
            self.supervisor.poll(time.monotonic())
            if self.arm is not None and self.arm.connected:
                self.verdicts.update({m.trace_id: m for m in self.arm.poll() if isinstance(m, Verdict)})
            try:
                if value := wanted():
                    return value
            except RobotError as error:
                why = str(error)
            time.sleep(0.002)
        logs = "\n".join(f"--- {p.name}\n{p.read_text()[-800:]}" for p in sorted(self.log.glob("*.log")))
        raise AssertionError(f"{what}: not within {seconds} s; {why} {self.arm and self.arm.state}\n{logs}")

    def connect(self):
        """The arm's commander."""

        def connected():
            client = GuardClient("commander", commander=True)
            client.connect()
            self.arm = client
            return True

        self.until(connected, "the arm's guard")
        self.until(lambda: self.arm.state is not None, "a state of the arm")

    def vehicle(self):
        """Ground truth of the vehicle in the arm's world."""
        return self.score.state()["vehicle"]

    # --- the operator ---

    @property
    def agv_folder(self):
        return self.slot.socket_dir / "agv"

    def modes(self):
        """(arm, vehicle) as their guards say now."""
        return read_state().mode, read_state(folder=self.agv_folder).mode

    def armed(self):
        """Both, by an operator's word to each; what still forbids it is waited for."""

        def both():
            for folder, mode in zip((None, self.agv_folder), self.modes()):
                if not mode.startswith("ARMED"):
                    operator.rearm("auto", folder=folder)
            return self.modes() == ("ARMED_AUTO", "ARMED_AUTO")

        self.until(both, "both armed")
        self.until(lambda: self.arm.state.mode == "ARMED_AUTO", "an armed state")

    # --- the vehicle ---

    def drive(self, name, pose):
        """Begin to drive there; a thread whose `outcome` is the last state, or the error."""
        thread = threading.Thread(target=self._drive, args=(name, pose), daemon=True)
        thread.outcome = []
        self._drivers = thread.outcome
        thread.start()
        return thread

    def _drive(self, name, pose):
        outcome = self._drivers
        try:
            with Driver(self.agv_folder) as driver:
                outcome.append(driver.drive([(name, pose)], LIMIT_S))
        except RobotError as error:
            outcome.append(error)

    def under_way(self, name, pose):
        """Begin to drive there until the body moves in the arm's world; the drive's thread."""
        for _ in range(TRIES):
            self.armed()
            thread = self.drive(name, pose)
            self.until(lambda: abs(self.vehicle()["twist"][0]) > 0.1 or not thread.is_alive(), "motion")
            if thread.is_alive():  # else it was stopped first
                return thread
        raise AssertionError(f"never under way: {thread.outcome}")

    def driven(self, name, pose):
        """Drive there, again where a busy machine stopped it on its way."""
        for _ in range(TRIES):
            self.armed()
            thread = self.drive(name, pose)
            self.until(lambda: not thread.is_alive(), "the drive's end", LIMIT_S + 10.0)
            if not isinstance(thread.outcome[0], RobotError):
                return thread.outcome[0]
        raise AssertionError(f"never arrived: {thread.outcome}")

    # --- the arm ---

    def chunk(self, q_rad):
        """One planned motion from where it is commanded to `q_rad`; its verdict."""
        s = self.arm.state
        start = np.array(s.q_commanded_rad)
        steps = max(8, round(1.5 * np.abs(q_rad - start).max() / SPEED_RAD_S / STEP_S))
        # Rest at both ends: a plan that is judged late loses its first way-points, and must end without motion wanted.
        share = np.concatenate([[0.0] * 3, np.linspace(0, 1, steps + 1), [1.0] * 2])[:, None]
        self._count += 1
        trace = f"c{self._count}"
        self.arm.send(Chunk(
            token=s.token, state_seq=s.seq, state_stamp_s=s.stamp_s, trace_id=trace, source="planner",
            joint_names=list(ur5.JOINT_NAMES), period_s=STEP_S,
            q_rad=(start + (q_rad - start) * share**2 * (3 - 2 * share)).tolist(),
        ))  # fmt: skip
        return self.until(lambda: self.verdicts.get(trace), "a verdict")

    def reach(self, q_rad):
        """Move there."""
        for _ in range(TRIES):
            self.armed()
            verdict = self.chunk(q_rad)
            assert verdict.accepted or verdict.reason in BUSY, verdict

            def there():
                return float(np.abs(np.array(self.arm.state.q_commanded_rad) - q_rad).max()) < 1e-3

            self.until(lambda: self.arm.state.at_rest and (there() or not verdict.accepted
                       or not self.arm.state.mode.startswith("ARMED")), "the move's end")  # fmt: skip
            if there():
                return
        raise AssertionError(f"never there: {self.arm.state}")

    def grip(self, width_m, until):
        """Command the gripper until its width is as wanted."""
        sent_s = -np.inf

        def done():
            nonlocal sent_s
            if time.monotonic() - sent_s > 2.0:  # again after a stop, which dropped it
                self.armed()
                sent_s = time.monotonic()
                self._count += 1
                self.arm.send(Gripper(self.arm.state.token, width_m, f"g{self._count}"))
            return until(self.arm.state.gripper_width_m)

        self.until(done, "the gripper")

