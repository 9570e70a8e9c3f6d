"""The simulated vehicle's control in virtual time: it drives orders, obeys its own safety first, and reports truly."""
import math

import numpy as np
import pytest

from steadyhand.vda5050 import codec
from steadyhand.vda5050.dialect import read_state
from steadyhand.vda5050.header import Identity
from steadyhand_sim.agv import reports
from steadyhand_sim.agv.fleet import make_unit
from steadyhand_sim.agv.noise import NoiseParameters
from steadyhand_sim.agv.order_book import Answer
from steadyhand_sim.agv.plant import KinematicPlant
from steadyhand_sim.agv.refusals import Kind
from steadyhand_sim.agv.safety import Obstacle
from steadyhand_sim.agv.site import Site
from steadyhand_sim.agv.vehicle_config import VehicleConfig
from tests.support.agv_orders import action, instant, order

STRAIGHT = [(-5, 0), (-3, 0)]


class Rig:
    """One vehicle, its plant and time. Every state that would be sent is checked by the schema."""

    def __init__(self, noise=None, pose=(-5.0, 0.0, 0.0), version="2.1.0", seed=0, config=None):
        noise = noise or NoiseParameters.none()
        self.config, rng = config or VehicleConfig(), np.random.default_rng(seed)
        self.identity = Identity("steadyhand", "t", version)
        plant = KinematicPlant(self.config, noise, rng)
        self.unit = make_unit(self.identity, plant, self.config, Site(), noise, rng, pose)
        self.v, self.obstacles, self.now_s = self.unit.vehicle, [], 10.0
        self.signature, self.speeds = None, []

    def state(self):
        """The state as a master reads it, through the codec."""
        version = self.identity.version
        message = self.identity.header(0, 1e9) | reports.state(self.v, version)
        return read_state(codec.decode("state", codec.encode("state", message, version), version), version)

    def step(self):
        self.now_s += self.config.period_s
        self.unit.pass_period(self.now_s, self.obstacles)
        self.speeds.append(self.unit.plant.twist()[0])
        if reports.signature(self.v) != self.signature:
            self.signature = reports.signature(self.v)
            self.state()

    def until(self, condition, limit_s=60.0):
        """Pass time until `condition()`; fails after the limit."""
        end_s = self.now_s + limit_s
        while not condition():
            assert self.now_s < end_s, f"not within {limit_s} s: {self.state()}"
            self.step()

    def run(self, duration_s):
        for _ in range(round(duration_s / self.config.period_s)):
            self.step()


def test_an_order_is_driven_within_its_limits_and_ends_at_its_last_released_node():
    rig = Rig()
    assert rig.v.on_order(order([(-5, 0), (-3, 0), (-1, 0), (-1, 2)], released=3, edge={"maxSpeed": 0.5})) is Answer.NEW
    rig.until(lambda: rig.v.book.base_left == 0)
    rig.until(lambda: rig.v.at_rest)
    x, y, _ = rig.unit.plant.pose()
    assert math.hypot(x + 1, y) < rig.config.arrival_m
    rates = np.diff(rig.speeds) / rig.config.period_s
    assert max(rig.speeds) <= 0.5 + 1e-9 and rates.max() <= rig.config.acceleration_m_s2 + 1e-9
    assert rates.min() >= -rig.config.braking_m_s2 - 1e-9
    passing = rig.speeds[int(np.argmin(np.abs(np.cumsum(rig.speeds) * rig.config.period_s - 2.0)))]
    assert passing > 0.45  # a node on the way, straight ahead, is passed without braking
    state = rig.state()
    assert not state.idle and [(n.id, n.released) for n in state.nodes] == [("n3", False)]  # waits for its horizon
    rig.v.on_order(order([(-1, 0), (-1, 2)], first=2, update_id=1))
    rig.until(lambda: not rig.v.book.active)
    assert rig.state().last_node_id == "n3" and rig.unit.plant.pose()[1] == pytest.approx(2.0, abs=0.05)


def test_fixes_are_taken_for_the_instant_at_which_they_were_measured():
    """With perfect sensors the estimate is the truth at any speed: one period off would be 48 mm."""
    rig = Rig()
    rig.v.on_order(order([(-5, 0), (5, -3)]))
    rig.until(lambda: rig.unit.plant.twist()[0] > 1.19)
    for _ in range(25):
        rig.step()
        assert math.dist(rig.v.localisation.pose()[:2], rig.unit.plant.pose()[:2]) < 0.005


