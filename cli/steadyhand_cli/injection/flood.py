"""`python -m steadyhand_cli.injection.flood WHERE RATE SECONDS [wait]`: packets at a rate, from a process of its own.

Says "ready" when it can begin; with `wait` it begins when it is sent a line.
"""
from __future__ import annotations

import itertools
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator

from steadyhand import ur5
from steadyhand.errors import ConfigError
from steadyhand.guard_protocol import COMMAND_SOCKET, STOP_SOCKET, Chunk, Heartbeat, Hello, Stop, encode
from steadyhand.slot import current_slot
from steadyhand_firmware_bridge.rtde import RTDE_PORT

PAUSE_S = 0.0005


def command_socket() -> Callable[[], None]:
    """Valid, foreign and malformed packets into the guard's command socket."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.connect(str(current_slot().socket_dir / COMMAND_SOCKET))
    sock.send(encode(Hello("flood")))
    sock.setblocking(False)
    rows = [[0.0] * 6] * 8
    foreign = Chunk(1, 1, 0.0, "flood", "policy", list(ur5.JOINT_NAMES), 0.05, rows)
    packets = itertools.cycle([encode(Heartbeat("flood", True)), b"\xc1 not a message", encode(foreign)])
    return lambda: _send(sock, packets)


def stop_socket() -> Callable[[], None]:
    """Stop requests, and datagrams that are none."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sock.connect(str(current_slot().socket_dir / STOP_SOCKET))
    sock.setblocking(False)
    packets = itertools.cycle([encode(Stop("flood")), b"\xc1"])
    return lambda: _send(sock, packets)


def _send(sock: socket.socket, packets: Iterator[bytes]) -> None:
    try:
        sock.send(next(packets))
    except BlockingIOError:
        pass  # it is held back, as intended


def rtde_port() -> Callable[[], None]:
    """Connections to the controller's RTDE port that say nothing, a few at a time."""
    held: list[socket.socket] = []

    def connect() -> None:
        while len(held) >= 20:
            held.pop(0).close()
        try:
            held.append(socket.create_connection((current_slot().robot_host, RTDE_PORT), 0.2))
        except OSError:
            pass

    return connect


def _publisher(kind: type, topic: str, fill: Callable[[int], object]) -> Callable[[], None]:
    import rclpy

    from steadyhand_ros import qos

    os.environ.update(current_slot().environment())
    rclpy.init(args=[], domain_id=current_slot().ros_domain_id)
    node, count = rclpy.create_node("flood"), itertools.count()
    publisher = node.create_publisher(kind, topic, qos.COMMAND)

    return lambda node=node: publisher.publish(fill(next(count)))  # the node must outlive this


def joint_chunk() -> Callable[[], None]:
    """A second commander on the topic: well-formed chunks with a token of another arming."""
    from steadyhand_interfaces.msg import JointChunk

    rows = [0.0] * 48
    return _publisher(JointChunk, "joint_chunk", lambda n: JointChunk(
        token=1, seq=n, guard_stamp=time.monotonic(), trace_id=f"flood{n}", source="policy",
        joint_names=list(ur5.JOINT_NAMES), period=0.05, q=rows,
    ))  # fmt: skip


def input_heartbeat() -> Callable[[], None]:
    """Heartbeats of an input that nobody configured."""
    from steadyhand_interfaces.msg import InputHeartbeat

    return _publisher(InputHeartbeat, "input_heartbeat", lambda n: InputHeartbeat(name="flood", ok=True, detail=""))


WHERE: dict[str, Callable[[], Callable[[], None]]] = {
    f.__name__: f for f in (command_socket, stop_socket, rtde_port, joint_chunk, input_heartbeat)
}


def flood(where: str, rate_hz: float, seconds: float, wait: bool = False) -> int:
    """Send for so long; how many were tried. ConfigError for an unknown place."""
    if where not in WHERE or not rate_hz > 0 or not seconds > 0:
        raise ConfigError(f"flood {where!r} at {rate_hz} /s for {seconds} s: known are {', '.join(WHERE)}")
    send = WHERE[where]()
    print("ready", flush=True)
    if wait:
        sys.stdin.readline()
    begin, tried = time.monotonic(), 0
    while (elapsed := time.monotonic() - begin) < seconds:
        while tried < rate_hz * elapsed:
            send()
            tried += 1
        time.sleep(PAUSE_S)
    return tried


if __name__ == "__main__":
    try:
        print(flood(sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), "wait" in sys.argv[4:]), flush=True)
    except OSError as error:  # what it flooded has gone
        print(error, flush=True)
    sys.exit(0)
