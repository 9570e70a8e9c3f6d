"""Over any velocities the ramp keeps the load's limits, a stop keeps the curve, and both end."""
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhand_firmware_bridge.agv_ros import ramp
from steadyhand_firmware_bridge.agv_ros.config import LoadLimits

DT_S = 0.02
part = st.floats(-0.5, 0.5)
velocity = st.tuples(part, part, part)
loads = st.builds(
    LoadLimits, accel_m_s2=st.floats(0.1, 3.0), decel_m_s2=st.floats(0.1, 3.0), stop_m_s2=st.floats(3.0, 9.0),
    omega_accel_rad_s2=st.floats(0.1, 5.0), omega_decel_rad_s2=st.floats(0.1, 5.0),
    omega_stop_rad_s2=st.floats(5.0, 20.0),
)  # fmt: skip
dts = st.floats(0.001, 0.04)


def change(a, b):
    return math.hypot(b[0] - a[0], b[1] - a[1]), abs(b[2] - a[2])


@given(velocity, velocity, loads, dts)
def test_no_step_is_above_the_limits(v, wanted, load, dt_s):
    linear, angular = change(v, ramp.follow(v, wanted, load, dt_s))
    assert linear <= max(load.accel_m_s2, load.decel_m_s2) * dt_s + 1e-9
    assert angular <= max(load.omega_accel_rad_s2, load.omega_decel_rad_s2) * dt_s + 1e-9


@given(velocity, velocity, loads)
def test_what_is_wanted_is_reached_and_kept(v, wanted, load):
    for _ in range(3000):
        v = ramp.follow(v, wanted, load, DT_S)
    assert v == wanted and ramp.follow(v, wanted, load, DT_S) == wanted


@given(velocity, loads, dts)
def test_a_stop_keeps_the_curve_and_its_limits(v, load, dt_s):
    after = ramp.stop(v, load, dt_s)
    linear, angular = change(v, after)
    assert linear <= load.stop_m_s2 * dt_s + 1e-9 and angular <= load.omega_stop_rad_s2 * dt_s + 1e-9
    if after != ramp.ZERO:  # shorter, in the same direction
        shares = [b / a for a, b in zip(v, after) if abs(a) > 1e-6]
        assert shares == pytest.approx([shares[0]] * len(shares)) and 0.0 < shares[0] < 1.0


@given(velocity, loads)
def test_a_stop_takes_as_long_as_its_slower_part_and_ends_at_zero(v, load):
    takes_s = max(math.hypot(v[0], v[1]) / load.stop_m_s2, abs(v[2]) / load.omega_stop_rad_s2)
    steps = 0
    while v != ramp.ZERO:
        v, steps = ramp.stop(v, load, DT_S), steps + 1
        assert steps <= takes_s / DT_S + 2
    assert steps >= takes_s / DT_S - 1


@given(st.floats(0.01, 0.5), st.floats(-0.5, -0.01), loads)
def test_turning_round_passes_through_zero_no_faster_than_the_gentler_limit(v, wanted, load):
    linear, _ = change((v, 0.0, 0.0), ramp.follow((v, 0.0, 0.0), (wanted, 0.0, 0.0), load, DT_S))
    assert linear <= min(load.accel_m_s2, load.decel_m_s2) * DT_S + 1e-9


@pytest.mark.parametrize("v, holonomic, says", [
    ((0.6, 0.0, 0.0), False, "vx_m_s=0.6: give at most 0.5"), ((-0.6, 0.0, 0.0), False, "vx_m_s=-0.6"),
    ((0.1, 0.1, 0.0), False, "vy_m_s=0.1: this vehicle cannot"), ((0.4, 0.4, 0.0), True, "speed of vx_m_s and vy_m_s"),
    ((0.0, 0.0, -0.9), False, "omega_rad_s=-0.9: give at most 0.8"), ((0.5, 0.0, 0.8), False, ""),
])  # fmt: skip
def test_what_is_above_a_limit_is_named(v, holonomic, says):
    found = ramp.above(v, LoadLimits(), holonomic)
    assert found.startswith(says) and bool(found) == bool(says)