@pytest.mark.parametrize("load_kg", [0.0, 40.0])
def test_deceleration_falls_with_the_load(load_kg):
    rig = Rig()
    rig.v.load_kg = load_kg
    rig.v.on_order(order([(-5, 0), (5, -3)]))
    rig.until(lambda: rig.unit.plant.twist()[0] > 1.0)
    rig.v.on_instant_actions(instant(action("startPause", "p")))
    begin = len(rig.speeds)
    rig.until(lambda: rig.v.at_rest)
    rates = np.diff(rig.speeds[begin:]) / rig.config.period_s
    limit = rig.config.deceleration_m_s2(load_kg)
    assert -rates.min() == pytest.approx(limit, rel=1e-6) and limit == pytest.approx(0.8 * 60 / (60 + load_kg))


def test_pause_holds_the_order_and_stop_pause_goes_on():
    rig = Rig()
    rig.v.on_order(order(STRAIGHT))
    rig.run(1.0)
    rig.v.on_instant_actions(instant(action("startPause", "p")))
    assert rig.state().actions["p"].status == "RUNNING" and rig.state().paused
    rig.until(lambda: rig.state().actions["p"].status == "FINISHED")
    assert rig.v.at_rest and len(rig.state().nodes) == 1
    rig.run(2.0)
    assert rig.v.at_rest
    rig.v.on_instant_actions(instant(action("stopPause", "q")))
    rig.until(lambda: not rig.v.book.active)
    assert rig.state().last_node_id == "n1" and not rig.state().paused


def test_cancel_while_driving_ends_at_rest_and_a_new_order_may_start_there():
    rig = Rig()
    rig.v.on_order(order([(-5, 0), (-1, 0)], actions={1: [action("pick", "a")]}))
    rig.run(2.0)
    rig.v.on_instant_actions(instant(action("cancelOrder", "c")))
    rig.step()
    state = rig.state()
    assert state.actions["c"].status == "RUNNING" and state.driving and state.actions["a"].status == "FAILED"
    assert rig.v.on_order(order(STRAIGHT, order_id="other")) is Answer.REFUSED
    assert rig.v.on_order(order([(-1, 0), (-1, 1)], update_id=1, first=1)) is Answer.REFUSED
    rig.until(lambda: rig.state().actions["c"].status == "FINISHED")
    state = rig.state()
    assert state.idle and not state.driving and (state.order_id, state.last_node_id) == ("order", "n0")
    x, y, _ = rig.unit.plant.pose()
    assert -4.9 < x < -2
    assert rig.v.on_order(order([(x, y), (-5, 0)], order_id="back")) is Answer.NEW
    rig.until(lambda: not rig.v.book.active)
    assert rig.unit.plant.pose()[0] == pytest.approx(-5.0, abs=0.05)


def test_cancelling_names_its_order_or_does_nothing():
    rig = Rig(version="3.0.0")
    rig.v.on_order(order(STRAIGHT, version="3.0.0"))
    rig.v.on_instant_actions(instant(action("cancelOrder", "c", orderId="other")))
    assert rig.state().actions["c"].status == "FAILED" and rig.v.cancelling == ""
    rig.v.on_instant_actions(instant(action("cancelOrder", "d", orderId="order")))
    rig.until(lambda: rig.state().actions["d"].status == "FINISHED")
    assert not rig.v.book.active


def test_a_pause_that_is_ended_before_the_vehicle_stands_has_failed():
    rig = Rig()
    rig.v.on_order(order([(-5, 0), (5, -3)]))
    rig.until(lambda: rig.unit.plant.twist()[0] > 1.0)
    rig.v.on_instant_actions(instant(action("startPause", "p")))
    rig.v.on_instant_actions(instant(action("stopPause", "q")))
    assert [rig.state().actions[i].status for i in "pq"] == ["FAILED", "FINISHED"]


@pytest.mark.parametrize(("version", "status"), [("2.1.0", "RUNNING"), ("3.0.0", "PAUSED")])
def test_an_action_is_paused_in_the_words_of_its_version(version, status):
    rig = Rig(version=version)
    rig.v.on_order(order([(-5, 0)], actions={0: [action("pick", "a")]}, version=version))
    rig.run(1.0)
    rig.v.on_instant_actions(instant(action("startPause", "p")))
    rig.run(5.0)
    assert rig.state().actions["a"].status == status and rig.v.load_kg == 0.0
    rig.v.safety.press()
    rig.v.safety.paused = False
    rig.run(5.0)
    assert rig.state().actions["a"].status == status  # the emergency stop holds it, too


def test_the_ids_of_instant_actions_are_bounded():
    rig = Rig()
    for k in range(300):
        rig.v.on_instant_actions(instant(action("stateRequest", f"s{k}")))
    assert len(rig.v.instant._taken) == 256


