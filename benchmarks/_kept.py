"""Results of a long run kept line by line, so that it can be interrupted at any moment and go on."""
from __future__ import annotations

import contextlib
import hashlib
import inspect
import json
import os
from pathlib import Path
from types import ModuleType

from benchmarks import common


def identity(*modules: ModuleType) -> str:
    """Hash of the commit and of the text of modules: results of another state of the code are not mixed in."""
    text = "".join(inspect.getsource(m) for m in modules) + common.commit().rstrip("+")
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def read(path: Path) -> list[dict]:
    """The whole lines of a file of JSON lines; one that was cut off is left out. Empty when there is no file."""
    found = []
    for line in path.read_text().splitlines() if path.exists() else ():
        with contextlib.suppress(json.JSONDecodeError):
            found.append(json.loads(line))
    return found


def append(path: Path, record: dict) -> None:
    """Add a line, on a line of its own also after one that was cut off."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab+") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")
        file.write((json.dumps(record) + "\n").encode())


class Kept:
    """A file of JSON lines below `out/bench`. `lines` are those of an earlier run with the same identity; lines of
    another one are dropped."""

    def __init__(self, name: str, mark: str, fresh: bool):
        self._path = common.out_path(f"{name}.jsonl")
        before = read(self._path)
        if fresh or before[:1] != [{"identity": mark}]:
            self._path.unlink(missing_ok=True)
            before = [{"identity": mark}]
            append(self._path, before[0])
        self.lines: list[dict] = before[1:]

    def add(self, line: dict) -> None:
        """Keep one more result."""
        self.lines.append(line)
        append(self._path, line)
