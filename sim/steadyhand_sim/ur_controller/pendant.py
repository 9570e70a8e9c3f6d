"""What a person at the pendant, the safety inputs and the power button do to the controller."""
from __future__ import annotations

from steadyhand_sim.ur_controller import modes
from steadyhand_sim.ur_controller.modes import RobotMode, RuntimeState, SafetyMode
from steadyhand_sim.ur_controller.motion import Brake
from steadyhand_sim.ur_controller.stop_monitor import StopMonitor


class PendantMixin:
    """Part of `URController`; the state it works on is made there."""

    def stop_program(self) -> None:
        """Pendant or dashboard stop: the program ends, a moving arm brakes."""
        if self.program is not None:
            self.program.kill()
            self._end_program()

    def pause_program(self) -> bool:
        """The program and its motion pause; false when there is none running."""
        if self.runtime_state not in (RuntimeState.PLAYING, RuntimeState.RESUMING):
            return False
        self._pause(self.config.program_stop_rad_s2)
        return True

    def play_program(self) -> bool:
        """Go on with a paused program, exactly where it was; false when there is none or motion is not allowed."""
        if self.runtime_state is not RuntimeState.PAUSED or self._why_no_program():
            return False
        self.runtime_state = RuntimeState.RESUMING
        return True

    def load_program(self, name: str) -> bool:
        """Load a file of the controller; false when there is none of this name. Ends the program before."""
        if name not in dict(self.config.programs):
            return False
        self.stop_program()
        self.loaded_program = name
        return True

    def press_play(self) -> bool:
        """Play: go on with a paused program, else start the loaded one; false when neither can be done."""
        if self.play_program():
            return True
        if self.runtime_state is not RuntimeState.STOPPED or not self.loaded_program:
            return False
        return self.start_program(dict(self.config.programs)[self.loaded_program])

    def protective_stop(self, reason: str = "requested") -> None:
        """Category 2 stop; the program is only paused and would go on when played after unlocking."""
        if self.safety_mode in modes.MOTION_ALLOWED:
            self.counters["protective_stops"] += 1
            self._protective_s = self.time_s
            self._safety_stop(SafetyMode.PROTECTIVE_STOP, reason)

    @property
    def protective_age_s(self) -> float:
        """Time since the newest protective stop."""
        return self.time_s - self._protective_s

    def safeguard_stop(self) -> None:
        """Category 2 stop while the safeguard input is open."""
        if self.safety_mode in modes.MOTION_ALLOWED:
            self._safety_stop(SafetyMode.SAFEGUARD_STOP, "safeguard input")

    def release_safeguard(self, automatic_resume: bool = True) -> None:
        """The safeguard closes. UR5 manual: without a reset input the program resumes by itself."""
        if self.safety_mode in modes.SAFEGUARD:
            self.safety_mode = SafetyMode.NORMAL
            if automatic_resume:
                self.play_program()

    def automatic_safeguard_stop(self) -> None:
        """e-Series: the safeguard of automatic mode opens."""
        if self.safety_mode in modes.MOTION_ALLOWED:
            self._safety_stop(SafetyMode.AUTOMATIC_MODE_SAFEGUARD_STOP, "automatic mode safeguard input")

    def three_position_stop(self) -> None:
        """e-Series: the three-position enabling device is let go, or pressed through."""
        if self.safety_mode in modes.MOTION_ALLOWED:
            self._safety_stop(SafetyMode.SYSTEM_THREE_POSITION_ENABLING_STOP, "enabling device")

    def recovery_mode(self) -> None:
        """The arm stands outside its safety limits: programs may not move it until it is brought back by hand."""
        if self.safety_mode in modes.MOTION_ALLOWED:
            self._safety_stop(SafetyMode.RECOVERY, "outside the safety limits")

    def leave_recovery(self) -> None:
        """It has been brought back."""
        if self.safety_mode is SafetyMode.RECOVERY:
            self.safety_mode = SafetyMode.NORMAL

    def violation(self, reason: str = "violation") -> None:
        """The safety system found a violation of its limits: category 0, until the safety system is restarted."""
        if self.safety_mode not in modes.BROKEN:
            self._category_0(SafetyMode.VIOLATION, reason)

    def fault(self) -> None:
        """The safety system has a fault of its own: category 0 too."""
        if self.safety_mode is not SafetyMode.FAULT:
            self._category_0(SafetyMode.FAULT, "fault")

    def restart_safety(self) -> None:
        """Ends the program; the robot is powered off afterwards (dashboard manual)."""
        self.power_off()
        if self.safety_mode in modes.BROKEN:
            self.safety_mode = SafetyMode.NORMAL

    def shutdown(self) -> None:
        """The controller is switched off: its ports close."""
        self.power_off()
        self.shut_down = True

    def emergency_stop(self, system: bool = False) -> None:
        """Category 1 stop: brakes, then power off. The program is only paused."""
        mode = SafetyMode.SYSTEM_EMERGENCY_STOP if system else SafetyMode.ROBOT_EMERGENCY_STOP
        if self.safety_mode not in modes.POWERLESS:
            self._safety_stop(mode, "emergency stop")

    def release_emergency_stop(self) -> None:
        """The button is pulled out: safety normal, power stays off."""
        if self.safety_mode in modes.EMERGENCY:
            self.safety_mode = SafetyMode.NORMAL
            self.robot_mode = RobotMode.POWER_OFF

    def unlock_protective_stop(self) -> bool:
        """False when there is none."""
        if self.safety_mode is not SafetyMode.PROTECTIVE_STOP:
            return False
        self.safety_mode = SafetyMode.NORMAL
        return True

    def set_reduced(self, reduced: bool) -> None:
        """Reduced mode of the safety system (limits are not modelled, the mode is shown)."""
        if self.safety_mode in modes.MOTION_ALLOWED:
            self.safety_mode = SafetyMode.REDUCED if reduced else SafetyMode.NORMAL

    def power_on(self) -> bool:
        """POWER_OFF -> IDLE after a while; false in an emergency stop, violation or fault."""
        if self.safety_mode in modes.POWERLESS:
            return False
        if self.robot_mode is RobotMode.POWER_OFF:
            self.robot_mode = RobotMode.BOOTING
            self._power_timer = (self.time_s + self.config.power_on_s, RobotMode.IDLE)
        return True

    def power_off(self) -> None:
        """Ends the program; the brakes engage."""
        self.stop_program()
        self.robot_mode, self._power_timer = RobotMode.POWER_OFF, None

    def brake_release(self) -> bool:
        """IDLE -> RUNNING after a while; from POWER_OFF it powers on too, as the dashboard's command does."""
        if self.safety_mode in modes.POWERLESS:
            return False
        if self.robot_mode is not RobotMode.RUNNING:
            off = self.robot_mode is RobotMode.POWER_OFF
            wait_s = self.config.brake_release_s + (self.config.power_on_s if off else 0.0)
            self.robot_mode = RobotMode.BOOTING if off else self.robot_mode
            self._power_timer = (self.time_s + wait_s, RobotMode.RUNNING)
        return True

    def reduced_mode(self) -> None:
        """The reduced-mode input opens."""
        self.set_reduced(True)

    def normal_mode(self) -> None:
        """The reduced-mode input closes."""
        self.set_reduced(False)

    def local_control(self) -> None:
        """e-Series: the pendant takes control."""
        self.set_remote_control(False)

    def remote_control_on(self) -> None:
        """e-Series: the pendant gives control to the network."""
        self.set_remote_control(True)

    def press_freedrive(self) -> None:
        """The freedrive button is held. Shown in robot_status_bits; the hand that moves the arm is not modelled."""
        self.freedrive_pressed = True

    def release_freedrive(self) -> None:
        """The freedrive button is let go."""
        self.freedrive_pressed = False

    def set_remote_control(self, remote: bool) -> None:
        """e-Series: remote or local control."""
        self.control_switches += remote is not self.remote_control
        self.remote_control = remote

    def _safety_stop(self, mode: SafetyMode, reason: str) -> None:
        self.safety_mode = mode
        self._stop_monitor = StopMonitor(self.config.joint_speed_limit_rad_s, self.time_s)
        self.log(f"{mode.name}: {reason}")
        if self.program is not None:
            self._pause(self.config.safety_stop_rad_s2)
        else:
            self.motion = Brake(self.target, self.config.safety_stop_rad_s2)

    def _category_0(self, mode: SafetyMode, reason: str) -> None:
        """No controlled braking: the power is gone, the brakes take the arm. The program is only paused."""
        self._safety_stop(mode, reason)
        self.robot_mode, self._power_timer = RobotMode.POWER_OFF, None

    def _pause(self, deceleration_rad_s2: float) -> None:
        if self.runtime_state not in (RuntimeState.PAUSING, RuntimeState.PAUSED) and not self.motion.done:
            self._interrupted = self.motion
        self.motion = Brake(self.target, deceleration_rad_s2)
        self.runtime_state = RuntimeState.PAUSED if self.motion.done else RuntimeState.PAUSING
