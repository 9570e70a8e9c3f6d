"""The master and a vehicle that keeps to the standard, message by message in virtual time, through the real codec."""
import pytest

from steadyhand.agv import DriveTo, TaskState, Velocity, Waypoint
from steadyhand.errors import ConfigError
from steadyhand.protocols import ArmingPhase
from steadyhand.vda5050 import codec
from steadyhand.vda5050.dialect import ActionState
from steadyhand.vda5050.header import HeaderIds
from steadyhand_firmware_bridge.vda5050.actions import InstantActions
from steadyhand_firmware_bridge.vda5050.config import BrokerConfig, MasterConfig
from steadyhand_firmware_bridge.vda5050.master import Master
from tests.support.vda_vehicle import Vehicle
from tests.unit import vda5050_messages as messages

DT_S = 0.02
ROUTE = tuple(Waypoint(f"n{i}", 1.0 * i, 0.0, map_id="hall") for i in range(5))


class Rig:
    """A master and a vehicle; `delay` messages of the vehicle by so many ticks, `cut` loses everything."""

    def __init__(self, version="2.1.0", vehicle=None, **config):
        self.version, self.identity = version, messages.IDENTITY[version]
        self.vehicle = vehicle or Vehicle(version)
        self.master = Master(MasterConfig(self.identity, **config), "me")
        self.ids, self.now_s, self.cut, self.sent = HeaderIds(), 10.0, False, []
        self.master.connected(self.now_s)

    def run(self, seconds, until=lambda: False):
        for _ in range(round(seconds / DT_S)):
            self.now_s += DT_S
            for kind, message in self.vehicle.tick(self.now_s):
                if not self.cut:
                    self.master.receive(kind, codec.encode(kind, message, self.version), False, self.now_s)
            for kind, body in self.master.due(self.now_s):
                self.sent.append((self.now_s, kind, body))
                header = self.identity.header(self.ids.take(kind), 1_700_000_000.0 + self.now_s)
                payload = codec.encode(kind, header | body, self.version)
                if not self.cut:
                    self.vehicle.take(kind, codec.decode(kind, payload, self.version))
                    self.master.receive(kind, payload, False, self.now_s)  # the broker gives it back
            if until():
                return True
        return False

    def arm(self):
        self.master.begin_arming(self.now_s)
        assert self.run(6.0, lambda: self.master.arming().phase is not ArmingPhase.UNDER_WAY)
        assert self.master.arming().phase is ArmingPhase.READY, self.master.arming()

    def driving(self, route=ROUTE):
        self.run(0.5)
        self.arm()
        assert self.master.go(DriveTo("t1", route, 0.8), self.now_s) == ""
        assert self.run(3.0, lambda: self.vehicle.v > 0.1)
        return self

    def troubles(self):
        return self.master.troubles(self.now_s)

    def orders(self):
        return [body for _, kind, body in self.sent if kind == "order"]


@pytest.fixture(params=codec.VERSIONS)
def rig(request):
    return Rig(request.param)


def test_a_task_is_released_node_by_node_and_arrives(rig):
    rig.driving()
    assert rig.run(30.0, lambda: rig.master.task.state is TaskState.ARRIVED), rig.master.feedback()
    orders = rig.orders()
    assert [o["orderUpdateId"] for o in orders] == list(range(4)) and rig.vehicle.last_node == "n4"
    assert [sum(n["released"] for n in o["nodes"]) for o in orders] == [2] * 4  # stitching node and one more
    assert [o["nodes"][0]["nodeId"] for o in orders] == ["n0", "n1", "n2", "n3"]
    assert rig.master.foreign.count == 0 and rig.troubles() == {}


@pytest.mark.parametrize("nodes", [1, 2, 3, 32])
def test_never_more_is_released_than_configured(nodes):
    rig = Rig(release_nodes=nodes).driving()
    blind = 0
    while rig.master.task.state is not TaskState.ARRIVED:
        assert rig.now_s < 100.0
        rig.run(DT_S)
        blind = max(blind, sum(n["released"] and n["sequenceId"] > rig.vehicle.last_seq for n in rig.vehicle.nodes))
    assert blind == min(nodes, 4)


def test_a_cut_connection_leaves_only_what_was_released():
    rig = Rig().driving()
    rig.cut = True
    rig.run(20.0)
    assert rig.vehicle.last_node == "n1" and rig.vehicle.v == 0.0
    assert "feedback_lost" in rig.troubles()


