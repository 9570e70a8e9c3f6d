"""An episode as bytes, and its identity: SHA-256 of its content, whatever it is wrapped in."""
from __future__ import annotations

import hashlib
import json
import struct
import zlib

import numpy as np

from policies.training.store.episode import Episode
from policies.training.store.frames import BadStore

FORMAT = 1
LEVEL = 3  # of compressing images; the identity does not depend on it
_HEAD = struct.Struct("<I32s")
_WORDS = ("env_id", "source", "seed", "success", "rate_hz", "task", "origin")
_NAMES = ("observation_names", "action_names", "joint_names")
_ARRAYS = {"stamp_s": "<f8", "observation": "<f4", "action": "<f4", "reward": "<f4"}


def identity(episode: Episode) -> str:
    """64 hexadecimal digits: the same for the same content, on every machine."""
    return _digest(episode, json.dumps(_description(episode), sort_keys=True).encode()).hexdigest()


def encode(episode: Episode) -> bytes:
    """Bytes of a valid episode."""
    description = json.dumps(_description(episode), sort_keys=True).encode()
    parts = [_HEAD.pack(len(description), _digest(episode, description).digest()), description]
    parts += [_raw(episode, name) for name in _ARRAYS]
    for name in sorted(episode.images):
        packed = zlib.compress(np.ascontiguousarray(episode.images[name]).tobytes(), LEVEL)
        parts += [struct.pack("<Q", len(packed)), packed]
    return b"".join(parts)


def identity_of(content: bytes) -> str:
    """Identity that encoded bytes declare, without decoding them."""
    return _HEAD.unpack_from(content)[1].hex()


def decode(content: bytes) -> Episode:
    """The reverse of `encode`. Raises BadStore when the content has not the identity that it declares."""
    length, digest = _HEAD.unpack_from(content)
    at = _HEAD.size + length
    description = content[_HEAD.size : at]
    said = json.loads(description)
    if said["format"] > FORMAT:
        raise BadStore(f"episode of format {said['format']}: newer than this program's {FORMAT}")
    steps = said["steps"]
    widths = {"observation": len(said["observation_names"]), "action": len(said["action_names"])}
    arrays, images = {}, {}
    for name, dtype in _ARRAYS.items():
        shape = (steps, widths[name]) if name in widths else (steps,)
        count = int(np.prod(shape))
        arrays[name] = np.frombuffer(content, dtype, count, at).reshape(shape)
        at += count * np.dtype(dtype).itemsize
    for name, shape in said["images"]:
        (size,) = struct.unpack_from("<Q", content, at)
        at += 8 + size
        images[name] = np.frombuffer(zlib.decompress(content[at - size : at]), np.uint8).reshape(shape)
    episode = Episode(
        **{k: said[k] for k in _WORDS}, **{k: tuple(said[k]) for k in _NAMES}, **arrays, images=images
    )  # fmt: skip
    if _digest(episode, description).digest() != digest:
        raise BadStore("episode: its content has another hash than it was stored with")
    return episode


def _description(episode: Episode) -> dict:
    said = {name: getattr(episode, name) for name in _WORDS}
    said |= {name: list(getattr(episode, name)) for name in _NAMES}
    images = [[name, list(episode.images[name].shape)] for name in sorted(episode.images)]
    return {"format": FORMAT, "steps": len(episode), "images": images, **said, "rate_hz": float(episode.rate_hz)}


def _digest(episode: Episode, description: bytes):
    digest = hashlib.sha256(description)
    for name in _ARRAYS:
        digest.update(_raw(episode, name))
    for name in sorted(episode.images):
        digest.update(np.ascontiguousarray(episode.images[name]))
    return digest


def _raw(episode: Episode, name: str) -> bytes:
    return np.ascontiguousarray(getattr(episode, name)).astype(_ARRAYS[name], copy=False).tobytes()
