"""What `fuzz` throws at the guard: the core in this process (virtual time, each input judged), and a real process.

Both check after every input (core) or state (process) that no commanded joint has moved and no gripper been written,
and prove at intervals with a valid chunk that the gate was armed and the mutated base was right.
"""
from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

from benchmarks import _hostile as hostile
from benchmarks import common
from steadyhand import ur5
from steadyhand.errors import ProtocolError
from steadyhand.guard_protocol import Arm, Chunk, Hello, State, Verdict, decode, encode
from steadyhand_firmware_bridge import operator
from steadyhand_firmware_bridge.client import GuardClient
from steadyhand_firmware_bridge.fake import FakeRobot
from steadyhand_firmware_bridge.guard.config import GuardConfig
from steadyhand_firmware_bridge.guard.core import Guard

DT_S = 0.008
CREDENTIAL = "0123456789abcdef" * 4
PROOF_EVERY = 500  # inputs between two valid chunks
MOVED_RAD = 1e-9


class Outcome(Counter):
    """messages, mutations, crashes, motions, accepted, proofs, and `kind ...` of inputs."""


def valid_chunk(state: State, joint: int, trace_id: str, way_rad: float = 0.03) -> Chunk:
    """A slow way of one joint from the commanded state, with a gentle end."""
    way = way_rad * (1 - np.cos(np.pi * np.arange(1, 9) / 8)) / 2
    q = np.array(state.q_commanded_rad) + np.outer(way, np.eye(ur5.DOF)[joint])
    return Chunk(state.token, state.seq, state.stamp_s, trace_id, "planner", list(ur5.JOINT_NAMES), 0.05, q.tolist())


