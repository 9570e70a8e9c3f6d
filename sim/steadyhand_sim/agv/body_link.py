"""One world for arm and vehicle: the cell's process has the vehicle's body, the vehicle's process drives it.

Two processes, as two computers in a hall: `steadyhand-sim --agv` steps the only physics there is and moves the wheels as
it was last told; `steadyhand-sim-agv --plant cell` is the vehicle's computer and feels its body through the packets that
come after each control cycle. Whoever is silent moves nothing: without commands the wheels stop, without a world nothing
rolls. When the world ends the vehicle's process ends too; both are started anew.
"""
from __future__ import annotations

import math
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

import msgpack
import numpy as np

from steadyhand.errors import ProtocolError, RobotError
from steadyhand.slot import Slot
from steadyhand_sim.agv import deck
from steadyhand_sim.agv.bullet_plant import BulletPlant
from steadyhand_sim.agv.vehicle_config import VehicleConfig
from steadyhand_sim.scene_stream import listen

SOCKET = "sim_agv_body.sock"
MAX_PACKET = 1024
COMMANDS_PER_CYCLE = 8  # a flood cannot take the physics' time
COMMAND_TIMEOUT_S = 0.2  # five periods of the vehicle's computer: then its motor controllers stop the wheels
MAX_SPEED_M_S, MAX_ROTATION_RAD_S, MAX_LOAD_KG = 5.0, 10.0, 1000.0


@dataclass(frozen=True)
class BodyState:
    """What the vehicle feels of itself: truth, for its simulated sensors only."""

    pose_m_rad: tuple[float, float, float]
    twist_m_s_rad_s: tuple[float, float]
    rolled_m: tuple[float, float]


def _numbers(packet: bytes, count: int) -> list[float]:
    try:
        values = msgpack.unpackb(packet)
        if not isinstance(values, list) or len(values) != count:
            raise ValueError(f"{count} numbers wanted")
        numbers = [float(v) for v in values]
    except Exception as error:  # msgpack raises many kinds on hostile bytes
        raise ProtocolError(f"body packet of {len(packet)} bytes: {error!r}") from error
    if not all(map(math.isfinite, numbers)):
        raise ProtocolError("body packet: not finite")
    return numbers


def decode_command(packet: bytes) -> tuple[float, float, float]:
    """Speed (m/s), rotation (rad/s), load (kg); raises ProtocolError naming what is wrong."""
    speed, rotation, load = _numbers(packet, 3)
    if abs(speed) > MAX_SPEED_M_S or abs(rotation) > MAX_ROTATION_RAD_S or not 0.0 <= load <= MAX_LOAD_KG:
        raise ProtocolError(f"body packet: speed {speed}, rotation {rotation}, load {load}")
    return speed, rotation, load


class VehicleInCell:
    """The cell's side: a body in the arm's world, its socket, and what the cell's score tells of it. Never blocks."""

    def __init__(self, client, slot: Slot, pose_m_rad: tuple[float, float, float],
                 monotonic: Callable[[], float] = time.monotonic) -> None:  # fmt: skip
        self.config = VehicleConfig()
        self.plant = BulletPlant(client, self.config)
        self.plant.put(*pose_m_rad)
        self._monotonic = monotonic
        self._path = slot.socket_dir / SOCKET
        self._server = listen(self._path, socket.SOCK_SEQPACKET)
        self._driver: socket.socket | None = None
        self._told_s = -math.inf
        self._command = (0.0, 0.0, 0.0)
        self.counters = {"commands": 0, "malformed": 0, "refused": 0, "timeouts": 0, "drivers": 0}

    def before_cycle(self) -> None:
        """Set the wheels; a vehicle's computer that is silent or gone does not roll on."""
        self._take()  # first: who has gone makes room for who comes
        self._accept()
        if any(self._command[:2]) and self._monotonic() - self._told_s > COMMAND_TIMEOUT_S:
            self._command = (0.0, 0.0, self._command[2])
            self.counters["timeouts"] += 1
        self.plant.command(*self._command)

    def after_cycle(self) -> None:
        """Tell the vehicle's computer what came of it."""
        self.plant.settle()
        if self._driver is None:
            return
        packet = msgpack.packb([*self.plant.pose(), *self.plant.twist(), *self.plant.rolled_m()])
        try:
            self._driver.send(packet, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except BlockingIOError:
            pass  # it does not read: the newest is what it gets when it does
        except OSError:
            self._drop()

    def _accept(self) -> None:
        try:
            client, _ = self._server.accept()
        except OSError:
            return
        if self._driver is not None:  # one body, one computer
            self.counters["refused"] += 1
            client.close()
            return
        client.setblocking(False)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * MAX_PACKET)  # keep little: old states are useless
        self._driver, self._told_s = client, self._monotonic()
        self.counters["drivers"] += 1

    def _take(self) -> None:
        for _ in range(COMMANDS_PER_CYCLE if self._driver is not None else 0):
            try:
                packet = self._driver.recv(MAX_PACKET)
            except BlockingIOError:
                return
            except OSError:
                packet = b""
            if not packet:
                return self._drop()
            try:
                self._command, self._told_s = decode_command(packet), self._monotonic()
                self.counters["commands"] += 1
            except ProtocolError:
                self.counters["malformed"] += 1
        return None

    def _drop(self) -> None:
        self._driver.close()
        self._driver = None
        self._command = (0.0, 0.0, self._command[2])

    @property
    def deck_z_m(self) -> float:
        """Height of the deck in `base_link`."""
        return deck.FLOOR_Z_M + self.config.height_m

    def state(self, cubes_m: np.ndarray, robot: int) -> dict:
        """Ground truth for score and tests: `cubes_m` (N, 3) are all cubes, `robot` the arm's body."""
        pose = self.plant.pose()
        return {
            "pose": list(pose), "twist": list(self.plant.twist()), "deck_z_m": self.deck_z_m,
            "loaded": np.flatnonzero(deck.lies_in(cubes_m, pose, self.deck_z_m)).tolist(),
            "touches_arm": self.plant.touches(robot), "driven": self._driver is not None, "counters": self.counters,
        }

    def close(self) -> None:
        """Let go of the driver and remove the socket; the world's owner frees the body."""
        if self._driver is not None:
            self._driver.close()
            self._driver = None
        self._server.close()
        self._path.unlink(missing_ok=True)


