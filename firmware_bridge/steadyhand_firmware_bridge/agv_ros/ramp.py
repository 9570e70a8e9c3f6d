"""From one velocity to another within a load's limits. Pure; a velocity is (vx, vy, omega) in the vehicle's frame.

All parts change by the same share, so that a vehicle which brakes keeps its curve: it comes to rest on the path that it
was on (v / omega stays), as an arm's stop does by scaling time.
"""
from __future__ import annotations

import math

from steadyhand_firmware_bridge.agv_ros.config import LoadLimits

Twist = tuple[float, float, float]
ZERO: Twist = (0.0, 0.0, 0.0)


def brake(v: Twist, linear_m_s2: float, angular_rad_s2: float, dt_s: float) -> Twist:
    """One step towards zero: every part reaches it at the same time, the slower of both."""
    left_s = max(math.hypot(v[0], v[1]) / linear_m_s2, abs(v[2]) / angular_rad_s2)
    return ZERO if left_s <= dt_s else _scaled(v, 1.0 - dt_s / left_s)


def stop(v: Twist, load: LoadLimits, dt_s: float) -> Twist:
    """One step of a stop."""
    return brake(v, load.stop_m_s2, load.omega_stop_rad_s2, dt_s)


def follow(v: Twist, wanted: Twist, load: LoadLimits, dt_s: float) -> Twist:
    """One step towards the wanted velocity. A part that turns round is held to the gentler of its two limits."""
    change = tuple(w - now for w, now in zip(wanted, v))
    ahead = wanted[0] * v[0] + wanted[1] * v[1]
    linear = _limit(math.hypot(*v[:2]), math.hypot(*wanted[:2]), ahead, load.accel_m_s2, load.decel_m_s2)
    angular = _limit(
        abs(v[2]), abs(wanted[2]), wanted[2] * v[2], load.omega_accel_rad_s2, load.omega_decel_rad_s2
    )
    takes_s = max(math.hypot(*change[:2]) / linear, abs(change[2]) / angular)
    if takes_s <= dt_s:
        return wanted
    return tuple(now + c * dt_s / takes_s for now, c in zip(v, change))


def above(v: Twist, load: LoadLimits, holonomic: bool) -> str:
    """Which limit a velocity breaks, naming field and value; empty when none."""
    speed = math.hypot(v[0], v[1])
    if v[1] and not holonomic:
        return f"vy_m_s={v[1]:g}: this vehicle cannot move to the side (holonomic: false)"
    if speed > load.speed_m_s * (1.0 + 1e-9):
        name = "vx_m_s" if not v[1] else "speed of vx_m_s and vy_m_s"
        return f"{name}={v[0] if not v[1] else speed:g}: give at most {load.speed_m_s:g} m/s with this load"
    if abs(v[2]) > load.omega_rad_s * (1.0 + 1e-9):
        return f"omega_rad_s={v[2]:g}: give at most {load.omega_rad_s:g} rad/s with this load"
    return ""


def _limit(now: float, wanted: float, ahead: float, accel: float, decel: float) -> float:
    if ahead < 0.0:
        return min(accel, decel)
    return decel if wanted < now else accel


def _scaled(v: Twist, share: float) -> Twist:
    return v[0] * share, v[1] * share, v[2] * share
