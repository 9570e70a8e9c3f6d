"""Messages and core types are turned into one another without loss; what the core could not use is refused by name."""
import dataclasses
import json
import math

import numpy as np
import pytest

msg = pytest.importorskip("steadyhand_interfaces.msg")

from steadyhand import guard_protocol, types, ur5  # noqa: E402
from steadyhand.errors import ProtocolError  # noqa: E402
from steadyhand_perception.tray_poses import Sight  # noqa: E402
from steadyhand_ros import conversions  # noqa: E402

pytestmark = pytest.mark.ros

STATE = guard_protocol.State(
    stamp_s=12.5, seq=7, token=99, mode="ARMED_AUTO", q_rad=[0.1] * 6, qd_rad_s=[0.2] * 6, q_commanded_rad=[0.3] * 6,
    qd_commanded_rad_s=[0.4] * 6, gripper_width_m=0.06, gripper_commanded_m=0.05, at_rest=False, causes=["a", "b"],
    robot_mode=7, safety_mode=1, trace_id="t", plan_left_s=0.5, counters={"cycles": 3}, scheduler="SCHED_FIFO",
)


def state_message():
    from builtin_interfaces.msg import Time

    return conversions.safety_state_msg(STATE, Time())


def test_the_guards_state_arrives_as_it_was():
    state = conversions.robot_state(state_message())
    assert not state.payload_due
    for field in dataclasses.fields(state):
        if field.name == "payload_due":
            continue  # travels among the counters
        sent, arrived = getattr(STATE, field.name), getattr(state, field.name)
        same = list(arrived) == sent if isinstance(sent, list) else arrived == sent
        assert same, field.name
    message = state_message()
    assert (message.robot_mode, message.safety_mode, message.trace_id, message.plan_left) == (7, 1, "t", 0.5)
    assert (json.loads(message.counters_json), message.scheduler) == ({"cycles": 3}, "SCHED_FIFO")


@pytest.mark.parametrize("counters, due", [
    ({"payload_due": 1}, True), ({"payload_due": 0}, False), ({}, False), ({'stop:"payload_due": 1': 1}, False),
])
def test_a_payload_that_is_due_arrives(counters, due):
    from builtin_interfaces.msg import Time

    message = conversions.safety_state_msg(dataclasses.replace(STATE, counters=counters), Time())
    assert conversions.robot_state(message).payload_due is due


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"joint_names": list(ur5.JOINT_NAMES[::-1])}, "joint_names"),
        ({"joint_names": []}, "joint_names"),
        ({"q": [0.0] * 5}, "safety_state.q has 5"),
        ({"qd_commanded": []}, "safety_state.qd_commanded has 0"),
        ({"mode": "FLYING"}, "FLYING"),
    ],
)
def test_a_state_that_cannot_be_used_is_refused_by_name(change, named):
    message = state_message()
    for name, value in change.items():
        setattr(message, name, value)
    with pytest.raises(ProtocolError) as caught:
        conversions.robot_state(message)
    assert named in str(caught.value)


def test_a_chunk_reaches_the_guard_unchanged_not_finite_values_too():
    q = np.arange(12.0).reshape(2, 6)
    q[1, 2] = math.nan
    chunk = types.JointChunk(5, 8, 1.5, "t", "planner", ur5.JOINT_NAMES, 0.07, q)
    sent = conversions.guard_chunk(conversions.joint_chunk_msg(chunk))
    assert (sent.token, sent.state_seq, sent.state_stamp_s, sent.trace_id) == (5, 8, 1.5, "t")
    assert (sent.source, sent.period_s) == ("planner", 0.07)
    assert np.array_equal(np.array(sent.q_rad), q, equal_nan=True) and tuple(sent.joint_names) == ur5.JOINT_NAMES


@pytest.mark.parametrize(("names", "count"), [(6, 47), (0, 6), (7, 48)])
def test_a_chunk_without_rows_is_refused(names, count):
    message = msg.JointChunk(joint_names=["j"] * names, q=[0.0] * count)
    with pytest.raises(ProtocolError, match="not a multiple"):
        conversions.guard_chunk(message)


