"""The job of the cell: the vehicle docks beside the arm, the arm loads it, it leaves with the load; an operator stops
both in the middle. All of it goes through the two guards; what each refuses because of the other is waited out.

The arm is moved by a program of this file, not by the agent and its policy: where a cube lies is the world's truth.
"""
from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

import numpy as np

from steadyhand import cell
from steadyhand.errors import ConfigError, RobotError
from steadyhand.guard_protocol import AgvState, Verdict
from steadyhand.slot import current_slot
from steadyhand_cli import loading
from steadyhand_cli.cell_monitor import Meeting, VehicleMonitor, Waits, docking_error
from steadyhand_cli.cell_rig import LOOK_S, REFUSED_LIMIT_S, CellRig
from steadyhand_cli.watcher import GuardWatcher
from steadyhand_firmware_bridge import operator
from steadyhand_firmware_bridge.guard.zone import Zone
from steadyhand_sim import scene

MAX_LOADS = len(loading.PLACES_M)
AGAIN_S, UNARMED_S = 0.1, 0.5  # after a refusal by the interlock; by a guard that is not armed
SHUTTLE_LIMIT_S, REST_LIMIT_S = REFUSED_LIMIT_S, 5.0
DOCKED_MM = 20.0  # of `finePositioning`: its own limit is 12 mm by its own estimate
STOP_ABOVE_RAD_S = 0.3
DOCKING = [{"at": 1, "kind": "finePositioning", "blocking": "HARD"}]


@dataclass(frozen=True)
class CellJobConfig:
    """One run. `patient`: time limits for a machine with other work."""

    loads: int = 2
    seed: int = 0
    operator_stop: bool = True
    patient: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.loads <= MAX_LOADS:
            raise ConfigError(f"loads={self.loads}: give 1 to {MAX_LOADS}")
        if self.seed < 0:
            raise ConfigError(f"seed={self.seed}: give 0 or more")


