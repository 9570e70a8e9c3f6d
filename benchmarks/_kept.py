"""Results of a long run kept line by line, so that it can be interrupted and go on. Lines of another identity are dropped."""
from __future__ import annotations

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


class Kept:
    """A JSON-lines file below `out/bench`. `lines` are those of an earlier run with the same identity."""

    def __init__(self, name: str, mark: str, fresh: bool):
        path = Path(os.environ.get("STEADYHAND_OUT", common.ROOT / "out")) / "bench" / f"{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        self.lines: list[dict] = []
        if path.exists() and not fresh:
            whole = [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]
            if whole and whole[0].get("identity") == mark:
                self.lines = whole[1:]
        self._file = path.open("w")
        self._write({"identity": mark})
        for line in self.lines:
            self._write(line)

    def add(self, line: dict) -> None:
        """Keep one more result."""
        self.lines.append(line)
        self._write(line)

    def _write(self, line: dict) -> None:
        print(json.dumps(line), file=self._file, flush=True)

    def close(self) -> None:
        """No more results."""
        self._file.close()
