"""Odometry of somebody else's base, on the guard's clock, or refused by name. Pure.

Every message that is refused is a fault for a second, not only a missing one: an odometry that is wrong now and then is
none to drive by. Each step that is refused becomes the new beginning, so that it is told once, not for ever.
"""
from __future__ import annotations

import math
from dataclasses import dataclass

from steadyhand_firmware_bridge.agv_ros.config import RosVehicleConfig
from steadyhand_firmware_bridge.agv_ros.ramp import Twist
from steadyhand_firmware_bridge.agv_ros.wire import Odom

SHOWN_S = 1.0  # how long one that was refused is a trouble
UNIT = 0.01  # how far the length of a quaternion may be from 1
STEP_MARGIN = 1.5  # a vehicle may be that much faster than its load allows, before its odometry is not believed
SLACK = 0.2  # and by that, in m/s and rad/s: noise of encoders
LONGEST_STEP_S = 1.0  # silence longer than this allows no further step: it is `stale` by itself
CLOCK_DRIFT = 6e-4  # of the sender's clock against ours; a clock that is being set slews at most 500 ppm


@dataclass(frozen=True)
class Reading:
    """Measured pose and twist. `measured_s` is when, on our clock; `stamp_s` the sender's own."""

    measured_s: float
    stamp_s: float
    pose_m_rad: tuple[float, float, float]
    twist: Twist


class OdometryReader:
    """Reads messages one after the other. Clocks are mapped by the least delay seen, so that what was held up counts as
    old as it is; a delay that never varies cannot be told from an offset of the clocks."""

    def __init__(self, config: RosVehicleConfig):
        self.config = config
        self.refused: dict[str, int] = {}
        self._why = ("", "")  # reason and words of the newest refusal
        self._refused_s = self._arrival_s = -math.inf
        self._offset_s = math.inf
        self._last: Reading | None = None

    def take(self, odom: Odom) -> Reading | None:
        """The reading, or None when the message is refused."""
        config = self.config
        if odom.frame != config.odom_frame:
            return self._refuse(odom, "frame", f"header.frame_id={odom.frame[:40]!r}, wanted {config.odom_frame!r}")
        if odom.child_frame != config.base_frame:
            return self._refuse(
                odom, "frame", f"child_frame_id={odom.child_frame[:40]!r}, wanted {config.base_frame!r}"
            )
        values = (*odom.pose, *odom.twist, odom.stamp_s)
        if len(odom.pose) != 7 or len(odom.twist) != 6 or not all(map(math.isfinite, values)):
            return self._refuse(odom, "not_finite", f"pose={odom.pose}, twist={odom.twist}")
        length = math.sqrt(sum(q * q for q in odom.pose[3:]))
        if abs(length - 1.0) > UNIT:
            return self._refuse(odom, "orientation", f"a quaternion of length {length:.3f}, wanted 1")
        if odom.stamp_s <= 0.0:
            return self._refuse(odom, "unstamped", f"header.stamp is {odom.stamp_s:g}")
        return self._in_time(odom)

    def _in_time(self, odom: Odom) -> Reading | None:
        last = self._last
        since_s = odom.arrival_s - self._arrival_s
        if last is not None and odom.stamp_s <= last.stamp_s:
            behind_s = last.stamp_s - odom.stamp_s
            if behind_s == 0.0:
                self._count("repeated")
                return None  # nothing new: its age goes on
            self._begin(odom)
            return self._refuse(odom, "back_in_time", f"its stamp stepped back by {behind_s:.3f} s")
        reading = self._mapped(odom, since_s)
        jump = "" if last is None else self._jump(last, reading)
        self._last, self._arrival_s = reading, odom.arrival_s
        if jump:
            return self._refuse(odom, "jump", jump)
        fast = self._too_fast(reading.twist)
        return self._refuse(odom, "speed", fast) if fast else reading

    def _begin(self, odom: Odom) -> None:
        """The clock was set: a new mapping, and nothing to compare with but this."""
        self._offset_s = math.inf
        self._last, self._arrival_s = self._mapped(odom, 0.0), odom.arrival_s

    def _mapped(self, odom: Odom, since_s: float) -> Reading:
        drift_s = CLOCK_DRIFT * since_s if math.isfinite(since_s) else 0.0
        self._offset_s = min(odom.arrival_s - odom.stamp_s, self._offset_s + drift_s)
        measured_s = min(odom.arrival_s, odom.stamp_s + self._offset_s)
        pose = odom.pose[0], odom.pose[1], _yaw(*odom.pose[3:])
        return Reading(measured_s, odom.stamp_s, pose, (odom.twist[0], odom.twist[1], odom.twist[5]))

    def _jump(self, last: Reading, now: Reading) -> str:
        """What stepped further than it was driven; empty when nothing did."""
        load, dt_s = self.config.limits, min(now.stamp_s - last.stamp_s, LONGEST_STEP_S)
        far_m = math.dist(now.pose_m_rad[:2], last.pose_m_rad[:2])
        allowed_m = self.config.jump_m + STEP_MARGIN * load.speed_m_s * dt_s
        if far_m > allowed_m:
            return f"its place stepped {far_m:.2f} m in {dt_s * 1e3:.0f} ms, {allowed_m:.2f} m are explained by driving"
        turned = abs(math.remainder(now.pose_m_rad[2] - last.pose_m_rad[2], 2.0 * math.pi))
        allowed = self.config.jump_rad + STEP_MARGIN * load.omega_rad_s * dt_s
        if turned > allowed:
            return f"its heading stepped {turned:.2f} rad in {dt_s * 1e3:.0f} ms, {allowed:.2f} rad by turning"
        return ""

    def _too_fast(self, twist: Twist) -> str:
        """What is faster than anything that is asked for; empty when nothing is."""
        load, speed = self.config.limits, math.hypot(twist[0], twist[1])
        if speed > STEP_MARGIN * load.speed_m_s + SLACK:
            return f"it tells {speed:.2f} m/s, the load allows {load.speed_m_s:g}"
        if abs(twist[2]) > STEP_MARGIN * load.omega_rad_s + SLACK:
            return f"it tells {abs(twist[2]):.2f} rad/s, the load allows {load.omega_rad_s:g}"
        return ""

    def _count(self, reason: str) -> None:
        self.refused[reason] = self.refused.get(reason, 0) + 1

    def _refuse(self, odom: Odom, reason: str, why: str) -> None:
        self._count(reason)
        self._why, self._refused_s = (reason, why), odom.arrival_s

    def trouble(self, now_s: float) -> tuple[str, str]:
        """Reason and words of a refusal in the last second; empty when there was none."""
        return self._why if now_s - self._refused_s <= SHOWN_S else ("", "")


def _yaw(x: float, y: float, z: float, w: float) -> float:
    return math.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))
