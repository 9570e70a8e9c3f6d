"""Jogging: limits, timeout, singularities, bad input; through the guard's own gate, from any pose, for any command."""
import dataclasses

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steadyhand import cell, kinematics, ur5
from steadyhand.guard_protocol import Chunk, Verdict
from steadyhand.jog import CONDITION_HALT, Jog, JogCommand, JogConfig, JogRefused
from steadyhand.limits import UR5_LIMITS
from steadyhand.types import Mode, RobotState
from steadyhand.types import Verdict as CoreVerdict
from tests.unit.test_guard_core import Rig

DT_S = 0.008
CONFIG = JogConfig()


def core_state(s):
    return RobotState(
        s.stamp_s, s.seq, s.token, Mode(s.mode), np.array(s.q_rad), np.array(s.qd_rad_s), np.array(s.q_commanded_rad),
        np.array(s.qd_commanded_rad_s), s.gripper_width_m, s.gripper_commanded_m, s.at_rest,
    )  # fmt: skip


def armed(mode="manual", q_rad=cell.HOME_Q_RAD):
    rig = Rig(q_rad)
    rig.run(0.3)
    assert rig.arm(mode).ok
    rig.answers.clear()
    rig.jog = Jog("jog")
    return rig


def drive(rig, values, seconds, **how):
    """Send this command at each state; the commanded joints (T, 6) and the steps."""
    q, steps = [], []
    for _ in range(round(seconds / DT_S)):
        rig.run(DT_S)
        step = rig.jog.step(core_state(rig.state), JogCommand(rig.now_s, tuple(values), **how), rig.now_s)
        if step.chunk is not None:
            c = step.chunk
            rig.guard.handle(rig.shell, Chunk(
                c.token, c.state_seq, c.state_stamp_s, c.trace_id, c.source, list(c.joint_names), c.period_s,
                c.q_rad.tolist(),
            ), rig.now_s)  # fmt: skip
        for _, m in rig.answers:
            if isinstance(m, Verdict):
                rig.jog.on_verdict(CoreVerdict(m.trace_id, m.accepted, m.reason, m.detail))
        refused = [m for _, m in rig.answers if isinstance(m, Verdict) and not m.accepted]
        rig.refused = refused + getattr(rig, "refused", [])
        rig.answers.clear()
        q.append(rig.state.q_commanded_rad)
        steps.append(step)
    return np.array(q), steps


def state_at(q_rad, qd_rad_s=np.zeros(6), mode=Mode.ARMED_MANUAL, stamp_s=10.0, token=1):
    q = np.array(q_rad, dtype=float)
    return RobotState(stamp_s, 5, token, mode, q, np.zeros(6), q, np.array(qd_rad_s, dtype=float), 0.085, 0.085, False)


def test_a_straight_cartesian_jog_is_straight_and_turns_nothing():
    rig = armed()
    before = kinematics.pose_base_link_tool(cell.HOME_Q_RAD)
    q, _ = drive(rig, (0.05, 0.0, 0.0, 0, 0, 0), 1.5)
    after = kinematics.pose_base_link_tool(q[-1])
    moved = after[:3, 3] - before[:3, 3]
    assert moved[0] > 0.05 and np.abs(moved[1:]).max() < 1e-3
    assert np.linalg.norm(kinematics.rotation_vector(after[:3, :3] @ before[:3, :3].T)) < 2e-3


