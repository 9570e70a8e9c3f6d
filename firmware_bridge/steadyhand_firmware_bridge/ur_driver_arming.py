"""Arming through the stock driver: one question after the other, none waited for, all within one time limit.

checks -> every controller of these joints off -> program ended -> program started anew (`resend_robot_program` or
`play`: on the operator's word, which an arming is) -> our controller on, alone -> full speed. A program that was only
paused is so never resumed with somebody's old target.
"""
from __future__ import annotations

from collections.abc import Sequence

from steadyhand import ur5
from steadyhand.protocols import Arming, ArmingPhase
from steadyhand.robot_status import NORMAL, RUNNING
from steadyhand_firmware_bridge.ur_driver_joints import JointReading
from steadyhand_firmware_bridge.ur_driver_link import (
    OTHER_MODES, POSITION_CONTROLLER, Call, Controller, DriverLink, UrDriverConfig,
)
from steadyhand_firmware_bridge.urdf_arm import unfit_description

MEASURED_WITHIN_S = 0.040
NOTHING_TO_STOP = "Failed to execute: stop"  # the dashboard's, when no program runs
REMOTE_REMEDY = (
    "is the pendant in remote control? After a switch, call dashboard_client/quit and dashboard_client/connect"
)
SAYS = {
    "off": "switching the joints' controllers off",
    "stop": "ending the program before",
    "start": "starting the driver's program",
    "on": f"activating {POSITION_CONTROLLER}",
    "speed": "waiting for full speed",
}


