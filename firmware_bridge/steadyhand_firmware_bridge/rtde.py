"""A small RTDE v2 client: one socket, no threads, never blocks once started.

    client = RtdeClient(RtdeConfig(host, outputs=("timestamp", "actual_q"), inputs={"setpoint": (...)}))
    client.connect(timeout_s=2.0)              # or client.start(now_s) and poll() until client.running
    sample = client.poll(now_s)                # newest state or None
    client.send("setpoint", [...])             # ONE package: the controller applies all its fields together

Stock clients set one register a call, so a set-point could be torn over two control cycles; here a recipe is atomic.
Any fault of the peer (garbage, refused version, silence, reset) closes the session with a reason and a count; `start`
begins anew. Times are monotonic seconds, given by the caller.
"""
from __future__ import annotations

import enum
import errno
import select
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from steadyhand.errors import ConfigError, ProtocolError, RobotError
from steadyhand_firmware_bridge import rtde_wire as wire

RTDE_PORT = 30004
MAX_READ = 65536
MAX_POLL = 1 << 20  # bytes in one poll: bounds its time under a flood, yet drains what piled up in a freeze of ours
MAX_CONSECUTIVE_MALFORMED = 10


@dataclass(frozen=True)
class RtdeConfig:
    """What to read and to write. `inputs` maps a name of the caller's choice to the fields of one atomic recipe."""

    host: str
    outputs: tuple[str, ...]
    inputs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    frequency_hz: float = 125.0
    port: int = RTDE_PORT
    connect_timeout_s: float = 2.0  # from start() to the first package
    silence_timeout_s: float = 1.0  # running, but nothing received: half-open; far above the guard's own watchdog

    def __post_init__(self) -> None:
        if not self.outputs:
            raise ConfigError("RtdeConfig.outputs is empty: name at least one output field")
        if not 0.0 < self.frequency_hz <= 500.0:
            raise ConfigError(f"RtdeConfig.frequency_hz={self.frequency_hz}: give 0..500")
        for name in ("connect_timeout_s", "silence_timeout_s"):
            if not 0.0 < getattr(self, name) < 3600.0:
                raise ConfigError(f"RtdeConfig.{name}={getattr(self, name)}: give a positive number of seconds")
        for recipe in (self.outputs, *self.inputs.values()):
            wire.names_payload(recipe)


class Phase(enum.Enum):
    """Where a session stands."""

    CLOSED = "closed"
    CONNECTING = "connecting"
    VERSION = "version"
    CONTROLLER = "controller version"
    OUTPUTS = "outputs"
    INPUTS = "inputs"
    STARTING = "start"
    RUNNING = "running"


@dataclass(frozen=True)
class RtdeSample:
    """One state package: `values` by field name (vectors are arrays), taken from the socket at `received_s`."""

    seq: int
    received_s: float
    values: dict[str, Any]


@dataclass
class RtdeCounters:
    """Since the client was made; read-only for callers."""

    sessions: int = 0
    closed: int = 0
    received: int = 0
    superseded: int = 0  # received, but a newer one arrived in the same poll
    missed: int = 0  # holes in the controller's own time stamps
    late: int = 0  # came more than two periods after the one before
    malformed: int = 0
    sent: int = 0
    send_refused: int = 0  # socket full or not running
    text_messages: int = 0


