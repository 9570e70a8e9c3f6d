"""Steps become the runtime's plans: same set-points, same refusals, rest when nothing follows."""
import numpy as np
import pytest

pytest.importorskip("gymnasium")

from steadyhand import cell  # noqa: E402
from steadyhand.errors import ConfigError  # noqa: E402
from steadyhand.limits import UR5_LIMITS  # noqa: E402
from steadyhand_sim.envs.motion import CYCLE_S, Answered, StepPlayer, plan_matrix  # noqa: E402

# a pose above the tray, inside the envelope
START = np.array([-0.2, -1.55, 1.75, -1.77, -1.5708, -1.77])


class Recorder:
    """Takes set-points and moves nothing."""

    def __init__(self):
        self.q, self.qd = [], []

    def cycle(self, q_rad, qd_rad_s):
        self.q.append(q_rad)
        self.qd.append(qd_rad_s)


def play(certify, steps, start=START, latencies=(4, 7, 3, 8, 5, 6), idle_cycles=80):
    """Set-points (n, 6) of steps (first, later) given every 6.25 cycles, then silence. Recorder and player."""
    world = Recorder()
    player = StepPlayer(world, certify)
    player.reset(start)
    pending = []
    for k, step in enumerate(steps):
        pending.append((player.cycle + latencies[k % len(latencies)], player.commanded(), step))
        while player.cycle < (k + 1) * 6.25:
            while pending and pending[0][0] <= player.cycle:
                _, answered, (first, later) = pending.pop(0)
                player.offer(first, later, answered)
            player.advance()
    for _ in range(idle_cycles):
        while pending and pending[0][0] <= player.cycle:
            _, answered, (first, later) = pending.pop(0)
            player.offer(first, later, answered)
        player.advance()
    return np.array(world.q), np.array(world.qd), player


def gentle(seed, n=12, size=0.004):
    """Steps that grow from rest."""
    rng = np.random.default_rng(seed)
    direction = rng.uniform(-1, 1, 6)
    return [(size * min(1.0, (k + 1) / 5) * direction, size * min(1.0, (k + 2) / 5) * direction) for k in range(n)]


@pytest.mark.parametrize("seed", range(4))
def test_certified_or_checked_in_full_the_set_points_are_the_same(seed):
    quick, quick_rate, player = play(True, gentle(seed))
    full, full_rate, reference = play(False, gentle(seed))
    assert player.certified > 8 and reference.certified == 0
    assert player.accepted == reference.accepted == 12
    assert np.abs(quick - full).max() < 1e-9 and np.abs(quick_rate - full_rate).max() < 1e-7


def test_what_is_sent_keeps_the_gates_limits_and_ends_at_rest():
    q, qd, _ = play(True, gentle(1))
    points = np.concatenate([np.repeat(START[None], 3, axis=0), q])
    for limit in (UR5_LIMITS.qd_max_rad_s, UR5_LIMITS.qdd_max_rad_s2, UR5_LIMITS.qddd_max_rad_s3):
        points = np.diff(points, axis=0) / CYCLE_S
        assert (np.abs(points) <= limit).all()
    assert np.abs(qd[-1]).max() == 0.0 and np.abs(q[-1] - q[-5]).max() == 0.0
    assert np.abs(q[-1] - START).max() > 0.01


def test_a_step_that_no_joint_can_make_is_refused_and_the_plan_under_way_goes_on():
    steps = gentle(2, n=6)
    wild = np.array([0.2, 0.0, 0.0, 0.0, 0.0, 0.0])
    q, _, player = play(True, [*steps, (wild, wild)])
    without, _, _ = play(True, steps, idle_cycles=87)
    assert sum(player.refused.values()) == 1 and player.accepted == 6
    n = min(len(q), len(without))
    assert np.abs(q[:n] - without[:n]).max() < 1e-9


def test_into_the_table_is_refused_by_the_gate():
    from steadyhand import kinematics

    low = kinematics.ik_near(kinematics.tool_down(0.5, -0.1, 0.03, 0.0), cell.HOME_Q_RAD, max_iterations=100)
    jacobian = kinematics.jacobian(low)
    down = np.linalg.solve(jacobian, [0, 0, -0.008, 0, 0, 0])
    _, _, player = play(True, [(down / 4, down / 2)] * 4, start=low)
    assert set(player.refused) == {"workspace"} and player.accepted < 4


def test_nan_is_never_sent():
    nan = np.full(6, np.nan)
    q, _, player = play(True, [*gentle(3, n=4), (nan, nan)])
    assert np.isfinite(q).all() and sum(player.refused.values()) == 1


def test_a_late_step_is_no_plan():
    with pytest.raises(ConfigError, match="latency"):
        plan_matrix(10)
    world = Recorder()
    player = StepPlayer(world)
    player.reset(START)
    for _ in range(12):
        player.advance()
    with pytest.raises(ConfigError, match="latency"):
        player.offer(np.zeros(6), np.zeros(6), Answered(0, START, np.zeros(6)))


def test_standing_still_is_held():
    world = Recorder()
    player = StepPlayer(world)
    player.reset(START)
    for _ in range(30):
        player.advance()
    assert np.array_equal(np.array(world.q), np.repeat(START[None], 30, axis=0)) and not np.any(world.qd)
