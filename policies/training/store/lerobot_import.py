"""Read a LeRobot data set into episodes: checked, or refused by file, episode and field.

    for episode in load(folder): ...                      # written by us
    for episode in load(folder, about=About(...)): ...    # foreign: what the format has no place for
    add(folder, store)                                    # all of it into a store, or nothing

Nothing is repaired: a missing frame, a stretch at another rate, NaN, a column of another width, joints in another
order, statistics of other data, a changed value in a set of ours: each ends the import. Videos are not decoded; leave a
column out by naming it in `skip`.
"""
from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from policies.training.store import episode_bytes
from policies.training.store import lerobot_format as fmt
from policies.training.store.demonstrations import DemonstrationStore
from policies.training.store.episode import UNSEEDED, BadEpisode, Episode, Form, check_grid
from policies.training.store.lerobot_format import BadDataset
from policies.training.store.lerobot_layout import Layout, open_layout
from steadyhand.errors import ConfigError

OPTIONAL = (fmt.REWARD, fmt.DONE, fmt.SUCCESS, fmt.STAMP)
NUMBERS = ("float32", "float64")


@dataclass(frozen=True)
class About:
    """What a foreign data set does not say. `success` holds where it has no `next.success`."""

    env_id: str
    source: str = "teleoperation"
    joint_names: tuple[str, ...] = ()
    success: bool = True


def add(
    folder: Path, store: DemonstrationStore, about: About | None = None, skip: tuple[str, ...] = ()
) -> list[str]:
    """Put a whole data set into a store; identities. Nothing is added when anything is refused."""
    for episode in load(folder, about, skip, store.form):
        pass
    return [store.append(episode) for episode in load(folder, about, skip, store.form)]


def load(
    folder: Path, about: About | None = None, skip: tuple[str, ...] = (), form: Form | None = None
) -> Iterator[Episode]:
    """Episodes in order. Raises BadDataset, DependencyMissing; ConfigError for a foreign set without `about`."""
    layout = open_layout(Path(folder))
    own = _own(layout)
    if own is None and about is None:
        raise ConfigError("about: not written by Steadyhand, so say what it is (About)")
    columns = _columns(layout, skip)
    seen: dict[str, list[np.ndarray]] = {fmt.STATE: [], fmt.ACTION: []}
    first_index = 0
    for number, (tasks, table) in enumerate(layout.episodes()):
        where = f"episode {number}"
        values = {name: _values(table, name, feature, where) for name, feature in columns.items()}
        task = _check_frames(layout, values, number, first_index, tasks, where)
        episode = _episode(layout, own, about, columns, values, number, task)
        try:
            episode.validate()
            if form is not None:
                form.check(episode.form)
        except BadEpisode as error:
            raise BadDataset(f"{where}: {error}") from error
        if own is not None and episode_bytes.identity(episode) != own["episodes"][number]["id"]:
            raise BadDataset(f"{where}: its content is not what was exported (identity differs from {fmt.OWN})")
        form = form or episode.form
        for name in seen:
            if name in columns:
                seen[name].append(values[name])
        first_index += len(episode)
        yield episode
    if first_index != layout.info["total_frames"]:
        raise BadDataset(f"{fmt.INFO}: total_frames = {layout.info['total_frames']}, {first_index} are there")
    _check_statistics(layout, columns, {name: np.concatenate(parts) for name, parts in seen.items() if parts})


def _own(layout: Layout) -> dict | None:
    """What we wrote beside the data set; None for a foreign one."""
    path = layout.folder / fmt.OWN
    if not path.exists():
        return None
    own = layout.json(fmt.OWN)
    if own.get("format") != 1 or len(own.get("episodes", ())) != layout.info["total_episodes"]:
        raise BadDataset(f"{fmt.OWN}: not of this data set, or of a newer program")
    return own


