"""The policy as the agent asks it: the right version for each episode, changed between episodes without a pause.

What serves is a *plan*: the release's state and the versions that it names, all open and warm. A plan is made in a
thread of its own and put in place whole; an episode takes a *pin* when it begins and keeps its version to the end,
whatever plan comes meanwhile. So a release, a promotion or a roll-back never costs a cycle and never mixes versions.

The thread reads the state's file a few times a second (an operator's word), records how episodes ended, and takes a
candidate back that cannot be opened or that broke its contract.
"""
from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from steadyhand.errors import ConfigError, ContractError, PolicyError, PolicyTimeout, SteadyhandError
from steadyhand.types import ActionChunk
from steadyhand_policies import release as releases
from steadyhand_policies.fallback import ObservationRefused, Statistics
from steadyhand_policies.member import Member, Open
from steadyhand_policies.release import Outcome, Release, ReleaseConfig, Share, Version
from steadyhand_policies.release_file import ReleaseFile
from steadyhand_policies.shadow import Disagreement, Shadow, ShadowStatistics

POLL_S = 0.2  # of the state's file: an operator's roll-back is in force so soon, from the next episode on
EVENTS_MAX = 256
RETIRED_S = 1.0  # longer than any call
Say = Callable[[str], None]


@dataclass(frozen=True)
class Pin:
    """Which version answers one episode; `release_id` and `stage` say in which release it counts."""

    member: Member
    share: Share
    release_id: str
    stage: int
    episode: int

    @property
    def version(self) -> Version:
        """The version."""
        return self.member.version


@dataclass(frozen=True)
class _Plan:
    release: Release
    members: dict[Version, Member]
    shadow: Shadow | None


