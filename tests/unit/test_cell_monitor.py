"""What the cell's run is held to: each invariant broken once is seen, once; a good run breaks none."""
import dataclasses
import math
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

from steadyhand.errors import ConfigError, RobotError
from steadyhand.guard_protocol import AgvState
from steadyhand_cli.cell_monitor import Meeting, VehicleMonitor, Waits, docking_error
from steadyhand_cli.invariants import Violation

GOOD = AgvState(
    stamp_s=0.0, seq=0, token=1, mode="STOPPED", vehicle="v", kind="order", at_rest=True, causes=[],
    pose_m_rad=[0.0, 0.0, 0.0], map_id="hall", twist_m_s_rad_s=[0.0, 0.0, 0.0], driving=False, paused=False,
    operating_mode="AUTOMATIC", battery_percent=80.0, task_id="", task_state="none", task_detail="", last_waypoint="",
    waypoints_left=0, interlock="", counters={}, scheduler="SCHED_OTHER",
)  # fmt: skip
MOVING = {"at_rest": False, "driving": True, "twist_m_s_rad_s": [0.5, 0.0, 0.0]}


class Run:
    """States of one guard, 20 ms apart."""

    def __init__(self):
        self.monitor, self.now_s = VehicleMonitor(), 0.0

    def pass_(self, seconds, **fields):
        for _ in range(max(1, round(seconds / 0.02))):
            self.now_s += 0.02
            self.monitor.update(dataclasses.replace(GOOD, stamp_s=self.now_s, **fields))
        return self

    def broken(self):
        return [(v.invariant, v.detail.removeprefix("vehicle: ")) for v in self.monitor.violations]


def driven():
    """Armed, under way, stopped on the way."""
    run = Run().pass_(0.1).pass_(1.0, mode="ARMED_AUTO", token=2).pass_(2.0, mode="ARMED_AUTO", token=2, **MOVING)
    return run.pass_(1.0, mode="STOPPING", token=2, **MOVING)


def test_a_stop_that_ends_in_rest_breaks_nothing():
    run = driven().pass_(5.0, token=2).pass_(1.0, mode="ARMED_AUTO", token=3)
    assert run.broken() == [] and (run.monitor.stops, run.monitor.armings) == (1, 2)
    assert driven().pass_(9.0, mode="REST_UNKNOWN", token=2, **MOVING).broken() == []  # it says so


def test_what_a_vehicles_guard_may_not_do_is_seen_once():
    assert driven().pass_(3.5, token=2, **MOVING).broken() == [("I1", "not at rest 4 s after the stop")]
    off = driven().pass_(1.0, token=2).pass_(0.5, token=2, **MOVING)
    assert off.broken() == [("I1", "drives at 0.50 m/s while stopped")]
    again = driven().pass_(1.0, token=2).pass_(0.1, mode="ARMED_AUTO", token=2)
    assert again.broken() == [("I3", "token 2 was used before")]
    back = driven()
    back.now_s -= 1.0
    assert back.pass_(0.02, mode="STOPPING", token=2, **MOVING).broken()[0][0] == "I3"


def vehicle(x=0.0, y=0.0, speed=0.0, loaded=(), touches=False):
    return {"pose": [x, y, 0.0], "twist": [speed, 0.0, 0.0], "loaded": list(loaded), "touches_arm": touches}


def test_a_vehicle_that_moves_under_the_arm_or_touches_it_is_seen():
    over, clear = [1.0] * 6, [0.0] * 6
    meeting = Meeting(lambda q: q[:, 0] > 0.5, (0.0, 0.0), 2.0)
    for seen, q, broken in (
        (vehicle(1.0, speed=0.5), clear, 0), (vehicle(1.0), over, 0), (vehicle(3.0, speed=0.5), over, 0),
        (vehicle(1.0, speed=0.5), over, 1), (vehicle(1.0, speed=0.4), over, 1), (vehicle(1.0), over, 1),
        (vehicle(1.0, speed=-0.5), over, 2), (vehicle(touches=True), clear, 3), (vehicle(1.0), [math.nan] * 6, 3),
    ):  # fmt: skip
        meeting.look(0.0, seen, q)
        assert len(meeting.violations) == broken, (seen, q)
    assert meeting.violations[0] == Violation("I13", 0.0, "vehicle: drives at 0.50 m/s under the arm")


