"""Detections and robot state in, tracked objects and their trust out. A thin shell of `steadyhand.estimator`."""
from __future__ import annotations

import time

from steadyhand_interfaces import msg

from steadyhand import faults
from steadyhand.errors import ProtocolError
from steadyhand.estimator import Estimator, EstimatorConfig
from steadyhand.types import EstimateMode
from steadyhand_ros import conversions, qos
from steadyhand_ros.fault_publisher import FaultPublisher
from steadyhand_ros.node import ERROR, OK, WARN, SteadyhandNode, run
from steadyhand_ros.params import declare

HEARTBEAT = "estimator"  # input name that the guard requires for AUTO
PERIOD_S = 0.05


class EstimatorNode(SteadyhandNode):
    """Publishes with every image, and at 20 Hz without: silence of the camera must be told, not inferred."""

    def __init__(self):
        super().__init__("estimator_node")
        self._estimator: Estimator | None = None
        self._malformed = 0

    def build(self) -> None:
        self._estimator = Estimator(declare(self, EstimatorConfig))
        self._estimate_pub = self.create_publisher(msg.StateEstimate, "state_estimate", qos.NEWEST)
        self._heartbeat_pub = self.create_publisher(msg.InputHeartbeat, "input_heartbeat", qos.EVENTS)
        self._faults = FaultPublisher(self)
        self._entities = [
            self.create_subscription(msg.ObjectPoses, "perception/objects", self._on_objects, qos.NEWEST),
            self.create_subscription(msg.SafetyState, "safety_state", self._on_state, qos.NEWEST),
            self.create_timer(PERIOD_S, self._publish),
        ]

    def _on_state(self, m: msg.SafetyState) -> None:
        try:
            self._estimator.on_robot(conversions.robot_state(m))
        except ProtocolError:
            self._malformed += 1

    def _on_objects(self, m: msg.ObjectPoses) -> None:
        if not self.active:
            return
        try:
            seen = conversions.detections(m)
        except ProtocolError:
            self._malformed += 1
            return
        age_s = self.get_clock().now().nanoseconds * 1e-9 - seen.stamp_s
        self._estimator.on_detections(seen, time.monotonic(), max(age_s, 0.0))
        self._publish()

    def _publish(self) -> None:
        if not self.active:
            return
        now_s = time.monotonic()
        estimate = self._estimator.estimate(now_s)
        self._estimate_pub.publish(conversions.state_estimate_msg(estimate))
        well = estimate.mode is not EstimateMode.LOST
        self._heartbeat_pub.publish(msg.InputHeartbeat(name=HEARTBEAT, ok=well, detail=estimate.reason))
        found = self._estimator.take_faults()
        if estimate.mode is EstimateMode.DEGRADED:
            found.append(faults.fault("estimate_degraded", now_s, estimate.reason))
        elif estimate.mode is EstimateMode.LOST:
            found.append(faults.fault("perception_lost", now_s, estimate.reason))
        self._faults.publish(found, now_s)

    def diagnostics(self):
        if not self.active:
            return WARN, "inactive", {}
        estimate = self._estimator.estimate(time.monotonic())
        values = {
            "mode": estimate.mode.name, "image_age_s": round(estimate.image_age_s, 3), "objects": len(estimate.objects),
            "median_delay_ms": round(self._estimator.median_delay_s * 1e3, 1), "malformed": self._malformed,
            **self._estimator.counters,
        }
        level = {EstimateMode.NOMINAL: OK, EstimateMode.DEGRADED: WARN, EstimateMode.LOST: ERROR}[estimate.mode]
        return level, estimate.reason or "tracking", values


def main() -> int:
    return run(EstimatorNode)


if __name__ == "__main__":
    raise SystemExit(main())
