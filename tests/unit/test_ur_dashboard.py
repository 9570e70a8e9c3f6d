"""The dashboard's answers and the pendant's acts, each with what it does to the emulated controller. No sockets."""
import pytest

from steadyhand_sim.ur_controller.controller import ControllerConfig, URController
from steadyhand_sim.ur_controller.dashboard_commands import (
    CB3_ONLY, E_SERIES_ONLY, NOT_ALLOWED, REMOTE_ONLY, TOO_EARLY, Dashboard,
)
from steadyhand_sim.ur_controller.kinematic_plant import KinematicPlant
from steadyhand_sim.ur_controller.modes import RobotMode, RuntimeState, SafetyMode
from steadyhand_sim.ur_controller.realtime import ControllerServer, Ports
from steadyhand_sim.ur_controller.rtde_fields import OUTPUTS

LOOP = "def prog():\n  while True:\n    sync()\n  end\nend\n"
POWERLESS = ("emergency_stop", "violation", "fault")


@pytest.fixture(params=["cb3", "e_series"])
def robot(request):
    return URController(KinematicPlant(), getattr(ControllerConfig, request.param)())


@pytest.fixture
def dashboard(robot):
    return Dashboard(robot)


def step(robot, seconds=0.1):
    for _ in range(round(seconds * robot.config.control_hz)):
        robot.step()


def test_each_generation_knows_its_own_commands(robot, dashboard):
    foreign = CB3_ONLY if robot.config.is_e_series else E_SERIES_ONLY
    own = E_SERIES_ONLY if robot.config.is_e_series else CB3_ONLY
    assert all(dashboard.answer(name) == f"could not understand: '{name}'" for name in foreign)
    assert not any("understand" in dashboard.answer(name) for name in own)


def test_in_local_control_what_is_remote_only_is_refused_and_does_nothing(robot, dashboard):
    robot.start_program(LOOP)
    robot.set_remote_control(False)
    if not robot.config.is_e_series:  # it has no such switch
        assert dashboard.answer("stop") == "Stopped"
        return
    answers = {name: dashboard.answer(f"{name} x" if name in ("load", "load installation") else name) for name in REMOTE_ONLY}
    assert set(answers.values()) == {NOT_ALLOWED}
    assert robot.runtime_state is RuntimeState.PLAYING and robot.robot_mode is RobotMode.RUNNING and not robot.shut_down
    assert dashboard.answer("running") == "Program running: true"


def test_a_protective_stop_is_not_unlocked_too_early(robot, dashboard):
    step(robot, 7.0)
    robot.protective_stop()
    step(robot, 4.9)
    assert dashboard.answer("unlock protective stop") == TOO_EARLY and robot.safety_mode is SafetyMode.PROTECTIVE_STOP
    step(robot, 0.2)
    assert dashboard.answer("unlock protective stop") == "Protective stop releasing"
    assert robot.safety_mode is SafetyMode.NORMAL
    robot.safeguard_stop()
    assert dashboard.answer("unlock protective stop").startswith("Failed") and robot.safety_mode is SafetyMode.SAFEGUARD_STOP


def test_a_file_is_loaded_and_played_once(robot, dashboard):
    robot.start_program(LOOP)
    assert dashboard.answer("load nothing.urp") == "File not found: nothing.urp" and robot.program is not None
    assert dashboard.answer("load wave.urp") == "Loading program: wave.urp"
    assert robot.program is None and dashboard.answer("get loaded program") == "Loaded program: /programs/wave.urp"
    step(robot)
    assert dashboard.answer("play") == "Starting program" and robot.counters["programs"] == 2
    step(robot, 0.3)
    assert robot.target.moving and dashboard.answer("programState") == "PLAYING wave.urp"
    assert dashboard.answer("play") == "Failed to execute: play" and robot.counters["programs"] == 2


@pytest.mark.parametrize("stop", POWERLESS)
def test_without_power_nothing_is_switched_on(robot, dashboard, stop):
    getattr(robot, stop)()
    step(robot, 0.5)
    assert robot.robot_mode is RobotMode.POWER_OFF
    assert [dashboard.answer(c) for c in ("power on", "brake release", "play")] == [
        f"Failed to execute: {c}" for c in ("power on", "brake release", "play")
    ]
    step(robot, 2.0)
    assert robot.robot_mode is RobotMode.POWER_OFF


def test_a_violation_ends_by_a_restart_of_the_safety_system_only(robot, dashboard):
    robot.start_program(LOOP)
    robot.violation()
    robot.emergency_stop()
    robot.release_emergency_stop()
    robot.release_safeguard()
    robot.unlock_protective_stop()
    assert robot.safety_mode is SafetyMode.VIOLATION
    robot.fault()
    robot.violation()
    assert robot.safety_mode is SafetyMode.FAULT
    assert dashboard.answer("restart safety") == "Restarting safety"
    assert (robot.safety_mode, robot.robot_mode, robot.program) == (SafetyMode.NORMAL, RobotMode.POWER_OFF, None)
    assert dashboard.answer("brake release") == "Brake releasing"
    step(robot, 1.0)
    assert robot.robot_mode is RobotMode.RUNNING and robot.runtime_state is RuntimeState.STOPPED


@pytest.mark.parametrize("stop", ["automatic_safeguard_stop", "three_position_stop"])
def test_safety_modes_without_a_number_of_old_are_shown_as_safeguard(stop):
    robot = URController(KinematicPlant(), ControllerConfig.e_series())
    dashboard = Dashboard(robot)
    getattr(robot, stop)()
    assert dashboard.answer("safetymode") == "Safetymode: SAFEGUARD_STOP"
    assert dashboard.answer("safetystatus") == f"Safetystatus: {robot.safety_mode.name}"
    assert OUTPUTS["safety_mode"][1](robot) == 5 and OUTPUTS["safety_status"][1](robot) == robot.safety_mode > 9


def test_in_recovery_no_program_moves(robot, dashboard):
    robot.recovery_mode()
    assert not robot.start_program(LOOP) and dashboard.answer("safetymode") == "Safetymode: RECOVERY"
    robot.leave_recovery()
    assert robot.start_program(LOOP)


def test_shutdown_ends_the_server(robot, dashboard):
    server = ControllerServer(robot, "127.0.0.1", Ports(0, 0, (0,)))
    cycles = []

    def each_cycle():
        cycles.append(robot.cycle)
        if len(cycles) == 3:
            assert dashboard.answer("shutdown") == "Shutting down"

    try:
        server.run(lambda: len(cycles) > 50, each_cycle)
    finally:
        server.close()
    assert len(cycles) == 3 and robot.robot_mode is RobotMode.POWER_OFF
