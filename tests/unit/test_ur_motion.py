"""The motion primitives of the emulated controller."""
import numpy as np
import pytest

from steadyhand import cell, kinematics
from steadyhand_sim.ur_controller import frames
from steadyhand_sim.ur_controller.motion import Brake, Hold, JointMove, Servo, Setpoint, Speed
from steadyhand_sim.ur_controller.motion_linear import LinearMove, LinearSpeed, stop_linear

DT = 0.008
Q0 = np.array(cell.HOME_Q_RAD)
TCP = np.array([0, 0, 0.135, 0, 0, 0])


def run(motion, now, cycles=2000, scale=1.0, dt_s=DT):
    """Set-points until done (or for `cycles`)."""
    out = []
    for _ in range(cycles):
        now = motion.step(now, dt_s, scale)
        out.append(now)
        if motion.done:
            break
    return out


def moving(qd):
    return Setpoint(Q0, np.array(qd, dtype=float), np.zeros(6))


def test_brake_leads_with_the_fastest_axis_and_falls_in_the_first_cycle():
    start = moving([1.0, -0.5, 0, 0, 0, 0.25])
    track = run(Brake(start, 4.0), start)
    assert track[0].qd_rad_s[0] == pytest.approx(1.0 - 4.0 * DT)
    assert len(track) == int(np.ceil(1.0 / 4.0 / DT))
    for p in track[:-1]:
        assert p.qd_rad_s[1] == pytest.approx(-0.5 * p.qd_rad_s[0])  # together, in proportion
    # v^2 / 2a of the leading axis
    assert track[-1].q_rad[0] - Q0[0] == pytest.approx(1.0 / 8.0)
    assert not track[-1].moving


@pytest.mark.parametrize("motion", [
    lambda now: Brake(now, 4.0), lambda now: Speed([0.4, 0, 0, 0, 0, -0.2], 2.0), lambda now: Servo(Q0 + 0.2, 0.1, 300),
    lambda now: JointMove(now, Q0 + 0.3, 1.4, 1.05), lambda now: LinearSpeed([0, 0, 0.1, 0, 0, 0], 1.2, TCP),
])  # fmt: skip
def test_velocity_and_acceleration_are_the_derivatives_of_what_is_commanded(motion):
    """The plant is fed forward with them; a wrong sign would brake forwards."""
    now = moving([0.2, -0.1, 0, 0, 0, 0.1])
    track = run(motion(now), now, 30, dt_s=0.002)[:-1]
    q, qd, qdd = (np.array([getattr(p, name) for p in track]) for name in ("q_rad", "qd_rad_s", "qdd_rad_s2"))
    assert np.diff(q, axis=0) / 0.002 == pytest.approx((qd[1:] + qd[:-1]) / 2, abs=5e-4)
    change = np.diff(qd, axis=0) / 0.002
    # at either end of the cycle, or anywhere between
    low, high = np.minimum(qdd[1:], qdd[:-1]) - 0.05, np.maximum(qdd[1:], qdd[:-1]) + 0.05
    assert ((low <= change) & (change <= high)).all()


def test_brake_from_rest_is_done_at_once():
    assert Brake(Setpoint.at_rest(Q0), 2.0).done


@pytest.mark.parametrize("a", [0.0, -1.0, float("nan"), float("inf"), None])
def test_acceleration_must_be_positive(a):
    with pytest.raises(ValueError, match="a ="):
        Brake(Setpoint.at_rest(Q0), a)


def test_servo_follows_a_ramp_lookahead_late():
    """The published command-to-motion lag is 34-35 ms with lookahead 0.03 s: 30 ms here, the rest is transport."""
    servo, now, speed = Servo(Q0, 0.03, 2000.0), Setpoint.at_rest(Q0), 0.5
    for k in range(1, 150):
        servo.update(Q0 + speed * k * DT, 0.03, 2000.0)
        now = servo.step(now, DT, 1.0)
    lag_s = (Q0 + speed * 149 * DT - now.q_rad) / speed
    # a target held over a cycle adds half a cycle, seen at its end it takes a whole one away
    assert lag_s == pytest.approx(0.030 - DT / 2, abs=0.002)
    assert now.qd_rad_s == pytest.approx(np.full(6, speed), rel=0.02)


