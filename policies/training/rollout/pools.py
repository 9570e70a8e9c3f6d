"""A pool of hosts: asks them all, in order, and outlives them. One pool, three transports: here, processes, Ray.

A worker that dies is replaced, its environments are put back where they stood, and it is asked again: nothing but time
is lost. A transport is three verbs: `send` a call, `receive` its answer within a time limit, `close`.
"""
from __future__ import annotations

import multiprocessing
import os
import traceback
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from policies.training.config import DisturbanceConfig, WorkersConfig
from policies.training.rollout.actor import Actor
from policies.training.rollout.fragment import Cursor, Fragment, beginning
from policies.training.rollout.hosts import Described, EnvHost, HostSpec, Outcome, Shown, Trial
from steadyhand.errors import ConfigError, SteadyhandError

RESTARTS_MAX = 5
TRIALS_A_CALL = 20  # of each worker: a progress bar moves, and a death costs little


class WorkerDied(SteadyhandError):
    """A worker is gone; what it was asked is unanswered."""


class Worker(Protocol):
    """A host somewhere."""

    def send(self, method: str, *arguments: Any) -> None: ...

    def receive(self, timeout_s: float) -> Any:
        """The answer to the oldest call. WorkerDied when there will be none, TimeoutError when it takes too long."""

    def close(self) -> None: ...


class SerialWorker:
    """A host in this process."""

    def __init__(self, spec: HostSpec, environments: tuple[int, ...]) -> None:
        self._host, self._asked = EnvHost(spec, environments), []

    def send(self, method: str, *arguments: Any) -> None:
        self._asked.append((method, arguments))

    def receive(self, timeout_s: float) -> Any:
        method, arguments = self._asked.pop(0)
        return getattr(self._host, method)(*arguments)

    def close(self) -> None:
        self._host.close()


class ProcessWorker:
    """A host in a process of its own, on this machine."""

    def __init__(self, spec: HostSpec, environments: tuple[int, ...]) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, spec, environments), daemon=True)
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # small matrices: threads would only disturb
            os.environ.setdefault(name, "1")
        self._process.start()
        theirs.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, method: str, *arguments: Any) -> None:
        try:
            self._pipe.send((method, arguments))
        except (BrokenPipeError, OSError) as error:
            raise WorkerDied(f"process {self.pid}: {error!r}") from error

    def receive(self, timeout_s: float) -> Any:
        try:
            if not self._pipe.poll(timeout_s):
                raise TimeoutError(f"process {self.pid}: no answer within {timeout_s:g} s")
            failed, answer = self._pipe.recv()
        except (EOFError, ConnectionError) as error:
            raise WorkerDied(f"process {self.pid}: {error!r}") from error
        if failed:
            raise answer
        return answer

    def close(self) -> None:
        self._pipe.close()  # it ends when nobody can ask it any more
        self._process.join(5.0)
        if self._process.is_alive():
            self._process.kill()
            self._process.join(5.0)


def _serve(pipe, spec: HostSpec, environments: tuple[int, ...]) -> None:
    """A worker process: answer until the other end is gone."""
    host = EnvHost(spec, environments)
    try:
        while True:
            method, arguments = pipe.recv()
            try:
                answer = (False, getattr(host, method)(*arguments))
            except SteadyhandError as error:
                answer = (True, error)
            except Exception:  # noqa: BLE001 - the edge of a process: told to the one who asked
                answer = (True, SteadyhandError(f"worker {os.getpid()}: {traceback.format_exc()}"))
            pipe.send(answer)
    except (EOFError, ConnectionError, KeyboardInterrupt):
        pass
    finally:
        host.close()