def test_the_way_is_counted_while_it_drives_and_apart_while_it_is_loaded():
    meeting = Meeting(lambda q: np.zeros(len(q), dtype=bool), (0.0, 0.0), 2.0)
    for k in range(11):
        meeting.look(0.1 * k, vehicle(0.1 * k, speed=1.0, loaded=[0] if k > 5 else []), [0.0] * 6)
    for _ in range(5):
        meeting.look(2.0, vehicle(1.0 + 0.001, loaded=[0]), [0.0] * 6)  # standing: the body settles
    assert meeting.driven_m == pytest.approx(1.0) and meeting.driven_loaded_m == pytest.approx(0.5)


def test_waits_count_each_time_once_and_their_seconds():
    waits = Waits()
    for now_s in (1.0, 1.1, 1.2):
        waits.refused(now_s)
    waits.taken(2.0)
    waits.taken(5.0)
    waits.refused(6.0)
    waits.taken(6.5)
    assert waits.plain() == {"n": 2, "seconds": 1.5}


def test_the_docking_error_is_told_along_the_docks_heading():
    dock = [-0.66, 0.0, math.pi / 2]
    assert docking_error([-0.661, 0.004, math.pi / 2 + 0.002], dock) == {
        "along_mm": 4.0, "across_mm": 1.0, "turned_mrad": 2.0
    }


def test_the_shuttle_waits_for_the_arm_and_drives_again_after_a_stop():
    pytest.importorskip("pybullet")
    from steadyhand_cli import cell_job

    outcomes = iter([
        RobotError("refused: workspace: interlock: arm: the arm is over the vehicle"),
        RobotError("refused: workspace: interlock: arm: the arm is over the vehicle"),
        RobotError("refused: not_armed: mode is STOPPED"), RobotError("stopped: stop_requested: panel"), GOOD,
    ])  # fmt: skip
    began = iter([None, None, None, math.inf, 0.0])
    rig = SimpleNamespace(
        drive=lambda *_: SimpleNamespace(join=lambda: None, outcome=next(outcomes), began_s=next(began))
    )
    waits, said = Waits(), []
    shuttle = cell_job._Shuttle(rig, "out", [0.0, 0.0, 0.0], [], waits, said.append)
    shuttle.join(20.0)
    assert shuttle.arrived and waits.plain() == {"n": 1, "seconds": math.inf}  # until it began, not until it arrived
    assert said == ["vehicle: stopped: stop_requested: panel"]


def test_the_summary_says_what_is_not_ok(capsys):
    pytest.importorskip("pybullet")
    from steadyhand_cli.cell_job import CellJobConfig
    from steadyhand_cli.cell_run import print_summary

    summary = {
        "ok": False, "problems": ["1 invariants broken"], "loads": {"wanted": 2, "loaded": 2, "carried": 1},
        "way": {"driven_m": 3.1, "loaded_m": 1.5}, "docking": docking_error([-0.66, 0.0, 1.57], [-0.66, 0.0, 1.57]),
        "operator_stop": {}, "stops": {"arm": 1, "vehicle": 1}, "armings": {"arm": 2, "vehicle": 2},
        "waits": {"arm": {"n": 1, "seconds": 2.5}, "vehicle": {"n": 1, "seconds": 1.0}},
        "refused": {"arm": {"refused:workspace": 3}, "vehicle": {}},
        "violations": [{"invariant": "I13", "stamp_s": 4.0, "detail": "vehicle: touches the arm"}],
        "checked": {"arm_states": 9, "vehicle_states": 8, "looks_at_the_world": 7},
        "times": {"armed_s": 5.0, "job_s": 60.0},
    }  # fmt: skip
    print_summary(Console(width=160), summary)
    said = capsys.readouterr().out
    for part in ("2 and 1 of 2", "arm 1 (2.5 s), vehicle 1 (1.0 s)", "I13 at 4.000", "NOT OK: 1 invariants broken"):
        assert part in said
    with pytest.raises(ConfigError, match="loads=4: give 1 to 3"):
        CellJobConfig(loads=4)


def test_a_move_that_the_vehicle_is_always_in_the_way_of_ends(monkeypatch):
    from steadyhand_cli import cell_rig

    rig, times = object.__new__(cell_rig.CellRig), iter(range(10_000))
    monkeypatch.setattr(cell_rig.time, "monotonic", lambda: float(next(times)))
    rig.armed = lambda: None
    rig.chunk = lambda q_rad: SimpleNamespace(accepted=False, reason="workspace", detail="interlock: it is in the way")
    with pytest.raises(RobotError, match="it is in the way"):
        rig.reach(np.zeros(6), lambda verdict: True)
