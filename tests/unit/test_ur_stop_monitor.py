"""What the safety system watches while a stop acts, and what it does about it: category 0, by the brakes."""
import numpy as np
import pytest

from steadyhand import cell, robot_status
from steadyhand_sim.plant import CellPlant
from steadyhand_sim.ur_controller.controller import ControllerConfig, URController
from steadyhand_sim.ur_controller.dashboard_commands import Dashboard
from steadyhand_sim.ur_controller.kinematic_plant import BRAKES_RAD_S2, KinematicPlant
from steadyhand_sim.ur_controller.modes import RobotMode, RuntimeState, SafetyMode, safety_status_bits
from steadyhand_sim.ur_controller.plant import PlantCommand
from steadyhand_sim.ur_controller.rtde_fields import OUTPUTS
from steadyhand_sim.ur_controller.stop_monitor import StopMonitor
from steadyhand_sim.world import BRAKE_GIVE_RAD, World

LIMIT_RAD_S, DT_S, E0 = 3.34, 0.008, np.eye(6)[0]
MOVE = "def move():\n  q = get_actual_joint_positions()\n  q[0] = q[0] + 2.0\n  movej(q, a=10.0, v=3.0)\nend\n"
CONTROLLED = ["protective_stop", "safeguard_stop", "automatic_safeguard_stop", "three_position_stop"]


def watched(speeds_rad_s, dt_s=DT_S):
    """What is said first about joint 0 going at these speeds, and when."""
    monitor, q_rad = StopMonitor(LIMIT_RAD_S, 0.0), np.zeros(6)
    for k, speed in enumerate(speeds_rad_s, 1):
        q_rad = q_rad + speed * dt_s * E0
        if wrong := monitor.look(q_rad, speed * E0, k * dt_s):
            return wrong, k * dt_s
    return "", None


@pytest.mark.parametrize("deceleration_rad_s2", [7.0, 15.0, 34.0])
def test_a_stop_from_the_limit_that_rings_by_20_mrad_is_good(deceleration_rad_s2):
    times = np.arange(1, 200) * DT_S
    falling = LIMIT_RAD_S - deceleration_rad_s2 * np.maximum(0.0, times - 0.016)
    ringing = 0.6 * np.exp(-15.0 * times) * np.sin(28.0 * times)  # +-20 mrad, as recorded at an abrupt cut
    assert watched(np.where(falling > 0.0, falling, ringing)) == ("", None)


def test_a_joint_that_brakes_too_slowly_is_named():
    """Manual: never above the ramp from the limit to 0 between 24 and 524 ms."""
    assert watched([LIMIT_RAD_S - 0.01] * 2) == ("", None)
    wrong, at_s = watched([2.0] * 60)
    assert "C191A14" in wrong and "shoulder_pan_joint" in wrong
    assert at_s == pytest.approx(0.024 + 0.5 * (1 - 2.0 / LIMIT_RAD_S), abs=DT_S)


def test_a_joint_that_has_come_to_rest_stays_within_50_mrad():
    assert watched([0.1] + [0.5] * 12) == ("", None)  # 48 mrad from where it was below 0.2 rad/s
    wrong, _ = watched([0.1] + [0.5] * 13)
    assert "C191A15" in wrong and "shoulder_pan_joint by 0.052 rad" in wrong
    assert watched([0.1] + [0.5, -0.5] * 100) == ("", None)


def test_slowly_away_is_moving_too():
    wrong, at_s = watched([0.01] * 1000)
    assert "C191A15" in wrong and at_s == pytest.approx(5.0, abs=0.1)


@pytest.fixture
def robot():
    return URController(KinematicPlant(), ControllerConfig.e_series())


def steps(robot, seconds):
    for _ in range(round(seconds / robot.config.steptime_s)):
        robot.step()


@pytest.mark.parametrize("stop", CONTROLLED)
def test_standstill_that_is_broken_ends_in_a_violation_with_the_brakes_on(robot, stop):
    robot.start_program(MOVE)
    steps(robot, 0.4)
    assert robot.measured.qd_rad_s[0] > 2.0
    getattr(robot, stop)()
    steps(robot, 0.6)
    assert robot.robot_mode is RobotMode.RUNNING and robot.runtime_state is RuntimeState.PAUSED
    robot.plant.shove(0, 2.5)
    steps(robot, 0.3)
    assert (robot.safety_mode, robot.robot_mode) == (SafetyMode.VIOLATION, RobotMode.POWER_OFF)
    assert "robot is moving in stop mode" in robot.messages[-1][1]
    held = robot.measured.q_rad.copy()
    robot.release_safeguard()
    robot.unlock_protective_stop()
    assert not robot.play_program()
    steps(robot, 1.0)
    assert robot.safety_mode is SafetyMode.VIOLATION and (robot.measured.q_rad == held).all()


