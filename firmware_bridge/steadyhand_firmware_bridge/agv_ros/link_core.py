"""What the link process decides: which velocity goes out now, and when Nav2 is told to end. Pure.

Set-points go out as a ramp. Whatever ends an arming (a stop, the guard's silence or death, this process being held up)
ends in the same way: goals cancelled, velocity to zero by the load's stop ramp, and zero held from then on.
"""
from __future__ import annotations

import enum
import math
from dataclasses import dataclass

from steadyhand_firmware_bridge.agv_ros import ramp
from steadyhand_firmware_bridge.agv_ros.config import RosVehicleConfig
from steadyhand_firmware_bridge.agv_ros.ramp import ZERO, Twist
from steadyhand_firmware_bridge.agv_ros.wire import Alive, Begin, Goal, Halt, Hold, SetPoint, Status

MEASURED_S = 0.5  # a stop under Nav2 begins at a velocity that was measured so lately, else at zero
CANCEL_AGAIN_S = 0.3
LINGER_S = 0.5  # zero is told for so long after the guard's end


class Stage(enum.Enum):
    """What goes out."""

    SILENT = "silent"  # nothing: never armed
    FOLLOWING = "following"  # the ramp to the newest set-point
    NAVIGATING = "navigating"  # nothing: Nav2 drives, by its own publisher
    HELD = "held"  # the ramp to zero, then zero, until it is resumed
    STOPPED = "stopped"  # the stop's ramp to zero, then zero, until the next arming


class GoalState(enum.Enum):
    """Where the newest goal stands in Nav2."""

    NONE = ""
    SENT = "sent"
    UNDER_WAY = "under way"
    ARRIVED = "arrived"
    FAILED = "failed"


@dataclass(frozen=True)
class Navigation:
    """What is known of Nav2. `busy`: a goal is under way, or was sent and not answered."""

    seq: int = 0
    state: GoalState = GoalState.NONE
    detail: str = ""
    busy: bool = False


@dataclass(frozen=True)
class Publish:
    """One message on cmd_vel."""

    velocity: Twist


@dataclass(frozen=True)
class SendGoal:
    """A goal for Nav2."""

    goal: Goal


@dataclass(frozen=True)
class CancelGoals:
    """Every goal, whoever's it is."""


Act = Publish | SendGoal | CancelGoals


