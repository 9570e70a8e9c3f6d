"""The vehicle's order book: what it takes and refuses, question by question of the standard's flow chart."""
import math

import pytest

from steadyhand_sim.agv.order import Order, read_order
from steadyhand_sim.agv.order_book import Answer, BookConfig, OrderBook, Situation
from steadyhand_sim.agv.refusals import Kind, Refusal
from steadyhand_sim.agv.site import Site
from tests.support.agv_orders import action, order

SITE = Site()
HERE = Situation(-5.0, 0.0, "hall", True)
LINE = [(-5, 0), (-4, 0), (-3, 0), (-2, 0)]


def a_book():
    return OrderBook(BookConfig(("hall",), lambda a, b: SITE.passable(a, b, 0.3), SITE.find, height_m=0.65))


def give(book, message, where=HERE):
    read = read_order(message)
    return (Answer.REFUSED, read) if isinstance(read, Refusal) else book.receive(read, where)


def kind(book, message, where=HERE):
    """Kind of the refusal; the book must not have changed."""
    before = (book.order_id, book.update_id, list(book.nodes), list(book.edges), book.last_node_id, len(book.queue.entries))
    answer, refusal = give(book, message, where)
    assert answer is Answer.REFUSED
    after = (book.order_id, book.update_id, list(book.nodes), list(book.edges), book.last_node_id, len(book.queue.entries))
    assert before == after
    assert refusal.text and ("orderId", message["orderId"]) in refusal.references
    return refusal.kind


def test_a_new_order_is_taken_and_its_first_node_is_traversed():
    book = a_book()
    assert give(book, order(LINE, released=2)) == (Answer.NEW, None)
    assert (book.order_id, book.update_id, book.last_node_id) == ("order", 0, "n0")
    assert [n.node_id for n in book.nodes] == ["n1", "n2", "n3"] and book.base_left == 1 and len(book.legs()) == 1


def test_the_same_message_again_is_ignored_and_another_content_is_refused():
    book = a_book()
    give(book, order(LINE, released=2))
    assert give(book, order(LINE, released=2) | {"headerId": 7}) == (Answer.REPEATED, None)
    assert kind(book, order(LINE, released=3)) is Kind.SAME_UPDATE


def test_an_update_is_stitched_at_the_bases_end_and_replaces_the_horizon():
    book = a_book()
    give(book, order(LINE, released=2, actions={3: [action("pick", "old")]}))
    update = order([(-4, 0), (-4, 1), (-4, 2)], update_id=4, first=1, released=2, actions={1: [action("pick", "new")]})
    assert give(book, update) == (Answer.UPDATED, None)
    assert [(n.node_id, n.released) for n in book.nodes] == [("n1", True), ("n2", True), ("n3", False)]
    assert [e.edge_id for e in book.edges] == ["e0", "e1", "e2"]
    assert [e.action.action_id for e in book.queue.entries] == ["new"]
    legs = book.legs()
    assert (legs[1].start.y_m, legs[1].place.y_m) == (0, 1) and legs[-1].stop and legs[0].stop is False


def test_the_stitching_node_keeps_what_it_was_sent_with():
    book = a_book()
    give(book, order(LINE[:2]))
    give(book, order([(-4, 0.5), (-3, 0.0)], update_id=1, first=1))
    assert book.legs()[0].place.y_m == 0.0


def test_the_way_of_an_update_is_judged_from_where_the_stitching_node_is_not_from_where_the_update_says_it_is():
    book = a_book()
    give(book, order([(-5, 0), (-2, 0)]))
    assert kind(book, order([(2, 2), (2, 0)], update_id=1, first=1)) is Kind.NO_ROUTE  # from (-2, 0): through the table
    update = order([(0, 0), (-2, 3)], update_id=1, first=1)
    del update["nodes"][0]["nodePosition"]  # not on the map, but known from the order
    assert give(book, update)[0] is Answer.UPDATED


def test_the_straight_way_from_beside_the_first_node_must_be_free_too():
    message = order([(-2, -2), (2, -2)])
    message["nodes"][0]["nodePosition"]["allowedDeviationXY"] = 3.0
    assert kind(a_book(), message, Situation(-2.0, 0.0, "hall", True)) is Kind.NO_ROUTE  # through the table
    assert give(a_book(), message, Situation(-2.0, -1.8, "hall", True))[0] is Answer.NEW


