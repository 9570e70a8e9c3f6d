"""LeRobot's public data set format, versions 2.1 and 3.0: file names, columns, features, arrow tables, statistics.

Facts from LeRobot's documentation and source, 2026. An episode's numbers are columns of a parquet table: one file per
episode (2.1) or many episodes a file, one row group each (3.0); pictures lie in the table as PNG, so nothing is lost.
`meta/info.json` describes the columns. `timestamp` is by their convention the frame's place on the grid; the stamps as
recorded are a column of their own (`stamp_s`). What the format has no place for - seed, source, joint names - and
the identity of each episode are in `meta/steadyhand.json`, which other readers ignore.
"""
from __future__ import annotations

import io
import json
from collections.abc import Mapping

import numpy as np

from policies.training.store.episode import Episode, Form
from steadyhand.errors import DependencyMissing, SteadyhandError

V21, V30 = "v2.1", "v3.0"
INFO, STATS, OWN = "meta/info.json", "meta/stats.json", "meta/steadyhand.json"
TASKS = {V21: "meta/tasks.jsonl", V30: "meta/tasks.parquet"}
EPISODES_21, EPISODES_STATS_21 = "meta/episodes.jsonl", "meta/episodes_stats.jsonl"
EPISODES_30 = "meta/episodes/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
DATA = {
    V21: "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
    V30: "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
}
CHUNK_FILES = 1000  # files in a chunk's folder
DATA_FILE_MB, VIDEO_FILE_MB = 100, 200  # format 3.0 goes on to the next file at this size
STATE, ACTION, IMAGES, STAMP = "observation.state", "action", "observation.images.", "stamp_s"
REWARD, DONE, SUCCESS = "next.reward", "next.done", "next.success"
QUANTILES = (0.01, 0.1, 0.5, 0.9, 0.99)
DEFAULT_FEATURES = {
    "timestamp": {"dtype": "float32", "shape": [1], "names": None},
    "frame_index": {"dtype": "int64", "shape": [1], "names": None},
    "episode_index": {"dtype": "int64", "shape": [1], "names": None},
    "index": {"dtype": "int64", "shape": [1], "names": None},
    "task_index": {"dtype": "int64", "shape": [1], "names": None},
}


class BadDataset(SteadyhandError):
    """A data set is refused; the message names file, episode and field."""


