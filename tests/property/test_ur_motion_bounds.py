"""Whatever a program asks for, the target stays continuous, finite and within what the primitive promises."""
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from steadyhand import cell
from steadyhand_sim.ur_controller.controller import URController
from steadyhand_sim.ur_controller.kinematic_plant import KinematicPlant
from steadyhand_sim.ur_controller.modes import RuntimeState
from steadyhand_sim.ur_controller.motion import (
    SERVO_ACCELERATION_LIMIT_RAD_S2,
    Brake,
    JointMove,
    Servo,
    Setpoint,
    Speed,
)

DT = 0.008
Q0 = np.array(cell.HOME_Q_RAD)
FEW = settings(max_examples=40, deadline=None)
six = st.lists(st.floats(-1.5, 1.5), min_size=6, max_size=6).map(np.array)
anything = st.one_of(
    st.floats(), st.integers(-10, 10), st.none(), st.text(max_size=3), st.lists(st.floats(), max_size=7)
)


def starts():
    return six.map(lambda qd: Setpoint(Q0, qd, np.zeros(6)))


@FEW
@given(starts(), st.floats(0.1, 20.0))
def test_brake_always_comes_to_rest(now, a):
    """Monotone, proportional, at the stated deceleration, and exactly at rest after v/a."""
    brake, peak = Brake(now, a), np.abs(now.qd_rad_s).max()
    for _ in range(int(np.ceil(peak / a / DT)) + 1):
        after = brake.step(now, DT, 1.0)
        assert np.abs(after.qd_rad_s - now.qd_rad_s).max() <= a * DT + 1e-9
        assert (np.abs(after.qd_rad_s) <= np.abs(now.qd_rad_s) + 1e-12).all()
        now = after
    assert brake.done
    assert not now.moving


@FEW
@given(starts(), six, st.floats(1.0, 8.0), st.floats(0.3, 3.0))
def test_move_from_any_state_ends_at_its_goal(now, offset, a, v):
    goal = Q0 + offset
    move = JointMove(now, goal, a, v)
    for _ in range(3000):
        after = move.step(now, DT, 1.0)
        assert np.abs(after.qd_rad_s - now.qd_rad_s).max() <= a * DT + 1e-6
        assert np.isfinite(after.q_rad).all()
        now = after
        if move.done:
            break
    assert np.abs(now.q_rad - goal).max() < 1e-9


@FEW
@given(starts(), st.lists(six, min_size=1, max_size=20), st.floats(0.03, 0.2), st.floats(100.0, 2000.0))
def test_servo_is_bounded_for_any_sequence_of_targets(now, offsets, lookahead, gain):
    servo = Servo(Q0, lookahead, gain)
    for offset in offsets:
        servo.update(Q0 + offset, lookahead, gain)
        after = servo.step(now, DT, 1.0)
        assert np.abs(after.qd_rad_s - now.qd_rad_s).max() <= SERVO_ACCELERATION_LIMIT_RAD_S2 * DT + 1e-9
        # position is the integral of a velocity that stays, within the cycle, between its ends
        trapezoid = now.q_rad + 0.5 * (now.qd_rad_s + after.qd_rad_s) * DT
        assert np.abs(after.q_rad - trapezoid).max() <= 0.5 * SERVO_ACCELERATION_LIMIT_RAD_S2 * DT**2 + 1e-6
        now = after


@FEW
@given(starts(), six, st.floats(0.1, 20.0))
def test_speed_is_reached_linearly(now, goal, a):
    speed = Speed(goal, a)
    for _ in range(int(np.ceil(np.abs(goal - now.qd_rad_s).max() / a / DT)) + 1):
        after = speed.step(now, DT, 1.0)
        assert np.abs(after.qd_rad_s - now.qd_rad_s).max() <= a * DT + 1e-9
        now = after
    assert speed.reached
    assert np.abs(now.qd_rad_s - goal).max() < 1e-9


NAMES = sorted(URController(KinematicPlant()).builtins.table())


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(NAMES), st.lists(anything, max_size=5))
def test_any_builtin_with_any_arguments_answers_or_refuses(name, arguments):
    """ValueError and TypeError are what the interpreter turns into a program error with its line."""
    controller = URController(KinematicPlant())
    controller.start_program("def p():\n  sync()\n  sync()\nend\n")
    try:
        controller.builtins.table()[name](*arguments)
    except (ValueError, TypeError):
        pass
    for _ in range(4):
        controller.step()
        assert np.isfinite(controller.target.q_rad).all()
        assert np.isfinite(controller.target.qd_rad_s).all()
    assert controller.runtime_state in RuntimeState
