"""Base of the lifecycle nodes: configure checks and builds, activate opens, deactivate closes.

A wrong parameter or a missing file fails `configure` with the reason in the log and on /diagnostics; the node stays
unconfigured and alive, so that the reason can be read and mended. What `build` made is gone after a failure, an error or
`cleanup`: a second subscription would hand every command on twice.
"""
from __future__ import annotations

import os
import signal
import sys
import threading
import traceback

import rclpy
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.experimental import EventsExecutor
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn

from steadyhand.errors import SteadyhandError
from steadyhand_ros import qos
from steadyhand_ros.background import Background
from steadyhand_ros.clock_watch import watch
from steadyhand_ros.parameter_service import ParameterService
from steadyhand_ros.steady_timers import SteadyTimers

OK, WARN, ERROR, STALE = (
    DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR, DiagnosticStatus.STALE,
)


class SteadyhandNode(SteadyTimers, LifecycleNode):
    """Subclasses override `build`, `open`, `close` and `tear_down`, and may override `diagnostics`."""

    def __init__(self, name: str):
        super().__init__(name, start_parameter_services=False)
        self._parameter_service = ParameterService(self)
        self.active = False
        self._diagnostics_pub = self.create_publisher(DiagnosticArray, "/diagnostics", qos.EVENTS)
        self._failure = ""
        self.create_timer(1.0, self._publish_diagnostics)
        self._permanent = {id(entity) for entity, _ in self._entities_now()}

    # -- for subclasses -------------------------------------------------------------------------------------------
    def build(self) -> None:
        """Check parameters, load files, create publishers. Raise SteadyhandError to refuse."""

    def open(self) -> None:
        """Start producing output."""

    def close(self) -> None:
        """Stop producing output."""

    def tear_down(self) -> None:
        """Release what `build` made."""

    def diagnostics(self) -> tuple[bytes, str, dict[str, object]]:
        """(level, message, values) of this node, called once a second."""
        return (OK, "active", {}) if self.active else (WARN, "inactive", {})

    # -- lifecycle ------------------------------------------------------------------------------------------------
    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        result = self._transition("configure", self.build)
        if result is TransitionCallbackReturn.FAILURE:
            self._release()
        return result

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        result = super().on_activate(state)
        if result is TransitionCallbackReturn.SUCCESS:
            result = self._transition("activate", self.open)
        self.active = result is TransitionCallbackReturn.SUCCESS
        return result

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        self.active = False
        self._transition("deactivate", self.close)
        return super().on_deactivate(state)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        return self._transition("clean up", self._release)

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        self.active = False
        self.close()
        return self._transition("shut down", self._release)

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        self.active = False
        self.close()
        self._release()
        return TransitionCallbackReturn.SUCCESS

    def _release(self) -> None:
        self.tear_down()
        for entity, destroy in self._entities_now():
            if id(entity) not in self._permanent:
                destroy(entity)

    def _entities_now(self) -> list[tuple]:
        """What stands in the graph for this node, each with what removes it."""
        kinds = (
            (self.publishers, self.destroy_publisher), (self.subscriptions, self.destroy_subscription),
            (self.services, self.destroy_service), (self.timers, self.destroy_timer),
        )
        return [(entity, destroy) for entities, destroy in kinds for entity in entities]

    def _transition(self, verb: str, action) -> TransitionCallbackReturn:
        try:
            action()
        except SteadyhandError as error:
            self._failure = f"cannot {verb}: {error}"
            self.get_logger().error(self._failure)
            return TransitionCallbackReturn.FAILURE
        except Exception as error:  # rclpy would say nothing of it
            self._failure = f"cannot {verb}: {type(error).__name__}: {error}"
            self.get_logger().error(f"{self._failure}\n{traceback.format_exc()}")
            return TransitionCallbackReturn.ERROR
        self._failure = ""
        return TransitionCallbackReturn.SUCCESS

    def _publish_diagnostics(self) -> None:
        level, message, values = (ERROR, self._failure, {}) if self._failure else self.diagnostics()
        status = DiagnosticStatus(
            level=level, name=f"{self.get_fully_qualified_name()}", message=message, hardware_id="steadyhand",
            values=[KeyValue(key=str(k), value=str(v)) for k, v in values.items()],
        )
        array = DiagnosticArray(status=[status])
        array.header.stamp = self.get_clock().now().to_msg()
        self._diagnostics_pub.publish(array)


def request_realtime(priority: int) -> str:
    """Ask for SCHED_FIFO for this process and every thread it will start; returns the scheduler that it got.

    For the processes whose silence stops the arm: their threads must run on time on a busy machine. Call it before
    rclpy starts its threads, which inherit it.
    """
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
    except (PermissionError, AttributeError):
        return "SCHED_OTHER"
    return "SCHED_FIFO"


def run(node_class, args=None, coroutines: bool = False) -> int:
    """Main of every node: spin until SIGINT or SIGTERM, then shut down in order.

    EventsExecutor by `spin_once`: the lowest and steadiest latency measured with these wheels; its `spin()` delivers
    nothing there. A callback that awaits makes it run round at full speed until the future is done (200,000 turns in
    2 s); nodes that have such callbacks say `coroutines` and get the SingleThreadedExecutor, which sleeps. Both
    exceptions can go when rclpy mends them.

    An exception in a callback or in any thread ends the process: a node that lost a thread would look alive.
    """
    rclpy.init(args=args if args is not None else sys.argv, signal_handler_options=rclpy.SignalHandlerOptions.NO)
    stopping = failed = False

    def stop(signum, frame):
        nonlocal stopping
        stopping = True

    def thread_failed(what):
        nonlocal stopping, failed
        try:
            threading.__excepthook__(what)  # the traceback, whole: the process ends as soon as `stopping` is seen
        finally:  # also when the disk behind stderr is full
            stopping = failed = True

    threading.excepthook = thread_failed
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    executor = SingleThreadedExecutor() if coroutines else EventsExecutor()
    try:
        node = node_class()
    except SteadyhandError as error:  # a node that is built at once, with a wrong parameter
        print(f"{sys.argv[0]}: {error}", file=sys.stderr)
        rclpy.try_shutdown()
        return 2
    executor.add_node(node)
    clock_watch = Background("clock", watch(node, executor))
    try:
        while rclpy.ok() and not stopping:
            executor.spin_once(timeout_sec=0.2)
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    finally:
        clock_watch.close()
        node.close()
        node.tear_down()
        executor.remove_node(node)
        node.destroy_node()
        rclpy.try_shutdown()
    return 1 if failed else 0
