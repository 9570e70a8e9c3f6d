"""Actions, deviations, an operator's acts: guard, bridge, codec and simulated vehicle together, in virtual time."""
import math

import numpy as np
import pytest

from steadyhand import agv_action
from steadyhand.agv import AgvKind, DriveTo, Waypoint, check_command
from steadyhand.agv_action import Action
from steadyhand.guard_protocol import Drive, Pause, Stop, VehicleAct
from steadyhand.vda5050 import codec
from steadyhand.vda5050.factsheet import Factsheet, read_factsheet
from steadyhand.vda5050.header import Identity
from steadyhand_firmware_bridge.guard import agv_task
from steadyhand_firmware_bridge.vda5050.asked import Asked
from steadyhand_firmware_bridge.vda5050.config import MasterConfig
from steadyhand_firmware_bridge.vda5050.route import first_route
from steadyhand_sim.agv import reports
from tests.support.vda_chain import Chain

NAN = float("nan")
DEEP: dict = {}
for _ in range(5000):  # deeper than Python can show it
    DEEP = {"d": DEEP}
PICK = {"at": 1, "kind": "pick", "blocking": "HARD", "parameters": {"weight": 12.5, "loadId": "box 7"}}


@pytest.fixture(params=codec.VERSIONS)
def version(request):
    return request.param


def test_a_load_is_picked_carried_past_a_node_and_dropped(version):
    chain = Chain(version).arm()
    seen = set()
    assert chain.drive([-3.0, 0.0], [-2.0, 0.0], [-1.0, 0.0], actions=[PICK, {"at": 3, "kind": "drop"}]).accepted

    def watch():
        seen.update((a, chain.state.driving) for a in chain.state.report["actions"] if "RUNNING" in a)
        seen.update(("aboard", load) for load in chain.state.report["loads"])
        return chain.state.task_state == "arrived"

    chain.run(90.0, watch)
    assert seen == {("pick at n1: RUNNING", False), ("drop at n3: RUNNING", False), ("aboard", "box 7")}
    assert chain.state.report["loads"] == [] and chain.state.causes == [] and chain.agv.master.foreign.count == 0


@pytest.mark.parametrize(("blocking", "stands"), [("NONE", False), ("SOFT", True), ("HARD", True)])
def test_how_a_custom_action_on_the_way_blocks(version, blocking, stands):
    chain = Chain(version).arm()
    entry = {"at": 1, "on_way": True, "kind": "signal", "blocking": blocking, "parameters": {"text": "mind the arm"}}
    assert chain.drive([-2.0, 0.0], actions=[entry]).accepted
    chain.run(10.0, lambda: chain.state.report["actions"] == ["signal on the way to n1: RUNNING"])
    driving = []
    chain.run(10.0, lambda: driving.append(chain.state.driving) or not chain.state.report["actions"])
    assert any(driving) is not stands or driving[-1]  # it may start again as soon as the action has ended
    assert all(driving[:-5]) is not stands
    chain.arrived()
    assert chain.unit.plant.pose()[0] == pytest.approx(-2.0, abs=0.1)


def test_an_action_that_fails_fails_the_task_by_name_and_stops(version):
    chain = Chain(version).arm()
    assert chain.drive([-4.0, 0.0], [-2.0, 0.0], actions=[{"at": 1, "kind": "drop"}]).accepted
    chain.run(20.0, lambda: chain.state.mode == "STOPPED")
    assert "drop at n1 failed: drop: no load aboard" in chain.state.task_detail
    assert any("drop at n1 failed" in cause for cause in chain.state.causes)
    assert chain.unit.plant.pose()[0] < -3.8


def test_an_action_that_the_factsheet_does_not_know_is_refused_before_it_is_sent(version):
    chain = Chain(version)
    assert chain.ask("factsheet").ok
    chain.arm()
    sent = chain.unit.counters["order"]
    for entry, says in ((PICK | {"kind": "paint"}, "no such action; of scope NODE: startCharging, stopCharging, pick"),
                        (PICK | {"on_way": True}, "no EDGE action of the vehicle; allowed: NODE")):  # fmt: skip
        verdict = chain.drive([-3.0, 0.0], actions=[entry])
        assert not verdict.accepted and says in verdict.detail, verdict
    assert chain.unit.counters["order"] == sent
    unasked = Chain(version).arm()
    assert unasked.drive([-3.0, 0.0], actions=[PICK | {"kind": "paint"}]).accepted  # then the vehicle itself refuses it
    unasked.run(5.0, lambda: "paint" in unasked.state.task_detail)
    assert unasked.run(5.0, lambda: unasked.state.at_rest).unit.plant.pose()[0] == pytest.approx(-5.0, abs=0.01)


