"""ROS shell of manual jogging: twists, joint velocities and a gamepad in, joint chunks out; interventions recorded.

It commands through guard_node, in a manual arming that the operator has asked for (`steadyhand rearm --mode manual`).
It decides nothing: `steadyhand.jog` makes the chunks, the guard judges them.
"""
from __future__ import annotations

import secrets
import time
from dataclasses import dataclass

from geometry_msgs.msg import TwistStamped
from sensor_msgs.msg import JointState, Joy
from std_msgs.msg import String
from steadyhand_interfaces import msg

from steadyhand import cell, ur5
from steadyhand.config import check_ranges, described
from steadyhand.errors import ProtocolError
from steadyhand.intervention import Recorder
from steadyhand.jog import MODES, Jog, JogCommand, JogConfig, JogRefused
from steadyhand.joy import Arbiter, JoyConfig, JoyMap, JoyReading
from steadyhand.slot import current_slot
from steadyhand.types import Estimate, RobotState
from steadyhand_firmware_bridge import storage
from steadyhand_firmware_bridge.recording import InterventionWriter
from steadyhand_firmware_bridge.storage import Store
from steadyhand_ros import conversions, qos
from steadyhand_ros.node import OK, WARN, SteadyhandNode, request_realtime, run
from steadyhand_ros.params import declare

REALTIME_PRIORITY = 5  # its silence of 100 ms stops a moving arm
ESTIMATE_KEPT_S = 0.5  # an older observation is not written beside a motion


@dataclass(frozen=True)
class TeleopNodeConfig:
    """Recording, and how late a stamped command may be."""

    record: bool = described(True, "write interventions to out/interventions")
    stamp_tolerance_s: float = described(0.1, "age at which a stamped command is refused", "s", 0.01, 1.0)

    def __post_init__(self) -> None:
        check_ranges(self)


