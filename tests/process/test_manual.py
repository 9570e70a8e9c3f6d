"""Takeover, jog, way home and release: real guard process, emulated controller, continuity measured from both ends."""
import json
import math
import os
import pty
import select
import subprocess
import sys
import time

import numpy as np
import pytest

from steadyhand import cell, go_home, kinematics
from steadyhand.braking import LONGEST_STOP_S
from steadyhand.errors import RobotError
from steadyhand.intervention import demonstration
from steadyhand.jog import Jog, JogCommand
from steadyhand.slot import current_slot
from steadyhand.types import Mode
from steadyhand_cli import after_stop
from steadyhand_firmware_bridge import operator
from steadyhand_firmware_bridge.manual import ManualSession
from tests.support.guard_rig import PATIENT, Rig
from tests.support.state_log import DT_S, StateLog, continuous

pytestmark = pytest.mark.process
# A busy machine may starve the emulated controller for a while; the limit of its silence is not the subject here.
CONFIG = PATIENT | {"feedback_timeout_s": 0.2}


@pytest.fixture
def rig(tmp_path):
    rig = Rig(tmp_path, config=CONFIG)
    yield rig
    rig.close()


def jog(session, values, seconds, until=None, **how):
    """Stream this command for so long, or until the state satisfies `until` (which it must within 10 s); the state."""
    jogger, end_s = Jog(f"j{time.monotonic_ns()}"), time.monotonic() + (seconds if until is None else 10.0)
    while time.monotonic() < end_s:
        if until is not None and until(session.state):
            return session.state
        select.select([session.client], [], [], 0.02)
        state = session.poll()
        for verdict in session.verdicts:
            jogger.on_verdict(verdict)
        if state is None:
            continue
        now_s = time.monotonic()
        step = jogger.step(state, JogCommand(now_s, values, **how), now_s)
        if step.chunk is not None:
            session.send_chunk(step.chunk)
    assert until is None, session.state
    return session.state


def armed(session, mode="manual"):
    """Take command; tried again, since a starved emulated controller loses its program."""
    end_s = time.monotonic() + 15.0
    while not session.take(mode).ok:
        assert time.monotonic() < end_s, session.state


def still(state):
    return state.at_rest and np.abs(state.qd_commanded_rad_s).max() < 1e-3


def height(state):
    return kinematics.pose_base_link_tool(state.q_commanded_rad)[2, 3]


def test_takeover_from_auto_under_motion_never_steps(rig):
    log = StateLog(rig.folder)
    try:
        with ManualSession("ann", rig.folder) as session:
            rig.arm()
            rig.move(0.8)
            assert max(map(abs, rig.client.state.qd_commanded_rad_s)) > 0.2
            reply = session.take_over()
            assert reply.ok and reply.snapshot["source"] == "policy" and session.state.mode is Mode.ARMED_MANUAL
            assert rig.verdict(rig.chunk()).reason == "second_commander"  # AUTO's commander may not any more
            before = height(session.state)
            jog(session, (0.0, 0.0, 0.05, 0, 0, 0), 0, until=lambda s: height(s) > before + 0.02)
            assert jog(session, (0.0,) * 6, 0, until=still).mode is Mode.ARMED_MANUAL
    finally:
        log.close()
    stopped = next(k for k, s in enumerate(log.states) if any("takeover" in c for c in s.causes))
    armed = next(k for k, s in enumerate(log.states) if s.mode == "ARMED_MANUAL")
    assert log.states[stopped].causes[0] == "stop_requested: takeover: by ann"
    # braked as any stop is: in no more cycles than the slowest profile has; armed from measured rest, not before
    braking = [s for s in log.states[stopped:armed] if np.abs(s.qd_commanded_rad_s).max() > 0]
    assert 0 < len(braking) <= LONGEST_STOP_S / DT_S
    assert log.states[armed - 1].at_rest and all(s.mode == "STOPPED" for s in log.states[stopped:armed])
    moving = next(i for i, s in enumerate(log.states) if max(map(abs, s.qd_commanded_rad_s)) > 0.01)
    speed, acceleration = continuous(log.states[moving - log.BEFORE :])
    assert speed > 0.2 and acceleration <= 1.01  # brake, arming, jog: one unbroken commanded motion


def test_takeover_of_a_standing_arm_and_hand_back(rig):
    with ManualSession("ann", rig.folder) as session:
        assert session.take_over().ok
    assert rig.until(lambda s: s.at_rest, 2.0).mode == "STOPPED"
    rig.arm()
    rig.move(0.3)
    assert rig.verdicts[-1].accepted  # command is the shell's again


def test_an_operator_process_that_closes_its_connection_stops_the_arm(rig):
    session = ManualSession("ann", rig.folder)
    session.__enter__()
    armed(session)
    jog(session, (0.1, 0, 0, 0, 0, 0), 0, until=lambda s: np.abs(s.qd_commanded_rad_s).max() > 0.1)
    session.client.close()
    state = rig.until(lambda s: s.mode == "STOPPED", 1.0)
    assert any(c.startswith("shell_lost") for c in state.causes)
    rig.until(lambda s: s.at_rest, 3.0)


@pytest.fixture
def low(tmp_path):
    """An arm that stands low over the tray."""
    q = kinematics.ik_near(kinematics.tool_down(0.5, -0.1, 0.06, 0.0), cell.HOME_Q_RAD)
    rig = Rig(tmp_path, config=CONFIG, robot=("--q=" + ",".join(f"{x:.5f}" for x in q),))
    yield rig
    rig.close()