def test_an_object_that_is_not_finite_is_refused():
    with pytest.raises(ProtocolError, match="object 3.yaw"):
        conversions.object_estimate(msg.ObjectPose(id=3, yaw=math.inf))


@pytest.mark.parametrize("accepted", [True, False])
def test_a_verdict_arrives_as_it_was(accepted):
    sent = guard_protocol.Verdict("t", accepted, "expired", "by 3 ms")
    assert conversions.verdict(conversions.verdict_msg(sent)) == types.Verdict("t", accepted, "expired", "by 3 ms")


@pytest.mark.parametrize("mode", types.EstimateMode)
def test_an_estimate_arrives_as_it_was(mode):
    seen = types.ObjectEstimate(4, np.array([0.1, 0.2, 0.3]), 0.4, 0.6, 0.7, 0.8, in_box=True)
    other = dataclasses.replace(seen, object_id=5, in_box=False)
    sent = types.Estimate(12.25, mode, "why", "o", 0.9, (seen, other))
    got = conversions.estimate(conversions.state_estimate_msg(sent))
    assert (got.stamp_s, got.mode, got.reason, got.observation_id, got.image_age_s) == (12.25, mode, "why", "o", 0.9)
    for one, same in zip((seen, other), got.objects, strict=True):
        assert {**vars(one), "position_m": [0.1, 0.2, 0.3]} == {**vars(same), "position_m": same.position_m.tolist()}


@pytest.mark.parametrize("in_box", [True, False])
def test_a_detection_becomes_an_object_that_is_no_track(in_box):
    m = conversions.detection_msg(types.Detection(np.array([0.1, 0.2, 0.3]), 0.4, 0.5, 0.6), in_box)
    assert (m.id, m.x, m.y, m.z, m.yaw) == (-1, 0.1, 0.2, 0.3, 0.4)
    assert (m.presence, m.position_std, m.in_box) == (0.5, 0.6, in_box)


def test_detections_keep_their_values():
    poses = msg.ObjectPoses(image_seq=4, observation_id="o", objects=[msg.ObjectPose(x=1.0, y=math.nan, presence=0.9)])
    poses.header.stamp.sec, poses.header.stamp.nanosec = 3, 500_000_000
    seen = conversions.detections(poses)
    assert (seen.stamp_s, seen.image_seq, seen.observation_id) == (3.5, 4, "o")
    assert seen.objects[0].position_m[0] == 1.0 and math.isnan(seen.objects[0].position_m[1])


def sight(*defects, grasp_success=None):
    """Three cubes: in the tray, in the box, dropped."""
    cubes = [types.Detection(np.array([float(k), 0.0, 0.02]), 0.0, 0.9, 0.002, d) for k, d in enumerate(defects)]
    return Sight((cubes[0],), (cubes[1],), (cubes[2],), np.zeros(4, np.float32), 5.0, "CPU", grasp_success)


def test_defects_and_the_grasp_arrive_beside_the_objects_they_are_of():
    m = conversions.object_poses_msg(sight(0.1, 0.2, 0.3, grasp_success=0.75), 7, "o")
    assert list(m.grasp_success) == [0.75] and [o.in_box for o in m.objects] == [False, False, True]
    seen = conversions.detections(m)
    assert {o.position_m[0]: o.defect for o in seen.objects} == {0.0: 0.1, 1.0: 0.2, 2.0: 0.3}


def test_a_model_that_tells_nothing_of_defects_says_nothing():
    m = conversions.object_poses_msg(sight(None, None, None), 7, "o")
    assert len(m.defect) == len(m.grasp_success) == 0 and len(m.objects) == 3
    assert [o.defect for o in conversions.detections(m).objects] == [None] * 3


@pytest.mark.parametrize(("defect", "said"), [
    ([0.1, 0.2], "defect: 2 values for 3"), ([0.1, math.nan, 0.3], r"defect\[1\] = nan"), ([0.1, 0.2, 1.1], r"defect\[2\]"),
])  # fmt: skip
def test_defects_that_cannot_be_are_refused(defect, said):
    m = conversions.object_poses_msg(sight(0.1, 0.2, 0.3), 7, "o")
    m.defect = defect
    with pytest.raises(ProtocolError, match=said):
        conversions.detections(m)