def run_cell(config: CellJobConfig, say: Callable[[str], None] = lambda line: None) -> dict:
    """Run the job in this slot; its summary. Raises SteadyhandError when it cannot go on."""
    out = current_slot().out_dir / "cell"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    pose = ",".join(f"{value:.4f}" for value in loading.ENTRY)
    with CellRig(out, config.patient, cubes=str(config.loads), seed=str(config.seed), agv_pose=pose) as rig:
        job = _Job(config, rig, say)
        try:
            summary = job.run()
        finally:
            job.close()
    (out / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
    return summary


class _Shuttle(threading.Thread):
    """The vehicle's part: drive there, again when it was stopped on its way or the arm was in the way."""

    def __init__(self, rig: CellRig, name: str, pose: list[float], actions: list[dict], waits: Waits, say):
        super().__init__(daemon=True)
        self.arrived, self.why, self.ending = False, "", False
        self._begin, self._waits, self._say = (lambda: rig.drive(name, pose, actions)), waits, say
        self.start()

    def run(self) -> None:
        """Until it has arrived."""
        end_s = time.monotonic() + SHUTTLE_LIMIT_S
        while time.monotonic() < end_s and not self.ending:
            drive = self._begin()
            drive.join()  # it has a limit of its own (`CellRig.drive`)
            if drive.began_s is not None:
                self._waits.taken(drive.began_s)
            if isinstance(drive.outcome, AgvState):
                self.arrived = True
                return
            self.why = str(drive.outcome)
            in_the_way = self.why.startswith("refused: workspace: interlock")
            if in_the_way:
                self._waits.refused(time.monotonic())
            elif not self.why.startswith("refused") and not self.ending:
                self._say(f"vehicle: {self.why}")
            time.sleep(AGAIN_S if in_the_way else UNARMED_S)


class _Job:
    """The course of one run."""

    def __init__(self, config: CellJobConfig, rig: CellRig, say: Callable[[str], None]):
        self.config, self.rig, self.say = config, rig, say
        self.arm_states = GuardWatcher()
        self.arm_states.monitor.allow_motion(True)
        self.agv_states = GuardWatcher(rig.agv_folder, VehicleMonitor())
        self.meeting = Meeting(Zone(rig.zone_m).inside, rig.meet_xy_m, rig.meet_radius_m)
        self.waits = {"arm": Waits(), "vehicle": Waits()}
        self.docking: dict = {}
        self.away: dict = {}
        self.stop: dict = {}
        self.end: Mapping = {"loaded": []}  # the world's truth of the vehicle where the run ended
        self.pids: dict = {}
        self.failed, self.loaded, self.armed_s, self._armed_s = "", 0, 0.0, time.monotonic()
        self._shuttles: list[_Shuttle] = []
        self._looked_s = -np.inf
        rig.each = self._look

    def close(self) -> None:
        """End the watchers, and what drives the vehicle."""
        for shuttle in self._shuttles:
            shuttle.ending = True
        self.arm_states.close()
        self.agv_states.close()

    def run(self) -> dict:
        """All of it, or as far as it goes; the summary."""
        try:
            self._course()
        except RobotError as error:
            self.failed = str(error).splitlines()[0][:300]
            self.say(self.failed)
        return self._summary()

    def _course(self) -> None:
        start_s, rig = time.monotonic(), self.rig
        rig.until(lambda: rig.vehicle()["driven"], "the vehicle's computer")
        rig.armed()
        self.armed_s, self._armed_s = time.monotonic() - start_s, time.monotonic()
        self.pids = rig.supervisor.pids()
        self.say("both armed; the vehicle docks, the arm picks")
        shuttle = self._shuttle("dock", loading.DOCK, DOCKING)
        if self.config.operator_stop:
            self._operator_stop()
        for number in range(self.config.loads):
            self._pick(number)
            self._reach(loading.BEHIND)
            if number == 0:
                self._wait_for(shuttle, "the vehicle at the dock")
                self.docking = docking_error(rig.vehicle()["pose"], loading.DOCK)
                self.say(f"docked: {self.docking}")
            last = number + 1 == self.config.loads
            shuttle = self._put_down(number, leave=last) or shuttle
        self._wait_for(shuttle, "the vehicle away")
        self.end = rig.until(self._vehicle_at_rest, "the vehicle at rest", REST_LIMIT_S)
        self.away = docking_error(self.end["pose"], loading.EXIT)

    # -- steps ----------------------------------------------------------------------------------------------------
    def _shuttle(self, name: str, pose: list[float], actions: list[dict]) -> _Shuttle:
        self._shuttles.append(_Shuttle(self.rig, name, pose, actions, self.waits["vehicle"], self.say))
        return self._shuttles[-1]

    def _wait_for(self, shuttle: _Shuttle, what: str) -> None:
        """Meanwhile whatever was stopped is armed again: by this job's operator."""
        def ended() -> bool:
            if not all(states.state.mode.startswith("ARMED") for states in (self.arm_states, self.agv_states)):
                self.rig.armed()
            return not shuttle.is_alive()

        self.rig.until(ended, what, SHUTTLE_LIMIT_S + 10.0)
        if not shuttle.arrived:
            raise RobotError(f"{what}: {shuttle.why}")

    def _vehicle_at_rest(self) -> dict | None:
        vehicle = self.rig.vehicle()
        return vehicle if abs(vehicle["twist"][0]) < 0.01 else None

    def _reach(self, q_rad: np.ndarray) -> None:
        """Move the arm there; where the vehicle is in the way, wait for it."""
        self.rig.reach(q_rad, self._in_the_way)
        self.waits["arm"].taken(time.monotonic())

    def _in_the_way(self, verdict: Verdict) -> bool:
        if not verdict.detail.startswith("interlock"):
            return False
        self.waits["arm"].refused(time.monotonic())
        again_s = time.monotonic() + AGAIN_S
        self.rig.until(lambda: time.monotonic() >= again_s, "the next try")
        return True

    def _pick(self, number: int) -> None:
        state = self.rig.score.state()
        yaw = float(scene.cube_yaw(np.array(state["quaternion_xyzw"]))[number])
        above, at = loading.pick(state["position_m"][number], yaw)
        self._reach(cell.HOME_Q_RAD)
        self.rig.grip(cell.GRIPPER_PREGRASP_M, lambda width: abs(width - cell.GRIPPER_PREGRASP_M) < 0.005)
        self._reach(above)
        self._reach(at)
        self.rig.grip(0.0, lambda width: abs(width - cell.CUBE_SIZE_M) < 0.004)
        self._reach(above)
        self._reach(cell.HOME_Q_RAD)
        self.say(f"cube {number + 1} picked")

    def _put_down(self, number: int, leave: bool) -> _Shuttle | None:
        """Onto the deck and back; with `leave` the vehicle is sent off at once, and waits until the arm is clear."""
        over, low = loading.deck(number)
        self._reach(over)
        self._reach(low)
        self.rig.grip(cell.GRIPPER_PREGRASP_M, lambda width: width > 0.055)
        self.rig.until(lambda: number in self.rig.vehicle()["loaded"], "the cube on the vehicle's deck")
        self.loaded += 1
        self.say(f"cube {number + 1} on the vehicle")
        shuttle = self._shuttle("out", loading.EXIT, []) if leave else None
        self._reach(over)
        self._reach(loading.BEHIND)
        return shuttle

    def _operator_stop(self) -> None:
        """At the arm's guard, while the vehicle drives and the arm moves: both stop, both are armed again."""
        rig = self.rig

        def both_move() -> bool:
            arm = rig.arm.state
            if not arm.mode.startswith("ARMED"):
                rig.armed()
            elif arm.at_rest:
                there = np.abs(np.array(arm.q_commanded_rad) - cell.HOME_Q_RAD).max() < 0.1
                rig.chunk(loading.BEHIND if there else cell.HOME_Q_RAD)
            driving = abs(rig.vehicle()["twist"][0]) > 0.1
            return driving and max(map(abs, arm.qd_commanded_rad_s)) > STOP_ABOVE_RAD_S

        rig.until(both_move, "arm and vehicle under way", SHUTTLE_LIMIT_S)
        vehicle_m_s, arm_rad_s = abs(rig.vehicle()["twist"][0]), max(map(abs, rig.arm.state.qd_commanded_rad_s))
        stopped_s = time.monotonic()
        operator.stop("operator", "cell run: stop in the middle")
        rest_s = {}

        def both_rest() -> bool:
            if rig.arm.state.mode == "STOPPED" and rig.arm.state.at_rest:
                rest_s.setdefault("arm", time.monotonic() - stopped_s)
            vehicle = self.agv_states.state
            if vehicle is not None and vehicle.mode == "STOPPED" and vehicle.at_rest:
                rest_s.setdefault("vehicle", time.monotonic() - stopped_s)
            return len(rest_s) == 2

        rig.until(both_rest, "both at rest after the operator's stop", 10.0)
        self.stop = {
            "vehicle_m_s": round(vehicle_m_s, 2), "arm_rad_s": round(arm_rad_s, 2),
            "rest_after_s": {name: round(seconds, 2) for name, seconds in rest_s.items()},
        }
        self.say(f"operator stop: {self.stop}")
        rig.armed()
        self.stop["rearmed"] = True

    # -- looking --------------------------------------------------------------------------------------------------
    def _look(self) -> None:
        now_s = time.monotonic()
        if now_s - self._looked_s < LOOK_S or self.rig.score is None or self.rig.arm is None or not self.rig.arm.state:
            return
        self._looked_s = now_s
        self.meeting.look(now_s, self.rig.vehicle(), self.rig.arm.state.q_rad)

    def _summary(self) -> dict:
        arm, agv = self.arm_states.monitor, self.agv_states.monitor
        violations = [*arm.violations, *agv.violations, *self.meeting.violations]
        watched = {"arm": self.arm_states.state, "vehicle": self.agv_states.state}
        carried = sum(k in self.end["loaded"] for k in range(self.config.loads))
        off_mm = max(abs(self.docking.get(name, 0.0)) for name in ("along_mm", "across_mm"))
        problems = [
            text for wrong, text in (
                (bool(self.failed), self.failed),
                (carried < self.config.loads, f"{self.config.loads - carried} loads are not on the vehicle at the end"),
                (bool(violations), f"{len(violations)} invariants broken"),
                (off_mm > DOCKED_MM, f"docked {off_mm:.0f} mm off, allowed {DOCKED_MM:g}"),
                (bool(set(self.pids.items()) - set(self.rig.supervisor.pids().items())), "a process ended on the way"),
            ) if wrong
        ]  # fmt: skip
        return {
            "ok": not problems, "problems": problems, "config": asdict(self.config),
            "loads": {"wanted": self.config.loads, "loaded": self.loaded, "carried": carried},
            "way": {"driven_m": round(self.meeting.driven_m, 2), "loaded_m": round(self.meeting.driven_loaded_m, 2)},
            "docking": self.docking, "away": self.away, "operator_stop": self.stop,
            "stops": {"arm": arm.stops, "vehicle": agv.stops}, "armings": {"arm": arm.armings, "vehicle": agv.armings},
            "waits": {name: waits.plain() for name, waits in self.waits.items()},
            "refused": {
                name: {k: n for k, n in (state.counters if state else {}).items() if k.startswith("refused") and n}
                for name, state in watched.items()
            },
            "violations": [asdict(v) for v in violations],
            "checked": {
                "arm_states": arm.states, "vehicle_states": agv.states, "looks_at_the_world": self.meeting.looks
            },
            "times": {"armed_s": round(self.armed_s, 1), "job_s": round(time.monotonic() - self._armed_s, 1)},
            "processes": {"pids": self.pids, "said": self.rig.said[-20:]},
        }
