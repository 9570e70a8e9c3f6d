"""What is certified the gate admits, what is refused it refuses; the closed chain is the DH chain."""
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

pytest.importorskip("gymnasium")

from steadyhand import cell, collision, kinematics  # noqa: E402
from steadyhand.errors import KinematicsError  # noqa: E402
from steadyhand.limits import UR5_LIMITS  # noqa: E402
from steadyhand.safety_gate import SafetyGate  # noqa: E402
from steadyhand_sim.envs import motion  # noqa: E402
from steadyhand_sim.envs.envelope import Certificate, Envelope, tool_positions  # noqa: E402
from steadyhand_sim.envs.formulations import CARTESIAN, JOINT, Arm, Unreachable, joint_step  # noqa: E402

ENVELOPE = Envelope()


def postures(rng, n):
    """(m, 6) configurations, m <= n, over the whole envelope and a little beyond, tilted up to its limit."""
    found = []
    for _ in range(n):
        x, y = rng.uniform((ENVELOPE.x_m[0], ENVELOPE.y_m[0]), (ENVELOPE.x_m[1], ENVELOPE.y_m[1]))
        z, yaw = rng.uniform((ENVELOPE.z_m[0], -1.6), (ENVELOPE.z_m[1], 1.6))
        try:
            q = kinematics.ik_near(kinematics.tool_down(x, y, z, yaw), cell.HOME_Q_RAD, 1e-3, 60)
        except KinematicsError:
            continue
        found.append(q + rng.uniform(-0.08, 0.08, 6) * (0, 1, 1, 1, 1, 1))
    return np.array(found)


@given(st.lists(st.floats(-3.1, 3.1), min_size=6, max_size=6))
@settings(max_examples=100, deadline=None)
def test_the_closed_chain_is_the_dh_chain(q):
    x, y, z, down = tool_positions(np.array([q]))
    pose = kinematics.pose_base_link_tool(np.array(q))
    assert np.allclose([x[0], y[0], z[0], -down[0]], [*pose[:3, 3], pose[2, 2]], atol=1e-12)


def test_nothing_in_the_envelope_is_near_itself_or_the_table():
    q = postures(np.random.default_rng(0), 1500)
    inside = np.array([ENVELOPE.holds(row[None]) for row in q])
    assert inside.sum() > 480, inside.mean()
    values, names = collision.clearances(kinematics.link_transforms(q[inside]))
    worst = int(np.argmin(values.min(axis=0)))
    assert values.min() > UR5_LIMITS.min_clearance_m + 0.005, (names[worst], float(values.min()))


@given(st.integers(0, 2**31), st.sampled_from([CARTESIAN, JOINT]), st.integers(1, 9))
@settings(max_examples=100, deadline=None)
def test_what_is_certified_the_gate_admits(seed, formulation, latency):
    """A step in the middle of another one's plan, from rest or moving, anywhere in the cell."""
    rng = np.random.default_rng(seed)
    q = postures(rng, 6)[:1]
    if len(q) == 0:
        return
    player, gate = motion.StepPlayer(_Nobody()), SafetyGate()
    player.reset(q[0])
    for _ in range(int(rng.integers(1, 6))):
        now = player.commanded()
        action = rng.uniform(-1, 1, 5 if formulation == CARTESIAN else 7)
        try:
            first, later = joint_step(formulation, action, Arm.at(now.q_rad, now.qd_rad_s))
        except Unreachable:
            return
        for _ in range(latency):
            player.advance()
        before, refused, history = player.certified, sum(player.refused.values()), player._motion()[0].copy()
        player.offer(first, later, now)
        if player.certified > before:
            verdict = gate.check_plan(motion._full_plan(*player._unfinished), history)
            assert verdict.accepted, verdict
        elif sum(player.refused.values()) > refused:
            whole = motion.StepPlayer(_Nobody(), certify=False)
            whole.reset(q[0])
            for name in ("cycle", "_q", "_qd", "_qdd", "_index", "_before", "_unfinished"):
                setattr(whole, name, getattr(player, name))
            assert not whole.offer(first, later, now)


class _Nobody:
    def cycle(self, q_rad, qd_rad_s):
        pass


def test_it_certifies_neither_nan_nor_limits_nor_the_floor():
    certificate, q = Certificate(), np.repeat(motion_start()[None], 20, axis=0)
    still, zero = np.zeros((60, 6)), np.zeros(6)
    assert certificate.covers(q, still, q[-1], zero, 0.008)
    assert not certificate.covers(q, np.full((60, 6), np.nan), q[-1], zero, 0.008)
    assert not certificate.covers(np.full_like(q, np.nan), still, q[-1], zero, 0.008)
    assert not certificate.covers(q, still + 1e4, q[-1], zero, 0.008)
    assert not certificate.covers(q, still, q[-1], np.array([0, 2.5, 0, 0, 0, 0]), 0.008)
    low = kinematics.ik_near(kinematics.tool_down(0.5, -0.1, 0.012, 0.0), cell.HOME_Q_RAD, max_iterations=100)
    assert not certificate.covers(np.repeat(low[None], 20, axis=0), still, low, zero, 0.008)


def motion_start():
    return kinematics.ik_near(kinematics.tool_down(0.5, -0.1, 0.2, 0.0), cell.HOME_Q_RAD, max_iterations=100)
