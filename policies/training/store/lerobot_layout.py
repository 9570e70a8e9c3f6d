"""Where a LeRobot data set keeps what, version by version: `meta/info.json`, tasks, episodes and their rows.

Everything is read through `Layout`, which refuses a file that is missing, not readable or not what it should be by its
name. Paths are built from the versions' own templates only; one that a data set brings along is refused.
"""
from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from policies.training.store import lerobot_format as fmt
from policies.training.store.lerobot_format import V21, V30, BadDataset

FPS_MAX = 1000
EPISODE_COLUMNS = ("episode_index", "tasks", "length", "data/chunk_index", "data/file_index")


@dataclass
class Layout:
    """An opened data set."""

    folder: Path
    info: dict
    tasks: dict[int, str]

    @property
    def version(self) -> str:
        """V21 or V30."""
        return self.info["codebase_version"]

    def json(self, name: str) -> dict:
        """A JSON file of the data set."""
        return _json(self.folder, name)

    def episodes(self) -> Iterator[tuple[list[str], object]]:
        """Tasks and table of each episode, in order."""
        return self._episodes_21() if self.version == V21 else self._episodes_30()

    def statistics(self) -> dict[str, dict]:
        """Statistics of the whole that come with the data; empty where there are none."""
        if self.version == V30:
            return self.json(fmt.STATS) if (self.folder / fmt.STATS).exists() else {}
        if not (self.folder / fmt.EPISODES_STATS_21).exists():
            return {}
        parts = [
            {
                name: {k: np.asarray(v, dtype=np.float64).reshape(-1) for k, v in values.items()}
                for name, values in line["stats"].items() if name in (fmt.STATE, fmt.ACTION)
            }
            for line in _lines(self.folder, fmt.EPISODES_STATS_21, ("episode_index", "stats"))
        ]  # fmt: skip
        return fmt.joined_statistics(parts, {}) if parts and parts[0] else {}

    def _episodes_21(self) -> Iterator[tuple[list[str], object]]:
        rows = _lines(self.folder, fmt.EPISODES_21, ("episode_index", "tasks", "length"))
        self._check_numbers(fmt.EPISODES_21, [row["episode_index"] for row in rows])
        for row in rows:
            number = row["episode_index"]
            name = fmt.DATA[V21].format(episode_chunk=number // self.info["chunks_size"], episode_index=number)
            yield row["tasks"], _of_length(_table(self.folder, name), row["length"], f"{name}: episode {number}")

    def _episodes_30(self) -> Iterator[tuple[list[str], object]]:
        names = sorted(p.relative_to(self.folder).as_posix() for p in self.folder.glob("meta/episodes/*/*.parquet"))
        if not names:
            raise BadDataset("meta/episodes: no file")
        rows = []
        for name in names:
            rows += _table(self.folder, name, EPISODE_COLUMNS).to_pylist()
        if any(row[column] is None for row in rows for column in EPISODE_COLUMNS):
            raise BadDataset("meta/episodes: values are missing")
        rows.sort(key=lambda row: row["episode_index"])
        self._check_numbers("meta/episodes", [row["episode_index"] for row in rows])
        held_name, held = "", None
        for row in rows:
            number = row["episode_index"]
            name = fmt.DATA[V30].format(chunk_index=row["data/chunk_index"], file_index=row["data/file_index"])
            if name != held_name:
                held_name, held = name, _table(self.folder, name)
                if "episode_index" not in held.column_names:
                    raise BadDataset(f"{name}: column episode_index is missing")
                numbers = held.column("episode_index").to_numpy()
            mine = np.flatnonzero(numbers == number)
            where = f"{name}: episode {number}"
            if len(mine) and mine[-1] - mine[0] + 1 != len(mine):
                raise BadDataset(f"{where}: its rows do not stand together")
            part = held.slice(int(mine[0]) if len(mine) else 0, len(mine))
            yield row["tasks"], _of_length(part, row["length"], where)

    def _check_numbers(self, name: str, numbers: list[int]) -> None:
        expected = self.info["total_episodes"]
        if numbers != list(range(expected)):
            gone = sorted(set(range(expected)) - set(numbers))[:5]
            raise BadDataset(f"{name}: {len(numbers)} episodes, {expected} were announced; missing: {gone or 'none'}")


def open_layout(folder: Path) -> Layout:
    """Read what describes the data set. Raises BadDataset."""
    info = _json(folder, fmt.INFO)
    version = info.get("codebase_version")
    if version not in fmt.DATA:
        raise BadDataset(f"{fmt.INFO}: codebase_version = {version!r}, {V21} or {V30} is wanted")
    fps = info.get("fps")
    if isinstance(fps, bool) or not isinstance(fps, (int, float)) or not 0 < fps <= FPS_MAX:
        raise BadDataset(f"{fmt.INFO}: fps = {fps!r}, a number over 0, at most {FPS_MAX}, is wanted")
    for name in ("total_episodes", "total_frames", "chunks_size"):
        value = info.get(name)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise BadDataset(f"{fmt.INFO}: {name} = {value!r}, a whole number from 1 on is wanted")
    if info.get("data_path") != fmt.DATA[version]:
        raise BadDataset(f"{fmt.INFO}: data_path = {info.get('data_path')!r}, {fmt.DATA[version]!r} is wanted")
    features = info.get("features")
    if not isinstance(features, dict) or not all(isinstance(f, dict) for f in features.values()):
        raise BadDataset(f"{fmt.INFO}: features = {type(features).__name__}, a table of features is wanted")
    return Layout(folder, info, _tasks(folder, version))


def _tasks(folder: Path, version: str) -> dict[int, str]:
    if version == V21:
        rows = _lines(folder, fmt.TASKS[V21], ("task_index", "task"))
        return {row["task_index"]: row["task"] for row in rows}
    table = _table(folder, fmt.TASKS[V30])
    text = next((name for name in ("task", "__index_level_0__") if name in table.column_names), None)
    if text is None or "task_index" not in table.column_names:
        raise BadDataset(f"{fmt.TASKS[V30]}: columns {table.column_names}, task and task_index are wanted")
    return dict(zip(table.column("task_index").to_pylist(), table.column(text).to_pylist()))


def _of_length(table, length: int, where: str):
    if len(table) != length:
        raise BadDataset(f"{where}: {len(table)} frames, {length} were announced: frames are missing")
    return table


def _table(folder: Path, name: str, columns: tuple[str, ...] | None = None):
    pa, pq = fmt.parquet()
    try:
        table = pq.read_table(folder / name, columns=None if columns is None else list(columns), partitioning=None)
    except (OSError, pa.ArrowException) as error:  # a missing file, a truncated one, one that is no parquet
        raise BadDataset(f"{name}: {str(error).splitlines()[0]}") from error
    for column in columns or ():
        if column not in table.column_names:
            raise BadDataset(f"{name}: column {column} is missing")
    return table


def _json(folder: Path, name: str) -> dict:
    try:
        content = json.loads((folder / name).read_bytes())
    except (OSError, ValueError) as error:
        raise BadDataset(f"{name}: {error}") from error
    if not isinstance(content, dict):
        raise BadDataset(f"{name}: {type(content).__name__}, a table is wanted")
    return content


def _lines(folder: Path, name: str, fields: tuple[str, ...]) -> list[dict]:
    found = []
    try:
        for number, line in enumerate((folder / name).read_text().splitlines(), start=1):
            found.append(json.loads(line))
            missing = [f for f in fields if f not in found[-1]]
            if missing:
                raise BadDataset(f"{name}: line {number} lacks {', '.join(missing)}")
    except (OSError, ValueError, TypeError) as error:
        raise BadDataset(f"{name}: {error}") from error
    return found
