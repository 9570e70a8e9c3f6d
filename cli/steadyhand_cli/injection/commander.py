"""A command source of its own process: keeps an armed arm in steady motion over DDS, as the agent streams a policy.

`python -m steadyhand_cli.injection.commander`: base and last wrist at `SPEED_RAD_S`, towards the middle of the cell
from wherever the last stop left them, 20 chunks a second that answer the newest state. SIGUSR1: says nothing more (a
live process with nothing to say, whose beats go on), SIGUSR2: speaks again.
"""
from __future__ import annotations

import signal
import sys

import numpy as np
from rclpy.node import Node
from steadyhand_interfaces.msg import InputHeartbeat, JointChunk, SafetyState

from steadyhand import cell, ur5
from steadyhand_ros import qos
from steadyhand_ros.node import request_realtime, run
from steadyhand_ros.steady_timers import SteadyTimers

SPEED_RAD_S, ACCELERATION_RAD_S2 = 0.4, 2.0
JOINTS = (0, 5)
REACH_RAD = 0.45  # from home: further out it slows down and stands
PERIOD_S, WAYPOINTS = 0.05, 8
BEAT_S, INPUT = 0.02, "agent"  # it stands for the agent
PRIORITY = 10  # as the agent's


def waypoints(q_rad: np.ndarray, qd_rad_s: np.ndarray, way: float) -> np.ndarray:
    """(8, 6) way-points from a commanded state (6,): JOINTS reach their speed in the direction `way`, or 0."""
    q, qd = np.array(q_rad, dtype=float), np.array(qd_rad_s, dtype=float)
    wanted, points = np.zeros(ur5.DOF), []
    for _ in range(WAYPOINTS):
        inside = way * (q[0] - cell.HOME_Q_RAD[0]) < REACH_RAD
        wanted[list(JOINTS)] = way * SPEED_RAD_S if inside else 0.0
        faster = qd + np.clip(wanted - qd, -ACCELERATION_RAD_S2 * PERIOD_S, ACCELERATION_RAD_S2 * PERIOD_S)
        q, qd = q + PERIOD_S * (qd + faster) / 2, faster
        points.append(q)
    return np.array(points)


class Commander(SteadyTimers, Node):
    """Speaks as soon as it is there; `close` and `tear_down` are what `node.run` calls."""

    def __init__(self) -> None:
        super().__init__("commander")
        self._state: SafetyState | None = None
        self._token, self._way, self._count, self.silent = 0, 1.0, 0, False
        self._pub = self.create_publisher(JointChunk, "joint_chunk", qos.COMMAND)
        self.create_subscription(SafetyState, "safety_state", self._on_state, qos.NEWEST)
        self._beats = self.create_publisher(InputHeartbeat, "input_heartbeat", qos.EVENTS)
        self.create_timer(PERIOD_S, self._send)
        self.create_timer(BEAT_S, lambda: self._beats.publish(InputHeartbeat(name=INPUT, ok=True)))
        signal.signal(signal.SIGUSR1, lambda *_: setattr(self, "silent", True))
        signal.signal(signal.SIGUSR2, lambda *_: setattr(self, "silent", False))

    def close(self) -> None:
        """The arm comes to rest by the plan's own end, or sooner by the guard's watchdog."""

    def tear_down(self) -> None:
        """Nothing of its own."""

    def _on_state(self, state: SafetyState) -> None:
        self._state = state

    def _send(self) -> None:
        s = self._state
        if self.silent or s is None or s.mode != SafetyState.ARMED_AUTO:
            return
        if s.token != self._token:  # a new arming: away from where it stands
            self._token, self._way = s.token, -1.0 if s.q_commanded[0] > cell.HOME_Q_RAD[0] else 1.0
        self._count += 1
        q = waypoints(s.q_commanded, s.qd_commanded, self._way)
        self._pub.publish(JointChunk(
            token=s.token, seq=s.seq, guard_stamp=s.guard_stamp, trace_id=f"c{self._count}", source="policy",
            joint_names=list(ur5.JOINT_NAMES), period=PERIOD_S, q=q.ravel().tolist(),
        ))  # fmt: skip


if __name__ == "__main__":
    request_realtime(PRIORITY)
    sys.exit(run(Commander))
