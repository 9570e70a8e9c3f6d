"""The calls of the stock `ur_rtde` clients against the emulated controller: one table, each entry with its effect.

`TABLE` is in the order of execution: an entry leaves the arm at rest, the control script running and the robot ready.
An entry proves by another client, or at the pendant, that the call did what its documentation says; "returned True"
alone proves nothing. Calls whose effect is not modelled (force mode, forces of contact control, safety popups) are not in
it.
"""
from __future__ import annotations

import contextlib
import json
import math
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks._controller_process import ControllerProcess, until
from steadyhand import cell
from steadyhand.slot import current_slot
from steadyhand_sim.ur_controller import frames

# End of a custom script: the client waits until it says so in the register of the control script.
DONE = "  sleep(0.5)\n  write_output_integer_register(0, 2)\nend\n"
BOTH, E_SERIES = ("cb3", "e_series"), ("e_series",)
HOME = [float(q) for q in cell.HOME_Q_RAD]


@dataclass(frozen=True)
class Call:
    """`name` is client.method; `check(session)` raises AssertionError when the effect is not there."""

    name: str
    check: Callable[[Session], None]
    generations: tuple[str, ...]


TABLE: list[Call] = []


def call(name: str, generations: tuple[str, ...] = BOTH) -> Callable:
    """Put a check into the table."""

    def put(check: Callable[[Session], None]) -> Callable[[Session], None]:
        TABLE.append(Call(name, check, generations))
        return check

    return put


class Session:
    """All stock clients on one emulated controller."""

    def __init__(self, robot: ControllerProcess, generation: str):
        import dashboard_client
        import rtde_control
        import rtde_io
        import rtde_receive

        self.robot, self.generation, self.module = robot, generation, rtde_control
        self.control = rtde_control.RTDEControlInterface(robot.host)
        self.receive = rtde_receive.RTDEReceiveInterface(robot.host)
        self.io = rtde_io.RTDEIOInterface(robot.host)
        self.dashboard = dashboard_client.DashboardClient(robot.host)
        self.dashboard.connect()

    @property
    def period_s(self) -> float:
        """Control cycle."""
        return 0.002 if self.generation == "e_series" else 0.008

    @property
    def q(self) -> np.ndarray:
        """(6,) target joints."""
        return np.array(self.receive.getTargetQ())

    @property
    def pose(self) -> np.ndarray:
        """(6,) measured tool pose in `base`."""
        return np.array(self.receive.getActualTCPPose())

    @property
    def speed(self) -> float:
        """Greatest measured joint speed."""
        return max(abs(v) for v in self.receive.getActualQd())

    def rest(self) -> None:
        """Until the arm stands."""
        until(lambda: self.speed < 0.005, 10.0, "the arm at rest")

    def home(self) -> None:
        """Back to where every entry may begin."""
        assert self.control.moveJ(HOME, 2.0, 4.0)
        self.rest()

    def at(self, q=None, pose=None) -> None:
        """The arm stands at these joints, or with the tool there (mm)."""
        self.rest()
        if q is not None:
            assert np.abs(np.array(self.receive.getActualQ()) - q).max() < 2e-3, (self.receive.getActualQ(), q)
        if pose is not None:
            assert np.abs(self.pose[:3] - pose[:3]).max() < 1e-3, (self.pose, pose)

    def sampled(self, act: Callable[[], object], read: Callable[[], object]) -> list:
        """What `read` gives each 2 ms while `act` starts something and until the arm rests again."""
        act()
        until(lambda: self.speed > 0.01, 5.0, "motion")
        rows, still = [], 0
        end_s = time.monotonic() + 15.0
        while still < 20 and time.monotonic() < end_s:
            rows.append(read())
            still = still + 1 if self.speed < 0.005 else 0
            time.sleep(0.002)
        return rows

    def reupload(self) -> None:
        """The control script runs again after the robot was stopped."""
        assert self.control.reuploadScript()
        until(self.control.isProgramRunning, 5.0, "the control script")

    def ready(self) -> None:
        """RUNNING, NORMAL, script up."""
        until(lambda: self.receive.getRobotMode() == 7 and self.receive.getSafetyMode() == 1, 10.0, "a ready robot")
        self.reupload()

    def close(self) -> None:
        """End the clients."""
        self.control.stopScript()
        for client in (self.control, self.receive, self.io, self.dashboard):
            client.disconnect()


def lifted(pose: np.ndarray, metres: float = 0.03) -> list[float]:
    """The pose, higher."""
    return [*pose[:2].tolist(), float(pose[2]) + metres, *pose[3:].tolist()]


# --- connections and states ---


@call("control.isConnected")
def _(s):
    assert s.control.isConnected() and s.robot.state["program"] == "rtde_control"


@call("control.isProgramRunning")
def _(s):
    assert s.control.isProgramRunning() and s.robot.state["runtime_state"] == "PLAYING"


@call("control.getRobotStatus")
def _(s):
    assert s.control.getRobotStatus() == 0b11  # power on, program running


@call("receive.getTimestamp")
def _(s):
    first = s.receive.getTimestamp()
    until(lambda: s.receive.getTimestamp() > first + 0.05)
    cycles = (s.receive.getTimestamp() - first) / s.period_s
    assert abs(cycles - round(cycles)) < 1e-3