def test_stop_pauses_and_cancels_and_is_repeated_until_it_shows(rig):
    rig.driving()
    rig.vehicle.deaf = True
    rig.master.stop(rig.now_s)
    rig.run(1.5)
    assert rig.vehicle.v > 0.0 or rig.vehicle.nodes
    assert rig.master.counts["stops_sent"] >= 4
    rig.vehicle.deaf = False
    assert rig.run(3.0, lambda: rig.vehicle.v == 0.0 and not rig.vehicle.nodes and not rig.master._stopping)
    kinds = [[a["actionType"] for a in body["actions"]] for _, kind, body in rig.sent if kind == "instantActions"]
    assert ["startPause", "cancelOrder"] in kinds
    assert rig.master.task.state is TaskState.STOPPED and rig.master.go(DriveTo("t2", ROUTE), rig.now_s) == "not armed"
    sent = len(rig.sent)
    rig.run(1.0)
    assert len(rig.sent) == sent  # nothing more to say


def test_an_order_that_arrives_after_its_stop_is_cancelled_too():
    rig = Rig()
    rig.run(0.5)
    rig.arm()
    assert rig.master.go(DriveTo("t1", ROUTE), rig.now_s) == ""
    late = [m for m in rig.master.due(rig.now_s) if m[0] == "order"]
    rig.master.stop(rig.now_s)
    rig.run(0.1)
    header = rig.identity.header(0, 1_700_000_000.0)
    rig.vehicle.take("order", header | late[0][1])
    rig.run(3.0)
    assert rig.vehicle.v == 0.0 and rig.vehicle.x == 0.0 and rig.vehicle.paused


def test_the_end_of_a_pause_does_not_follow_a_stop(rig):
    rig.driving()
    rig.master.hold(rig.now_s)
    assert rig.run(2.0, lambda: rig.vehicle.v == 0.0 and rig.vehicle.paused)
    assert rig.master.resume(rig.now_s) == ""  # between two cycles, as is the stop
    rig.master.stop(rig.now_s)
    rig.run(0.5)
    assert rig.vehicle.paused and rig.vehicle.v == 0.0


def test_an_arming_waits_for_the_answer_to_a_stop_whose_order_has_not_shown():
    rig = Rig()
    rig.run(0.5)
    rig.arm()
    rig.vehicle.deaf = True  # everything is on its way
    assert rig.master.go(DriveTo("t1", ROUTE), rig.now_s) == ""
    rig.run(0.1)
    rig.master.stop(rig.now_s)
    rig.run(0.1)
    rig.master.begin_arming(rig.now_s)
    rig.run(0.9)
    assert rig.master.arming().phase is ArmingPhase.UNDER_WAY and "not through" in rig.master.arming().detail


def test_a_task_does_not_go_on_over_a_new_connection_though_nobody_stopped_it(rig):
    rig.driving()
    rig.master.disconnected("broker gone")
    rig.cut = True
    rig.run(3.0)
    rig.cut, sent = False, len(rig.orders())
    rig.master.connected(rig.now_s)
    rig.run(3.0)
    assert rig.master.task.state is TaskState.FAILED and "connection was lost" in rig.troubles()["robot_mode:task"]
    assert len(rig.orders()) == sent and rig.vehicle.v == 0.0


def test_a_lost_connection_resumes_nothing_but_a_stop():
    rig = Rig().driving()
    rig.cut = True
    rig.master.disconnected("broker gone")
    assert rig.troubles() == {"robot_unreachable": "broker gone"}
    rig.master.stop(rig.now_s)  # what the guard does about it
    rig.run(2.0)
    rig.cut = False
    sent = len(rig.sent)
    rig.master.connected(rig.now_s)
    assert rig.run(3.0, lambda: not rig.vehicle.nodes and not rig.master._stopping)
    assert {kind for _, kind, _ in rig.sent[sent:]} == {"instantActions"}
    rig.arm()
    rig.run(2.0)
    assert rig.vehicle.v == 0.0 and rig.master.task.state is TaskState.NONE