def test_the_deviation_of_a_way_point_is_what_the_vehicle_is_told(version):
    chain = Chain(version).arm()
    assert chain.drive([-3.0, 0.0, 0.0], [-1.0, 0.0], deviations=[[], [0.25, 0.1], []]).accepted
    chain.run(0.5)
    first, second, third = (chain.unit.vehicle.book._last.nodes[k].place for k in range(3))
    assert (first.deviation_m, second.deviation_m, third.deviation_m) == (1.0, 0.25, 0.0)
    assert second.deviation_rad == 0.1 and second.theta_rad == 0.0


def test_a_deviation_of_nothing_is_said_and_one_that_is_left_out_is_not(version):
    points = Waypoint("a", 0.0, 0.0), Waypoint("b", 1.0, 0.0, deviation_m=0.0), Waypoint("c", 2.0, 0.0)
    config = MasterConfig(Identity("steadyhand", "agv", version), node_deviation_m=0.0)
    body = first_route("o", DriveTo("t", points), config).message()
    said = [node["nodePosition"].get("allowedDeviationXY") for node in body["nodes"]]
    assert said[1] == (0.0 if version == "2.1.0" else {"a": 0.0, "b": 0.0, "theta": 0.0}) and said[2] is None


BAD_DRIVES = {
    "actions[0].at=3: give the index of a way-point, 0 to 1": {"actions": [PICK | {"at": 3}]},
    "actions[0].at=True": {"actions": [PICK | {"at": True}]},
    "actions[0].on_way='yes'": {"actions": [PICK | {"on_way": "yes"}]},
    "actions[0].blocking='MAYBE': give one of NONE, SOFT, HARD": {"actions": [PICK | {"blocking": "MAYBE"}]},
    "actions[0].unknown field 'colour'": {"actions": [PICK | {"colour": "red"}]},
    "actions[0].kind=''": {"actions": [{"at": 1}]},
    "actions[0].parameters.weight=nan": {"actions": [PICK | {"parameters": {"weight": NAN}}]},
    "actions[0].parameters.deep=a dict": {"actions": [PICK | {"parameters": {"deep": DEEP}}]},
    "actions[0].at=a dict": {"actions": [PICK | {"at": DEEP}]},
    "actions[0].kind=a dict": {"actions": [PICK | {"kind": DEEP}]},
    "actions[0].parameters='x'": {"actions": [PICK | {"parameters": "x"}]},
    "waypoints[0].way_actions: the vehicle stands there": {"actions": [PICK | {"at": 0, "on_way": True}]},
    "waypoints[1].actions: 33, limit 32": {"actions": [PICK] * 33},
    "deviations: 1, way-points: 2": {"deviations": [[0.1]]},
    "waypoints[1].deviation_m=nan": {"deviations": [[], [NAN]]},
    "waypoints[1].deviation_m=-1": {"deviations": [[], [-1.0]]},
    "waypoints[1].deviation_m=nan: give 0 to 5": {"deviations": [[], [0.1, 0.1, 0.1]]},
    "waypoints[1].deviation_rad=0.1 without yaw_rad": {"deviations": [[], [0.1, 0.1]]},
}


@pytest.mark.parametrize("says", BAD_DRIVES)
def test_bad_actions_and_deviations_are_refused_by_field_and_value(says):
    message = Drive(1, 0.0, "t", "task", ["a", "b"], [[0.0, 0.0], [1.0, 0.0]], "hall", **BAD_DRIVES[says])
    task = agv_task.read(message)
    assert says in (task if isinstance(task, str) else check_command(task, AgvKind.ORDER))


def test_an_action_reads_back_as_it_was_written():
    action = Action("pick", "SOFT", {"weight": 1.0, "lhd": "fork", "gentle": True})
    assert agv_action.read(agv_action.plain(action)) == action and agv_action.read("pick").startswith("'pick'")
    task = DriveTo("t", (Waypoint("a", 0.0, 0.0), Waypoint("b", 1.0, 0.0, actions=(action,))))
    assert check_command(task, AgvKind.ORDER) == ""


# --- an operator's acts ---


def test_a_stop_of_a_vehicle_that_stands_ends_in_measured_rest(version):
    """Nothing changes in its state then: it is asked for it until rest is measured."""
    chain = Chain(version).arm()
    chain.guard.stop_requests([(Stop("panel"), 1)], chain.now_s)
    chain.run(2.0, lambda: chain.state.at_rest)
    chain.run(3.0)
    assert chain.state.mode == "STOPPED" and chain.state.paused