def test_the_way_home_lifts_first_and_is_slow(low):
    log = StateLog(low.folder)
    try:
        with ManualSession("home", low.folder) as session:
            armed(session)
            state = session.state
            legs = go_home.plan_home(state.q_commanded_rad, state.stamp_s + 0.1)
            after_stop.drive(session, legs)
            assert np.abs(session.state.q_rad - cell.HOME_Q_RAD).max() < 0.01
    finally:
        log.close()
    q = np.array([s.q_commanded_rad for s in log.states])
    assert np.abs(np.diff(q, axis=0)).max() / DT_S < 0.4
    tool = kinematics.pose_base_link_tool(q)[:, :3, 3]
    started = tool[np.linalg.norm(tool - tool[0], axis=1) > 0.01][0] - tool[0]
    assert started[2] > 0.009 and len(legs) == 2


def test_a_way_home_that_is_stopped_stays_stopped(low):
    def stop_when_moving(state):
        if state.mode is Mode.ARMED_MANUAL and np.abs(state.qd_commanded_rad_s).max() > 0.1:
            operator.stop("panel", "", low.folder)

    with ManualSession("home", low.folder) as session:
        armed(session)
        state = session.state
        legs = go_home.plan_home(state.q_commanded_rad, state.stamp_s + 0.1)
        session.on_state = stop_when_moving
        with pytest.raises(RobotError, match="stopped on the way: stop_requested: panel"):
            after_stop.drive(session, legs)
        assert np.abs(session.state.q_rad - cell.HOME_Q_RAD).max() > 0.05  # on the way, not there


def test_release_opens_at_standstill_only(rig):
    with ManualSession("release", rig.folder) as session:
        armed(session)
        session.set_gripper(0.0)
        session.wait(lambda: session.state.gripper_width_m < 0.02, 3.0, "a closed gripper")
        assert "closed on nothing known" in after_stop.held(session.state)
        jog(session, (0.1, 0, 0, 0, 0, 0), 0, until=lambda s: np.abs(s.qd_commanded_rad_s).max() > 0.05)
        with pytest.raises(RobotError, match="standstill only"):
            session.set_gripper(0.085)
        jog(session, (0.0,) * 6, 0, until=still)
        session.set_gripper(0.085)
        session.wait(lambda: session.state.gripper_width_m > 0.05, 3.0, "an open gripper")
        assert "not closed" in after_stop.held(session.state)


def test_an_arm_started_beyond_a_limit_is_jogged_out(tmp_path):
    q = np.array(cell.HOME_Q_RAD)
    q[5] = 2 * math.pi + 0.03  # beyond the range of wrist 3
    rig = Rig(tmp_path, config=CONFIG, robot=("--q=" + ",".join(f"{x:.5f}" for x in q),))
    try:
        with ManualSession("ann", rig.folder) as session:
            reply = session.take("manual")
            assert not reply.ok and any(c.startswith("margin: wrist_3") for c in reply.causes)
            armed(session, "recover")
            state = jog(session, (0, 0, 0, 0, 0, 0.5), 0.6, joint=True)  # outward: refused, stands, stays armed
            assert state.mode is Mode.RECOVERING and abs(state.q_rad[5] - q[5]) < 0.003
            jog(session, (0, 0, 0, 0, 0, -0.5), 0, until=lambda s: s.q_rad[5] < 2 * math.pi - 0.01, joint=True)
            jog(session, (0.0,) * 6, 0, until=still)
        rig.until(lambda s: s.at_rest, 2.0)
        with ManualSession("ann", rig.folder) as session:
            armed(session)
    finally:
        rig.close()


def test_keyboard_teleoperation_moves_records_and_leaves(rig, tmp_path):
    (tmp_path / f"slot{current_slot().index}").symlink_to(rig.folder)
    person, terminal = pty.openpty()
    env = os.environ | {
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), "XDG_RUNTIME_DIR": str(tmp_path),
        "PYTHONUNBUFFERED": "1", "STEADYHAND_OUT": str(tmp_path / "out"),
    }  # fmt: skip
    rig.arm()
    process = subprocess.Popen(
        [sys.executable, "-m", "steadyhand_cli.main", "takeover"],
        env=env, stdin=terminal, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        end_s = time.monotonic() + 10.0
        while rig.client.state.mode != "ARMED_MANUAL":
            rig.move(0.1, step_rad=0.002)
            assert time.monotonic() < end_s, rig.client.state
        before = kinematics.pose_base_link_tool(np.array(rig.client.state.q_rad))[2, 3]
        for _ in range(30):
            os.write(person, b"q")
            rig.until(lambda s: True, 0.1)
            time.sleep(0.04)
        state = rig.until(lambda s: s.mode == "ARMED_MANUAL" and max(map(abs, s.qd_rad_s)) < 0.01, 3.0)
        assert kinematics.pose_base_link_tool(np.array(state.q_rad))[2, 3] - before > 0.02
        os.write(person, b"x")
        assert process.wait(10) == 0, process.stdout.read()
        rig.until(lambda s: s.mode == "STOPPED" and s.at_rest, 2.0)
    finally:
        process.kill()
        process.wait(5)
        process.stdout.close()
        os.close(person)
        os.close(terminal)
    file = next((tmp_path / "out").rglob("*.jsonl"))
    records = [json.loads(line) for line in file.read_text().splitlines()]
    demo = demonstration(records)
    taken = any("takeover" in cause for cause in records[0]["causes"])  # else a fault had stopped AUTO before
    assert demo.complete and demo.label == ("takeover" if taken else "after_fault"), records[0]
    assert records[0]["from_mode"] == "ARMED_AUTO" or not taken
    assert demo.actions[:, 2].sum() > 0
