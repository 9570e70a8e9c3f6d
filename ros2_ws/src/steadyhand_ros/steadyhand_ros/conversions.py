"""Messages <-> core types. The only module that knows both sides; refuses what the core could not use."""
from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import numpy as np
from steadyhand_interfaces import msg

from steadyhand import guard_protocol, types, ur5
from steadyhand.errors import ProtocolError

if TYPE_CHECKING:
    from steadyhand_perception.tray_poses import Sight


def robot_state(m: msg.SafetyState) -> types.RobotState:
    """SafetyState -> RobotState. Raises ProtocolError for wrong joint order or lengths, or an unknown mode."""
    if tuple(m.joint_names) != ur5.JOINT_NAMES:
        raise ProtocolError(f"safety_state.joint_names = {list(m.joint_names)}: expected {list(ur5.JOINT_NAMES)}")
    arrays = {name: np.array(getattr(m, name)) for name in ("q", "qd", "q_commanded", "qd_commanded")}
    for name, value in arrays.items():
        if value.shape != (ur5.DOF,):
            raise ProtocolError(f"safety_state.{name} has {value.size} values: expected {ur5.DOF}")
    try:
        mode = types.Mode(m.mode)
    except ValueError:
        raise ProtocolError(f"safety_state.mode = {m.mode!r}: expected {[x.value for x in types.Mode]}") from None
    return types.RobotState(
        stamp_s=m.guard_stamp, seq=m.seq, token=m.token, mode=mode,
        q_rad=arrays["q"], qd_rad_s=arrays["qd"],
        q_commanded_rad=arrays["q_commanded"], qd_commanded_rad_s=arrays["qd_commanded"],
        gripper_width_m=m.gripper_width, gripper_commanded_m=m.gripper_commanded,
        at_rest=m.at_rest, causes=tuple(m.causes), payload_due='"payload_due": 1' in m.counters_json,
    )


def safety_state_msg(s: guard_protocol.State, stamp) -> msg.SafetyState:
    """Guard State -> SafetyState."""
    m = msg.SafetyState(
        guard_stamp=float(s.stamp_s), seq=s.seq, token=s.token, mode=s.mode, causes=s.causes, at_rest=s.at_rest,
        joint_names=list(ur5.JOINT_NAMES),
        q=[float(v) for v in s.q_rad], qd=[float(v) for v in s.qd_rad_s],
        q_commanded=[float(v) for v in s.q_commanded_rad], qd_commanded=[float(v) for v in s.qd_commanded_rad_s],
        gripper_width=float(s.gripper_width_m), gripper_commanded=float(s.gripper_commanded_m),
        robot_mode=s.robot_mode, safety_mode=s.safety_mode, trace_id=s.trace_id, plan_left=float(s.plan_left_s),
        scheduler=s.scheduler, counters_json=json.dumps(s.counters),
    )
    m.header.stamp = stamp
    m.header.frame_id = "base_link"
    return m


def joint_chunk_msg(c: types.JointChunk) -> msg.JointChunk:
    """JointChunk -> message."""
    return msg.JointChunk(
        token=c.token, seq=c.state_seq, guard_stamp=c.state_stamp_s, trace_id=c.trace_id, source=c.source,
        joint_names=list(c.joint_names), period=c.period_s, q=np.asarray(c.q_rad, dtype=float).ravel().tolist(),
    )


def guard_chunk(m: msg.JointChunk) -> guard_protocol.Chunk:
    """Message -> guard Chunk, unchanged in content: the guard judges it. Only what has no row structure is refused."""
    width = len(m.joint_names)
    if width == 0 or len(m.q) % width:
        raise ProtocolError(f"joint_chunk.q has {len(m.q)} values: not a multiple of {width} joint names")
    rows = np.asarray(m.q, dtype=float).reshape(-1, width).tolist()
    return guard_protocol.Chunk(
        token=m.token, state_seq=m.seq, state_stamp_s=m.guard_stamp, trace_id=m.trace_id, source=m.source,
        joint_names=list(m.joint_names), period_s=m.period, q_rad=rows,
    )


def verdict_msg(v: guard_protocol.Verdict) -> msg.Verdict:
    """Guard Verdict -> message."""
    return msg.Verdict(trace_id=v.trace_id, accepted=v.accepted, reason=v.reason, detail=v.detail)


def verdict(m: msg.Verdict) -> types.Verdict:
    """Message -> Verdict."""
    return types.Verdict(trace_id=m.trace_id, accepted=m.accepted, reason=m.reason, detail=m.detail)