def test_the_factsheet_is_told(version):
    reply = Chain(version).ask("factsheet", credential="")
    assert reply.ok and reply.snapshot["series"] == "steadyhand-sim-agv" and reply.snapshot["max_load_kg"] == 40.0
    assert reply.snapshot["actions"]["signal"] == ["NODE", "EDGE"] and reply.snapshot["zones"] == []


def test_a_vehicle_that_does_not_answer_is_named():
    chain = Chain()
    chain.unit.link = None  # it hears, but nothing of it is heard
    reply = chain.ask("factsheet", seconds=8.0)
    assert not reply.ok and "factsheetRequest lost: not seen" in reply.message


def test_a_position_is_taken_by_a_vehicle_that_rests_unarmed_and_knows_the_map(version):
    chain = Chain(version, localised=False)
    assert any("not_localised" in cause for cause in chain.state.causes) or not chain.state.report["localised"]
    here = {"place": [-4.9, 0.05, 0.0], "map_id": "hall", "node": "corner"}
    for changes, says in ((dict(map_id="attic"), "map 'attic': the vehicle has hall"), (dict(map_id=""), "map ''"),
                          (dict(place=[-4.0, 1.0, 7.0]), "theta=7.0: give -pi to pi"),
                          (dict(place=[NAN] * 3), "finite"), (dict(place=[1.0]), "give x, y and heading"),
                          (dict(credential="guess"), "credential refused"),
                          (dict(vehicle="other/agv"), "this guard's is steadyhand/agv")):  # fmt: skip
        reply = chain.ask("position", **here | changes)
        assert not reply.ok and says in reply.message, reply
    assert chain.ask("position", **here).ok
    chain.run(0.5)
    assert np.allclose(chain.state.pose_m_rad, [-5.0, 0.0, 0.0], atol=0.2) and chain.state.last_waypoint == "corner"
    refused = chain.ask("position", **here | {"place": [0.0, 0.0, 0.0]})  # in the table: the vehicle's own refusal
    assert not refused.ok and "initializePosition failed" in refused.message
    chain.arm()
    assert "mode ARMED_AUTO: stop it first" in chain.ask("position", **here).message


def test_pause_cancel_and_resume(version):
    chain = Chain(version)
    for act in ("pause", "resume", "cancel"):
        assert f"only an armed vehicle has something to {act}" in chain.ask(act).message
    chain.arm()
    assert "not paused" in chain.ask("resume").message and "no task is under way" in chain.ask("cancel").message
    assert chain.drive([-3.0, 0.0], [-1.0, 0.0], [0.0, -3.0]).accepted
    chain.run(5.0, lambda: chain.state.driving)
    assert chain.ask("pause", credential="").ok
    chain.run(5.0, lambda: chain.state.at_rest and chain.state.paused)
    assert chain.state.task_state == "under way" and chain.state.mode == "ARMED_AUTO"
    for wrong, says in (({"credential": ""}, "credential refused"), ({"token": 1}, "token of another arming"),
                        ({"state_stamp_s": chain.now_s - 5.0}, "answers a state 50")):  # fmt: skip
        reply = chain.ask("resume", **wrong)
        assert not reply.ok and says in reply.message, reply
    assert chain.state.counters["refused:vehicle_act"] >= 3 and chain.ask("resume").ok
    chain.run(5.0, lambda: chain.state.driving)
    assert chain.ask("cancel", credential="").ok and chain.state.task_detail == "being cancelled"
    chain.run(10.0, lambda: chain.state.task_state == "stopped" and chain.state.at_rest)
    assert chain.state.task_detail == "cancelled" and chain.state.mode == "ARMED_AUTO"
    assert chain.state.waypoints_left == 0 and chain.state.causes == []
    assert chain.drive([-3.0, 0.0]).accepted  # still armed: the next task
    chain.arrived()


@pytest.mark.parametrize(("by", "why"), [("operator", "an operator resumes it"), ("commander", "paused: resume it first")])
def test_a_task_that_is_cancelled_while_paused_leaves_a_vehicle_that_takes_none_until_it_is_resumed(by, why):
    chain = Chain().arm()
    assert chain.drive([-3.0, 0.0], [-1.0, 0.0]).accepted
    chain.run(5.0, lambda: chain.state.driving)
    if by == "operator":
        assert chain.ask("pause").ok
    else:
        chain.guard.handle("commander", Pause(chain.state.token, chain.state.stamp_s, "p", True), chain.now_s)
    chain.run(5.0, lambda: chain.state.at_rest and chain.state.paused)
    assert chain.ask("cancel").ok
    chain.run(5.0, lambda: chain.state.task_state == "stopped")
    refused = chain.drive([-3.0, 0.0])
    assert not refused.accepted and why in refused.detail
    assert chain.ask("resume").ok
    chain.run(2.0, lambda: not chain.state.paused)
    assert chain.drive([-3.0, 0.0]).accepted
    chain.arrived()