class Pool:
    """Environments 0 to `environments` - 1 dealt out to workers. Results do not depend on how many there are."""

    def __init__(
        self, start: Callable[[tuple[int, ...]], Worker], environments: int, workers: int, timeout_s: float = 900.0
    ) -> None:
        workers = max(1, min(workers, environments))
        self._start, self._timeout_s, self.restarts = start, timeout_s, 0
        self._shares = [tuple(range(environments))[k::workers] for k in range(workers)]
        self.workers = [start(share) for share in self._shares]
        self._cursors: dict[int, Cursor] = {}

    def describe(self) -> Described:
        """What the environment takes and gives."""
        return self._ask([("describe",)] + [None] * (len(self.workers) - 1))[0]

    def collect(self, actor: Actor, iteration: int, steps: int, environments: tuple[int, ...]) -> list[Fragment]:
        """A fragment of each environment named, in the order of their numbers."""
        asked = [("collect", actor, iteration, steps, environments)] * len(self.workers)
        found = sorted((f for part in self._ask(asked) for f in part), key=lambda f: f.environment)
        for f in found:
            self.note(f)
        return found

    def note(self, fragment: Fragment) -> None:
        """Remember that an environment has run this fragment (also one that was read back after a kill)."""
        before = self._cursors.get(fragment.environment) or beginning(fragment.environment, fragment.action.shape[1])
        self._cursors[fragment.environment] = before.after(fragment)

    def restore(self) -> dict[int, np.ndarray]:
        """Put every environment where the fragments noted have left it; what each observes there."""
        asked = [("restore", self._of(share)) for share in self._shares]
        return {number: o for part in self._ask(asked) for number, o in part}

    def evaluate(
        self, actor: Actor, trials: list[Trial], tell: Callable[[int], None] = lambda n: None
    ) -> list[Outcome]:
        """Outcomes in the order of the trials; `tell` hears how many more are done."""
        return self._deal(trials, lambda some: ("evaluate", actor, some), tell)

    def demonstrate(
        self, expert: str, seeds: list[int], disturbance: DisturbanceConfig,
        tell: Callable[[int], None] = lambda n: None,
    ) -> list[Shown]:
        """An episode of the demonstrator for each seed, in their order."""
        return self._deal(seeds, lambda some: ("demonstrate", expert, some, disturbance), tell)

    def close(self) -> None:
        """End the workers."""
        for worker in self.workers:
            worker.close()
        self.workers = []

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def _of(self, share: tuple[int, ...]) -> list[Cursor]:
        return [self._cursors[i] for i in share if i in self._cursors]

    def _deal(self, items: list, call: Callable[[list], tuple], tell: Callable[[int], None]) -> list:
        done, n = [], len(self.workers)
        for first in range(0, len(items), n * TRIALS_A_CALL):
            some = items[first:first + n * TRIALS_A_CALL]
            parts = self._ask([call(some[k::n]) for k in range(n)])
            answers = [None] * len(some)
            for k, part in enumerate(parts):
                answers[k::n] = part
            done += answers
            tell(len(some))
        return done

    def _ask(self, calls: list[tuple | None]) -> list:
        """One call to each worker (None: not this one), all at once; answers in their order."""
        for k, call in enumerate(calls):
            if call is not None:
                self._send(k, call)
        return [None if call is None else self._receive(k, call) for k, call in enumerate(calls)]

    def _send(self, k: int, call: tuple) -> None:
        try:
            self.workers[k].send(*call)
        except WorkerDied:
            pass  # its answer will be missing too, and then it is replaced

    def _receive(self, k: int, call: tuple) -> Any:
        while True:
            try:
                return self.workers[k].receive(self._timeout_s)
            except WorkerDied as death:
                self.restarts += 1
                if self.restarts > RESTARTS_MAX:
                    raise SteadyhandError(f"workers died {self.restarts} times; the last one: {death}") from death
                self._replace(k)
                self._send(k, call)

    def _replace(self, k: int) -> None:
        self.workers[k].close()
        self.workers[k] = self._start(self._shares[k])
        if cursors := self._of(self._shares[k]):
            self._send(k, ("restore", cursors))
            self.workers[k].receive(self._timeout_s)


def open_pool(spec: HostSpec, environments: int, config: WorkersConfig) -> Pool:
    """The pool that a configuration asks for. DependencyMissing when it is Ray and that is not installed."""
    if config.transport == "ray":
        from policies.training.rollout.ray_worker import ray_starter

        return Pool(ray_starter(spec, config.address), environments, config.count, config.timeout_s)
    transports = {"serial": SerialWorker, "processes": ProcessWorker}
    if config.transport not in transports:
        raise ConfigError(f"workers.transport: {config.transport!r}, expected serial, processes or ray")
    make = transports[config.transport]
    workers = 1 if config.transport == "serial" else config.count
    return Pool(lambda share: make(spec, share), environments, workers, config.timeout_s)
