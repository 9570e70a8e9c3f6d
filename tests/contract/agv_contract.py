"""What every AGV bridge must do, whatever is behind it. `test_agv_*.py` give each a `bench` fixture with a Bench.

Tests drive time by `Bench.run`, so that one file serves the in-process fake, a simulated vehicle behind a broker and a
ROS graph. A bench of a velocity driven vehicle gets the same tests: `Bench.drive` keeps commanding it.
"""
from __future__ import annotations

import abc

import pytest

from steadyhand.agv import Agv, AgvKind, DriveTo, TaskState, Velocity, Waypoint
from steadyhand.protocols import ArmingPhase

REST_M_S = 0.01


class Bench(abc.ABC):
    """A bridge to a vehicle that stands idle at `start`, and a way to let time pass."""

    agv: Agv
    now_s: float
    start = Waypoint("n0", 0.0, 0.0)
    goal = Waypoint("n1", 2.0, 0.0)
    token = 100
    tasks = 0

    @abc.abstractmethod
    def tick(self) -> None:
        """Let one period of the guard pass."""

    def run(self, seconds, each=lambda: None, until=None):
        """Tick for up to `seconds`; true when `until()` held (or there is none)."""
        for _ in range(round(seconds / self.agv.period_s)):
            self.tick()
            self.agv.poll(self.now_s)
            each()
            if until is not None and until():
                return True
        return until is None

    def connect(self):
        self.agv.open(self.now_s)
        well = lambda: self.agv.feedback() is not None and not self.agv.troubles(self.now_s)  # noqa: E731
        assert self.run(10.0, until=well), self.agv.troubles(self.now_s)

    def arm(self):
        self.token += 1
        self.agv.begin_arming(self.token, self.now_s)
        assert self.run(5.0, until=lambda: self.agv.arming().phase is not ArmingPhase.UNDER_WAY)
        assert self.agv.arming().phase is ArmingPhase.READY, self.agv.arming()

    def command(self):
        if self.agv.kind is AgvKind.VELOCITY:
            return Velocity(0.3, 0.0, 0.0)
        self.tasks += 1
        return DriveTo(f"task-{self.token}-{self.tasks}", (self.start, self.goal))

    def drive(self, seconds):
        """Command motion until it moves, then for so long."""
        command = self.command()
        refused = self.agv.go(command, self.now_s)
        assert not refused, refused

        def again():
            if self.agv.kind is AgvKind.VELOCITY:
                assert self.agv.go(command, self.now_s) == ""

        assert self.run(5.0, again, lambda: self.speed() > 0.1), self.agv.feedback()
        self.run(seconds, again)
        return again

    def speed(self):
        twist = self.agv.feedback().twist_m_s_rad_s
        return max(map(abs, twist)) if twist is not None else float(self.agv.feedback().driving)

    def still(self):
        return self.speed() < REST_M_S and not self.agv.feedback().driving

    def place(self):
        return self.agv.feedback().pose_m_rad[:2]


