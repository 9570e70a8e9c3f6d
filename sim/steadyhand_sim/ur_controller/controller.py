"""The emulated controller: one `step()` per control cycle, over a `Plant`. No socket, no clock.

Order of a cycle: power and safety state, watchdogs, the program (which may command a motion), the motion (which makes
the joint target), the plant, supervision. What RTDE clients wrote since the last cycle is seen by the program in this
one; what the cycle produced goes out right after it.
"""
from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from steadyhand.errors import SteadyhandError
from steadyhand_sim.ur_controller import frames, modes
from steadyhand_sim.ur_controller.builtins_io import three
from steadyhand_sim.ur_controller.config import ControllerConfig
from steadyhand_sim.ur_controller.derived import Tool
from steadyhand_sim.ur_controller.modes import RobotMode, RuntimeState, SafetyMode
from steadyhand_sim.ur_controller.motion import Brake, Hold, Motion, Setpoint
from steadyhand_sim.ur_controller.pendant import PendantMixin
from steadyhand_sim.ur_controller.plant import Plant, PlantCommand
from steadyhand_sim.ur_controller.registers import Bank
from steadyhand_sim.ur_controller.stop_monitor import StopMonitor

ProgramFactory = Callable[[str, Mapping[str, Callable[..., Any]], float, Callable[[str], None]], Any]
MAX_MESSAGES = 500
SLIDER_TIME_S = 0.1  # the speed slider acts within this time, not with a jolt


def urscript_program(source: str, builtins: Mapping[str, Any], steptime_s: float, log: Callable[[str], None]) -> Any:
    """The interpreter of this project."""
    from steadyhand_sim.urscript import Machine

    return Machine(source, builtins, steptime_s=steptime_s, on_message=log)