def test_servo_is_the_same_law_at_both_rates():
    coarse = run(Servo(Q0 + 0.01, 0.1, 300.0), Setpoint.at_rest(Q0), 25, dt_s=0.008)[-1]
    fine = run(Servo(Q0 + 0.01, 0.1, 300.0), Setpoint.at_rest(Q0), 100, dt_s=0.002)[-1]
    assert coarse.q_rad == pytest.approx(fine.q_rad, abs=1e-9)


def test_servo_bounds_the_acceleration_of_a_jump():
    track = run(Servo(Q0 + 1.0, 0.03, 2000.0), Setpoint.at_rest(Q0), 300)
    assert max(np.abs(p.qdd_rad_s2).max() for p in track) <= 40.0 + 1e-9
    assert track[-1].q_rad == pytest.approx(Q0 + 1.0, abs=1e-3)


@pytest.mark.parametrize(("lookahead", "gain"), [(0.02, 300), (0.3, 300), (0.1, 50), (0.1, 2001), (float("nan"), 300)])
def test_servo_refuses_what_the_manual_excludes(lookahead, gain):
    with pytest.raises(ValueError, match="outside"):
        Servo(Q0, lookahead, gain)


@pytest.mark.parametrize("q", [[0] * 5, [0] * 7, [float("nan")] * 6, "abc", None, [[0] * 6]])
def test_joints_are_six_finite_numbers(q):
    with pytest.raises(ValueError, match="six"):
        Servo(q, 0.1, 300)


def test_joint_move_is_a_trapezoid_of_the_leading_axis():
    goal = Q0 + np.array([0.6, 0.3, 0, 0, 0, 0])
    track = run(JointMove(Setpoint.at_rest(Q0), goal, 1.4, 1.05), Setpoint.at_rest(Q0))
    q, qd = np.array([p.q_rad for p in track]), np.array([p.qd_rad_s for p in track])
    assert q[-1] == pytest.approx(goal)
    assert np.abs(qd).max() <= 1.05 + 1e-9
    assert np.abs(np.diff(qd[:, 0])).max() <= 1.4 * DT + 1e-9
    assert qd[:-1, 1] == pytest.approx(0.5 * qd[:-1, 0], abs=1e-9)
    assert len(track) * DT == pytest.approx(2 * np.sqrt(0.6 / 1.4), abs=2 * DT)  # triangle: v is not reached


def test_joint_move_with_a_duration():
    track = run(JointMove(Setpoint.at_rest(Q0), Q0 + 0.3, 1.4, 1.05, 1.0), Setpoint.at_rest(Q0))
    assert len(track) * DT == pytest.approx(1.0, abs=2 * DT)


def test_speed_slider_slows_a_move_and_not_a_servo():
    goal = Q0 + 0.3
    full = len(run(JointMove(Setpoint.at_rest(Q0), goal, 1.4, 1.05), Setpoint.at_rest(Q0)))
    half = len(run(JointMove(Setpoint.at_rest(Q0), goal, 1.4, 1.05), Setpoint.at_rest(Q0), scale=0.5))
    assert half == pytest.approx(2 * full, abs=2)
    a = run(Servo(goal, 0.1, 300), Setpoint.at_rest(Q0), 20, scale=1.0)[-1]
    b = run(Servo(goal, 0.1, 300), Setpoint.at_rest(Q0), 20, scale=0.5)[-1]
    assert a.q_rad == pytest.approx(b.q_rad)


def test_joint_move_goes_on_from_where_a_pause_left_it():
    goal, now = Q0 + 0.4, Setpoint.at_rest(Q0)
    move = JointMove(now, goal, 1.4, 1.05)
    now = run(move, now, 40)[-1]
    now = run(Brake(now, 10.0), now)[-1]
    move.replan(now)
    assert run(move, now)[-1].q_rad == pytest.approx(goal)


def test_speed_reaches_its_goal_linearly_and_keeps_it():
    speed = Speed([0.4, 0, 0, 0, 0, -0.2], 2.0)
    track = run(speed, Setpoint.at_rest(Q0), 50)
    assert track[0].qd_rad_s[0] == pytest.approx(2.0 * DT)
    assert speed.reached
    assert track[-1].qd_rad_s == pytest.approx([0.4, 0, 0, 0, 0, -0.2])