def test_cancel_without_an_order_fails_by_name():
    rig = Rig()
    rig.v.on_instant_actions(instant(action("cancelOrder", "c")))
    state = rig.state()
    assert state.actions["c"].status == "FAILED"
    assert [e.kind for e in state.errors] == ["noOrderToCancel"] and state.errors[0].refers("actionId", "c")


@pytest.mark.parametrize(
    "bad",
    [
        action("fly", "x"), action("pick", "x"), action("initPosition", "x", x=0.0, y=0.0),
        action("initPosition", "x", x="a", y=0.0, theta=0.0, mapId="hall"),
        action("initPosition", "x", x=-5.0, y=0.0, theta=0.0, mapId="cellar"),
        action("initPosition", "x", x=-5.0, y=0.0, theta=9.0, mapId="hall"),
        action("initPosition", "x", x=99.0, y=0.0, theta=0.0, mapId="hall"),
        action("trigger", "x"), action("startCharging", "x"),
    ],
)  # fmt: skip
def test_instant_actions_that_cannot_be_done_fail_and_name_their_id(bad):
    rig = Rig()
    rig.v.on_instant_actions(instant(bad))
    state = rig.state()
    assert state.actions["x"].status == "FAILED" and state.actions["x"].text
    assert state.errors[0].kind == "instantActionError" and state.errors[0].refers("actionId", "x")
    rig.v.on_instant_actions(instant(action("stateRequest", "y")))
    assert rig.state().errors == () and rig.v.state_wanted


def test_a_repeated_instant_action_does_nothing():
    rig = Rig()
    rig.v.on_order(order(STRAIGHT))
    rig.v.on_instant_actions(instant(action("startPause", "p")))
    rig.v.on_instant_actions(instant(action("stopPause", "q")))
    rig.v.on_instant_actions(instant(action("startPause", "p")))
    assert not rig.state().paused and rig.v.instant.repeated == 1


def test_a_late_repetition_does_nothing_even_when_its_state_has_gone():
    rig = Rig()
    rig.v.on_order(order(STRAIGHT))
    cancel = instant(action("cancelOrder", "c"))
    rig.v.on_instant_actions(cancel)
    rig.until(lambda: not rig.v.book.active)
    rig.v.on_order(order(STRAIGHT, order_id="next"))
    assert "c" not in rig.state().actions
    rig.v.on_instant_actions(cancel)
    rig.until(lambda: rig.state().last_node_id == "n1")
    assert rig.state().order_id == "next"


def test_an_action_id_of_another_action_is_refused_by_name():
    rig = Rig()
    rig.v.on_order(order(STRAIGHT, actions={1: [action("pick", "a")]}))
    rig.v.on_instant_actions(instant(action("stateRequest", "s")))
    for taken in ("a", "s"):
        rig.v.on_instant_actions(instant(action("startPause", taken)))
        assert not rig.v.safety.paused
        assert rig.state().errors[-1].refers("actionId", taken) and "in use" in rig.state().errors[-1].text


def test_a_refusal_is_reported_though_the_same_message_holds_a_good_action():
    rig = Rig()
    rig.v.on_instant_actions(instant(action("fly", "x"), action("stateRequest", "y")))
    assert [e.kind for e in rig.state().errors] == ["instantActionError"]


def test_a_flood_of_instant_actions_drops_no_stop_and_stays_bounded():
    rig = Rig()
    rig.v.on_order(order([(-5, 0), (5, -3)]))
    rig.until(lambda: rig.unit.plant.twist()[0] > 1.0)
    rig.v.on_instant_actions(instant(action("cancelOrder", "c")))
    rig.v.on_instant_actions(instant(*(action("stateRequest", f"s{k}") for k in range(500))))
    assert rig.state().actions["c"].status == "RUNNING" and len(rig.v.instant.entries) <= 41
    rig.until(lambda: rig.state().actions["c"].status == "FINISHED")
    rig.v.on_order(order([rig.unit.plant.pose()[:2], (5, -3)], order_id="two"))
    rig.until(lambda: rig.unit.plant.twist()[0] > 1.0)
    rig.v.on_instant_actions(instant(*(action("startPause", f"p{k}") for k in range(500))))
    assert len(rig.v.instant.entries) <= 81 and rig.v.safety.paused
    assert "under way" in rig.state().errors[-1].text


