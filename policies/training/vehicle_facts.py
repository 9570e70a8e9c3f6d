"""What the contract of a vehicle's policy must agree with: the docking task's names, limits, sensors and geometry.

A vehicle has no joints and no tool; its policy wants a speed and a rotation, so an action of 1 means the way and the
turn of one period at the drive's limits.
"""
from __future__ import annotations

import hashlib

import numpy as np

from policies.training.rollout.hosts import Described
from steadyhand_policies import contract as contracts
from steadyhand_policies.runtime_facts import KINEMATICS, RuntimeFacts

ACTION_NAMES = ("speed", "rotation")
FRAME = "vehicle"  # x forward, y to the left, from above the middle of the wheels' axle
# name of an observation element -> unit, bound: what the task can produce, with a margin
ELEMENTS = (
    (r"dock_(along|across)|person_(ahead|across)", "m", 10.0), (r"dock_(sin|cos)_turn", "1", 1.01),
    (r"(told_)?speed|person_(ahead|across)_rate", "m/s", 5.0), (r"(told_)?rotation", "rad/s", 6.4),
    (r"field_violated|person_seen", "1", 1.01),
)


def facts_of_vehicle(about: Described, unit_of) -> RuntimeFacts:
    """`unit_of` gives the unit of an observation element by its name. Period and names are the environment's."""
    from steadyhand_sim.agv.fleet import RANGE_EVERY
    from steadyhand_sim.agv.vehicle_config import VehicleConfig

    vehicle, period_s = VehicleConfig(), 1.0 / about.rate_hz
    way_m, turn_rad = vehicle.max_speed_m_s * period_s, vehicle.max_rotation_rad_s * period_s
    units = {"speed": f"{way_m:g} m a period", "rotation": f"{turn_rad:g} rad a period"}
    period_hz = 1.0 / vehicle.period_s
    return RuntimeFacts(
        robot="agv", formulation=contracts.BASE_VELOCITY, joint_names=(), tool_length_m=0.0, frame=FRAME,
        observation=tuple((name, (unit_of(name),)) for name in about.observation_names),
        action=tuple((name, (units[name],)) for name in about.action_names),
        steps={"step_m": way_m, "step_yaw_rad": turn_rad, "step_rad": 0.0},
        period_s=period_s, horizon=1,
        sensors=(
            contracts.Sensor("wheels_and_gyro", "m/s", FRAME, (2,), period_hz),
            contracts.Sensor("ranges", "m", "hall", (1,), period_hz / RANGE_EVERY),
            contracts.Sensor("dock_marker", "m", FRAME, (3,), period_hz),
            contracts.Sensor("people", "m", FRAME, (4,), about.rate_hz),
        ),
        calibration={KINEMATICS: kinematics_sha256(vehicle)},
    )


def kinematics_sha256(vehicle) -> str:
    """Hash of what turns wheel counts into motion: track, wheel radius, counts per metre, as little-endian float64."""
    numbers = [vehicle.track_m, vehicle.wheel_radius_m, vehicle.ticks_per_m]
    return hashlib.sha256(np.asarray(numbers, dtype="<f8").tobytes()).hexdigest()
