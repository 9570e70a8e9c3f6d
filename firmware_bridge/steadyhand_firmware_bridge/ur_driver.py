"""A UR5 behind the stock ur_robot_driver (ros2_control): set-points to its position controller, state from its topics.

For those who run that driver already. Its guarantee is weaker than `ur5`'s, see docs/ur_robot_driver.md: no program of
ours runs on the controller, so the rules that our program keeps there (token, silence, first set-point, step) are kept
in this process, and a guard that dies leaves the arm holding its last set-point. `program_state`, token and echo of the
feedback are therefore this driver's own word. No ROS here: `ur_driver_link` is the seam.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from steadyhand import ur5
from steadyhand.protocols import ALIVE, Arming, ArmingPhase, Command, Feedback, ProgramState
from steadyhand_firmware_bridge.ur5_fields import WIDTH_PER_VOLT_M, gripper_opening, gripper_outputs
from steadyhand_firmware_bridge.ur_driver_arming import DriverArming
from steadyhand_firmware_bridge.ur_driver_joints import JointReader, JointReading
from steadyhand_firmware_bridge.ur_driver_link import POSITION_CONTROLLER, Call, DriverLink, UrDriverConfig
from steadyhand_firmware_bridge.ur_driver_stopping import DriverStopping

SILENCE_LIMIT_S = 0.040
UNREACHABLE_S = 0.5  # without a joint state
SCALING_SILENCE_S = 0.5
WATCH_S = 0.25  # how often it is asked which controllers are active and who else publishes
FIRST_SETPOINT_TOLERANCE_RAD = 0.01
STEP_MARGIN = 1.25  # a set-point may ask for the joints' full speed and a quarter more, as in our controller program


class UrDriverRobot:
    """Implements `protocols.Robot` over a link that `open_link` makes at `open`."""

    name = "ur_driver"
    joint_names = ur5.JOINT_NAMES

    def __init__(self, config: UrDriverConfig, open_link: Callable[[UrDriverConfig], DriverLink]):
        self.config = config
        self.period_s = 1.0 / config.frequency_hz
        self.joints = JointReader([config.joint_prefix + n for n in ur5.JOINT_NAMES])
        self._step_rad = ur5.QD_MAX_RAD_S * STEP_MARGIN * self.period_s
        self._open_link = open_link
        self._link: DriverLink | None = None
        self._now_s = self._opened_s = float("-inf")
        self._reading: JointReading | None = None
        self._feedback: Feedback | None = None
        self._state, self._token, self._seq, self._missed = ProgramState.NONE, 0, 0, 0
        self._first = False  # whether the next set-point is the first one
        self._q_sent_rad, self._qd_sent_rad_s = np.zeros(ur5.DOF), np.zeros(ur5.DOF)
        self._sent_s = float("-inf")
        self._arming: DriverArming | None = None
        self._stopping = DriverStopping()
        self._watch: Call | None = None
        self._watch_s = float("-inf")
        self._others = 0  # publishers beside us
        self._grip: list[Call] = []

    # --- connection ---

    def open(self, now_s: float) -> None:
        """Join the ROS graph; see `Robot.open`. Discovery goes on by itself, also when the driver comes back."""
        self._link = self._open_link(self.config)
        self._opened_s = self._now_s = now_s

    def service(self, now_s: float) -> None:
        """Take what has arrived; watch silence; advance arming and stopping."""
        link = self._link
        if link is None:
            return
        self._now_s = now_s
        link.spin()
        while link.joints:
            self._reading = self.joints.take(link.joints.popleft()) or self._reading
        if self._state in ALIVE:
            silent_s = now_s - self._sent_s
            self._missed = max(self._missed, int(silent_s / self.period_s) - 1)
            if silent_s > SILENCE_LIMIT_S:
                self._end(ProgramState.STOPPED_HEARTBEAT)
        self._ask(now_s)
        self._stopping.advance(link, now_s)
        if self._arming is not None and self._arming.advance(link, self._reading, now_s):
            self._ready(now_s)
        if self._reading is not None and not self._unheard():
            self._feedback = self._measure(self._reading)

    def _ask(self, now_s: float) -> None:
        """Now and then: does our controller still command, and alone?"""
        if self._watch is not None and self._watch.done:
            active = {c.name for c in self._watch.value or () if c.active}
            if self._watch.ok and self._state in ALIVE and POSITION_CONTROLLER not in active:
                self._end(ProgramState.NONE)  # somebody switched it off: the guard sees that the program is lost
            self._watch = None
        if now_s - self._watch_s >= WATCH_S:
            self._watch_s = now_s
            self._others = self._link.other_publishers()
            if self._watch is None and self._state in ALIVE:
                self._watch = self._link.call("list")

    def readable(self) -> list:
        """None: ROS has no socket to wait for; `service` looks each cycle."""
        return []

    def feedback(self) -> Feedback | None:
        """The newest measurement."""
        return self._feedback

    def troubles(self) -> Mapping[str, str]:
        """`robot_unreachable`, `robot_speed` (of an armed arm), `robot_shared`; see docs/faults.md."""
        if self._link is None:
            return {"robot_unreachable": "not connected yet"}
        silent_s = self._now_s - (self._opened_s if self._reading is None else self._reading.measured_s)
        if self._reading is None or silent_s > UNREACHABLE_S:
            refused = f"; refused so far: {self.joints.refused}, last: {self.joints.why}" if self.joints.refused else ""
            where = f"{self.config.namespace}/joint_states"
            hint = "is ur_robot_driver running, in this ROS_DOMAIN_ID and namespace?"
            return {"robot_unreachable": f"no joint state on {where} for {silent_s:.1f} s: {hint}{refused}"}
        if self._link.status.analog_input_0_is_current:
            where = f"{self.config.namespace}/io_and_status_controller/io_states"
            remedy = "set it to voltage in the controller's installation (I/O setup)"
            return {"robot_unreachable": f"{where}: analog input 0 is set to current, the gripper's width is a voltage: {remedy}"}
        unheard = self._unheard()
        if unheard:
            return {"robot_unreachable": f"nothing yet on {', '.join(unheard)}: are these controllers active?"}
        wrong = {}
        if self._others:
            where = f"{self.config.namespace}/{POSITION_CONTROLLER}/commands"
            wrong["robot_shared"] = (
                f"{self._others} more publish to {where}: end them, only the guard may command "
                "(one that was killed is listed for some 20 s more)"
            )
        if self._state in ALIVE:
            wrong |= self._speed()
        return wrong

    def _unheard(self) -> list[str]:
        """Topics that have said nothing yet. `robot_program_running` is not among them: the driver first says it when it
        changes, so that a program which has not run since the driver came up is silence."""
        status = self._link.status
        topics = {
            "io_and_status_controller/robot_mode": status.robot_mode,
            "io_and_status_controller/safety_mode": status.safety_mode,
            "io_and_status_controller/io_states": status.analog_input_0_v,
            "speed_scaling_state_broadcaster/speed_scaling": status.speed_scaling,
        }
        return [f"{self.config.namespace}/{name}" for name, value in topics.items() if value is None]

    def _speed(self) -> dict[str, str]:
        share = self._scaling()
        if self._now_s - self._link.status.speed_scaling_s > SCALING_SILENCE_S:
            return {"robot_speed": f"the driver has not told its speed scaling for {SCALING_SILENCE_S} s"}
        if not share >= self.config.speed_scaling_min:
            remedy = "set-points would run ahead; set the speed slider to 100 %"
            return {"robot_speed": f"speed scaling {share:.0%}: {remedy}"}
        return {}

    def _scaling(self) -> float:
        """Share of full speed; NaN as it comes."""
        return (self._link.status.speed_scaling or 0.0) / self.config.speed_scaling_full

    # --- arming ---

    def begin_arming(self, token: int, now_s: float) -> None:
        """End whatever runs, start the driver's program anew, activate the position controller alone."""
        self._state, self._token, self._missed = ProgramState.NONE, token, 0
        self._stopping.cancel()
        self._watch = None  # an answer from before tells nothing of what is armed now
        self._arming = DriverArming(self.config, now_s)

    def arming(self) -> Arming:
        """Where the arming stands."""
        return Arming(ArmingPhase.IDLE) if self._arming is None else self._arming.where

    def _ready(self, now_s: float) -> None:
        """From here on silence counts. Nothing has been published: the controller holds where the arm is."""
        self._state, self._seq, self._first = ProgramState.READY, 0, True
        self._q_sent_rad, self._qd_sent_rad_s = self._reading.q_rad.copy(), np.zeros(ur5.DOF)
        self._sent_s = now_s

    # --- commands ---

    def send(self, command: Command, token: int, seq: int, q_rad: np.ndarray) -> bool:
        """Keep our program's rules, then publish; False also when nobody listens to the set-points."""
        if self._link is None or not np.isfinite(q_rad).all():
            return False
        if self._state not in ALIVE:
            return True  # as to a program that has ended or not begun: the package goes nowhere
        if token != self._token:
            self._end(ProgramState.STOPPED_TOKEN)
        elif command is Command.HALT:
            self._end(ProgramState.HALTED)
        elif command is Command.HOLD:
            return self._publish(self._q_sent_rad, seq)
        elif command is not Command.SERVO:
            self._end(ProgramState.STOPPED_COMMAND)
        elif self._too_far(q_rad):
            self._end(ProgramState.STOPPED_SETPOINT)
        else:
            self._state, self._first = ProgramState.SERVOING, False
            return self._publish(q_rad, seq)
        return True

    def _too_far(self, q_rad: np.ndarray) -> bool:
        away = np.abs(q_rad - self._q_sent_rad)
        return bool((away > FIRST_SETPOINT_TOLERANCE_RAD).any() if self._first else (away > self._step_rad).any())

    def _publish(self, q_rad: np.ndarray, seq: int) -> bool:
        if not self._link.publish(q_rad):
            return False
        self._qd_sent_rad_s = (q_rad - self._q_sent_rad) / self.period_s
        self._q_sent_rad, self._seq, self._sent_s = np.array(q_rad, dtype=float), seq, self._now_s
        return True

    def _end(self, state: ProgramState) -> None:
        """No set-point any more, and the driver's program is ended, so that nothing holds a target."""
        self._state = state
        self._stopping.begin(self._now_s)

    def stop_program(self, now_s: float) -> None:
        """Dashboard stop, our controller off, trajectories cancelled; asked for again until answered, for 5 s."""
        if self._arming is not None:
            self._arming.stop()
        if self._state in ALIVE:
            self._state = ProgramState.NONE
        self._stopping.begin(now_s)
        if self._link is not None:
            self._stopping.advance(self._link, now_s)

    def command_gripper(self, width_m: float) -> bool:
        """Set the two outputs of the opening nearest to `width_m`. False while the command before is not answered."""
        self._grip = [c for c in self._grip if not c.done]
        if self._link is None or self._grip:
            return False
        bits = gripper_outputs(width_m)
        self._grip = [self._link.call("set_io", {"pin": pin, "on": bool(bits >> pin & 1)}) for pin in (0, 1)]
        return not any(c.done and not c.ok for c in self._grip)

    def close(self) -> None:
        """Let go; writes nothing."""
        if self._link is not None:
            self._link.close()
            self._link = None

    def _measure(self, reading: JointReading) -> Feedback:
        """The driver tells no target of the controller: while we command it is what was sent, else what is measured.

        A speed scaling of 0 is a program that is paused: it does not run.
        """
        status, alive = self._link.status, self._state in ALIVE
        return Feedback(
            stamp_s=reading.measured_s,
            controller_stamp_s=reading.stamp_s,
            q_rad=reading.q_rad,
            qd_rad_s=reading.qd_rad_s,
            q_target_rad=self._q_sent_rad if alive else reading.q_rad,
            qd_target_rad_s=self._qd_sent_rad_s if alive else reading.qd_rad_s,
            robot_mode=status.robot_mode,
            safety_mode=status.safety_mode,
            program_running=bool(status.program_running) and not (alive and self._scaling() <= 0.0),
            program_state=int(self._state),
            program_token=self._token,
            echoed_seq=self._seq,
            missed_cycles=self._missed,
            gripper_width_m=status.analog_input_0_v * WIDTH_PER_VOLT_M,
            gripper_commanded_m=gripper_opening(status.digital_outputs),
        )
