"""A recorded vehicle through link monitor, ROS bridge and estimator: gaps, jitter, what is refused and would forbid
motion, and how far estimate and odometry drift apart.

The bridge is `RosAgv` itself, in virtual time, behind a link that tells what was recorded when it was recorded. The
estimator is the simulated vehicle's `Localisation` with the noise that it is shipped with, fed with what the bridge
took and with the gyro about the vertical, however the IMU is mounted.
"""
from __future__ import annotations

import math
from typing import Any

import numpy as np
from rich.console import Console

from steadyhand.errors import ConfigError
from steadyhand.link_monitor import LinkMonitor
from steadyhand_cli.agv_bag import ImuRecording, VehicleRecording
from steadyhand_firmware_bridge.agv_ros import config as ros_config
from steadyhand_firmware_bridge.agv_ros import wire
from steadyhand_firmware_bridge.agv_ros.agv import RosAgv
from steadyhand_firmware_bridge.agv_ros.config import LoadLimits, RosVehicleConfig
from steadyhand_firmware_bridge.agv_ros.link_core import Stage
from steadyhand_sim.agv.dead_reckoning import Track, through_estimator, window_errors

RECORDED = LoadLimits(speed_m_s=1.0, omega_rad_s=1.0)  # of a vehicle of which no configuration is given


class RecordedLink:
    """`agv_ros.link_process.Link` that plays a recording back. Whoever replays sets `now_s`."""

    def __init__(self, odoms: list[wire.Odom], config: RosVehicleConfig):
        self.now_s = -math.inf
        self._left = sorted(odoms, key=lambda odom: odom.arrival_s, reverse=True)
        self._graph = {
            "takers": [["recorded", f"geometry_msgs/msg/{config.cmd_vel_type}"]], "matched": 1, "others": [],
            "odom": [["recorded", "nav_msgs/msg/Odometry"]],
        }  # fmt: skip

    def send(self, message: Any) -> bool:
        """Nothing that is sent changes a recording."""
        return True

    def receive(self) -> list[Any]:
        """What had come by now."""
        found: list[Any] = [
            wire.Graph(self.now_s, **self._graph), wire.Status(self.now_s, 0, Stage.SILENT.value, "", [0.0] * 3)
        ]
        while self._left and self._left[-1].arrival_s <= self.now_s:
            found.append(self._left.pop())
        return found

    def dead(self) -> str:
        """It lives."""
        return ""

    def readable(self) -> list[Any]:
        """No sockets."""
        return []

    def kill(self) -> None:
        """Nothing to end."""

    drop = close = kill


def vehicle_config(path: str, recording: VehicleRecording) -> RosVehicleConfig:
    """The one in a file such as config/agv_ros.yaml; without one, the recording's frames and `RECORDED`."""
    if path:
        return ros_config.load(path).vehicle
    first = recording.odoms[0]
    frames = {"odom_frame": first.frame.lstrip("/"), "base_frame": first.child_frame.lstrip("/")}
    return RosVehicleConfig(loads={"recorded": RECORDED}, load="recorded", **frames)


def analyse(recording: VehicleRecording, config: RosVehicleConfig) -> dict:
    """Everything the report says, as plain data."""
    links = {"odometry": _link(recording.odom_arrivals_s).finish()}
    gyro = None
    if recording.imu is not None:
        monitor = _link(recording.imu.arrivals_s)
        links["imu"] = monitor.finish()
        gyro = about_the_vertical(recording.imu, monitor)
    bridge, track, speeds = through_bridge(recording.odoms, config)
    report = {
        "duration_s": recording.odoms[-1].arrival_s - recording.odoms[0].arrival_s, "samples": len(recording.odoms),
        "refused_messages": recording.refused, "link": links, "bridge": bridge, "estimator": None,
        "gyro": "the odometry's own rate: the bag has no IMU" if gyro is None else "IMU, about the vertical",
    }  # fmt: skip
    if len(track.time_s) < 2:
        return report
    estimate, covariance = through_estimator(track.time_s, speeds, gyro)
    report["estimator"] = {
        "way_m": float(np.trapezoid(np.abs(speeds[:, 0]), track.time_s)),
        "end_sigma_m": float(np.sqrt(np.trace(covariance[:2, :2]))), "beside_odometry": window_errors(estimate, track),
    }
    return report


def _link(arrivals_s: np.ndarray) -> LinkMonitor:
    stamps_s = arrivals_s[:, 0]
    period_s = float(np.median(np.diff(np.sort(stamps_s[np.isfinite(stamps_s)]))))
    if not period_s > 0.0:
        raise ConfigError("the stamps of a topic do not advance: record it with a running clock")
    monitor = LinkMonitor(period_s)
    for stamp_s, received_s in arrivals_s.tolist():
        monitor.update(stamp_s, received_s)
    return monitor