@pytest.mark.parametrize("changes, cause", [
    ({"operatingMode": "MANUAL"}, "robot_mode:operating_mode"),
    ({"safetyState": {"eStop": "MANUAL", "fieldViolation": False}}, "robot_safety:e_stop"),
    ({"errors": [{"errorType": "motor", "errorLevel": "FATAL"}]}, "robot_mode:motor"),
    ({"errors": [{"errorType": "dust", "errorLevel": "WARNING"}]}, ""),
    ({"agvPosition": {"x": 0.0, "y": 0.0, "theta": 0.0, "mapId": "m", "positionInitialized": False}},
     "robot_mode:not_localised"),
])  # fmt: skip
def test_what_the_vehicle_says_is_a_cause_and_nothing_more_is_released(changes, cause):
    rig = Rig().driving()
    rig.vehicle.changes = changes
    rig.run(1.0)
    assert set(rig.troubles()) == ({cause} if cause else set())
    released = len(rig.orders())
    rig.run(10.0)
    assert (len(rig.orders()) == released) == bool(cause)


def test_another_masters_order_is_noticed_on_the_topic_and_in_the_state():
    rig = Rig().driving()
    body = rig.orders()[0] | rig.identity.header(7, 1_700_000_000.0) | {"orderId": "theirs"}
    rig.master.receive("order", codec.encode("order", body, "2.1.0"), False, rig.now_s)
    assert "'theirs'" in rig.troubles()["agv_foreign"]
    rig.run(11.0)
    assert "agv_foreign" not in rig.troubles()
    rig.vehicle.order = "theirs too"
    rig.run(0.5)
    assert "'theirs too'" in rig.troubles()["agv_foreign"]


def test_an_old_order_of_ours_that_somebody_sends_again_is_a_strangers(rig):
    rig.driving()
    old = rig.orders()[0]
    assert rig.run(30.0, lambda: rig.master.task.state is TaskState.ARRIVED)
    back = tuple(Waypoint(f"m{i}", 4.0 - i, 0.0, map_id="hall") for i in range(3))
    assert rig.master.go(DriveTo("t2", back), rig.now_s) == ""
    assert rig.run(30.0, lambda: rig.master.task.state is TaskState.ARRIVED)
    rig.vehicle.take("order", old)
    assert rig.run(1.0, lambda: "agv_foreign" in rig.troubles()) and "'me-1'" in rig.troubles()["agv_foreign"]


def test_an_order_of_before_the_arming_that_goes_on_is_a_strangers(rig):
    rig.vehicle.order = "theirs"
    rig.run(0.5)
    rig.arm()
    rig.vehicle.nodes = [{"nodeId": "q", "sequenceId": 2, "released": True, "nodePosition": {"x": 3.0, "y": 0.0}}]
    assert rig.run(1.0, lambda: "agv_foreign" in rig.troubles()) and "'theirs'" in rig.troubles()["agv_foreign"]


def test_another_masters_action_is_noticed():
    rig = Rig().driving()
    action = {"actionType": "stopPause", "actionId": "x-1", "blockingType": "NONE"}
    body = rig.identity.header(7, 1_700_000_000.0) | {"actions": [action]}
    rig.master.receive("instantActions", codec.encode("instantActions", body, "2.1.0"), False, rig.now_s)
    assert "stopPause" in rig.troubles()["agv_foreign"]
    other = Rig().driving()
    other.vehicle.actions["x-2"] = {"actionId": "x-2", "actionStatus": "RUNNING"}
    other.run(0.5)
    assert "x-2" in other.troubles()["agv_foreign"]


def test_a_vehicle_that_is_busy_for_somebody_else_is_not_armed():
    rig = Rig()
    rig.vehicle.order, rig.vehicle.nodes = "theirs", [
        {"nodeId": "q", "sequenceId": 0, "released": False, "nodePosition": {"x": 0.0, "y": 0.0}}
    ]
    rig.run(0.5)
    rig.master.begin_arming(rig.now_s)
    rig.run(1.0)
    assert rig.master.arming().phase is ArmingPhase.FAILED and "theirs" in rig.master.arming().detail


def test_the_order_that_somebody_else_had_before_is_nobodys_now(rig):
    rig.vehicle.order, rig.vehicle.actions = "theirs", {"x": {"actionId": "x", "actionStatus": "FINISHED"}}
    rig.driving()
    rig.run(1.0)
    assert rig.troubles() == {}


def test_armed_again_after_a_stop_the_old_order_is_no_strangers(rig):
    rig.driving()
    rig.master.stop(rig.now_s)
    assert rig.run(3.0, lambda: rig.vehicle.v == 0.0)
    rig.arm()
    assert rig.master.go(DriveTo("t2", ROUTE), rig.now_s) == ""
    assert rig.run(3.0, lambda: rig.vehicle.v > 0.1)


