"""Whatever the link process is told, and whenever: what goes out keeps the load's limits, and a stop is kept."""
import math

from hypothesis import given, settings
from hypothesis import strategies as st

from steadyhand_firmware_bridge.agv_ros.link_core import LinkCore, Publish, SendGoal, Stage
from steadyhand_firmware_bridge.agv_ros.wire import Alive, Begin, Goal, Halt, Hold, SetPoint
from tests.support.agv_ros_rig import config

number = st.one_of(st.floats(-0.6, 0.6), st.sampled_from([0.0, 0.5, -0.5, math.nan, math.inf, -math.inf, 1e300]))
token = st.sampled_from([0, 1, 2, 3])
stamp = st.sampled_from([0.0, 0.0, 0.0, -0.02, -0.2, -10.0, 0.5, math.nan])  # against now
seq = st.integers(0, 200)
messages = st.one_of(
    st.builds(Begin, token, stamp), st.builds(Alive, stamp), st.builds(Halt, stamp),
    st.builds(Hold, token, st.booleans()), st.builds(SetPoint, token, seq, stamp, number, number, number),
    st.builds(Goal, token, seq, stamp, number, number, number),
    st.tuples(number, number, number),  # a measured twist
)  # fmt: skip
waits = st.sampled_from([0.001, 0.02, 0.02, 0.02, 0.04, 0.1, 0.6])
SLACK = 1e-9


def at(message, now_s):
    """With its stamp on the clock."""
    if hasattr(message, "stamp_s"):
        return type(message)(**{**vars(message), "stamp_s": now_s + message.stamp_s})
    return message


@settings(deadline=None, max_examples=150)
@given(
    st.lists(st.tuples(st.lists(messages, max_size=3), waits), max_size=60), st.sampled_from(["cmd_vel", "nav2"]),
    st.booleans(),
)  # fmt: skip
def test_what_goes_out_keeps_the_limits_and_a_stop_is_kept(steps, drive, holonomic):
    car = config(drive=drive, holonomic=holonomic)
    load, core, now_s = car.limits, LinkCore(car, 100.0), 100.0
    for told, wait_s in steps:
        for message in told:
            if isinstance(message, tuple):
                core.measured(message, now_s)
            else:
                core.take(at(message, now_s), now_s)
        before, stage = core.velocity, core.stage
        now_s += wait_s
        acts = core.step(now_s)
        out = [a.velocity for a in acts if isinstance(a, Publish)]
        assert len(out) <= 1
        for v in out:
            assert all(map(math.isfinite, v))
            assert math.hypot(v[0], v[1]) <= load.speed_m_s + SLACK and abs(v[2]) <= load.omega_rad_s + SLACK
            assert holonomic or v[1] == 0.0
            if stage is Stage.STOPPED or core.stage is stage is Stage.FOLLOWING:
                dt_s = min(wait_s, 2.0 / car.hz)
                assert math.hypot(v[0] - before[0], v[1] - before[1]) <= load.stop_m_s2 * dt_s + SLACK
            if stage in (Stage.STOPPED, Stage.HELD):  # never faster
                assert all(abs(b) <= abs(a) + SLACK for a, b in zip(before, v))
        if stage in (Stage.STOPPED, Stage.SILENT):
            assert not any(isinstance(a, SendGoal) for a in acts)
            assert stage is Stage.STOPPED or not out
    core.take(Halt(now_s), now_s)
    for _ in range(100):
        now_s += 0.02
        core.step(now_s)
    assert core.velocity == (0.0, 0.0, 0.0) and core.token == 0