def test_a_load_is_neither_taken_nor_given_on_the_move():
    rig = Rig()
    rig.v.on_order(order([(-5, 0), (5, -3)], actions={0: [action("pick", "a", "NONE")]}))
    rig.until(lambda: rig.state().actions["a"].status == "FAILED")
    assert rig.v.load_kg == 0.0 and not rig.v.at_rest and Kind.ACTION_FAILED in [e.kind for e in rig.v.errors]


def test_it_does_not_creep_back_onto_what_stands_behind_it_while_docking():
    rig = Rig(pose=(-0.66, 0.1, math.pi / 2))
    rig.obstacles = [Obstacle(-0.66, 0.1 - rig.config.length_m / 2 - 0.2, 0.1)]  # 0.1 m behind: inside the margin
    rig.v.on_order(order([(-0.66, 0.1)], actions={0: [action("finePositioning", "dock")]}))
    rig.run(40.0)
    assert rig.state().field_violation and math.dist(rig.unit.plant.pose()[:2], (-0.66, 0.1)) < 1e-3
    rig.obstacles = []
    rig.until(lambda: rig.state().actions["dock"].status == "FINISHED")


def test_it_does_not_turn_bit_by_bit_onto_what_stands_beside_it():
    rig = Rig()
    rig.obstacles = [Obstacle(-5.0, 0.55, 0.1)]  # free straight ahead, not in the circle that it turns in
    rig.v.on_order(order([(-5, 0), (-5, -3)]))
    rig.run(60.0)
    assert rig.state().field_violation and abs(rig.unit.plant.pose()[2]) < 0.02


def test_init_position_sets_the_pose():
    rig = Rig()
    rig.unit.plant.put(-2.0, -3.0, 1.0)
    where = {"x": -2.0, "y": -3.0, "theta": 1.0, "mapId": "hall", "lastNodeId": "here"}
    rig.v.on_instant_actions(instant(action("initPosition", "i", **where)))
    state = rig.state()
    assert state.actions["i"].status == "FINISHED" and state.last_node_id == "here"
    assert state.pose_m_rad == (-2.0, -3.0, 1.0)


@pytest.mark.parametrize("how", ["manual", "initPosition"])
def test_a_finished_order_does_not_go_on_from_where_somebody_has_taken_the_vehicle(how):
    rig = Rig()
    rig.v.on_order(order(STRAIGHT))
    rig.until(lambda: not rig.v.book.active)
    if how == "manual":
        rig.v.set_mode("MANUAL")
        rig.v.set_mode("AUTOMATIC")
    else:
        rig.unit.plant.put(2.0, 3.0, 0.0)
        where = {"x": 2.0, "y": 3.0, "theta": 0.0, "mapId": "hall"}
        rig.v.on_instant_actions(instant(action("initPosition", "i", **where)))
    assert rig.v.on_order(order([(-3, 0), (-3, -3)], first=1, update_id=1)) is Answer.REFUSED
    rig.run(2.0)
    assert rig.v.at_rest and Kind.UPDATE_AFTER_CANCEL in [e.kind for e in rig.v.errors]


@pytest.mark.parametrize(("off_m", "goes_on"), [(0.3, True), (0.8, False)])
def test_pushed_aside_while_it_stands_it_goes_on_only_from_near_its_line(off_m, goes_on):
    rig = Rig()
    rig.v.on_order(order([(-5, 0), (-1, 0)]))
    rig.run(2.0)
    rig.v.on_instant_actions(instant(action("startPause", "p")))
    rig.until(lambda: rig.v.at_rest)
    x, y, heading = rig.unit.plant.pose()
    rig.unit.plant.put(x, y + off_m, heading)
    rig.v.localisation.start(x, y + off_m, heading)
    rig.v.on_instant_actions(instant(action("stopPause", "q")))
    if goes_on:
        rig.until(lambda: not rig.v.book.active)
        assert math.dist(rig.unit.plant.pose()[:2], (-1, 0)) < 0.05
    else:
        rig.run(3.0)
        assert rig.v.at_rest and [e.kind for e in rig.v.errors] == [Kind.OFF_PATH]