@call("receive.getActualQ")
def _(s):
    assert np.abs(np.array(s.receive.getActualQ()) - HOME).max() < 1e-3


@call("receive.getActualTCPPose")
def _(s):
    wanted = frames.forward(s.q, np.array([0, 0, 0.135, 0, 0, 0]))
    assert np.abs(s.pose[:3] - wanted[:3]).max() < 1e-3


@call("receive.getRobotMode")
def _(s):
    assert s.receive.getRobotMode() == 7 and s.robot.state["robot_mode"] == "RUNNING"


@call("receive.getSafetyMode")
def _(s):
    s.robot.pendant("reduced_mode")
    until(lambda: s.receive.getSafetyMode() == 2)
    s.robot.pendant("normal_mode")
    until(lambda: s.receive.getSafetyMode() == 1)


@call("receive.getRuntimeState")
def _(s):
    s.robot.pendant("pause_program")
    until(lambda: s.receive.getRuntimeState() == 4)
    s.robot.pendant("play_program")
    until(lambda: s.receive.getRuntimeState() == 2 and s.control.isProgramRunning())


@call("receive.getJointMode")
def _(s):
    assert s.receive.getJointMode() == [253] * 6


# --- moves ---


@call("control.moveJ")
def _(s):
    goal = s.q + [0.2, -0.1, 0.1, -0.1, 0.1, 0.2]
    assert s.control.moveJ(goal.tolist(), 1.05, 1.4)
    s.at(goal)
    s.home()


@call("control.moveJ(path)")
def _(s):
    corner, goal = s.q + [0.4, 0, 0, 0, 0, 0], s.q + [0.4, -0.3, 0, 0, 0, 0]
    path = [[*corner, 1.0, 2.0, 0.08], [*goal, 1.0, 2.0, 0.0]]
    speeds = s.sampled(lambda: s.control.moveJ(path, True), lambda: (s.speed, s.receive.getActualQ()))
    s.at(goal)
    passing = [speed for speed, q in speeds if 0.3 < q[0] - HOME[0] < 0.399 and q[1] - HOME[1] < -0.005]
    assert passing and min(passing) > 0.1, "the arm stopped in the corner"
    s.home()


@call("control.moveJ_IK")
def _(s):
    goal = lifted(s.pose)
    assert s.control.moveJ_IK(goal, 1.0, 2.0)
    s.at(pose=goal)
    s.home()


@call("control.moveL")
def _(s):
    start, goal = s.pose, lifted(s.pose, 0.05)
    poses = s.sampled(lambda: s.control.moveL(goal, 0.25, 1.2, True), lambda: s.pose)
    s.at(pose=goal)
    assert max(float(np.abs(p[:2] - start[:2]).max()) for p in poses) < 1e-3, "not a straight line"
    s.home()


@call("control.moveL(path)")
def _(s):
    start = s.pose
    corner, goal = lifted(start, 0.05), lifted(start, 0.05)
    goal[1] += 0.05
    path = [[*corner, 0.2, 1.0, 0.02], [*goal, 0.2, 1.0, 0.0]]
    rows = s.sampled(lambda: s.control.moveL(path, True), lambda: (s.pose, s.receive.getActualTCPSpeed()))
    s.at(pose=goal)
    near = [(p, v) for p, v in rows if np.linalg.norm(p[:3] - np.array(corner[:3])) < 0.02]
    assert near and min(np.linalg.norm(v[:3]) for _, v in near) > 0.05, "the tool stopped in the corner"
    closest = min(np.linalg.norm(p[:3] - np.array(corner[:3])) for p, _ in near)
    assert 1e-3 < closest < 0.02, f"the corner was passed at {closest:.4f} m, blend radius 0.02 m"
    s.home()


@call("control.moveL_FK")
def _(s):
    goal = s.q + [0.1, 0, 0, 0, 0, 0]
    start, end = s.pose, frames.forward(goal, np.array([0, 0, 0.135, 0, 0, 0]))
    along = (end - start)[:3] / np.linalg.norm((end - start)[:3])
    poses = s.sampled(lambda: s.control.moveL_FK(goal.tolist(), 0.25, 1.2, True), lambda: s.pose)
    s.at(goal)
    off = [np.linalg.norm(np.cross(p[:3] - start[:3], along)) for p in poses]
    assert max(off) < 1e-3, "not a straight line"
    s.home()


@call("control.movePath")
def _(s):
    entry, path = s.module.PathEntry, s.module.Path()
    start = s.pose
    up, aside = lifted(start, 0.04), lifted(start, 0.04)
    aside[1] += 0.04
    path.addEntry(entry(entry.MoveJ, entry.PositionJoints, [*(s.q + [0.1, 0, 0, 0, 0, 0]), 1.0, 2.0, 0.0]))
    path.addEntry(entry(entry.MoveP, entry.PositionTcpPose, [*up, 0.2, 1.0, 0.01]))
    path.addEntry(entry(entry.MoveL, entry.PositionTcpPose, [*aside, 0.2, 1.0, 0.0]))
    assert s.control.movePath(path)
    s.at(pose=aside)
    s.home()


