"""The guard's side: a bounded queue to the worker, and the newest of its reports. Nothing here waits."""
from __future__ import annotations

import json
import math
import socket
import subprocess
import sys
from dataclasses import asdict, replace

from steadyhand.errors import ProtocolError, RobotError
from steadyhand.protocols import ActResult
from steadyhand_firmware_bridge.operator_acts import GRIPPER_ACT
from steadyhand_firmware_bridge.robotiq.config import RobotiqConfig
from steadyhand_firmware_bridge.robotiq.state import GripperState, decode

ACT_LIMIT_S = 15.0
QUEUE_BYTES = 4608  # the kernel's least: a handful of packets, then `command` answers False


class RobotiqGripper:
    """`start` it before the loop runs; `poll` it each cycle. Times are monotonic seconds of the caller."""

    def __init__(self, config: RobotiqConfig, host: str):
        self.config = config if config.host else replace(config, host=host)
        self._pair: socket.socket | None = None
        self._process: subprocess.Popen | None = None
        self._state: GripperState | None = None
        self._refused = self._malformed = 0
        self._act_until_s: float | None = None
        self._acts_before = 0

    def start(self) -> None:
        """Start the worker's process. Raises RobotError when it cannot be started."""
        self._pair, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._pair.setblocking(False)
        self._pair.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, QUEUE_BYTES)
        command = [
            sys.executable, "-m", "steadyhand_firmware_bridge.robotiq", json.dumps(asdict(self.config)),
            str(theirs.fileno()),
        ]
        try:
            self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        except OSError as error:
            raise RobotError(f"gripper worker: {error}") from error
        finally:
            theirs.close()

    def fileno(self) -> int:
        """For select; -1 when closed."""
        return self._pair.fileno() if self._pair is not None else -1

    def poll(self) -> None:
        """Take the reports that have come; the newest counts."""
        while self._pair is not None:
            try:
                packet = self._pair.recv(8192)
            except BlockingIOError:
                return
            except OSError:
                packet = b""
            if not packet:  # the supervisor is gone too
                self._pair.close()
                self._pair = None
                return
            try:
                self._state = decode(packet)
            except ProtocolError:
                self._malformed += 1

    def trouble(self, now_s: float) -> str:
        """Why the gripper cannot be relied on now; empty when it is well."""
        if self._pair is None:
            return "its worker process has ended: restart the guard"
        state = self._state
        if state is None:
            return "its worker has said nothing yet"
        if now_s - state.stamp_s > self.config.state_timeout_s:
            return f"no state for more than {self.config.state_timeout_s:g} s: its worker died, or its socket is slow"
        return state.trouble()

    def widths_m(self, now_s: float) -> tuple[float, float]:
        """Measured and commanded opening; NaN for what is not known now."""
        state = self._state
        if state is None or now_s - state.stamp_s > self.config.state_timeout_s:
            return math.nan, math.nan
        return state.width_m(self.config), state.commanded_m(self.config)

    def command(self, width_m: float, now_s: float) -> bool:
        """Queue an opening. False when the queue is full or the gripper is in trouble: nothing was queued then."""
        taken = not self.trouble(now_s) and self._send({"width_m": float(width_m), "stamp_s": now_s})
        self._refused += not taken
        return taken

    def drop(self) -> None:
        """Forget what is queued and not yet written: a stop empties everything. Writes nothing to the gripper."""
        self._send({"drop": True})

    def begin_activation(self, now_s: float) -> None:
        """An operator's word: the fingers run through their stroke. Raises RobotError when it cannot be asked for."""
        if self._state is None or self._state.link or not self._send({"activate": True}):
            raise RobotError(f"gripper: {self.trouble(now_s) or 'its queue is full; ask again'}")
        self._act_until_s, self._acts_before = now_s + ACT_LIMIT_S, self._activations()

    def activation(self, now_s: float) -> ActResult | None:
        """How the activation asked for last has ended, once."""
        if self._act_until_s is None:
            return None
        said = self._state.act if self._activations() > self._acts_before else "under way"
        if said == "under way" and now_s <= self._act_until_s:
            return None
        self._act_until_s = None
        if said == "under way":
            said = f"no end within {ACT_LIMIT_S:g} s"
        return ActResult(GRIPPER_ACT, said == "done", said)

    def _activations(self) -> int:
        return self._state.counters.get("activations", 0) if self._state is not None else 0

    def counters(self) -> dict[str, int]:
        """Everything counted, by `gripper:NAME`."""
        counts = dict(self._state.counters) if self._state is not None else {}
        counts.update(refused=self._refused, malformed_reports=self._malformed)
        return {f"gripper:{name}": n for name, n in counts.items()}

    def close(self) -> None:
        """Let the worker end; writes nothing to the gripper."""
        if self._pair is not None:
            self._pair.close()
            self._pair = None
        if self._process is not None:
            try:
                self._process.wait(2.0)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def _send(self, message: dict) -> bool:
        if self._pair is None:
            return False
        try:
            self._pair.send(json.dumps(message).encode())
        except OSError:
            return False
        return True
