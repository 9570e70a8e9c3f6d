"""The ROS bridge's both sides in one process and in virtual time: `RosAgv`, `LinkCore`, and a base that drives.

Only ROS is left out: what goes over the socket is encoded and decoded, what the graph tells is set by the test.
"""
import dataclasses
import math

from steadyhand_firmware_bridge.agv_ros import wire
from steadyhand_firmware_bridge.agv_ros.agv import RosAgv
from steadyhand_firmware_bridge.agv_ros.config import LoadLimits, RosVehicleConfig
from steadyhand_firmware_bridge.agv_ros.link_core import (
    CancelGoals, GoalState, LinkCore, Navigation, Publish, SendGoal,
)

LOADS = {"empty": LoadLimits(stop_m_s2=1.2), "pallet": LoadLimits(decel_m_s2=0.2, stop_m_s2=0.3)}
BASE_TIMEOUT_S = 0.5
NAV_SPEED_M_S, NAV_DECEL_M_S2 = 0.4, 0.5


def config(**changes):
    return RosVehicleConfig(**{"loads": LOADS, "load": "empty", **changes})


class Base:
    """Follows at once what it is told, stands when it hears nothing for half a second."""

    def __init__(self):
        self.x_m, self.y_m, self.yaw, self.v = 0.0, 0.0, 0.0, (0.0, 0.0, 0.0)
        self.told, self.told_s = (0.0, 0.0, 0.0), -math.inf

    def step(self, now_s, dt_s):
        self.v = self.told if now_s - self.told_s <= BASE_TIMEOUT_S else (0.0, 0.0, 0.0)
        self.yaw += self.v[2] * dt_s
        self.x_m += (self.v[0] * math.cos(self.yaw) - self.v[1] * math.sin(self.yaw)) * dt_s
        self.y_m += (self.v[0] * math.sin(self.yaw) + self.v[1] * math.cos(self.yaw)) * dt_s


class Nav:
    """Nav2, as far as a goal on a straight line goes: drives by itself, brakes by itself after a cancellation."""

    def __init__(self):
        self.goal, self.state, self.v, self.deaf = None, Navigation(), 0.0, False
        self.foreign = 0
        self.goals = []

    def step(self, base, dt_s):
        if self.goal is None:
            self.v = max(0.0, self.v - NAV_DECEL_M_S2 * dt_s)
            return
        left_m = math.hypot(self.goal.x_m - base.x_m, self.goal.y_m - base.y_m)
        self.v = min(NAV_SPEED_M_S, self.v + NAV_DECEL_M_S2 * dt_s, math.sqrt(2 * NAV_DECEL_M_S2 * left_m) + 0.01)
        if left_m < 0.05:
            self.v, self.goal = 0.0, None
            self.state = dataclasses.replace(self.state, state=GoalState.ARRIVED, busy=False)

    def act(self, act):
        if isinstance(act, SendGoal):
            self.goal = act.goal
            self.goals.append(act.goal)
            self.state = Navigation(act.goal.seq, GoalState.UNDER_WAY, "", True)
        elif not self.deaf:
            self.goal, self.foreign = None, 0
            self.state = dataclasses.replace(self.state, state=GoalState.FAILED, detail="cancelled", busy=False)


class World:
    """Time, base, Nav2 and the link between them. `spoil(odom)` may change what the base tells, or swallow it."""

    def __init__(self, config, now_s=100.0):
        self.config, self.now_s, self.started = config, now_s, 0
        self.base, self.nav = Base(), Nav()
        self.clock_s = 1e6  # of the base, ahead of ours
        self.spoil = lambda odom: odom
        self.graph = {
            "takers": [["/base", f"geometry_msgs/msg/{config.cmd_vel_type}"]], "matched": 1, "others": [],
            "odom": [["/base", "nav_msgs/msg/Odometry"]],
        }  # fmt: skip
        self.link_frozen = False
        self.link = None
        self.published = []  # (time, velocity)
        self.agv = RosAgv(config, self._open)

    def _open(self, config):
        self.started += 1
        self.link = InProcessLink(config, self)
        return self.link

    def tick(self, guard=True):
        """One period; the guard polls unless it is `frozen`."""
        dt_s = self.agv.period_s
        self.now_s += dt_s
        self.clock_s += dt_s
        if self.link is not None and not self.link_frozen:
            self.link.cycle(self.now_s)
        if self.config.nav2:
            self.nav.step(self.base, dt_s)
            if self.now_s - self.base.told_s > 0.1:  # a mux: ours comes first
                self.base.v = (self.nav.v, 0.0, 0.0)
                self.base.x_m += self.nav.v * math.cos(self.base.yaw) * dt_s
            else:
                self.base.step(self.now_s, dt_s)
        else:
            self.base.step(self.now_s, dt_s)
        odom = wire.Odom(
            self.now_s, self.clock_s, "odom", "base_link",
            [self.base.x_m, self.base.y_m, 0.0, 0.0, 0.0, math.sin(self.base.yaw / 2), math.cos(self.base.yaw / 2)],
            [self.base.v[0], self.base.v[1], 0.0, 0.0, 0.0, self.base.v[2]],
        )  # fmt: skip
        odom = self.spoil(odom)
        if odom is not None and self.link is not None:
            self.link.odometry(odom)
        if guard:
            self.agv.poll(self.now_s)

    def run(self, seconds, each=lambda: None, until=None, guard=True):
        for _ in range(round(seconds / self.agv.period_s)):
            self.tick(guard)
            each()
            if until is not None and until():
                return True
        return until is None


class InProcessLink:
    """`link_process.Link` around a `LinkCore`. `crash` ends it as a process would end."""

    def __init__(self, config, world):
        self.core, self.world = LinkCore(config, world.now_s), world
        self._to_link, self._to_guard, self._why = [], [], ""

    def cycle(self, now_s):
        for packet in self._to_link:
            self.core.take(wire.decode(packet), now_s)
        self._to_link.clear()
        self.core.navigation = self.world.nav.state
        for act in self.core.step(now_s):
            if isinstance(act, Publish):
                self.world.published.append((now_s, act.velocity))
                self.world.base.told, self.world.base.told_s = act.velocity, now_s
            else:
                assert isinstance(act, (SendGoal, CancelGoals))
                self.world.nav.act(act)
        self._tell(wire.Graph(now_s, **self.world.graph, foreign_goals=self.world.nav.foreign))
        self._tell(self.core.status(now_s))

    def odometry(self, odom):
        self.core.measured((odom.twist[0], odom.twist[1], odom.twist[5]), odom.arrival_s)
        self._tell(odom)

    def _tell(self, message):
        if not self._why:
            self._to_guard.append(wire.encode(message))

    def crash(self):
        self._why, self.world.link = "exit code -9", None

    def send(self, message):
        if not self._why:
            self._to_link.append(wire.encode(message))
        return not self._why

    def receive(self):
        found, self._to_guard = [wire.decode(p) for p in self._to_guard], []
        return found

    def dead(self):
        return self._why

    def readable(self):
        return []

    def kill(self):
        self.crash()

    def drop(self):
        self._why = self._why or "closed"

    close = drop
