"""An emulated controller with open ports, advanced by hand: no thread, no clock, so that tests are deterministic."""
from __future__ import annotations

import socket
import time
from collections.abc import Callable

from steadyhand.errors import RobotError
from steadyhand_sim.ur_controller.controller import ControllerConfig, URController
from steadyhand_sim.ur_controller.kinematic_plant import KinematicPlant
from steadyhand_sim.ur_controller.realtime import ControllerServer, Ports

HOST = "127.0.0.1"
MAX_ROUNDS = 2000


class Bench:
    """`pump` serves the sockets, `cycle` makes control cycles."""

    def __init__(self, config: ControllerConfig = ControllerConfig(), plant: KinematicPlant | None = None):
        self.plant = plant or KinematicPlant()
        self.controller = URController(self.plant, config)
        self.server = ControllerServer(self.controller, HOST, Ports(0, 0, (0,)))
        self._sockets: list[socket.socket] = []

    def cycle(self, count: int = 1) -> None:
        """Control cycles with the sockets served between them."""
        for _ in range(count):
            self.server.cycle()
            self.server.net.service(0.0)

    def pump_until(self, condition: Callable[[], object]) -> object:
        """Serve the sockets (and let the kernel deliver) until `condition()`; its value. Fails after a bounded time."""
        for _ in range(MAX_ROUNDS):
            value = condition()
            if value:
                return value
            self.server.net.service(0.002)
        raise AssertionError("condition not reached")

    def run_until(self, condition: Callable[[], bool], cycles: int = 3000) -> int:
        """Control cycles until `condition()`; how many."""
        for n in range(cycles):
            if condition():
                return n
            self.cycle()
        raise AssertionError(f"not reached in {cycles} cycles; log: {list(self.controller.messages)[-3:]}")

    def connect_client(self, client) -> None:
        """Bring an RtdeClient to RUNNING; RobotError with its reason if it closes."""
        client.start(time.monotonic())

        def settled() -> bool:
            client.poll(time.monotonic())
            if client.fileno() < 0:
                raise RobotError(client.reason)
            return client.running

        self.pump_until(settled)

    def socket_to(self, port: int) -> socket.socket:
        """A plain, non-blocking connection."""
        peer = socket.create_connection((HOST, port), timeout=2.0)
        peer.setblocking(False)
        self._sockets.append(peer)
        return peer

    def upload(self, source: str) -> None:
        """Send a program to the script port."""
        before = self.controller.counters["programs"] + self.controller.counters["programs_refused"]
        self.socket_to(self.server.script_ports[0]).sendall(source.encode())
        self.pump_until(
            lambda: self.controller.counters["programs"] + self.controller.counters["programs_refused"] > before
        )

    def close(self) -> None:
        """Close everything."""
        for peer in self._sockets:
            peer.close()
        self.server.close()


def receive(bench: Bench, peer: socket.socket, size: int) -> bytes:
    """Exactly `size` bytes from a connection of `bench.socket_to`."""
    data = bytearray()

    def read() -> bool:
        try:
            data.extend(peer.recv(size - len(data)))
        except BlockingIOError:
            pass
        return len(data) >= size

    bench.pump_until(read)
    return bytes(data)


def closed_by_peer(bench: Bench, peer: socket.socket) -> bool:
    """Wait until the server closes the connection."""

    def read() -> bool:
        try:
            return peer.recv(65536) == b""
        except BlockingIOError:
            return False
        except ConnectionResetError:
            return True

    return bool(bench.pump_until(read))