class LinkCore:
    """`take` what the guard says, `measured` what the base says; `step` once per cycle gives what goes out."""

    def __init__(self, config: RosVehicleConfig, now_s: float):
        self.config = config
        self.stage, self.token, self.ended = Stage.SILENT, 0, ""
        self.velocity: Twist = ZERO
        self.counts: dict[str, int] = {}
        self.navigation = Navigation()
        self._set_point: SetPoint | None = None
        self._seq = 0  # of the newest set-point or goal
        self._goal: Goal | None = None  # to be sent
        self._alive_s = self._step_s = now_s
        self._measured: tuple[Twist, float] = (ZERO, -math.inf)
        self._cancel_s = -math.inf  # when to cancel next
        self._cancelled = True
        self._gone_s: float | None = None  # since when the guard is gone

    # --- what comes in ---

    def take(self, message: object, now_s: float) -> None:
        """One message of the guard."""
        match message:
            case Alive(stamp_s):
                self._alive_s = max(self._alive_s, min(stamp_s, now_s))
            case Begin():
                self._begin(message, now_s)
            case Halt():
                self._stop("", now_s)
            case Hold(token, on):
                self._hold(token, on, now_s)
            case SetPoint():
                self._take_set_point(message, now_s)
            case Goal():
                self._take_goal(message, now_s)
            case _:
                self._count("strange")

    def measured(self, twist: Twist, arrival_s: float) -> None:
        """Newest twist of the odometry; what is not finite is left out."""
        if all(map(math.isfinite, twist)):
            self._measured = twist, arrival_s

    def guard_gone(self, now_s: float) -> None:
        """The socket ended: brake, and then end."""
        if self._gone_s is None:
            self._gone_s = now_s
            if self.stage is not Stage.SILENT:
                self._stop("the guard's process is gone", now_s)

    def done(self, now_s: float) -> bool:
        """Whether the process may end: the guard is gone, and zero has been told for a while."""
        if self._gone_s is None:
            return False
        told = self.stage is Stage.SILENT or self.velocity == ZERO and not self.navigation.busy
        longest_s = LINGER_S + self._longest_stop_s()
        return told and now_s - self._gone_s > (0.0 if self.stage is Stage.SILENT else LINGER_S) or (
            now_s - self._gone_s > 2.0 * longest_s
        )

    def _longest_stop_s(self) -> float:
        load = self.config.limits
        return max(load.speed_m_s / load.stop_m_s2, load.omega_rad_s / load.omega_stop_rad_s2)

    def _begin(self, message: Begin, now_s: float) -> None:
        if message.token <= 0 or self._old(message.stamp_s, now_s):
            return self._count("arming_refused")
        if message.token == self.token:
            return None  # told again, before our answer came
        self.token, self.ended = message.token, ""
        self._set_point, self._goal, self._seq, self._cancelled = None, None, 0, True
        self._alive_s = now_s
        self.stage = Stage.NAVIGATING if self.config.nav2 else Stage.FOLLOWING
        return None

    def _hold(self, token: int, on: bool, now_s: float) -> None:
        if not self.token or token != self.token:
            return self._count("foreign")
        if on and self.stage is not Stage.HELD:
            self._brake_from_here(now_s)
            self.stage = Stage.HELD
        elif not on and self.stage is Stage.HELD:
            self.stage = Stage.NAVIGATING if self.config.nav2 else Stage.FOLLOWING
        return None

    def _take_set_point(self, message: SetPoint, now_s: float) -> None:
        v = (message.vx_m_s, message.vy_m_s, message.omega_rad_s)
        reason = self._refused(message, now_s, Stage.FOLLOWING)
        if not reason and (not all(map(math.isfinite, v)) or ramp.above(v, self.config.limits, self.config.holonomic)):
            reason = "beyond_limits"
        if reason:
            return self._count(reason)
        self._seq, self._set_point = message.seq, message
        return None

    def _take_goal(self, message: Goal, now_s: float) -> None:
        reason = self._refused(message, now_s, Stage.NAVIGATING)
        if not reason and not all(map(math.isfinite, (message.x_m, message.y_m, message.yaw_rad))):
            reason = "beyond_limits"
        if reason:
            return self._count(reason)
        self._seq, self._goal = message.seq, message
        return None

    def _refused(self, message: SetPoint | Goal, now_s: float, stage: Stage) -> str:
        """Why a command is not taken: foreign, of a stopped arming, reordered, late."""
        if not self.token or message.token != self.token:
            return "foreign"
        if self.stage is not stage:
            return "not_now"
        if message.seq <= self._seq:
            return "reordered"
        return "expired" if self._old(message.stamp_s, now_s) else ""

    def _old(self, stamp_s: float, now_s: float) -> bool:
        return not -0.001 <= now_s - stamp_s <= self.config.expire_s

    # --- stopping ---

    def _stop(self, why: str, now_s: float, as_measured: bool = False) -> None:
        if self.stage is not Stage.STOPPED:
            self._brake_from_here(now_s, as_measured)
        self.stage, self.token = Stage.STOPPED, 0
        self.ended = self.ended or why
        self._set_point = None

    def _brake_from_here(self, now_s: float, as_measured: bool = False) -> None:
        """The ramp begins at what was commanded; at what is measured where somebody else commanded."""
        if as_measured or self.stage in (Stage.SILENT, Stage.NAVIGATING):
            twist, arrival_s = self._measured
            self.velocity = self._bounded(twist) if now_s - arrival_s <= MEASURED_S else ZERO
        self._goal = None
        self._cancelled, self._cancel_s = False, now_s

    def _bounded(self, twist: Twist) -> Twist:
        """A measured velocity, to begin a ramp at: never more than the load may move at, whatever was measured."""
        load, side = self.config.limits, twist[1] if self.config.holonomic else 0.0
        share = max(math.hypot(twist[0], side) / load.speed_m_s, abs(twist[2]) / load.omega_rad_s, 1.0)
        return twist[0] / share, side / share, twist[2] / share

    # --- what goes out ---

    def step(self, now_s: float) -> list[Act]:
        """What goes out in this cycle."""
        dt_s, self._step_s = now_s - self._step_s, now_s
        if self.token:
            if dt_s > self.config.guard_silence_s:  # the base may have stopped by itself: no going on at the old speed
                self._stop(f"the link process was held up for {dt_s:.2f} s", now_s, as_measured=True)
            elif now_s - self._alive_s > self.config.guard_silence_s:
                self._stop(f"the guard was silent for more than {self.config.guard_silence_s * 1e3:.0f} ms", now_s)
        self._ramp(min(dt_s, 2.0 / self.config.hz), now_s)
        acts: list[Act] = []
        if self.config.nav2:
            acts += self._navigate(now_s)
        if self.stage not in (Stage.SILENT, Stage.NAVIGATING):
            acts.append(Publish(self.velocity))
        return acts

    def _ramp(self, dt_s: float, now_s: float) -> None:
        load = self.config.limits
        if self.stage is Stage.FOLLOWING and self._set_point is not None:
            p = self._set_point
            if not self._old(p.stamp_s, now_s):
                self.velocity = ramp.follow(self.velocity, (p.vx_m_s, p.vy_m_s, p.omega_rad_s), load, dt_s)
                return
            self._set_point = None
            if (p.vx_m_s, p.vy_m_s, p.omega_rad_s) != ZERO:
                self._count("ran_out")
        if self.stage is Stage.HELD:
            self.velocity = ramp.brake(self.velocity, load.decel_m_s2, load.omega_decel_rad_s2, dt_s)
        else:
            self.velocity = ramp.stop(self.velocity, load, dt_s)

    def _navigate(self, now_s: float) -> list[Act]:
        if self.stage is Stage.NAVIGATING:
            goal, self._goal = self._goal, None
            return [SendGoal(goal)] if goal is not None else []
        if now_s < self._cancel_s or (self._cancelled and not self.navigation.busy):
            return []
        if self.stage is Stage.SILENT:
            return []
        self._cancelled, self._cancel_s = True, now_s + CANCEL_AGAIN_S
        return [CancelGoals()]

    def status(self, now_s: float) -> Status:
        """What the guard is told."""
        n = self.navigation
        return Status(
            now_s, self.token, self.stage.value, self.ended, list(self.velocity), n.seq, n.state.value, n.detail[:200],
            n.busy, dict(self.counts),
        )  # fmt: skip

    def _count(self, name: str) -> None:
        self.counts[name] = self.counts.get(name, 0) + 1
