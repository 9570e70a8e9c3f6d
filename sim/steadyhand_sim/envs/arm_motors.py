"""`motor_model.MotorModel` in plain floats, with what `PlantParameters` adds: the same equations, a third of the time.

Six joints are too few for numpy to be worth its call overhead. Equality with the model that was identified is tested
(tests/unit/test_env_motors.py). One `drive` covers one exchange with the physics: the motors' state follows what
physics made of the last one, so that a contact is felt and nothing winds up.
"""
from __future__ import annotations

import math

import numpy as np

from steadyhand import ur5
from steadyhand_sim.envs.plant_parameters import PlantParameters
from steadyhand_sim.motor_model import FRICTION_VELOCITY_RAD_S, MotorParameters

_JOINTS = range(ur5.DOF)


class ArmMotors:
    """`begin` a control cycle with a set-point, then `drive` once per exchange: joint velocities for the physics."""

    def __init__(
        self, parameters: MotorParameters, plant: PlantParameters, cycle_s: float, exchanges: int, micro_steps: int
    ) -> None:
        """Each cycle has `exchanges` with the physics; between two of them the motors take `micro_steps`."""
        steps = exchanges * micro_steps
        self._cycle_s, self._exchange_s, self._dt = cycle_s, cycle_s / exchanges, cycle_s / steps
        self._micro_steps, self._share_step = micro_steps, 1.0 / steps
        wn, zeta = np.array(parameters.wn_rad_s), np.array(parameters.zeta)
        gain, friction = plant.gain, plant.friction
        delay = np.array(parameters.dead_time_s) / self._dt
        whole = np.floor(delay).astype(int)
        self._length = int(math.ceil(delay.max())) + 2
        self._joints = list(zip(
            _JOINTS, (gain * np.array(parameters.acceleration_gain)).tolist(), (gain * wn**2).tolist(),
            (gain * 2.0 * zeta * wn).tolist(), (friction * np.array(parameters.viscous_per_s)).tolist(),
            (friction * np.array(parameters.coulomb_rad_s2)).tolist(), map(float, parameters.acceleration_limit_rad_s2),
            whole.tolist(), (delay - whole).tolist(), ([0.0] * self._length for _ in _JOINTS),
        ))  # the last one of each: what was wanted, a ring, for the dead time
        self._bias = [float(b) for b in plant.bias_rad]
        self._play = plant.backlash_rad / 2.0
        self._late, self._late_part = divmod(plant.dead_time_s / cycle_s, 1.0)
        self._late = int(self._late)
        self._keep = plant.lag_s / (plant.lag_s + cycle_s)
        self._shaped = plant.dead_time_s > 0.0 or plant.lag_s > 0.0
        self.sag_rad_s2 = [0.0] * ur5.DOF  # acceleration by an unknown payload; the world keeps it
        self.reset([0.0] * ur5.DOF)

    def reset(self, q_rad: list[float]) -> None:
        """Stand still at (6,), told to be there."""
        start = [float(q) for q in q_rad]
        self._told = [(start, [0.0] * ur5.DOF)] * (self._late + 2)  # newest first
        self._smooth = (start, [0.0] * ur5.DOF)
        self._r = [q + b for q, b in zip(start, self._bias)]  # reference at the end of the last cycle
        self._rd = [0.0] * ur5.DOF
        self._q, self._qd = list(self._r), [0.0] * ur5.DOF
        self._sent, self._sent_rate = list(self._r), [0.0] * ur5.DOF
        self._gap = [0.0] * ur5.DOF
        for *_, past in self._joints:
            past[:] = [0.0] * self._length
        self._head = 0
        self.begin(start, [0.0] * ur5.DOF)

    def begin(self, q_rad: list[float], qd_rad_s: list[float]) -> None:
        """The next cycle ends with the reference at this set-point, position (6,) and velocity (6,)."""
        if self._shaped:
            q_rad, qd_rad_s = self._shape(q_rad, qd_rad_s)
        goal = [q + b for q, b in zip(q_rad, self._bias)]
        self._from, self._from_rate = self._r, self._rd
        self._by = [g - r for g, r in zip(goal, self._r)]
        self._rate_by = [v - rd for v, rd in zip(qd_rad_s, self._rd)]
        self._rdd = [d / self._cycle_s for d in self._rate_by]
        self._r, self._rd = goal, list(qd_rad_s)
        self._share = 0.0

    def _shape(self, q_rad, qd_rad_s):
        """The plant's dead time (linear between set-points) and lag, on positions and velocities alike."""
        self._told = [(q_rad, qd_rad_s), *self._told[:-1]]
        newer, older, part = self._told[self._late], self._told[self._late + 1], self._late_part
        due = [[a + part * (b - a) for a, b in zip(*pair)] for pair in zip(newer, older)]
        keep = self._keep
        self._smooth = tuple([d + keep * (s - d) for d, s in zip(*pair)] for pair in zip(due, self._smooth))
        return self._smooth

    def drive(self, q_rad: list[float], qd_rad_s: list[float]) -> list[float]:
        """Joint velocities (6,) for the next exchange, given where physics has the joints now."""
        q, qd, sent, sent_rate = self._q, self._qd, self._sent, self._sent_rate
        for j in _JOINTS:  # what physics did other than asked, a contact for instance
            q[j] += q_rad[j] - sent[j]
            qd[j] += qd_rad_s[j] - sent_rate[j]
        before = list(q)
        for _ in range(self._micro_steps):
            self._step(q, qd)
        period = self._exchange_s
        if self._play > 0.0:
            self._sent = self._through_play(before, q, q_rad)
        else:
            self._sent = list(q)
        self._sent_rate = [(s - x) / period for s, x in zip(self._sent, q_rad)]
        return self._sent_rate

    def _step(self, q: list[float], qd: list[float]) -> None:
        """One motor period, semi-implicit Euler; equations in `motor_model`."""
        self._share = share = self._share + self._share_step
        self._head = head = (self._head + 1) % self._length
        dt, tanh, rdd, sag = self._dt, math.tanh, self._rdd, self.sag_rad_s2
        start, by, start_rate, rate_by = self._from, self._by, self._from_rate, self._rate_by
        for j, feedforward, stiffness, damping, viscous, coulomb, limit, whole, part, past in self._joints:
            x, v = q[j], qd[j]
            past[head] = (
                feedforward * rdd[j]
                + stiffness * (start[j] + share * by[j] - x)
                + damping * (start_rate[j] + share * rate_by[j] - v)
                - viscous * v
                - coulomb * tanh(v / FRICTION_VELOCITY_RAD_S)
            )
            at = head - whole  # may be negative: counted from the end, which is the ring
            wanted = past[at]
            wanted += part * (past[at - 1] - wanted)
            if wanted > limit:
                wanted = limit
            elif wanted < -limit:
                wanted = -limit
            qd[j] = v = v + dt * (wanted + sag[j])
            q[j] = x + dt * v

    def _through_play(self, before: list[float], after: list[float], joint: list[float]) -> list[float]:
        """Where the joints go when the motors went from `before` to `after`: only what exceeds the play."""
        moved = []
        for j in _JOINTS:
            gap = self._gap[j] + after[j] - before[j]
            excess = gap - self._play if gap > self._play else gap + self._play if gap < -self._play else 0.0
            self._gap[j] = gap - excess
            moved.append(joint[j] + excess)
        return moved