class RtdeClient:
    """See the module's docstring. `reason` says why the last session ended, `text` is the controller's last message."""

    def __init__(self, config: RtdeConfig):
        self.config = config
        self.counters = RtdeCounters()
        self.phase = Phase.CLOSED
        self.reason = ""
        self.text = ""
        self.controller_version: tuple[int, int, int, int] | None = None
        self._socket: socket.socket | None = None
        self._reset()

    def _reset(self) -> None:
        self._framer = wire.Framer()
        self._outgoing = b""
        self._output: wire.Recipe | None = None
        self._inputs: dict[str, wire.Recipe] = {}
        self._pending_inputs = list(self.config.inputs)
        self._since_s = 0.0  # start of the session, then last reception
        self._seq = 0
        self._last_stamp_s: float | None = None
        self._last_received_s: float | None = None
        self._consecutive_malformed = 0

    @property
    def running(self) -> bool:
        """Negotiated and started."""
        return self.phase is Phase.RUNNING

    def fileno(self) -> int:
        """For select; -1 when closed."""
        return self._socket.fileno() if self._socket else -1

    def start(self, now_s: float) -> None:
        """Begin a session; `poll` advances it. Closes the one before."""
        self.close("restarted")
        self._reset()
        self.reason = ""
        self._since_s = now_s
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.phase = Phase.CONNECTING
        try:
            code = self._socket.connect_ex((self.config.host, self.config.port))
        except OSError as error:  # a name that does not resolve
            self.close(f"cannot connect: {error}")
            return
        if code not in (0, errno.EINPROGRESS):
            self.close(f"cannot connect: {errno.errorcode.get(code, code)}")

    def connect(self, timeout_s: float | None = None) -> None:
        """Start and wait until running. Raises RobotError with the reason."""
        deadline_s = time.monotonic() + (self.config.connect_timeout_s if timeout_s is None else timeout_s)
        self.start(time.monotonic())
        while not self.running:
            now_s = time.monotonic()
            if self.phase is Phase.CLOSED or now_s >= deadline_s:
                reason = self.reason or f"no answer in phase {self.phase.value!r}"
                self.close(reason)
                raise RobotError(f"RTDE {self.config.host}:{self.config.port}: {reason}")
            writing = [self._socket] if self.phase is Phase.CONNECTING or self._outgoing else []
            select.select([self._socket], writing, [], min(0.05, deadline_s - now_s))
            self.poll(time.monotonic())

    def close(self, reason: str = "closed by us") -> None:
        """End the session; idempotent. Input registers keep their last values on the controller."""
        if self._socket is None:
            return
        self._socket.close()
        self._socket = None
        self.phase = Phase.CLOSED
        self.reason = reason
        self.counters.closed += 1

    def poll(self, now_s: float) -> RtdeSample | None:
        """Advance the session without blocking; the newest state received since the last call, or None."""
        if self._socket is None:
            return None
        newest = None
        try:
            if self.phase is Phase.CONNECTING:
                self._finish_connecting()
            else:
                newest = self._receive(now_s)
            self._flush()
        except ProtocolError as error:
            self.counters.malformed += 1
            self.close(str(error))
        except OSError as error:
            self.close(f"connection lost: {error.strerror or error}")
        self._check_silence(now_s)
        return newest

    def send(self, recipe: str, values: Sequence[Any]) -> bool:
        """Write one input recipe, atomically. False (counted) when not running or the socket is full.

        Raises ProtocolError when a value does not fit its field or is not finite: that is the caller's fault.
        """
        if not self.running or self._outgoing:
            if self.running:
                self._try_flush()
            if not self.running or self._outgoing:
                self.counters.send_refused += 1
                return False
        self._outgoing = self._inputs[recipe].pack(values)
        self._try_flush()
        if self._socket is None:
            self.counters.send_refused += 1
            return False
        self.counters.sent += 1
        return True

    def _finish_connecting(self) -> None:
        if not select.select([], [self._socket], [], 0)[1]:
            return
        code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, f"cannot connect: {errno.errorcode.get(code, code)}")
        self.counters.sessions += 1
        self.phase = Phase.VERSION
        self._request(wire.REQUEST_PROTOCOL_VERSION, struct.pack(">H", wire.PROTOCOL_VERSION))

    def _request(self, kind: int, payload: bytes = b"") -> None:
        self._outgoing += wire.package(kind, payload)

    def _receive(self, now_s: float) -> RtdeSample | None:
        """Read until the socket is empty: a state left in the kernel would be taken for a new one in the next poll."""
        states: list[bytes] = []
        taken = 0
        while self._socket is not None and taken < MAX_POLL:
            try:
                data = self._socket.recv(MAX_READ)
            except BlockingIOError:
                break
            if not data:
                raise OSError(0, "closed by the controller")
            taken += len(data)
            for kind, payload in self._framer.feed(data):
                if kind == wire.TEXT_MESSAGE:
                    self.counters.text_messages += 1
                    length = payload[0] if payload else 0
                    self.text = payload[1 : 1 + length].decode("utf-8", "replace")
                elif kind != wire.DATA_PACKAGE:
                    self._negotiate(kind, payload)
                elif self.running:
                    states.append(payload)
        return self._newest(states, now_s) if states else None

    def _negotiate(self, kind: int, payload: bytes) -> None:
        """One step of the handshake: V, v, O, I..., S."""
        wanted = {
            Phase.VERSION: wire.REQUEST_PROTOCOL_VERSION,
            Phase.CONTROLLER: wire.GET_URCONTROL_VERSION,
            Phase.OUTPUTS: wire.SETUP_OUTPUTS,
            Phase.INPUTS: wire.SETUP_INPUTS,
            Phase.STARTING: wire.START,
        }.get(self.phase)
        if kind != wanted:
            raise ProtocolError(f"RTDE package {chr(kind)!r} in phase {self.phase.value!r}")
        if self.phase is Phase.VERSION:
            if payload[:1] != b"\x01":
                raise ProtocolError("RTDE protocol version 2 refused: PolyScope older than 3.5 or 5.0")
            self._request(wire.GET_URCONTROL_VERSION)
            self.phase = Phase.CONTROLLER
        elif self.phase is Phase.CONTROLLER:
            if len(payload) != 16:
                raise ProtocolError(f"RTDE controller version: {len(payload)} bytes, wanted 16")
            self.controller_version = struct.unpack(">4I", payload)
            names = wire.names_payload(self.config.outputs)
            self._request(wire.SETUP_OUTPUTS, struct.pack(">d", self.config.frequency_hz) + names)
            self.phase = Phase.OUTPUTS
        elif self.phase is Phase.OUTPUTS:
            self._output = wire.parse_setup_reply(payload, self.config.outputs)
            self._next_input()
        elif self.phase is Phase.INPUTS:
            name = self._pending_inputs.pop(0)
            self._inputs[name] = wire.parse_setup_reply(payload, self.config.inputs[name])
            self._next_input()
        elif payload[:1] != b"\x01":
            raise ProtocolError("RTDE start refused")
        else:
            self.phase = Phase.RUNNING

    def _next_input(self) -> None:
        if self._pending_inputs:
            self._request(wire.SETUP_INPUTS, wire.names_payload(self.config.inputs[self._pending_inputs[0]]))
            self.phase = Phase.INPUTS
        else:
            self._request(wire.START)
            self.phase = Phase.STARTING

    def _newest(self, states: list[bytes], now_s: float) -> RtdeSample | None:
        """The newest well-formed state; older ones are only counted."""
        values = None
        for at in range(len(states) - 1, -1, -1):
            try:
                values = self._output.unpack(states[at])
                break
            except ProtocolError:
                # the framing still holds: drop this one, but not for ever
                self.counters.malformed += 1
                self._consecutive_malformed += 1
                if self._consecutive_malformed >= MAX_CONSECUTIVE_MALFORMED:
                    raise
        if values is None:
            return None
        self._consecutive_malformed = 0
        self.counters.superseded += at
        self.counters.received += at + 1
        self._seq += at + 1
        self._account(values.get("timestamp"), len(states), now_s)
        self._since_s = now_s
        return RtdeSample(self._seq, now_s, values)

    def _account(self, stamp_s: float | None, arrived: int, now_s: float) -> None:
        """Count holes in the controller's time and late receptions."""
        if stamp_s is not None:
            if self._last_stamp_s is not None:
                steps = round((stamp_s - self._last_stamp_s) * self.config.frequency_hz)
                self.counters.missed += max(0, steps - arrived)
            self._last_stamp_s = stamp_s
        if self._last_received_s is not None and now_s - self._last_received_s > 2.0 / self.config.frequency_hz:
            self.counters.late += 1
        self._last_received_s = now_s

    def _flush(self) -> None:
        """Hand pending bytes to the kernel; what does not fit stays pending (at most the handshake or one package)."""
        if not self._outgoing or self._socket is None:
            return
        try:
            self._outgoing = self._outgoing[self._socket.send(self._outgoing) :]
        except BlockingIOError:
            pass

    def _try_flush(self) -> None:
        try:
            self._flush()
        except OSError as error:
            self.close(f"connection lost: {error.strerror or error}")

    def _check_silence(self, now_s: float) -> None:
        if self._socket is None:
            return
        if self.running:
            if now_s - self._since_s > self.config.silence_timeout_s:
                self.close(f"nothing received for {self.config.silence_timeout_s} s: half-open connection")
        elif now_s - self._since_s > self.config.connect_timeout_s:
            self.close(f"no answer in phase {self.phase.value!r} within {self.config.connect_timeout_s} s")