class URController(PendantMixin):
    """See the module's docstring; `PendantMixin` holds what a person or the cell does to the robot."""

    def __init__(
        self,
        plant: Plant,
        config: ControllerConfig = ControllerConfig(),
        program_factory: ProgramFactory = urscript_program,
    ):
        import steadyhand_sim.urscript  # noqa: F401 now: at the first upload it would cost two control cycles
        from steadyhand_sim.ur_controller.builtins import Builtins  # it needs this module's types

        self.config, self.plant = config, plant
        self._program_factory = program_factory
        self.time_s = 0.0
        self.cycle = 0
        self.robot_mode = RobotMode.RUNNING
        self.safety_mode = SafetyMode.NORMAL
        self.runtime_state = RuntimeState.STOPPED
        self.remote_control = True  # e-Series; CB3 has no such switch
        self.control_switches = 0  # between local and remote
        self.freedrive_pressed = False
        self.freedrive = False  # by the program: teach_mode, freedrive_mode
        self.shut_down = False
        self.loaded_program = ""
        self.inputs, self.outputs = Bank(), Bank()
        self.digital_outputs = 0
        self.analog_outputs = [0.0, 0.0]  # fraction of the range
        self.analog_domains = [0, 0]  # 0 current, 1 voltage
        self.tool_voltage_v = 0
        self.speed_slider = self.speed_scaling = 1.0
        self.payload_kg, self.payload_cog_m = 0.0, (0.0, 0.0, 0.0)
        self.payload_inertia = (0.0,) * 6
        self.gravity_m_s2 = (0.0, 0.0, 9.82)
        self.external_force_n: tuple[float, ...] = (0.0,) * 6  # input external_force_torque
        self.external_sensor = False  # use it in place of the robot's own estimate
        self.tcp = np.array(config.tcp, dtype=float)
        self.measured = plant.state()
        self.target = Setpoint.at_rest(self.measured.q_rad)
        self.motion: Motion = Hold()
        self.program: Any = None
        self.program_name = ""
        self.messages: deque[tuple[float, str]] = deque(maxlen=MAX_MESSAGES)
        self.message_count = 0
        self.popup = ""
        self.counters = {"programs": 0, "programs_refused": 0, "protective_stops": 0, "program_errors": 0}
        self._interrupted: Motion | None = None
        self._power_timer: tuple[float, RobotMode] | None = None
        self._watchdogs: dict[str, tuple[float, str]] = {}  # input field -> period, action
        self._input_times: dict[str, float] = {}
        self._history: deque[list[float]] = deque(maxlen=64)
        self._forces: deque[np.ndarray] = deque(maxlen=64)
        self._protective_s = -math.inf
        self._stop_monitor = StopMonitor(config.joint_speed_limit_rad_s, 0.0)  # a new one with each stop
        # "started", "stopped" with the program's name, "error" with line and reason
        self.on_program_event: Callable[[str, int, str], None] = lambda kind, line, text: None
        self.builtins = Builtins(self)
        self._tool = Tool(self.target, self.measured, self.tcp)

    # ---- one control cycle -------------------------------------------------------------------------------------

    def step(self) -> None:
        """Advance by one control cycle."""
        dt_s = self.config.steptime_s
        self.cycle += 1
        self.time_s = self.cycle * dt_s
        self._power()
        self._check_watchdogs()
        self._run_program()
        self._move(dt_s)
        braked = self.robot_mode is not RobotMode.RUNNING
        self.measured = self.plant.step(
            PlantCommand(
                self.target.q_rad, self.target.qd_rad_s, self.target.qdd_rad_s2, braked, self.digital_outputs
            ),
            dt_s,
        )
        if braked:
            self.target = Setpoint.at_rest(self.measured.q_rad)
        else:
            self._supervise()
        self._history.appendleft(self.measured.q_rad.tolist())
        self._forces.appendleft(self.tcp_force_n)
        self._tool = Tool(self.target, self.measured, self.tcp)

    def _power(self) -> None:
        if self._power_timer is not None and self.time_s >= self._power_timer[0]:
            self.robot_mode, self._power_timer = self._power_timer[1], None
        if self.safety_mode in modes.POWERLESS and not self.target.moving:
            self.robot_mode, self._power_timer = RobotMode.POWER_OFF, None  # category 1: power off once at rest

    def _check_watchdogs(self) -> None:
        """rtde_set_watchdog: no input update for 1/frequency seconds."""
        if self.runtime_state is not RuntimeState.PLAYING:
            return
        for name, (period_s, action) in list(self._watchdogs.items()):
            if self.time_s - self._input_times.get(name, 0.0) > period_s:
                self.log(f"RTDE watchdog of {name}: no update for {period_s:g} s, action {action}")
                if action == "stop":
                    self.stop_program()
                else:
                    self.pause_program()
                return

    def _run_program(self) -> None:
        if self.runtime_state is RuntimeState.RESUMING:
            self.runtime_state = RuntimeState.PLAYING
            if self._interrupted is not None:
                self._interrupted.replan(self.target)
                self.motion, self._interrupted = self._interrupted, None
        if self.runtime_state is not RuntimeState.PLAYING:
            return
        self.program.tick()
        if self.program is not None and not self.program.running:
            if self.program.error is not None:
                self.counters["program_errors"] += 1
                self.log(f"program {self.program_name}: {self.program.error}")
                self.on_program_event("error", self.program.error.line, self.program.error.reason)
            self._end_program()

    def _move(self, dt_s: float) -> None:
        if self.robot_mode is RobotMode.RUNNING:
            change = dt_s / SLIDER_TIME_S
            self.speed_scaling += float(np.clip(self.speed_slider - self.speed_scaling, -change, change))
            try:
                self.target = self.motion.step(self.target, dt_s, max(self.speed_scaling, 1e-3))
            except (SteadyhandError, ValueError) as error:
                self.protective_stop(f"motion cannot go on: {error}")
                self.target = self.motion.step(self.target, dt_s, 1.0)
        else:
            self.motion = Hold()
        if self.motion.done:
            if self.runtime_state is RuntimeState.PAUSING:
                self.runtime_state = RuntimeState.PAUSED
            elif self.runtime_state is RuntimeState.STOPPING:
                self.runtime_state = RuntimeState.STOPPED

    def _supervise(self) -> None:
        if self.safety_mode in modes.CONTROLLED:
            wrong = self._stop_monitor.look(self.measured.q_rad, self.measured.qd_rad_s, self.time_s)
            if wrong:
                self.violation(wrong)
        if self.safety_mode not in modes.MOTION_ALLOWED:
            return
        speed = float(np.abs(self.target.qd_rad_s).max())
        if not speed <= self.config.joint_speed_limit_rad_s:
            self.protective_stop(f"joint speed limit: {speed:.2f} rad/s")
        deviation = float(np.abs(self.target.q_rad - self.measured.q_rad).max())
        if not deviation <= self.config.deviation_limit_rad:
            self.protective_stop(f"position deviates from path: {deviation:.3f} rad")

    # ---- derived quantities ------------------------------------------------------------------------------------

    @property
    def tool(self) -> Tool:
        """TCP poses and speeds of this cycle."""
        return self._tool

    @property
    def script_line(self) -> int:
        """Line that the program executed last; 0 without one."""
        return getattr(self.program, "line", 0)

    def q_history(self, steps: int) -> list[float]:
        """Measured joints `steps` cycles ago (ValueError below 0); the oldest known if that is further back."""
        if steps < 0:
            raise ValueError(f"steps = {steps}: the future is not known")
        if not self._history:
            return self.measured.q_rad.tolist()
        return list(self._history[min(steps, len(self._history) - 1)])

    @property
    def tcp_force_n(self) -> np.ndarray:
        """(6,) N, N m at the TCP in `base`: the plant's, or an external sensor's when a program has enabled it."""
        return np.array(self.external_force_n) if self.external_sensor else self.measured.tcp_force_n

    def contact_steps(self, direction: np.ndarray) -> int:
        """For how many cycles the tool has been pressed against `direction` (3,); against any when it is zero."""
        size = float(np.linalg.norm(direction))
        steps = 0
        for force in self._forces:
            pressed = float(np.linalg.norm(force[:3])) if size == 0.0 else float(-force[:3] @ direction / size)
            if pressed < self.config.contact_n:
                break
            steps += 1
        return steps

    # ---- what programs and clients do --------------------------------------------------------------------------

    def command(self, motion: Motion) -> Motion:
        """Make `motion` the one under way; while a stop acts it waits for the program to be resumed.

        Raises ValueError in freedrive.
        """
        if self.freedrive:
            raise ValueError("the arm is in freedrive: end it before a motion")
        if self.runtime_state is RuntimeState.PLAYING:
            self.motion, self._interrupted = motion, None
        else:
            self._interrupted = motion
        return motion

    def commanded(self, motion: Motion) -> bool:
        """Whether `motion` still has to be completed (under way, or interrupted by a pause)."""
        return not motion.done and (motion is self.motion or motion is self._interrupted)

    def set_tcp(self, tcp: np.ndarray) -> None:
        """TCP in the flange."""
        self.tcp = tcp
        self._tool = Tool(self.target, self.measured, self.tcp)

    def set_payload(self, mass_kg: float, cog_m: Any = None) -> None:
        """kg and, when given, m in the flange. Raises ValueError outside 0..10 kg."""
        if not 0.0 <= mass_kg <= 10.0:
            raise ValueError(f"payload {mass_kg!r} kg is outside 0..10")
        if cog_m is not None:
            self.payload_cog_m = three("cog", cog_m)
        self.payload_kg = float(mass_kg)

    def begin_freedrive(self) -> None:
        """A program lets go of the arm; raises ValueError while it moves."""
        if self.target.moving:
            raise ValueError("freedrive while the arm moves")
        self.motion, self.freedrive = Hold(), True

    def waypoint(self) -> np.ndarray:
        """(6,) pose in `base` at which the motion under way ends; the target's when none has an end."""
        goal = getattr(self.motion, "goal_q_rad", None)
        return self.tool.target_pose if goal is None else frames.forward(goal(self.target), self.tcp)

    def analog_output(self, index: int) -> float:
        """V or A, by the output's domain (RTDE guide): 0..10 V or 4..20 mA."""
        fraction = self.analog_outputs[index]
        return 10.0 * fraction if self.analog_domains[index] else 0.004 + 0.016 * fraction

    def set_digital_outputs(self, mask: int, values: int) -> None:
        """Change the masked bits of the digital outputs."""
        self.digital_outputs = self.digital_outputs & ~mask | values & mask

    def set_analog_output(self, index: int, value: float) -> None:
        """0..1 of the output's range."""
        self.analog_outputs[index] = float(np.clip(value, 0.0, 1.0))

    def set_speed_slider(self, fraction: float) -> None:
        """0..1; a number that is not finite is ignored."""
        if np.isfinite(fraction):
            self.speed_slider = float(np.clip(fraction, 0.0, 1.0))

    def note_input(self, name: str) -> None:
        """An RTDE client updated this input (fed to the watchdogs)."""
        self._input_times[name] = self.time_s

    def set_watchdog(self, name: str, min_frequency_hz: float, action: str) -> None:
        """rtde_set_watchdog; "ignore" or frequency 0 removes it. Ends with the program."""
        if action not in ("ignore", "pause", "stop"):
            raise ValueError(f"watchdog action {action!r} is none of ignore, pause, stop")
        if not math.isfinite(min_frequency_hz):
            raise ValueError(f"watchdog min_frequency {min_frequency_hz!r} is not a finite number")
        if action == "ignore" or min_frequency_hz <= 0.0:
            self._watchdogs.pop(name, None)
            return
        self._watchdogs[name] = (1.0 / min_frequency_hz, action)
        self.note_input(name)

    def log(self, text: str) -> None:
        """One line of the controller's log."""
        self.messages.append((self.time_s, text[:1000]))
        self.message_count += 1

    def start_program(self, source: str) -> bool:
        """Run an uploaded program in place of the one there is. False, with the reason in the log, when refused."""
        reason = self._why_no_program()
        program = None
        if not reason:
            try:
                program = self._program_factory(
                    source, self.builtins.table(), self.config.steptime_s, self.log
                )
            except SteadyhandError as error:
                reason = str(error)
                self.on_program_event("error", getattr(error, "line", 0), getattr(error, "reason", reason))
        if reason:
            self.counters["programs_refused"] += 1
            self.log(f"program refused: {reason}")
            return False
        if self.program is not None:
            self.stop_program()
        self.program, self.program_name = program, getattr(program, "name", "") or "unnamed"
        self.runtime_state = RuntimeState.PLAYING
        self._watchdogs.clear()
        self.counters["programs"] += 1
        self.on_program_event("started", 0, self.program_name)
        return True

    def run_secondary(self, source: str) -> bool:
        """A `sec` program: runs once beside the main one; takes no time and commands no motion (script manual)."""
        try:
            program = self._program_factory(
                source, self.builtins.secondary_table(), self.config.steptime_s, self.log
            )
            program.tick()
        except SteadyhandError as error:
            self.log(f"secondary program refused: {error}")
            return False
        if program.running or program.error is not None:
            program.kill()
            self.log(f"secondary program ended: {program.error or 'it takes physical time'}")
            return False
        return True

    def _why_no_program(self) -> str:
        if self.robot_mode is not RobotMode.RUNNING:
            return f"robot mode is {self.robot_mode.name}"
        if self.safety_mode not in modes.MOTION_ALLOWED:
            return f"safety mode is {self.safety_mode.name}"
        if self.config.is_e_series and not self.remote_control:
            return "local control"
        return ""

    def _end_program(self) -> None:
        """The program is over: brake if moving."""
        self.on_program_event("stopped", 0, self.program_name)
        self.program, self.freedrive = None, False
        self._interrupted = None
        self._watchdogs.clear()
        if not isinstance(self.motion, Brake) or self.motion.done:
            self.motion = Brake(self.target, self.config.program_stop_rad_s2)
        self.runtime_state = RuntimeState.STOPPED if self.motion.done else RuntimeState.STOPPING