def test_an_own_action_that_runs_while_arming_is_waited_for(rig):
    rig.run(0.5)
    rig.vehicle.actions["me-0"] = {"actionId": "me-0", "actionStatus": "RUNNING"}
    rig.master.begin_arming(rig.now_s)
    rig.run(0.5)
    assert rig.master.arming().phase is ArmingPhase.UNDER_WAY and "action" in rig.master.arming().detail
    rig.vehicle.actions["me-0"]["actionStatus"] = "FINISHED"
    rig.run(0.5)
    assert rig.master.arming().phase is ArmingPhase.READY


@pytest.mark.parametrize("left", [range(5), range(1, 5)])
def test_the_number_of_an_old_node_releases_nothing_of_a_new_order(left):
    rig = Rig()
    rig.vehicle.changes = {"lastNodeSequenceId": 8}  # a new order is shown before its first node is reached
    rig.run(0.5)
    rig.arm()
    assert rig.master.go(DriveTo("t1", ROUTE), rig.now_s) == ""
    rig.vehicle.paused = True
    rig.vehicle.changes["nodeStates"] = [{"nodeId": f"n{i}", "sequenceId": 2 * i, "released": i < 2} for i in left]
    rig.run(2.0)
    assert len(rig.orders()) == 1 and rig.master.task.state is TaskState.UNDER_WAY


def test_a_vehicle_that_claims_nodes_beyond_its_base_is_released_one_more_at_a_time():
    rig = Rig()
    rig.run(0.5)
    rig.arm()
    assert rig.master.go(DriveTo("t1", ROUTE), rig.now_s) == ""
    left = [{"nodeId": "n4", "sequenceId": 8, "released": False}]
    rig.vehicle.changes = {"lastNodeSequenceId": 6, "nodeStates": left, "orderUpdateId": 0}
    assert rig.run(3.0, lambda: len(rig.orders()) == 2)
    assert [n["nodeId"] for n in rig.orders()[1]["nodes"] if n["released"]] == ["n1", "n2"]


def test_an_action_that_was_seen_has_longer_to_end():
    actions = InstantActions("me", "2.1.0", acknowledge_s=1.0, end_s=5.0)
    (action,) = actions.message(["startPause"], 0.0)["actions"]
    assert actions.heard({action["actionId"]: ActionState("RUNNING")}) == [] and actions.expired(4.9) == []
    (ended,) = actions.expired(5.1)
    assert ended.text == "not ended" and actions.counts == {"lost": 1} and not actions.under_way("startPause")
    for _ in range(100):
        actions.message(["stateRequest"], 6.0)
    assert len(actions.expired(8.0)) == 32 and actions.counts["lost"] == 101
    actions.message(["cancelOrder"], 8.0)
    for _ in range(100):
        actions.message(["startPause"], 8.0)
    assert actions.under_way("cancelOrder") and len(actions.expired(10.0)) == 32


@pytest.mark.parametrize("held", [False, True])
def test_an_order_that_the_vehicle_gave_up_is_not_continued(rig, held):
    rig.driving()
    if held:  # an update is on its way, and is sent again as long as it does not show
        rig.vehicle.take_order = lambda message: None
        assert rig.run(3.0, lambda: len(rig.orders()) == 2)
    sent = len(rig.orders())
    rig.vehicle.nodes, rig.vehicle.edges = [], []  # a person has cancelled it at the vehicle
    assert rig.run(3.0, lambda: rig.master.task.state is TaskState.FAILED)
    rig.run(3.0)
    assert len(rig.orders()) == sent and "given the order up at node" in rig.troubles()["robot_mode:task"]


def test_a_vehicle_that_has_lost_its_order_is_not_sent_it_again(rig):
    rig.driving()
    sent = len(rig.orders())
    rig.vehicle.order, rig.vehicle.update, rig.vehicle.nodes, rig.vehicle.edges = "", 0, [], []  # started anew
    assert rig.run(3.0, lambda: rig.master.task.state is TaskState.FAILED)
    rig.run(3.0)
    assert len(rig.orders()) == sent and "lost the order" in rig.troubles()["robot_mode:task"]