def test_an_update_of_an_order_that_is_being_cancelled_is_refused():
    book = a_book()
    give(book, order(LINE, released=2))
    cancelling = Situation(-4.5, 0.0, "hall", True, cancelling=True)
    assert kind(book, order(LINE[1:], update_id=1, first=1), cancelling) is Kind.UPDATE_AFTER_CANCEL


def test_an_order_that_is_continued_without_end_stays_bounded():
    book = a_book()
    give(book, order([(-5, 0), (-4, 0)], actions={1: [action("pick", "p0")]}))
    for k in range(1, 600):
        for entry in book.queue.entries:
            entry.end("FINISHED")
        book.traverse()
        points = [(-5 + k % 2, 0), (-5 + (k + 1) % 2, 0)]
        update = order(points, update_id=k, first=k, actions={1: [action("pick", f"p{k}")]})
        assert give(book, update)[0] is Answer.UPDATED
    assert len(book.queue.entries) == book.config.max_action_states and len(book._places) <= 2
    assert book.queue.entries[-1].action.action_id == "p599" and not book.queue.all_over


@pytest.mark.parametrize(("count", "kinds"), [(100, 0), (3, 60)])
def test_what_waits_is_bounded_too(count, kinds):
    """Updates upon updates without driving: refused, not kept."""
    book, last, answers = a_book(), 0, set()
    give(book, order([(-5, 0)]))
    for k in range(1, 12):
        acts = {1: [action("pick", f"{k}-{i}") for i in range(kinds)]}
        points = [(-5 + (last + i) % 2, 0) for i in range(count)]
        answer, refusal = give(book, order(points, update_id=k, first=last, actions=acts))
        answers.add(refusal and refusal.kind)
        last += 0 if refusal else count - 1
    assert answers == {None, Kind.UNSUPPORTED}
    assert len(book.nodes) <= 256 and len(book.queue.entries) <= 256


def test_a_completed_order_can_be_continued():
    book = a_book()
    give(book, order(LINE[:2]))
    book.traverse()
    assert not book.active
    assert give(book, order(LINE[1:3], update_id=1, first=1)) == (Answer.UPDATED, None)
    assert book.active and book.last_node_id == "n1"


def test_updates_that_do_not_fit_are_refused():
    book = a_book()
    give(book, order(LINE, update_id=5, released=2))
    assert kind(book, order(LINE, update_id=4, released=2)) is Kind.OUTDATED_UPDATE
    assert kind(book, order(LINE[2:], update_id=6, first=2)) is Kind.NO_CONTINUATION
    assert kind(book, order(LINE[1:], update_id=6, first=2)) is Kind.NO_CONTINUATION  # node n2 at the place of n1
    book.cancel("test")
    assert kind(book, order(LINE[1:], update_id=6, first=1)) is Kind.UPDATE_AFTER_CANCEL


def test_another_order_waits_for_the_end_of_the_active_one():
    book = a_book()
    give(book, order(LINE, released=1))  # only a horizon is left: it waits for an update
    assert kind(book, order(LINE, order_id="other")) is Kind.OTHER_ORDER
    book.cancel("test")
    assert give(book, order(LINE, order_id="other"))[0] is Answer.NEW


def test_a_running_action_keeps_the_order_active():
    book = a_book()
    give(book, order(LINE[:1], actions={0: [action("waitForTrigger", "w")]}))
    book.queue.step(0.1, False, True)
    assert kind(book, order(LINE, order_id="other")) is Kind.OTHER_ORDER


@pytest.mark.parametrize(
    ("where", "wanted"),
    [
        (Situation(-5.0, 0.29, "hall", True), None),
        (Situation(-5.0, 0.31, "hall", True), Kind.START_TOO_FAR),
        (Situation(-5.0, 0.0, "cellar", True), Kind.START_TOO_FAR),
        (Situation(-5.0, 0.0, "hall", False), Kind.NOT_AVAILABLE),
        (Situation(-5.0, 0.0, "hall", True, "MANUAL"), Kind.NOT_AVAILABLE),
        (Situation(-5.0, 0.0, "hall", True, "SEMIAUTOMATIC"), None),
    ],
)
def test_where_the_vehicle_is_decides_on_a_new_order(where, wanted):
    if wanted is None:
        assert give(a_book(), order(LINE), where)[0] is Answer.NEW
    else:
        assert kind(a_book(), order(LINE), where) is wanted