@call("control.getAsyncOperationProgress")
def _(s):
    assert s.control.moveJ((s.q + [0.3, 0, 0, 0, 0, 0]).tolist(), 0.5, 1.0, True)
    until(lambda: s.control.getAsyncOperationProgress() >= 0, 2.0, "an operation under way")
    until(lambda: s.control.getAsyncOperationProgress() < 0, 5.0, "its end")
    s.rest()
    s.home()


@call("control.getAsyncOperationProgressEx")
def _(s):
    before = s.control.getAsyncOperationProgressEx().operationId()
    assert s.control.moveJ((s.q + [0.3, 0, 0, 0, 0, 0]).tolist(), 0.5, 1.0, True)
    until(lambda: s.control.getAsyncOperationProgressEx().isAsyncOperationRunning(), 2.0, "an operation under way")
    assert s.control.getAsyncOperationProgressEx().operationId() != before
    until(lambda: not s.control.getAsyncOperationProgressEx().isAsyncOperationRunning(), 5.0, "its end")
    s.home()


@call("control.stopJ")
def _(s):
    goal = s.q + [0.6, 0, 0, 0, 0, 0]
    assert s.control.moveJ(goal.tolist(), 0.5, 1.0, True)
    until(lambda: s.receive.getActualQd()[0] > 0.3)
    s.control.stopJ(4.0)
    s.rest()
    assert s.receive.getActualQ()[0] < goal[0] - 0.1
    s.home()


@call("control.stopL")
def _(s):
    goal = lifted(s.pose, 0.10)
    assert s.control.moveL(goal, 0.1, 1.0, True)
    until(lambda: s.receive.getActualTCPSpeed()[2] > 0.08)
    s.control.stopL(2.0)
    s.rest()
    assert s.pose[2] < goal[2] - 0.02
    s.home()


# --- servo, speed, jog ---


def stream(s, send, seconds=1.0):
    """`send(phase)` once a control period for so long; phase runs from 0 to 1."""
    steps = round(seconds / s.period_s)
    for k in range(steps):
        period = s.control.initPeriod()
        assert send(k / steps)
        s.control.waitPeriod(period)


@call("control.servoJ")
def _(s):
    q0, seen = s.q, []

    def send(phase):
        seen.append(s.receive.getActualQ()[0] - q0[0])
        q = q0 + [0.1 * math.sin(math.pi * phase), 0, 0, 0, 0, 0]
        return s.control.servoJ(q.tolist(), 0.5, 0.5, s.period_s, 0.05, 1000)

    stream(s, send)
    assert 0.08 < max(seen) < 0.12
    assert s.control.servoStop(10.0)
    s.rest()
    s.home()


@call("control.servoStop")
def _(s):
    q0 = s.q

    def send(phase):
        return s.control.servoJ((q0 + [0.3 * phase, 0, 0, 0, 0, 0]).tolist(), 0.5, 0.5, s.period_s, 0.1, 300)

    stream(s, send)
    assert s.speed > 0.15
    assert s.control.servoStop(10.0)
    s.rest()
    s.home()


@call("control.servoL")
def _(s):
    start = s.pose

    def send(phase):
        return s.control.servoL(lifted(start, 0.04 * phase), 0.25, 0.5, s.period_s, 0.1, 600)

    stream(s, send)
    until(lambda: s.pose[2] - start[2] > 0.038, 2.0, "the tool 40 mm higher")
    assert np.abs(s.pose[:2] - start[:2]).max() < 2e-3
    assert s.control.servoStop(10.0)
    s.home()


@call("control.servoC")
def _(s):
    goal = lifted(s.pose, 0.04)
    goal[1] += 0.02
    fastest = 0.0
    # once: the stock script does not count servoC among its real-time commands, so the client's next call waits until
    # its own limit of 4 s and is refused, whatever the controller does
    assert s.control.servoC(goal, 0.1, 1.0, 0.0)
    end_s = time.monotonic() + 5.0
    while np.abs(s.pose[:3] - np.array(goal[:3])).max() > 1e-3 and time.monotonic() < end_s:
        fastest = max(fastest, float(np.linalg.norm(s.receive.getTargetTCPSpeed()[:3])))
    assert 0.08 < fastest < 0.105, f"tool speed {fastest:.3f} m/s, asked for 0.1"
    s.at(pose=goal)
    until(lambda: s.control.servoStop(10.0), 12.0, "the end of servoing")
    s.home()


@call("control.speedJ")
def _(s):
    assert s.control.speedJ([0.3, 0, 0, 0, 0, -0.2], 2.0)
    until(lambda: np.abs(np.array(s.receive.getActualQd()) - [0.3, 0, 0, 0, 0, -0.2]).max() < 0.02)
    assert s.control.speedStop(5.0)
    s.rest()
    s.home()


@call("control.speedStop")
def _(s):
    assert s.control.speedJ([0.3, 0, 0, 0, 0, 0], 2.0)
    until(lambda: s.speed > 0.28)
    assert s.control.speedStop(5.0)
    until(lambda: s.receive.getTargetQd() == [0.0] * 6)
    s.home()