def test_linear_move_is_straight():
    start = frames.forward(Q0, TCP)
    goal = start.copy()
    goal[:3] += [0.05, -0.08, 0.04]
    move = LinearMove(Setpoint.at_rest(Q0), goal, 1.2, 0.25, 0.0, TCP)
    points = np.array([frames.forward(p.q_rad, TCP)[:3] for p in run(move, Setpoint.at_rest(Q0))])
    line = (goal[:3] - start[:3]) / np.linalg.norm(goal[:3] - start[:3])
    off = (points - start[:3]) - np.outer((points - start[:3]) @ line, line)
    assert np.abs(off).max() < 1e-5
    assert points[-1] == pytest.approx(goal[:3], abs=1e-5)
    assert np.linalg.norm(np.diff(points, axis=0), axis=1).max() <= 0.25 * DT * 1.01


def test_linear_move_turns_with_the_way_it_has_gone():
    start, turn_rad = frames.transform(frames.forward(Q0, TCP)), np.array([0.1, 0.2, -0.15])
    goal = start.copy()
    goal[:3, :3] = frames.transform([0, 0, 0, *turn_rad])[:3, :3] @ start[:3, :3]
    goal[:3, 3] += [0.05, 0.0, 0.0]
    move = LinearMove(Setpoint.at_rest(Q0), frames.pose_vector(goal), 1.2, 0.25, 0.0, TCP)
    for p in run(move, Setpoint.at_rest(Q0)):
        pose = frames.transform(frames.forward(p.q_rad, TCP))
        gone = (pose[0, 3] - start[0, 3]) / 0.05
        turned_rad = kinematics.rotation_vector(pose[:3, :3] @ start[:3, :3].T)
        assert turned_rad == pytest.approx(gone * turn_rad, abs=1e-3)
    assert gone == pytest.approx(1.0, abs=1e-3)


def test_linear_move_out_of_reach_is_an_error():
    goal = frames.forward(Q0, TCP)
    goal[:3] = [2.0, 0.0, 0.5]
    move = LinearMove(Setpoint.at_rest(Q0), goal, 1.2, 0.25, 0.0, TCP)
    with pytest.raises(Exception, match="not reached"):
        run(move, Setpoint.at_rest(Q0))


def test_linear_move_of_a_moving_arm_stops_the_tool_at_its_acceleration_first():
    start = moving([0.3, 0, 0, 0, 0, 0])
    speed_m_s = np.linalg.norm((frames.jacobian(Q0, TCP) @ start.qd_rad_s)[:3])
    move = LinearMove(start, frames.forward(Q0, TCP), 0.5, 0.25, 0.0, TCP)
    still = next(k for k, p in enumerate(run(move, start), 1) if not p.moving)
    assert still * DT == pytest.approx(speed_m_s / 0.5, abs=2 * DT)


def test_stop_of_a_tool_that_only_turns_is_bounded():
    """Wrist 3 turns the tool about its own axis: the tool point all but stands, the joint must not stop with a jolt."""
    start = moving([1e-4, 0, 0, 0, 0, 2.0])
    track = run(stop_linear(start, 20.0, TCP), start)
    assert np.abs(np.diff([2.0, *(p.qd_rad_s[5] for p in track)])).max() <= 40.0 * DT + 1e-9


def test_linear_speed_and_its_stop():
    speed = LinearSpeed([0, 0, 0.1, 0, 0, 0], 1.2, TCP)
    now = run(speed, Setpoint.at_rest(Q0), 40)[-1]
    assert (frames.jacobian(now.q_rad, TCP) @ now.qd_rad_s) == pytest.approx([0, 0, 0.1, 0, 0, 0], abs=1e-3)
    brake = stop_linear(now, 1.0, TCP)
    assert len(run(brake, now)) * DT == pytest.approx(0.1, abs=DT)


def test_hold_stays():
    assert run(Hold(), Setpoint.at_rest(Q0), 5)[-1].q_rad == pytest.approx(Q0)


def test_jacobian_is_the_derivative_of_forward():
    """For a TCP that is not the cell's tool."""
    tcp = np.array([0.02, -0.03, 0.2, 0, 0, 0])
    j, h = frames.jacobian(Q0, tcp), 1e-6
    for i in range(6):
        q = Q0.copy()
        q[i] += h
        assert (frames.forward(q, tcp)[:3] - frames.forward(Q0, tcp)[:3]) / h == pytest.approx(j[:3, i], abs=1e-5)


def test_inverse_of_forward():
    rng = np.random.default_rng(1)
    for _ in range(20):
        q = Q0 + rng.uniform(-0.3, 0.3, 6)
        assert frames.inverse(frames.forward(q, TCP), q + rng.uniform(-0.1, 0.1, 6), TCP) == pytest.approx(q, abs=1e-4)