class LivePolicy:
    """`begin_episode`, `infer`, `end_episode`; each returns at once or within its deadline. See the module."""

    def __init__(
        self,
        model: str,
        open_version: Open,
        first_version: int,
        file: ReleaseFile | None = None,
        config: ReleaseConfig = ReleaseConfig(),
        say: Say = lambda line: None,
        on_disagreement: Callable[[Disagreement], None] = lambda found: None,
    ) -> None:
        """`first_version` serves when the file holds no state; `say` gets a line at each change."""
        self._model, self._open, self._first, self._file = model, open_version, first_version, file
        self._config, self._say, self._on_disagreement = config, say, on_disagreement
        self._lock = threading.Lock()
        self._plan: _Plan | None = None
        self._pin: Pin | None = None
        self._episode = 0
        self._retired: list[tuple[Member | Shadow, float]] = []  # and since when
        self._events: queue.Queue[tuple[Pin, Outcome | str]] = queue.Queue(EVENTS_MAX)
        self.events_lost = 0
        self.trouble = ""  # why the state of the release cannot be followed; empty when well
        self._wake, self._stopping = threading.Event(), False
        self._thread: threading.Thread | None = None

    # -- life --------------------------------------------------------------------------------------------------------
    def open(self) -> LivePolicy:
        """Open what serves. Raises ContractError, ConfigError or DependencyMissing: nothing moves without a policy."""
        release = stable = None
        if self._file is not None:
            self._file.changed()  # before it is read: a change in between is news
            release = self._file.read()
        if release is None:
            stable = self._open(self._first)
            release = Release(self._model, stable.version)
        self._plan = self._make(release, {stable.version: stable} if stable is not None else {})
        self._episode = self._plan.release.episodes
        self._pin = self._take_pin()
        self._thread = threading.Thread(target=self._work, name="policy-release", daemon=True)
        self._thread.start()
        return self

    def close(self) -> None:
        """End the thread and every version; waits at most two seconds for it. What ended before is recorded."""
        self._stopping = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout=2.0)
            self._thread = None
        plan, self._plan = self._plan, None
        if plan is not None:
            shadow = [plan.shadow] if plan.shadow is not None else []
            for part in (*shadow, *(part for part, _ in self._retired), *plan.members.values()):
                part.close()

    # -- the agent's side ---------------------------------------------------------------------------------------------
    def begin_episode(self) -> Pin:
        """The next attempt begins: its version, kept until the next `begin_episode`."""
        with self._lock:
            self._pin = self._take_pin()
            self._episode += 1
        self._pin.member.policy.begin()
        return self._pin

    @property
    def pin(self) -> Pin:
        """Of the episode under way, or of the last one."""
        return self._pin

    def infer(
        self, observation: np.ndarray, observation_id: str, deadline_s: float, pin: Pin | None = None
    ) -> ActionChunk:
        """Answer one observation by the version of `pin` (default: of the present episode). Raises PolicyError."""
        pin = self._pin if pin is None else pin
        try:
            chunk = pin.member.policy.infer(observation, observation_id, deadline_s)
        except (ObservationRefused, PolicyTimeout):
            raise
        except PolicyError as error:  # the model itself answered what its contract forbids
            self._put(pin, str(error))
            raise
        plan = self._plan
        if plan is not None and plan.shadow is not None:
            plan.shadow.offer(observation, chunk)
        return chunk

    def end_episode(self, outcome: Outcome, pin: Pin | None = None) -> None:
        """How the attempt ended; recorded in the thread."""
        self._put(self._pin if pin is None else pin, outcome)

    def statistics(self) -> Statistics:
        """Of the version that serves the present episode."""
        return self._pin.member.policy.statistics()

    def release(self) -> Release:
        """The state that is followed."""
        return self._plan.release

    def shadow_statistics(self) -> ShadowStatistics | None:
        """Of the version that runs beside; None when there is none."""
        plan = self._plan
        return plan.shadow.statistics() if plan is not None and plan.shadow is not None else None

    # -- inside ------------------------------------------------------------------------------------------------------
    def _take_pin(self) -> Pin:
        plan = self._plan
        share = releases.share_of(plan.release, self._episode, self._config)
        version = releases.version_of(plan.release, share)
        return Pin(plan.members[version], share, plan.release.release_id, plan.release.stage, self._episode)

    def _put(self, pin: Pin, what: Outcome | str) -> None:
        if pin is None or not pin.release_id:
            return  # no release was under way: there is nothing to compare
        try:
            self._events.put_nowait((pin, what))
            self._wake.set()
        except queue.Full:
            self.events_lost += 1

    def _work(self) -> None:
        while True:
            self._wake.wait(POLL_S)
            self._wake.clear()
            try:
                self._step()
                self.trouble = ""
            except Exception as error:  # the edge of a thread: whatever it is, what serves goes on, and it is said
                said = str(error) if isinstance(error, SteadyhandError) else f"{type(error).__name__}: {error}"
                if self.trouble != said:
                    self._say(f"release: {said}")
                self.trouble = said
            if self._stopping:
                return

    def _step(self) -> None:
        while True:
            try:
                pin, what = self._events.get_nowait()
            except queue.Empty:
                break
            try:
                self._record(pin, what)
            except SteadyhandError:
                self.events_lost += 1
                raise
        if self._file is not None and (self._file.changed() or self.trouble):
            release = self._file.read()
            if release is not None and release != self._plan.release:
                self._follow(release)
        self._close_retired()

    def _record(self, pin: Pin, what: Outcome | str) -> None:
        def change(found: Release | None) -> Release:
            now = found if found is not None else self._plan.release
            if (now.release_id, now.stage) != (pin.release_id, pin.stage):
                return now  # promoted or rolled back meanwhile: it counts no more
            if isinstance(what, Outcome):
                return releases.record(now, pin.share, what, self._config)
            if pin.share is Share.CANDIDATE:
                return releases.roll_back(now, f"broke its contract: {what}")
            return now

        before = self._plan.release
        after = self._file.update(change) if self._file is not None else change(None)
        if after != before:
            self._follow(after)

    def _follow(self, release: Release) -> None:
        """Make the plan of a state and put it in place; say what changed."""
        before = self._plan
        plan = self._make(release, before.members, before.shadow)
        with self._lock:
            moved = (release.release_id, release.stage) != (before.release.release_id, before.release.stage)
            self._plan = plan
            if moved:
                self._episode = plan.release.episodes
        kept = set(plan.members.values())
        gone = [before.shadow] if before.shadow is not None and before.shadow is not plan.shadow else []
        gone += [member for member in before.members.values() if member not in kept]
        self._retired += [(part, time.monotonic()) for part in gone]
        for line in plan.release.history[len(before.release.history):] or plan.release.history[-1:]:
            if line not in before.release.history:
                self._say(f"release: {line}")

    def _make(self, release: Release, ready: dict[Version, Member], shadow: Shadow | None = None) -> _Plan:
        """Open what is not ready. A candidate or shadow that cannot be opened is dropped; the stable one must open."""
        if release.stage >= len(self._config.stages):
            raise ContractError(f"release.stage: {release.stage}, there are {len(self._config.stages)}")
        members: dict[Version, Member] = {}
        for version in release.versions:
            try:
                members[version] = ready.get(version) or self._opened(version)
            except SteadyhandError as error:
                if version == release.stable:
                    raise
                release = self._dropped(release, version, str(error))
                return self._make(release, {**ready, **members}, shadow)
        if release.shadow is None:
            shadow = None
        elif shadow is None or shadow.version != release.shadow.number:
            member = members[release.shadow]
            # its local model alone: a shadow must not load the server that others are served by
            shadow = Shadow(release.shadow.number, member.local, member.contract, self._on_disagreement)
        return _Plan(release, members, shadow)

    def _opened(self, version: Version) -> Member:
        member = self._open(version.number)
        if member.version != version:
            member.close()
            raise ContractError(
                f"sha256 of version {version.number}: found {member.version.sha256[:12]}, the release was of "
                f"{version.sha256[:12]}: a version was changed; `steadyhand policy serve {version.number}` accepts it"
            )
        return member

    def _dropped(self, release: Release, version: Version, why: str) -> Release:
        def change(found: Release | None) -> Release:
            now = found if found is not None else release
            if now.candidate == version:
                return releases.roll_back(now, why)
            return releases.with_shadow(now, None) if now.shadow == version else now

        self._say(f"release: version {version} cannot be opened: {why}")
        after = self._file.update(change) if self._file is not None else change(None)
        if version in after.versions:
            raise ConfigError(f"version {version} cannot be opened: {why}")
        return after

    def _close_retired(self) -> None:
        """What no plan names any more ends once no episode is pinned to it and no call can be under way."""
        with self._lock:
            pinned = self._pin.member if self._pin is not None else None
        over_s = time.monotonic() - RETIRED_S
        for part, since_s in list(self._retired):
            if part is not pinned and since_s < over_s:
                self._retired.remove((part, since_s))
                part.close()