def parquet():
    """pyarrow and its parquet module. Raises DependencyMissing."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise DependencyMissing("LeRobot data sets need pyarrow: pip install -r requirements/train.txt") from error
    return pyarrow, pyarrow.parquet


def features_of(form: Form) -> dict[str, dict]:
    """Features of a data set of this form, as `meta/info.json` holds them, in the order of the columns."""
    features = {}
    if form.observation_names:
        features[STATE] = _feature("float32", len(form.observation_names), form.observation_names)
    features[ACTION] = _feature("float32", len(form.action_names), form.action_names)
    for name, shape in form.image_shapes:
        features[IMAGES + name] = {
            "dtype": "image", "shape": list(shape), "names": ["height", "width", "channels"],
        }  # fmt: skip
    features |= {REWARD: _feature("float32", 1), DONE: _feature("bool", 1), SUCCESS: _feature("bool", 1)}
    return features | {STAMP: _feature("float64", 1)} | DEFAULT_FEATURES


def columns_of(episode: Episode, fps: int, episode_index: int, first_index: int, task_index: int) -> dict[str, object]:
    """Column by column: arrays (T,) or (T, n), or a list of PNG files for a picture."""
    steps, number = len(episode), np.arange(len(episode), dtype=np.int64)
    last = number == steps - 1
    columns: dict[str, object] = {}
    if episode.observation_names:
        columns[STATE] = episode.observation
    columns[ACTION] = episode.action
    for name in sorted(episode.images):
        columns[IMAGES + name] = [png(image) for image in episode.images[name]]
    return columns | {
        REWARD: episode.reward, DONE: last, SUCCESS: last & episode.success, STAMP: episode.stamp_s,
        "timestamp": (number / fps).astype(np.float32), "frame_index": number,
        "episode_index": np.full(steps, episode_index, dtype=np.int64), "index": first_index + number,
        "task_index": np.full(steps, task_index, dtype=np.int64),
    }  # fmt: skip


def table_of(columns: Mapping[str, object], features: Mapping[str, dict]):
    """An arrow table whose metadata tell other readers which columns are pictures."""
    pa, _ = parquet()
    arrays = [_arrow(pa, columns[name]) for name in features]
    described = {name: _hub_feature(feature) for name, feature in features.items()}
    metadata = {"huggingface": json.dumps({"info": {"features": described}})}
    return pa.table(arrays, names=list(features)).replace_schema_metadata(metadata)


def tasks_table(tasks: list[str]):
    """Format 3.0 keeps tasks as the index of a pandas frame: its metadata say so."""
    pa, _ = parquet()
    text = {"pandas_type": "unicode", "numpy_type": "object", "metadata": None}
    whole = {"pandas_type": "int64", "numpy_type": "int64", "metadata": None}
    pandas = {
        "index_columns": ["task"], "pandas_version": "2.0.0",
        "creator": {"library": "pyarrow", "version": pa.__version__},
        "column_indexes": [{"name": None, "field_name": None, **text, "metadata": {"encoding": "UTF-8"}}],
        "columns": [
            {"name": "task_index", "field_name": "task_index", **whole}, {"name": "task", "field_name": "task", **text},
        ],
    }  # fmt: skip
    arrays = [pa.array(range(len(tasks)), pa.int64()), pa.array(tasks, pa.string())]
    return pa.table(arrays, names=["task_index", "task"]).replace_schema_metadata({"pandas": json.dumps(pandas)})


def statistics(columns: Mapping[str, object], images: Mapping[str, np.ndarray], quantiles: bool) -> dict[str, dict]:
    """min, max, mean, std, count of every column, pictures by channel in [0, 1]; quantiles where asked for."""
    found = {}
    for name, values in columns.items():
        if name.startswith(IMAGES):
            pixels = images[name.removeprefix(IMAGES)].reshape(-1, 3) / 255.0
            found[name] = {k: v.reshape(3, 1, 1) for k, v in _moments(pixels).items()}
            steps = len(values)
        else:
            numbers = np.asarray(values, dtype=np.float64).reshape(len(values), -1)
            found[name] = _moments(numbers)
            if quantiles:
                found[name] |= {f"q{q * 100:02.0f}": np.quantile(numbers, q, axis=0) for q in QUANTILES}
            steps = len(numbers)
        found[name]["count"] = np.array([steps])
    return found


def joined_statistics(parts: list[dict[str, dict]], quantiles: Mapping[str, dict]) -> dict[str, dict]:
    """Statistics of all episodes from those of each (Chan et al. 1979); quantiles do not add up and are given."""
    joined = {}
    for name in parts[0]:
        some = [part[name] for part in parts]
        counts = np.array([float(s["count"][0]) for s in some])
        weights = (counts / counts.sum()).reshape(-1, *[1] * some[0]["mean"].ndim)
        means, stds = np.stack([s["mean"] for s in some]), np.stack([s["std"] for s in some])
        mean = (weights * means).sum(axis=0)
        joined[name] = {
            "min": np.min([s["min"] for s in some], axis=0), "max": np.max([s["max"] for s in some], axis=0),
            "mean": mean, "std": np.sqrt((weights * (stds**2 + (means - mean) ** 2)).sum(axis=0)),
            "count": np.array([int(counts.sum())]), **quantiles.get(name, {}),
        }  # fmt: skip
    return joined


def plain(statistics_of: Mapping[str, dict]) -> dict[str, dict]:
    """Statistics as lists."""
    return {name: {k: v.tolist() for k, v in values.items()} for name, values in statistics_of.items()}


def png(image: np.ndarray) -> bytes:
    """An image (H, W, 3) uint8 as a PNG file, without loss."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(image)).save(file, "PNG", compress_level=6)
    return file.getvalue()


def _feature(dtype: str, width: int, names: tuple[str, ...] | None = None) -> dict:
    return {"dtype": dtype, "shape": [width], "names": None if names is None else list(names)}


def _hub_feature(feature: Mapping) -> dict:
    if feature["dtype"] == "image":
        return {"_type": "Image"}
    value = {"dtype": feature["dtype"], "_type": "Value"}
    width = feature["shape"][0]
    return value if width == 1 else {"feature": value, "length": width, "_type": "Sequence"}


def _arrow(pa, values):
    if isinstance(values, list):
        names = [f"frame-{k:06d}.png" for k in range(len(values))]
        return pa.StructArray.from_arrays(
            [pa.array(values, pa.binary()), pa.array(names, pa.string())], names=["bytes", "path"]
        )  # fmt: skip
    if values.ndim == 1 or values.shape[1] == 1:  # a single element is a scalar there
        return pa.array(np.ascontiguousarray(values.reshape(-1)))
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(values).reshape(-1)), values.shape[1])


def _moments(values: np.ndarray) -> dict[str, np.ndarray]:
    """Over the rows of (N, n)."""
    return {
        "min": values.min(axis=0), "max": values.max(axis=0), "mean": values.mean(axis=0), "std": values.std(axis=0),
    }  # fmt: skip
