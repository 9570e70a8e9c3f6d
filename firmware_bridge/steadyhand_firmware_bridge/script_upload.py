"""Sends one program to the script port of a UR controller without waiting.

Source: Universal Robots, "Remote Control Via TCP/IP": the secondary client interface takes a whole program.
"""
from __future__ import annotations

import errno
import socket

SCRIPT_PORT = 30002


class ScriptUpload:
    """Sends one program to the script port without waiting, and drains what the controller streams back."""

    def __init__(self, host: str, text: str):
        self._left = text.encode()
        self._sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._sock.setblocking(False)
        code = self._sock.connect_ex((host, SCRIPT_PORT))
        self._failure = "" if code in (0, errno.EINPROGRESS) else errno.errorcode.get(code, str(code))

    @property
    def done(self) -> bool:
        """Whether the kernel has taken the whole text."""
        return not self._left

    def fileno(self) -> int:
        """For select."""
        return self._sock.fileno()

    def advance(self) -> str:
        """Send and drain what goes now; the failure, if any."""
        if self._failure:
            return self._failure
        try:
            if self._left:
                self._left = self._left[self._sock.send(self._left):]
            if not self._sock.recv(65536) and self._left:
                return "closed by the controller"
        except BlockingIOError:
            return ""
        except OSError as error:
            if error.errno != errno.ENOTCONN:  # still connecting
                return error.strerror or str(error)
        return ""

    def close(self) -> None:
        """Close the socket."""
        self._sock.close()
