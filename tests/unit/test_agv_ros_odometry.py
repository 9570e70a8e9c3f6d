"""Odometry is taken whole, on our clock, or refused by name."""
import dataclasses
import math

import pytest

from steadyhand_firmware_bridge.agv_ros.odometry import OdometryReader
from steadyhand_firmware_bridge.agv_ros.wire import Odom
from tests.support.agv_ros_rig import config


def odom(at_s, x=0.0, yaw=0.0, v=0.0, stamp_s=None, **changes):
    made = Odom(
        100.0 + at_s, 5000.0 + at_s if stamp_s is None else stamp_s, "odom", "base_link",
        [x, 0.0, 0.0, 0.0, 0.0, math.sin(yaw / 2), math.cos(yaw / 2)], [v, 0.0, 0.0, 0.0, 0.0, 0.0],
    )  # fmt: skip
    return dataclasses.replace(made, **changes)


@pytest.fixture
def reader():
    reader = OdometryReader(config())
    for k in range(5):
        assert reader.take(odom(0.02 * k)) is not None
    return reader


def with_part(values, index, value):
    values = list(values)
    values[index] = value
    return values


good = odom(0.1)
BAD = {
    "frame": [odom(0.1, frame="map"), odom(0.1, child_frame="base_footprint"), odom(0.1, frame="")],
    "not_finite": [
        *(odom(0.1, pose=with_part(good.pose, k, math.nan)) for k in range(7)),
        *(odom(0.1, twist=with_part(good.twist, k, math.inf)) for k in range(6)),
        odom(0.1, stamp_s=math.nan), odom(0.1, pose=[0.0] * 6), odom(0.1, twist=[]),
    ],
    "orientation": [odom(0.1, pose=[0.0] * 7), odom(0.1, pose=[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.2])],
    "unstamped": [odom(0.1, stamp_s=0.0), odom(0.1, stamp_s=-1.0)],
    "back_in_time": [odom(0.1, stamp_s=5000.07), odom(0.1, stamp_s=4000.0)],
    "jump": [odom(0.1, x=0.3), odom(0.1, x=-50.0), odom(0.1, yaw=2.0)],
    "speed": [odom(0.1, v=3.0)],
}  # fmt: skip


@pytest.mark.parametrize("reason, message", [(r, m) for r, messages in BAD.items() for m in messages])
def test_what_is_wrong_is_refused_named_counted_and_a_trouble_for_a_second(reader, reason, message):
    assert reader.take(message) is None
    assert reader.refused == {reason: 1}
    assert reader.trouble(100.11)[0] == reason and reader.trouble(100.11)[1]
    assert reader.trouble(101.2) == ("", "")


def test_frames_are_named_as_they_are_and_as_they_should_be(reader):
    reader.take(odom(0.1, child_frame="base_footprint"))
    assert reader.trouble(100.1)[1] == "child_frame_id='base_footprint', wanted 'base_link'"


def test_a_step_is_told_once_and_is_the_new_beginning(reader):
    assert reader.take(odom(0.10, x=5.0)) is None
    assert reader.take(odom(0.12, x=5.0)).pose_m_rad[0] == 5.0
    assert reader.take(odom(0.14, x=5.0, stamp_s=4000.0)) is None
    later = reader.take(odom(0.16, x=5.0, stamp_s=4000.02))
    assert later is not None and later.measured_s == pytest.approx(100.16, abs=1e-3)
    assert reader.refused == {"jump": 1, "back_in_time": 1}


def test_driving_at_the_loads_speed_and_turning_over_pi_is_no_step(reader):
    x = yaw = 0.0
    for k in range(200):
        x, yaw = x + 0.5 * 0.02, math.remainder(yaw + 0.8 * 0.02, 2 * math.pi)
        assert reader.take(odom(0.1 + 0.02 * k, x=x, yaw=yaw, v=0.5)) is not None
    assert yaw < 0.0


def test_a_repeated_message_is_no_new_measurement_and_no_trouble(reader):
    assert reader.take(odom(0.09, stamp_s=5000.08)) is None
    assert reader.refused == {"repeated": 1} and reader.trouble(100.1) == ("", "")


def test_what_was_held_up_counts_as_old_as_it_is(reader):
    late = dataclasses.replace(odom(0.1), arrival_s=100.9)
    assert reader.take(late).measured_s == pytest.approx(100.1, abs=2e-3)


def test_a_clock_that_is_set_forward_keeps_its_readings_fresh(reader):
    assert reader.take(odom(0.1, stamp_s=6000.0)).measured_s == pytest.approx(100.1)
    assert reader.take(odom(0.12, stamp_s=6000.02)).measured_s == pytest.approx(100.12)
