"""The task's state machine: sub-goals -> phases, each with a deadline, a measured post-condition and one controller.

L1: a phase reaches its post-condition within its deadline or has failed. L2: a failure chooses a *different* action
(`steadyhand.recovery`). L3: after five consecutive failures brake, hold and diagnose. The learned policy proposes
way-points in PICK and PLACE only, and its vote only asks; `steadyhand.skills` grants. Everything else is planned here.

All times are the guard's stamps. The executor never stops the robot by itself dying: its commands end at rest.
"""
from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from steadyhand import cell, kinematics, planner, recovery, skills, trajectory
from steadyhand.errors import KinematicsError
from steadyhand.phases import PHASES, ExecutorConfig, Phase
from steadyhand.planner import PickPlan, PlacePlan, PlannerConfig
from steadyhand.policy_io import PERIOD_S, Target
from steadyhand.recovery import Recovery
from steadyhand.task import Code, Failure
from steadyhand.types import Estimate, EstimateMode, ObjectEstimate, RobotState


# The width has not changed by more than the sensor's noise for so long: over two readings of a gripper that is read 20
# times a second, in which the slowest one (20 mm/s) closes further.
WIDTH_RESTS_M, WIDTH_RESTS_S = 0.002, 0.12


@dataclass(frozen=True)
class Motion:
    """What a tick wants done: planned way-points, or a policy call, and a gripper opening when it shall change."""

    waypoints_rad: np.ndarray | None = None  # (N, 6) at PERIOD_S from the state's stamp
    policy_target: Target | None = None
    speed: float = 1.0  # the policy's time runs this fast: its velocities times this, its periods divided by it
    gripper_m: float | None = None


@dataclass
class Run:
    """Everything that changes while one task runs."""

    phase: Phase = Phase.BACK_OFF
    entered_s: float = 0.0
    pick: PickPlan | None = None
    place: PlacePlan | None = None  # set from the verified grasp to the verified release: an object is carried
    path: trajectory.Trajectory | None = None
    gripper_m: float | None = None  # the opening asked for last
    after_back_off: Phase = Phase.HOME
    tried: tuple[Recovery, ...] = ()
    turn_next: bool = False
    prefer: int | None = None
    avoid: frozenset[int] = frozenset()
    attempts: dict[int, int] = field(default_factory=dict)
    placed: int = 0
    consecutive: int = 0
    failures: list[Failure] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)  # observations since OBSERVE began
    empty_since_s: float | None = None
    steady: int = 0  # states in a row that confirm (or deny) the gripper's post-condition
    rests_at_m: float = 0.0
    rests_since_s: float = 0.0
    last_grip: str = ""
    speed: float = 1.0  # of the policy's time
    grasp_z_m: float = 0.0
    code: Code | None = None
    message: str = ""