class DriverArming:
    """One arming. `advance` returns true once, when everything is ready."""

    def __init__(self, config: UrDriverConfig, now_s: float):
        self.config = config
        self.where = Arming(ArmingPhase.UNDER_WAY, "checking robot and driver")
        self._deadline_s = now_s + config.arming_timeout_s
        self._step = "check"
        self._asked = ""  # service of the call under way
        self._call: Call | None = None
        self._why = ""  # of the newest refusal that may pass

    def stop(self) -> None:
        """Ends an arming under way."""
        self._fail("stopped")

    def advance(self, link: DriverLink, reading: JointReading | None, now_s: float) -> bool:
        """Do what can be done now."""
        if self.where.phase is not ArmingPhase.UNDER_WAY:
            return False
        if now_s > self._deadline_s:
            after = f": {self._why}" if self._why else ""
            self._fail(f"not done within {self.config.arming_timeout_s} s while {self.where.detail}{after}")
        elif link.status.robot_mode != RUNNING:
            remedy = "power on and release the brakes at the pendant"
            self._fail(f"robot mode {link.status.robot_mode}, wanted {RUNNING}: {remedy}")
        elif link.status.safety_mode != NORMAL:
            self._fail(f"safety mode {link.status.safety_mode}, wanted {NORMAL}: see why, clear it at the pendant")
        else:
            getattr(self, f"_{self._step}")(link, reading, now_s)
        return self.where.phase is ArmingPhase.READY

    def _fail(self, detail: str) -> None:
        """What is being asked is not asked again: after a stop it would switch on, or start, what was ended."""
        if self._call is not None:
            self._call.drop()
            self._call = None
        if self.where.phase is ArmingPhase.UNDER_WAY:
            self.where = Arming(ArmingPhase.FAILED, detail)

    def _go(self, step: str) -> None:
        self._step, self._call, self._why = step, None, ""
        self.where = Arming(ArmingPhase.UNDER_WAY, SAYS[step])

    def _answer(self, link: DriverLink, service: str) -> Call | None:
        """The answer to one call of `service`; None while it is under way. The next question is a new call."""
        if self._call is None or self._asked != service:
            self._asked, self._call = service, link.call(service)
        if not self._call.done:
            return None
        answered, self._call = self._call, None
        return answered

    def _check(self, link: DriverLink, _reading: JointReading | None, _now_s: float) -> None:
        other, unfit = link.trajectory_under_way(), unfit_description(link.status.description, self.config.joint_prefix)
        if unfit:
            self._fail(unfit)
        elif other:
            self._fail(f"{other} executes somebody's trajectory: let it end, or cancel it")
        else:
            self._go("off")

    def _off(self, link: DriverLink, _reading: JointReading | None, _now_s: float) -> None:
        found = self._listed(link)
        if found is not None:
            active = [c.name for c in self._ours(found) if c.active]
            if not active:
                self._go("stop")
            else:
                self._switch(link, [], active)

    def _stop(self, link: DriverLink, _reading: JointReading | None, _now_s: float) -> None:
        if self._why != "answered":
            answer = self._answer(link, "stop")
            if answer is None:
                return
            if not answer.ok and (answer.text != NOTHING_TO_STOP or link.status.program_running):
                return self._fail(f"dashboard stop: {answer.text}; {REMOTE_REMEDY}")
            self._why = "answered"
        if not link.status.program_running:
            self._go("start")

    def _start(self, link: DriverLink, _reading: JointReading | None, _now_s: float) -> None:
        if self._why != "answered":
            answer = self._answer(link, self.config.restart)
            if answer is None:
                return
            if not answer.ok:
                return self._fail(f"{self.config.restart}: {answer.text}; {_remedy(self.config.restart)}")
            self._why = "answered"
        if link.status.program_running:
            self._go("on")

    def _on(self, link: DriverLink, _reading: JointReading | None, _now_s: float) -> None:
        """The driver's controller stopper may bring back what was active before: ask until ours alone is on."""
        found = self._listed(link)
        if found is None:
            return
        if POSITION_CONTROLLER not in {c.name for c in found}:
            return self._fail(f"{POSITION_CONTROLLER} is not loaded: load it, inactive, with the driver")
        active = [c.name for c in self._ours(found) if c.active]
        if active == [POSITION_CONTROLLER]:
            return self._go("speed")
        activate = [] if POSITION_CONTROLLER in active else [POSITION_CONTROLLER]
        return self._switch(link, activate, [n for n in active if n != POSITION_CONTROLLER])

    def _speed(self, link: DriverLink, reading: JointReading | None, now_s: float) -> None:
        scaling = (link.status.speed_scaling or 0.0) / self.config.speed_scaling_full
        if not scaling >= self.config.speed_scaling_min:
            self._why = (
                f"speed scaling {scaling:.0%}: set the speed slider to 100 %"
                + (" (or tell speed_scaling_full)" if link.status.speed_scaling == 1.0 else "")
            )
        elif reading is None or now_s - reading.measured_s > MEASURED_WITHIN_S:
            self._why = "no fresh joint state"
        else:
            self.where = Arming(ArmingPhase.READY)

    def _listed(self, link: DriverLink) -> Sequence[Controller] | None:
        """The controllers; None while a question or a switch is under way."""
        if self._asked == "switch" and self._call is not None:
            answer = self._answer(link, "switch")
            if answer is not None and not answer.ok:
                self._why = f"switch_controller: {answer.text}"
            return None
        answer = self._answer(link, "list")
        if answer is None:
            return None
        if not answer.ok:
            self._why = f"list_controllers: {answer.text}"  # asked again until the time is over
            return None
        return answer.value

    def _switch(self, link: DriverLink, activate: list[str], deactivate: list[str]) -> None:
        self._asked, self._call = "switch", link.call("switch", {"activate": activate, "deactivate": deactivate})

    def _ours(self, found: Sequence[Controller]) -> list[Controller]:
        """Those that command a joint of this arm, or put it into another mode."""
        ours = {self.config.joint_prefix + n for n in (*ur5.JOINT_NAMES, *OTHER_MODES)}
        return [c for c in found if any(claim.partition("/")[0] in ours for claim in c.claims)]


def _remedy(restart: str) -> str:
    if restart == "resend":
        return "start the driver with headless_mode:=true, or the guard with --driver-restart play"
    return "load a program with External Control at the pendant, in remote control"