def test_the_tool_frame_is_the_tools():
    rig = armed()
    before = kinematics.pose_base_link_tool(cell.HOME_Q_RAD)
    q, _ = drive(rig, (0.0, 0.0, 0.05, 0, 0, 0), 1.0, frame="tool")
    moved = kinematics.pose_base_link_tool(q[-1])[:3, 3] - before[:3, 3]
    assert moved @ before[:3, 2] > 0.03 and np.linalg.norm(np.cross(moved, before[:3, 2])) < 1e-3


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    values=st.lists(st.floats(-3, 3), min_size=6, max_size=6), joint=st.booleans(),
    frame=st.sampled_from(["base_link", "tool"]),
    then=st.lists(st.floats(-3, 3), min_size=6, max_size=6),
)
def test_any_commands_stay_within_the_limits_and_end_at_rest_armed(values, joint, frame, then):
    rig = armed()
    parts = [drive(rig, v, 0.7, joint=joint, frame=frame)[0] for v in (values, then)]
    parts.append(drive(rig, (0,) * 6, 1.5)[0])
    q = np.concatenate(parts)
    assert rig.state.mode == "ARMED_MANUAL", (rig.state.causes, rig.refused)
    qd = np.diff(q, axis=0) / DT_S
    # way-points are within; the interpolator's hand-over adds a little
    assert np.abs(qd).max() <= 1.1 * CONFIG.joint_rad_s
    assert (np.abs(np.diff(qd, axis=0)) / DT_S <= UR5_LIMITS.qdd_max_rad_s2).all()
    tool = kinematics.pose_base_link_tool(q)[:, :3, 3]
    assert (tool >= UR5_LIMITS.tool_min_m).all() and (tool <= UR5_LIMITS.tool_max_m).all()
    assert np.abs(qd[-5:]).max() < 1e-3


def test_towards_the_side_of_the_box_it_comes_to_rest_before_it_armed():
    rig = armed()
    q, steps = drive(rig, (0.25, 0, 0, 0, 0, 0), 5.0)
    x = kinematics.pose_base_link_tool(q[-1])[0, 3]
    assert rig.state.mode == "ARMED_MANUAL" and not rig.refused
    at_the_side = UR5_LIMITS.tool_max_m[0] - 0.05 < x <= UR5_LIMITS.tool_max_m[0]
    assert at_the_side or any("singularity" in s.status for s in steps)


@pytest.mark.parametrize("values, axis", [((0, 0, -0.1, 0, 0, 0), 2), ((0, 0.1, 0, 0, 0, 0), 1)])
def test_the_sides_of_the_box_are_approached_slower_and_slower_and_nothing_is_refused(values, axis):
    rig = armed()
    q, steps = drive(rig, values, 7.0)
    at = kinematics.pose_base_link_tool(q[-1])[axis, 3]
    side = UR5_LIMITS.tool_min_m[axis] if values[axis] < 0 else UR5_LIMITS.tool_max_m[axis]
    assert rig.state.mode == "ARMED_MANUAL" and not rig.refused
    assert abs(at - side) < 0.012 and any("near its limit" in s.status for s in steps)


def test_a_singularity_slows_then_halts_and_is_left_freely():
    """Wrist: joint 4 towards zero aligns axes 4 and 6."""
    q = np.array(cell.HOME_Q_RAD)
    rig = armed()
    drive(rig, (0, 0, 0, 0, 1, 0), 2.2, joint=True)
    drive(rig, (0,) * 6, 1.0)
    way, steps = None, []
    for axis in range(3, 6):  # turn the tool until the condition number is what holds it back
        for sign in (1, -1):
            values = np.zeros(6)
            values[axis] = sign * 0.5
            way, steps = drive(rig, values, 2.0)
            drive(rig, (0,) * 6, 0.7)
            if any("singularity" in s.status for s in steps):
                break
        else:
            continue
        break
    condition = np.linalg.cond(kinematics.jacobian(way[-1]))
    assert any("singularity" in s.status for s in steps)
    assert condition < 1.2 * CONDITION_HALT and rig.state.mode == "ARMED_MANUAL"
    back, _ = drive(rig, -values, 1.0)
    assert np.linalg.cond(kinematics.jacobian(back[-1])) < condition
    assert np.abs(back[-1] - way[-1]).max() > 0.05 and q.shape == (6,)


def singular(q4_rad):
    q = np.array(cell.HOME_Q_RAD)
    q[4] = q4_rad
    return q


@pytest.mark.parametrize("q4_rad", [-0.01, -0.05, -0.15])
def test_near_a_singularity_no_joint_runs_away(q4_rad):
    state = state_at(singular(q4_rad))
    condition = np.linalg.cond(kinematics.jacobian(state.q_rad))
    for axis in range(6):
        values = np.zeros(6)
        values[axis] = 0.2
        step = Jog("j").step(state, JogCommand(10.0, tuple(values)), 10.0)
        speeds = np.abs(np.diff(step.chunk.q_rad, axis=0)) / CONFIG.period_s
        assert speeds.max() <= CONFIG.joint_rad_s + 1e-9
        assert step.condition == pytest.approx(condition)


