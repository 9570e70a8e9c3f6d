"""From the order's legs to the line that is driven now, with the speed that what follows lets it end with. Pure."""
from __future__ import annotations

import math
from collections.abc import Sequence

from steadyhand_sim.agv.follower import TURN_FIRST_RAD, Line
from steadyhand_sim.agv.order_book import Leg
from steadyhand_sim.agv.vehicle_config import VehicleConfig


def line_of(leg: Leg, top_m_s: float, end_speed_m_s: float = 0.0, start: tuple[float, float] | None = None) -> Line:
    """The leg as a line, from `start` or from where the leg begins."""
    return Line(
        start or (leg.start.x_m, leg.start.y_m), (leg.place.x_m, leg.place.y_m), min(leg.edge.max_speed_m_s, top_m_s),
        leg.edge.max_rotation_rad_s, leg.edge.backwards, end_speed_m_s,
    )


def end_speed_m_s(legs: Sequence[Leg], top_m_s: float, config: VehicleConfig, load_kg: float) -> float:
    """With what speed the first leg may end: what the way behind it leaves to brake, 0 where it must stand or turn."""
    braking, speed = config.deceleration_m_s2(load_kg), 0.0
    for leg, following in zip(reversed(legs[:-1]), reversed(legs[1:])):
        here, there = line_of(leg, top_m_s), line_of(following, top_m_s)
        turns = abs(math.remainder(here.heading_rad - there.heading_rad, math.tau)) > TURN_FIRST_RAD
        if leg.stop or turns or leg.place.theta_rad is not None or here.backwards != there.backwards:
            speed = 0.0
        else:
            speed = min(there.max_speed_m_s, math.sqrt(speed**2 + 2 * braking * there.length_m))
    return speed


def left_m(legs: Sequence[Leg], x_m: float, y_m: float) -> float:
    """Way to the end of the base."""
    if not legs:
        return 0.0
    first = math.hypot(legs[0].place.x_m - x_m, legs[0].place.y_m - y_m)
    return first + sum(line_of(leg, math.inf).length_m for leg in legs[1:])
