"""What the stores ask of a file system: a lock with one holder, files that appear whole, folders that are synced."""
from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from policies.training.store.frames import BadStore

_HELD_HERE: set[tuple[int, int]] = set()  # a POSIX lock does not stop a second holder in the same process


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock file. Raises BadStore when this or another process holds it, and says which."""
    folder = path.parent.stat()
    key = (folder.st_dev, folder.st_ino)
    if key in _HELD_HERE:  # asked first: closing a second descriptor of the file would drop the first one's lock
        raise BadStore(f"{path.parent.name}: this process writes to it already")
    with path.open("a+") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            raise BadStore(f"{path.parent.name}: process {file.read().strip() or '?'} writes to it already") from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        _HELD_HERE.add(key)
        try:
            yield
        finally:
            _HELD_HERE.discard(key)


def write_whole(path: Path, parts: Iterable[bytes]) -> None:
    """A file that is there with all its bytes, synced, or not at all."""
    partial = path.with_name(path.name + ".new")
    with partial.open("wb") as file:
        for part in parts:
            file.write(part)
        file.flush()
        os.fsync(file.fileno())
    partial.rename(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the folder's entries durable."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