def test_the_button_brakes_hardest_latches_and_leaves_the_vehicle_paused():
    rig = Rig()
    rig.v.load_kg = 40.0
    rig.v.on_order(order([(-5, 0), (5, -3)]))
    rig.until(lambda: rig.unit.plant.twist()[0] > 1.0)
    before = rig.unit.plant.pose()[:2]
    rig.v.safety.press()
    assert rig.state().e_stop == "MANUAL"
    rig.until(lambda: rig.unit.plant.twist()[0] == 0.0, 2.0)
    braked = math.dist(before, rig.unit.plant.pose()[:2])
    assert braked < 1.2**2 / (2 * rig.config.emergency_m_s2) + 1.2 * 0.08
    assert rig.v.safety.acknowledge() and rig.v.safety.e_stop  # still pressed
    rig.v.on_instant_actions(instant(action("stopPause", "q")))
    assert rig.state().actions["q"].status == "FAILED"
    rig.v.safety.release()
    rig.run(1.0)
    assert rig.v.at_rest and rig.v.safety.acknowledge() == ""
    rig.run(1.0)
    assert rig.v.at_rest and rig.state().paused and rig.state().e_stop == "NONE"
    rig.v.on_instant_actions(instant(action("stopPause", "r")))
    rig.until(lambda: rig.unit.plant.twist()[0] > 0.5)


def test_the_local_stop_needs_no_message_and_no_message_undoes_it():
    rig = Rig()
    rig.v.on_order(order(STRAIGHT))
    rig.run(1.0)
    rig.v.safety.local_stop = True
    rig.until(lambda: rig.v.at_rest, 3.0)
    rig.v.on_instant_actions(instant(action("stopPause", "q")))
    rig.run(1.0)
    assert rig.v.at_rest and rig.state().actions["q"].status == "FAILED" and rig.state().paused
    rig.v.safety.local_stop = False
    rig.until(lambda: not rig.v.book.active)


@pytest.mark.parametrize("speed", [0.3, 1.2])
def test_an_obstacle_stops_it_before_contact_and_it_goes_on_when_it_is_clear(speed):
    rig = Rig()
    rig.v.on_order(order([(-5, 0), (5, -3)], edge={"maxSpeed": speed}))
    rig.until(lambda: rig.unit.plant.twist()[0] > 0.9 * speed)
    x, y, heading = rig.unit.plant.pose()
    ahead = rig.config.length_m / 2 + rig.config.field_m(speed) + 0.3
    rig.obstacles = [Obstacle(x + ahead * math.cos(heading), y + ahead * math.sin(heading), 0.1)]
    rig.until(lambda: rig.state().field_violation, 5.0)
    rig.until(lambda: rig.v.at_rest, 2.0)
    rig.run(5.0)
    assert rig.v.at_rest and rig.state().e_stop == "AUTOACK"
    o = rig.obstacles[0]
    gap = math.dist(rig.unit.plant.pose()[:2], (o.x_m, o.y_m)) - o.radius_m - rig.config.length_m / 2
    assert gap > 0.1
    rig.obstacles = []
    rig.run(rig.config.field_clear_s - 0.2)
    assert rig.v.at_rest
    rig.until(lambda: rig.unit.plant.twist()[0] > 0.1, 2.0)


def test_the_field_must_be_clear_without_a_break():
    rig = Rig()
    rig.v.on_order(order(STRAIGHT))
    there = [Obstacle(-5.0 + rig.config.length_m / 2 + 0.2, 0.0, 0.1)]
    for _ in range(4):
        rig.obstacles = there
        rig.run(0.2)
        rig.obstacles = []
        rig.run(rig.config.field_clear_s - 0.2)
        assert rig.v.at_rest and rig.unit.plant.pose()[0] == -5.0
    rig.until(lambda: not rig.v.book.active)


def test_leaving_automatic_clears_the_order():
    rig = Rig()
    rig.v.on_order(order(STRAIGHT))
    rig.run(1.0)
    rig.v.set_mode("MANUAL")
    rig.until(lambda: rig.v.at_rest)
    rig.step()
    assert rig.state().idle and rig.state().operating_mode == "MANUAL"
    assert rig.v.on_order(order(STRAIGHT, order_id="o2")) is Answer.REFUSED
    rig.v.on_instant_actions(instant(action("startPause", "p"), action("stateRequest", "s")))
    assert [rig.state().actions[i].status for i in "ps"] == ["FAILED", "FINISHED"]


def test_semiautomatic_is_slow():
    rig = Rig()
    rig.v.set_mode("SEMIAUTOMATIC")
    rig.v.on_order(order(STRAIGHT))
    rig.until(lambda: not rig.v.book.active)
    assert max(rig.speeds) == pytest.approx(0.3)


