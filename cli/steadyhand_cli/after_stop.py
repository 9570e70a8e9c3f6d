"""`steadyhand home | release`: what an operator may want done after a stop, each an explicit and authenticated act."""
from __future__ import annotations

import argparse
import select
import sys
import time

import numpy as np

from steadyhand import cell, go_home, kinematics, skills, trajectory
from steadyhand.errors import RobotError
from steadyhand.types import Mode, RobotState
from steadyhand_cli.operate import print_refusal
from steadyhand_firmware_bridge.manual import ManualSession, request_realtime

PERIOD_S, WINDOW = 0.05, 10
ARRIVED_RAD = 0.01
REFUSALS = 4
SLACK_S = 5.0
DIVERGED_RAD, BRAKE_RAD_S2, PLANS = 0.03, 2.0, 5
SILENT_S = 2.0


def add_arguments(parser: argparse.ArgumentParser, name: str) -> None:
    if name == "home":
        parser.add_argument("--speed", type=float, default=0.30, help="greatest joint speed, rad/s, up to 0.5")
    if name == "release":
        parser.add_argument("--yes", action="store_true", help="do not ask")


def run(args: argparse.Namespace) -> int:
    return {"home": _home, "release": _release}[args.command](args)


def _home(args: argparse.Namespace) -> int:
    config = go_home.HomeConfig(joint_rad_s=args.speed)
    request_realtime()
    with ManualSession("home") as session:
        go_home.plan_home(session.state.q_rad, 0.0, config)  # is there a way at all? asked before anything is armed
        reply = session.take("manual")
        if not reply.ok:
            return print_refusal(reply)
        state = session.state
        legs = go_home.plan_home(state.q_commanded_rad, state.stamp_s + 0.1, config)
        print(f"going home in {len(legs)} leg(s), {sum(leg.duration_s for leg in legs):.1f} s", flush=True)
        drive(session, legs, config)
    print("home, disarmed")
    return 0


def drive(session: ManualSession, legs: list, config: go_home.HomeConfig = go_home.HomeConfig()) -> None:
    """Follow planned legs to rest at their end. RobotError when the guard disarms, keeps refusing or falls silent.

    When the arm is not where the path wants it (this process was held up, and the plan in force braked meanwhile), it
    is brought to rest and the way is planned anew from there.
    """
    sent_s, refused, detail, braking, planned = float("-inf"), 0, "", None, 1
    heard_s = time.monotonic()
    while True:
        if session.client.connected:  # if not, `poll` says so
            select.select([session.client], [], [], 0.05)
        state = session.poll()
        for verdict in session.verdicts:
            refused = 0 if verdict.accepted else refused + 1
            detail = detail if verdict.accepted else f"{verdict.reason}: {verdict.detail}"
        if refused >= REFUSALS:
            raise RobotError(f"the gate refuses the way ({detail}): disarmed; jog the arm free by hand")
        if state is None:
            check_silence(heard_s)
            continue
        heard_s = time.monotonic()
        if state.mode is not Mode.ARMED_MANUAL:
            raise RobotError(f"stopped on the way: {'; '.join(state.causes)}")
        stamp_s, end_s = state.stamp_s, legs[-1].start_s + legs[-1].duration_s
        if stamp_s > end_s and state.at_rest and np.abs(legs[-1].goal_q_rad - state.q_rad).max() < ARRIVED_RAD:
            return
        if stamp_s > end_s + SLACK_S:
            raise RobotError("not home in time: disarmed")
        wanted = go_home.waypoints(legs, stamp_s - PERIOD_S, 1, PERIOD_S)[0]  # where the path is now
        if braking is None and np.abs(wanted - state.q_commanded_rad).max() > DIVERGED_RAD:
            braking = trajectory.brake(stamp_s, state.q_commanded_rad, state.qd_commanded_rad_s, BRAKE_RAD_S2)
        if braking is not None and braking.over(stamp_s) and state.at_rest:
            planned += 1
            if planned > PLANS:
                raise RobotError("held up again and again on the way home: disarmed; is this machine too busy?")
            braking, legs = None, go_home.plan_home(state.q_commanded_rad, stamp_s + 0.1, config)
        if stamp_s - sent_s >= 0.9 * PERIOD_S and stamp_s < end_s + PERIOD_S:
            sent_s = stamp_s
            path = go_home.waypoints(legs, stamp_s, WINDOW, PERIOD_S)
            if braking is not None:
                path = braking.waypoints(stamp_s, WINDOW, PERIOD_S)
            session.send_waypoints(state, path, PERIOD_S)


def check_silence(heard_s: float) -> None:
    """Raises RobotError when the newest state of the guard came longer than `SILENT_S` ago (monotonic clock)."""
    if time.monotonic() - heard_s > SILENT_S:
        raise RobotError(f"the guard has said nothing for {SILENT_S} s; use the wired emergency stop if the arm moves")


def held(state: RobotState) -> str:
    """What the gripper holds, for people."""
    width = f"{state.gripper_width_m * 1e3:.0f} mm between the fingers"
    if not np.isfinite(state.gripper_width_m):
        return "the gripper's width is not known"
    if state.gripper_commanded_m >= skills.GRASP_WIDTH_MIN_M:
        return f"the gripper is not closed, {width}"
    if skills.grasp_verified(state.gripper_width_m, True):
        return f"an object is held, {width}"
    return f"closed on nothing known, {width}"


def _release(args: argparse.Namespace) -> int:
    with ManualSession("release") as session:
        state = session.state
        if not state.at_rest:
            raise RobotError("the arm is not at rest: stop it first")
        height = _tool_height_m(state)
        above = f"the tool is {height * 1e3:.0f} mm above the table: what is held will fall so far"
        print(f"{held(state)}; {above}", flush=True)
        if not args.yes and not _confirmed("open the gripper? [y/N] "):
            print("not released")
            return 1
        reply = session.take("manual")
        if not reply.ok:
            return print_refusal(reply)
        session.set_gripper(cell.GRIPPER_OPEN_M)
        session.wait(lambda: session.state.gripper_width_m > skills.RELEASED_WIDTH_M, 3.0, "the gripper to open")
        print(f"released: {session.state.gripper_width_m * 1e3:.0f} mm between the fingers")
    return 0


def _tool_height_m(state: RobotState) -> float:
    return float(kinematics.pose_base_link_tool(state.q_rad)[2, 3])


def _confirmed(question: str) -> bool:
    print(question, end="", flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