def test_a_first_node_with_a_wide_deviation_is_near_enough():
    message = order(LINE)
    message["nodes"][0]["nodePosition"]["allowedDeviationXY"] = 2.0
    assert give(a_book(), message, Situation(-5.0, 1.5, "hall", True))[0] is Answer.NEW
    message["nodes"][0]["nodePosition"]["allowedDeviationXY"] = {"a": 2.0, "b": 1.0, "theta": 0.0}  # 3.0: an ellipse
    assert kind(a_book(), message, Situation(-5.0, 1.5, "hall", True)) is Kind.START_TOO_FAR


@pytest.mark.parametrize(
    ("change", "wanted", "names"),
    [
        (lambda m: m["nodes"][2]["nodePosition"].update(mapId="cellar"), Kind.UNKNOWN_MAP, "n2"),
        (lambda m: m["nodes"][2].pop("nodePosition"), Kind.NO_ROUTE, "n2"),
        (lambda m: m["nodes"][3]["nodePosition"].update(x=0.3), Kind.NO_ROUTE, "n3"),  # in the table
        (lambda m: m["nodes"][3]["nodePosition"].update(x=99.0), Kind.NO_ROUTE, "n3"),
        (lambda m: m["edges"][0].update(maxHeight=0.5), Kind.UNSUPPORTED, "e0"),
        (lambda m: m["edges"][1].update(trajectory={}), Kind.UNSUPPORTED, "e1"),
        (lambda m: m["edges"][1].update(orientation=1.0), Kind.UNSUPPORTED, "e1"),
        (lambda m: m["edges"][1].update(maxSpeed=0.0), Kind.MALFORMED, "e1"),
        (lambda m: m["nodes"][1].update(actions=[action("fly", "a")]), Kind.ORDER_ACTION, "n1"),
        (lambda m: m["nodes"][1].update(actions=[action("cancelOrder", "a")]), Kind.ORDER_ACTION, "n1"),
        (lambda m: m["nodes"][1].update(actions=[action("pick", "a", weight="much")]), Kind.ORDER_ACTION, "n1"),
        (lambda m: m["nodes"][1].update(actions=[action("pick", "a", weight=-1.0)]), Kind.ORDER_ACTION, "n1"),
        (lambda m: m["nodes"][1].update(actions=[action("pick", "a", weight=1e300)]), Kind.ORDER_ACTION, "n1"),
        (lambda m: m["edges"][1].update(actions=[action("pick", "a")]), Kind.ORDER_ACTION, "e1"),
        (lambda m: m["nodes"][1].update(sequenceId=3), Kind.MALFORMED, "n1"),
        (lambda m: m["edges"][0].update(sequenceId=3), Kind.MALFORMED, "e0"),
        (lambda m: m["edges"][0].update(endNodeId="n7"), Kind.MALFORMED, "e0"),
        (lambda m: m["nodes"][1].update(released=False), Kind.MALFORMED, "e0"),
        (lambda m: m["edges"][0].update(released=False), Kind.MALFORMED, "n1"),
        (lambda m: m["edges"].pop(), Kind.MALFORMED, "order"),
        (lambda m: m.update(nodes=[], edges=[]), Kind.MALFORMED, "order"),
        (lambda m: m.update(orderId=""), Kind.MALFORMED, ""),
        (lambda m: [e.update(sequenceId=e["sequenceId"] + 1) for e in m["nodes"] + m["edges"]], Kind.MALFORMED, "n0"),
        (lambda m: [e.update(released=False) for e in m["nodes"] + m["edges"]], Kind.MALFORMED, "n0"),
        (lambda m: m["edges"][1].update(orientation=0.0, orientationType="GLOBAL"), Kind.UNSUPPORTED, "e1"),
        (lambda m: m["edges"][1].update(maxRotationSpeed=-1.0), Kind.MALFORMED, "e1"),
        (lambda m: m["nodes"][1].update(actions=[action("drop", f"a{k}") for k in range(65)]), Kind.UNSUPPORTED, "order"),
        (lambda m: m["nodes"][3]["nodePosition"].update(x=5.8), Kind.NO_ROUTE, "n3"),  # half of it in the wall
    ],
)
def test_orders_that_cannot_be_carried_out_are_refused_whole(change, wanted, names):
    message = order(LINE)
    change(message)
    answer, refusal = give(a_book(), message)
    assert answer is Answer.REFUSED and refusal.kind is wanted
    assert names in [value for _, value in refusal.references]
    assert kind(a_book(), message) is wanted


