"""What `fuzz` throws at the parsers: RTDE on both ends, URScript as uploaded, ROS messages as converted by the shell.

RTDE meets an emulated controller on which our own program runs, armed and holding by heartbeats of its owner's session;
URScript an emulated controller that would play what it accepts; ROS messages go on to an armed guard core.
"""
from __future__ import annotations

import re
import struct

import numpy as np

from benchmarks import _hostile as hostile
from benchmarks._fuzz_guard import MOVED_RAD, PROOF_EVERY, CoreTarget, Outcome, valid_chunk
from steadyhand import guard_protocol
from steadyhand.errors import ProtocolError
from steadyhand.protocols import ALIVE, Command
from steadyhand_firmware_bridge.rtde_wire import Framer, Recipe, package, parse_setup_reply
from steadyhand_firmware_bridge.urscript import ProgramConfig, next_heartbeat, render
from steadyhand_sim.ur_controller.controller import ControllerConfig, URController
from steadyhand_sim.ur_controller.kinematic_plant import KinematicPlant
from steadyhand_sim.ur_controller.rtde_server import RtdeServer

INPUTS = (*(f"input_int_register_{k}" for k in range(24, 28)), *(f"input_double_register_{k}" for k in range(24, 30)))
OWNED = Recipe(1, INPUTS, ("INT32",) * 4 + ("DOUBLE",) * 6)
OUTPUTS = ("timestamp", "actual_q", "target_q", "robot_mode", "output_int_register_24")
TOKEN = 12345


class Sink:
    """A connection that keeps the newest package."""

    open, behind, sent = True, False, b""

    def send(self, data: bytes) -> bool:
        """Taken."""
        self.sent = data
        return True

    def drop(self) -> None:
        """Nothing is queued."""