@call("control.speedL")
def _(s):
    assert s.control.speedL([0, 0, 0.05, 0, 0, 0], 0.5)
    until(lambda: np.abs(np.array(s.receive.getActualTCPSpeed()) - [0, 0, 0.05, 0, 0, 0]).max() < 0.01)
    assert s.control.speedStop(2.0)
    s.rest()
    s.home()


@call("control.jogStart")
def _(s):
    start = s.pose
    assert s.control.jogStart([0.03, 0, 0, 0, 0, 0], s.control.FEATURE_BASE, 0.5)
    until(lambda: s.pose[0] - start[0] > 0.01, 3.0, "10 mm of jog along x of base")
    assert np.abs(s.pose[1:3] - start[1:3]).max() < 1e-3
    assert s.control.jogStop()
    s.home()


@call("control.jogStop")
def _(s):
    assert s.control.jogStart([0, 0, -0.03, 0, 0, 0], s.control.FEATURE_TOOL, 0.5)  # the tool's z points down
    start = s.pose
    until(lambda: s.pose[2] - start[2] > 0.005, 3.0, "jog along z of the tool")
    assert s.control.jogStop()
    s.rest()
    s.home()


# --- questions ---


@call("control.getForwardKinematics")
def _(s):
    q, tcp = HOME[:5] + [0.5], [0, 0, 0.2, 0, 0, 0]
    wanted = frames.forward(np.array(q), np.array(tcp, dtype=float))
    assert np.abs(np.array(s.control.getForwardKinematics(q, tcp)) - wanted).max() < 1e-6


@call("control.getInverseKinematics")
def _(s):
    goal = lifted(s.pose)
    q = np.array(s.control.getInverseKinematics(goal))
    assert np.abs(frames.forward(q, np.array([0, 0, 0.135, 0, 0, 0]))[:3] - goal[:3]).max() < 1e-4
    assert np.abs(q - HOME).max() < 1.0, "another branch of the arm"


@call("control.getInverseKinematicsHasSolution")
def _(s):
    far = [2.0, *s.pose[1:]]
    assert s.control.getInverseKinematicsHasSolution(s.pose.tolist())
    assert not s.control.getInverseKinematicsHasSolution(far)


@call("control.isPoseWithinSafetyLimits")
def _(s):
    assert s.control.isPoseWithinSafetyLimits(s.pose.tolist())
    assert not s.control.isPoseWithinSafetyLimits([2.0, *s.pose[1:]])


@call("control.isJointsWithinSafetyLimits")
def _(s):
    assert s.control.isJointsWithinSafetyLimits(HOME)
    assert not s.control.isJointsWithinSafetyLimits([7.0, *HOME[1:]])


@call("control.poseTrans")
def _(s):
    a, b = [0.1, 0.2, 0.3, 0.0, 0.0, 0.5], [0.05, 0, 0, 0.1, 0, 0]
    wanted = frames.pose_vector(frames.transform(a) @ frames.transform(b))
    assert np.abs(np.array(s.control.poseTrans(a, b)) - wanted).max() < 1e-6


@call("control.isSteady")
def _(s):
    assert until(s.control.isSteady, 3.0)
    assert s.control.speedJ([0.3, 0, 0, 0, 0, 0], 2.0)
    until(lambda: s.speed > 0.2)
    assert not s.control.isSteady()
    assert s.control.speedStop(5.0)
    s.home()


@call("control.getTCPOffset")
def _(s):
    assert np.abs(np.array(s.control.getTCPOffset()) - [0, 0, 0.135, 0, 0, 0]).max() < 1e-9


@call("control.setTcp")
def _(s):
    before = s.pose
    assert s.control.setTcp([0, 0, 0.235, 0, 0, 0])
    until(lambda: abs(np.linalg.norm((s.pose - before)[:3]) - 0.1) < 1e-3, 2.0, "a TCP 100 mm further")
    assert s.control.setTcp([0, 0, 0.135, 0, 0, 0])
    until(lambda: np.abs(s.pose - before).max() < 1e-3)


@call("control.getActualToolFlangePose")
def _(s):
    wanted = frames.forward(np.array(s.receive.getActualQ()), np.zeros(6))
    # a real-time command of the stock script: its answer is there some cycles after the call has returned
    until(lambda: np.abs(np.array(s.control.getActualToolFlangePose()) - wanted)[:3].max() < 1e-3)


@call("control.setPayload")
def _(s):
    assert s.control.setPayload(0.75, [0.0, 0.01, 0.05])
    until(lambda: s.receive.getPayload() == 0.75)
    assert s.robot.state["payload_kg"] == 0.75


@call("receive.getPayloadCog")
def _(s):
    assert np.abs(np.array(s.receive.getPayloadCog()) - [0.0, 0.01, 0.05]).max() < 1e-9


@call("control.setTargetPayload", E_SERIES)
def _(s):
    inertia = [0.001, 0.002, 0.003, 0.0, 0.0, 0.0]
    assert s.control.setTargetPayload(0.5, [0.0, 0.0, 0.02], inertia)
    until(lambda: s.receive.getPayload() == 0.5)
    assert np.abs(np.array(s.receive.getPayloadInertia()) - inertia).max() < 1e-9


