"""One arming of a UR5 after the other: is it the right robot, well and in remote control; its program ended; ours uploaded,
and heard of. An arm whose measures are not told is not the right one. Nothing waits; every step is within one time limit and fails by name.
"""
from __future__ import annotations

from collections.abc import Callable

from steadyhand.errors import RobotError
from steadyhand.protocols import ALIVE, Arming, ArmingPhase, Feedback, ProgramState
from steadyhand_firmware_bridge.dashboard import DashboardClient, DashboardReply
from steadyhand_firmware_bridge.primary import PRIMARY_PORT, PrimaryClient
from steadyhand_firmware_bridge.programs import Programs
from steadyhand_firmware_bridge.right_robot import MODEL, unfit_arm, unfit_firmware
from steadyhand_firmware_bridge.rtde import RtdeClient
from steadyhand_firmware_bridge.script_upload import SCRIPT_PORT, ScriptUpload
from steadyhand_firmware_bridge.ur5_fields import program_state_name

# What the dashboard must answer before a program is uploaded, and what to do when it answers something else.
CHECKS = {
    "robotmode": ("RUNNING", "power on and release the brakes at the pendant"),
    "safetymode": ("NORMAL", "clear the stop at the pendant, by a person who has seen why"),
    "is in remote control": ("true", "switch the pendant to remote control"),
    "get robot model": (MODEL, "limits and kinematics here are those of a UR5: do not use it here"),
}
NO_SESSION = "RTDE session lost"
MEASURES_REMEDY = f"allow port {PRIMARY_PORT} at the pendant (Settings, Security, Services) and on the way"


class Ur5Arming:
    """`begin` starts one, `advance` does what can be done now, `where` says where it stands."""

    def __init__(self, rtde: RtdeClient, dashboard: DashboardClient, primary: PrimaryClient, programs: Programs):
        self._rtde, self._dashboard, self._primary, self._programs = rtde, dashboard, primary, programs
        self.where = Arming(ArmingPhase.IDLE)
        self.token = 0  # of the newest
        self.upload: ScriptUpload | None = None
        self._step = ""
        self._program: Callable[[], str] = str
        self._deadline_s = self._limit_s = 0.0
        self._awaited: set[str] = set()
        self._e_series = False

    @property
    def under_way(self) -> bool:
        """Neither ready nor failed."""
        return self.where.phase is ArmingPhase.UNDER_WAY

    def begin(self, token: int, program: Callable[[], str], limit_s: float, now_s: float) -> None:
        """`program` writes the text that is uploaded, when its turn has come."""
        self._programs.begin_arming()
        self.token, self._program, self._limit_s, self._deadline_s = token, program, limit_s, now_s + limit_s
        self.close()
        version = self._rtde.controller_version
        self._e_series = version is not None and version[0] >= 5
        self._awaited = set(CHECKS) - ({"is in remote control"} if not self._e_series else set())
        self._step = "checks"
        self.where = Arming(ArmingPhase.UNDER_WAY, "asking the dashboard")
        unfit = self._unfit() if self._rtde.running else NO_SESSION  # of a session before it would be another robot's word
        if unfit:
            return self.fail(unfit)
        try:
            for command in sorted(self._awaited):
                self._dashboard.request(command, now_s)
        except RobotError as error:
            self.fail(str(error))

    def _unfit(self) -> str:
        """What forbids this robot for good, by what the controller has told so far."""
        version, arm = self._rtde.controller_version, self._primary.configured
        why = unfit_firmware(*version[:2]) if version is not None else ""
        if why:
            return f"firmware {'.'.join(map(str, version))}: {why}"
        return unfit_arm(arm.dh) if arm is not None else ""

    def fail(self, detail: str) -> None:
        """End it."""
        self.where = Arming(ArmingPhase.FAILED, detail)
        self.close()

    def replied(self, reply: DashboardReply) -> None:
        """An answer of the dashboard, to whomever."""
        if not self.under_way:
            return
        if reply.command == "stop" and self._step == "clear" and not reply.ok:
            self.fail(f"the program before was not ended: {reply.text}")
        elif reply.command in self._awaited:
            self._awaited.discard(reply.command)
            wanted, remedy = CHECKS[reply.command]
            if not reply.ok:
                self.fail(reply.text)
            elif reply.value.upper() != wanted.upper():
                self.fail(f"dashboard {reply.command}: {reply.value[:60]!r}, wanted {wanted}: {remedy}")

    def advance(self, feedback: Feedback | None, stop_asked: bool, now_s: float) -> bool:
        """Do what can be done now; true when the dashboard's `stop` is to be asked for.

        `stop_asked`: one is under way. A paused program does not count as running, so it is always asked for.
        """
        if now_s > self._deadline_s:
            hint = "; is the controller in remote control?" if self._e_series and self._step == "start" else ""
            self.fail(f"not done within {self._limit_s} s while {self.where.detail}{hint}")
        elif not self._rtde.running or feedback is None:
            self.fail(NO_SESSION)
        elif self._step == "checks" and not self._awaited:
            return self._measures_known()
        elif self._step == "clear" and not feedback.program_running and not stop_asked:
            self._step = "upload"
            self.where = Arming(ArmingPhase.UNDER_WAY, "uploading our program")
            self.upload = ScriptUpload(self._rtde.config.host, self._program())
        elif self._step in ("upload", "start"):
            self._advance_upload(feedback)
        return False

    def _measures_known(self) -> bool:
        """Whether it goes on, with the end of the program before."""
        unfit = self._unfit()
        if unfit:
            self.fail(unfit)
        elif self._primary.configured is None:
            self.where = Arming(ArmingPhase.UNDER_WAY, f"waiting for the arm's measures: {MEASURES_REMEDY}")
        else:
            self._step = "clear"
            self.where = Arming(ArmingPhase.UNDER_WAY, "ending the program before")
            return True
        return False

    def _advance_upload(self, feedback: Feedback) -> None:
        if self._programs.error:
            return self.fail(f"the controller does not run our program: {self._programs.error}")
        if self.upload is not None:
            failure = self.upload.advance()
            if failure:
                return self.fail(f"script port {self._rtde.config.host}:{SCRIPT_PORT}: {failure}")
            if self.upload.done and self._step == "upload":
                self._step = "start"
                self.where = Arming(ArmingPhase.UNDER_WAY, "waiting for our program to be ready")
        if feedback.program_token != self.token:
            return None  # state of a program before ours
        if feedback.program_state in ALIVE and feedback.program_running:
            self.close()
            self.where = Arming(ArmingPhase.READY)
        elif feedback.program_state not in ALIVE and feedback.program_state != ProgramState.NONE:
            self.fail(f"our program stopped at its start: state {program_state_name(feedback.program_state)}")
        return None

    def close(self) -> None:
        """Let go of the upload."""
        if self.upload is not None:
            self.upload.close()
            self.upload = None