def test_an_order_is_not_sent_again_while_something_is_wrong():
    rig = Rig()
    rig.run(0.5)
    rig.arm()
    rig.vehicle.take_order = lambda message: None
    rig.master.go(DriveTo("t1", ROUTE), rig.now_s)
    rig.vehicle.changes = {"safetyState": {"eStop": "MANUAL", "fieldViolation": False}}
    rig.run(5.0)
    assert len(rig.orders()) == 1 and "robot_safety:e_stop" in rig.troubles()


def test_visualization_alone_is_no_sign_that_the_vehicle_is_well(rig):
    rig.driving()
    rig.vehicle.silent, requests = True, len(rig.sent)
    for _ in range(8):
        rig.run(0.2)
        body = {"velocity": {"vx": 0.5, "vy": 0.0, "omega": 0.0}}
        body |= {"referenceStateHeaderId": 0} if rig.version == "3.0.0" else {}
        payload = codec.encode("visualization", rig.vehicle.message("visualization", body), rig.version)
        rig.master.receive("visualization", payload, False, rig.now_s)
    assert "feedback_lost" in rig.troubles() and rig.master.feedback().twist_stamp_s == rig.now_s
    asked = [a["actionType"] for _, _, body in rig.sent[requests:] for a in body.get("actions", ())]
    assert "stateRequest" in asked


def test_an_update_that_we_never_sent_is_a_strangers(rig):
    rig.driving()
    rig.vehicle.update = 7
    assert rig.run(1.0, lambda: "agv_foreign" in rig.troubles()) and "update 7" in rig.troubles()["agv_foreign"]


def test_what_waits_when_the_connection_ends_is_not_sent_over_the_next():
    rig = Rig().driving()
    rig.master.hold(rig.now_s)
    assert rig.run(2.0, lambda: rig.vehicle.paused)
    assert rig.master.resume(rig.now_s) == ""
    rig.master.disconnected("broker gone")
    assert rig.master.hold(rig.now_s) == "broker gone" and "broker gone" in rig.master.resume(rig.now_s)
    rig.master.connected(rig.now_s)
    kinds = [a["actionType"] for _, body in rig.master.due(rig.now_s) for a in body["actions"]]
    assert kinds == ["stateRequest"]


def test_a_stop_that_may_have_been_lost_is_the_first_that_the_next_connection_hears():
    rig = Rig().driving()
    rig.master.stop(rig.now_s)
    rig.master.due(rig.now_s)  # lost
    rig.master.disconnected("broker gone")
    rig.master.connected(rig.now_s)
    kinds = [a["actionType"] for _, body in rig.master.due(rig.now_s) for a in body["actions"]]
    assert {"startPause", "cancelOrder"} <= set(kinds)


def test_a_stop_is_repeated_until_a_state_that_came_after_it_shows_rest():
    rig = Rig()
    rig.run(0.5)
    rig.vehicle.silent = True  # what it said before was rest
    rig.master.stop(rig.now_s)
    rig.run(1.0)
    assert rig.master.counts["stops_sent"] >= 3
    rig.vehicle.silent, rig.vehicle.changes = False, {"driving": True}  # without an order, on its own
    rig.run(1.0)
    assert rig.master.counts["stops_sent"] >= 6
    rig.vehicle.changes = {}
    rig.run(0.5)
    sent = rig.master.counts["stops_sent"]
    rig.run(1.0)
    assert rig.master.counts["stops_sent"] == sent


def test_a_stop_ends_an_arming_and_what_an_action_left():
    rig = Rig().driving()
    rig.vehicle.deaf = True
    rig.master.hold(rig.now_s)
    assert rig.run(2.0, lambda: "robot_mode:action" in rig.troubles())
    rig.vehicle.deaf = False
    rig.master.stop(rig.now_s)
    assert "robot_mode:action" not in rig.troubles()
    assert rig.run(3.0, lambda: rig.vehicle.v == 0.0 and not rig.master._stopping)
    rig.master.begin_arming(rig.now_s)
    rig.master.stop(rig.now_s)
    rig.run(3.0)
    assert rig.master.arming().phase is ArmingPhase.FAILED and rig.master.arming().detail == "stopped"


def test_a_second_task_and_going_on_unarmed_are_refused():
    rig = Rig()
    rig.run(0.5)
    assert rig.master.resume(rig.now_s) == "not armed"
    rig.driving()
    assert "t1 is under way" in rig.master.go(DriveTo("t2", ROUTE), rig.now_s) and len(rig.orders()) == 1