@call("control.setGravity")
def _(s):
    assert s.control.setGravity([0.0, 9.82, 0.0])
    assert s.robot.state["gravity_m_s2"] == [0.0, 9.82, 0.0]
    assert s.control.setGravity([0.0, 0.0, 9.82])


@call("control.getStepTime", E_SERIES)
def _(s):
    until(lambda: s.control.getStepTime() == 0.002)


@call("control.getTargetWaypoint", E_SERIES)
def _(s):
    s.home()
    assert np.abs(np.array(s.control.getTargetWaypoint())[:3] - s.pose[:3]).max() < 1e-3


@call("control.getActualJointPositionsHistory", E_SERIES)
def _(s):
    assert s.control.speedJ([0.3, 0, 0, 0, 0, 0], 2.0)
    until(lambda: s.speed > 0.28)

    def behind():
        """How far the arm has come since: 50 cycles of 2 ms at 0.3 rad/s, and the time of the call."""
        return s.receive.getActualQ()[0] - s.control.getActualJointPositionsHistory(50)[0]

    until(lambda: 0.02 < behind() < 0.06)
    assert s.control.speedStop(5.0)
    s.home()


# --- freedrive and contact ---


@call("control.teachMode")
def _(s):
    assert s.control.teachMode()
    until(lambda: s.robot.state["freedrive"], 2.0, "freedrive")
    assert s.control.endTeachMode()


@call("control.endTeachMode")
def _(s):
    assert s.control.teachMode() and s.control.endTeachMode()
    until(lambda: not s.robot.state["freedrive"], 2.0, "the end of freedrive")
    s.home()


@call("control.freedriveMode", E_SERIES)
def _(s):
    assert s.control.freedriveMode([1, 0, 0, 0, 0, 0])
    until(lambda: s.robot.state["freedrive"], 2.0, "freedrive")
    assert s.control.endFreedriveMode()


@call("control.endFreedriveMode", E_SERIES)
def _(s):
    assert s.control.freedriveMode() and s.control.endFreedriveMode()
    until(lambda: not s.robot.state["freedrive"], 2.0, "the end of freedrive")
    s.home()


@call("control.toolContact", E_SERIES)
def _(s):
    down = [0, 0, -1, 0, 0, 0]
    until(lambda: s.control.toolContact(down) == 0)
    s.robot.pendant("touch 0 0 20")
    until(lambda: s.control.toolContact(down) > 0, 2.0, "a contact")
    until(lambda: s.control.toolContact([0, 0, 1, 0, 0, 0]) == 0, 2.0, "no contact in the other direction")
    s.robot.pendant("touch 0 0 0")
    until(lambda: s.control.toolContact(down) == 0, 2.0, "no contact")


@call("control.startContactDetection", E_SERIES)
def _(s):
    start = s.pose
    assert s.control.startContactDetection([0, 0, 1, 0, 0, 0])
    assert s.control.moveL(lifted(start, 0.08), 0.05, 0.5, True)
    until(lambda: s.receive.getActualTCPSpeed()[2] > 0.04)
    s.robot.pendant("touch 0 0 -20")
    # without a call meanwhile: the stock script loses its own reaction when another command ends in the same cycle
    s.rest()
    assert s.pose[2] < start[2] + 0.07, "the move went on after the contact"
    until(s.control.readContactDetection, 2.0, "a contact found")
    s.robot.pendant("touch 0 0 0")
    assert s.control.stopContactDetection()
    s.home()


@call("control.readContactDetection", E_SERIES)
def _(s):
    assert s.control.startContactDetection([0, 0, 1, 0, 0, 0])
    assert not s.control.readContactDetection()
    s.robot.pendant("touch 0 0 -20")
    until(s.control.readContactDetection, 2.0, "a contact found")
    s.robot.pendant("touch 0 0 0")
    assert s.control.stopContactDetection()
    s.home()


@call("control.moveUntilContact", E_SERIES)
def _(s):
    import threading

    start = s.pose
    press = threading.Timer(0.5, lambda: s.robot.pendant("touch 0 0 -20"))
    press.start()
    assert s.control.moveUntilContact([0, 0, 0.02, 0, 0, 0], [0, 0, 1, 0, 0, 0], 0.5)
    press.join(5.0)
    s.rest()
    assert 0.001 < s.pose[2] - start[2] < 0.05
    s.robot.pendant("touch 0 0 0")
    s.home()


@call("control.enableExternalFtSensor")
def _(s):
    # setExternalForceTorque of ur_rtde 1.6.5 sends its package under the number of another recipe: not in this table
    s.robot.pendant("touch 0 0 5")
    until(lambda: s.receive.getActualTCPForce()[2] == 5.0, 2.0, "the robot's own estimate")
    assert s.control.enableExternalFtSensor(True)
    until(lambda: s.receive.getActualTCPForce()[2] == 0.0, 2.0, "the external sensor's force in its place")
    assert s.control.enableExternalFtSensor(False)
    until(lambda: s.receive.getActualTCPForce()[2] == 5.0, 2.0, "the robot's own estimate again")
    s.robot.pendant("touch 0 0 0")


# --- scripts ---