class CoreTarget:
    """A guard with the fake robot. `offer` is what the server does with a packet; then the loop judges and cycles."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)
        self.now_s, self.outcome = 100.0, Outcome()
        self.robot = FakeRobot(DT_S)
        tokens = itertools.count(int(self.rng.integers(1, 2**30)), 7919)
        self.answers: list = []
        self.guard = Guard(
            self.robot, GuardConfig(), CREDENTIAL, lambda: next(tokens), lambda c, m: self.answers.append(m), self.now_s
        )
        self.robot.open(self.now_s)
        self.guard.commander_changed("shell", self.now_s)
        self.old_tokens: list[int] = []
        self._sign = 1
        self.arm()

    def cycle(self, seconds: float) -> None:
        """Let time pass."""
        for _ in range(round(seconds / DT_S)):
            self.now_s += DT_S
            self.state = self.guard.cycle(self.now_s)
            self.robot.sent.clear()

    def arm(self) -> None:
        """Armed for AUTO; earlier tokens are kept to be used again."""
        self.cycle(0.3)
        self.old_tokens = [*self.old_tokens[-5:], self.state.token]
        self.guard.handle("operator", Arm("auto", CREDENTIAL, "a"), self.now_s)
        self.cycle(0.3)
        assert self.state.mode == "ARMED_AUTO", self.state

    def offer(self, packet: bytes, client: str) -> None:
        """As the server and the loop treat a packet of a client that has said hello."""
        try:
            message = decode(packet)
        except ProtocolError:
            self.outcome["malformed"] += 1
            return
        if not isinstance(message, Hello):  # a second hello is refused by the server
            self.guard.handle(client, message, self.now_s)
            if self.guard.pending:
                self.outcome["judged"] += 1
                self.guard.admit(self.now_s + DT_S, self.now_s)

    def prove(self) -> None:
        """A valid chunk is accepted and moves the arm: what is refused in between meets a working, armed gate."""
        before = np.array(self.state.q_commanded_rad)
        self.cycle(DT_S)
        chunk = valid_chunk(self.state, int(self.rng.integers(ur5.DOF)), "proof", 0.03 * self._sign)
        self.offer(encode(chunk), "shell")
        self._sign = -self._sign
        assert self.answers[-1].accepted, self.answers[-1]
        for _ in range(160):
            self.guard.handle("shell", hostile.Heartbeat("shell", True), self.now_s)
            self.cycle(DT_S)
        assert np.abs(np.array(self.state.q_commanded_rad) - before).max() > 0.01 and self.state.at_rest
        self.outcome["proofs"] += 1

    def one(self) -> None:
        """One hostile input, and what it did."""
        rng = self.rng
        chunk = valid_chunk(self.state, int(rng.integers(ur5.DOF)), "hostile")
        draw, client, mutation = rng.random(), "shell", True
        if draw < 0.72:
            kind, packet = hostile.mutated_chunk(rng, chunk, self.old_tokens)
        elif draw < 0.86:
            kind, packet = hostile.mutated_other(rng, self.state.token, CREDENTIAL)
        elif draw < 0.90:
            kind, packet, client = "unauthorised client", encode(chunk), "stranger"
        else:
            (kind, packet), mutation = hostile.noise(rng, encode(chunk)), False
        q, writes, accepted = self.robot._target.copy(), self.robot.gripper_writes, self.guard.accepted
        self.answers.clear()
        try:
            self.offer(packet, client)
            if self.outcome["messages"] % 4 == 0:
                self.cycle(DT_S)
        except Exception as error:  # what is looked for
            self.outcome["crashes"] += 1
            self.outcome[f"crash {kind}: {type(error).__name__}: {error}"[:200]] += 1
        moved = np.abs(self.robot._target - q).max() > MOVED_RAD or self.robot.gripper_writes != writes
        self.outcome["motions"] += bool(moved or self.guard.accepted != accepted)
        if self.guard.accepted != accepted:
            self.outcome[f"accepted {kind}"] += 1
        self.outcome["messages"] += 1
        self.outcome["mutations"] += mutation
        self.outcome[f"kind {kind}"] += 1
        if not self.guard.state.armed:
            self.outcome[f"disarmed: {self.guard.state.causes()[0]}"[:120]] += 1
            self.arm()

    def run(self, n: int) -> Outcome:
        """`n` inputs."""
        for k in range(n):
            if k % PROOF_EVERY == 0:
                self.prove()
            self.one()
        self.cycle(0.1)
        return self.outcome


class ProcessTarget:
    """A real guard process with the fake robot; inputs through its sockets, from its commander and from strangers."""

    def __init__(self, seed: int):
        self.rng, self.outcome = np.random.default_rng(seed), Outcome()
        self.folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
        config = self.folder / "guard.yaml"
        config.write_text('{"shell_timeout_s": 2.0, "command_timeout_s": 2.0, "chunk_age_s": 0.5}')
        env = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        command = [
            sys.executable, "-m", "steadyhand_firmware_bridge.guard.main", "--robot", "fake", "--config", str(config),
            "--socket-dir", str(self.folder / "s"),
        ]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)
        common.await_ready(self.process)
        self.client = GuardClient("commander", commander=True, folder=self.folder / "s")
        self.client.connect()
        self.strangers = [GuardClient(f"stranger {k}", states=False, folder=self.folder / "s") for k in range(3)]
        for stranger in self.strangers:
            stranger.connect()
        self.until(lambda: self.client.state is not None and self.client.state.at_rest)
        self.old_tokens = [self.client.state.token]
        self.credential = operator.credential(self.folder / "s")
        reply = operator.rearm("auto", folder=self.folder / "s")
        assert reply.ok, reply
        self.until(lambda: self.client.state.mode == "ARMED_AUTO")
        self.q, self.verdicts, self.sign = np.array(self.client.state.q_commanded_rad), 0, 1

    def until(self, wanted, limit_s: float = 10.0) -> None:
        """Poll until; raises TimeoutError."""
        end_s = time.monotonic() + limit_s
        while not wanted():
            if time.monotonic() > end_s:
                raise TimeoutError(f"not within {limit_s} s: {self.client.state}")
            self.poll()
            time.sleep(0.001)

    def poll(self) -> None:
        """Take what the guard says; count what moved or was accepted."""
        for message in self.client.poll():
            if isinstance(message, Verdict) and message.trace_id != "proof":
                self.outcome["refused by verdict"] += not message.accepted
                self.outcome["motions"] += message.accepted
            elif isinstance(message, Verdict):
                self.proof = message
            elif isinstance(message, State) and getattr(self, "watching", False):
                self.outcome["motions"] += bool(np.abs(np.array(message.q_commanded_rad) - self.q).max() > MOVED_RAD)
                self.outcome["states watched"] += 1
        for stranger in self.strangers:
            stranger.poll()

    def prove(self) -> None:
        """As in the core: accepted, and it moves."""
        self.watching, self.proof = False, None
        end_s = time.monotonic() + 20.0
        while self.proof is None or not self.proof.accepted:  # behind what is queued: until it is judged in time
            if time.monotonic() > end_s:
                raise TimeoutError(f"no valid chunk was accepted: {self.proof}; {self.client.state}")
            self.proof = None
            self.poll()
            self.client.send(valid_chunk(self.client.state, int(self.rng.integers(ur5.DOF)), "proof", 0.03 * self.sign))
            wait_s = time.monotonic() + 0.5
            while self.proof is None and time.monotonic() < wait_s:
                self.poll()
                time.sleep(0.001)
        before, self.sign = self.q, -self.sign
        moved_s = time.monotonic() + 0.6
        self.until(lambda: time.monotonic() > moved_s)
        self.until(lambda: self.client.state.at_rest and self.client.state.plan_left_s <= 0.0)
        self.q = np.array(self.client.state.q_commanded_rad)
        assert np.abs(self.q - before).max() > 0.01
        self.watching = True
        self.outcome["proofs"] += 1

    def run(self, n: int) -> Outcome:
        """`n` inputs; the sockets take as many as the guard's budgets allow."""
        rng, sent, chunk, chunk_s = self.rng, 0, None, -1.0
        while sent < n:
            if sent % (8 * PROOF_EVERY) == 0:
                self.prove()
            self.poll()
            state = self.client.state
            if time.monotonic() - chunk_s > 0.02:
                chunk, chunk_s = valid_chunk(state, int(rng.integers(ur5.DOF)), "hostile"), time.monotonic()
            draw, sender, mutation = rng.random(), self.client, True
            if draw < 0.45:
                kind, packet = hostile.mutated_chunk(rng, chunk, self.old_tokens)
            elif draw < 0.6:
                kind, packet = hostile.mutated_other(rng, state.token, self.credential)
                sender = pick_sender(rng, self)
            elif draw < 0.75:
                kind, packet, sender = "unauthorised client", encode(chunk), pick_sender(rng, self, strangers_only=True)
            else:
                (kind, packet), mutation, sender = hostile.noise(rng, encode(chunk)), False, pick_sender(rng, self)
            if kind.startswith("hello"):
                continue
            while not self._send(sender, packet):
                if self.process.poll() is not None:
                    self.outcome["crashes"] += 1
                    return self.outcome
                self.poll()
                time.sleep(0.0005)
            sent += 1
            self.outcome["messages"] += 1
            self.outcome["mutations"] += mutation
            self.outcome[f"kind {kind}"] += 1
        self._settle()
        return self.outcome

    def _settle(self) -> None:
        """Whatever is queued is worked off, then one more proof, and a second of watching; the guard's own counters."""
        self.prove()
        end_s = time.monotonic() + 1.0
        while time.monotonic() < end_s:
            self.poll()
            time.sleep(0.002)
        counters = self.client.state.counters
        self.outcome["malformed"] += counters["malformed"]
        self.outcome["late_cycles"] += counters["late_cycles"]
        if self.process.poll() is not None or self.client.state.mode != "ARMED_AUTO":
            self.outcome["crashes"] += self.process.poll() is not None
            self.outcome[f"ended in {self.client.state.mode}: {self.client.state.causes}"[:200]] += 1

    @staticmethod
    def _send(client: GuardClient, packet: bytes) -> bool:
        try:
            client._sock.send(packet)
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        """End what was started."""
        for client in (self.client, *self.strangers):
            client.close()
        self.process.terminate()
        try:
            self.process.wait(5.0)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(5.0)
        self.process.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def pick_sender(rng: np.random.Generator, target: ProcessTarget, strangers_only: bool = False) -> GuardClient:
    """A connection that has said hello."""
    return hostile.pick(rng, target.strangers if strangers_only else [target.client, *target.strangers])
