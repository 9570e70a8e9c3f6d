"""A store of demonstrations: episodes of one form, each once, in the order in which they were added.

The first episode fixes the form (environment, rate, names, joints, image shapes); one that differs is refused by the
field's name. Its hash names the data that a model was trained on: same episodes in the same order, same hash.
"""
from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from policies.training.store import episode_bytes, segments
from policies.training.store.episode import Episode, Form
from policies.training.store.log import LogConfig, RecordLog, Recovery

KIND = "demonstrations"


class DemonstrationStore:
    """The writer, one at a time. Raises BadStore on opening a damaged store."""

    def __init__(self, folder: Path, form: Form | None = None, config: LogConfig | None = None):
        self.folder = Path(folder)
        self._log = RecordLog(self.folder, KIND, {}, config)
        self._form = form
        self._numbers: dict[str, int] = {}  # identity -> number of its record
        try:
            for number, content in self._log.read():
                self._numbers[episode_bytes.identity_of(content)] = number
                if number == 0:
                    first = episode_bytes.decode(content).form
                    if form is not None:
                        form.check(first)
                    self._form = first
        except BaseException:
            self._log.close()
            raise

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def form(self) -> Form | None:
        """What all its episodes share; None while nothing has fixed it."""
        return self._form

    @property
    def ids(self) -> tuple[str, ...]:
        """Identities in order."""
        return tuple(self._numbers)

    @property
    def recovery(self) -> Recovery:
        """What the opening found."""
        return self._log.recovery

    def append(self, episode: Episode) -> str:
        """Add an episode; its identity, once it is durable. One that is there already is not added twice.

        Raises BadEpisode (the field's name first), BadStore.
        """
        return self.extend([episode])[0]

    def extend(self, episodes: Iterable[Episode]) -> list[str]:
        """Add episodes with one sync; all are checked before the first is written."""
        form, ids, new = self._form, [], {}
        for episode in episodes:
            episode.validate()
            form = form or episode.form
            form.check(episode.form)
            content = episode_bytes.encode(episode)
            ids.append(episode_bytes.identity_of(content))
            if ids[-1] not in self._numbers:
                new[ids[-1]] = content
        first = self._log.extend(list(new.values()))
        self._numbers |= {identity: first + k for k, identity in enumerate(new)}
        self._form = form
        return ids

    def episodes(self, wanted: Callable[[Episode], bool] | None = None) -> Iterator[Episode]:
        """All episodes in order, or those for which `wanted` says True."""
        return read(self.folder, wanted)

    def episode(self, identity: str) -> Episode:
        """One of them. Raises KeyError."""
        _, content = next(self._log.read(self._numbers[identity]))
        return episode_bytes.decode(content)

    def hash(self) -> str:
        """64 hexadecimal digits that name the content."""
        return hash_of(self._numbers)

    def close(self) -> None:
        """Let go of the store."""
        self._log.close()

    def __enter__(self) -> DemonstrationStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read(folder: Path, wanted: Callable[[Episode], bool] | None = None) -> Iterator[Episode]:
    """Episodes of a store on disk, in order; needs no lock."""
    for _, content in segments.read(Path(folder)):
        episode = episode_bytes.decode(content)
        if wanted is None or wanted(episode):
            yield episode


def hash_of(ids: Iterable[str]) -> str:
    """Hash of a sequence of identities."""
    return hashlib.sha256("\n".join(ids).encode()).hexdigest()


def summary(episodes: Iterable[Episode]) -> dict:
    """Episodes, frames, seconds and successes, in all and by source."""
    found: dict[str, Counter] = {}
    for e in episodes:
        for source in ("all", e.source):
            found.setdefault(source, Counter()).update(
                {"episodes": 1, "frames": len(e), "successes": e.success, "seconds": len(e) / e.rate_hz}
            )  # fmt: skip
    return {source: {k: round(v, 3) for k, v in counts.items()} for source, counts in found.items()}