@call("control.sendCustomScriptFunction")
def _(s):
    assert s.control.sendCustomScriptFunction("lamp", "set_standard_digital_out(4, True)")
    until(lambda: s.receive.getDigitalOutState(4), 2.0, "output 4")
    s.reupload()


@call("control.sendCustomScript")
def _(s):
    assert s.control.sendCustomScript("def lamp_off():\n  set_standard_digital_out(4, False)\n" + DONE)
    until(lambda: not s.receive.getDigitalOutState(4), 2.0, "output 4 off")
    s.reupload()


@call("control.setWatchdog")
def _(s):
    assert s.control.setWatchdog(5.0)
    until(lambda: not s.control.isProgramRunning(), 3.0, "the script stopped: no update for 0.2 s")
    s.reupload()


@call("control.kickWatchdog")
def _(s):
    assert s.control.setWatchdog(2.0)
    end_s = time.monotonic() + 1.5
    while time.monotonic() < end_s:
        assert s.control.kickWatchdog()
        time.sleep(0.02)
    assert s.control.isProgramRunning(), "stopped although it was fed"
    s.reupload()


@call("control.stopScript")
def _(s):
    s.control.stopScript()
    until(lambda: s.receive.getRuntimeState() == 1, 3.0, "the script ended")
    s.reupload()


@call("control.reuploadScript")
def _(s):
    programs = s.robot.state["counters"]["programs"]
    s.reupload()
    assert s.robot.state["counters"]["programs"] > programs
    s.home()


# --- inputs and outputs ---


@call("io.setStandardDigitalOut")
def _(s):
    for on in (True, False):
        assert s.io.setStandardDigitalOut(3, on)
        until(lambda: s.receive.getDigitalOutState(3) is on)  # noqa: B023


@call("io.setConfigurableDigitalOut")
def _(s):
    for on in (True, False):
        assert s.io.setConfigurableDigitalOut(2, on)
        until(lambda: s.receive.getDigitalOutState(10) is on)  # noqa: B023


@call("io.setToolDigitalOut")
def _(s):
    for on in (True, False):
        assert s.io.setToolDigitalOut(1, on)
        until(lambda: s.receive.getDigitalOutState(17) is on)  # noqa: B023


@call("io.setAnalogOutputVoltage")
def _(s):
    assert s.io.setAnalogOutputVoltage(0, 0.5)
    until(lambda: abs(s.receive.getStandardAnalogOutput0() - 5.0) < 1e-6)


@call("io.setAnalogOutputCurrent")
def _(s):
    assert s.io.setAnalogOutputCurrent(1, 0.25)
    until(lambda: abs(s.receive.getStandardAnalogOutput1() - 0.008) < 1e-9)


@call("io.setSpeedSlider")
def _(s):
    assert s.io.setSpeedSlider(0.2)
    until(lambda: s.receive.getTargetSpeedFraction() == 0.2 and s.receive.getSpeedScaling() < 0.25)
    assert s.control.moveJ((s.q + [0.3, 0, 0, 0, 0, 0]).tolist(), 1.0, 4.0, True)
    until(lambda: s.speed > 0.15)
    assert s.speed < 0.3, "the slider slowed nothing"
    assert s.io.setSpeedSlider(1.0)
    until(lambda: s.control.getAsyncOperationProgress() < 0, 8.0)
    s.home()


@call("io.setInputIntRegister")
def _(s):
    assert s.io.setInputIntRegister(20, 4711)
    program = "def echo():\n  write_output_integer_register(12, read_input_integer_register(20))\n" + DONE
    assert s.control.sendCustomScript(program)
    until(lambda: s.receive.getOutputIntRegister(12) == 4711, 2.0, "the register, echoed by a program")
    s.reupload()


@call("io.setInputDoubleRegister")
def _(s):
    assert s.io.setInputDoubleRegister(20, 2.5)
    program = "def echo():\n  write_output_float_register(12, read_input_float_register(20))\n" + DONE
    assert s.control.sendCustomScript(program)
    until(lambda: s.receive.getOutputDoubleRegister(12) == 2.5, 2.0, "the register, echoed by a program")
    s.reupload()


@call("receive.getDigitalInState")
def _(s):
    s.robot.pendant("digital_input 5 1")
    until(lambda: s.receive.getDigitalInState(5))
    s.robot.pendant("digital_input 5 0")
    until(lambda: not s.receive.getDigitalInState(5))


@call("receive.getStandardAnalogInput0")
def _(s):
    open_v = s.receive.getStandardAnalogInput0()
    assert s.io.setStandardDigitalOut(0, True)
    until(lambda: s.receive.getStandardAnalogInput0() < open_v - 1.0, 3.0, "the gripper closing")
    assert s.io.setStandardDigitalOut(0, False)
    until(lambda: abs(s.receive.getStandardAnalogInput0() - open_v) < 0.05, 3.0, "the gripper open")


# --- dashboard ---


@call("dashboard.polyscopeVersion")
def _(s):
    assert s.dashboard.polyscopeVersion().startswith("5.11.6" if s.generation == "e_series" else "3.15.8")


@call("dashboard.robotmode")
def _(s):
    assert "RUNNING" in s.dashboard.robotmode()


