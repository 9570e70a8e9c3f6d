"""Whatever a master sends in whatever order, the order book keeps its promises."""
from hypothesis import given, settings
from hypothesis import strategies as st

from steadyhand_sim.agv.order import read_order
from steadyhand_sim.agv.order_book import Answer, BookConfig, OrderBook, Situation
from steadyhand_sim.agv.refusals import Refusal
from steadyhand_sim.agv.site import Site
from tests.support.agv_orders import action, order

SITE = Site()
PLACES = [(-5 + 0.2 * i, 0) for i in range(12)]  # neighbours are within the start tolerance of one another

orders = st.builds(
    lambda order_id, update_id, first, count, released, kinds: order(
        PLACES[first : first + count], order_id=order_id, update_id=update_id, first=first, released=released,
        actions={0: [action(k, f"{order_id}{update_id}{first}{i}", b) for i, (k, b) in enumerate(kinds)]},
    ),
    st.sampled_from("ab"), st.integers(0, 4), st.integers(0, 5), st.integers(1, 5), st.integers(0, 5),
    st.lists(st.tuples(st.sampled_from(["pick", "waitForTrigger", "fly"]), st.sampled_from(["NONE", "SOFT", "HARD"])), max_size=2),
)  # fmt: skip
steps = st.lists(
    st.one_of(
        st.tuples(st.just("order"), orders), st.tuples(st.just("drive"), st.none()), st.tuples(st.just("cancel"), st.none()),
        st.tuples(st.just("mode"), st.sampled_from(["AUTOMATIC", "MANUAL"])), st.tuples(st.just("act"), st.none()),
    ),
    max_size=25,
)  # fmt: skip


def snapshot(book):
    return (
        book.order_id, book.update_id, tuple(book.nodes), tuple(book.edges), book.last_node_id, book.last_node_sequence_id,
        tuple((e.action.action_id, e.status) for e in book.queue.entries),
    )  # fmt: skip


def released_prefix(parts):
    flags = [p.released for p in parts]
    return flags == sorted(flags, reverse=True)


@settings(max_examples=150, deadline=None)
@given(steps)
def test_the_book_keeps_its_promises(sequence):
    book = OrderBook(BookConfig(("hall",), lambda a, b: SITE.passable(a, b, 0.3), SITE.find))
    mode = "AUTOMATIC"
    for what, value in sequence:
        before = snapshot(book)
        base = [n.node_id for n in book.nodes if n.released]
        if what == "order":
            where = next((p for i, p in enumerate(PLACES) if f"n{i}" == book.last_node_id), PLACES[0])
            read = read_order(value)
            if isinstance(read, Refusal):
                answer, refusal = Answer.REFUSED, read
            else:
                was_active, was = book.active, (book.order_id, book.update_id)
                answer, refusal = book.receive(read, Situation(*where, "hall", True, mode))
            assert (refusal is not None) == (answer is Answer.REFUSED)
            if answer in (Answer.REFUSED, Answer.REPEATED):
                assert snapshot(book) == before  # a message that is not taken changes nothing
            else:
                assert mode == "AUTOMATIC" and not any(a.action_type == "fly" for a in read.actions())
                assert (book.order_id, book.update_id) == (read.order_id, read.update_id)
                if answer is Answer.NEW:
                    assert not was_active
                else:
                    assert read.update_id > was[1] and [n.node_id for n in book.nodes if n.released][: len(base)] == base
        elif what == "drive" and book.legs() and book.queue.driving_allowed:
            leg = book.legs()[0]
            book.enter_edge()
            assert leg.node.released and leg.edge.released  # never beyond the base
            assert book.traverse() is leg.node
        elif what == "cancel":
            book.cancel("test")
            assert not book.active and not book.legs() and (book.order_id, book.update_id) == before[:2]
        elif what == "mode":
            mode = value
        elif what == "act":
            for entry in book.queue.step(0.5, False, True):
                entry.end("FINISHED")
        assert len(book.nodes) == len(book.edges) and released_prefix(book.nodes) and released_prefix(book.edges)
        for edge, node in zip(book.edges, book.nodes):
            assert edge.sequence_id + 1 == node.sequence_id
        exclusive = [e for e in book.queue.under_way if e.action.alone]
        assert not exclusive or len(book.queue.under_way) == 1


@settings(max_examples=200, deadline=None)
@given(st.recursive(st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
                    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
                    max_leaves=6))  # fmt: skip
def test_parameters_of_any_type_are_refused_or_taken_never_a_crash(value):
    from steadyhand_sim.agv.actions import known
    from steadyhand_sim.agv.order import Action

    for name in ("initPosition", "pick", "cancelOrder", "waitForTrigger"):
        for key in ("x", "weight", "orderId", "triggerType"):
            assert isinstance(known(Action("a", name, "NONE", {key: value}), "INSTANT"), str)