class RtdeTarget:
    """Hostile RTDE sessions beside the owner's; and our client's parsers fed with hostile answers."""

    def __init__(self, seed: int):
        self.rng, self.outcome = np.random.default_rng(seed), Outcome()
        self.controller = URController(KinematicPlant(), ControllerConfig())
        self.server = RtdeServer(self.controller)
        self.owner = self.server.accept(Sink())
        self.owner.received(package(ord("V"), b"\x00\x02"))
        self.owner.received(package(ord("I"), ",".join(INPUTS).encode()) + package(ord("S")))
        config = ProgramConfig(heartbeat_period_s=self.controller.config.steptime_s)
        assert self.controller.start_program(render(TOKEN, config))
        self.heartbeat, self.session = 0, None
        for _ in range(20):
            self.step()
        assert self.alive(), self.controller.outputs
        self.q = self.controller.target.q_rad.copy()

    def alive(self) -> bool:
        """Whether our program is armed and alive."""
        return self.controller.program is not None and self.controller.outputs.ints[24] in {int(s) for s in ALIVE}

    def step(self) -> None:
        """The owner's heartbeat with HOLD, and one cycle of the controller."""
        self.heartbeat = next_heartbeat(self.heartbeat)
        values = [self.heartbeat, TOKEN, int(Command.HOLD), self.heartbeat, *self.controller.target.q_rad]
        self.owner.received(OWNED.pack(values))
        self.controller.step()
        self.server.publish()

    def request(self) -> tuple[str, bytes, bool]:
        """(kind, bytes, is a one-field mutation) of one hostile request."""
        rng, how = self.rng, int(self.rng.integers(8))
        names = list(INPUTS)
        if how == 0:
            return "rtde.random", rng.bytes(int(rng.integers(1, 300))), False
        if how == 1:
            size, kind = int(rng.integers(0, 2**16)), int(rng.integers(256))
            return "rtde.header", struct.pack(">HB", size, kind) + rng.bytes(int(rng.integers(0, 64))), False
        if how == 2:
            bad = ["", "x", "input_int_register_99", "a" * 900, "\x00", "é"]
            names[int(rng.integers(len(names)))] = hostile.pick(rng, bad)
            return "rtde.input name", package(ord("I"), ",".join(names).encode()), True
        if how == 3:  # all of them owned by somebody else
            owned = names[: int(rng.integers(1, len(names)))]
            return "rtde.input owned", package(ord("I"), ",".join(owned).encode()), True
        if how == 4:
            frequency = hostile.pick(rng, [float("nan"), float("inf"), -1.0, 0.0, 1e300])
            return "rtde.frequency", package(ord("O"), struct.pack(">d", frequency) + ",".join(OUTPUTS).encode()), True
        if how == 5:
            wanted = ",".join((*OUTPUTS, hostile.pick(rng, ["x", "actual_q ", "", "\xff"])))
            payload = struct.pack(">d", 125.0) + wanted.encode("latin-1")
            return "rtde.output name", package(ord("O"), payload), True
        data = bytearray(OWNED.pack([self.heartbeat, TOKEN, int(Command.SERVO), self.heartbeat, *(self.q + 0.5)]))
        if how == 6:  # somebody else's recipe
            data[3] = int(rng.integers(256))
            return "rtde.recipe", bytes(data), True
        cut = int(rng.integers(4, len(data)))
        return "rtde.data length", package(ord("U"), bytes(data[3:cut])), True

    def one(self) -> None:
        """One hostile request, or one hostile answer for our client."""
        if self.rng.random() < 0.25:
            kind, mutation = self._answer(), True
        else:
            kind, data, mutation = self.request()
            if self.session is None:
                self.session = self.server.accept(Sink())
            try:
                self.session.received(data)
            except ProtocolError:
                self.outcome["connections closed"] += 1
                self._drop()
            except Exception as error:  # what is looked for
                self._crash(kind, error)
                self._drop()
        self.step()
        self.outcome["motions"] += bool(np.abs(self.controller.target.q_rad - self.q).max() > MOVED_RAD)
        self.outcome["messages"] += 1
        self.outcome["mutations"] += mutation
        self.outcome[f"kind {kind}"] += 1
        if not self.alive():
            self.outcome["program ended"] += 1

    def _drop(self) -> None:
        self.session.closed()
        self.session = None

    def _answer(self) -> str:
        """An answer of a controller with one thing wrong, to our own client's parsers."""
        rng = self.rng
        valid = package(ord("I"), b"\x01" + ",".join(OWNED.types).encode())
        at = int(rng.integers(len(valid)))
        changed, longer = valid[:at] + rng.bytes(1) + valid[at + 1:], valid[:at] + rng.bytes(3) + valid[at:]
        spoilt = hostile.pick(rng, [valid[:at], changed, longer])
        try:
            for _, payload in Framer().feed(spoilt):
                parse_setup_reply(payload, list(INPUTS)).unpack(payload)
        except ProtocolError:
            self.outcome["malformed"] += 1
        except Exception as error:  # what is looked for
            self._crash("rtde.answer", error)
        return "rtde.answer"

    def _crash(self, kind: str, error: Exception) -> None:
        self.outcome["crashes"] += 1
        self.outcome[f"crash {kind}: {type(error).__name__}: {error}"[:200]] += 1

    def run(self, n: int) -> Outcome:
        """`n` inputs."""
        for _ in range(n):
            self.one()
        self.outcome["proofs"] += self.alive()
        return self.outcome


