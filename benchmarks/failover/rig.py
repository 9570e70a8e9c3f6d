"""The processes that are measured: a server with its supervisor, a cable to it, guard, emulated controller, witness."""
from __future__ import annotations

import contextlib
import json
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks import common
from benchmarks._controller_process import ControllerProcess
from benchmarks.failover.driver import Driver, moving
from steadyhand.guard_protocol import State
from steadyhand.slot import current_slot
from steadyhand_cli.injection import children, observer
from steadyhand_cli.injection.proxy import LinkProxy, Trouble
from steadyhand_firmware_bridge.client import GuardClient
from steadyhand_policies import contract as contracts
from steadyhand_policies import repository as repositories
from steadyhand_policies.live import LivePolicy
from steadyhand_policies.member import opener
from steadyhand_policies.release import ReleaseConfig, Stage, Version
from steadyhand_policies.release_file import ReleaseFile

MODEL = repositories.PICK_PLACE
CALM_S, LIMIT_S = 1.0, 30.0
ONE_IN_TWO = ReleaseConfig((Stage(2, 0.2), Stage(1, 0.1)))


class Cable:
    """A `LinkProxy` to one port, in a thread; what is asked of it is done between two of its rounds."""

    def __init__(self, port: int):
        self._proxy = LinkProxy("127.0.0.1", "127.0.0.1", {0: port})
        self.port = self._proxy.ports[0]
        self._asked: queue.Queue = queue.Queue()
        self._stopping = False
        self._thread = threading.Thread(target=self._work, name="cable", daemon=True)
        self._thread.start()

    def trouble(self, **what) -> None:
        """Of what the server answers; nothing: sound again."""
        self._asked.put(lambda: self._proxy.set_trouble(self.port, "to_guard", Trouble(**what)))

    def cut(self) -> None:
        """Reset every connection."""
        self._asked.put(lambda: self._proxy.cut(self.port))

    def close(self) -> None:
        """End the thread and the connections."""
        self._stopping = True
        self._thread.join(2.0)
        self._proxy.close()

    def _work(self) -> None:
        while not self._stopping:
            self._proxy.service(0.005)
            with contextlib.suppress(queue.Empty):
                while True:
                    self._asked.get_nowait()()


class Triton:
    """A supervisor and its server, on a repository of its own."""

    def __init__(self, repository: Path):
        self.repository = repository
        self._status = current_slot().out_dir / "triton" / "status.json"
        self.start()

    def start(self) -> None:
        """Start the supervisor and wait until it is ready."""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "steadyhand_policies.triton_server", "--repository", str(self.repository)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env=children.environment(),
        )
        until(lambda: self.status().get("state") == "ready" and self.status()["supervisor_pid"] == self.process.pid,
              "Triton is ready")

    def status(self) -> dict:
        """What the supervisor says; empty while it says nothing readable."""
        with contextlib.suppress(OSError, ValueError):
            return json.loads(self._status.read_text())
        return {}

    def group(self) -> list[int]:
        """Processes of the server: itself first, then its stubs."""
        leader, found = self.status()["server_pid"], []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError, ValueError):
                pid, rest = _stat(stat)
                if int(rest[2]) == leader and rest[0] != "Z":
                    found.append((pid != leader, pid))
        return [pid for _, pid in sorted(found)]

    def stop(self) -> None:
        """SIGTERM, then SIGKILL."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(10)
        self.process.kill()


def _stat(path: Path) -> tuple[int, list[str]]:
    """Process id, and the fields of /proc/PID/stat behind the name: state, parent, group, ..."""
    return int(path.parent.name), path.read_text().rpartition(")")[2].split()


@dataclass
class Rig:
    """Everything that a strike may touch."""

    triton: Triton
    cable: Cable
    driver: Driver
    file: ReleaseFile
    versions: dict[int, Version]


@contextlib.contextmanager
def rig_in(folder: Path) -> Iterator[tuple[Rig, observer.Observer, str]]:
    """All processes, the arm in motion, the witness, and the guard's scheduler; ends what it started."""
    repository, sockets, slot = prepare(folder), folder / "slot", current_slot()
    with contextlib.ExitStack() as stack:
        triton = Triton(repository)
        stack.callback(triton.stop)
        cable = Cable(slot.triton_grpc_port)
        stack.callback(cable.close)
        stack.enter_context(ControllerProcess(slot.robot_host))
        guard = subprocess.Popen(
            [sys.executable, "-m", "steadyhand_firmware_bridge.guard.main", "--robot", "ur5", "--robot-ip",
             slot.robot_host, "--socket-dir", str(sockets)],
            stdout=subprocess.PIPE, text=True, env=children.environment(),
        )
        stack.callback(lambda: (guard.kill(), guard.wait(5)))
        common.await_ready(guard)
        witness = stack.enter_context(observer.Observer(slot.robot_host, folder / "witness.bin"))
        client = GuardClient("bench", commander=True, folder=sockets)
        client.connect()
        client.wait(lambda m: isinstance(m, State) and m.at_rest, 10.0)
        file = ReleaseFile(folder / "policy", MODEL)
        open_version = opener(repository, MODEL, f"127.0.0.1:{cable.port}")
        live = LivePolicy(MODEL, open_version, 1, ReleaseFile(folder / "policy", MODEL), ONE_IN_TWO).open()
        stack.callback(live.close)
        versions = {n: Version(n, contracts.load(repository / MODEL / str(n) / "contract.json").sha256)
                    for n in (1, 2)}
        driver = Driver(client, live, sockets)
        stack.callback(driver.close)
        until(lambda: moving(driver, CALM_S), "the arm circles", driver.said)
        yield Rig(triton, cable, driver, file, versions), witness, client.state.scheduler


def prepare(folder: Path) -> Path:
    """A repository of two versions with the shipped weights, sealed as two: what is measured is the change."""
    repository = folder / "models"
    shutil.copytree(repositories.DEFAULT_REPOSITORY, repository)
    newest = repositories.newest(repository, MODEL)
    for number in (1, 2):
        target = repository / MODEL / str(number)
        if not target.exists():
            shutil.copytree(repository / MODEL / str(newest), target)
    path = repository / MODEL / "2" / "contract.json"
    contract = contracts.load(path)
    other = replace(contract.training, seed=contract.training.seed + 1)
    path.write_text(contracts.dump(replace(contract, training=other)))
    return repository


def until(condition: Callable[[], bool], what: str, said: Callable[[], str] = lambda: "") -> None:
    """Poll; RuntimeError after the limit, with what is `said` then."""
    end_s = time.monotonic() + LIMIT_S
    while not condition():
        if time.monotonic() > end_s:
            raise RuntimeError(f"not within {LIMIT_S:.0f} s: {what}; {said()}")
        time.sleep(0.02)