def test_a_vehicle_that_does_not_end_its_order_is_stopped():
    chain = Chain().arm()
    assert chain.drive([-1.0, 0.0], [-1.0, 3.0]).accepted
    chain.run(5.0, lambda: chain.state.driving)
    chain.unit.vehicle.instant._cancelOrder = lambda entry, first: None  # taken, never ended
    assert chain.ask("cancel").ok
    chain.run(10.0, lambda: chain.state.mode == "STOPPED")
    assert any("cancelOrder lost: not ended" in cause for cause in chain.state.causes)


def test_what_a_vehicle_asks_leave_for_is_shown_and_nothing_grants_it():
    chain = Chain("3.0.0")
    asked = {"requestId": "1", "requestType": "ACCESS", "zoneId": "crossing", "zoneSetId": "z"}
    body = reports.state(chain.unit.vehicle, "3.0.0") | {"zoneRequests": [
        asked | {"requestStatus": "REQUESTED"}, asked | {"zoneId": "door", "requestStatus": "GRANTED"},
    ]}  # fmt: skip
    chain.fleet._send(chain.unit, "state", body)
    chain.run(0.1)
    assert chain.state.report["requests"] == ["ACCESS of crossing"]


def test_the_report_is_bounded_whatever_the_vehicle_says():
    chain = Chain()
    error = {"errorType": "x" * 5000, "errorLevel": "WARNING", "errorDescription": "y" * 5000}
    chain.fleet._send(chain.unit, "state", reports.state(chain.unit.vehicle, "2.1.0") | {"errors": [error] * 9})
    chain.run(0.1)
    errors = chain.state.report["errors"]
    assert len(errors) == 9 and errors[-1] == "and 1 more" and max(map(len, errors)) <= 120
    assert math.isfinite(chain.state.battery_percent)


def test_no_terminal_obeys_what_a_vehicle_says(version):
    chain, hostile = Chain(version), "\x1b[2J\nat rest\u202e"
    body = reports.state(chain.unit.vehicle, version)
    error = {"errorType": hostile, "errorLevel": "FATAL", "errorDescription": hostile}
    chain.fleet._send(chain.unit, "state", body | {"errors": [error], "loads": [{"loadId": hostile}]})
    chain.run(0.04)
    told = [*chain.state.report["errors"], *chain.state.report["loads"], *chain.agv.troubles(chain.now_s).values()]
    assert len(told) >= 3 and all("at rest" in text and text.isprintable() for text in told[:3])
    sheet = reports.factsheet(chain.unit.vehicle, version)
    sheet["typeSpecification"]["seriesName"] = hostile
    assert read_factsheet(sheet, version).facts["series"].isprintable()


def test_a_vehicle_that_is_not_known_to_rest_is_told_no_position():
    chain = Chain()
    chain.guard.rest.reset()
    refused = chain.ask("position", place=[-4.9, 0.0, 0.0], map_id="hall")
    assert not refused.ok and "not known to rest" in refused.message


def test_one_asks_at_a_time_and_who_has_gone_is_not_answered():
    chain = Chain()
    chain.unit.link = None  # nothing of it is heard
    answers = {}
    chain.guard.answer = lambda client, message: answers.setdefault(client, []).append(message)
    for client in ("first", "second"):
        chain.guard.handle(client, VehicleAct("factsheet", "", client), chain.now_s)
    assert "another factsheet is under way" in answers["second"][0].message
    chain.guard.forget("first", chain.now_s)
    chain.guard.handle("second", VehicleAct("factsheet", "", "again"), chain.now_s)
    chain.run(8.0)
    assert "first" not in answers and answers["second"][-1].request_id == "again"


def test_a_factsheet_is_told_when_it_has_come_not_when_its_request_has_ended():
    asked = Asked(5.0)
    asked.begin("factsheet", 1.0)
    asked.action_ended("factsheetRequest", True, "finished")
    assert asked.end("factsheet", 2.0) is None and not asked.end("factsheet", 6.1).ok
    asked.take_factsheet(Factsheet({"series": "x"}), 2.0)
    assert asked.end("factsheet", 2.0).told["series"] == "x"