def test_an_order_of_too_many_nodes_is_refused():
    assert kind(a_book(), order([(-5 + k % 2, 0) for k in range(257)])) is Kind.UNSUPPORTED


def test_an_action_id_is_used_once():
    message = order(LINE, actions={1: [action("pick", "a")], 2: [action("drop", "a")]})
    assert kind(a_book(), message) is Kind.MALFORMED
    book = a_book()
    give(book, order(LINE[:3], actions={0: [action("pick", "a")]}))
    assert kind(book, order(LINE[2:], update_id=1, first=2, actions={1: [action("drop", "a")]})) is Kind.MALFORMED
    book = a_book()
    give(book, order(LINE[:3], actions={2: [action("pick", "end")]}))  # on the node that the update is stitched to
    assert kind(book, order(LINE[2:], update_id=1, first=2, actions={1: [action("drop", "end")]})) is Kind.MALFORMED


@pytest.mark.parametrize(("version", "name"), [("2.1.0", "noRouteError"), ("3.0.0", "START_NODE_OUT_OF_RANGE")])
def test_a_refusal_has_the_names_of_its_version(version, name):
    refusal = give(a_book(), order(LINE), Situation(0.0, -3.0, "hall", True))[1]
    message = refusal.message(version)
    assert message["errorType"] == name and message["errorLevel"] == "WARNING"
    assert {"referenceKey": "orderId", "referenceValue": "order"} in message["errorReferences"]


def test_blocking_types_decide_what_runs_and_whether_it_drives():
    book = a_book()
    acts = [action("waitForTrigger", "a", "NONE"), action("pick", "b", "NONE"), action("drop", "c", "HARD")]
    give(book, order(LINE, actions={0: acts}))
    queue = book.queue
    queue.step(0.1, False, True)
    assert [e.status for e in queue.entries] == ["RUNNING", "RUNNING", "WAITING"] and not queue.driving_allowed
    queue.step(0.1, True, True)
    assert [e.status for e in queue.entries] == ["PAUSED", "PAUSED", "WAITING"]
    for entry in queue.entries[:2]:
        entry.end("FINISHED")
    queue.step(0.1, False, False)
    assert queue.entries[2].status == "WAITING"  # the vehicle must stand first
    queue.step(0.1, False, True)
    assert queue.entries[2].status == "RUNNING"
    queue.entries[2].end("FAILED")
    queue.step(0.1, False, True)
    assert queue.driving_allowed


def test_an_edges_actions_end_with_it_and_cancelling_fails_what_is_left():
    book = a_book()
    message = order(LINE, actions={2: [action("pick", "p")]})
    give(book, message)
    book.enter_edge()
    book.traverse()
    assert book.queue.driving_allowed
    book.traverse()
    assert not book.queue.driving_allowed
    book.cancel("by a test")
    assert [(e.status, e.text) for e in book.queue.entries] == [("FAILED", "by a test")] and not book.active
    assert (book.order_id, book.last_node_id) == ("order", "n2")


def test_positions_may_be_left_to_the_map():
    message = order([(-5, 0), (-0.66, -2.0), (-0.66, 0.0)])
    for entry, name in zip(message["nodes"], ("home", "dock_entry", "dock_arm")):
        del entry["nodePosition"]
        entry["nodeId"] = name
    for e, (a, b) in zip(message["edges"], (("home", "dock_entry"), ("dock_entry", "dock_arm"))):
        e.update(startNodeId=a, endNodeId=b)
    book = a_book()
    assert give(book, message)[0] is Answer.NEW
    assert book.legs()[-1].place.theta_rad == pytest.approx(math.pi / 2)
    assert isinstance(read_order(message), Order)
