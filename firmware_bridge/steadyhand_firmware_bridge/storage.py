"""The output folder on the disk: its configuration, and one `Store` per kind that a writer asks before it writes.

For threads that may wait for a disk, never for a control loop. Nothing here raises because a disk is full or a file is
gone: a store says no, and says why.
"""
from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping
from pathlib import Path

import yaml

from steadyhand import retention
from steadyhand.errors import ConfigError
from steadyhand.retention import Entry, SpaceRule, StorageConfig

CONFIG_VARIABLE = "STEADYHAND_STORAGE"
SCAN_S = 10.0  # other processes write to the same folder
AS_FOLDERS = ("stops",)  # each entry of these is a folder, kept or deleted as a whole
LOG_TAIL_BYTES = 2_000_000  # kept beside a log that is cut
INDEX = "index.md"  # of a folder: never deleted


def load(environ: Mapping[str, str] = os.environ) -> StorageConfig:
    """From the file that `STEADYHAND_STORAGE` names, else the defaults. Raises ConfigError naming file and field."""
    name = environ.get(CONFIG_VARIABLE, "")
    if not name:
        return StorageConfig()
    try:
        raw = yaml.safe_load(Path(name).read_text()) or {}
        if not isinstance(raw, dict):
            raise ConfigError("expected a map of parameters")
        return retention.config_of(raw)
    except (OSError, UnicodeDecodeError, yaml.YAMLError, ConfigError) as error:
        raise ConfigError(f"{CONFIG_VARIABLE}={name}: {error}") from error


class Store:
    """One kind's folder. `bulky`: recording that stops for want of free space; the rest goes on until the disk is full.

    Not for several threads at once. `pauses` and `deleted` count; `why` is empty while it records.
    """

    def __init__(self, out: Path, kind: str, config: StorageConfig, bulky: bool = True):
        self.folder, self.kind, self.bulky = out / kind, kind, bulky
        self.budget = config.budgets[kind]
        self.deleted = 0
        self._space = SpaceRule(config)
        self._over = ""
        self._used, self._scanned_s = 0, -float("inf")

    @property
    def why(self) -> str:
        """Why nothing is written now."""
        return self._space.why or self._over

    @property
    def pauses(self) -> int:
        return self._space.pauses

    def room(self, size_bytes: int, keep: Collection[str] = ()) -> bool:
        """Whether so much may be written now; deletes the oldest of this kind for it. `keep`: names in use."""
        now_s = time.monotonic()
        if self.bulky and not self._space.look(free_bytes(self.folder), now_s):
            return False
        if now_s - self._scanned_s > SCAN_S or self._used + size_bytes > self.budget.max_bytes:
            self.prune(size_bytes, keep)
        if self._used + size_bytes > self.budget.max_bytes:
            self._over = f"{self.kind} is over its budget of {self.budget.max_mb:g} MB"
            return False
        if size_bytes:
            self._over = ""
        self._used += size_bytes
        return True

    def disk_refused(self, error: OSError) -> None:
        """A write failed after all."""
        self._scanned_s = -float("inf")
        self._space.refused(f"{error.strerror or error} on {self.folder}", time.monotonic())

    def prune(self, room_bytes: int = 0, keep: Collection[str] = ()) -> int:
        """Delete what the budget does not allow, oldest first; how many went."""
        entries = scan(self.folder, self.kind in AS_FOLDERS)
        gone = 0
        for entry in retention.surplus(entries, self.budget, time.time(), {*keep, INDEX}, room_bytes):
            if _delete(self.folder / entry.name):
                entries.remove(entry)
                gone += 1
        self.deleted += gone
        self._used, self._scanned_s = sum(e.size_bytes for e in entries), time.monotonic()
        return gone


def free_bytes(folder: Path) -> float:
    """Free space for an ordinary user where `folder` is or will be; infinite when it cannot be told."""
    for path in (folder, *folder.absolute().parents):
        try:
            found = os.statvfs(path)
        except FileNotFoundError:
            continue
        except OSError:
            break
        return float(found.f_bavail * found.f_frsize)
    return float("inf")


def scan(folder: Path, as_folders: bool = False) -> list[Entry]:
    """Every file below `folder` (with `as_folders` its direct entries as wholes), but what vanishes meanwhile."""
    try:
        paths = list(folder.iterdir()) if as_folders else [p for p in folder.rglob("*") if not p.is_dir()]
    except OSError:
        return []
    return [entry for path in paths if (entry := _entry(folder, path)) is not None]


def _entry(folder: Path, path: Path) -> Entry | None:
    try:
        parts = [path, *path.rglob("*")] if path.is_dir() and not path.is_symlink() else [path]
        found = [p.lstat() for p in parts]
    except OSError:
        return None
    # what the file takes on the disk, blocks of 512 bytes; an entry is as new as the newest file in it
    return Entry(str(path.relative_to(folder)), sum(f.st_blocks for f in found) * 512, max(f.st_mtime for f in found))


def _delete(path: Path) -> bool:
    try:
        if path.is_dir() and not path.is_symlink():
            for part in sorted(path.rglob("*"), reverse=True):
                part.rmdir() if part.is_dir() and not part.is_symlink() else part.unlink()
            path.rmdir()
        else:
            path.unlink()
    except OSError:
        return False
    return True


def live_logs(folder: Path) -> list[Path]:
    """The logs of processes, which append to them: cut in place, never deleted."""
    return [p for p in folder.glob("*.log") if not p.name.endswith(".1.log")]


def cut_log(path: Path, max_bytes: int) -> bool:
    """Move the end of a log that is too large to `NAME.1.log` and begin it anew; whether it was cut.

    In place, since its process holds it open (O_APPEND: it goes on at the new end). Lines written in this moment may
    be lost.
    """
    try:
        size = path.stat().st_size
        if size <= max_bytes:
            return False
        with path.open("rb") as file:
            file.seek(-min(size, LOG_TAIL_BYTES), os.SEEK_END)
            tail = file.read()
        try:
            path.with_suffix(".1.log").write_bytes(tail)
        finally:  # also when the disk is full: what is cut makes room
            os.truncate(path, 0)
    except OSError:
        return False
    return True


def sweep(out: Path, config: StorageConfig, log: Path | None = None) -> int:
    """One pass over everything below `out`: logs cut, budgets enforced; how many entries were deleted."""
    log = log or out / "log"
    live = live_logs(log)
    for path in live:
        cut_log(path, int(config.log_file_mb * retention.MB))
    stores = [Store(out, kind, config) for kind in config.budgets]
    return sum(store.prune(keep=[p.name for p in live] if store.kind == "log" else ()) for store in stores)