@pytest.mark.parametrize("seed", range(4))
def test_it_docks_with_noise_is_loaded_under_the_arm_and_leaves_only_when_told(seed):
    rig = Rig(NoiseParameters.load(), seed=seed)
    station = [action("finePositioning", "dock"), action("waitForTrigger", "wait", triggerType="loaded")]
    message = order([(-5, 0), (-3, -2), (-0.66, -2.0), (-0.66, 0.0), (-0.66, 2.0)], actions={3: station})
    message["nodes"][3]["nodePosition"]["theta"] = math.pi / 2
    rig.v.on_order(message)
    rig.until(lambda: rig.state().actions["wait"].status == "RUNNING", 90.0)
    assert rig.state().actions["dock"].status == "FINISHED"
    x, y, heading = rig.unit.plant.pose()
    assert abs(x + 0.66) < 0.025 and abs(y) < 0.02 and abs(heading - math.pi / 2) < 0.03
    rig.v.load_kg = 12.0
    rig.run(20.0)
    assert rig.v.at_rest and len(rig.state().loads) == 1
    rig.v.on_instant_actions(instant(action("trigger", "wrong", triggerType="other")))
    rig.run(1.0)
    assert rig.v.at_rest
    rig.v.on_instant_actions(instant(action("trigger", "right", triggerType="loaded")))
    rig.until(lambda: not rig.v.book.active)
    assert rig.state().last_node_id == "n4"


def test_conditions_that_forbid_driving_are_named():
    rig = Rig()
    rig.v.on_order(order(STRAIGHT))
    rig.v.load_kg = 41.0
    rig.run(2.0)
    assert rig.v.at_rest and [e.kind for e in rig.v.errors] == [Kind.OVERLOAD]
    rig.v.load_kg = 0.0
    rig.run(1.0)
    rig.v.battery.charge_wh = 1.0
    rig.run(3.0)
    assert rig.v.at_rest and [e.kind for e in rig.v.errors] == [Kind.BATTERY_EMPTY]
    assert rig.state().errors[0].level == "FATAL"


def test_ranges_that_do_not_fit_the_pose_stop_it():
    rig = Rig(NoiseParameters.load())
    rig.unit.plant.put(-5.0, 3.0, 0.0)  # carried away by somebody
    rig.v.on_order(order([(-5, 0), (5, -3)]))
    rig.until(lambda: rig.v.localisation.lost, 30.0)
    rig.until(lambda: rig.v.at_rest)
    assert [e.kind for e in rig.v.errors] == [Kind.LOCALISATION] and not rig.state().localised


def test_driving_takes_charge_and_the_charger_gives_it():
    rig = Rig(pose=(-8.0, -4.0, 0.0))
    rig.v.on_instant_actions(instant(action("startCharging", "a")))
    before = rig.v.battery.percent
    rig.run(20.0)
    assert rig.state().charging and rig.v.battery.percent > before
    rig.v.on_order(order([(-8, -4), (-5, -4)]))
    rig.run(2.0)
    assert rig.v.at_rest  # a plug is in
    rig.v.on_instant_actions(instant(action("stopCharging", "b")))
    before = rig.v.battery.percent
    rig.until(lambda: not rig.v.book.active)
    assert rig.v.battery.percent < before


@pytest.mark.parametrize("version", codec.VERSIONS)
def test_every_kind_of_message_passes_the_schema_of_its_version(version):
    rig = Rig(version=version)
    acts = [action("pick", "a"), action("drop", "b"), action("pick", "c"), action("pick", "d")]
    rig.v.on_order(order(STRAIGHT, actions={0: acts}, version=version))
    rig.until(lambda: rig.state().actions["d"].status == "FAILED")
    for kind, message in (
        ("visualization", reports.visualization(rig.v, version, 3)), ("factsheet", reports.factsheet(rig.v, version)),
        *(("connection", reports.connection(version, s)) for s in ("ONLINE", "OFFLINE", "broken")),
    ):  # fmt: skip
        codec.encode(kind, rig.identity.header(0, 1e9) | message, version)
    rig.v.set_mode("TEACHIN")
    assert rig.state().operating_mode == ("TEACHIN" if version == "2.1.0" else "TEACH_IN")


def test_a_longer_base_is_asked_for_before_the_brakes_are_and_only_where_there_is_a_horizon():
    rig = Rig()
    rig.v.on_order(order([(-5, 0), (5, -3), (5, -6)], released=2))
    assert not rig.state().new_base_request
    rig.until(lambda: rig.state().new_base_request)
    left = math.dist(rig.unit.plant.pose()[:2], (5, -3))
    assert rig.config.stopping_m(rig.config.max_speed_m_s, 0.0) < left < 3.0
    rig.until(lambda: rig.v.at_rest)
    rig.v.on_order(order([(5, -3), (5, -6)], first=1, update_id=1))
    assert not rig.state().new_base_request


