"""RTDE (port 30004): protocol versions 1 and 2, set-up of outputs and inputs, data both ways.

Source: RTDE guide. An input field belongs to the first client that claims it; for others it is IN_USE, and a recipe
with an IN_USE or NOT_FOUND field is refused (recipe id 0). An output package goes out right after the control cycle, at
any frequency up to the control rate; a client that does not read loses packages (the guide: outputs are skipped, the
newest is sent).
"""
from __future__ import annotations

import math
import struct
from dataclasses import dataclass

from steadyhand.errors import ProtocolError
from steadyhand_sim.ur_controller.controller import URController
from steadyhand_sim.ur_controller.net import Connection
from steadyhand_sim.ur_controller.rtde_fields import INPUT_TYPES, OUTPUTS, TYPES, apply_inputs

HEADER = struct.Struct(">HB")
MAX_NAMES = 2048  # bytes, RTDE guide
MAX_INPUT_RECIPES = 255
MAX_REQUESTS_A_READ = 64  # a handshake has fewer than ten
V, GET_VERSION, TEXT, DATA, SET_OUTPUTS, SET_INPUTS, START, PAUSE = b"VvMUOISP"
PORT = 30004


def packed(kind: int, payload: bytes) -> bytes:
    """One package."""
    return HEADER.pack(HEADER.size + len(payload), kind) + payload


@dataclass(frozen=True)
class InputRecipe:
    """Fields that one package writes together."""

    names: tuple[str, ...]
    layout: struct.Struct

    def unpack(self, payload: bytes) -> dict[str, object]:
        """Values by name. Raises ProtocolError on another length or a number that is not finite."""
        if len(payload) != self.layout.size:
            raise ProtocolError(f"RTDE input: {len(payload)} bytes, the recipe has {self.layout.size}")
        flat = self.layout.unpack(payload)
        if not all(math.isfinite(x) for x in flat):
            raise ProtocolError("RTDE input: a number is not finite")
        values: dict[str, object] = {}
        at = 1
        for name in self.names:
            count = TYPES[INPUT_TYPES[name]][1]
            values[name] = flat[at] if count == 1 else flat[at : at + count]
            at += count
        return values


class RtdeServer:
    """All RTDE clients of one controller."""

    def __init__(self, controller: URController):
        self.controller = controller
        self.owners: dict[str, RtdeSession] = {}
        self.sessions: list[RtdeSession] = []

    def accept(self, connection: Connection) -> RtdeSession:
        """Handler of a new connection."""
        session = RtdeSession(self, connection)
        self.sessions.append(session)
        return session

    def publish(self) -> None:
        """Right after a control cycle."""
        cache: dict[tuple[str, ...], bytes] = {}
        for session in list(self.sessions):
            session.publish(cache)


