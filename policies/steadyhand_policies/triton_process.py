"""One Triton server process group: started, watched and removed as a whole.

The binary starts stub processes and shared-memory files; both outlive a killed server. So it runs in a session of its
own, the whole group is signalled, and its shared memory carries a prefix of this slot, which alone is cleaned up.
"""
from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from steadyhand.errors import ConfigError, SteadyhandError
from steadyhand_policies.triton_tree import ServerTree

# Runs first in the child: asks the kernel for SIGKILL when the supervisor dies (prctl PR_SET_PDEATHSIG = 1), checks
# that it did not die already, asks for a little priority (a call is 0.3 ms of work that a robot waits for; refused
# without the right to it, which is fine), becomes the server. In the child by exec, not by a fork hook: the supervisor
# has gRPC threads, and code between fork and exec of a threaded process may hang.
_BECOME = (
    "import ctypes, os, sys\n"
    "ctypes.CDLL(None).prctl(1, 9)\n"
    "if os.getppid() != int(sys.argv[1]): sys.exit('supervisor is gone')\n"
    "try: os.setpriority(os.PRIO_PROCESS, 0, -5)\n"
    "except OSError: pass\n"
    "os.execv(sys.argv[2], sys.argv[2:])\n"
)


@dataclass(frozen=True)
class Addresses:
    """Where the server listens; loopback unless told otherwise."""

    host: str
    http_port: int
    grpc_port: int
    metrics_port: int

    def __post_init__(self) -> None:
        for name in ("http_port", "grpc_port", "metrics_port"):
            if not 1024 <= getattr(self, name) <= 65535:
                raise ConfigError(f"{name} = {getattr(self, name)}: give 1024 to 65535")

    def check_free(self) -> None:
        """Raise ConfigError naming the first port that something else listens on."""
        for name in ("http_port", "grpc_port", "metrics_port"):
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind((self.host, getattr(self, name)))
                except OSError as error:
                    raise ConfigError(f"{name} {self.host}:{getattr(self, name)}: {error.strerror}; stop what listens "
                                      "there, or give another port or STEADYHAND_SLOT") from error


class TritonProcess:
    """`start`, `exited`, `stop`. Not restarted here: the supervisor decides."""

    def __init__(self, tree: ServerTree, repository: Path, addresses: Addresses, shm_prefix: str, log: Path) -> None:
        self._tree, self._repository, self._addresses = tree, Path(repository).absolute(), addresses
        self._shm_prefix, self._log, self._log_begin = shm_prefix, log, 0
        self._process: subprocess.Popen | None = None

    @property
    def pid(self) -> int | None:
        """Process id of the server, also its process group; None while none was started."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start the server; its output is appended to the log file, which whoever keeps it may cut in place."""
        self._addresses.check_free()
        self.clean_shared_memory()
        with self._open_log() as log:
            self._log_begin = os.fstat(log.fileno()).st_size
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _BECOME, str(os.getpid()), *self._command()],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._tree.environment, start_new_session=True,
            )

    def exited(self) -> int | None:
        """Exit status, or None while it runs."""
        return None if self._process is None else self._process.poll()

    def stop(self, grace_s: float = 3.0) -> None:
        """End the whole group: SIGTERM, then SIGKILL; afterwards its shared memory. Waits at most `grace_s` + 2 s."""
        if self._process is None:
            return
        if self._process.poll() is None:
            _signal_group(self._process.pid, signal.SIGCONT)  # a stopped process would not see the next one
            _signal_group(self._process.pid, signal.SIGTERM)
            try:
                self._process.wait(grace_s)
            except subprocess.TimeoutExpired:
                pass
        _signal_group(self._process.pid, signal.SIGKILL)
        try:
            self._process.wait(2.0)
        except subprocess.TimeoutExpired:
            raise SteadyhandError(f"Triton: process {self.pid} does not end after SIGKILL") from None
        self._wait_group_gone(2.0)
        self._process = None
        self.clean_shared_memory()

    def clean_shared_memory(self) -> None:
        """Remove this slot's shared-memory files, left by a server that was killed."""
        for path in Path("/dev/shm").glob(f"{self._shm_prefix}*"):
            path.unlink(missing_ok=True)

    def log_errors(self, limit: int = 5) -> list[str]:
        """The last error lines of the log: Triton's own start with E and the date."""
        try:
            text = self._log.read_bytes()
        except OSError:
            return []
        begin = self._log_begin if self._log_begin <= len(text) else 0  # it was cut meanwhile
        lines = text[begin:].decode(errors="replace").splitlines()
        wrong = [x for x in lines if ((x[:1] == "E" and x[1:5].isdigit()) or "rror" in x) and "CudaDriver" not in x]
        return [x[:300] for x in (wrong or lines)[-limit:]]

    def _open_log(self) -> BinaryIO:
        try:
            self._log.parent.mkdir(parents=True, exist_ok=True)
            return self._log.open("ab")
        except OSError:  # a full disk costs the log, not the server
            return open(os.devnull, "wb")

    def _wait_group_gone(self, limit_s: float) -> None:
        """Shared memory must not be removed under a living stub. Stubs are reaped by init, at once or never."""
        end_s = time.monotonic() + limit_s
        while _group_alive(self._process.pid) and time.monotonic() < end_s:
            time.sleep(0.01)

    def _command(self) -> list[str]:
        a = self._addresses
        return [
            str(self._tree.binary),
            f"--model-repository={self._repository}",
            f"--backend-directory={self._tree.backends}",
            f"--backend-config=python,shm-region-prefix-name={self._shm_prefix}",
            f"--http-address={a.host}", f"--http-port={a.http_port}", "--http-thread-count=1",
            f"--grpc-address={a.host}", f"--grpc-port={a.grpc_port}",
            f"--metrics-address={a.host}", f"--metrics-port={a.metrics_port}",
            "--allow-gpu-metrics=false", "--disable-auto-complete-config", "--exit-timeout-secs=1",
            # The supervisor says when a new version is loaded, after it has checked it. One that cannot be loaded at a
            # restart must not keep the others from serving: whether the server serves, its canary says.
            "--model-control-mode=explicit", "--load-model=*", "--exit-on-error=false",
        ]


def _signal_group(group: int, number: int) -> None:
    """Send a signal to a process group, if it still has a process."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        pass


def _group_alive(group: int) -> bool:
    """Whether a process group has a process that is not a zombie (Linux: /proc/PID/stat, fields 3 and 5)."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, pgrp = stat.read_text().rpartition(")")[2].split()[:3]
        except (OSError, ValueError):
            continue  # it ended meanwhile
        if int(pgrp) == group and state != "Z":
            return True
    return False