def _columns(layout: Layout, skip: tuple[str, ...]) -> dict[str, dict]:
    """Features to be read, by name."""
    features = layout.info["features"]
    for name in skip:
        if name not in features:
            raise BadDataset(f"{fmt.INFO}: skip names {name!r}, which is no feature")
    for name in (fmt.ACTION, *fmt.DEFAULT_FEATURES):
        if name not in features:
            raise BadDataset(f"{fmt.INFO}: features lack {name!r}")
    wanted = {}
    for name, feature in features.items():
        known = name in (fmt.STATE, fmt.ACTION, *OPTIONAL, *fmt.DEFAULT_FEATURES) or name.startswith(fmt.IMAGES)
        if name in skip or not known:
            continue
        dtype, shape, names = (feature.get(k) for k in ("dtype", "shape", "names"))
        if dtype == "video":
            raise BadDataset(f"{fmt.INFO}: {name} is a video, which is not decoded: leave it out (skip)")
        dims = 3 if name.startswith(fmt.IMAGES) else 1
        if not isinstance(shape, list) or len(shape) != dims or not all(isinstance(n, int) and n > 0 for n in shape):
            raise BadDataset(f"{fmt.INFO}: {name}: shape = {shape!r}, {dims} whole numbers are wanted")
        if (dtype == "image") != (dims == 3):
            raise BadDataset(f"{fmt.INFO}: {name}: dtype = {dtype!r}")
        if name in (fmt.STATE, fmt.ACTION):
            if dtype not in NUMBERS:
                raise BadDataset(f"{fmt.INFO}: {name}: dtype = {dtype!r}, one of {', '.join(NUMBERS)} is wanted")
            flat = _names(names)
            if flat is not None and len(flat) != shape[0]:
                raise BadDataset(f"{fmt.INFO}: {name}: {len(flat)} names for {shape[0]} elements")
        wanted[name] = feature
    return wanted


def _names(names: object) -> tuple[str, ...] | None:
    """Names of a vector's elements: a list, or one list under some word ("motors"); None where there are none."""
    if isinstance(names, Mapping) and len(names) == 1:
        names = next(iter(names.values()))
    if isinstance(names, list) and all(isinstance(n, str) for n in names):
        return tuple(names)
    return None


def _values(table, name: str, feature: Mapping, where: str) -> np.ndarray:
    """A column as an array: (T, n), (T,) where n is 1 but for state and action, (T, H, W, 3) for a picture."""
    pa, _ = fmt.parquet()
    if name not in table.column_names:
        raise BadDataset(f"{where}: column {name} is missing")
    column = table.column(name).combine_chunks()
    if column.null_count:
        raise BadDataset(f"{where}: {name}: {column.null_count} values are missing")
    if feature["dtype"] == "image":
        return _pictures(column, feature["shape"], f"{where}: {name}")
    width, rows = feature["shape"][0], len(column)
    if pa.types.is_fixed_size_list(column.type) or pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        widths = {len(v) for v in column} if not pa.types.is_fixed_size_list(column.type) else {column.type.list_size}
        if widths - {width}:
            raise BadDataset(f"{where}: {name}: rows of {sorted(widths)} elements, {width} are wanted")
        column = column.flatten()
    elif width != 1:
        raise BadDataset(f"{where}: {name}: {column.type}, a list of {width} is wanted")
    if column.null_count:
        raise BadDataset(f"{where}: {name}: {column.null_count} values are missing")
    values = column.to_numpy(zero_copy_only=False)
    if values.dtype != np.dtype(feature["dtype"]):
        raise BadDataset(f"{where}: {name}: {values.dtype}, {feature['dtype']} was announced")
    return values.reshape(rows, width) if name in (fmt.STATE, fmt.ACTION) else values.reshape(rows)


def _pictures(column, shape: list, where: str) -> np.ndarray:
    from PIL import Image, UnidentifiedImageError

    pictures = []
    for k, cell in enumerate(column.to_pylist()):
        content = cell.get("bytes") if isinstance(cell, dict) else None
        if not content:
            raise BadDataset(f"{where}: frame {k} has no picture")
        try:
            with Image.open(io.BytesIO(content)) as image:
                picture = np.array(image)
        except (UnidentifiedImageError, OSError, SyntaxError, ValueError) as error:
            raise BadDataset(f"{where}: frame {k}: {error}") from error
        if picture.shape != tuple(shape) or picture.dtype != np.uint8:
            raise BadDataset(f"{where}: frame {k}: {picture.dtype} {picture.shape}, uint8 {tuple(shape)} is wanted")
        pictures.append(picture)
    return np.array(pictures, dtype=np.uint8)