def test_a_node_with_a_heading_is_left_only_when_it_has_been_turned_to():
    rig = Rig()
    message = order([(-5, 0), (-3, 0), (-1, 0)])
    message["nodes"][1]["nodePosition"]["theta"] = math.pi / 2
    rig.v.on_order(message)
    rig.until(lambda: rig.state().last_node_id == "n1")
    assert rig.unit.plant.pose()[2] == pytest.approx(math.pi / 2, abs=rig.config.arrival_rad) and rig.v.at_rest
    rig.until(lambda: not rig.v.book.active)


def test_it_stands_where_it_is_to_reverse():
    """Both edges want the same heading, so only their direction says that it must stop between them."""
    rig = Rig()
    message = order([(-5, 0), (-3, 0), (-4, 0)])
    message["edges"][1]["orientation"] = math.pi
    rig.v.on_order(message)
    farthest = -5.0
    while rig.v.book.active:
        rig.step()
        farthest = max(farthest, rig.unit.plant.pose()[0])
    assert farthest < -3 + rig.config.arrival_m and rig.unit.plant.pose()[0] == pytest.approx(-4.0, abs=0.05)


@pytest.mark.parametrize("load_kg", [0.0, 40.0])
def test_it_stops_on_the_spot_at_the_brake_s_own_rate(load_kg):
    rig = Rig()
    rig.v.load_kg = load_kg
    rig.v.on_order(order([(-5, 0), (0, -3.5)]))
    rig.until(lambda: not rig.v.book.active)
    assert math.dist(rig.unit.plant.pose()[:2], (0, -3.5)) < 0.002
    rates = np.diff(rig.speeds) / rig.config.period_s
    assert min(rates) >= -rig.config.deceleration_m_s2(load_kg) - 1e-9


def test_it_does_not_charge_on_the_move():
    rig = Rig(pose=(-8.0, -4.0, 0.0))
    rig.v.on_order(order([(-8, -4), (-5, -4)]))
    rig.until(lambda: rig.unit.plant.twist()[0] > 0.1)
    rig.v.on_instant_actions(instant(action("startCharging", "a")))
    assert rig.state().actions["a"].text == "the vehicle moves" and not rig.state().charging


def test_backwards_on_an_edge():
    rig = Rig(pose=(-5.0, 0.0, math.pi))
    rig.v.on_order(order(STRAIGHT, edge={"orientation": math.pi}))
    rig.until(lambda: not rig.v.book.active)
    assert min(rig.speeds) < -0.3 and max(rig.speeds) == 0.0
    assert rig.unit.plant.pose()[0] == pytest.approx(-3.0, abs=0.05)


@pytest.mark.parametrize(
    ("pose", "blocked", "why"),
    [((-0.69, 0.0, math.pi / 2), False, "mm beside the dock"), ((-0.66, -0.3, math.pi / 2), True, "took too long"),
     ((-5.0, 0.0, 0.0), False, "no dock in view")],
)  # fmt: skip
def test_docking_that_cannot_succeed_fails_by_name(pose, blocked, why):
    rig = Rig(pose=pose)
    if blocked:
        rig.unit.plant.step = lambda *command: None  # the wheels are stuck
    rig.v.on_order(order([pose[:2]], actions={0: [action("finePositioning", "dock")]}))
    rig.until(lambda: not rig.v.book.active, 30.0)
    assert rig.state().actions["dock"].status == "FAILED" and why in rig.state().actions["dock"].text
    rig.until(lambda: rig.v.follower.at_rest, 1.0)


def put_aside(rig, off_m):
    """It is elsewhere, and knows it: `off_m` to its left."""
    x, y, heading = rig.unit.plant.pose()
    place = (x - off_m * math.sin(heading), y + off_m * math.cos(heading), heading)
    rig.unit.plant.put(*place)
    rig.v.localisation.start(*place)


def test_a_node_is_not_reached_from_too_far_aside_and_cancelling_ends_the_error():
    rig = Rig()
    rig.v.on_order(order(STRAIGHT))
    rig.until(lambda: rig.unit.plant.pose()[0] > -3.15)
    put_aside(rig, 0.4)
    rig.until(lambda: rig.v.at_rest)
    rig.run(1.0)
    assert [e.kind for e in rig.v.errors] == [Kind.OFF_PATH] and rig.state().last_node_id == "n0"
    rig.v.on_instant_actions(instant(action("cancelOrder", "c")))
    rig.run(0.5)
    assert rig.v.errors == [] and rig.state().actions["c"].status == "FINISHED"
    x, y, _ = rig.unit.plant.pose()
    rig.v.on_order(order([(x, y), (-5, 0)], order_id="back"))
    rig.until(lambda: not rig.v.book.active)


