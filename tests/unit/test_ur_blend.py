"""Moves with a blend radius, movep and servoc of the emulated controller."""
import numpy as np
import pytest

from steadyhand import cell
from steadyhand_sim.ur_controller import frames
from steadyhand_sim.ur_controller.config import ControllerConfig
from steadyhand_sim.ur_controller.controller import URController
from steadyhand_sim.ur_controller.kinematic_plant import KinematicPlant

TCP = np.array([0, 0, 0.135, 0, 0, 0])
Q0 = np.array(cell.HOME_Q_RAD)
START = frames.forward(Q0, TCP)


def at(dx=0.0, dy=0.0, dz=0.0):
    return "p[" + ", ".join(f"{v:.9f}" for v in START + [dx, dy, dz, 0, 0, 0]) + "]"


def run(body, config=ControllerConfig(), cycles=3000):
    """Set-points of a program until the arm rests again."""
    robot = URController(KinematicPlant(), config)
    text = "def p():\n" + "".join(f"  {line}\n" for line in body) + "end\n"
    assert robot.start_program(text), list(robot.messages)
    track = [robot.target]
    for _ in range(cycles):
        robot.step()
        track.append(robot.target)
        if robot.program is None and not robot.target.moving:
            return robot, track
    raise AssertionError("the program did not end")


def positions(track):
    return np.array([frames.forward(p.q_rad, TCP)[:3] for p in track])


@pytest.mark.parametrize("kind", ["movel", "movep"])
@pytest.mark.parametrize("config", [ControllerConfig.cb3(), ControllerConfig.e_series()], ids=["cb3", "e_series"])
def test_a_corner_is_passed_within_its_radius_and_without_a_stop(kind, config):
    robot, track = run(
        [f"{kind}({at(dz=0.1)}, a=1.0, v=0.2, r=0.03)", f"{kind}({at(dz=0.1, dy=0.1)}, a=1.0, v=0.2)"], config
    )
    path = positions(track)
    corner = START[:3] + [0, 0, 0.1]
    apart = np.linalg.norm(path - corner, axis=1)
    assert 1e-3 < apart.min() < 0.03
    k = int(apart.argmin())
    assert np.linalg.norm(path[k + 1] - path[k - 1]) / (2 * config.steptime_s) > 0.08, "stopped in the corner"
    assert path[-1] == pytest.approx(START[:3] + [0, 0.1, 0.1], abs=1e-6)
    for p in path[apart > 0.03]:  # outside of the blend: on one of the two lines
        on_first = np.hypot(*(p - START[:3])[:2]) < 1e-4
        on_second = np.linalg.norm((p - corner)[[0, 2]]) < 1e-4
        assert on_first or on_second
    assert not robot.counters["program_errors"]


def test_speed_is_held_through_a_way_point_on_a_straight_line():
    _, track = run([f"movel({at(dz=0.05)}, a=1.0, v=0.2, r=0.03)", f"movel({at(dz=0.1)}, a=1.0, v=0.2)"])
    speed = np.linalg.norm(np.diff(positions(track), axis=0), axis=1) / 0.008
    moving = np.flatnonzero(speed > 0.19)
    assert speed[moving[0] : moving[-1]].min() > 0.18


@pytest.mark.parametrize("second", ["movej", "movel"])
def test_position_and_velocity_are_continuous_over_a_joint_corner(second):
    goal = frames.forward(Q0 + [0.3, -0.2, 0, 0, 0, 0], TCP)
    pose = "p[" + ", ".join(f"{v:.9f}" for v in goal) + "]"
    corner = str((Q0 + [0.3, 0, 0, 0, 0, 0]).tolist())
    _, track = run([f"movej({corner}, a=2.0, v=0.5, r=0.05)", f"{second}({pose}, a=0.8, v=0.2)"])
    q = np.array([p.q_rad for p in track])
    qd = np.diff(q, axis=0) / 0.008
    assert np.abs(np.diff(qd, axis=0)).max() / 0.008 < 8.0  # no step of velocity
    assert frames.forward(track[-1].q_rad, TCP)[:3] == pytest.approx(goal[:3], abs=1e-6)


def test_a_blend_that_nothing_follows_ends_at_rest_at_its_goal():
    _, track = run([f"movel({at(dz=0.05)}, r=0.02)", "sleep(1.0)"])
    assert positions(track)[-1] == pytest.approx(START[:3] + [0, 0, 0.05], abs=1e-6)


def test_a_pause_in_a_blend_goes_on_to_the_second_goal():
    robot = URController(KinematicPlant())
    first, second = f"movel({at(dz=0.1)}, a=1.0, v=0.2, r=0.05)", f"movel({at(dz=0.1, dy=0.1)}, a=1.0, v=0.2)"
    robot.start_program(f"def p():\n  {first}\n  {second}\nend\n")
    while type(robot.motion).__name__ != "Blended":
        robot.step()
    robot.step()
    assert robot.pause_program()
    for _ in range(100):
        robot.step()
    assert robot.play_program()
    for _ in range(1000):
        robot.step()
    assert positions([robot.target])[0] == pytest.approx(START[:3] + [0, 0.1, 0.1], abs=1e-6)


def test_a_corner_that_has_been_left_is_forgotten():
    """A program may blend for days: each move held the one before it."""
    robot = URController(KinematicPlant())
    moves = [f"movel({at(dz=0.05, dy=0.05 * (k % 2))}, a=1.0, v=0.2, r=0.02)" for k in range(6)]
    robot.start_program("def p():\n" + "".join(f"  {m}\n" for m in moves) + "end\n")
    deepest = 0
    while robot.program is not None:
        robot.step()
        motion, depth = robot.motion, 0
        while type(motion).__name__ == "Blended":
            motion, depth = motion._before, depth + 1
        deepest = max(deepest, depth)
    assert 1 <= deepest <= 2


@pytest.mark.parametrize("radius", ["-0.1", "True", "11"])
def test_a_radius_that_is_none_fails_the_program(radius):
    robot = URController(KinematicPlant())
    robot.start_program(f"def p():\n  movel({at(dz=0.05)}, r={radius})\nend\n")
    robot.step()
    assert "blend radius" in robot.messages[-1][1] and robot.counters["program_errors"] == 1


def test_servoc_goes_to_its_pose_at_its_speed_and_bounds_its_acceleration():
    loop = [f"goal = {at(dy=0.05, dz=0.1)}", "i = 0", "while i < 250:", "  servoc(goal, a=1.0, v=0.15)", "  i = i + 1", "end"]
    _, track = run(loop)
    path = positions(track)
    speed = np.linalg.norm(np.diff(path, axis=0), axis=1) / 0.008
    assert 0.14 < speed.max() < 0.16 and np.abs(np.diff(speed)).max() / 0.008 < 2.0
    assert path[-1] == pytest.approx(START[:3] + [0, 0.05, 0.1], abs=1e-4)
