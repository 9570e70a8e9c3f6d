"""`steadyhand-triton`: start a Triton server on a model repository, prove it by a canary, keep it alive.

Ready means that a real inference gave the recorded answer, not that a port is open. While it runs, the canary is asked
every second: a server that died is restarted at once, one that hangs or answers wrongly after three misses. A version
that appears in the repository is checked, then loaded beside those that serve; a bad one is named and not loaded.
"""
from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from steadyhand.errors import ConfigError, ContractError, PolicyError, SteadyhandError
from steadyhand.slot import current_slot
from steadyhand_policies import repository as repositories
from steadyhand_policies import triton_tree
from steadyhand_policies import contract as contracts
from steadyhand_policies.triton_client import TritonConfig, TritonPolicy
from steadyhand_policies.triton_process import Addresses, TritonProcess
from steadyhand_policies.triton_versions import ServedVersions, check_version

LOG = logging.getLogger("steadyhand-triton")


@dataclass(frozen=True)
class SupervisorConfig:
    """Limits of the supervisor."""

    ready_timeout_s: float = 30.0
    canary_interval_s: float = 1.0
    canary_deadline_s: float = 0.5  # a loaded machine is slow, not hung; the clients' own deadline is 20 ms
    canary_misses: int = 3
    backoff_first_s: float = 0.5
    backoff_max_s: float = 10.0

    def __post_init__(self) -> None:
        for name in ("ready_timeout_s", "canary_interval_s", "canary_deadline_s", "backoff_first_s", "backoff_max_s"):
            if not 0.0 < getattr(self, name) <= 600:
                raise ConfigError(f"{name} = {getattr(self, name)}: give above 0, at most 600 s")
        if self.canary_misses < 1:
            raise ConfigError(f"canary_misses = {self.canary_misses}: give 1 or more")


class Supervisor:
    """Runs one server until asked to stop. `status_file` holds state, process id, ports and restarts as JSON."""

    def __init__(
        self, process: TritonProcess, client: TritonPolicy, config: SupervisorConfig, status_file: Path,
        versions: ServedVersions,
    ) -> None:
        self._process, self._client, self._config, self._status_file = process, client, config, status_file
        self._versions = versions
        self._restarts = 0

    def run(self, stop: threading.Event) -> None:
        """Serve until `stop`. Raises SteadyhandError when the first start fails; later ones are tried again."""
        backoff_s = self._config.backoff_first_s
        try:
            self._start(stop)
            while not stop.is_set():
                started_s = time.monotonic()
                reason = self._watch(stop)
                if stop.is_set():
                    break
                if time.monotonic() - started_s > 60.0:
                    backoff_s = self._config.backoff_first_s  # it ran well: this is a new failure
                backoff_s = self._restart(reason, backoff_s, stop)
        finally:
            self._status("stopping")
            self._process.stop()
            self._status("stopped")

    def _start(self, stop: threading.Event) -> None:
        begin_s = time.monotonic()
        self._versions.restarted()
        self._process.start()
        self._status("starting")
        while not stop.is_set():
            code = self._process.exited()
            if code is not None:
                raise SteadyhandError(f"Triton ended with status {code}: " + " | ".join(self._process.log_errors()))
            miss = self._canary()
            if miss is None:
                LOG.info("ready after %.1f s: canary of %s answered, gRPC %s", time.monotonic() - begin_s,
                         self._client.config.model, self._client.config.url)
                self._status("ready")
                return
            if time.monotonic() - begin_s > self._config.ready_timeout_s:
                raise SteadyhandError(f"Triton not ready after {self._config.ready_timeout_s:.0f} s: {miss}; "
                                      + " | ".join(self._process.log_errors()))
            stop.wait(0.05)

    def _watch(self, stop: threading.Event) -> str:
        """Return why the server must be restarted, or when asked to stop."""
        misses = 0
        next_s = time.monotonic() + self._config.canary_interval_s
        while not stop.wait(0.05):
            code = self._process.exited()
            if code is not None:
                return f"ended with status {code}"
            if time.monotonic() < next_s:
                continue
            next_s = time.monotonic() + self._config.canary_interval_s
            miss = self._canary()
            misses = 0 if miss is None else misses + 1
            if miss is None:
                self._follow_versions()
            if misses >= self._config.canary_misses:
                return f"{misses} canaries missed, last: {miss}"
        return ""

    def _follow_versions(self) -> None:
        lines = self._versions.follow(self._client)
        for line in lines:
            LOG.info("%s", line)
        if lines:
            self._status("ready")

    def _restart(self, reason: str, backoff_s: float, stop: threading.Event) -> float:
        LOG.warning("restarting Triton: %s", reason)
        self._restarts += 1
        self._status("restarting", reason)
        self._process.stop(grace_s=0.5)
        try:
            self._start(stop)
            return backoff_s
        except SteadyhandError as error:
            LOG.error("%s; next attempt in %.1f s", error, backoff_s)
            self._status("restarting", str(error))
            stop.wait(backoff_s)
            return min(2 * backoff_s, self._config.backoff_max_s)

    def _canary(self) -> str | None:
        try:
            self._client.canary(self._config.canary_deadline_s)
        except PolicyError as error:
            return str(error)
        return None

    def _status(self, state: str, detail: str = "") -> None:
        body = {"state": state, "detail": detail, "server_pid": self._process.pid, "supervisor_pid": os.getpid(),
                "grpc": self._client.config.url, "restarts": self._restarts,
                "versions": list(self._versions.served), "refused": self._versions.refused}
        scratch = self._status_file.with_suffix(".tmp")
        try:
            self._status_file.parent.mkdir(parents=True, exist_ok=True)
            scratch.write_text(json.dumps(body) + "\n")
            scratch.replace(self._status_file)  # a reader never sees half a file
        except OSError as error:  # a full disk stops no server
            LOG.warning("%s: %s", self._status_file, error.strerror)


