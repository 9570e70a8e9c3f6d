"""That the machine's clock was set is seen, and timers wait anew."""
from types import SimpleNamespace

import pytest

pytest.importorskip("rclpy")
from rclpy.context import Context  # noqa: E402
from rclpy.experimental import EventsExecutor  # noqa: E402
from rclpy.node import Node  # noqa: E402

import rclpy  # noqa: E402
from steadyhand_ros import clock_watch  # noqa: E402
from steadyhand_ros.clock_watch import LOOK_S, ClockSteps  # noqa: E402

pytestmark = pytest.mark.ros
WALL_S = 1.8e9


@pytest.mark.parametrize("step_s", [-5.0, 5.0, 3600.0, -0.02])
def test_a_step_is_seen_once_and_by_its_size(step_s):
    steps = ClockSteps(WALL_S, 100.0)
    assert steps.look(WALL_S + LOOK_S, 100.0 + LOOK_S) == 0.0
    assert steps.look(WALL_S + 2 * LOOK_S + step_s, 100.0 + 2 * LOOK_S) == pytest.approx(step_s, abs=1e-5)
    assert steps.look(WALL_S + 3 * LOOK_S + step_s, 100.0 + 3 * LOOK_S) == 0.0 and steps.seen == 1


def test_a_clock_that_is_slewed_is_not_set():
    steps, fast = ClockSteps(WALL_S, 100.0), 1 + 5e-4  # as fast as the kernel slews
    assert all(steps.look(WALL_S + fast * k, 100.0 + k) == 0.0 for k in (1, 2, 3, 4)) and steps.seen == 0


@pytest.mark.parametrize(("step_s", "woken"), [(-5.0, 1), (5.0, 0), (0.0, 0)])
def test_what_waits_is_woken_once_when_the_clock_was_set_back(step_s, woken, monkeypatch):
    looks, calls = iter(range(100)), []
    monkeypatch.setattr(clock_watch.time, "monotonic", lambda: 0.0)
    monkeypatch.setattr(clock_watch.time, "time", lambda: WALL_S + (step_s if next(looks) > 3 else 0.0))
    monkeypatch.setattr(clock_watch, "wake", lambda *who: calls.append(who))
    logger = SimpleNamespace(warning=lambda text: calls.append(text))
    watched = SimpleNamespace(get_logger=lambda: logger)
    clock_watch.watch(watched, "executor")(SimpleNamespace(wait=lambda _: next(looks) > 12))
    assert calls.count((watched, "executor")) == woken and len(calls) == woken + bool(step_s)


@pytest.fixture
def node():
    context = Context()
    rclpy.init(args=[], context=context)
    node = Node("watched", context=context, start_parameter_services=False)
    yield node
    node.destroy_node()
    rclpy.try_shutdown(context=context)


def test_timers_wait_anew_and_a_destroyed_one_does_no_harm(node, monkeypatch):
    executor = EventsExecutor(context=node.context)
    executor.add_node(node)
    gone, kept = node.create_timer(100.0, lambda: None), node.create_timer(100.0, lambda: None)
    while kept.time_until_next_call() > 99_800_000_000:
        pass
    monkeypatch.setattr(type(node), "timers", property(lambda _: iter([gone, kept])))
    gone.destroy()
    clock_watch.wake(node, executor)
    assert kept.time_until_next_call() > 99_800_000_000
    executor.remove_node(node)
