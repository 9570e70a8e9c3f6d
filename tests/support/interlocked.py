"""Two guards as two processes in one stop domain, each before a fake robot of its own: what is tried is between them."""
import functools
import inspect
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np

from steadyhand import cell, kinematics, ur5
from steadyhand.guard_protocol import Chunk, Drive, Pause, State, Verdict
from steadyhand_cli.cell_rig import BUSY, LATE_PLAN
from steadyhand_firmware_bridge import operator
from steadyhand_firmware_bridge.client import GuardClient
from tests.support.first_line import first_line
from tests.support.guard_rig import _die_with_parent

LIMIT_S = 30.0
PATIENCE_S = 100.0  # of a whole pair, however many tries of its parts would still be left
PEER_S = 1.0  # silence of a peer: a busy machine may hold a guard up for longer than the 100 ms of the requirement
TURN_RAD = 0.6  # of the base joint, from home to over the vehicle
FAR_M = 1000.0
TRIES, ATTEMPTS = 20, 5
LATE = ("loop_late", "program_lost", "feedback_lost", "shell_lost", "command_source_silent")
TURN_STEPS = 40  # of 50 ms
PATIENT = {"shell_timeout_s": 5.0}


def zone_m() -> list[float]:
    """A box round the tool's place after the turn; at home the arm is clear of it."""
    q = cell.HOME_Q_RAD + np.array([TURN_RAD, 0, 0, 0, 0, 0])
    x, y, z = kinematics.pose_base_link_tool(q)[:3, 3]
    return [x - 0.08, y - 0.08, z - 0.08, x + 0.08, y + 0.08, z + 0.08]


class OneGuard:
    """A guard's process, its commander, and what it answered."""

    def __init__(self, command: list[str], folder):
        self.command, self.folder = command, folder
        self.process = self.client = None
        self.verdicts, self.causes, self._count = {}, set(), 0

    def start(self):
        env = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        self.process = subprocess.Popen(
            [sys.executable, "-m", *self.command, "--socket-dir", str(self.folder)], stdout=subprocess.PIPE, text=True,
            env=env, preexec_fn=_die_with_parent,
        )  # fmt: skip
        assert "ready" in first_line(self.process)
        self.client = GuardClient("commander", commander=True, folder=self.folder)
        self.client.connect(LIMIT_S)
        return self

    @property
    def state(self):
        return self.client.state

    def poll(self):
        for message in self.client.poll():
            if isinstance(message, Verdict):
                self.verdicts[message.trace_id] = message
        if self.state is not None:
            self.causes.update(self.state.causes)

    def signal(self, number):
        os.kill(self.process.pid, number)

    def kill(self):
        """As a power failure would."""
        self.client.close()
        self.process.kill()
        self.process.wait(10)
        self.process.stdout.close()
        self.process = None

    def trace(self) -> str:
        self._count += 1
        return f"t{self._count}"

    def send(self, make) -> str:
        """Send `make(trace_id)`; the trace id that its verdict will have."""
        trace_id = self.trace()
        self.client.send(make(trace_id))
        return trace_id

    def close(self):
        if self.client is not None:
            self.client.close()
        if self.process is not None:
            self.process.kill()
            self.process.wait(10)
            self.process.stdout.close()


def undisturbed(test):
    """The test with a pair of its own; again with another one when the machine held a guard up, which stops both."""

    @functools.wraps(test)
    def wrapped(tmp_path, **parameters):
        for attempt in range(ATTEMPTS):
            folder = tmp_path / str(attempt)
            folder.mkdir()
            pair = Pair(folder)
            try:
                return test(pair.armed(), **parameters)
            except AssertionError:
                if attempt == ATTEMPTS - 1 or not pair.held_up():
                    raise
            finally:
                pair.close()
        return None

    wrapped.__signature__ = inspect.Signature([
        inspect.Parameter("tmp_path", inspect.Parameter.POSITIONAL_OR_KEYWORD),
        *list(inspect.signature(test).parameters.values())[1:],
    ])  # fmt: skip
    return wrapped


