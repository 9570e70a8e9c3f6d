"""A gamepad through `sensor_msgs/Joy` values, and one winner among several streams."""
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhand.errors import ConfigError
from steadyhand.jog import JogCommand, JogConfig, JogRefused
from steadyhand.joy import Arbiter, JoyConfig, JoyMap

CONFIG, SPEEDS = JoyConfig(), JogConfig()
AXES, BUTTONS = 8, 11


def pad(deflected=None, pressed=()):
    axes = [0.0] * AXES
    for axis, value in (deflected or {}).items():
        axes[axis] = value
    return axes, [int(k in pressed) for k in range(BUTTONS)]


def test_without_the_dead_man_nothing_is_asked_for():
    assert not any(JoyMap().read(*pad({1: 1.0, 0: 1.0, 3: 1.0}), 0.0).command.values)


def test_with_it_full_deflection_is_the_configured_share():
    command = JoyMap().read(*pad({1: 1.0, 3: -1.0}, {CONFIG.dead_man}), 0.0).command
    assert command.values[0] == pytest.approx(CONFIG.speed * SPEEDS.linear_m_s)
    assert command.values[5] == pytest.approx(-CONFIG.speed * SPEEDS.angular_rad_s)
    assert command.frame == "base_link" and not command.joint


def test_the_dead_zone_is_none_and_its_edge_is_smooth():
    read = JoyMap().read
    values = [read(*pad({1: d}, {CONFIG.dead_man}), 0.0).command.values[0] for d in (0.05, 0.1, 0.11, -0.11)]
    assert values[0] == values[1] == 0.0 and 0 < values[2] < 0.01 and values[3] == -values[2]


def test_a_button_acts_once_per_press():
    joy = JoyMap()
    stops = [joy.read(*pad(pressed=p), 0.0).stop for p in ((), (CONFIG.stop,), (CONFIG.stop,), (), (CONFIG.stop,))]
    assert stops == [False, True, False, False, True]


@pytest.mark.parametrize("axes, buttons", [
    ([0.0] * 4, [0] * 11), ([0.0] * 8, [0] * 4), ([], []),
    ([float("nan")] * 8, [0] * 11), ([float("inf")] * 8, [0] * 11), ([0.0] * 1000, [0] * 11),
])  # fmt: skip
def test_a_pad_that_does_not_fit_is_refused(axes, buttons):
    with pytest.raises(JogRefused, match="joy"):
        JoyMap().read(axes, buttons, 0.0)


@pytest.mark.parametrize("axes", [[float("nan")] * AXES, [], [0.0] * 1000])
def test_the_stop_button_of_a_broken_pad_counts(axes):
    reading = JoyMap().read(axes, pad(pressed={CONFIG.stop, CONFIG.dead_man, CONFIG.gripper_open})[1], 0.0)
    assert reading.stop and not reading.open and not any(reading.command.values)


@given(st.lists(st.floats(), max_size=12), st.lists(st.integers(-5, 5), max_size=16))
def test_any_pad_gives_a_bounded_command_or_a_refusal(axes, buttons):
    try:
        command = JoyMap().read(axes, buttons, 0.0).command
    except JogRefused:
        return
    assert max(map(abs, command.values)) <= 0.5


@pytest.mark.parametrize("changes", [
    dict(axes=(1, 2)), dict(axes=(1, 0, 4, -2, -1, 3)), dict(signs=(1.0,) * 5), dict(signs=(2.0,) * 6), dict(stop=4),
    dict(dead_zone=0.9), dict(speed=0.0),
])  # fmt: skip
def test_a_wrong_configuration_is_refused_by_name(changes):
    with pytest.raises(ConfigError, match="JoyConfig"):
        JoyConfig(**changes)


def command(stamp_s, x=0.0):
    return JogCommand(stamp_s, (x, 0, 0, 0, 0, 0))


def test_the_stream_that_moves_keeps_the_arm():
    arbiter = Arbiter(0.1)
    assert arbiter.command() is None
    arbiter.put("joy", command(0.00, 0.1))
    arbiter.put("twist", command(0.01, -0.1))
    assert arbiter.command().values[0] == 0.1 and arbiter.overruled == 1
    arbiter.put("joy", command(0.02))  # let go
    arbiter.put("twist", command(0.03, -0.1))
    assert arbiter.command().values[0] == -0.1
    arbiter.put("joy", command(0.05))
    assert arbiter.command().values[0] == -0.1  # another's zeros take nothing over
    arbiter.put("joy", command(0.20, 0.2))  # the owner has fallen silent
    assert arbiter.command().values[0] == 0.2