@call("dashboard.safetymode")
def _(s):
    assert "NORMAL" in s.dashboard.safetymode()


@call("dashboard.safetystatus", E_SERIES)
def _(s):
    s.robot.pendant("automatic_safeguard_stop")
    until(lambda: "AUTOMATIC_MODE_SAFEGUARD_STOP" in s.dashboard.safetystatus())
    assert "SAFEGUARD_STOP" in s.dashboard.safetymode()
    until(lambda: s.receive.getSafetyMode() == 5)
    s.robot.pendant("release_safeguard")
    s.ready()


@call("dashboard.getRobotModel")
def _(s):
    assert s.dashboard.getRobotModel() == "UR5"


@call("dashboard.getSerialNumber", E_SERIES)
def _(s):
    assert s.dashboard.getSerialNumber() == "20205500001"


@call("dashboard.isInRemoteControl", E_SERIES)
def _(s):
    assert s.dashboard.isInRemoteControl()
    s.robot.pendant("local_control")
    assert not s.dashboard.isInRemoteControl()


@call("dashboard.stop(local control)", E_SERIES)
def _(s):
    """Refused in local control, and still after the switch to remote, until this client has connected anew.

    Seen on robots: Universal_Robots_ROS_Driver issues 125 and 262, Universal_Robots_ROS2_Driver issue 181.
    """
    for control in ("local_control", "remote_control_on"):
        s.robot.pendant(control)
        try:
            s.dashboard.stop()
        except RuntimeError as error:
            assert "please switch robot to Remote Control mode and reconnect" in str(error), error
        else:
            raise AssertionError(f"not refused, {control}")
        assert s.control.isProgramRunning() and s.dashboard.running()
    s.dashboard.disconnect()
    s.dashboard.connect()
    s.dashboard.stop()
    until(lambda: s.receive.getRuntimeState() == 1)
    s.control.disconnect()  # it has a dashboard connection of its own, from before the switch
    assert s.control.reconnect()
    s.reupload()


@call("dashboard.popup")
def _(s):
    s.dashboard.popup("look here")
    assert s.robot.state["popup"] == "look here"


@call("dashboard.closePopup")
def _(s):
    s.dashboard.closePopup()
    assert s.robot.state["popup"] == ""


@call("dashboard.addToLog")
def _(s):
    s.dashboard.addToLog("conformance was here")
    assert "conformance was here" in s.robot.state["messages"]


@call("dashboard.running")
def _(s):
    assert s.dashboard.running()


@call("dashboard.programState")
def _(s):
    assert "PLAYING" in s.dashboard.programState()


@call("dashboard.stop")
def _(s):
    s.dashboard.stop()
    until(lambda: s.receive.getRuntimeState() == 1)
    assert not s.dashboard.running() and "STOPPED" in s.dashboard.programState()


@call("dashboard.loadURP")
def _(s):
    s.dashboard.loadURP("wave.urp")
    assert s.robot.state["loaded"] == "wave.urp"


@call("dashboard.getLoadedProgram")
def _(s):
    assert "wave.urp" in s.dashboard.getLoadedProgram()


@call("dashboard.play")
def _(s):
    s.dashboard.play()
    until(lambda: s.speed > 0.1, 3.0, "the loaded program moves the arm")
    assert "PLAYING" in s.dashboard.programState()


@call("dashboard.pause")
def _(s):
    s.dashboard.pause()
    s.rest()
    until(lambda: "PAUSED" in s.dashboard.programState())
    s.dashboard.stop()
    s.reupload()
    s.home()


@call("control.triggerProtectiveStop")
def _(s):
    s.control.triggerProtectiveStop()
    until(s.receive.isProtectiveStopped, 3.0, "a protective stop")
    assert s.receive.getSafetyMode() == 3


@call("receive.isProtectiveStopped")
def _(s):
    assert s.receive.isProtectiveStopped() and s.receive.getSafetyStatusBits() & 1 << 2


@call("dashboard.unlockProtectiveStop")
def _(s):
    refused = False

    def unlocked():
        nonlocal refused
        try:
            s.dashboard.unlockProtectiveStop()
        except RuntimeError as error:  # not before 5 s have passed
            refused = "until 5s" in str(error)
            return False
        return True

    s.dashboard.stop()
    until(unlocked, 10.0, "unlocking")
    assert refused, "unlocked at once"
    until(lambda: not s.receive.isProtectiveStopped(), 2.0)
    s.ready()
    s.home()


@call("receive.getRobotMode(in a stop)")
def _(s):
    """A category 2 stop leaves the power on, and the stop position is monitored: up to 0.05 rad are allowed.

    "User Manual UR5/CB3" 3.4.5: glossary, and 2.5.1 "Monitoring of safety inputs" (pages I-15, I-16).
    """
    s.control.triggerProtectiveStop()
    until(s.receive.isProtectiveStopped, 3.0, "a protective stop")
    s.rest()
    s.robot.pendant("shove 0 0.6")
    s.rest()
    assert s.receive.isProtectiveStopped() and s.receive.getRobotMode() == 7
    s.dashboard.stop()
    s.robot.pendant("unlock_protective_stop")
    s.ready()
    s.home()