class RemoteBody:
    """The vehicle's side: `plant.Plant` over a body in the cell's world. Raises RobotError when that world has ended."""

    def __init__(self, slot: Slot, timeout_s: float = 30.0) -> None:
        self._path = slot.socket_dir / SOCKET
        self._socket = self._connect(timeout_s)
        self._state = self._first(timeout_s)

    def _connect(self, timeout_s: float) -> socket.socket:
        """The world may be starting up beside us."""
        end_s = time.monotonic() + timeout_s
        while True:
            client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            try:
                client.connect(str(self._path))
                return client
            except OSError as error:
                client.close()
                if time.monotonic() > end_s:
                    why = f"{error.strerror} after {timeout_s:g} s; start steadyhand-sim --agv in this slot"
                    raise RobotError(f"no vehicle in a cell at {self._path}: {why}") from error
            time.sleep(0.05)

    def _first(self, timeout_s: float) -> BodyState:
        self._socket.settimeout(timeout_s)
        try:
            packet = self._socket.recv(MAX_PACKET)
        except OSError as error:
            raise RobotError(f"{self._path}: the cell's world tells nothing of the vehicle: {error}") from error
        if not packet:
            raise RobotError(f"{self._path}: another process drives this vehicle already; end it")
        self._socket.setblocking(False)
        return self._decode(packet)

    @staticmethod
    def _decode(packet: bytes) -> BodyState:
        n = _numbers(packet, 7)
        return BodyState(tuple(n[:3]), tuple(n[3:5]), tuple(n[5:]))

    def step(self, speed_m_s: float, rotation_rad_s: float, load_kg: float) -> None:
        """Tell the wheels; time passes in the cell, whose newest state is taken."""
        try:
            self._socket.send(msgpack.packb([speed_m_s, rotation_rad_s, load_kg]), socket.MSG_NOSIGNAL)
        except BlockingIOError:
            pass  # a world that stands still takes nothing; the next period tells the newer command
        except OSError as error:
            raise RobotError(f"{self._path}: the cell's world has ended: {error}") from error
        while True:
            try:
                packet = self._socket.recv(MAX_PACKET)
            except BlockingIOError:
                return
            except OSError:
                packet = b""
            if not packet:
                raise RobotError(f"{self._path}: the cell's world has ended")
            self._state = self._decode(packet)

    def pose(self) -> tuple[float, float, float]:
        """True pose."""
        return self._state.pose_m_rad

    def twist(self) -> tuple[float, float]:
        """True speed and rotation."""
        return self._state.twist_m_s_rad_s

    def rolled_m(self) -> tuple[float, float]:
        """Way that the wheels have rolled."""
        return self._state.rolled_m

    def put(self, x_m: float, y_m: float, heading_rad: float) -> None:
        """Nobody lifts it from here: it stands where the cell's world says (`steadyhand-sim --agv-pose`)."""

    def close(self) -> None:
        """Let go: its wheels stop."""
        self._socket.close()