def test_the_brakes_need_their_way_and_no_more():
    plant = KinematicPlant()
    start_rad = plant.q_rad.copy()
    plant.shove(0, 2.0)
    braked = PlantCommand(start_rad, np.zeros(6), np.zeros(6), brakes_engaged=True)
    for _ in range(100):
        plant.step(braked, DT_S)
    assert (plant.qd_rad_s == 0.0).all()
    assert (plant.q_rad - start_rad)[0] == pytest.approx(2.0**2 / (2.0 * BRAKES_RAD_S2), rel=0.02)


@pytest.mark.parametrize("stop", CONTROLLED)
def test_a_knock_that_moves_it_little_changes_nothing(robot, stop):
    getattr(robot, stop)()
    steps(robot, 0.1)
    mode = robot.safety_mode
    robot.plant.shove(0, 0.6)
    steps(robot, 1.0)
    assert robot.safety_mode is mode and robot.robot_mode is RobotMode.RUNNING


def test_the_power_stays_on_however_long_a_category_2_stop_lasts():
    """Manual: "power left available", stop position monitored; no time after which brakes engage is given anywhere."""
    robot = URController(KinematicPlant())
    robot.protective_stop()
    steps(robot, 12.0)
    assert robot.robot_mode is RobotMode.RUNNING and robot.safety_mode is SafetyMode.PROTECTIVE_STOP


def test_what_ends_a_violation_is_the_safety_systems_restart_and_the_way_back_to_power(robot):
    dashboard = Dashboard(robot)
    robot.protective_stop()
    steps(robot, 0.1)
    robot.plant.shove(0, 2.5)
    steps(robot, 6.0)
    assert dashboard.answer("safetystatus") == "Safetystatus: VIOLATION"
    for refused in ("unlock protective stop", "power on", "brake release", "play"):
        assert dashboard.answer(refused) == f"Failed to execute: {refused}"
    assert dashboard.answer("restart safety") == "Restarting safety"
    assert (robot.safety_mode, robot.robot_mode) == (SafetyMode.NORMAL, RobotMode.POWER_OFF)
    assert dashboard.answer("power on") == "Powering on"
    steps(robot, 0.5)
    assert robot.robot_mode is RobotMode.IDLE and dashboard.answer("brake release") == "Brake releasing"
    steps(robot, 0.5)
    assert robot.robot_mode is RobotMode.RUNNING and robot.start_program(MOVE)


def test_the_states_say_it_and_the_guard_names_it(robot):
    robot.protective_stop()
    steps(robot, 0.1)
    robot.plant.shove(0, 2.5)
    steps(robot, 0.2)
    shown = {name: OUTPUTS[name][1](robot) for name in ("safety_mode", "robot_mode", "safety_status_bits")}
    assert shown == {"safety_mode": 8, "robot_mode": 3, "safety_status_bits": safety_status_bits(SafetyMode.VIOLATION)}
    name, remedy = robot_status.SAFETY_CAUSES[shown["safety_mode"]]
    assert name == "violation" and "restart" in remedy


@pytest.mark.parametrize("broken", ["violation", "fault"])
def test_category_0_is_the_brakes_at_once(robot, broken):
    """Manual, appendix A: 183 deg/s of the base to rest in 244 ms."""
    robot.start_program(MOVE)
    steps(robot, 0.4)
    speed = robot.measured.qd_rad_s[0]
    getattr(robot, broken)()
    robot.step()
    assert robot.robot_mode is RobotMode.POWER_OFF and not robot.target.moving
    assert 0.0 < robot.measured.qd_rad_s[0] < speed
    steps(robot, 0.25)
    assert robot.measured.qd_rad_s.tolist() == [0.0] * 6


def test_a_shove_that_the_drives_cannot_hold_comes_to_rest_by_the_brakes_and_stays():
    """140 N at the gripper for 0.15 s: before there was a monitor, the arm sprang back to its path for half a second."""
    with World() as world:
        robot = URController(CellPlant(world))
        robot.step()
        world.push_tool(np.array([0.0, 140.0, 0.0]), 0.15)
        steps(robot, 0.3)
        assert (robot.safety_mode, robot.robot_mode) == (SafetyMode.VIOLATION, RobotMode.POWER_OFF)
        rest = world.q_rad.copy()
        assert np.abs(rest - cell.HOME_Q_RAD).max() > 0.1 and np.abs(world.qd_rad_s).max() < 0.02
        steps(robot, 1.0)
        assert np.abs(world.q_rad - rest).max() < 2 * BRAKE_GIVE_RAD


def test_brakes_slip_under_more_than_they_hold_and_bring_nothing_back():
    with World() as world:
        world.step_braked(50)
        before = world.q_rad.copy()
        world.push_tool(np.array([0.0, 300.0, 0.0]), 0.2)
        world.step_braked(150)
        slipped = world.q_rad.copy()
        assert np.abs(slipped - before).max() > 0.05
        world.step_braked(500)
        assert np.abs(world.q_rad - slipped).max() < 2 * BRAKE_GIVE_RAD
