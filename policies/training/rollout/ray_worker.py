"""A host on a Ray cluster: the same calls, the same answers. Needs `pip install -r requirements/ray.txt`; optional.

The project must be importable on every node (the same checkout, or a shared file system): code is not shipped.
"""
from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from policies.training.rollout.hosts import EnvHost, HostSpec
from policies.training.rollout.pools import WorkerDied
from steadyhand.errors import DependencyMissing, SteadyhandError

try:
    import ray
    import ray.exceptions
except ImportError as error:
    raise DependencyMissing("workers.transport ray needs it: pip install -r requirements/ray.txt") from error


class _RayHost(EnvHost):
    """A host that knows its node."""

    def node(self) -> str:
        return ray.get_runtime_context().get_node_id()


class RayWorker:
    """A host as a Ray actor, on whichever node has least to do."""

    def __init__(self, spec: HostSpec, environments: tuple[int, ...]) -> None:
        remote = ray.remote(_RayHost).options(num_cpus=1, scheduling_strategy="SPREAD", max_restarts=0)
        self._host, self._asked = remote.remote(spec, environments), []

    def send(self, method: str, *arguments: Any) -> None:
        self._asked.append(getattr(self._host, method).remote(*arguments))

    def receive(self, timeout_s: float) -> Any:
        reference = self._asked.pop(0)
        try:
            return ray.get(reference, timeout=timeout_s)
        except ray.exceptions.RayActorError as error:
            self._asked.clear()
            raise WorkerDied(f"Ray actor: {error}") from error
        except ray.exceptions.GetTimeoutError as error:
            raise TimeoutError(f"Ray actor: no answer within {timeout_s:g} s") from error
        except ray.exceptions.RayTaskError as error:
            cause = error.cause
            raise (cause if isinstance(cause, SteadyhandError) else SteadyhandError(str(error))) from error

    def close(self) -> None:
        ray.kill(self._host, no_restart=True)


def ray_starter(spec: HostSpec, address: str | None) -> Callable[[tuple[int, ...]], RayWorker]:
    """Join the cluster at `address` (none: start one on this machine) and say how workers are made."""
    if not ray.is_initialized():
        paths = os.pathsep.join(p or os.getcwd() for p in sys.path)
        variables = {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        own = {} if address else {"include_dashboard": False}  # a cluster that exists has decided that itself
        ray.init(address=address, runtime_env={"env_vars": variables}, log_to_driver=False, **own)
    return lambda share: RayWorker(spec, share)