class TeleopNode(SteadyhandNode):
    """See the module."""

    def __init__(self):
        super().__init__("teleop_node")
        self._writer: InterventionWriter | None = None
        self._state: RobotState | None = None
        self._estimate: Estimate | None = None
        self._estimate_s = float("-inf")
        self._status = ""
        self._counts = {"commands": 0, "refused": 0, "late": 0, "chunks": 0, "chunks_refused": 0, "malformed": 0}

    def build(self) -> None:
        self.config, self._storage = declare(self, TeleopNodeConfig), storage.load()
        speeds = declare(self, JogConfig, "jog")
        self._jog = Jog(f"jog-{secrets.token_hex(3)}", speeds)
        self._joy, self._arbiter = JoyMap(declare(self, JoyConfig, "joy"), speeds), Arbiter(speeds.timeout_s)
        self._recorder = Recorder()
        self._chunk_pub = self.create_publisher(msg.JointChunk, "joint_chunk", qos.COMMAND)
        self._gripper_pub = self.create_publisher(msg.GripperCommand, "gripper_command", qos.COMMAND)
        self._stop_pub = self.create_publisher(String, "operator_stop", qos.COMMAND)
        self._entities = [
            self.create_subscription(msg.SafetyState, "safety_state", self._on_state, qos.NEWEST),
            self.create_subscription(msg.StateEstimate, "state_estimate", self._on_estimate, qos.NEWEST),
            self.create_subscription(msg.Verdict, "chunk_verdict", self._on_verdict, qos.COMMAND),
            self.create_subscription(TwistStamped, "jog_twist", self._on_twist, qos.COMMAND),
            self.create_subscription(JointState, "jog_joint", self._on_joint, qos.COMMAND),
            self.create_subscription(Joy, "joy", self._on_joy, qos.COMMAND),
        ]

    def open(self) -> None:
        if self.config.record:
            self._writer = InterventionWriter(Store(current_slot().out_dir, "interventions", self._storage))

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    # -- commands -----------------------------------------------------------------------------------------------------
    def _on_twist(self, m: TwistStamped) -> None:
        linear, angular = m.twist.linear, m.twist.angular
        values = (linear.x, linear.y, linear.z, angular.x, angular.y, angular.z)
        self._take("twist", m.header.stamp, lambda now_s: JogCommand(now_s, values, frame=m.header.frame_id))

    def _on_joint(self, m: JointState) -> None:
        self._take("joint", m.header.stamp, lambda now_s: JogCommand(now_s, joint_velocities(m), joint=True))

    def _on_joy(self, m: Joy) -> None:
        try:
            reading = self._joy.read(m.axes, m.buttons, time.monotonic())
        except JogRefused as error:
            return self._count_refused("joy", error)
        if reading.stop:  # however late it comes, and whether or not this node is active
            self._stop_pub.publish(String(data="gamepad"))
        return self._take("joy", m.header.stamp, lambda _: self._on_pad(reading))

    def _on_pad(self, reading: JoyReading) -> JogCommand:
        state = self._state
        if (reading.close or reading.open) and state is not None and state.mode in MODES and state.at_rest:
            width_m = cell.GRIPPER_OPEN_M if reading.open else 0.0
            trace_id = f"jog-g{secrets.token_hex(3)}"
            self._gripper_pub.publish(msg.GripperCommand(token=state.token, width=width_m, trace_id=trace_id))
        return reading.command

    def _take(self, source: str, stamp, make) -> None:
        """One command of a stream: late or unusable ones are refused and counted."""
        if not self.active:
            return
        self._counts["commands"] += 1
        stamp_s = stamp.sec + stamp.nanosec * 1e-9
        age_s = self.get_clock().now().nanoseconds * 1e-9 - stamp_s
        if not on_time(stamp_s, age_s, self.config.stamp_tolerance_s):
            self._counts["late"] += 1
            limit_ms = self.config.stamp_tolerance_s * 1e3
            self._status = f"{source}: stamped {age_s * 1e3:.0f} ms ago, limit {limit_ms:.0f}"
            return
        try:
            self._arbiter.put(source, make(time.monotonic()))
        except JogRefused as error:
            self._count_refused(source, error)

    def _count_refused(self, source: str, error: JogRefused) -> None:
        self._counts["refused"] += 1
        self._status = f"{source}: {error}"

    # -- states -------------------------------------------------------------------------------------------------------
    def _on_state(self, m: msg.SafetyState) -> None:
        if not self.active:
            return
        try:
            self._state = conversions.robot_state(m)
        except ProtocolError:
            self._counts["malformed"] += 1
            return
        now_s, command = time.monotonic(), self._arbiter.command()
        step = self._jog.step(self._state, command, now_s)
        self._status = step.status or self._status
        if step.chunk is not None:
            self._counts["chunks"] += 1
            self._chunk_pub.publish(conversions.joint_chunk_msg(step.chunk))
        estimate = self._estimate if now_s - self._estimate_s <= ESTIMATE_KEPT_S else None
        given = command if command is not None and now_s - command.stamp_s <= self._jog.config.timeout_s else None
        records = self._recorder.step(self._state, given, estimate, step.status, self.get_name())
        if self._writer is not None:
            self._writer.put(records)

    def _on_estimate(self, m: msg.StateEstimate) -> None:
        try:
            self._estimate, self._estimate_s = conversions.estimate(m), time.monotonic()
        except ProtocolError:
            self._counts["malformed"] += 1

    def _on_verdict(self, m: msg.Verdict) -> None:
        if m.trace_id.startswith("jog-"):
            self._counts["chunks_refused"] += not m.accepted
            self._jog.on_verdict(conversions.verdict(m))

    def diagnostics(self):
        if not self.active:
            return WARN, "inactive", {}
        writer = self._writer
        values = dict(self._counts, overruled=self._arbiter.overruled, status=self._status)
        if writer is not None:
            values |= {
                "interventions": writer.written, "dropped": writer.dropped, "write_errors": writer.errors,
                "not_recorded": writer.refused, "recording_pauses": writer.store.pauses,
            }
            if writer.store.why:
                return WARN, f"recording stopped: {writer.store.why}", values
        return OK, "recording" if self._recorder.active else "ready", values


def on_time(stamp_s: float, age_s: float, tolerance_s: float) -> bool:
    """Whether a command may be used: not stamped at all (0), or stamped about now; a clock may also run ahead."""
    return stamp_s == 0.0 or abs(age_s) <= tolerance_s


def joint_velocities(m: JointState) -> tuple[float, ...]:
    """Velocities in the driver's joint order, by name; joints that are not named stand. JogRefused for a stranger."""
    if len(m.name) != len(m.velocity) or not 1 <= len(m.name) <= ur5.DOF or len(set(m.name)) != len(m.name):
        raise JogRefused(f"jog_joint: {len(m.name)} names, {len(m.velocity)} velocities: give one velocity per joint")
    unknown = [name for name in m.name if name not in ur5.JOINT_NAMES]
    if unknown:
        raise JogRefused(f"jog_joint: joint {unknown[0][:40]!r}: give names out of {', '.join(ur5.JOINT_NAMES)}")
    given = dict(zip(m.name, m.velocity))
    return tuple(float(given.get(name, 0.0)) for name in ur5.JOINT_NAMES)


def main() -> int:
    request_realtime(REALTIME_PRIORITY)
    return run(TeleopNode)


if __name__ == "__main__":
    raise SystemExit(main())