def about_the_vertical(imu: ImuRecording, monitor: LinkMonitor) -> tuple[np.ndarray, np.ndarray]:
    """Times (M,) on the recorder's clock and yaw rates (M,): gravity, in the mean, says which way is up."""
    up = imu.acceleration_m_s2.mean(axis=0)
    length = float(np.linalg.norm(up))
    if not 5.0 < length < 15.0:
        raise ConfigError(f"the IMU's mean acceleration is {length:.1f} m/s2, wanted about 9.8: it must tell gravity")
    delays_s = [monitor.clock.delay_s(stamp_s, received_s) for stamp_s, received_s in imu.arrivals_s.tolist()]
    return imu.arrivals_s[:, 1] - np.array(delays_s), imu.rate_rad_s @ (up / length)


def through_bridge(odoms: list[wire.Odom], config: RosVehicleConfig) -> tuple[dict, Track, np.ndarray]:
    """What `RosAgv` makes of it: its figures, the poses that it took, and their speed and yaw rate (N, 2)."""
    link = RecordedLink(odoms, config)
    agv = RosAgv(config, lambda _: link)
    arrivals = [odom.arrival_s for odom in odoms]
    first_s, last_s = min(arrivals), max(arrivals)
    cycles = np.arange(first_s, last_s + agv.period_s, agv.period_s)
    agv.open(first_s)
    taken, forbidden, oldest_s, before_s = {}, {}, 0.0, first_s
    for now_s in np.union1d(cycles, arrivals).tolist():
        link.now_s = now_s
        agv.poll(now_s)
        feedback = agv.feedback()
        if feedback is not None:
            taken[feedback.stamp_s] = (*feedback.pose_m_rad, feedback.twist_m_s_rad_s[0], feedback.twist_m_s_rad_s[2])
            oldest_s = max(oldest_s, now_s - feedback.stamp_s)
        for cause in agv.troubles(now_s):
            forbidden[cause] = forbidden.get(cause, 0.0) + now_s - before_s
        before_s = now_s
    rows = np.array(list(taken.values())).reshape(-1, 5)
    figures = {
        "accepted": len(taken), "refused": dict(agv.odometry.refused), "oldest_ms": oldest_s * 1e3,
        "forbidden_s": {cause: round(seconds, 3) for cause, seconds in forbidden.items()},
        "limits": {"speed_m_s": config.limits.speed_m_s, "omega_rad_s": config.limits.omega_rad_s,
                   "feedback_timeout_s": config.feedback_timeout_s},
    }  # fmt: skip
    return figures, Track(np.array(list(taken)), rows[:, :3]), rows[:, 3:]


def show(console: Console, report: dict) -> None:
    """The report as lines."""
    def say(line: str) -> None:
        console.print(line, highlight=False)

    say(f"{report['samples']} odometry messages over {report['duration_s']:.1f} s; "
        f"refused messages of the IMU: {report['refused_messages'] or 'none'}")  # fmt: skip
    for name, link in report["link"].items():
        refused = {k.partition(":")[2]: n for k, n in link.items() if k.startswith("clock_refused:")}
        p99_ms, max_ms = (link[f"link_jitter_{which}_us"] * 1e-3 for which in ("p99", "max"))
        say(f"{name}: jitter p99 {p99_ms:.2f} ms, max {max_ms:.2f} ms; "
            f"{link['link_missed']} of {link['link_states']} missed, {link['link_gaps']} gaps, longest "
            f"{link['link_gap_max_us'] * 1e-3:.0f} ms; clock drift {link['clock_drift_ppb'] * 1e-3:+.1f} ppm, "
            f"{link['clock_resets']} resets, refused {refused or 'none'}")  # fmt: skip
    b = report["bridge"]
    say(f"bridge: {b['accepted']} taken, refused {b['refused'] or 'none'}, oldest {b['oldest_ms']:.0f} ms, "
        f"limits {b['limits']['speed_m_s']:g} m/s, {b['limits']['omega_rad_s']:g} rad/s")  # fmt: skip
    for cause, seconds in b["forbidden_s"].items():
        say(f"  motion forbidden for {seconds:.2f} s: {cause}")
    e = report["estimator"]
    if e is None:
        return say("estimator: the bridge took too little")
    say(f"estimator: {e['way_m']:.1f} m driven, one sigma at the end {e['end_sigma_m']:.2f} m; gyro: {report['gyro']}")
    w = e["beside_odometry"]
    if w["windows"]:
        say(f"beside the wheels' own pose, {w['windows']} windows of {w['window_s']:.0f} s: distance rms "
            f"{w['distance_rms_m']:.3f} m, max {w['distance_max_m']:.3f} m; "
            f"heading rms {w['heading_rms_rad']:.3f} rad, max {w['heading_max_rad']:.3f} rad")  # fmt: skip
    return None
