"""The URCap's socket: `SET NAME VALUE ...` is answered `ack`, `GET NAME` by `NAME VALUE`, or `NAME ?` without power.

Source: SDU Robotics ur_rtde, `robotiq_gripper.h/.cpp`, and the URCap's own script, which reads `ack` as three bytes.
What is answered to nonsense no source says: here a SET of it has no answer, a GET of it `?`.
"""
from __future__ import annotations

from steadyhand.errors import ProtocolError
from steadyhand_sim.robotiq.device import RobotiqDevice
from steadyhand_sim.ur_controller.net import Connection

PORT = 63352
MAX_LINE = 256


class RobotiqSession:
    """One client."""

    def __init__(self, device: RobotiqDevice, connection: Connection):
        self._device, self._connection = device, connection
        self._buffer = b""

    def received(self, data: bytes) -> None:
        """Answer every whole line. Raises ProtocolError when one does not end."""
        self._buffer += data
        *lines, self._buffer = self._buffer.split(b"\n")
        for line in lines:
            answer = self._answer(line.decode("ascii", "replace").split())
            if answer:
                self._connection.send(answer)
        if len(self._buffer) > MAX_LINE:
            raise ProtocolError("line too long")

    def _answer(self, words: list[str]) -> bytes:
        if len(words) == 2 and words[0] == "GET":
            try:
                value = self._device.read(words[1])
            except KeyError:
                return b"?\n"
            return f"{words[1]} {'?' if value is None else value}\n".encode()
        if len(words) >= 3 and words[0] == "SET" and len(words) % 2 == 1 and all(w.isdecimal() for w in words[2::2]):
            values = {name: int(value) for name, value in zip(words[1::2], words[2::2])}
            if values.keys() == {"SID"} or self._device.write(values):  # SID: which of several grippers
                return b"ack"
        return b""

    def closed(self) -> None:
        """The gripper goes on with what it was told."""
