"""`python -m steadyhand_firmware_bridge.robotiq CONFIG FD`: started by the guard. Runs the worker, again when it dies.

The supervisor is the parent of the worker, so that the guard need not start a process while its loop runs.
"""
from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
import traceback

from steadyhand_firmware_bridge.robotiq import config
from steadyhand_firmware_bridge.robotiq.worker import Worker

RESTART_S = 0.2


def main() -> int:
    """Until the guard's end of the pair is closed."""
    if os.sched_getscheduler(0) in (os.SCHED_FIFO, os.SCHED_RR):  # a real-time guard hands its own class down
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # meant for the guard, which ends at rest and then closes the pair
    settings = config.of(json.loads(sys.argv[1]))
    pair = socket.socket(fileno=int(sys.argv[2]))
    restarts = 0
    while True:
        worker = os.fork()
        if worker == 0:
            os._exit(_work(settings, pair, restarts))
        if os.waitpid(worker, 0)[1] == 0:
            return 0
        restarts += 1
        time.sleep(RESTART_S)


def _work(settings: config.RobotiqConfig, pair: socket.socket, restarts: int) -> int:
    try:
        Worker(settings, pair, restarts).run()
        return 0
    except Exception:  # the process's edge: a new worker begins with a new connection
        traceback.print_exc()
        return 1


if __name__ == "__main__":
    sys.exit(main())