def _check_frames(
    layout: Layout, values: Mapping[str, np.ndarray], number: int, first_index: int, tasks: list[str], where: str
) -> str:
    """Every frame is there, once, in its place; the episode's task."""
    steps, fps = len(values["frame_index"]), layout.info["fps"]
    if steps == 0:
        raise BadDataset(f"{where}: no frame")
    for name, expected in (
        ("frame_index", np.arange(steps)), ("episode_index", np.full(steps, number)),
        ("index", first_index + np.arange(steps)),
    ):  # fmt: skip
        wrong = np.flatnonzero(values[name] != expected)
        if len(wrong):
            k = wrong[0]
            found = f"{values[name][k]} in row {k}, {expected[k]} is wanted"
            raise BadDataset(f"{where}: {name}: {found}: frames are missing")
    try:
        check_grid(values["timestamp"].astype(np.float64), fps)
    except BadEpisode as error:
        raise BadDataset(f"{where}: timestamp: {error}") from error
    task = np.unique(values["task_index"])
    if len(task) != 1 or int(task[0]) not in layout.tasks:
        raise BadDataset(f"{where}: task_index: {task.tolist()}, one of {sorted(layout.tasks)} is wanted")
    if layout.tasks[int(task[0])] not in tasks:
        raise BadDataset(f"{where}: task_index: {layout.tasks[int(task[0])]!r} is none of its tasks {tasks}")
    return layout.tasks[int(task[0])]


def _episode(
    layout: Layout, own: dict | None, about: About | None, columns: Mapping[str, dict], values: Mapping, number: int,
    task: str,
) -> Episode:  # fmt: skip
    steps, fps = len(values["frame_index"]), layout.info["fps"]
    if own is not None:
        said = {k: own["episodes"][number][k] for k in ("env_id", "source", "seed", "success", "task", "origin")}
        said |= {"rate_hz": own["rate_hz"], "joint_names": tuple(own["joint_names"])}
        if said["task"] != task:
            raise BadDataset(f"episode {number}: task {task!r} was exported as {said['task']!r}")
    else:
        success = bool(values[fmt.SUCCESS].any()) if fmt.SUCCESS in values else about.success
        said = {
            "env_id": about.env_id, "source": about.source, "seed": UNSEEDED, "success": success, "task": task,
            "rate_hz": float(fps), "joint_names": about.joint_names,
            "origin": f"{layout.folder.name}, episode {number}",
        }  # fmt: skip
    reward = values.get(fmt.REWARD)
    if reward is None:
        reward = np.zeros(steps, dtype=np.float32)
        reward[-1] = float(said["success"])
    stamp_s = values.get(fmt.STAMP)
    return Episode(
        observation_names=_element_names(columns, fmt.STATE), action_names=_element_names(columns, fmt.ACTION),
        stamp_s=np.arange(steps) / fps if stamp_s is None else stamp_s,
        observation=np.float32(values[fmt.STATE]) if fmt.STATE in values else np.zeros((steps, 0), np.float32),
        action=np.float32(values[fmt.ACTION]), reward=np.float32(reward),
        images={n.removeprefix(fmt.IMAGES): values[n] for n in columns if n.startswith(fmt.IMAGES)}, **said,
    )  # fmt: skip


def _element_names(columns: Mapping[str, dict], name: str) -> tuple[str, ...]:
    if name not in columns:
        return ()
    feature = columns[name]
    stem = name.rpartition(".")[2]
    return _names(feature.get("names")) or tuple(f"{stem}_{k}" for k in range(feature["shape"][0]))


def _check_statistics(layout: Layout, columns: Mapping[str, dict], seen: Mapping[str, np.ndarray]) -> None:
    """The statistics that come with the data are of these data: a policy would be normalised by them."""
    try:
        said = {name: {k: np.asarray(v, dtype=np.float64).reshape(-1) for k, v in values.items()}
                for name, values in layout.statistics().items() if name in seen}  # fmt: skip
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise BadDataset(f"statistics: not readable ({type(error).__name__}: {error})") from error
    for name, values in seen.items():
        numbers = values.astype(np.float64)
        spread = numbers.std(axis=0)
        for statistic, mine in (
            ("min", numbers.min(axis=0)), ("max", numbers.max(axis=0)), ("mean", numbers.mean(axis=0)), ("std", spread),
        ):  # fmt: skip
            theirs = said.get(name, {}).get(statistic, mine)
            if theirs.shape != mine.shape:
                raise BadDataset(f"statistics: {name}.{statistic}: {theirs.size} numbers, {mine.size} are wanted")
            for k in np.flatnonzero(~(np.abs(theirs - mine) <= 1e-3 * (spread + np.abs(mine)) + 1e-6))[:1]:
                element, found = _element_names(columns, name)[k], f"{theirs[k]:.6g}, the data give {mine[k]:.6g}"
                raise BadDataset(f"statistics: {name}.{statistic}, {element}: {found}")