def test_silence_ends_the_chunks_and_the_guard_stops():
    rig = armed()
    drive(rig, (0.1, 0, 0, 0, 0, 0), 0.8)
    last = JogCommand(rig.now_s, (0.1, 0, 0, 0, 0, 0))
    sent_after = 0.0
    for _ in range(60):
        rig.run(DT_S)
        step = rig.jog.step(core_state(rig.state), last, rig.now_s)
        if step.chunk is not None:
            sent_after = rig.now_s - last.stamp_s
            c = step.chunk
            rig.guard.handle(rig.shell, Chunk(
                c.token, c.state_seq, c.state_stamp_s, c.trace_id, c.source, list(c.joint_names), c.period_s,
                c.q_rad.tolist(),
            ), rig.now_s)  # fmt: skip
    assert sent_after <= CONFIG.timeout_s
    rig.run(1.0)
    assert rig.state.mode == "STOPPED" and rig.state.at_rest
    assert rig.state.causes[0].startswith("command_source_silent")


def test_a_refused_way_is_not_asked_for_again_until_the_command_changes():
    jog, now_s = Jog("j"), 10.0
    command = JogCommand(now_s, (0.1, 0, 0, 0, 0, 0))
    first = jog.step(state_at(cell.HOME_Q_RAD), command, now_s)
    jog.on_verdict(CoreVerdict(first.chunk.trace_id, False, "self_collision", "x"))
    for k in range(1, 20):
        s = state_at(cell.HOME_Q_RAD, stamp_s=now_s + 0.1 * k)
        step = jog.step(s, dataclasses.replace(command, stamp_s=s.stamp_s), s.stamp_s)
        assert step.chunk is None and "refused" in step.status
    s = state_at(cell.HOME_Q_RAD, stamp_s=now_s + 3.0)
    assert jog.step(s, JogCommand(s.stamp_s, (-0.1, 0, 0, 0, 0, 0)), s.stamp_s).chunk is not None


def test_recovering_is_slow_whatever_is_asked():
    rig = armed("recover")
    q, _ = drive(rig, (3.0, -3.0, 3.0, 0, 0, 0), 1.0, joint=True)
    assert rig.state.mode == "RECOVERING" and not rig.refused
    assert 0.05 < np.abs(np.diff(q, axis=0)).max() / DT_S <= 0.1


@pytest.mark.parametrize("mode", [m for m in Mode if m not in (Mode.ARMED_MANUAL, Mode.RECOVERING)])
def test_nothing_is_sent_outside_manual_modes(mode):
    step = Jog("j").step(state_at(cell.HOME_Q_RAD, mode=mode), JogCommand(10.0, (0.1,) * 6), 10.0)
    assert step.chunk is None and mode.value in step.status


@pytest.mark.parametrize("values", [
    (0.1,) * 5, (0.1,) * 7, (), (float("nan"),) + (0.0,) * 5, (float("inf"),) * 6, ("x",) * 6,
])  # fmt: skip
def test_bad_values_are_refused(values):
    with pytest.raises(JogRefused, match="six finite"):
        JogCommand(1.0, values)


@pytest.mark.parametrize("frame", ["", "camera", "base", "x" * 1000])
def test_an_unknown_frame_is_refused(frame):
    with pytest.raises(JogRefused, match="frame"):
        JogCommand(1.0, (0.0,) * 6, frame=frame)


def test_joint_order_is_the_drivers():
    step = Jog("j").step(state_at(cell.HOME_Q_RAD), JogCommand(10.0, (0, 0, 0, 0, 0, 0.3), joint=True), 10.0)
    moved = step.chunk.q_rad[-1] - cell.HOME_Q_RAD
    assert step.chunk.joint_names == ur5.JOINT_NAMES and moved[5] > 0.01 and np.abs(moved[:5]).max() == 0.0
