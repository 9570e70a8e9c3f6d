"""An ONNX Runtime session that knows where it runs, says so, and survives the loss of its accelerator.

The provider is read back from the session (I8): an engine that is asked for CUDA and cannot have it silently gives the
CPU. `wanted`: `cpu`, `cuda`, or `auto` (CUDA where there is one). When a run on an accelerator fails, the same call is
answered by a session on the CPU that was warmed beside it, and the loss is said; the way back is a new start, because
a process whose CUDA context broke cannot be trusted with another.
"""
from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np

from steadyhand.errors import ConfigError, ContractError, DependencyMissing, PolicyError

CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"
PROVIDERS = {"cpu": CPU, "cuda": CUDA}
WANTED = ("auto", *PROVIDERS)


class Engine:
    """`run` maps (B, D) to the named output. `provider` is what it runs on now; `trouble` why it is not what was wanted
    (empty when well). One thread at a time calls `run`; others may read."""

    def __init__(self, model: Path, wanted: str, input_name: str, output_name: str) -> None:
        if wanted not in WANTED:
            raise ConfigError(f"provider = {wanted!r}: give one of {', '.join(WANTED)}")
        self._model, self._wanted, self._names = model, wanted, (input_name, output_name)
        self._session: Any = None
        self._standby: Any = None  # on the CPU, while `_session` is on an accelerator
        self._lock = threading.Lock()
        self.provider, self.trouble, self.losses = "", "", 0

    def open(self) -> Engine:
        """Load the model. Raises ContractError, ConfigError (`cuda` asked and not to be had), DependencyMissing."""
        offered = available()
        first = CUDA if self._wanted == "auto" and CUDA in offered else PROVIDERS.get(self._wanted, CPU)
        self._session = open_session(self._model, first)
        self.provider = self._session.get_providers()[0]
        if self.provider != first:
            said = f"asked for {first}, the session runs on {self.provider}"
            if self._wanted != "auto":
                raise ConfigError(f"provider: {said}; install steadyhand[gpu] and its CUDA, or give cpu or auto")
            self.trouble = said
        if self.provider != CPU:
            self._standby = open_session(self._model, CPU)
        return self

    @property
    def session(self) -> Any:
        """The session in use."""
        return self._session

    def run(self, batch: np.ndarray) -> np.ndarray:
        """The output for a batch. Raises PolicyError when no session can answer."""
        try:
            return self._run(self._session, batch)
        except Exception as error:  # the engine raises classes of its own; each may mean a lost accelerator
            if self._standby is None:
                raise PolicyError(f"{self.provider}: {str(error)[:160]}") from error
            cause = str(error)
        try:
            answer = self._run(self._standby, batch)
        except Exception as error:  # the input's fault, then: no accelerator is blamed for it
            raise PolicyError(f"{self.provider} and {CPU}: {str(error)[:160]}") from error
        self._lost(cause)
        return answer

    def warm_up(self, batch: np.ndarray, calls: int) -> np.ndarray:
        """Run every session so often; the last answer of the one in use. The standby is as warm as the first."""
        for _ in range(calls):
            if self._standby is not None:
                self._run(self._standby, batch)
            answer = self.run(batch)
        return answer

    def close(self) -> None:
        """Drop the sessions."""
        self._session = self._standby = None

    def _run(self, session: Any, batch: np.ndarray) -> np.ndarray:
        if session is None:
            raise PolicyError("engine: not open")
        return session.run([self._names[1]], {self._names[0]: batch})[0]

    def _lost(self, cause: str) -> None:
        with self._lock:
            if self._standby is None:
                return
            was, self._session, self._standby = self.provider, self._standby, None
            self.provider, self.losses = CPU, self.losses + 1
            self.trouble = f"{was} was lost and the policy runs on {CPU}: {cause[:160]}; restart to use it again"


def available() -> tuple[str, ...]:
    """What the installed engine was built for; proves nothing about this machine."""
    return tuple(_onnxruntime().get_available_providers())


def open_session(model: Path, provider: str = CPU) -> Any:
    """A single-threaded session: a small model gains nothing from a pool, whose spinning threads would cost a core."""
    onnxruntime = _onnxruntime()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    providers = [provider] if provider == CPU else [provider, CPU]
    try:
        return onnxruntime.InferenceSession(str(model), options, providers=providers)
    except Exception as error:  # onnxruntime raises many kinds for a damaged file; at this edge each means the same
        raise ContractError(f"model {model}: not a loadable ONNX file ({str(error)[:160]})") from error


def _onnxruntime() -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise DependencyMissing("needs onnxruntime: pip install 'steadyhand[cpu]' (or [gpu])") from error
    return onnxruntime
