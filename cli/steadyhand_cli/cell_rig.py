"""The cell of launch/cell.launch.xml in simulation, without its ROS nodes: one world, a broker, both guards, and both
commanders in this process. For `steadyhand cell` and the tests.

Moves of the arm go on to their end however often a stop interrupts them; each is planned and judged by the guard.
"""
from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from steadyhand import ur5
from steadyhand.errors import RobotError
from steadyhand.guard_protocol import AgvState, Chunk, Gripper, Verdict
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

LIMIT_S = 60.0
REFUSED_LIMIT_S = 240.0  # a move that the other robot is in the way of
STEP_S, SPEED_RAD_S = 0.1, 0.9
LOOK_S = 0.05  # from one look at the world's truth to the next
TRIES = 40
# Refused because a busy machine was late: of a plan judged late, the way-points that are past are skipped.
LATE_PLAN = ("expired", "acceleration", "velocity", "jerk", "continuity", "stop_inadmissible")
BUSY = (*LATE_PLAN, "not_armed")
# Time limits for a machine that other work may hold up, by section of the guards' files.
PATIENT_ARM = {
    "peer_timeout_s": 1.0, "shell_timeout_s": 1.0, "command_timeout_s": 1.0, "feedback_timeout_s": 0.2,
    "chunk_age_s": 0.5,
}  # fmt: skip
PATIENT_AGV = {"peer_timeout_s": 1.0, "shell_timeout_s": 5.0, "command_age_s": 5.0}
PATIENT_VEHICLE = {"feedback_timeout_s": 5.0}


class Drive(threading.Thread):
    """One task of the vehicle. `began_s`: when it was taken; `outcome`: its last state, or why it has not arrived."""

    def __init__(self, commander: Callable[[], Driver], name: str, pose: list[float], actions: list[dict]):
        super().__init__(daemon=True)
        self.outcome: AgvState | RobotError | None = None
        self.began_s: float | None = None
        self._commander, self._place, self._actions = commander, (name, pose), actions
        self.start()

    def run(self) -> None:
        """Until the vehicle has arrived, or has not."""
        try:
            self.outcome = self._commander().drive([self._place], LIMIT_S, show=self._show, actions=self._actions)
        except RobotError as error:
            self.outcome = error

    def _show(self, state: AgvState) -> None:
        self.began_s = self.began_s or time.monotonic()


