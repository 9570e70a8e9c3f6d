"""Scene snapshots from the simulator to the camera process: one SEQPACKET packet a snapshot, newest wins.

The server never blocks: a reader that does not keep up loses packets, which are counted. Snapshots carry ground truth,
so only the simulated camera may read them.
"""
from __future__ import annotations

import contextlib
import socket
import time
from pathlib import Path

import msgpack
import numpy as np

from steadyhand.errors import ProtocolError
from steadyhand.slot import Slot, current_slot
from steadyhand_sim.look import SPLITS
from steadyhand_sim.snapshot import CAMERA_STATES, MAX_OBJECTS, Snapshot

VERSION = 2
MAX_PACKET = 16_384
MAX_CLIENTS = 8
STALE_S = 0.5  # a client that heard nothing for this long has no scene
RECONNECT_S = 0.2


def socket_path(slot: Slot) -> Path:
    """Path of the scene socket of a slot."""
    return slot.socket_dir / "sim_scene.sock"


def encode(snapshot: Snapshot) -> bytes:
    """One packet."""
    return msgpack.packb({
        "v": VERSION, "seq": snapshot.seq, "t": snapshot.time_s, "q": snapshot.q_rad.tolist(),
        "w": snapshot.gripper_width_m, "p": snapshot.position_m.tolist(), "o": snapshot.quaternion_xyzw.tolist(),
        "look": snapshot.look_seed, "split": snapshot.look_split, "camera": snapshot.camera,
        "agv": snapshot.vehicle_m_rad,
    })


def decode(packet: bytes) -> Snapshot:
    """A snapshot; raises ProtocolError naming what is wrong with a packet."""
    try:
        fields = msgpack.unpackb(packet)
        if fields["v"] != VERSION:
            raise ProtocolError(f"scene packet: version {fields['v']}, expected {VERSION}")
        snapshot = Snapshot(
            seq=int(fields["seq"]), time_s=float(fields["t"]), q_rad=_floats(fields["q"], (6,)),
            gripper_width_m=float(fields["w"]), position_m=_floats(fields["p"], (-1, 3)),
            quaternion_xyzw=_floats(fields["o"], (-1, 4)), look_seed=int(fields["look"]),
            look_split=fields["split"], camera=fields["camera"],
            vehicle_m_rad=None if fields["agv"] is None else tuple(_floats(fields["agv"], (3,)).tolist()),
        )
    except ProtocolError:
        raise
    except Exception as error:  # msgpack raises many kinds on hostile bytes
        raise ProtocolError(f"scene packet of {len(packet)} bytes: {error!r}") from error
    if len(snapshot.position_m) != len(snapshot.quaternion_xyzw) or len(snapshot.position_m) > MAX_OBJECTS:
        raise ProtocolError(
            f"scene packet: {len(snapshot.position_m)} positions, {len(snapshot.quaternion_xyzw)} orientations"
        )
    if snapshot.look_split not in SPLITS or snapshot.camera not in CAMERA_STATES:
        raise ProtocolError(f"scene packet: split {snapshot.look_split!r}, camera {snapshot.camera!r}")
    if not (np.isfinite(snapshot.time_s) and np.isfinite(snapshot.gripper_width_m)) or snapshot.look_seed < 0:
        raise ProtocolError(f"scene packet: time {snapshot.time_s}, width {snapshot.gripper_width_m}")
    if snapshot.seq < 0:
        raise ProtocolError(f"scene packet: seq {snapshot.seq}")
    return snapshot


def _floats(values, shape: tuple[int, ...]) -> np.ndarray:
    array = np.array(values, dtype=float).reshape(shape)
    if not np.isfinite(array).all():
        raise ProtocolError("scene packet: not finite")
    return array


def listen(path: Path, kind: socket.SocketKind) -> socket.socket:
    """A listening non-blocking Unix socket readable by this user only; replaces a socket nobody listens on."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with contextlib.closing(socket.socket(socket.AF_UNIX, kind)) as probe:
        probe.setblocking(False)  # a simulator that hangs with a full queue would keep us waiting without end
        try:
            probe.connect(str(path))
            served = True
        except BlockingIOError:
            served = True
        except OSError:
            served = False
    if served:
        raise OSError(f"{path}: another simulator serves this slot; stop it or set STEADYHAND_SLOT")
    path.unlink(missing_ok=True)
    server = socket.socket(socket.AF_UNIX, kind)
    try:
        server.bind(str(path))
        path.chmod(0o600)
        server.listen(MAX_CLIENTS)
    except OSError:
        server.close()
        raise
    server.setblocking(False)
    return server


class SceneServer:
    """Serves snapshots to at most MAX_CLIENTS readers. Call `publish` from the simulator's loop."""

    def __init__(self, slot: Slot) -> None:
        self._path = socket_path(slot)
        self._server = listen(self._path, socket.SOCK_SEQPACKET)
        self._clients: list[socket.socket] = []
        self.dropped = 0

    def publish(self, snapshot: Snapshot) -> None:
        """Send to every reader that has room; accept new readers."""
        self._accept()
        if not self._clients:
            return
        packet = encode(snapshot)
        for client in list(self._clients):
            try:
                client.send(packet, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
            except BlockingIOError:
                self.dropped += 1
            except OSError:
                self._clients.remove(client)
                client.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            client.setblocking(False)
            if len(self._clients) >= MAX_CLIENTS:
                client.close()
                continue
            client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MAX_PACKET)  # keep little: old scenes are useless
            self._clients.append(client)

    def close(self) -> None:
        """Close everything and remove the socket."""
        for client in [*self._clients, self._server]:
            client.close()
        self._clients = []
        self._path.unlink(missing_ok=True)


class SceneClient:
    """Reads the newest snapshot; connects and reconnects by itself. Never blocks."""

    def __init__(self, slot: Slot | None = None) -> None:
        self._path = socket_path(slot or current_slot())
        self._socket: socket.socket | None = None
        self._snapshot: Snapshot | None = None
        self._heard_s = self._tried_s = float("-inf")
        self.malformed = 0

    def latest(self) -> Snapshot | None:
        """Newest snapshot, or None when the simulator has been silent for STALE_S."""
        now = time.monotonic()
        if self._socket is None and now - self._tried_s >= RECONNECT_S:
            self._tried_s = now
            self._connect()
        packet = self._newest_packet()
        if packet is not None:
            try:
                self._snapshot, self._heard_s = decode(packet), now
            except ProtocolError:
                self.malformed += 1
        return self._snapshot if now - self._heard_s < STALE_S else None

    def _connect(self) -> None:
        client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        client.setblocking(False)
        try:
            client.connect(str(self._path))
        except OSError:
            client.close()
        else:
            self._socket = client

    def _newest_packet(self) -> bytes | None:
        newest = None
        while self._socket is not None:
            try:
                packet = self._socket.recv(MAX_PACKET)
            except BlockingIOError:
                break
            except OSError:
                packet = b""
            if not packet:  # closed by the simulator
                self.close()
                break
            newest = packet
        return newest

    def close(self) -> None:
        """Disconnect; `latest` connects again."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
