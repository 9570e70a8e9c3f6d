"""What a run that was killed goes on from: written whole after every update, read back as it was."""
from __future__ import annotations

import io
import pickle
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch

from policies.training.store.files import write_whole
from steadyhand.errors import ConfigError


@dataclass
class State:
    """`updates` are done; `learner` is what they left. `best`: the learner at its best on the clean set, and the
    scenes that it mastered. Plain values and tensors only: the file is read without running anything in it."""

    run: str  # identity of the configuration
    updates: int = 0
    learner: dict = field(default_factory=dict)
    best: dict = field(default_factory=dict)
    best_update: int = 0
    best_success: list[bool] = field(default_factory=list)
    standing: list[list] = field(default_factory=list)  # alarms in a row: [name, count]
    rollbacks: int = 0
    spread: float = 0.0  # of the first mean actions
    outcome: str = ""  # why it ended; "" while it has not

    def save(self, path: Path) -> None:
        """Durable when it returns."""
        path.parent.mkdir(parents=True, exist_ok=True)
        content = io.BytesIO()
        torch.save(asdict(self), content)
        write_whole(path, [content.getvalue()])

    @staticmethod
    def load(path: Path, run: str) -> State:
        """The state of this run. ConfigError when it is another run's, or damaged."""
        try:
            state = State(**torch.load(path, weights_only=True))
        except (OSError, RuntimeError, TypeError, ValueError, EOFError, pickle.UnpicklingError) as error:
            raise ConfigError(f"state {path}: {error!r}; remove the folder to start anew") from error
        if state.run != run:
            raise ConfigError(f"state {path}: of another configuration; give another --out, or remove the folder")
        return state
