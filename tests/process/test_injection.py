"""The instruments on real processes: a bad cable between guard and controller, a stranger at the controller's port."""
import dataclasses
import math

import pytest

from steadyhand_cli.injection import onset
from steadyhand_cli.injection.link import Link
from steadyhand_cli.injection.observer import Observer
from steadyhand_cli.injection.table import TABLE
from tests.support.emulated_controller import host
from tests.support.guard_rig import Rig, target_speed

pytestmark = pytest.mark.process


class Cabled(Rig):
    """The guard reaches its controller through the cable."""

    def start(self, *extra):
        super().start("--robot-ip", cable_host(), *extra)


def set_moving(rig, tries=3):
    """A busy machine may hold one of four processes up for 40 ms, which is a stop: that is not what is tested here."""
    for _ in range(tries):
        rig.until(lambda s: s.at_rest, 3.0)
        rig.arm()
        rig.move(0.8)
        if target_speed(rig.observer.watch(1.0, lambda v: target_speed(v) > 0.2)[-1]) > 0.2:
            return
    raise AssertionError(rig.client.state)


def cable_host():
    return host().replace("127.0.0.", "127.0.1.")


@pytest.fixture
def cabled(tmp_path):
    with Link(cable_host(), host()) as link:
        rig = Cabled(tmp_path)
        try:
            with Observer(host(), tmp_path / "port.bin") as stranger:
                set_moving(rig)
                yield rig, link, stranger
        finally:
            rig.close()


@pytest.mark.parametrize("name", [
    "cable_cut", "feedback_dropped", "setpoints_dropped", "cable_held_then_burst", "setpoints_held_then_burst",
    "feedback_truncated", "setpoint_truncated", "cable_100_ms_late",
])  # fmt: skip
def test_a_bad_cable_stops_the_arm_for_the_reasons_of_the_table_and_a_good_one_rearms(cabled, name):
    rig, link, stranger = cabled
    act, expect = TABLE[name].act, TABLE[name].expect
    struck_s = stranger.rows()["received_s"][-1]
    if act.cut:
        link.cut(act.ports)
    else:
        link.trouble(act.way, act.ports, **act.trouble)
    # a machine that is held up just now may give another reason first: that of the table holds until the cable is good
    rig.until(lambda s: s.mode != "ARMED_AUTO" and any(c.startswith(expect.causes) for c in s.causes), 2.0)
    link.heal()
    rig.until(lambda s: s.at_rest and s.mode == "STOPPED", 5.0)
    trace = stranger.trace(struck_s)
    rest_s = onset.rest_s(trace, struck_s)
    assert not math.isnan(rest_s) and struck_s <= onset.descent_s(trace, struck_s) < rest_s
    assert trace.between(rest_s + onset.REST_TIME_S).target_speed.max() < 1e-3  # nothing that came late moved it
    rig.arm()
    rig.move(0.4)
    assert rig.client.state.mode == "ARMED_AUTO"


@pytest.mark.parametrize("name", ["cable_5_ms_late", "dashboard_dropped", "script_port_cut"])
def test_what_the_motion_does_not_need_stops_nothing(cabled, name):
    rig, link, _ = cabled
    act, causes = TABLE[name].act, []
    for _ in range(3):  # as in `set_moving`: a stop of the machine's own making does not come three times
        link.cut(act.ports) if act.cut else link.trouble(act.way, act.ports, **act.trouble)
        for _ in range(3):
            rig.move(0.1, 0.015)
            rig.move(0.1, -0.015)
        if rig.client.state.mode == "ARMED_AUTO":
            return
        causes.append(rig.client.state.causes)
        link.heal()
        set_moving(rig)
    raise AssertionError(causes)


def test_the_stranger_sees_what_the_port_shows(cabled):
    rig, _, stranger = cabled
    rig.until(lambda _: len(stranger.rows()) > 50 and (stranger.rows()["runtime_state"][-20:] == 2).all(), 3.0)
    rows = stranger.rows()
    assert stranger.scheduler.startswith("SCHED_")
    assert (rows["input_int_register_27"][-10:] > 0).all() and abs(rows["setpoint"][-1]).max() > 0.1
    speeds = dataclasses.asdict(stranger.trace())
    assert abs(speeds["target_qd_rad_s"]).max() > 0.2