class CellRig:
    """Context manager. RobotError when something is not there in time, with the ends of the logs."""

    def __init__(self, folder: Path, patient: bool = True, **arguments: str):
        config = Path(find_share("steadyhand")) / "config"
        arm = yaml.safe_load((config / "cell_guard_ur5.yaml").read_text())
        del arm["inputs"], arm["moving_inputs"]  # of the nodes that do not run here
        agv = yaml.safe_load((config / "cell_agv.yaml").read_text())
        if patient:
            arm |= PATIENT_ARM
            agv["guard"] |= PATIENT_AGV
            agv["vehicle"] |= PATIENT_VEHICLE
        (folder / "arm.yaml").write_text(json.dumps(arm))
        (folder / "agv.yaml").write_text(json.dumps(agv))
        self.zone_m, self.meet_xy_m = tuple(arm["interlock_zone_m"]), tuple(agv["guard"]["interlock_xy_m"])
        self.meet_radius_m = float(agv["guard"]["interlock_radius_m"])
        self.slot = current_slot()
        given = {
            "triton": "false", "guard_config": str(folder / "arm.yaml"), "agv_config": str(folder / "agv.yaml"),
            "broker": f"{self.slot.robot_host}:{broker.PORT}",
            "agv_guard_options": "--weaker-limits" if patient else "", **arguments,
        }  # fmt: skip
        environment = child_environment()
        specs = [s for s in read_launch(launch_path("cell"), given) if not s.package]
        self.log = folder / "log"
        self.said: list[str] = []
        self.supervisor = ProcessSupervisor(
            specs, lambda s: command_of(s, environment), environment, self.log, self.said.append
        )
        self.arm: GuardClient | None = None
        self.score: ScoreClient | None = None
        self.each: Callable[[], None] = lambda: None  # called while anything waits
        self.verdicts: dict[str, Verdict] = {}
        self._count = 0
        self._driver: Driver | None = None
        self._seen: Mapping[str, Any] = {}
        self._seen_s = -np.inf

    def __enter__(self) -> CellRig:
        try:
            self.supervisor.start()
            self.score = ScoreClient()
            self.connect()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc) -> None:
        self.supervisor.stop()
        for part in (self.arm, self.score, self._driver):
            if part is not None:
                part.close()

    def until(self, wanted: Callable[[], Any], what: str, seconds: float = LIMIT_S) -> Any:
        """Poll processes and the arm's commander until `wanted()` holds, which may also raise RobotError meanwhile."""
        end_s, why = time.monotonic() + seconds, ""
        while time.monotonic() < end_s:
            self.supervisor.poll(time.monotonic())
            if self.arm is not None and self.arm.connected:
                self.verdicts.update({m.trace_id: m for m in self.arm.poll() if isinstance(m, Verdict)})
            try:
                self.each()
                if value := wanted():
                    return value
            except RobotError as error:
                why = str(error)
            time.sleep(0.002)
        logs = "\n".join(f"--- {p.name}\n{p.read_text()[-800:]}" for p in sorted(self.log.glob("*.log")))
        raise RobotError(f"{what}: not within {seconds:g} s; {why} {self.arm and self.arm.state}\n{logs}")

    def connect(self) -> None:
        """The arm's commander."""

        def connected() -> bool:
            client = GuardClient("commander", commander=True)
            client.connect()
            self.arm = client
            return True

        self.until(connected, "the arm's guard")
        self.until(lambda: self.arm.state is not None, "a state of the arm")

    def vehicle(self) -> Mapping[str, Any]:
        """Ground truth of the vehicle in the arm's world, at most `LOOK_S` old: asking more often slows that world."""
        if time.monotonic() - self._seen_s > LOOK_S:
            self._seen, self._seen_s = self.score.state()["vehicle"], time.monotonic()
        return self._seen

    # --- the operator ---

    @property
    def agv_folder(self) -> Path:
        """Sockets of the vehicle's guard."""
        return self.slot.socket_dir / "agv"

    def modes(self) -> tuple[str, str]:
        """(arm, vehicle) as their guards say now."""
        return read_state().mode, read_state(folder=self.agv_folder).mode

    def armed(self) -> None:
        """Both, by an operator's word to each; what still forbids it is waited for."""

        def both() -> bool:
            for folder, mode in zip((None, self.agv_folder), self.modes()):
                if not mode.startswith("ARMED"):
                    operator.rearm("auto", folder=folder)
            return self.modes() == ("ARMED_AUTO", "ARMED_AUTO")

        self.until(both, "both armed")
        self.until(lambda: self.arm.state.mode == "ARMED_AUTO", "an armed state")

    # --- the vehicle ---

    def drive(self, name: str, pose: list[float], actions: list[dict] | None = None) -> Drive:
        """Begin to drive there. An entry of `actions` is `guard_protocol.Drive`'s, at way-point 1."""
        return Drive(self._commander, name, pose, actions or [])

    def _commander(self) -> Driver:
        """The vehicle's, one for all drives: when it goes the guard disarms, and stops the arm with it."""
        if self._driver is None or not self._driver.connected:
            self._driver = Driver(self.agv_folder)
        return self._driver

    def under_way(self, name: str, pose: list[float]) -> Drive:
        """Begin to drive there until the body moves in the arm's world."""
        for _ in range(TRIES):
            self.armed()
            drive = self.drive(name, pose)
            self.until(lambda: abs(self.vehicle()["twist"][0]) > 0.1 or not drive.is_alive(), "motion")
            if drive.is_alive():  # else it was stopped first
                return drive
        raise RobotError(f"never under way: {drive.outcome}")

    def driven(self, name: str, pose: list[float]) -> AgvState:
        """Drive there, again where a busy machine stopped it on its way."""
        for _ in range(TRIES):
            self.armed()
            drive = self.drive(name, pose)
            self.until(lambda: not drive.is_alive(), "the drive's end", LIMIT_S + 10.0)
            if isinstance(drive.outcome, AgvState):
                return drive.outcome
        raise RobotError(f"never arrived: {drive.outcome}")

    # --- the arm ---

    def chunk(self, q_rad: np.ndarray) -> Verdict:
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

    def reach(self, q_rad: np.ndarray, refused: Callable[[Verdict], bool] = lambda verdict: False) -> None:
        """Move there. `refused` may say of a refusal that it is tried again later, for `REFUSED_LIMIT_S`; else RobotError."""
        tries, end_s = 0, time.monotonic() + REFUSED_LIMIT_S
        while tries < TRIES:
            self.armed()
            verdict = self.chunk(q_rad)
            if not verdict.accepted and time.monotonic() < end_s and refused(verdict):
                continue
            if not verdict.accepted and verdict.reason not in BUSY:
                raise RobotError(f"the arm's guard refuses: {verdict.reason}: {verdict.detail}")
            tries += 1

            def there() -> bool:
                return float(np.abs(np.array(self.arm.state.q_commanded_rad) - q_rad).max()) < 1e-3

            self.until(lambda: self.arm.state.at_rest and (there() or not verdict.accepted
                       or not self.arm.state.mode.startswith("ARMED")), "the move's end")  # fmt: skip
            if there():
                return
        raise RobotError(f"never there: {self.arm.state}")

    def grip(self, width_m: float, until: Callable[[float], bool]) -> None:
        """Command the gripper until its width is as wanted."""
        sent_s = -np.inf

        def done() -> bool:
            nonlocal sent_s
            if time.monotonic() - sent_s > 2.0:  # again after a stop, which dropped it
                self.armed()
                sent_s = time.monotonic()
                self._count += 1
                self.arm.send(Gripper(self.arm.state.token, width_m, f"g{self._count}"))
            return until(self.arm.state.gripper_width_m)

        self.until(done, "the gripper")