def object_pose_msg(o: types.ObjectEstimate, in_box: bool = False) -> msg.ObjectPose:
    """ObjectEstimate -> message."""
    x, y, z = (float(v) for v in o.position_m)
    return msg.ObjectPose(
        id=int(o.object_id), x=x, y=y, z=z, yaw=float(o.yaw_rad), presence=float(o.presence),
        position_std=float(o.position_std_m), age=float(o.age_s), in_box=in_box,
    )


def object_estimate(m: msg.ObjectPose) -> types.ObjectEstimate:
    """Message -> ObjectEstimate. Raises ProtocolError for a value that is not finite."""
    values = {name: getattr(m, name) for name in ("x", "y", "z", "yaw", "presence", "position_std", "age")}
    for name, value in values.items():
        if not math.isfinite(value):
            raise ProtocolError(f"object {m.id}.{name} = {value}: not finite")
    return types.ObjectEstimate(
        object_id=m.id, position_m=np.array([m.x, m.y, m.z]), yaw_rad=m.yaw, presence=m.presence,
        position_std_m=m.position_std, age_s=m.age, in_box=m.in_box,
    )


def state_estimate_msg(e: types.Estimate) -> msg.StateEstimate:
    """Estimate -> message; header.stamp is the capture time of the newest image used."""
    m = msg.StateEstimate(
        mode=int(e.mode), reason=e.reason, observation_id=e.observation_id, image_age=float(e.image_age_s),
        objects=[object_pose_msg(o, o.in_box) for o in e.objects],
    )
    if math.isfinite(e.stamp_s):
        m.header.stamp.sec, m.header.stamp.nanosec = int(e.stamp_s), int(e.stamp_s % 1.0 * 1e9)
    m.header.frame_id = "base_link"
    return m


def estimate(m: msg.StateEstimate) -> types.Estimate:
    """Message -> Estimate. Raises ProtocolError for an unknown mode or an object value that is not finite."""
    try:
        mode = types.EstimateMode(m.mode)
    except ValueError:
        known = [int(x) for x in types.EstimateMode]
        raise ProtocolError(f"state_estimate.mode = {m.mode}: expected {known}") from None
    stamp_s = m.header.stamp.sec + m.header.stamp.nanosec * 1e-9
    objects = tuple(object_estimate(o) for o in m.objects)
    return types.Estimate(stamp_s, mode, m.reason, m.observation_id, m.image_age, objects)


def fault_msg(f: types.Fault, level: int, stamp) -> msg.Fault:
    """Fault -> message."""
    m = msg.Fault(name=f.name, level=level, detector=f.detector, detail=f.detail[:500], active=True)
    m.header.stamp = stamp
    return m


def detection_msg(d: types.Detection, in_box: bool) -> msg.ObjectPose:
    """Detection -> message; id -1 says that it is not a track."""
    x, y, z = (float(v) for v in d.position_m)
    return msg.ObjectPose(
        id=-1, x=x, y=y, z=z, yaw=float(d.yaw_rad), presence=float(d.presence),
        position_std=float(d.position_std_m), in_box=in_box,
    )


def object_poses_msg(seen: Sight, image_seq: int, observation_id: str) -> msg.ObjectPoses:
    """What one image shows -> message, without its header."""
    objects = [(d, False) for d in seen.in_tray + seen.elsewhere] + [(d, True) for d in seen.in_box]
    told = [d.defect for d, _ in objects]
    return msg.ObjectPoses(
        image_seq=image_seq, observation_id=observation_id, inference_ms=seen.inference_ms, provider=seen.provider,
        objects=[detection_msg(d, in_box) for d, in_box in objects],
        defect=[] if None in told else told,
        grasp_success=[] if seen.grasp_success is None else [seen.grasp_success],
    )


def detections(m: msg.ObjectPoses) -> types.Detections:
    """Message -> Detections, poses as they came: the estimator refuses and counts what is not finite.

    Raises ProtocolError when `defect` has another length than `objects`, or holds what is no probability.
    """
    defects = list(m.defect) or [None] * len(m.objects)
    if len(defects) != len(m.objects):
        raise ProtocolError(f"defect: {len(defects)} values for {len(m.objects)} objects")
    for k, defect in enumerate(m.defect):
        if not 0.0 <= defect <= 1.0:
            raise ProtocolError(f"defect[{k}] = {defect}: no probability")
    objects = tuple(
        types.Detection(np.array([o.x, o.y, o.z]), o.yaw, o.presence, o.position_std, defect)
        for o, defect in zip(m.objects, defects)
    )
    stamp_s = m.header.stamp.sec + m.header.stamp.nanosec * 1e-9
    return types.Detections(stamp_s, m.image_seq, m.observation_id, objects)
