"""What every driver must do, whatever is behind it. `test_robot_*.py` give each a `bench` fixture with a Bench.

The tests drive time by `Bench.run`, so that one file serves the in-process robot and one behind real sockets.
"""
from __future__ import annotations

import abc

import numpy as np

from steadyhand.protocols import ALIVE, ArmingPhase, Command, ProgramState, Robot
from steadyhand.watchdog import REST_SPEED_RAD_S

TOKEN = 123456


class Bench(abc.ABC):
    """A robot and a way to let time pass. Subclasses set `robot` and `now_s` when made."""

    robot: Robot
    now_s: float
    seq = 0
    token = TOKEN  # a new one at each arming

    @abc.abstractmethod
    def tick(self) -> None:
        """Let one control period pass."""

    def run(self, seconds, each=lambda: None, until=None):
        """Tick for up to `seconds`; true when `until()` held (or there is none)."""
        for _ in range(round(seconds / self.robot.period_s)):
            self.tick()
            self.robot.service(self.now_s)
            each()
            if until is not None and until():
                return True
        return until is None

    def state_is(self, state):
        return lambda: self.robot.feedback().program_state == state

    def connect(self):
        self.robot.open(self.now_s)
        assert self.run(5.0, until=lambda: self.robot.feedback() is not None and not self.robot.troubles())

    def send(self, command, q_rad=None, token=None):
        self.seq += 1
        q_rad = self.robot.feedback().q_target_rad if q_rad is None else q_rad
        return self.robot.send(command, token or self.token, self.seq, q_rad)

    def arm(self):
        self.token += 1
        self.robot.begin_arming(self.token, self.now_s)
        decided = lambda: self.robot.arming().phase is not ArmingPhase.UNDER_WAY  # noqa: E731
        assert self.run(5.0, lambda: self.send(Command.HOLD), decided)
        assert self.robot.arming().phase is ArmingPhase.READY, self.robot.arming()

    def move(self, seconds, speed_rad_s=0.3):
        """Servo joint 0 along a ramp that reaches `speed_rad_s` after 0.2 s."""
        self.q_sent, v = self.robot.feedback().q_target_rad.copy(), 0.0

        def each():
            nonlocal v
            v = min(speed_rad_s, v + speed_rad_s * self.robot.period_s / 0.2)
            self.q_sent = self.q_sent + np.array([v * self.robot.period_s, 0, 0, 0, 0, 0])
            assert self.send(Command.SERVO, self.q_sent)

        self.run(seconds, each)

    def speed(self):
        return float(np.abs(self.robot.feedback().qd_target_rad_s).max())

    def still(self):
        return np.abs(self.robot.feedback().qd_rad_s).max() < REST_SPEED_RAD_S and self.speed() < REST_SPEED_RAD_S


class RobotContract:
    """Inherit, and give a fixture `bench` (unconnected)."""

    def test_connecting_moves_and_arms_nothing(self, bench):
        bench.connect()
        before = bench.robot.feedback().q_rad.copy()
        bench.run(0.3)
        feedback = bench.robot.feedback()
        assert bench.robot.arming().phase is ArmingPhase.IDLE and feedback.program_state == ProgramState.NONE
        assert np.abs(feedback.q_rad - before).max() < 1e-3
        assert feedback.robot_mode == 7 and feedback.safety_mode == 1

    def test_arming_echoes_the_token_and_stands_still(self, bench):
        bench.connect()
        before = bench.robot.feedback().q_rad.copy()
        bench.arm()
        feedback = bench.robot.feedback()
        assert feedback.program_token == bench.token and feedback.program_state in ALIVE and feedback.program_running
        assert np.abs(feedback.q_rad - before).max() < 1e-3

    def test_follows_set_points(self, bench):
        bench.connect()
        bench.arm()
        start = bench.robot.feedback().q_rad[0]
        bench.move(0.6)
        assert bench.run(1.0, lambda: bench.send(Command.SERVO, bench.q_sent), bench.still)
        bench.run(0.3, lambda: bench.send(Command.SERVO, bench.q_sent))
        feedback = bench.robot.feedback()
        assert bench.q_sent[0] - start > 0.1
        assert np.abs(feedback.q_rad - bench.q_sent).max() < 5e-3
        assert feedback.program_state == ProgramState.SERVOING and bench.seq - feedback.echoed_seq <= 5

    def test_silence_stops_it_and_it_stays_stopped(self, bench):
        bench.connect()
        bench.arm()
        bench.move(0.5)
        assert bench.speed() > 0.2
        assert bench.run(1.0, until=bench.state_is(ProgramState.STOPPED_HEARTBEAT))
        assert bench.run(2.0, until=bench.still)
        at = bench.robot.feedback().q_rad.copy()
        bench.run(0.3, lambda: bench.send(Command.SERVO, bench.q_sent + 0.1))  # nobody resumes an ended program
        assert np.abs(bench.robot.feedback().q_rad - at).max() < 2e-3

    def test_a_foreign_token_stops_it(self, bench):
        bench.connect()
        bench.arm()
        bench.move(0.5)
        foreign = lambda: bench.send(Command.SERVO, bench.q_sent, bench.token + 1)  # noqa: E731
        assert bench.run(1.0, foreign, bench.state_is(ProgramState.STOPPED_TOKEN))
        assert bench.run(2.0, until=bench.still)

    def test_halt_ends_the_program(self, bench):
        bench.connect()
        bench.arm()
        assert bench.run(1.0, lambda: bench.send(Command.HALT), lambda: not bench.robot.feedback().program_running)
        assert bench.robot.feedback().program_state == ProgramState.HALTED

    def test_stop_program_stops_and_ends_it(self, bench):
        bench.connect()
        bench.arm()
        bench.move(0.5)
        bench.robot.stop_program(bench.now_s)
        assert bench.run(2.0, until=lambda: not bench.robot.feedback().program_running)
        assert bench.run(2.0, until=bench.still)

    def test_stop_program_ends_an_arming(self, bench):
        bench.connect()
        bench.robot.begin_arming(TOKEN, bench.now_s)
        bench.robot.stop_program(bench.now_s)
        assert bench.robot.arming().phase is ArmingPhase.FAILED

    def test_can_be_armed_again(self, bench):
        bench.connect()
        bench.arm()
        bench.move(0.3)
        assert bench.run(2.0, until=bench.state_is(ProgramState.STOPPED_HEARTBEAT))
        assert bench.run(2.0, until=bench.still)
        bench.arm()
        assert bench.robot.feedback().program_token == bench.token

    def test_a_set_point_that_is_not_finite_is_not_sent(self, bench):
        bench.connect()
        bench.arm()
        assert not bench.send(Command.SERVO, np.full(6, np.nan))

    def test_gripper_goes_where_it_is_told_and_no_stop_writes_it(self, bench):
        bench.connect()
        for width_m in (0.0, 0.085, 0.062):
            assert bench.robot.command_gripper(width_m)
            reached = lambda: abs(bench.robot.feedback().gripper_width_m - width_m) < 0.006  # noqa: B023, E731
            assert bench.run(3.0, until=reached)
            assert bench.robot.feedback().gripper_commanded_m == width_m
        bench.robot.stop_program(bench.now_s)
        bench.run(0.3)
        assert bench.robot.feedback().gripper_commanded_m == 0.062
