"""A kinematic stand-in for everything below and beside the agent, in virtual time. No dynamics, no ROS, no sleeping.

The guard's side is strict where the agent must be right: token, order, age, the silence of a streaming source. Motion
follows way-points linearly with a first-order lag; fingers close on a cube that lies between them.
"""
from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from steadyhand import cell, kinematics, report, skills
from steadyhand.agent import Agent
from steadyhand.errors import ConfigError
from steadyhand.estimator import Estimator
from steadyhand.policy_io import HORIZON, STEP_M, STEP_YAW_RAD
from steadyhand.task import Decision, Goal, Inputs, PolicyReply, PolicyRequest, Result
from steadyhand.types import ActionChunk, Detection, Detections, JointChunk, Mode, RobotState, Verdict

STATE_S, IMAGE_S, LAG_S = 0.016, 0.05, 0.03
ESTIMATE_S = 0.032  # between two estimates without an image
FINGER_M_S = 0.15


def scripted_policy(observation: np.ndarray) -> np.ndarray:
    """(HORIZON, 5) actions of a proportional controller: over the target first, then down; votes when it is there."""
    error, z = observation[:3].astype(float), float(observation[9])
    yaw_error = float(np.arctan2(observation[3], observation[4])) / 4
    pick = observation[12] > 0.5
    carry_z = skills.CARRY_Z_M + 0.03
    actions = np.zeros((HORIZON, 5))
    for k in range(HORIZON):
        far = np.hypot(error[0], error[1]) > 0.012 or abs(yaw_error) > 0.1
        down = (carry_z - z) if far else error[2]
        lateral = error[:2] if not far or z > (0.06 if pick else 0.12) else np.zeros(2)
        step = np.clip(np.array([*lateral, down]) * 0.22 / STEP_M, -0.8, 0.8)
        turn = np.clip(yaw_error * 0.3 / STEP_YAW_RAD, -1, 1)
        near = np.hypot(error[0], error[1]) < 0.006 and abs(error[2]) < 0.006
        actions[k] = [*step, turn, (1.0 if pick else -1.0) if near else 0.0]
        error, z, yaw_error = error - step * STEP_M, z + step[2] * STEP_M, yaw_error - turn * STEP_YAW_RAD
    return actions


@dataclass
class Cube:
    """A part in the tray, in the fingers or in the box."""

    position_m: np.ndarray
    yaw_rad: float
    held: bool = False


