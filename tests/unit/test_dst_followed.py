"""The simulator's check that what is sent follows what was accepted: the product's own plans pass, others do not."""
import numpy as np
import pytest

from steadyhand import cell, ur5
from steadyhand.guard_protocol import Chunk
from steadyhand.interpolator import build_plan
from steadyhand.plan import hold_plan
from steadyhand.types import JointChunk
from steadyhand_cli.dst.followed import Followed

DT_S, STAMP_S, START_S, FIRST_SEQ = ur5.SERVO_PERIOD_CB3_S, 100.0, 100.016, 5003


def chunk(count=40, period_s=0.1):
    s = np.linspace(0, 1, count + 1)[1:, None]
    moved = 0.8 * s**3 * (10 - 15 * s + 6 * s * s) * np.array([1.0, -0.5, 0.6, 0.2, -0.3, 0.9])
    rows = (cell.HOME_Q_RAD + moved).tolist()
    return Chunk(7, 5000, STAMP_S, "c1", "planner", list(ur5.JOINT_NAMES), period_s, rows)


def planned(c):
    """(n, 6) set-points of the product for it, from standstill at home."""
    proposal = JointChunk(c.token, c.state_seq, c.state_stamp_s, c.trace_id, c.source, ur5.JOINT_NAMES, c.period_s,
                          np.array(c.q_rad))  # fmt: skip
    return build_plan(proposal, START_S, hold_plan(cell.HOME_Q_RAD, DT_S, START_S), 1).q_rad


def judged(c, q, block):
    found = []
    followed = Followed(DT_S, lambda invariant, stamp_s, detail: found.append(detail))
    followed.accepted(c, FIRST_SEQ, START_S)
    for k in range(0, len(q), block):
        part = q[k : k + block]
        followed.add(FIRST_SEQ + k, START_S + DT_S * np.arange(k, k + len(part)), part)
    return found


@pytest.mark.parametrize("block", [1, 7, 1000])
@pytest.mark.parametrize("count, period_s", [(40, 0.1), (64, 0.05), (8, 0.05)])
def test_the_products_plan_follows_its_chunk(count, period_s, block):
    c = chunk(count, period_s)
    assert judged(c, planned(c), block) == []


@pytest.mark.parametrize("block", [1, 1000])
@pytest.mark.parametrize("change", [
    lambda q: q[:, [0, 1, 2, 3, 5, 4]], lambda q: np.repeat(q, 2, axis=0), lambda q: np.roll(q, 12, axis=0),
    lambda q: cell.HOME_Q_RAD + 0.9 * (q - cell.HOME_Q_RAD), lambda q: np.where(np.arange(6) == 3, np.nan, q),
])  # fmt: skip
def test_other_joints_other_times_and_other_sizes_do_not(change, block):
    assert any("off the accepted chunk c1" in detail for detail in judged(chunk(), change(planned(chunk())), block))


def test_after_a_stop_nothing_is_followed():
    found = []
    followed = Followed(DT_S, lambda *violation: found.append(violation))
    followed.accepted(chunk(), FIRST_SEQ, START_S)
    followed.cut()
    followed.add(FIRST_SEQ + 100, np.array([101.0]), np.zeros((1, 6)))
    assert found == []