def test_the_end_of_a_pause_is_asked_for_once_at_a_time():
    rig = Rig()
    rig.vehicle.paused = rig.vehicle.deaf = True
    rig.run(0.5)
    rig.master.begin_arming(rig.now_s)
    rig.run(0.9)
    assert str(rig.sent).count("stopPause") == 1
    rig.run(6.0)
    assert rig.master.arming().phase is ArmingPhase.FAILED and "pause" in rig.master.arming().detail


def test_what_cannot_be_written_fails_its_task_and_what_cannot_be_sent_does_not_pile_up():
    rig = Rig().driving()
    rig.master.refused_to_send("instantActions", "too long")
    assert rig.master.task.state is TaskState.UNDER_WAY
    rig.master.refused_to_send("order", "order.nodes: too long")
    assert rig.troubles() == {"robot_mode:task": "order.nodes: too long"}
    for _ in range(100):
        rig.master.hold(rig.now_s)
    assert len(rig.master.due(rig.now_s)) <= 40 and rig.master.counts["unsent"] >= 60


def test_a_vehicle_that_was_started_anew_is_heard_at_once_whatever_its_clock_shows(rig):
    rig.run(0.5)
    broken = {"2.1.0": "CONNECTIONBROKEN", "3.0.0": "CONNECTION_BROKEN"}[rig.version]
    for said in (broken, "OFFLINE", "ONLINE"):
        message = rig.vehicle.message("connection", {"connectionState": said})
        rig.master.receive("connection", codec.encode("connection", message, rig.version), False, rig.now_s)
        assert ("robot_unreachable" in rig.troubles()) == (said != "ONLINE")
    assert "stateRequest" in str(rig.master.due(rig.now_s))
    state = rig.vehicle.state() | rig.identity.header(0, 1000.0) | {"operatingMode": "MANUAL"}
    rig.master.receive("state", codec.encode("state", state, rig.version), False, rig.now_s)
    assert rig.master.state.operating_mode == "MANUAL"


def test_a_vehicle_that_still_drives_has_not_arrived_and_is_told_no_position():
    rig = Rig().driving()
    rig.vehicle.changes = {"driving": True}
    assert rig.run(30.0, lambda: rig.vehicle.last_node == "n4")
    rig.run(1.0)
    assert rig.master.task.state is TaskState.UNDER_WAY
    assert "drives" in rig.master.initialise_position(Waypoint("n0", 0.0, 0.0, 0.0, "hall"), rig.now_s)
    rig.vehicle.changes = {}
    assert rig.run(1.0, lambda: rig.master.task.state is TaskState.ARRIVED)


def test_silence_while_stopping_is_lost_feedback_as_when_armed():
    rig = Rig().driving()
    rig.master.stop(rig.now_s)
    rig.vehicle.silent = True
    rig.run(1.5)
    assert "feedback_lost" in rig.troubles()


def test_what_a_request_fails_to_do_is_no_trouble():
    rig = Rig().driving()
    for kind in ("stateRequest", "factsheetRequest"):
        rig.master._request(kind, rig.now_s)
    for _, body in rig.master.due(rig.now_s):
        for action in body["actions"]:
            rig.vehicle.actions[action["actionId"]] = {"actionId": action["actionId"], "actionStatus": "FAILED"}
    rig.run(1.0)
    assert rig.troubles() == {} and rig.master.actions.counts["failed"] >= 2


def test_a_refused_order_fails_the_task_by_name():
    rig = Rig()
    rig.run(0.5)
    rig.arm()
    rig.vehicle.take_order = lambda message: rig.vehicle.refuse("orderError", message)
    rig.master.go(DriveTo("t1", ROUTE), rig.now_s)
    assert rig.run(2.0, lambda: rig.master.task.state is TaskState.FAILED)
    assert "orderError" in rig.troubles()["robot_mode:task"]


def test_an_order_that_nobody_acknowledges_is_repeated_as_it_was_and_then_fails():
    rig = Rig()
    rig.run(0.5)
    rig.arm()
    rig.vehicle.take_order = lambda message: None
    rig.master.go(DriveTo("t1", ROUTE), rig.now_s)
    assert rig.run(10.0, lambda: rig.master.task.state is TaskState.FAILED)
    assert len(rig.orders()) == 3 and all(o == rig.orders()[0] for o in rig.orders())