class AgvContract:
    """Inherit, and give a fixture `bench` (unconnected)."""

    def test_connecting_moves_and_arms_nothing(self, bench):
        bench.connect()
        before = bench.place()
        bench.run(0.5)
        assert bench.agv.arming().phase is ArmingPhase.IDLE and bench.still()
        assert bench.place() == pytest.approx(before, abs=0.01)
        assert bench.agv.feedback().task_state is TaskState.NONE

    def test_nothing_is_taken_before_it_is_armed(self, bench):
        bench.connect()
        assert bench.agv.go(bench.command(), bench.now_s) != ""
        bench.run(0.5)
        assert bench.still()

    def test_arming_moves_nothing(self, bench):
        bench.connect()
        bench.arm()
        bench.run(0.3)
        assert bench.still()

    def test_drives_and_stops_and_stays_stopped(self, bench):
        bench.connect()
        bench.arm()
        bench.drive(0.3)
        bench.agv.stop(bench.now_s)
        assert bench.run(5.0, until=bench.still), bench.agv.feedback()
        at = bench.place()
        bench.run(0.7)
        assert bench.place() == pytest.approx(at, abs=0.01)
        assert bench.agv.go(bench.command(), bench.now_s) != ""  # a new arming comes first
        assert bench.agv.feedback().task_state in (TaskState.NONE, TaskState.STOPPED)

    def test_can_be_armed_again(self, bench):
        bench.connect()
        bench.arm()
        bench.drive(0.2)
        bench.agv.stop(bench.now_s)
        assert bench.run(5.0, until=bench.still)
        bench.arm()
        bench.drive(0.2)

    def test_stop_ends_an_arming_and_does_no_harm_to_one_that_stands(self, bench):
        bench.connect()
        bench.agv.begin_arming(1, bench.now_s)
        bench.agv.stop(bench.now_s)
        assert bench.agv.arming().phase is not ArmingPhase.READY
        bench.run(0.5)
        bench.agv.stop(bench.now_s)
        bench.run(0.3)
        assert bench.still()

    def test_hold_rests_and_resume_goes_on(self, bench):
        bench.connect()
        bench.arm()
        again = bench.drive(0.2)
        assert bench.agv.hold(bench.now_s) == ""
        assert bench.run(5.0, until=bench.still), bench.agv.feedback()
        assert bench.agv.resume(bench.now_s) == ""
        assert bench.run(5.0, again, until=lambda: bench.speed() > 0.1), bench.agv.feedback()

    def test_cancel_rests_and_gives_the_task_up_but_stays_armed(self, bench):
        bench.connect()
        bench.arm()
        assert bench.agv.cancel(bench.now_s) != ""  # nothing to cancel
        bench.drive(0.2)
        if bench.agv.kind is AgvKind.VELOCITY:
            assert "driven by velocity" in bench.agv.cancel(bench.now_s)
            return
        assert bench.agv.cancel(bench.now_s) == ""
        assert bench.run(5.0, until=lambda: bench.still() and bench.agv.feedback().task_state is TaskState.STOPPED)
        assert bench.agv.troubles(bench.now_s) == {} and bench.agv.arming().phase is ArmingPhase.READY

    def test_silence_is_stopped_by_a_velocity_driven_vehicle(self, bench):
        if bench.agv.kind is not AgvKind.VELOCITY:
            pytest.skip("an order driven vehicle drives on to its last released node: docs/agv.md")
        bench.connect()
        bench.arm()
        bench.drive(0.3)
        assert bench.run(3.0, until=bench.still)

    def test_an_order_driven_vehicle_arrives(self, bench):
        if bench.agv.kind is not AgvKind.ORDER:
            pytest.skip("a velocity driven vehicle has no goal")
        bench.connect()
        bench.arm()
        assert bench.agv.go(bench.command(), bench.now_s) == ""
        assert bench.run(30.0, until=lambda: bench.agv.feedback().task_state is TaskState.ARRIVED), bench.agv.feedback()
        assert bench.place() == pytest.approx((bench.goal.x_m, bench.goal.y_m), abs=0.3)

    @pytest.mark.parametrize("value", [float("nan"), float("inf"), None, "1"])
    def test_what_is_no_number_is_not_taken(self, bench, value):
        bench.connect()
        bench.arm()
        if bench.agv.kind is AgvKind.VELOCITY:
            command, field = Velocity(value, 0.0, 0.0), "vx_m_s"
        else:
            command, field = DriveTo("t", (bench.start, Waypoint("n1", value, 0.0))), "x_m"
        assert field in bench.agv.go(command, bench.now_s)
        bench.run(0.3)
        assert bench.still()

    def test_the_other_kind_of_command_is_not_taken(self, bench):
        bench.connect()
        bench.arm()
        order = DriveTo("t", (bench.start, bench.goal))
        wrong = order if bench.agv.kind is AgvKind.VELOCITY else Velocity(0.3, 0.0, 0.0)
        assert "this vehicle is driven by" in bench.agv.go(wrong, bench.now_s)
        bench.run(0.3)
        assert bench.still()