def check_repository(repository: Path) -> contracts.PolicyContract:
    """Check a repository before a server is started on it; the contract of the newest `pick_place`.

    Raises ConfigError for what is missing, ContractError naming the version and the field that disagrees.
    """
    repositories.policy_files(repository, version=1 if not repositories.versions(repository) else 0)
    for number in repositories.versions(repository):
        contract = check_version(repository, number)
    for folder in sorted(p for p in Path(repository).iterdir() if p.is_dir()):
        for path in (folder / "config.pbtxt", folder / str(_a_version(folder)) / "model.onnx"):
            if not path.exists():
                raise ConfigError(f"model repository: {path} is missing")
    return contract


def _a_version(folder: Path) -> int:
    """The newest version of any model, 1 when there is none: what is then named as missing."""
    return (repositories.versions(folder.parent, folder.name) or (1,))[-1]


def main(argv: list[str] | None = None) -> int:
    """Entry point. Exit status 0 after a stop on request, 2 for bad input, 1 when the server cannot run."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        slot = current_slot()
        options = _parser(slot).parse_args(argv)
        addresses = Addresses("127.0.0.1", options.http_port, options.grpc_port, options.metrics_port)
        contract = check_repository(options.repository)
        addresses.check_free()
        folder = slot.out_dir / "triton"
        tree = triton_tree.lay_out(options.venv, folder / "server")
    except (ConfigError, ContractError, SteadyhandError) as error:
        print(f"steadyhand-triton: {error}", file=sys.stderr)
        return 2
    except OSError as error:  # of the tree that is laid out
        LOG.error("%s: %s", error.filename, error.strerror)
        return 2
    prefix = f"steadyhand_triton_{slot.index}_"
    process = TritonProcess(tree, options.repository, addresses, prefix, slot.out_dir / "log" / "triton_server.log")
    newest = str(repositories.newest(options.repository))
    client = TritonPolicy(TritonConfig(f"127.0.0.1:{options.grpc_port}", version=newest), contract).open()
    supervisor = Supervisor(process, client, SupervisorConfig(ready_timeout_s=options.ready_timeout_s),
                            folder / "status.json", ServedVersions(options.repository))
    try:
        supervisor.run(stop)
    except SteadyhandError as error:
        print(f"steadyhand-triton: {error}", file=sys.stderr)
        return 1
    finally:
        client.close()
    return 0


def _parser(slot) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="steadyhand-triton", description=__doc__.splitlines()[0])
    parser.add_argument("--repository", type=Path, default=repositories.DEFAULT_REPOSITORY, help="model repository")
    parser.add_argument("--venv", type=Path, default=triton_tree.default_venv(), help="has nvidia-pytriton")
    parser.add_argument("--http-port", type=int, default=slot.triton_http_port)
    parser.add_argument("--grpc-port", type=int, default=slot.triton_grpc_port)
    parser.add_argument("--metrics-port", type=int, default=slot.triton_metrics_port)
    parser.add_argument("--ready-timeout-s", type=float, default=30.0)
    return parser


if __name__ == "__main__":
    sys.exit(main())