class ScriptTarget:
    """Our own program with one token changed, and noise, sent to an emulated controller that plays what it accepts."""

    PROGRAM = render(TOKEN, ProgramConfig())
    TOKENS = re.findall(r"\w+|\s+|[^\w\s]", PROGRAM)
    WORDS = (
        "def", "end", "while", "if", "(", ")", "[", "]", ":", ",", "=", "==", "1e999", "nan", "-", "9" * 400, '"', "p[",
        "sync()", "thread", "\x00", "é", "kill", "not", "#", "return",
    )

    def __init__(self, seed: int):
        self.rng, self.outcome = np.random.default_rng(seed), Outcome()

    def one(self) -> None:
        """One program."""
        rng = self.rng
        tokens, at = list(self.TOKENS), int(rng.integers(len(self.TOKENS)))
        how, mutation = int(rng.integers(6)), True
        if how == 0:
            del tokens[at]
        elif how == 1:
            tokens[at] = hostile.pick(rng, self.WORDS)
        elif how == 2:
            tokens.insert(at, hostile.pick(rng, self.WORDS))
        elif how == 3:
            other = int(rng.integers(len(tokens)))
            tokens[at], tokens[other] = tokens[other], tokens[at]
        elif how == 4:
            tokens = tokens[:at]
        else:
            words = [hostile.pick(rng, self.WORDS) + " " for _ in range(int(rng.integers(1, 60)))]
            tokens = ["def x():\n", *words, "\nend\n"]
            mutation = False
        controller = URController(KinematicPlant())
        q = controller.target.q_rad.copy()
        try:
            accepted = controller.start_program("".join(tokens))
            for _ in range(3 if accepted else 1):
                controller.step()
            self.outcome["played" if accepted else "refused"] += 1
        except Exception as error:  # what is looked for
            self.outcome["crashes"] += 1
            self.outcome[f"crash script: {type(error).__name__}: {error}"[:200]] += 1
        self.outcome["motions"] += bool(np.abs(controller.target.q_rad - q).max() > MOVED_RAD)
        self.outcome["messages"] += 1
        self.outcome["mutations"] += mutation
        self.outcome[f"kind script.{how}"] += 1

    def run(self, n: int) -> Outcome:
        """`n` programs."""
        for _ in range(n):
            self.one()
        return self.outcome


