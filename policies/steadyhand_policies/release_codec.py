"""A release as JSON, read strictly: whatever is missing, unknown or of another type is named and refused."""
from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, fields
from typing import Any, TypeVar

from steadyhand.errors import ConfigError, ContractError
from steadyhand_policies.release import FORMAT, HISTORY_MAX, LINE_MAX, Counts, Looks, Release, Version

Small = TypeVar("Small", Counts, Looks)
_COUNT_MAX = 2**53


def dump(release: Release) -> str:
    """JSON text; `parse(dump(r)) == r`."""
    return json.dumps(asdict(release), indent=1) + "\n"


def parse(text: str | bytes) -> Release:
    """Raises ContractError naming the field."""
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ContractError(f"release: not JSON ({error})") from error
    _exactly(raw, {f.name for f in fields(Release)}, "release")
    if raw["format"] != FORMAT:
        raise ContractError(f"release.format: found {raw['format']!r}, expected {FORMAT}")
    release = Release(**{name: _KINDS[name](value, f"release.{name}") for name, value in raw.items()})
    if (release.candidate is None) != (release.release_id == ""):
        raise ContractError(f"release.release_id: {release.release_id!r} with candidate {release.candidate}")
    return release


def _string(value: Any, path: str) -> str:
    if not isinstance(value, str) or len(value) > LINE_MAX:
        raise ContractError(f"{path}: {str(value)[:40]!r} is no short text")
    return value


def _count(value: Any, path: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _COUNT_MAX:
        raise ContractError(f"{path}: {str(value)[:40]!r} is no count")
    return value


def _version(value: Any, path: str) -> Version:
    _exactly(value, {"number", "sha256"}, path)
    try:
        return Version(value["number"], value["sha256"])
    except ConfigError as error:
        raise ContractError(f"{path}: {error}") from error


def _version_or_none(value: Any, path: str) -> Version | None:
    return None if value is None else _version(value, path)


def _small(kind: type[Small]) -> Callable[[Any, str], Small]:
    def read(value: Any, path: str) -> Small:
        _exactly(value, {f.name for f in fields(kind)}, path)
        return kind(**{name: _count(number, f"{path}.{name}") for name, number in value.items()})

    return read


def _history(value: Any, path: str) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > HISTORY_MAX:
        raise ContractError(f"{path}: no list of at most {HISTORY_MAX} lines")
    return tuple(_string(line, f"{path}[{i}]") for i, line in enumerate(value))


def _exactly(value: Any, names: set[str], path: str) -> None:
    if not isinstance(value, dict):
        raise ContractError(f"{path}: {type(value).__name__}, expected an object")
    if wrong := set(value) ^ names:
        raise ContractError(f"{path}: missing or unknown fields: {', '.join(sorted(map(str, wrong)))}")


_KINDS: dict[str, Callable[[Any, str], Any]] = {
    "model": _string, "stable": _version, "candidate": _version_or_none, "shadow": _version_or_none,
    "previous": _version_or_none, "release_id": _string, "stage": _count, "episodes": _count,
    "candidate_counts": _small(Counts), "stable_counts": _small(Counts), "worse_looks": _small(Looks),
    "not_worse_looks": _small(Looks), "history": _history, "format": _count,
}
