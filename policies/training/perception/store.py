"""Image sets on disk: images compressed one by one and read by memory map, labels beside them.

A shard `<set>_<fingerprint>_<k>`: `.bin` holds the images, zlib, in order; `.npz` their offsets and the labels, and is
written last, so that it stands for the whole shard. The fingerprint is of everything that the images follow from: data
of another configuration are not found rather than mixed in.
"""
from __future__ import annotations

import hashlib
import json
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from steadyhand.errors import ConfigError

DATA_VERSION = 1  # of the renderer and the scenes: raise when the same numbers give other images
LEVEL = 6


def fingerprint(*content: object) -> str:
    """Twelve hexadecimal digits of JSON content."""
    text = json.dumps([DATA_VERSION, *content], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def write_shard(path: Path, images: list[np.ndarray], labels: dict[str, np.ndarray]) -> int:
    """Write `path`.bin and `path`.npz; bytes written."""
    packed = [zlib.compress(np.ascontiguousarray(image).tobytes(), LEVEL) for image in images]
    offsets = np.cumsum([0, *map(len, packed)])
    for suffix, write in (
        (".bin", lambda file: file.write(b"".join(packed))),
        (".npz", lambda file: np.savez_compressed(file, offsets=offsets, shape=images[0].shape, **labels)),
    ):
        partial = path.with_suffix(suffix + ".partial")
        with partial.open("wb") as file:
            write(file)
        partial.rename(path.with_suffix(suffix))
    return int(offsets[-1])


@dataclass(frozen=True)
class ImageSet:
    """All shards of a set. `labels` are joined arrays, one row per image."""

    labels: dict[str, np.ndarray]
    _data: tuple[np.memmap, ...]
    _offsets: tuple[np.ndarray, ...]
    _starts: np.ndarray  # number of the first image of each shard
    _shape: tuple[int, int, int]

    def __len__(self) -> int:
        return int(self._starts[-1])

    def image(self, number: int) -> np.ndarray:
        """One image before the sensor, (H, W, 3) uint8."""
        shard = int(np.searchsorted(self._starts, number, side="right")) - 1
        start, end = self._offsets[shard][number - self._starts[shard] :][:2]
        return np.frombuffer(zlib.decompress(self._data[shard][start:end].tobytes()), np.uint8).reshape(self._shape)

    def images(self, numbers) -> np.ndarray:
        """(N, H, W, 3) uint8 before the sensor."""
        return np.stack([self.image(int(k)) for k in numbers])

    def sensed(self, number: int) -> np.ndarray:
        """One image as the sensor gives it, always the same."""
        from steadyhand_sim.camera import sensor_noise
        from steadyhand_sim.look import Look

        exposure, full_well, read_noise = (float(v) for v in self.labels["sensor"][number])
        look = Look(exposure=exposure, full_well_electrons=full_well, read_noise_dn=read_noise)
        return sensor_noise(self.image(number), look, np.random.default_rng([number, 23]))


def read_set(paths: list[Path], hint: str) -> ImageSet:
    """Open shards. Raises ConfigError that names a missing one, with `hint`."""
    data, offsets, labels = [], [], []
    for path in paths:
        if not path.with_suffix(".npz").exists():
            raise ConfigError(f"{path}: not there; {hint}")
        with np.load(path.with_suffix(".npz")) as file:
            labels.append({name: file[name] for name in file.files if name not in ("offsets", "shape")})
            offsets.append(file["offsets"])
            shape = tuple(int(v) for v in file["shape"])
        data.append(np.memmap(path.with_suffix(".bin"), np.uint8, "r"))
        if len(data[-1]) != offsets[-1][-1]:
            raise ConfigError(f"{path}.bin: {len(data[-1])} bytes, its index says {offsets[-1][-1]}; remove both files")
    joined = {name: np.concatenate([part[name] for part in labels]) for name in labels[0]}
    starts = np.cumsum([0, *(len(o) - 1 for o in offsets)])
    return ImageSet(joined, tuple(data), tuple(offsets), starts, shape)
