"""Realistic policy chunks without a policy: noisy Cartesian moves over the cell, in closed loop with the gate.

Two kinds of source, as demonstrators are built: *timed* follows a minimum-jerk move and corrects towards it, *reactive*
looks at position error and commanded velocity only, like a cloned policy. Each chunk answers the commanded state at its
stamp, comes back some cycles later, and is noisy: every action by itself and the chunk as a whole, so that successive
chunks disagree by a few milliradians. Seeded; the guard's side is `SafetyGate.admit` on the nominal control period.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from steadyhand import cell, kinematics, policy_io, ur5
from steadyhand.interpolator import InterpolatorConfig
from steadyhand.plan import Plan, Published, hold_plan
from steadyhand.safety_gate import SafetyGate
from steadyhand.types import JointChunk, Mode, RobotState

TOKEN = 7


@dataclass(frozen=True)
class Noise:
    """Standard deviations, in units of the action (1 = 20 mm or 0.1 rad in a step of 50 ms)."""

    action: float = 0.03  # 0.6 mm a step
    chunk: float = 0.03  # a velocity error of 12 mm/s for the whole chunk
    dropped: float = 0.02  # probability that a chunk never comes


@dataclass
class Session:
    """One arm under the gate. `commanded` grows by every set-point sent."""

    gate: SafetyGate
    q_rad: np.ndarray
    config: InterpolatorConfig = InterpolatorConfig()
    cycle: int = 0
    seq: int = -1
    verdicts: list = field(default_factory=list)
    plans: list = field(default_factory=list)

    def __post_init__(self) -> None:
        self.plan: Plan = hold_plan(self.q_rad, self.config.period_s, 0.0)
        self.index = 0
        self.commanded = [np.asarray(self.q_rad, dtype=float)]

    @property
    def now_s(self) -> float:
        return self.cycle * self.config.period_s

    def run(self, cycles: int) -> None:
        """Send set-points."""
        for _ in range(cycles):
            self.commanded.append(self.plan.setpoint(self.index)[0])
            self.index += 1
            self.cycle += 1

    def state(self) -> RobotState:
        q, qd, _ = self.plan.state_before(self.index)
        return RobotState(self.now_s, self.cycle, TOKEN, Mode.ARMED_AUTO, q, qd, q, qd, 0.08, 0.08, False)

    def offer(
        self,
        answered: Published | RobotState,
        q_rad: np.ndarray,
        period_s: float,
        next_setpoint_s: float | None = None,
    ) -> bool:
        """One chunk that answers a published state, arriving now; whether it was admitted."""
        seq = round(answered.stamp_s / self.config.period_s)
        chunk = JointChunk(TOKEN, seq, answered.stamp_s, f"c{seq}", "policy", ur5.JOINT_NAMES, period_s, q_rad)
        verdict, plan = self.gate.admit(
            chunk,
            self.state(),
            TOKEN,
            self.seq,
            self.now_s,
            self.now_s + self.config.period_s if next_setpoint_s is None else next_setpoint_s,
            self.plan,
            self.index,
            self.config,
            published=lambda s: answered if s == seq else None,
        )
        self.verdicts.append(verdict)
        if plan is not None:
            self.plan, self.index, self.seq = plan, 0, seq
            self.plans.append(plan)
        return plan is not None


def random_target(rng: np.random.Generator) -> np.ndarray:
    """(x, y, z, yaw) over tray or box, 30 mm to 0.3 m high.

    Grasp height itself (20 mm, floor of the gate 15 mm) needs a policy that is calmer there than this noise, which does
    not fall with speed: recorded demonstrations cover it. Moves down to 22 mm, as this generator made them first, had
    64 of 2941 chunks refused (50 of them for the floor); down to 30 mm 8 of 2885.
    """
    region = (cell.TRAY, cell.BOX)[rng.integers(2)]
    return np.array(
        [
            rng.uniform(region.x_min_m + 0.03, region.x_max_m - 0.03),
            rng.uniform(region.y_min_m + 0.03, region.y_max_m - 0.03),
            rng.choice([0.03, 0.12, rng.uniform(0.08, 0.3)]),
            rng.uniform(-np.pi / 4, np.pi / 4),
        ]
    )


def move(
    session: Session, target: np.ndarray, rng: np.random.Generator, reactive: bool, noise: Noise = Noise()
) -> None:
    """One move to (x, y, z, yaw) by chunks at 20 Hz, with half a second of standing at its end."""
    start = _tool(session.state().q_commanded_rad)
    distance = np.linalg.norm(target[:3] - start[:3])
    # peak speed of a minimum-jerk move is 1.875 times the mean: up to 0.4 m/s, and 1.2 rad/s of yaw
    speed = rng.uniform(0.25, 0.4)
    duration = max(1.875 * distance / speed, 1.875 * abs(target[3] - start[3]) / 1.2, 0.6)
    steps = int((duration + (1.0 if reactive else 0.5)) / policy_io.PERIOD_S)
    per_policy = policy_io.PERIOD_S / session.config.period_s
    due = session.cycle
    for k in range(steps):
        stamp = session.state()
        tool = _tool(stamp.q_commanded_rad)
        if reactive:
            moves = _reactive(tool, _velocity(stamp), target, speed)
        else:
            u = (k + np.arange(policy_io.HORIZON + 1)) * policy_io.PERIOD_S / duration
            reference = start + (target - start) * _minimum_jerk(u)[:, None]
            moves = np.diff(reference, axis=0) + (reference[0] - tool) / policy_io.HORIZON
        actions = np.zeros((policy_io.HORIZON, policy_io.ACTION_DIM))
        actions[:, :4] = moves / np.array([policy_io.STEP_M] * 3 + [policy_io.STEP_YAW_RAD])
        actions[:, :4] += rng.normal(0, noise.action, moves.shape) + rng.normal(0, noise.chunk, 4)
        waypoints = policy_io.joint_waypoints(actions, stamp.q_commanded_rad)
        session.run(int(rng.integers(1, 5)))  # 8 to 32 ms until the reply is with the guard
        if rng.random() >= noise.dropped:
            session.offer(stamp, waypoints, policy_io.PERIOD_S)
        due += per_policy
        session.run(max(0, round(due) - session.cycle))


def _minimum_jerk(u: np.ndarray) -> np.ndarray:
    u = np.clip(u, 0.0, 1.0)
    return u**3 * (10 - 15 * u + 6 * u**2)


def _tool(q_rad: np.ndarray) -> np.ndarray:
    pose = kinematics.pose_base_link_tool(q_rad)
    return np.append(pose[:3, 3], policy_io.tool_yaw(pose))


def _velocity(state: RobotState) -> np.ndarray:
    rates = kinematics.jacobian(state.q_commanded_rad) @ state.qd_commanded_rad_s
    return rates[[0, 1, 2, 5]]


def _reactive(tool: np.ndarray, velocity: np.ndarray, target: np.ndarray, speed: float) -> np.ndarray:
    """Steps (H, 4): speed by distance to go, changed by at most 1.2 m/s2 (3.6 rad/s2 of yaw)."""
    h, out = policy_io.PERIOD_S, []
    for _ in range(policy_io.HORIZON):
        error = target - tool
        distance, turn = np.linalg.norm(error[:3]), abs(error[3])
        wanted = np.zeros(4)
        wanted[:3] = error[:3] * min(speed / max(distance, 1e-9), 2.5)
        wanted[3] = error[3] * min(1.2 / max(turn, 1e-9), 2.5)
        change = wanted - velocity
        change[:3] *= min(1.0, 1.2 * h / max(np.linalg.norm(change[:3]), 1e-9))
        change[3] *= min(1.0, 3.6 * h / max(abs(change[3]), 1e-9))
        velocity = velocity + change
        tool = tool + velocity * h
        out.append(velocity * h)
    return np.array(out)
