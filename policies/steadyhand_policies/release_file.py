"""The state of a release on the disk: one small file, changed under a lock, whole or not at all, through to the disk.

Operators' commands and the agent both change it; each reads what is there, changes that, and writes.
"""
from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from steadyhand.errors import ConfigError, ContractError
from steadyhand_policies import release_codec
from steadyhand_policies.release import Release

MAX_BYTES = 1_000_000
LOCK_S = 2.0


class ReleaseFile:
    """`read`, `update`, `changed`. Nothing is written before somebody decides something. One thread uses one object."""

    def __init__(self, folder: Path, model: str) -> None:
        self.model = model
        self.path = Path(folder) / f"{model}.release.json"
        self._seen: tuple[int, int, int] | None = None

    def read(self) -> Release | None:
        """The state; None when nothing was ever decided. Raises ContractError when the file is damaged."""
        try:
            with self.path.open("rb") as file:
                text = file.read(MAX_BYTES + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ConfigError(f"{self.path}: {error.strerror}") from error
        if len(text) > MAX_BYTES:
            raise ContractError(f"{self.path}: more than {MAX_BYTES} bytes")
        try:
            release = release_codec.parse(text)
        except ContractError as error:
            raise ContractError(f"{self.path}: {error}; `steadyhand policy serve VERSION` decides anew") from error
        if release.model != self.model:
            raise ContractError(f"{self.path}: is of model {release.model!r}, expected {self.model!r}")
        return release

    def update(self, change: Callable[[Release | None], Release]) -> Release:
        """Read, change and write under the lock; the new state. Whatever `change` raises leaves the file as it was."""
        with self._locked():
            before = self.read()
            after = change(before)
            if after != before:
                self._write(after)
            return after

    def replace(self, release: Release) -> None:
        """Write a state over whatever is there, a damaged file too."""
        with self._locked():
            self._write(release)

    def changed(self) -> bool:
        """Whether somebody else wrote the file since the last call."""
        try:
            now = _mark(self.path.stat())
        except OSError:
            now = None
        before, self._seen = self._seen, now
        return now != before

    def _write(self, release: Release) -> None:
        scratch = self.path.with_suffix(".tmp")
        try:
            with scratch.open("w") as file:
                file.write(release_codec.dump(release))
                file.flush()
                os.fsync(file.fileno())
                mark = _mark(os.fstat(file.fileno()))
            scratch.replace(self.path)
            self._seen = mark  # our own change is no news
        except OSError as error:
            raise ConfigError(f"{self.path}: {error.strerror}") from error

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            lock = self.path.with_suffix(".lock").open("a")
        except OSError as error:
            raise ConfigError(f"{self.path.parent}: {error.strerror}") from error
        with lock:
            end_s = time.monotonic() + LOCK_S
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > end_s:
                        raise ConfigError(f"{self.path}: another process holds it for more than {LOCK_S} s") from None
                    time.sleep(0.02)
            yield


def _mark(found: os.stat_result) -> tuple[int, int, int]:
    """What tells one content of the file from another: each is a file of its own."""
    return found.st_ino, found.st_mtime_ns, found.st_size