class RosTarget:
    """Messages with one field changed, through the shell's conversions; chunks and gripper commands reach the guard."""

    def __init__(self, seed: int):
        from steadyhand_ros import conversions

        self.conversions, self.core = conversions, CoreTarget(seed)
        self.rng, self.outcome = self.core.rng, self.core.outcome

    def one(self) -> None:
        """One message."""
        rng = self.rng
        makers = [self._chunk, self._chunk, self._gripper, self._state, self._estimate, self._detections]
        kind, convert, message = hostile.pick(rng, makers)()
        guard, robot = self.core.guard, self.core.robot
        q, writes, accepted = robot._target.copy(), robot.gripper_writes, guard.accepted
        try:
            try:
                converted = convert(message)
                if isinstance(converted, (guard_protocol.Chunk, guard_protocol.Gripper)):
                    self.core.offer(guard_protocol.encode(converted), "shell")
            except ProtocolError:
                self.outcome["malformed"] += 1
            if self.outcome["messages"] % 4 == 0:
                self.core.cycle(0.008)
        except Exception as error:  # what is looked for
            self.outcome["crashes"] += 1
            self.outcome[f"crash {kind}: {type(error).__name__}: {error}"[:200]] += 1
        moved = np.abs(robot._target - q).max() > MOVED_RAD
        self.outcome["motions"] += bool(moved or robot.gripper_writes != writes or guard.accepted != accepted)
        self.outcome["messages"] += 1
        self.outcome["mutations"] += 1
        self.outcome[f"kind ros.{kind}"] += 1

    def _chunk(self):
        rng, chunk = self.rng, valid_chunk(self.core.state, int(self.rng.integers(6)), "hostile")
        m = self.conversions.joint_chunk_msg(_as_joint_chunk(chunk))
        field = hostile.pick(rng, ["token", "seq", "guard_stamp", "source", "joint_names", "period", "q", "q length"])
        if field == "token":
            flipped = m.token ^ (1 << int(rng.integers(31)))
            m.token = hostile.pick(rng, [0, -1, flipped, 2**63 - 1, *self.core.old_tokens[:-1]])
        elif field == "seq":
            m.seq = hostile.pick(rng, [0, 2**64 - 1, 2**63, m.seq + 1 + int(rng.integers(100))])
        elif field == "guard_stamp":
            stamps = [*hostile.NOT_NUMBERS, 0.0, m.guard_stamp + 0.001, m.guard_stamp - 1.0, 1e300]
            m.guard_stamp = hostile.pick(rng, stamps)
        elif field == "source":
            m.source = hostile.pick(rng, ["", "x", "policy\n", "p" * 100_000])
        elif field == "joint_names":
            names = list(m.joint_names)
            m.joint_names = hostile.pick(rng, [[], names[::-1], names[:3], ["a"] * 6, ["a"] * 48])
        elif field == "period":
            m.period = hostile.pick(rng, [*hostile.NOT_NUMBERS, 0.0, -0.05, 0.5, 1e-300])
        elif field == "q":
            m.q[int(rng.integers(len(m.q)))] = hostile.pick(rng, [*hostile.NOT_NUMBERS, 1e308, 7.0, -7.0])
        else:
            m.q = hostile.pick(rng, [[], list(m.q)[:-1], list(m.q)[:1], list(m.q) * 9, [0.0] * 6000])
        return f"chunk.{field}", self.conversions.guard_chunk, m

    def _gripper(self):
        from steadyhand_interfaces.msg import GripperCommand

        rng, token = self.rng, self.core.state.token
        m = GripperCommand(token=token, width=0.04, trace_id="g")
        if rng.random() < 0.5:
            m.token = hostile.pick(rng, [0, -1, token ^ 1, *self.core.old_tokens[:-1]])
        else:
            m.width = hostile.pick(rng, [*hostile.NOT_NUMBERS, -0.1, 0.09, 1e300])
        return "gripper", lambda m: guard_protocol.Gripper(m.token, m.width, m.trace_id), m  # as guard_node does

    def _state(self):
        from builtin_interfaces.msg import Time

        rng, m = self.rng, self.conversions.safety_state_msg(self.core.state, Time())
        field = hostile.pick(rng, ["mode", "joint_names", "q", "qd_commanded", "q_commanded", "gripper_width"])
        if field == "mode":
            m.mode = hostile.pick(rng, ["", "armed_auto", "ARMED", "x" * 10_000])
        elif field == "joint_names":
            m.joint_names = hostile.pick(rng, [[], list(m.joint_names)[::-1], ["a"]])
        elif field == "gripper_width":
            m.gripper_width = hostile.pick(rng, hostile.NOT_NUMBERS)
        else:
            values = list(getattr(m, field))
            setattr(m, field, hostile.pick(rng, [[], values[:-1], values * 2, [float("nan")] * 6, [1e308] * 6]))
        return f"state.{field}", self.conversions.robot_state, m

    def _object(self):
        from steadyhand_interfaces.msg import ObjectPose

        o = ObjectPose(id=1, x=0.5, y=-0.1, z=0.02, yaw=0.1, presence=0.9, position_std=0.002)
        field = hostile.pick(self.rng, ["x", "y", "z", "yaw", "presence", "position_std", "age"])
        setattr(o, field, hostile.pick(self.rng, hostile.NOT_NUMBERS))
        return o

    def _estimate(self):
        from steadyhand_interfaces.msg import StateEstimate

        m = StateEstimate(mode=0, observation_id="o1", objects=[self._object()])
        if self.rng.random() < 0.5:
            m.mode, m.objects = int(self.rng.integers(3, 256)), []
        return "estimate", self.conversions.estimate, m

    def _detections(self):
        from steadyhand_interfaces.msg import ObjectPoses

        seq, objects = int(self.rng.integers(2**63)), [self._object()] * int(self.rng.integers(1, 200))
        m = ObjectPoses(image_seq=seq, observation_id="o", objects=objects)
        return "detections", self.conversions.detections, m

    def run(self, n: int) -> Outcome:
        """`n` messages."""
        for k in range(n):
            if k % PROOF_EVERY == 0:
                self.core.prove()
            self.one()
        return self.outcome


def _as_joint_chunk(c: guard_protocol.Chunk):
    from steadyhand.types import JointChunk

    names, q = tuple(c.joint_names), np.array(c.q_rad)
    return JointChunk(c.token, c.state_seq, c.state_stamp_s, c.trace_id, c.source, names, c.period_s, q)
