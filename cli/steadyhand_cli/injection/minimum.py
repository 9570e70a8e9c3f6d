"""The shortest time in which the identified plant can be at rest: what a stop is compared with. Pure.

From steady motion: the time-optimal set-points to standstill under the acceleration and jerk that the gate admits
(ruckig), through the controller's servo law as our program sets it and the motors as identified (dead time, overshoot),
until the measured speed stays below 0.01 rad/s. So the parts named by the requirement (dead time + stop time(v, a, j) +
overshoot) come out of the plant itself and are not added up from separate bounds.
"""
from __future__ import annotations

import numpy as np
from ruckig import ControlInterface, InputParameter, Result, Ruckig, Synchronization, Trajectory

from steadyhand import ur5
from steadyhand.errors import ConfigError, SteadyhandError
from steadyhand.limits import UR5_LIMITS, Limits
from steadyhand.watchdog import REST_SPEED_RAD_S
from steadyhand_firmware_bridge.urscript import ProgramConfig
from steadyhand_sim.motor_model import MotorModel, MotorParameters
from steadyhand_sim.ur_controller.motion import Servo, Setpoint

_PROGRAM = ProgramConfig()  # its servo parameters are part of the plant: the guard cannot brake past them
PHYSICS_PERIOD_S = 0.002
SETTLE_S, LONGEST_S = 1.0, 3.0


def minimum_rest_s(
    qd_rad_s: np.ndarray,
    limits: Limits = UR5_LIMITS,
    motors: MotorParameters | None = None,
    period_s: float = ur5.SERVO_PERIOD_CB3_S,
    lookahead_s: float = _PROGRAM.servo_lookahead_s,
    gain: float = _PROGRAM.servo_gain,
) -> float:
    """Seconds from the first braking set-point to rest, from steady motion at `qd_rad_s` (6,); ConfigError."""
    qd = np.asarray(qd_rad_s, dtype=float)
    if qd.shape != (ur5.DOF,) or not np.isfinite(qd).all() or (np.abs(qd) > limits.qd_max_rad_s).any():
        raise ConfigError(f"qd_rad_s={qd_rad_s!r}: give 6 finite speeds within the limits")
    steady = period_s * np.arange(-round(SETTLE_S / period_s), 1)[:, None] * qd
    path = np.concatenate([steady, _shortest_stop(qd, limits, period_s)])
    speeds = _speeds(path, period_s, motors or MotorParameters.load(), lookahead_s, gain)[len(steady):]
    fast = np.flatnonzero(speeds >= REST_SPEED_RAD_S)
    return (int(fast[-1]) + 2) * period_s if len(fast) else 0.0  # sample k is measured at the end of cycle k


def _shortest_stop(qd: np.ndarray, limits: Limits, period_s: float) -> np.ndarray:
    """Set-points (K, 6) from 0 rad at `qd` to standstill, then held."""
    wanted = InputParameter(ur5.DOF)
    wanted.control_interface, wanted.synchronization = ControlInterface.Velocity, Synchronization.Phase
    wanted.current_velocity, wanted.target_velocity = qd.tolist(), [0.0] * ur5.DOF
    wanted.max_acceleration, wanted.max_jerk = limits.qdd_max_rad_s2.tolist(), limits.qddd_max_rad_s3.tolist()
    trajectory = Trajectory(ur5.DOF)
    if Ruckig(ur5.DOF).calculate(wanted, trajectory) not in (Result.Working, Result.Finished):
        raise SteadyhandError(f"no stop from {qd.tolist()} rad/s")
    times = np.arange(1, round(LONGEST_S / period_s) + 1) * period_s
    return np.array([trajectory.at_time(min(t, trajectory.duration))[0] for t in times])


def _speeds(path: np.ndarray, period_s: float, motors: MotorParameters, lookahead_s: float, gain: float) -> np.ndarray:
    """(K,) speed of the fastest joint at the end of each cycle while servo and motors follow the set-points."""
    servo, model = Servo(path[0], lookahead_s, gain), MotorModel(motors, PHYSICS_PERIOD_S)
    model.reset(path[0])
    now, speeds = Setpoint.at_rest(path[0]), []
    substeps = round(period_s / PHYSICS_PERIOD_S)
    for q in path:
        servo.update(q, lookahead_s, gain)
        after = servo.step(now, period_s, 1.0)
        for k in range(1, substeps + 1):
            share = k / substeps
            reference = now.q_rad + share * (after.q_rad - now.q_rad)
            velocity = now.qd_rad_s + share * (after.qd_rad_s - now.qd_rad_s)
            model.step(reference, velocity, (after.qd_rad_s - now.qd_rad_s) / period_s)
        now = after
        speeds.append(float(np.abs(model.qd_rad_s).max()))
    return np.array(speeds)
