"""The processes of a comparison: each arm's client and server, in their own environments, and what is done to them."""
from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from benchmarks import common, policy_call
from benchmarks.peers.side import GRACE_S, Command
from steadyhand.slot import current_slot

HOST = "127.0.0.1"
READY_S = 120.0  # LeRobot imports torch, on a loaded machine too
ENVIRONMENTS = {"openpi": ".venv-peers-openpi", "lerobot": ".venv-peers-lerobot"}
_OFFLINE = {"HF_HUB_OFFLINE": "1"}  # everything lies on this machine


def interpreter(peer: str) -> Path:
    """Python of a peer's environment: `STEADYHAND_PEERS_<PEER>_VENV`, else the folder that `make setup-peers` makes."""
    folder = os.environ.get(f"STEADYHAND_PEERS_{peer.upper()}_VENV", common.ROOT / ENVIRONMENTS[peer])
    return Path(folder) / "bin" / "python"


def missing() -> list[str]:
    """The peers whose environments are not set up."""
    return [peer for peer in ENVIRONMENTS if not interpreter(peer).exists()]


def folder() -> Path:
    """Where the processes run, log, and find the file that names the fault."""
    path = common.out_path("policy_peers-work/x").parent
    path.mkdir(parents=True, exist_ok=True)
    return path.absolute()


def port(offset: int) -> int:
    """A port of this slot, beside Triton's three."""
    return current_slot().triton_http_port + offset


class Client:
    """One `client_*` process. `run` gives it one command; a process that ended itself is started again."""

    def __init__(self, module: str, python: Path | str) -> None:
        self._command = [str(python), "-m", f"benchmarks.peers.{module}"]
        self._name, self.versions = module, {}
        self._start()

    def run(self, command: Command, act: Callable[[float], tuple[float, float] | None] = lambda _: None) -> tuple:
        """What the client reports, and what `act(start_s)` returns, which is called while the client runs. Raises
        RuntimeError when it cannot start or says nothing in time."""
        if self._process.poll() is not None:
            self._start()
        self._process.stdin.write(json.dumps(asdict(command)) + "\n")
        self._process.stdin.flush()
        begun = self._next(READY_S)
        if begun["event"] != "started":
            raise RuntimeError(f"{self._name} {command.arm}: {begun.get('error')}")
        acted = act(begun["start_s"])
        done = self._next(command.seconds + GRACE_S + 30.0)
        if done["event"] != "done":
            raise RuntimeError(f"{self._name} {command.arm}: {done.get('error', done['event'])}")
        if done["held_up"]:
            self._process.kill()  # it is ending itself; a starved machine takes its time over that
            self._process.wait(60)
        return done, acted

    def close(self) -> None:
        self._process.kill()
        self._process.wait()

    def _start(self) -> None:
        paths = os.pathsep.join([str(common.ROOT), *(p for p in sys.path if p)]) if self._ours() else str(common.ROOT)
        with (folder() / f"{self._name}.log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, cwd=folder(),
                env={**os.environ, **_OFFLINE, "PYTHONPATH": paths, "STEADYHAND_OUT": str(folder())},
            )
        self._said: queue.Queue = queue.Queue()
        threading.Thread(target=self._read, args=(self._process, self._said), daemon=True).start()
        self.versions = self._next(READY_S)["versions"]

    def _ours(self) -> bool:
        return self._command[0] == sys.executable

    @staticmethod
    def _read(process: subprocess.Popen, said: queue.Queue) -> None:
        for line in process.stdout:
            said.put(json.loads(line))
        said.put({"event": "ended"})

    def _next(self, limit_s: float) -> dict:
        try:
            said = self._said.get(timeout=limit_s)
        except queue.Empty:
            self._process.kill()
            raise RuntimeError(f"{self._name}: nothing within {limit_s:.0f} s; see {folder()}") from None
        if said["event"] == "ended":
            raise RuntimeError(f"{self._name} ended, status {self._process.wait()}; see {folder()}")
        return said


class Server:
    """One `server_*` (or proxy) process, ready when its port accepts."""

    def __init__(self, module: str, python: Path | str, port_: int, *arguments: str) -> None:
        self._command = [str(python), "-m", f"benchmarks.peers.{module}", "--port", str(port_), *arguments]
        self._name, self._port = module, port_
        self.url = f"{HOST}:{port_}"
        self.start()

    def start(self) -> None:
        """Start, and wait until it accepts. Raises RuntimeError when it ends or does not within READY_S, and when
        somebody else listens there."""
        with contextlib.suppress(OSError), socket.create_connection((HOST, self._port), 0.2):
            raise RuntimeError(f"{self._name}: {HOST}:{self._port} is taken; end what listens there")
        paths = os.pathsep.join([str(common.ROOT), *sys.path]) if self._command[0] == sys.executable else common.ROOT
        with (folder() / f"{self._name}.log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=log, stderr=log, cwd=folder(),
                env={**os.environ, **_OFFLINE, "PYTHONPATH": str(paths)},
            )
        end_s = time.monotonic() + READY_S
        while time.monotonic() < end_s and self._process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection((HOST, self._port), 0.2):
                return
            time.sleep(0.05)
        self.kill()
        raise RuntimeError(f"{self._name}: does not listen on {self._port}; see {folder()}")

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL, and gone."""
        self._process.kill()
        self._process.wait()

    close = kill

    def die_and_return(self, away_s: float) -> None:
        """Killed, away for a while, started again by whoever looks after it."""
        self.kill()
        time.sleep(away_s)
        self.start()


class Triton:
    """`steadyhand-triton` as shipped: it starts a server that died again by itself."""

    def __init__(self) -> None:
        self._process = policy_call.start_server()
        self.url = f"{HOST}:{current_slot().triton_grpc_port}"

    def signal(self, number: int) -> None:
        os.killpg(self._status()["server_pid"], number)

    def die_and_return(self, away_s: float) -> None:
        """Killed; its supervisor takes the time that it takes. Raises RuntimeError when it is not back in READY_S."""
        before = self._status()["server_pid"]
        self.signal(signal.SIGKILL)
        end_s = time.monotonic() + READY_S
        while time.monotonic() < end_s:
            status = self._status()
            if status["state"] == "ready" and status["server_pid"] != before:
                return
            time.sleep(0.02)
        raise RuntimeError("Triton did not come back")

    def close(self) -> None:
        policy_call.stop(self._process)

    @staticmethod
    def _status() -> dict:
        return json.loads((current_slot().out_dir / "triton" / "status.json").read_text())