def test_hold_and_resume_by_pause(rig):
    rig.driving()
    assert rig.master.hold(rig.now_s) == ""
    assert rig.run(2.0, lambda: rig.vehicle.v == 0.0 and rig.vehicle.paused)
    assert rig.master.resume(rig.now_s) == ""
    assert rig.run(2.0, lambda: rig.vehicle.v > 0.1)


def test_an_action_that_fails_or_is_lost_is_named():
    rig = Rig().driving()
    rig.vehicle.deaf = True
    rig.master.hold(rig.now_s)
    rig.run(1.5)
    assert "startPause lost: not seen" in rig.troubles()["robot_mode:action"]


def test_a_position_is_given_under_the_versions_own_name(rig):
    rig.run(0.5)
    assert rig.master.initialise_position(Waypoint("n9", 3.0, 4.0, 0.0, "hall"), rig.now_s) == ""
    assert rig.run(1.0, lambda: rig.vehicle.last_node == "n9") and rig.vehicle.x == 3.0
    wanted = {"2.1.0": "initPosition", "3.0.0": "initializePosition"}[rig.version]
    assert wanted in [a["actionType"] for _, _, b in rig.sent for a in b.get("actions", ())]


def test_an_arming_waits_for_the_answer_to_a_position_and_so_does_another_position():
    rig = Rig()
    rig.run(0.5)
    assert rig.master.initialise_position(Waypoint("n9", 3.0, 4.0, 0.0, "hall"), rig.now_s) == ""
    rig.vehicle.deaf = True  # what it was told lies in its queue
    rig.master.begin_arming(rig.now_s)
    rig.run(0.6)
    assert rig.master.arming().phase is ArmingPhase.UNDER_WAY and "position that it was told" in rig.master.arming().detail
    assert "another position" in rig.master.initialise_position(Waypoint("n8", 0.0, 4.0, 0.0, "hall"), rig.now_s)
    told = next(a for _, _, b in rig.sent for a in b.get("actions", ()) if a["actionType"] == "initPosition")
    rig.vehicle.take_actions({"actions": [told]})
    assert rig.run(1.0, lambda: rig.master.arming().phase is ArmingPhase.READY) and rig.vehicle.last_node == "n9"


@pytest.mark.parametrize("end", ["arrived", "cancelled"])
def test_an_order_of_ours_that_has_ended_and_is_driven_again_is_a_strangers(rig, end):
    rig.driving()
    if end == "cancelled":
        assert rig.master.cancel(rig.now_s) == ""
    assert rig.run(30.0, lambda: rig.master.task.state in (TaskState.ARRIVED, TaskState.STOPPED))
    rig.run(0.5)
    assert rig.troubles() == {}
    rig.vehicle.nodes = [{"nodeId": "n4", "sequenceId": 8, "released": True, "nodePosition": {"x": 9.0, "y": 0.0}}]
    assert rig.run(1.0, lambda: "which had ended" in rig.troubles().get("agv_foreign", ""))


def test_a_vehicle_that_has_somebodys_order_is_told_no_position(rig):
    node = {"nodeId": "q", "sequenceId": 0, "released": False, "nodePosition": {"x": 0.0, "y": 0.0}}
    rig.vehicle.order, rig.vehicle.nodes = "theirs", [node]
    rig.run(0.5)
    assert "it has order 'theirs'" in rig.master.initialise_position(Waypoint("n9", 3.0, 4.0, 0.0, "hall"), rig.now_s)


def test_an_order_that_is_cancelled_before_it_shows_is_not_sent_again_nor_thought_ended():
    rig = Rig()
    rig.run(0.5)
    rig.arm()
    rig.vehicle.deaf = True  # neither the order nor its cancelOrder arrives, its states go on
    assert rig.master.go(DriveTo("t1", ROUTE), rig.now_s) == ""
    rig.run(0.1)
    assert rig.master.cancel(rig.now_s) == ""
    assert rig.run(3.0, lambda: rig.master.task.state is not TaskState.SENT)
    assert rig.master.task.state is TaskState.FAILED and "cancelOrder lost" in rig.troubles()["robot_mode:task"]
    assert len(rig.orders()) == 1


def test_a_position_that_is_no_number_is_refused_by_name():
    rig = Rig()
    rig.run(0.5)
    sent = len(rig.sent)
    for pose in ((float("nan"), 0.0, 0.0), (0.0, None, 0.0)):
        assert "pose=" in rig.master.initialise_position(Waypoint("n9", *pose, "hall"), rig.now_s)
    rig.run(0.2)
    assert len(rig.sent) == sent and rig.master.counts.get("unsendable", 0) == 0