class RtdeSession:
    """One client."""

    def __init__(self, server: RtdeServer, connection: Connection):
        self._server, self._connection = server, connection
        self._buffer = bytearray()
        self._version = 1  # until the client asks for 2
        self._started = False
        self._outputs: tuple[str, ...] = ()
        self._layout: struct.Struct | None = None
        self._share = 0.0  # packages per control cycle
        self._phase = 0.0
        self._inputs: dict[int, InputRecipe] = {}
        self.packages_in = self.packages_out = 0

    def received(self, data: bytes) -> None:
        """Cut into packages and answer each."""
        self._buffer += data
        start = requests = 0
        while len(self._buffer) - start >= HEADER.size:
            size, kind = HEADER.unpack_from(self._buffer, start)
            if size < HEADER.size:
                raise ProtocolError(f"RTDE package of {size} bytes")
            if size > 4096:  # longest legal request: 2048 bytes of names, or 255 fields of data
                raise ProtocolError(f"RTDE request of {size} bytes")
            if len(self._buffer) - start < size:
                break
            payload = bytes(self._buffer[start + HEADER.size : start + size])
            start += size
            requests += kind != DATA
            if requests > MAX_REQUESTS_A_READ:
                raise ProtocolError("flood of RTDE requests")
            self._answer(kind, payload)
            if not self._connection.open:  # an answer could not be sent: what else it asked for would outlive it
                return
        del self._buffer[:start]

    def closed(self) -> None:
        """Its inputs keep their values and become free."""
        self._server.sessions.remove(self)
        for name in [n for n, owner in self._server.owners.items() if owner is self]:
            del self._server.owners[name]

    def publish(self, cache: dict[tuple[str, ...], bytes]) -> None:
        """Send the recipe's values if this cycle is due; equal recipes are packed once."""
        if not self._started or self._layout is None:
            return
        self._phase += self._share
        if self._phase < 1.0 - 1e-9:
            return
        self._phase -= 1.0
        if self._connection.behind:
            self._connection.drop()
            return
        values = cache.get(self._outputs)
        if values is None:
            flat: list = []
            for name in self._outputs:
                kind, read = OUTPUTS[name]
                value = read(self._server.controller)
                flat.append(value) if TYPES[kind][1] == 1 else flat.extend(value)
            values = cache[self._outputs] = self._layout.pack(*flat)
        payload = b"\x01" + values if self._version == 2 else values
        self.packages_out += self._connection.send(packed(DATA, payload))

    def _answer(self, kind: int, payload: bytes) -> None:
        send = self._connection.send
        if kind == DATA:
            self._data(payload)
        elif kind == V:
            wanted = struct.unpack(">H", payload)[0] if len(payload) == 2 else 0
            if wanted in (1, 2):
                self._version = wanted
            send(packed(V, bytes([wanted in (1, 2)])))
        elif kind == GET_VERSION:
            send(packed(GET_VERSION, struct.pack(">4I", *self._server.controller.config.version)))
        elif kind == SET_OUTPUTS:
            send(packed(SET_OUTPUTS, self._set_outputs(payload)))
        elif kind == SET_INPUTS:
            send(packed(SET_INPUTS, self._set_inputs(payload)))
        elif kind == START:
            self._started = self._layout is not None or bool(self._inputs)
            send(packed(START, bytes([self._started])))
        elif kind == PAUSE:
            self._started = False
            send(packed(PAUSE, b"\x01"))
        elif kind == TEXT:
            self._server.controller.log(f"RTDE client: {payload[1:][:200].decode('utf-8', 'replace')}")
        else:
            raise ProtocolError(f"RTDE request of type {kind}")

    def _set_outputs(self, payload: bytes) -> bytes:
        rate_hz = self._server.controller.config.control_hz
        frequency_hz = rate_hz
        if self._version == 2:
            if len(payload) < 8:
                raise ProtocolError("RTDE set-up of outputs without a frequency")
            frequency_hz = struct.unpack_from(">d", payload)[0]
            payload = payload[8:]
        names = _names(payload)
        types = [OUTPUTS[n][0] if n in OUTPUTS else "NOT_FOUND" for n in names]
        valid = bool(names) and "NOT_FOUND" not in types and math.isfinite(frequency_hz) and frequency_hz > 0.0
        self._layout = struct.Struct(">" + "".join(TYPES[t][0] for t in types)) if valid else None
        if valid:
            self._outputs = names
            self._share = self._phase = min(frequency_hz, rate_hz) / rate_hz
        return self._setup_reply(int(valid), types)

    def _set_inputs(self, payload: bytes) -> bytes:
        names = _names(payload)
        owners = self._server.owners
        types = [
            "NOT_FOUND" if n not in INPUT_TYPES else "IN_USE" if owners.get(n, self) is not self else INPUT_TYPES[n]
            for n in names
        ]
        recipe_id = len(self._inputs) + 1
        if not names or "NOT_FOUND" in types or "IN_USE" in types or recipe_id > MAX_INPUT_RECIPES:
            recipe_id = 0
        else:
            self._inputs[recipe_id] = InputRecipe(names, struct.Struct(">B" + "".join(TYPES[t][0] for t in types)))
            owners.update(dict.fromkeys(names, self))
        return bytes([recipe_id]) + ",".join(types).encode()

    def _setup_reply(self, recipe_id: int, types: list[str]) -> bytes:
        text = ",".join(types).encode()
        return bytes([recipe_id]) + text if self._version == 2 else text

    def _data(self, payload: bytes) -> None:
        recipe = self._inputs.get(payload[0]) if payload else None
        if recipe is None:
            raise ProtocolError("RTDE input for a recipe that was not set up")
        apply_inputs(self._server.controller, recipe.unpack(payload))
        self.packages_in += 1


def _names(payload: bytes) -> tuple[str, ...]:
    if len(payload) > MAX_NAMES:
        raise ProtocolError(f"RTDE set-up with {len(payload)} bytes of names, limit {MAX_NAMES}")
    return tuple(n.strip() for n in payload.decode("ascii", "replace").split(",") if n.strip())