@call("receive.getSafetyStatusBits")
def _(s):
    """A joint that is moved by more than 0.05 rad while a stop acts: category 0, a violation (bit 8), powered off.

    "User Manual UR5/CB3" 3.4.5, 2.5.1: "the safety system issues a Stop Category 0"; Remote Control via RTDE, safety
    status bits; the words are error C191A15's.
    """
    s.robot.pendant("safeguard_stop")
    until(lambda: s.receive.getSafetyStatusBits() & 1 << 4, 3.0, "a safeguard stop")
    s.rest()
    s.robot.pendant("shove 0 2.5")
    until(lambda: s.receive.getSafetyStatusBits() & 1 << 8, 3.0, "a violation")
    assert s.receive.getSafetyStatusBits() & 1 << 10
    until(lambda: s.receive.getSafetyMode() == 8 and s.receive.getRobotMode() == 3)
    assert "robot is moving in stop mode" in s.robot.state["messages"][-1]
    s.rest()


@call("dashboard.unlockProtectiveStop(violation)")
def _(s):
    """Neither unlocking nor the closed safeguard ends a violation: the safety system is restarted, then powered on.

    "Dashboard Server": restart safety, "used when robot gets a safety fault or violation"; afterwards it is in power off.
    "User Manual UR5e" 5.11: "when a safety limit is exceeded, the safety system must be restarted".
    """
    held = s.receive.getActualQ()
    s.robot.pendant("release_safeguard")
    with contextlib.suppress(RuntimeError):  # how this client says that it was refused
        s.dashboard.unlockProtectiveStop()
        raise AssertionError("unlocked")
    assert s.receive.getSafetyMode() == 8 and s.receive.getRobotMode() == 3
    assert np.abs(np.array(s.receive.getActualQ()) - held).max() < 1e-3, "the arm moved under its brakes"
    s.dashboard.restartSafety()
    until(lambda: s.receive.getSafetyMode() == 1)
    assert s.receive.getRobotMode() == 3
    s.dashboard.powerOn()
    until(lambda: s.receive.getRobotMode() == 5)
    s.dashboard.brakeRelease()
    s.ready()
    s.home()


@call("receive.isEmergencyStopped")
def _(s):
    s.robot.pendant("emergency_stop")
    until(s.receive.isEmergencyStopped)
    until(lambda: s.receive.getRobotMode() == 3)
    s.robot.pendant("release_emergency_stop")
    s.robot.pendant("stop_program")
    until(lambda: not s.receive.isEmergencyStopped())


@call("dashboard.powerOn")
def _(s):
    assert s.receive.getRobotMode() == 3
    s.dashboard.powerOn()
    until(lambda: s.receive.getRobotMode() == 5)


@call("dashboard.brakeRelease")
def _(s):
    s.dashboard.brakeRelease()
    until(lambda: s.receive.getRobotMode() == 7)
    s.ready()
    s.home()


@call("dashboard.powerOff")
def _(s):
    s.dashboard.powerOff()
    until(lambda: s.receive.getRobotMode() == 3)
    s.dashboard.powerOn()
    until(lambda: s.receive.getRobotMode() == 5)
    s.dashboard.brakeRelease()
    s.ready()


@call("dashboard.restartSafety")
def _(s):
    s.robot.pendant("violation")
    until(lambda: s.receive.getSafetyMode() == 8 and s.receive.getRobotMode() == 3)
    s.dashboard.restartSafety()
    until(lambda: s.receive.getSafetyMode() == 1)
    s.dashboard.brakeRelease()
    s.ready()
    s.home()


@call("control.reconnect")
def _(s):
    s.control.stopScript()
    s.control.disconnect()
    assert not s.control.isConnected()
    assert s.control.reconnect() and s.control.isConnected()
    s.reupload()
    s.home()


@call("dashboard.quit")
def _(s):
    s.dashboard.quit()
    s.dashboard.disconnect()
    s.dashboard.connect()
    assert "RUNNING" in s.dashboard.robotmode()


def calls_of(generation: str) -> list[Call]:
    """In the order of execution."""
    return [c for c in TABLE if generation in c.generations]


def where(error: Exception) -> str:
    """Line of this file that raised."""
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == __file__]
    return f"(line {lines[-1]})" if lines else ""


def main(generation: str, names: list[str]) -> int:
    """Run one generation; one JSON line per call. A process of its own: a stock client may end its process."""
    arguments = ("--e-series",) if generation == "e_series" else ()
    with ControllerProcess(current_slot().robot_host, *arguments) as robot:
        session = Session(robot, generation)
        for entry in [c for c in calls_of(generation) if not names or c.name in names]:
            failure = ""
            try:
                entry.check(session)
            except Exception as error:  # whatever a client throws is this call's failure
                failure = f"{type(error).__name__}: {str(error)[:300]} {where(error)}"
                with contextlib.suppress(Exception):
                    session.reupload()  # so that one failure is one failure
            print(json.dumps({"call": entry.name, "ok": not failure, "failure": failure}), flush=True)
        counters = robot.state["counters"]
        print(json.dumps({"program_errors": counters["program_errors"]}), flush=True)
        session.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
