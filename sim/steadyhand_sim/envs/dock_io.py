"""Observation and action of the docking task, in one place for environment and expert. Units in the comments."""
from __future__ import annotations

from steadyhand_sim.agv.vehicle_config import VehicleConfig

SPEED_M_S, TURN_RAD_S = VehicleConfig().max_speed_m_s, VehicleConfig().max_rotation_rad_s  # action +-1
DOCK_ACTION_NAMES = ("speed", "rotation")
DOCK_OBSERVATION_NAMES = (
    "dock_along", "dock_across",  # m: the dock from the vehicle, along the dock's heading and to its left
    "dock_sin_turn", "dock_cos_turn",  # of the dock's heading minus the vehicle's
    "speed", "rotation",  # m/s, rad/s: by wheels and gyro
    "told_speed", "told_rotation",  # what the drive is told now, after ramps and protective field
    "field_violated",  # 0 or 1: the scanner's protective field holds the vehicle
    "person_seen",  # 0 or 1; the rest is 0 while nobody is seen
    "person_ahead", "person_across",  # m, in the vehicle's frame, left positive
    "person_ahead_rate", "person_across_rate",  # m/s over ground, in the vehicle's frame
)  # fmt: skip
DOCK_AT = {name: i for i, name in enumerate(DOCK_OBSERVATION_NAMES)}
