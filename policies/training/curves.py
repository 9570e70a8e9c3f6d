"""Learning curves: a CSV that is whole after every row, a PNG of it, and progress on the terminal or in a log."""
from __future__ import annotations

import csv
import os
import sys
import time
from pathlib import Path

import numpy as np


class Curve:
    """Rows of one CSV file. The first row fixes the columns; a value that a row lacks is left empty."""

    def __init__(self, path: Path, columns: tuple[str, ...] | None = None) -> None:
        self.path, self.rows = path, []
        self._columns = columns

    def add(self, **row) -> None:
        """Append a row; the file is replaced whole, so a kill leaves the old one or the new one."""
        self._columns = self._columns or tuple(row)
        unknown = row.keys() - set(self._columns)
        if unknown:
            raise ValueError(f"{self.path.name}: columns {sorted(unknown)} are not among {self._columns}")
        self.rows.append(row)
        self._write()

    def extend(self, rows: list[dict]) -> None:
        """Append many; the file is written once."""
        self._columns = self._columns or tuple(rows[0])
        self.rows += rows
        self._write()

    def resume(self, keep) -> None:
        """Read the rows of an earlier run for which `keep(row)` is true (values are text)."""
        if self.path.exists():
            with self.path.open(newline="") as file:
                reader = csv.DictReader(file)
                self.rows = [row for row in reader if keep(row)]
                self._columns = self._columns or tuple(reader.fieldnames or ())

    def column(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Row numbers and values where the column is filled."""
        filled = [(i, float(r[name])) for i, r in enumerate(self.rows) if r.get(name) not in (None, "")]
        return tuple(np.array(x) for x in zip(*filled)) if filled else (np.zeros(0), np.zeros(0))

    def _write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        part = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        with part.open("w", newline="") as file:
            writer = csv.DictWriter(file, self._columns)
            writer.writeheader()
            writer.writerows({k: _short(v) for k, v in row.items()} for row in self.rows)
        os.replace(part, self.path)


def plot(
    curve: Curve, path: Path, x: str, panels: dict[str, tuple[str, ...]], title: str,
    marks: dict = {}, log: bool = False,
) -> None:
    """One panel below the other, each with the columns named; `x` "" is the row number. `marks`: x value -> word, as
    vertical lines."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(len(panels), 1, figsize=(7, 1.6 * len(panels) + 0.8), sharex=True, squeeze=False)
    at = np.array([float(r[x]) for r in curve.rows]) if x else np.arange(len(curve.rows))
    for axis, (label, columns) in zip(axes[:, 0], panels.items()):
        for name in columns:
            rows, values = curve.column(name)
            if len(rows):
                axis.plot(at[rows.astype(int)], values, label=name, linewidth=1)
        for value, word in marks.items():
            axis.axvline(value, color="tab:red", linewidth=0.6)
            axis.text(value, 1.0, f" {word}", transform=axis.get_xaxis_transform(), va="top", fontsize=6)
        axis.set_ylabel(label, fontsize=8)
        if log:
            axis.set_yscale("log")
        if axis.lines:
            axis.legend(fontsize=7, loc="best")
        axis.grid(alpha=0.3)
    axes[0, 0].set_title(title, fontsize=9)
    axes[-1, 0].set_xlabel(x or "row")
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)
    pyplot.close(figure)


class Progress:
    """A bar on a terminal; elsewhere a line every `every_s`, so that a log stays readable."""

    def __init__(self, what: str, total: int, done: int = 0, every_s: float = 30.0, out=None) -> None:
        self._what, self._total, self._done, self._first = what, total, done, done
        self._every_s, self._out = every_s, out or sys.stderr
        self._bar = self._out.isatty()
        self._start_s = self._told_s = time.monotonic()

    def add(self, n: int = 1, note: str = "") -> None:
        """`n` more are done."""
        self._done += n
        now_s = time.monotonic()
        last = self._done >= self._total > self._done - n
        if not last and now_s - self._told_s < (0.1 if self._bar else self._every_s):
            return
        self._told_s = now_s
        rate = (self._done - self._first) / max(now_s - self._start_s, 1e-9)
        left = max(0, self._total - self._done) / rate if rate > 0 else float("inf")
        text = f"{self._what} {self._done}/{self._total} {rate:.1f}/s, {_span(left)} left {note}".rstrip()
        if not self._bar:
            print(text, file=self._out, flush=True)
            return
        filled = int(20 * min(1.0, self._done / max(self._total, 1)))
        end = "\n" if last else ""
        print(f"\r\x1b[K[{'#' * filled}{'.' * (20 - filled)}] {text}", end=end, file=self._out, flush=True)


def _span(seconds: float) -> str:
    if not np.isfinite(seconds):
        return "?"
    minutes, hours = int(seconds // 60), int(seconds // 3600)
    return f"{hours} h {minutes % 60:02d}" if hours else f"{minutes}:{int(seconds % 60):02d}"


def _short(value):
    return f"{value:.6g}" if isinstance(value, (float, np.floating)) else value
