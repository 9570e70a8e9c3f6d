"""Every state that a guard streams, in order, and whether its commanded motion ever stepped."""
import select
import socket
import threading
import time

import numpy as np

from steadyhand.guard_protocol import Hello, State, decode, encode
from steadyhand.limits import UR5_LIMITS

DT_S = 0.008


class StateLog:
    """The first `BEFORE` states are there when it is made: a log begins before the motion does."""

    BEFORE = 5

    def __init__(self, folder):
        self.states, self._end = [], False
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._sock.connect(str(folder / "command.sock"))
        self._sock.send(encode(Hello("log", states=True)))
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        end_s = time.monotonic() + 5.0
        while len(self.states) < self.BEFORE:
            assert time.monotonic() < end_s, "the guard streams no states"
            time.sleep(0.002)

    def _read(self):
        while not self._end:
            if select.select([self._sock], [], [], 0.1)[0]:
                packet = self._sock.recv(65536)
                if not packet:
                    return
                message = decode(packet)
                if isinstance(message, State):
                    self.states.append(message)

    def close(self):
        self._end = True
        self._thread.join(2)
        self._sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def steps(q, dt_s=DT_S):
    """Of set-points (N, 6): largest speed, and largest acceleration over its limit (1 is the limit)."""
    qd = np.diff(np.asarray(q), axis=0) / np.reshape(dt_s, (-1, 1))
    qdd = np.diff(qd, axis=0) / DT_S
    return float(np.abs(qd).max()), float((np.abs(qdd) / UR5_LIMITS.qdd_max_rad_s2).max())


def stretches(states):
    """The same, in unbroken stretches: a log that a busy machine held up has gaps, and a gap is no step."""
    gaps = np.flatnonzero(np.diff([s.seq for s in states]) != 1) + 1
    return [states[a:b] for a, b in zip([0, *gaps], [*gaps, len(states)])]


def continuous(states):
    """Largest speed, and commanded acceleration over its limit, of an unbroken stretch of states."""
    assert [s.seq for s in states] == list(range(states[0].seq, states[0].seq + len(states)))
    return steps([s.q_commanded_rad for s in states])
