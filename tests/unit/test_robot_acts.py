"""Power, brakes and unlocking: only by an authenticated operator, only while nothing is armed, never a motion."""
import pytest

from steadyhand.errors import RobotError
from steadyhand.guard_protocol import Arm, Reply, RobotAct, Stop, decode, encode
from steadyhand_firmware_bridge.operator_acts import ACTS, OperatorDashboard
from steadyhand_sim.ur_controller.config import ControllerConfig
from steadyhand_sim.ur_controller.modes import RobotMode, RuntimeState, SafetyMode
from tests.unit.test_guard_core import CREDENTIAL, Rig
from tests.ur_bench import HOST, Bench


def ask(rig, act, credential=CREDENTIAL):
    rig.guard.handle("operator", RobotAct(act, credential, "r"), rig.now_s)
    rig.run(0.1)
    return rig.last(Reply)


def stopped(**fields):
    rig = Rig()
    for name, value in fields.items():
        setattr(rig.robot, name, value)
    rig.run(0.3)
    return rig


def test_the_message_survives_the_wire():
    message = RobotAct("unlock", "secret", "7")
    assert decode(encode(message)) == message


def test_power_on_and_brake_release():
    rig = stopped(robot_mode=3)
    assert ask(rig, "power-on").ok and rig.robot.robot_mode == 5
    assert ask(rig, "brake-release").ok and rig.robot.robot_mode == 7
    assert rig.state.mode == "STOPPED"


def test_unlock_moves_and_arms_nothing():
    rig = stopped(safety_mode=3)
    sent = len(rig.robot.sent)
    assert ask(rig, "unlock").ok and rig.robot.safety_mode == 1
    assert rig.state.mode == "STOPPED" and len(rig.robot.sent) == sent


@pytest.mark.parametrize("act", ["power-on", "unlock"])
def test_without_the_credential_it_is_refused(act):
    rig = stopped(robot_mode=3, safety_mode=3)
    assert ask(rig, act, "guess").message == "credential refused"
    assert rig.robot.robot_mode == 3 and rig.robot.safety_mode == 3


def test_guessing_is_slowed_down_as_for_arming():
    rig = stopped(robot_mode=3)
    for _ in range(8):
        rig.guard.handle("operator", RobotAct("power-on", "guess", "r"), rig.now_s)
    assert "too many" in rig.last(Reply).message
    rig.guard.handle("operator", RobotAct("power-on", CREDENTIAL, "r"), rig.now_s)
    assert not rig.last(Reply).ok and rig.robot.robot_mode == 3


def test_while_armed_it_is_refused():
    rig = stopped()
    rig.arm()
    assert "stop and disarm first" in ask(rig, "power-off").message
    assert rig.robot.robot_mode == 7 and rig.state.mode == "ARMED_AUTO"


@pytest.mark.parametrize("when", ["arming", "braking"])
def test_while_arming_or_stopping_it_is_refused(when):
    rig = stopped()
    if when == "braking":
        rig.arm()
        rig.move(0.3)
        rig.guard.stop_requests([(Stop("panel"), 1)], rig.now_s)
    else:
        rig.guard.handle("operator", Arm("auto", CREDENTIAL, "a"), rig.now_s)
    rig.guard.handle("operator", RobotAct("power-off", CREDENTIAL, "r"), rig.now_s)
    assert "stop and disarm first" in rig.last(Reply).message and rig.robot.robot_mode == 7


def test_while_an_act_is_under_way_nothing_is_armed_and_who_has_gone_is_not_answered():
    rig = stopped()
    rig.robot.act_result, result = lambda: None, rig.robot.act_result
    rig.guard.handle("operator", RobotAct("brake-release", CREDENTIAL, "r"), rig.now_s)
    assert rig.arm().message == "an act on the robot is under way"
    rig.guard.forget("operator", rig.now_s)
    said, rig.robot.act_result = len(rig.answers), result
    rig.run(0.1)
    assert len(rig.answers) == said and rig.arm().ok


@pytest.mark.parametrize("act", ["", "play", "power on\npower off", "x" * 4000])
def test_an_unknown_act_is_refused(act):
    rig = stopped()
    reply = ask(rig, act)
    assert not reply.ok and len(reply.message) < 600


# --- over the dashboard of the emulated controller ---


@pytest.fixture(params=["cb3", "e_series"])
def bench(request):
    bench = Bench(getattr(ControllerConfig, request.param)())
    yield bench
    bench.close()


def carry_out(bench, act, cycles=1):
    acts = OperatorDashboard(HOST)
    acts._client.port = bench.server.dashboard_port
    acts.begin(act, 0.0)
    result = bench.pump_until(lambda: acts.poll(0.0))
    assert not acts.busy  # the next one may be asked for
    acts.close()
    bench.cycle(cycles)
    return result


def test_one_act_at_a_time():
    acts = OperatorDashboard(HOST)
    acts.begin("unlock", 0.0)
    with pytest.raises(RobotError, match="unlock is under way"):
        acts.begin("power-off", 0.0)
    acts.close()
    assert not acts.busy


WAIT = "def w():\n  while True:\n    sync()\n  end\nend\n"


def test_the_paused_program_is_ended_before_unlocking(bench):
    bench.controller.start_program(WAIT)
    bench.controller.protective_stop()
    bench.cycle(5)
    early = carry_out(bench, "unlock")
    assert not early.ok and "until 5s" in early.detail and bench.controller.safety_mode is SafetyMode.PROTECTIVE_STOP
    bench.cycle(round(5.0 / bench.controller.config.steptime_s))
    assert carry_out(bench, "unlock").ok
    assert bench.controller.safety_mode is SafetyMode.NORMAL
    assert bench.controller.runtime_state is RuntimeState.STOPPED
    assert not bench.controller.press_play()  # nothing is left to go on


def test_power_up_after_an_emergency_stop(bench):
    bench.controller.start_program(WAIT)
    bench.controller.emergency_stop()
    bench.cycle(5)
    assert not carry_out(bench, "power-on").ok  # the button is still in
    bench.controller.release_emergency_stop()
    assert carry_out(bench, "power-on").ok
    bench.run_until(lambda: bench.controller.robot_mode is RobotMode.IDLE)
    assert carry_out(bench, "brake-release").ok
    bench.run_until(lambda: bench.controller.robot_mode is RobotMode.RUNNING)
    assert not bench.controller.press_play()


def test_a_violation_ends_by_restarting_the_safety_system(bench):
    bench.controller.violation()
    bench.cycle(5)
    assert not carry_out(bench, "brake-release").ok
    assert carry_out(bench, "restart-safety").ok
    assert bench.controller.safety_mode is SafetyMode.NORMAL and bench.controller.robot_mode is RobotMode.POWER_OFF


@pytest.mark.parametrize("act", ACTS)
def test_in_local_control_every_act_is_refused_with_the_controllers_words(act):
    bench = Bench(ControllerConfig.e_series())
    try:
        bench.controller.set_remote_control(False)
        result = carry_out(bench, act)
        assert not result.ok and "please switch robot to Remote Control" in result.detail
    finally:
        bench.close()