class Executor:
    """One task from its start to its end. `tick` at 20 Hz, `on_state` at every state, `on_actions` per policy reply."""

    def __init__(
        self, config: ExecutorConfig, plan: PlannerConfig, state: RobotState, max_objects: int, used_points: set[int]
    ):
        """`used_points` outlives the task: where objects were released in the box; the executor adds to it."""
        self.config, self.plan_config = config, plan
        self.max_objects, self.used_points = max_objects, used_points
        self.run = Run()
        if self._holds(state):  # what the last task left in the fingers is placed first
            self.run.grasp_z_m = cell.CUBE_SIZE_M / 2
            self.run.place = planner.plan_place(None, used_points)
            self._enter(Phase.LIFT, state)
        else:
            self._enter(Phase.BACK_OFF, state)

    # -- what others read -------------------------------------------------------------------------------------------
    @property
    def finished(self) -> bool:
        """Whether nothing more is wanted; then `run.code` is set."""
        return self.run.phase is Phase.DONE

    @property
    def attempted(self) -> int:
        """Objects for which at least one grasp was begun."""
        return len(self.run.attempts)

    @property
    def carrying(self) -> bool:
        """Whether the task believes that an object is in the fingers."""
        return self.run.place is not None

    @property
    def level(self) -> int:
        """Execution level for the feedback: 0 normal, 2 trying differently, 3 giving up."""
        return 3 if self.run.phase is Phase.DIAGNOSE else 2 if self.run.consecutive else 0

    # -- inputs -----------------------------------------------------------------------------------------------------
    def on_state(self, state: RobotState) -> None:
        """Watch the fingers at the rate of the states: an object lost on the way is a failure at once."""
        run = self.run
        if self.carrying and run.phase not in (Phase.RELEASE, Phase.DIAGNOSE, Phase.DONE):
            run.steady = 0 if self._between_fingers(state) else run.steady + 1
            if run.steady >= 3:
                self.fail("grasp_lost", state, f"width {state.gripper_width_m * 1e3:.1f} mm while carrying")

    def on_actions(self, actions: np.ndarray, state: RobotState) -> None:
        """The policy's vote (last column, first step): it asks, `skills` grants."""
        run, vote = self.run, float(actions[0, -1])
        tool = kinematics.pose_base_link_tool(state.q_commanded_rad)[:3, 3]
        speed = float(np.linalg.norm(kinematics.jacobian(state.q_commanded_rad)[:3] @ state.qd_commanded_rad_s))
        if run.phase is Phase.PICK:
            grant = skills.grant_close(vote, run.pick.target, tool, speed)
            if grant:
                run.grasp_z_m = float(tool[2])
                run.attempts[run.pick.object_id] = run.attempts.get(run.pick.object_id, 0) + 1
                self._enter(Phase.GRASP, state)
        elif run.phase is Phase.PLACE:
            grant = skills.grant_open(vote, run.place.target, tool, speed)
            if grant:
                self._enter(Phase.RELEASE, state)
        else:
            return
        run.last_grip = grant.reason

    def fail(self, name: str, state: RobotState, detail: str) -> None:
        """L1 failed: count it, then L2 (a different action), or L3 after too many in a row."""
        run = self.run
        if run.phase in (Phase.DIAGNOSE, Phase.DONE):
            return
        carrying = self.carrying and name != "grasp_lost" and self._between_fingers(state)
        run.consecutive += 1
        l3 = run.consecutive >= self.config.failures_max
        chosen = None if l3 else recovery.choose(name, carrying, run.tried)
        next_action = chosen.value if chosen else "diagnose"
        run.failures.append(Failure(name, state.stamp_s, run.phase.value, detail, next_action))
        if l3:
            run.code = Code.POLICY_UNAVAILABLE if name == "policy_unavailable" else Code.L3_FAILURE
            run.message = f"{run.consecutive} consecutive failures, last: {name} in {run.phase.value} ({detail})"
            self._enter(Phase.DIAGNOSE, state)
            return
        run.tried = (*run.tried, chosen)
        if carrying:
            if chosen is Recovery.OTHER_POINT:
                run.place = planner.plan_place(None, self.used_points | {run.place.point})
            run.after_back_off = Phase.ABOVE
        else:
            run.place = None
            run.after_back_off = Phase.ABOVE if chosen is Recovery.FROM_ABOVE and run.pick else Phase.HOME
            run.turn_next = chosen is Recovery.OTHER_YAW
            if run.pick is not None:
                run.prefer = run.pick.object_id
                if chosen is Recovery.OTHER_OBJECT:
                    run.avoid, run.prefer, run.tried = run.avoid | {run.pick.object_id}, None, ()
        self._enter(Phase.BACK_OFF, state)

    def tick(self, state: RobotState, estimate: Estimate | None) -> Motion:
        """One 20 Hz step. A phase that cannot plan its path has failed; it does not raise.

        A phase that ends without a command gives way to the next one within the same step: the guard hears of the
        next motion, or of braking, before the silence of the last command source counts.
        """
        self._watch_perception(state, estimate)
        motion = Motion()
        for _ in range(3):
            phase = self.run.phase
            if phase is Phase.DONE:
                break
            if self._late(state):
                continue
            try:
                motion = getattr(self, f"_{phase.value}")(state, estimate) or self._follow(state)
            except KinematicsError as error:
                self.fail("path_infeasible", state, str(error))
                motion = Motion()
            if self.run.phase is phase or motion.waypoints_rad is not None:
                break
        return replace(motion, speed=self._speed(estimate)) if motion.policy_target else motion

    def _speed(self, estimate: Estimate | None) -> float:
        """Speed of the policy's time: it slides, so that the velocity which the policy sees never steps."""
        degraded = estimate is not None and estimate.mode is EstimateMode.DEGRADED
        wanted, step = self.config.degraded_speed if degraded else 1.0, self.config.speed_slew_per_s * PERIOD_S
        self.run.speed += float(np.clip(wanted - self.run.speed, -step, step))
        return self.run.speed

    # -- phases -----------------------------------------------------------------------------------------------------
    def _observe(self, state: RobotState, estimate: Estimate | None) -> Motion | None:
        run, waited = self.run, state.stamp_s - self.run.entered_s
        if estimate is not None and estimate.mode is EstimateMode.NOMINAL:
            run.seen.add(estimate.observation_id)
        blind = estimate is None or estimate.mode is EstimateMode.LOST
        if blind or len(run.seen) < 3:  # older ones may show the arm in the way
            run.empty_since_s = None  # a blind camera sees no empty tray
            if waited > self.config.observe_deadline_s:
                self._finish(
                    Code.PERCEPTION_LOST, f"no usable estimate within {waited:.1f} s: check camera and perception"
                )
            return None
        if self.max_objects and run.placed >= self.max_objects:
            self._finish(Code.OK, f"{run.placed} objects placed, as asked")
            return None
        objects = planner.in_tray(estimate, self.plan_config)
        if not objects:
            if run.empty_since_s is None:
                run.empty_since_s = state.stamp_s
            if state.stamp_s - run.empty_since_s >= self.config.tray_empty_s:
                done = run.placed > 0
                self._finish(Code.OK if done else Code.EMPTY_TRAY,
                             f"tray empty, {run.placed} placed" if done else "no object is seen in the tray: fill it")
            return None
        run.empty_since_s = None
        fresh = [o for o in objects if o.age_s <= 0.3]
        if not fresh:
            if waited > self.config.observe_deadline_s:
                self._finish(Code.PERCEPTION_LOST, "objects known, none measured: check the view of the tray")
            return None
        self._choose(fresh, state)
        return None

    def _choose(self, objects: list[ObjectEstimate], state: RobotState) -> None:
        run, ids = self.run, {o.object_id for o in objects}
        old_m = run.pick.target.position_m[:2] if run.pick else None
        prefer = run.prefer if run.prefer in ids else None
        if run.prefer is not None and prefer is None:  # the track changed its number: the nearest object is meant
            prefer = min(objects, key=lambda o: np.linalg.norm(o.position_m[:2] - old_m)).object_id
        tool = kinematics.pose_base_link_tool(state.q_rad)[:3, 3]
        plan, unreachable = planner.plan_pick(objects, tool, self.plan_config, prefer, run.avoid, run.turn_next)
        if plan is None:
            self._finish(
                Code.UNREACHABLE, f"objects {unreachable} are out of reach: move them nearer to the tray's middle"
            )
            return
        if old_m is None or np.linalg.norm(plan.target.position_m[:2] - old_m) > self.config.target_moved_m:
            run.tried = ()
        run.pick = plan
        self._enter(Phase.TURN if abs(plan.target.yaw_rad) > 0.8 else Phase.PICK, state)

    def _turn(self, state: RobotState, estimate: Estimate | None) -> Motion | None:
        if self.run.path is None:
            pose = kinematics.pose_base_link_tool(state.q_commanded_rad)
            turned = planner.ik_down(*pose[:3, 3], self.run.pick.target.yaw_rad)
            self.run.path = self._joint_move(state, turned)
        return self._then(state, Phase.PICK)

    def _above(self, state: RobotState, estimate: Estimate | None) -> Motion | None:
        run = self.run
        if run.path is None:
            target = run.place.target if run.place else run.pick.target
            run.path = self._joint_move(state, planner.q_above(target, self.config.clear_z_m))
        return self._then(state, Phase.PLACE if run.place is not None else Phase.PICK)

    def _pick(self, state: RobotState, estimate: Estimate | None) -> Motion | None:
        run = self.run
        self._follow_object(state, estimate)
        if run.phase is not Phase.PICK:
            return None
        return Motion(policy_target=run.pick.target, gripper_m=self._grip(self.plan_config.opening_m))

    def _grasp(self, state: RobotState, estimate: Estimate | None) -> Motion | None:
        run = self.run
        if run.path is None:
            run.path = trajectory.brake(state.stamp_s, state.q_commanded_rad, state.qd_commanded_rad_s, 4.0)
        motion = self._follow(state, gripper_m=self._grip(0.0))
        elapsed = state.stamp_s - run.entered_s
        # closing fingers pass the width of a grasp
        if not abs(state.gripper_width_m - run.rests_at_m) < WIDTH_RESTS_M:
            run.rests_at_m, run.rests_since_s = state.gripper_width_m, state.stamp_s
        resting = state.stamp_s - max(run.rests_since_s, run.entered_s) >= WIDTH_RESTS_S
        run.steady = run.steady + 1 if resting and self._holds(state) else 0
        braked = run.path is not None and run.path.over(state.stamp_s)
        if run.steady >= 3 and elapsed >= 0.3 and braked and not state.payload_due:
            run.place = planner.plan_place(estimate, self.used_points)
            self._enter(Phase.LIFT, state)
        return motion

    def _lift(self, state: RobotState, estimate: Estimate | None) -> Motion | None:
        run = self.run
        z = float(kinematics.pose_base_link_tool(state.q_rad)[2, 3])
        if run.path is None:
            if not self._still(state):
                return self._braking(state)
            run.path = self._straight_up(state, self.config.lift_z_m)
        if self._arrived(state):
            if skills.pick_done(state.gripper_width_m, True, z, run.grasp_z_m):
                self._enter(Phase.PLACE, state)
            else:
                self.fail("grasp_lost", state, f"width {state.gripper_width_m * 1e3:.1f} mm at height {z:.3f} m")
        return None

    def _place(self, state: RobotState, estimate: Estimate | None) -> Motion | None:
        return Motion(policy_target=self.run.place.target, gripper_m=self._grip(0.0))

    def _release(self, state: RobotState, estimate: Estimate | None) -> Motion | None:
        run = self.run
        if run.path is None:
            run.path = trajectory.brake(state.stamp_s, state.q_commanded_rad, state.qd_commanded_rad_s, 4.0)
        over_box = cell.BOX.contains(kinematics.pose_base_link_tool(state.q_rad)[:2, 3], margin_m=cell.CUBE_SIZE_M / 2)
        opening = self._grip(self.plan_config.opening_m) if run.path.over(state.stamp_s) else None
        motion = self._follow(state, gripper_m=opening)
        run.steady = run.steady + 1 if skills.released(state.gripper_width_m, self._closed(state)) else 0
        if run.steady >= 2 and over_box and not state.payload_due:
            run.placed += 1
            self.used_points.add(run.place.point)
            run.place = None
            run.consecutive, run.tried, run.prefer, run.turn_next, run.avoid = 0, (), None, False, frozenset()
            self._enter(Phase.RETREAT, state)
        return motion

    def _retreat(self, state: RobotState, estimate: Estimate | None) -> Motion | None:
        if self.run.path is None:
            self.run.path = self._straight_up(state, self.config.clear_z_m)
        return self._then(state, Phase.HOME)

    def _home(self, state: RobotState, estimate: Estimate | None) -> Motion | None:
        run = self.run
        if run.path is None:
            run.path = self._joint_move(state, cell.HOME_Q_RAD)
        return self._then(state, Phase.OBSERVE)

    def _back_off(self, state: RobotState, estimate: Estimate | None) -> Motion | None:
        run = self.run
        if run.path is None:
            if not self._still(state):
                return replace(self._braking(state), gripper_m=self._grip(0.0) if run.place else None)
            run.path = self._straight_up(state, self.config.clear_z_m)
        motion = self._then(state, run.after_back_off)
        opening = self._grip(0.0 if run.place else self.plan_config.opening_m)
        return replace(motion or self._follow(state), gripper_m=opening)

    def _blind(self, state: RobotState, estimate: Estimate | None) -> Motion | None:
        if estimate is not None and estimate.mode is not EstimateMode.LOST:
            self.fail("target_lost", state, "perception was lost and came back")
        elif state.stamp_s - self.run.entered_s > self.config.blind_limit_s:
            limit_s = self.config.blind_limit_s
            self._finish(Code.PERCEPTION_LOST, f"no estimate for {limit_s:.0f} s: check camera and perception")
        return self._braking(state)

    def _diagnose(self, state: RobotState, estimate: Estimate | None) -> Motion | None:
        late = state.stamp_s - self.run.entered_s > self.config.rest_deadline_s
        if late or self._still(state) and state.at_rest:
            self._finish(self.run.code, self.run.message)  # the agent waits for rest, and says when it stays unknown
        return self._braking(state)

    # -- parts ------------------------------------------------------------------------------------------------------
    def _enter(self, phase: Phase, state: RobotState) -> None:
        run = self.run
        run.phase, run.entered_s, run.path, run.steady = phase, state.stamp_s, None, 0
        run.gripper_m, run.last_grip, run.speed = None, "", 1.0
        if phase is Phase.OBSERVE:
            run.seen, run.empty_since_s = set(), None

    def restart_phase(self, state: RobotState) -> None:
        """Begin the present phase anew: nothing of it is under way, its time starts now; the fingers stay watched."""
        if not self.finished:
            steady = self.run.steady
            self._enter(self.run.phase, state)
            self.run.steady = steady

    def _finish(self, code: Code, message: str) -> None:
        self.run.phase, self.run.code, self.run.message, self.run.path = Phase.DONE, code, message, None

    def _watch_perception(self, state: RobotState, estimate: Estimate | None) -> None:
        blind = estimate is None or estimate.mode is EstimateMode.LOST
        if blind and self.run.phase not in (Phase.OBSERVE, Phase.BLIND, Phase.DIAGNOSE, Phase.DONE):
            if estimate is None and self.run.phase in (Phase.BACK_OFF, Phase.HOME):
                return  # getting out of the camera's way needs no camera; OBSERVE then waits for it
            self._enter(Phase.BLIND, state)

    def _follow_object(self, state: RobotState, estimate: Estimate | None) -> None:
        """Keep the target on its object while it is measured; fail when it is gone or has moved away."""
        run, plan = self.run, self.run.pick
        o = next((o for o in estimate.objects if o.object_id == plan.object_id), None) if estimate else None
        hidden_s = min(o.age_s, state.stamp_s - run.entered_s) if o else 0.0  # since this approach began
        if o is None or hidden_s > self.config.target_age_max_s or o.age_s > self.config.target_age_limit_s:
            self.fail("target_lost", state, "track ended" if o is None else f"unmeasured for {o.age_s:.2f} s")
            return
        moved = float(np.linalg.norm(o.position_m[:2] - plan.target.position_m[:2]))
        if moved > self.config.target_moved_m:
            self.fail("target_moved", state, f"{moved * 1e3:.0f} mm from where it was chosen")

    def _late(self, state: RobotState) -> bool:
        """Whether the step has missed its deadline, and failed by it. Steps that then end the task look themselves."""
        run, row = self.run, PHASES[self.run.phase]
        waited_s = state.stamp_s - run.entered_s
        if not row.late or waited_s <= getattr(self.config, row.deadline_field):
            return False
        detail = f"width {state.gripper_width_m * 1e3:.1f} mm after {waited_s:.1f} s"
        if row.late == "step_deadline":
            asked = f": {run.last_grip}" if run.last_grip else ""
            detail = f"{run.phase.value} not done in {waited_s:.1f} s{asked}"
        self.fail(row.late, state, detail)
        return True

    def _then(self, state: RobotState, phase: Phase) -> Motion | None:
        """Follow the path; go on to `phase` on arrival."""
        motion = self._follow(state)
        if self._arrived(state):
            self._enter(phase, state)
        return motion

    def _follow(self, state: RobotState, gripper_m: float | None = None) -> Motion:
        path = self.run.path
        if path is None:
            return Motion(gripper_m=gripper_m)
        if np.abs(path.q_rad(state.stamp_s) - state.q_commanded_rad).max() > self.config.diverged_rad:
            self.run.path = None  # refused or braked meanwhile: planned anew from where the arm is
            return Motion(gripper_m=gripper_m)
        return Motion(path.waypoints(state.stamp_s, self.config.window, PERIOD_S), gripper_m=gripper_m)

    def _arrived(self, state: RobotState) -> bool:
        path = self.run.path
        return (
            path is not None and path.over(state.stamp_s)
            and bool(np.abs(path.goal_q_rad - state.q_rad).max() < self.config.arrived_rad)
        )

    def _braking(self, state: RobotState) -> Motion:
        path = trajectory.brake(state.stamp_s, state.q_commanded_rad, state.qd_commanded_rad_s, 4.0)
        return Motion() if self._still(state) else Motion(path.waypoints(state.stamp_s, self.config.window, PERIOD_S))

    def _straight_up(self, state: RobotState, z_m: float) -> trajectory.Trajectory:
        pose = kinematics.pose_base_link_tool(state.q_commanded_rad)
        goal = np.array([*pose[:2, 3], max(z_m, float(pose[2, 3]))])
        yaw = float(np.arctan2(pose[1, 0], pose[0, 0]))
        c = self.config
        return trajectory.tool_line(
            state.stamp_s, state.q_commanded_rad, goal, yaw, c.tool_velocity_m_s, c.tool_acceleration_m_s2
        )

    def _joint_move(self, state: RobotState, goal_q_rad: np.ndarray) -> trajectory.Trajectory:
        c = self.config
        return trajectory.joint_move(
            state.stamp_s, state.q_commanded_rad, state.qd_commanded_rad_s, goal_q_rad,
            c.joint_velocity_rad_s, c.joint_acceleration_rad_s2,
        )

    def _grip(self, width_m: float) -> float | None:
        """The opening to command, once per phase (the agent repeats it until the guard reports it)."""
        changed = self.run.gripper_m != width_m
        self.run.gripper_m = width_m
        return width_m if changed else None

    @staticmethod
    def _still(state: RobotState) -> bool:
        return bool(np.abs(state.qd_commanded_rad_s).max() < 0.02)

    @staticmethod
    def _closed(state: RobotState) -> bool:
        return state.gripper_commanded_m < 0.02

    def _holds(self, state: RobotState) -> bool:
        return skills.grasp_verified(state.gripper_width_m, self._closed(state))

    @staticmethod
    def _between_fingers(state: RobotState) -> bool:
        """An object by the measured width alone: fingers told to open may still hold one."""
        return skills.grasp_verified(state.gripper_width_m, True)