class Pair:
    """Arm and vehicle. `until` keeps both commanders alive."""

    def __init__(self, folder):
        self.arm = self.agv = None
        self.end_s = time.monotonic() + PATIENCE_S
        try:
            arm, agv = folder / "arm", folder / "agv"
            peers = {"peer_timeout_s": PEER_S}
            guard = PATIENT | peers | {
                "name": "arm", "peers": {"agv": str(agv)}, "interlock": ["agv"], "interlock_zone_m": zone_m(),
                "command_timeout_s": 1.0, "feedback_timeout_s": 0.2,
            }  # fmt: skip
            (folder / "arm.yaml").write_text(json.dumps(guard))
            vehicle = PATIENT | peers | {
                "name": "agv", "peers": {"arm": str(arm)}, "interlock": ["arm"], "command_age_s": 5.0,
            }  # fmt: skip
            section = {"vehicle": {"manufacturer": "steadyhand", "serial_number": "fake"}, "guard": vehicle}
            (folder / "agv.yaml").write_text(json.dumps(section))
            bridge = "steadyhand_firmware_bridge.guard"
            self.arm = OneGuard([f"{bridge}.main", "--robot", "fake", "--config", str(folder / "arm.yaml")], arm)
            self.agv = OneGuard(
                [f"{bridge}.agv_main", "--bridge", "fake", "--config", str(folder / "agv.yaml")], agv
            )
            self.arm.start()
            self.agv.start()
        except BaseException:
            self.close()
            raise

    def until(self, wanted, what="", seconds=LIMIT_S):
        """Until `wanted()`; its value."""
        end_s = min(time.monotonic() + seconds, self.end_s)
        while time.monotonic() < end_s:
            for guard in (self.arm, self.agv):
                if guard.client.connected:
                    guard.poll()
            if value := wanted():
                return value
            time.sleep(0.002)
        raise AssertionError(f"{what} not in time: {self.arm.state} {self.agv.state} {self.arm.causes | self.agv.causes}")

    def verdict(self, guard, trace_id):
        return self.until(lambda: guard.verdicts.get(trace_id), "a verdict", 2 * PEER_S + 4.0)

    def rearm(self, guard, limit_s=LIMIT_S):
        """An operator's word to this one; what still forbids it is waited for."""
        end_s = time.monotonic() + limit_s
        while not (reply := operator.rearm("auto", folder=guard.folder)).ok:
            assert time.monotonic() < end_s, reply
            self.until(lambda: True)
        return self.until(lambda: guard.state and guard.state.mode == "ARMED_AUTO", "armed")

    def armed(self):
        """Both, however often a busy machine holds an arm's guard up for the 40 ms that stop it, and so both."""
        for _ in range(TRIES):
            for guard in (self.arm, self.agv):
                if not guard.state or not guard.state.mode.startswith("ARMED"):
                    self.rearm(guard)
            if self.armings() == (True, True):
                return self
        raise AssertionError(f"never armed both: {self.arm.state} {self.agv.state}")

    def held_up(self):
        """Whether a guard was stopped because this machine let it wait, or an answer lost because it let us wait."""
        guards = [guard for guard in (self.arm, self.agv) if guard.state is not None]
        lost = any(guard.state.counters.get("dropped_states") for guard in guards)
        return lost or any(c.startswith(LATE) for guard in guards for c in guard.causes)

    def armings(self):
        """(arm, vehicle): whether each is armed by a state that came after this call."""
        seqs = self.arm.state.seq, self.agv.state.seq
        self.until(lambda: self.arm.state.seq > seqs[0] and self.agv.state.seq > seqs[1], "newer states")
        return self.arm.state.mode.startswith("ARMED"), self.agv.state.mode.startswith("ARMED")

    # --- motion ---

    def turn(self, angle_rad=TURN_RAD) -> str:
        """One planned motion of the base joint by so much; its trace id."""
        s = self.arm.state
        share = np.append([0.0] * 4, np.linspace(0, 1, TURN_STEPS + 1))  # rest first: judged late, it loses only that
        way = angle_rad * share**2 * (3 - 2 * share)
        q = np.array(s.q_commanded_rad) + np.outer(way, [1, 0, 0, 0, 0, 0])
        return self.arm.send(lambda trace: Chunk(
            token=s.token, state_seq=s.seq, state_stamp_s=s.stamp_s, trace_id=trace, source="planner",
            joint_names=list(ur5.JOINT_NAMES), period_s=0.05, q_rad=q.tolist(),
        ))  # fmt: skip

    def turned(self, angle_rad=TURN_RAD):
        """The same to its end, however often a busy machine stops it on its way."""
        goal = self.arm.state.q_commanded_rad[0] + angle_rad

        def left():
            return goal - self.arm.state.q_commanded_rad[0]

        for _ in range(TRIES):
            self.armed()
            verdict = self.verdict(self.arm, self.turn(left()))
            assert verdict.accepted or verdict.reason in BUSY, verdict
            self.until(lambda: self.arm.state.at_rest and (abs(left()) < 1e-3 or not self.is_armed(self.arm)
                       or not verdict.accepted), "the turn's end")  # fmt: skip
            if abs(left()) < 1e-3:
                return self.armed()
        raise AssertionError(f"never turned: {self.arm.state}")

    def refused_turn(self):
        """The verdict on a turn over the vehicle, which is not refused for a late state."""
        for _ in range(TRIES):
            verdict = self.verdict(self.arm, self.turn())
            if verdict.reason not in LATE_PLAN:
                return verdict
        raise AssertionError(f"always late: {verdict}")

    @staticmethod
    def is_armed(guard):
        return guard.state.mode.startswith("ARMED")

    def drive(self, to_x_m) -> str:
        s = self.agv.state
        return self.agv.send(lambda trace: Drive(
            s.token, s.stamp_s, trace, trace, ["here", "there"], [s.pose_m_rad[:2], [to_x_m, 0.0]], s.map_id
        ))  # fmt: skip

    def driving(self):
        """Both armed and the vehicle under way, for as long as the test lasts if nothing stops it."""
        for _ in range(TRIES):
            self.armed()
            verdict = self.verdict(self.agv, self.drive(FAR_M))
            assert verdict.accepted or verdict.reason in BUSY, verdict
            self.until(lambda: self.agv.state.twist_m_s_rad_s[0] > 0.2 or not self.is_armed(self.agv), "driving")
            if self.armings() == (True, True):
                return
        raise AssertionError(f"never under way: {self.agv.state}")

    def pause(self, hold: bool) -> str:
        s = self.agv.state
        return self.agv.send(lambda trace: Pause(s.token, s.stamp_s, trace, hold))

    def stands(self):
        """The vehicle, measured."""
        return not self.agv.state.driving and self.agv.state.at_rest

    def close(self):
        for guard in (self.arm, self.agv):
            if guard is not None:
                if guard.process is not None:
                    guard.signal(signal.SIGCONT)
                guard.close()


def arm_moves(state: State) -> bool:
    return float(np.abs(state.qd_commanded_rad_s).max()) > 1e-3