def test_an_order_can_be_cancelled_while_the_button_is_pressed():
    rig = Rig()
    rig.v.on_order(order(STRAIGHT))
    rig.run(1.0)
    rig.v.safety.press()
    rig.v.on_instant_actions(instant(action("cancelOrder", "c")))
    rig.until(lambda: rig.state().actions["c"].status == "FINISHED", 3.0)
    assert not rig.v.book.active and rig.state().e_stop == "MANUAL"


def test_failed_actions_are_told_until_the_next_order():
    rig = Rig()
    rig.v.on_order(order([(-5, 0)], actions={0: [action("drop", "d")]}))
    rig.until(lambda: not rig.v.book.active)
    assert [e.kind for e in rig.v.errors] == [Kind.ACTION_FAILED]
    rig.v.on_order(order(STRAIGHT, order_id="next"))
    assert rig.v.errors == []


@pytest.mark.parametrize(("mode", "last"), [("MANUAL", "n1"), ("SERVICE", ""), ("TEACHIN", "")])
def test_the_last_node_is_forgotten_where_the_standard_says_so(mode, last):
    rig = Rig()
    rig.v.on_order(order(STRAIGHT))
    rig.until(lambda: not rig.v.book.active)
    rig.v.set_mode(mode)
    assert rig.state().last_node_id == last


def test_a_trigger_ends_only_what_waits_for_one():
    rig = Rig()
    rig.v.on_order(order([(-5, 0)], actions={0: [action("pick", "p", "NONE")]}))
    rig.step()
    assert rig.state().actions["p"].status == "RUNNING" and not rig.v.trigger("")
    assert rig.state().actions["p"].status == "RUNNING"


@pytest.mark.parametrize("text", ["x" * 65, "\u00e9" * 33, "a\nb", "\x00"])
@pytest.mark.parametrize("field", ["orderId", "nodeId", "edgeId", "actionId", "loadId", "instant", "actionType", "lastNodeId"])
def test_what_the_state_would_repeat_must_be_short_and_printable(field, text):
    rig = Rig()
    message = order(STRAIGHT, actions={1: [action("pick", "a", loadId=text if field == "loadId" else "l")]})
    places = {"orderId": message, "nodeId": message["nodes"][1], "edgeId": message["edges"][0],
              "actionId": message["nodes"][1]["actions"][0]}  # fmt: skip
    if field == "nodeId":
        message["edges"][0]["endNodeId"] = text
    if field in places or field == "loadId":
        places.get(field, {})[field] = text
        assert rig.v.on_order(message) is Answer.REFUSED
    else:
        where = {"x": -5.0, "y": 0.0, "theta": 0.0, "mapId": "hall", "lastNodeId": text}
        rig.v.on_instant_actions(instant(
            action(text, "i") if field == "actionType" else
            action("initPosition", "i", **where) if field == "lastNodeId" else action("stateRequest", text)
        ))  # fmt: skip
    assert "64 bytes" in rig.state().errors[-1].text and text not in (rig.state().order_id, rig.state().last_node_id)


@pytest.mark.parametrize("version", codec.VERSIONS)
def test_the_longest_state_fits_into_its_message(version):
    rig = Rig(version=version)

    def long(prefix, k=0):
        return f"{prefix}{k}".ljust(64, chr(92))  # a backslash takes two bytes in JSON

    for update in range(4):  # 64 nodes and 64 actions more with each
        first, count = (0, 64) if update == 0 else (64 * update - 1, 65)
        message = order([(-5 + (first + k) % 2, 0) for k in range(count)], long("o"), update, first=first, version=version)
        for k, entry in enumerate(message["nodes"], first):
            entry["nodeId"] = long("n", k)
            entry["nodePosition"]["theta"] = 1.2345678901234567
            entry["actions"] = [action("waitForTrigger", long("a", k))] if update == 0 or k > first else []
        for k, entry in enumerate(message["edges"], first):
            entry.update(edgeId=long("e", k), startNodeId=long("n", k), endNodeId=long("n", k + 1))
        assert rig.v.on_order(message) is not Answer.REFUSED, rig.v.refusals
    for k in range(12):
        rig.v.on_order(order([(99, 99)], order_id=long("other", k)))
        rig.v.on_instant_actions(instant(*(action(long("t", i), long("i", 10 * k + i)) for i in range(10))))
    message = rig.identity.header(0, 1e9) | reports.state(rig.v, version)
    assert len(message["nodeStates"]) == 255 and len(rig.v.book.queue.entries) == 256
    assert len(codec.encode("state", message, version)) < codec.MAX_BYTES * 0.9
