"""The schedule is the table's, the same for every arm; what strikes is cleared; the interval of the ratio is right."""
import numpy as np
import pytest

from benchmarks import mtbf
from steadyhand import cell
from steadyhand.errors import ConfigError
from steadyhand_sim.kinematic_cell import KinematicCell, scatter
from steadyhand_sim.mission_faults import KINDS, Injector, Strike, schedule

HANDLES = (
    "friction", "camera_on", "policy", "policy_delay_s", "refuse", "refuse_policy", "gripper_moves", "guard_on",
    "ghosts",
)


def handles(c: KinematicCell) -> dict:
    return {name: getattr(c, name) for name in HANDLES} | {"bias": c.bias_m.tolist()}


@pytest.mark.parametrize("count, seed", [(0, 0), (5, 3), (5, 590), (8, 0), (8, 1)])  # 590 and both of 8 jam at first
def test_cubes_are_scattered_apart_also_where_the_first_ones_leave_no_room(count, seed):
    xy = np.array([c.position_m[:2] for c in scatter(count, seed)]).reshape(-1, 2)
    assert len(xy) == count
    assert all(np.linalg.norm(a - b) > cell.MIN_CUBE_SPACING_M for k, a in enumerate(xy) for b in xy[:k])
    assert all(cell.TRAY.contains(p, cell.SPAWN_MARGIN_M - 1e-9) for p in xy)


@pytest.mark.parametrize("count", [-1, 9])
def test_more_cubes_than_the_tray_holds_are_refused(count):
    with pytest.raises(ConfigError, match=f"count={count}"):
        scatter(count, 0)


def test_a_seed_is_a_schedule():
    times = [[(s.at_s, s.kind.name, s.duration_s) for s in schedule(3, 600.0)] for _ in range(2)]
    assert times[0] == times[1] and times[0] != [(s.at_s, s.kind.name, s.duration_s) for s in schedule(4, 600.0)]
    assert [t[0] for t in times[0]] == sorted(t[0] for t in times[0])


def test_rates_and_durations_are_those_of_the_table():
    hours, found = 50, [s for seed in range(50) for s in schedule(seed, 3600.0)]
    for kind in KINDS:
        mine = [s for s in found if s.kind is kind]
        expected = kind.rate_per_h * hours
        assert abs(len(mine) - expected) < 5 * np.sqrt(expected), kind.name
        if kind.mean_s:
            assert np.mean([s.duration_s for s in mine]) == pytest.approx(kind.mean_s, rel=5 / np.sqrt(len(mine)))


@pytest.mark.parametrize("kind", [k for k in KINDS if k.mean_s], ids=lambda k: k.name)
def test_what_lasts_changes_the_cell_and_is_cleared(kind):
    c = KinematicCell(scatter(3, 0), 0)
    before = handles(c)
    injector = Injector([Strike(1.0, kind, 0.5), Strike(1.2, kind, 0.1)], 0)  # the longer one counts
    injector.step(c, 1.0)
    assert handles(c) != before
    injector.step(c, 1.25)
    injector.step(c, 1.4)
    assert handles(c) != before and injector.active(1.4, 0.0) == [kind.name]
    injector.step(c, 1.6)
    assert handles(c) == before


def test_moved_objects_stay_apart_and_in_the_tray():
    c = KinematicCell(scatter(5, 1), 1)
    kind = next(k for k in KINDS if k.name == "object_moved")
    for k in range(50):
        kind.strike(c, np.random.default_rng(k))
    xy = np.array([o.position_m[:2] for o in c.cubes])
    apart = [np.linalg.norm(a - b) for i, a in enumerate(xy) for b in xy[:i]]
    assert min(apart) > 0.05


def outcomes(n: int, rate: float, seed: int) -> list[dict]:
    rng = np.random.default_rng(seed)
    times = rng.uniform(20, 60, n)
    return [{"operating_s": t, "failed": bool(rng.random() < rate * t)} for t in times]


def test_both_lower_bounds_lie_below_the_ratio_and_near_it():
    treated, control = outcomes(4000, 0.001, 1), outcomes(600, 0.01, 2)
    ratio = mtbf.mtbf_s(treated) / mtbf.mtbf_s(control)
    for low in (mtbf.bootstrap_low(treated, control, n=2000), mtbf.poisson_low(treated, control)):
        assert 0.7 * ratio < low < ratio


def test_the_same_strikes_end_the_control_arm_and_not_the_recovering_one():
    ends = {arm: mtbf.mission(arm, seed=102) for arm in mtbf.ARMS}
    recovering, control = ends["recovering"], ends["control"]
    assert not recovering["failed"] and recovering["placed"] == mtbf.CUBES and recovering["failed_steps"] > 0
    assert control["failed"] and control["failed_steps"] == 1
    assert recovering["struck"][: len(control["struck"])] == control["struck"]


def test_ok_with_an_object_outside_the_box_is_a_failure(monkeypatch):
    monkeypatch.setattr(mtbf, "schedule", lambda seed, seconds: [])
    monkeypatch.setattr(KinematicCell, "in_box", lambda c: mtbf.CUBES - 1)
    end = mtbf.mission("recovering", 1)
    assert end["failed"] and end["code"] == "INCOMPLETE"