def test_invalid_stale_and_retained_messages_are_counted_and_change_nothing():
    rig = Rig()
    rig.run(0.5)
    before = rig.master.state
    state = rig.vehicle.message("state", rig.vehicle.state()) | {"operatingMode": "MANUAL"}
    for payload, retained, wrong in [
        (b"{", False, "invalid"), (codec.encode("state", state, "2.1.0"), True, "retained"),
        (codec.encode("state", state | {"serialNumber": "other"}, "2.1.0"), False, "invalid"),
        (codec.encode("state", state, "2.1.0").replace(b'"2.1.0"', b'"1.1.0"'), False, "version_refused"),
    ]:
        count = rig.master.counts.get(wrong, 0)
        rig.master.receive("state", payload, retained, rig.now_s)
        assert rig.master.counts[wrong] == count + 1 and rig.master.state is before
    rig.master.receive("state", codec.encode("state", state, "2.1.0"), False, rig.now_s + 5.0)
    assert rig.master.freshness.counts["stale"] == 1 and rig.master.state is before
    assert not rig.master.held_up(rig.now_s + 0.1) and rig.master.held_up(rig.now_s + 6.0)
    rig.master.disconnected("only stale messages come")
    assert not rig.master.held_up(rig.now_s + 6.0)  # a connection that is being made is not ended again


@pytest.mark.parametrize("back, why", [(1, "reordered"), (0, "duplicate")])
def test_a_vehicle_whose_messages_are_no_news_for_long_gets_a_new_connection(back, why):
    rig = Rig()
    rig.run(1.0)
    newest = rig.vehicle.ids.take("state") - 1
    old = rig.vehicle.state() | rig.identity.header(newest - back, 1_700_000_000.0)
    rig.now_s += 6.0
    rig.master.receive("state", codec.encode("state", old, "2.1.0"), False, rig.now_s)
    assert rig.master.freshness.counts == {why: 1} and rig.master.held_up(rig.now_s)


def test_a_vehicle_that_goes_offline_or_is_lost_is_a_cause(rig):
    rig.driving()
    broken = {"2.1.0": "CONNECTIONBROKEN", "3.0.0": "CONNECTION_BROKEN"}[rig.version]
    will = rig.vehicle.message("connection", {"connectionState": broken})
    rig.master.receive("connection", codec.encode("connection", will, rig.version), False, rig.now_s)
    assert broken in rig.troubles()["robot_unreachable"]


@pytest.mark.parametrize("task, match", [
    (DriveTo("t", ROUTE[3:]), "from where the vehicle stands"), (DriveTo("t", ROUTE[:1]), "waypoints"),
    (DriveTo("", ROUTE), "task_id"), (DriveTo("t", ROUTE, float("nan")), "speed_m_s"),
    (DriveTo("t", (ROUTE[0], Waypoint("", 1.0, 0.0))), "name"), (Velocity(1.0, 0.0, 0.0), "driven by orders"),
])  # fmt: skip
def test_a_wrong_task_is_refused_by_field(task, match):
    rig = Rig()
    rig.run(0.5)
    rig.arm()
    assert match in rig.master.go(task, rig.now_s) and rig.orders() == []


@pytest.mark.parametrize("changes, match", [
    (dict(release_nodes=0), "release_nodes"), (dict(request_s=2.0), "request_s"),
    (dict(feedback_timeout_s=float("nan")), "feedback_timeout_s"), (dict(max_delay_s=True), "max_delay_s"),
])  # fmt: skip
def test_a_wrong_configuration_is_refused_by_name(changes, match):
    with pytest.raises(ConfigError, match=match):
        MasterConfig(messages.IDENTITY["2.1.0"], **changes)


@pytest.mark.parametrize("changes, match", [
    (dict(port=0), "port"), (dict(host=""), "host"), (dict(ca_file="x"), "tls"), (dict(password_file="x"), "user"),
    (dict(user=1234), "user=1234"), (dict(user="u", password_file=5), "password_file=5"),
    (dict(ca_file=None), "ca_file"),
])  # fmt: skip
def test_a_wrong_broker_is_refused_by_name(changes, match):
    with pytest.raises(ConfigError, match=match):
        BrokerConfig(**changes)
