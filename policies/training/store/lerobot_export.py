"""Write episodes as a LeRobot data set: `export(store.episodes(), folder)`. The folder appears whole or not at all."""
from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from policies.training.store import episode_bytes
from policies.training.store import lerobot_format as fmt
from policies.training.store.episode import BadEpisode, Episode
from policies.training.store.lerobot_format import V21, V30, BadDataset

LISTED = ("env_id", "source", "seed", "success", "task", "origin")


def export(
    episodes: Iterable[Episode], folder: Path, version: str = V30, robot_type: str | None = None,
    file_mb: float = fmt.DATA_FILE_MB,
) -> dict:
    """Write valid episodes of one form; `meta/info.json` as it was written. Raises BadEpisode, BadDataset."""
    folder = Path(folder)
    if version not in fmt.DATA:
        raise BadDataset(f"version = {version!r}: give {V21!r} or {V30!r}")
    if folder.exists():
        raise BadDataset(f"{folder.name}: is there already")
    partial = folder.with_name(folder.name + ".new")
    shutil.rmtree(partial, ignore_errors=True)
    writer = _Writer(partial, version, file_mb)
    for episode in episodes:
        writer.add(episode)
    info = writer.finish(robot_type)
    partial.rename(folder)
    return info


class _Writer:
    """Adds one episode after the other. `_place` is where the data of the next one go (format 3.0)."""

    def __init__(self, folder: Path, version: str, file_mb: float):
        self._folder, self._version, self._file_bytes = folder, version, file_mb * 2**20
        self._form, self._features = None, {}
        self._tasks: list[str] = []
        self._listed: list[dict] = []
        self._rows: list[dict] = []
        self._statistics: list[dict] = []
        self._numbers: dict[str, list[np.ndarray]] = {}
        self._frames, self._place, self._bytes, self._parquet = 0, (0, 0), 0, None

    def add(self, episode: Episode) -> None:
        """Check and write."""
        episode.validate()
        if self._form is None:
            self._form, self._features = episode.form, fmt.features_of(episode.form)
            self._fps = round(episode.rate_hz)
            if self._fps != episode.rate_hz:
                raise BadEpisode("rate_hz", f"{episode.rate_hz:g}: the format counts whole frames per second")
        self._form.check(episode.form)
        if episode.task not in self._tasks:
            self._tasks.append(episode.task)
        number, task = len(self._listed), self._tasks.index(episode.task)
        columns = fmt.columns_of(episode, self._fps, number, self._frames, task)
        statistics = fmt.statistics(columns, episode.images, quantiles=self._version == V30)
        self._write(number, fmt.table_of(columns, self._features))
        self._rows.append({"episode_index": number, "tasks": [episode.task], "length": len(episode)})
        if self._version == V30:
            self._rows[-1] |= {
                "data/chunk_index": self._place[0], "data/file_index": self._place[1],
                "dataset_from_index": self._frames, "dataset_to_index": self._frames + len(episode),
            }  # fmt: skip
            for name, values in columns.items():
                if not name.startswith(fmt.IMAGES):
                    self._numbers.setdefault(name, []).append(np.asarray(values).reshape(len(episode), -1))
        self._statistics.append(statistics)
        self._listed.append({name: getattr(episode, name) for name in LISTED})
        self._listed[-1]["id"] = episode_bytes.identity(episode)
        self._frames += len(episode)

    def finish(self, robot_type: str | None) -> dict:
        """Write what describes the whole."""
        if self._form is None:
            raise BadDataset("no episode: a data set has one at least")
        if self._parquet is not None:
            self._parquet.close()
        version, episodes = self._version, len(self._listed)
        info = {
            "codebase_version": version, "robot_type": robot_type, "total_episodes": episodes,
            "total_frames": self._frames, "total_tasks": len(self._tasks), "chunks_size": fmt.CHUNK_FILES,
            "fps": self._fps, "splits": {"train": f"0:{episodes}"}, "data_path": fmt.DATA[version], "video_path": None,
            "features": self._features,
        }  # fmt: skip
        if version == V30:
            info |= {"data_files_size_in_mb": fmt.DATA_FILE_MB, "video_files_size_in_mb": fmt.VIDEO_FILE_MB}
            self._finish_30()
        else:
            info |= {"total_videos": 0, "total_chunks": -(-episodes // fmt.CHUNK_FILES)}
            self._finish_21()
        self._json(fmt.INFO, info)
        self._json(fmt.OWN, {
            "format": 1, "rate_hz": self._form.rate_hz, "joint_names": self._form.joint_names, "episodes": self._listed,
        })  # fmt: skip
        return info

    def _write(self, number: int, table) -> None:
        _, pq = fmt.parquet()
        if self._version == V21:
            path = self._folder / fmt.DATA[V21].format(
                episode_chunk=number // fmt.CHUNK_FILES, episode_index=number
            )  # fmt: skip
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(table, path)
            return
        if self._parquet is not None and self._bytes + table.nbytes > self._file_bytes:
            self._parquet.close()
            self._parquet, self._bytes = None, 0
            chunk, file = self._place
            self._place = (chunk, file + 1) if file + 1 < fmt.CHUNK_FILES else (chunk + 1, 0)
        if self._parquet is None:
            path = self._folder / fmt.DATA[V30].format(chunk_index=self._place[0], file_index=self._place[1])
            path.parent.mkdir(parents=True, exist_ok=True)
            self._parquet = pq.ParquetWriter(path, table.schema)
        self._parquet.write_table(table, row_group_size=len(table))  # one row group: an episode is read by itself
        self._bytes += table.nbytes

    def _finish_30(self) -> None:
        pa, pq = fmt.parquet()
        quantiles = {
            name: {f"q{q * 100:02.0f}": np.quantile(np.concatenate(parts).astype(np.float64), q, axis=0)
                   for q in fmt.QUANTILES}
            for name, parts in self._numbers.items()
        }  # fmt: skip
        self._json(fmt.STATS, fmt.plain(fmt.joined_statistics(self._statistics, quantiles)))
        rows = []
        for row, statistics in zip(self._rows, self._statistics):
            flat = {
                f"stats/{name}/{k}": v for name, values in fmt.plain(statistics).items() for k, v in values.items()
            }  # fmt: skip
            rows.append(row | flat | {"meta/episodes/chunk_index": 0, "meta/episodes/file_index": 0})
        path = self._folder / fmt.EPISODES_30.format(chunk_index=0, file_index=0)
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows), path)
        pq.write_table(fmt.tasks_table(self._tasks), self._folder / fmt.TASKS[V30])

    def _finish_21(self) -> None:
        stats = (
            {"episode_index": k, "stats": fmt.plain(statistics)} for k, statistics in enumerate(self._statistics)
        )  # fmt: skip
        tasks = ({"task_index": k, "task": task} for k, task in enumerate(self._tasks))
        for name, lines in ((fmt.EPISODES_21, self._rows), (fmt.EPISODES_STATS_21, stats), (fmt.TASKS[V21], tasks)):
            path = self._folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(json.dumps(line) + "\n" for line in lines))

    def _json(self, name: str, content: dict) -> None:
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=4, ensure_ascii=False) + "\n")