@dataclass
class KinematicCell:
    """Runs an Agent (and an Estimator) against itself. Faults are injected by setting fields between steps."""

    cubes: list[Cube]
    seed: int = 0
    agent: Agent = field(default_factory=lambda: Agent("t"))
    estimator: Estimator = field(default_factory=Estimator)
    policy: object = staticmethod(scripted_policy)
    policy_delay_s: float = 0.004
    mode: Mode = Mode.ARMED_AUTO
    camera_on: bool = True
    guard_on: bool = True
    friction: bool = True
    gripper_opens: bool = True
    gripper_moves: bool = True  # false: jammed, no command takes effect
    ghosts: list[Cube] = field(default_factory=list)  # seen, but not there
    bias_m: np.ndarray = field(default_factory=lambda: np.zeros(2))  # of every detection, x and y
    camera_clock_s: float = 0.0  # the camera's clock minus ours
    slips: int = 0  # so many grasps close on nothing
    refuse: str = ""  # reason with which every chunk is refused
    refuse_policy: str = ""  # reason with which the policy's chunks are refused

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        self.now_s, self.seq, self.token = 100.0, 0, 7
        self.q = np.array(cell.HOME_Q_RAD)
        self.q_measured = self.q.copy()
        self.qd = np.zeros(6)
        self.width_m, self.commanded_m = cell.GRIPPER_PREGRASP_M, cell.GRIPPER_PREGRASP_M
        self.plan: tuple[np.ndarray, np.ndarray] | None = None
        self.plan_source, self.plan_accepted_s, self.last_seq = "", 0.0, -1
        self.still_since_s, self.image_seq = self.now_s, 0
        self.next_image_s, self.estimate, self.estimated_s = self.now_s, None, -np.inf
        self.stamped_with_s = self.camera_clock_s
        self.calls: list[tuple[float, PolicyRequest]] = []
        self.verdicts: list[Verdict] = []
        self.causes: tuple[str, ...] = ()
        self.results: list[Result] = []
        self.decisions: list[Decision] = []
        self.reports: list[str] = []
        self.phases: list[str] = []
        self.violations: Counter[str] = Counter()
        self.moved_disarmed = False

    # -- running -----------------------------------------------------------------------------------------------------
    def warm_up(self, seconds: float = 0.5) -> None:
        self.run(seconds, until_result=False)

    def goal(self, goal_id: str = "a", task: str = "clear_tray", max_objects: int = 0) -> None:
        self.step(goals=(Goal(goal_id, task, max_objects),))

    def run(self, seconds: float, until_result: bool = True, each=None) -> Result | None:
        end, known = self.now_s + seconds, len(self.results)
        while self.now_s < end:
            if each is not None:
                each(self)
            self.step()
            if until_result and len(self.results) > known:
                return self.results[-1]
        return None

    def step(self, goals=(), cancels=(), **operator) -> None:
        """One state period, with the policy replies that fall into it."""
        self._advance(STATE_S)
        self._perceive()
        for due, request in [c for c in self.calls if c[0] <= self.now_s]:
            self.calls.remove((due, request))
            reply = PolicyReply(request.observation_id, None, "unavailable")
            if self.policy is not None:
                actions = self.policy(request.observation)
                chunk = ActionChunk(request.observation_id, actions, "local", 0.001)
                reply = PolicyReply(request.observation_id, chunk)
            self._decide(Inputs(self.now_s, self._state if self.guard_on else None, self.estimate, reply))
        self.seq += 1
        self._state = self.state()
        self.estimator.on_robot(self._state)
        verdicts, self.verdicts = tuple(self.verdicts), []
        state = self._state if self.guard_on else None
        self._decide(Inputs(self.now_s, state, self.estimate, None, verdicts, goals, cancels, **operator))

    def _decide(self, inputs: Inputs) -> None:
        d = self.agent.step(inputs)
        self.decisions.append(d)
        self.results += d.results
        if d.report:
            self.reports.append(report.markdown(d.report))
        if d.feedback and (not self.phases or self.phases[-1] != d.feedback.phase):
            self.phases.append(d.feedback.phase)
        if d.stop:
            self.stop(d.stop)
        if d.policy_request is not None:
            self.calls.append((self.now_s + self.policy_delay_s, d.policy_request))
        if d.chunk is not None:
            self._take_chunk(d.chunk)
        if d.gripper is not None and d.gripper.token == self.token and self.mode is Mode.ARMED_AUTO:
            if self.gripper_moves and (d.gripper.width_m < 0.02 or self.gripper_opens):
                self.commanded_m = d.gripper.width_m

    # -- guard -------------------------------------------------------------------------------------------------------
    def state(self) -> RobotState:
        at_rest = self.now_s - self.still_since_s >= 0.1
        return RobotState(
            self.now_s, self.seq, self.token, self.mode, self.q_measured.copy(), (self.q - self.q_measured) / LAG_S,
            self.q.copy(), self.qd.copy(), self.width_m, self.commanded_m, at_rest, self.causes,
        )

    def stop(self, why: str = "operator") -> None:
        self.mode, self.causes, self.plan = Mode.STOPPED, (why,), None

    def rearm(self) -> None:
        self.mode, self.causes, self.token, self.last_seq = Mode.ARMED_AUTO, (), self.token + 1, -1

    def _take_chunk(self, chunk: JointChunk) -> None:
        reason = self.refuse or (self.refuse_policy if chunk.source == "policy" else "")
        if self.mode is not Mode.ARMED_AUTO:
            reason = "not_armed"
        elif chunk.token != self.token:
            reason = "foreign_token"
        elif chunk.state_seq < self.last_seq:
            reason = "out_of_order"
        elif self.now_s - chunk.state_stamp_s > 0.1:
            reason = "expired"
        else:
            speed = np.abs(np.diff(chunk.q_rad, axis=0)).max() / chunk.period_s
            start = np.abs(chunk.q_rad[0] - self.q).max()
            reason = reason or ("velocity" if speed > np.pi else "") or ("continuity" if start > 0.25 else "")
        self.verdicts.append(Verdict(chunk.trace_id, not reason, reason))
        if reason:
            self.violations[reason] += 1
            return
        times = chunk.state_stamp_s + chunk.period_s * np.arange(1, len(chunk.q_rad) + 1)
        self.plan = (np.concatenate([[self.now_s], times[times > self.now_s]]),
                     np.vstack([self.q[None], chunk.q_rad[times > self.now_s]]))
        self.plan_source, self.plan_accepted_s, self.last_seq = chunk.source, self.now_s, chunk.state_seq

    # -- world -------------------------------------------------------------------------------------------------------
    def _advance(self, dt: float) -> None:
        before, self.now_s = self.q.copy(), self.now_s + dt
        if self.plan is not None:
            self.q = np.array([np.interp(self.now_s, self.plan[0], self.plan[1][:, j]) for j in range(6)])
        self.qd = (self.q - before) / dt
        moving = np.abs(self.qd).max() > 0.02
        if moving and self.plan_source == "policy" and self.now_s - self.plan_accepted_s > 0.1 + 1e-9:
            self.violations["command_source_silent"] += 1
            self.stop("command_source_silent")
        self.q_measured += (self.q - self.q_measured) * (1 - np.exp(-dt / LAG_S))
        if np.abs(self.q - self.q_measured).max() / LAG_S > 0.01:
            self.still_since_s = self.now_s
        self._fingers(dt)

    def _fingers(self, dt: float) -> None:
        tool = kinematics.pose_base_link_tool(self.q_measured)[:3, 3]
        target, held = self.commanded_m, next((c for c in self.cubes if c.held), None)
        if held is not None:
            held.position_m = tool.copy()
            if self.commanded_m > 0.02:
                held.held = False
                held.position_m = np.array([tool[0], tool[1], cell.CUBE_SIZE_M / 2])
            else:
                target = cell.CUBE_SIZE_M
        elif self.commanded_m < 0.02 and self.friction:
            for cube in self.cubes:
                off = cube.position_m - tool
                between = np.linalg.norm(off[:2]) < 0.015 and abs(off[2]) < 0.015
                if between and self.width_m >= cell.CUBE_SIZE_M and self.width_m - FINGER_M_S * dt <= cell.CUBE_SIZE_M:
                    if self.slips > 0:
                        self.slips -= 1
                    else:
                        cube.held, target = True, cell.CUBE_SIZE_M
        self.width_m += float(np.clip(target - self.width_m, -FINGER_M_S * dt, FINGER_M_S * dt))

    def drop(self, xy_m: np.ndarray = np.array([0.52, -0.09])) -> None:
        """The object in the fingers falls into the tray, there."""
        for cube in self.cubes:
            if cube.held:
                cube.held = False
                cube.position_m = np.array([*xy_m, cell.CUBE_SIZE_M / 2])

    def in_box(self) -> int:
        return sum(cell.BOX.contains(c.position_m) and not c.held for c in self.cubes)

    def _perceive(self) -> None:
        image = self.now_s >= self.next_image_s and self.camera_on
        if image:
            self.next_image_s = self.now_s + IMAGE_S
            self.image_seq += 1
            seen = []
            shadow = self.estimator.shadow()
            for cube in (*self.cubes, *self.ghosts):
                if cube.held or not cell.TRAY.contains(cube.position_m, -0.02):
                    continue
                if self.estimator.in_shadow(cube.position_m[:2], shadow) and self.rng.random() < 0.7:
                    continue
                xyz = cube.position_m + self.rng.normal(0, 0.0015, 3)
                xyz[:2] += self.bias_m
                seen.append(Detection(xyz, cube.yaw_rad + self.rng.normal(0, 0.03), 0.97, 0.002))
            # the age on arrival is a difference of two clock readings: a clock set in between makes it wrong once
            age_s = 0.02 + self.camera_clock_s - self.stamped_with_s
            stamp_s = self.now_s + self.stamped_with_s
            detections = Detections(stamp_s, self.image_seq, f"o{self.image_seq}", tuple(seen))
            self.estimator.on_detections(detections, self.now_s, age_s)
            self.stamped_with_s = self.camera_clock_s
        if image or self.now_s - self.estimated_s > ESTIMATE_S - 1e-9:
            self.estimate, self.estimated_s = self.estimator.estimate(self.now_s), self.now_s


def scatter(count: int, seed: int) -> list[Cube]:
    """Cubes at random poses in the tray, as far apart as the cell promises. ConfigError for a number out of range."""
    if not 0 <= count <= cell.MAX_CUBES:
        raise ConfigError(f"count={count}: give 0 to {cell.MAX_CUBES} cubes")
    rng, tray, margin = np.random.default_rng(seed), cell.TRAY, cell.SPAWN_MARGIN_M
    low, high = [tray.x_min_m + margin, tray.y_min_m + margin], [tray.x_max_m - margin, tray.y_max_m - margin]
    for _ in range(1000):  # random placement jams, with 5 cubes seldom, with 8 mostly: start over
        cubes: list[Cube] = []
        for _ in range(10_000):
            if len(cubes) == count:
                return cubes
            xy = rng.uniform(low, high)
            if all(math.dist(xy, c.position_m[:2]) > cell.MIN_CUBE_SPACING_M for c in cubes):
                cubes.append(Cube(np.array([*xy, cell.CUBE_SIZE_M / 2]), rng.uniform(-np.pi / 4, np.pi / 4)))
    raise ConfigError(f"count={count}: no room in the tray at spacing {cell.MIN_CUBE_SPACING_M} m")
