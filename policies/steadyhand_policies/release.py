"""A staged release as data: which version serves which episode, what was seen, and when it advances or is taken back.

Pure. A candidate serves 1 %, then 10 %, then all episodes; an episode is one attempt of a skill, and one version serves
it from beginning to end. Each stage counts its own episodes of both versions. At each look (`comparison`) the candidate
is taken back when it is worse, and advances when it is shown to be not worse by the stage's margin, both at `alpha`.
What a contract forbids (a reply that is not finite, misshapen, out of range) takes it back at once. The last stage has
no stable episodes beside it: it is compared with those of the stage before. `docs/release.md` says it with numbers;
`release_codec` keeps it on the disk.
"""
from __future__ import annotations

import enum
import hashlib
from dataclasses import dataclass, replace

from steadyhand.errors import ConfigError
from steadyhand_policies import comparison

FORMAT = 1
HISTORY_MAX, LINE_MAX = 50, 1000


class Share(str, enum.Enum):
    """Whose turn an episode is."""

    STABLE = "stable"
    CANDIDATE = "candidate"


class Outcome(str, enum.Enum):
    """How an episode ended."""

    SUCCESS = "success"
    FAILURE = "failure"
    VOID = "void"  # ended by something that is not the policy's: an operator's stop, a blind camera; not compared


@dataclass(frozen=True)
class Version:
    """A version of the model and the seal of its contract: another content under the same number is another version."""

    number: int
    sha256: str

    def __post_init__(self) -> None:
        if not isinstance(self.number, int) or isinstance(self.number, bool) or self.number < 1:
            raise ConfigError(f"version = {self.number!r}: give a whole number, 1 or more")
        if not isinstance(self.sha256, str) or len(self.sha256) != 64:
            raise ConfigError(f"sha256 of version {self.number}: {str(self.sha256)[:20]!r} is no SHA-256")

    def __str__(self) -> str:
        return f"{self.number} ({self.sha256[:8]})"


@dataclass(frozen=True)
class Stage:
    """`every`: one of so many episodes is the candidate's (1: all). `margin`: how much worse is not ruled out yet."""

    every: int
    margin: float

    def __post_init__(self) -> None:
        if self.every < 1:
            raise ConfigError(f"stage every = {self.every}: give 1 or more")
        if not 0.0 < self.margin < 1.0:
            raise ConfigError(f"stage margin = {self.margin}: give above 0, below 1")


# Without a failure a stage ends after 24, 50 and 102 of the candidate's episodes.
STAGES = (Stage(100, 0.20), Stage(10, 0.10), Stage(1, 0.05))


@dataclass(frozen=True)
class ReleaseConfig:
    """`alpha`: probability, over all looks of a stage, to take back what is as good, and to advance what is worse."""

    stages: tuple[Stage, ...] = STAGES
    alpha: float = 0.01

    def __post_init__(self) -> None:
        if not self.stages or self.stages[-1].every != 1:
            raise ConfigError("stages: give one or more, the last with every = 1")
        if any(a.every <= b.every for a, b in zip(self.stages, self.stages[1:])):
            raise ConfigError(f"stages: every = {[s.every for s in self.stages]}: give descending")
        if not 1e-6 <= self.alpha <= 0.05:
            raise ConfigError(f"alpha = {self.alpha}: give 1e-6 to 0.05")


@dataclass(frozen=True)
class Counts:
    """Episodes of one version in one stage."""

    successes: int = 0
    failures: int = 0
    voids: int = 0

    @property
    def n(self) -> int:
        """Those that are compared."""
        return self.successes + self.failures

    def plus(self, outcome: Outcome) -> Counts:
        """One more."""
        name = {Outcome.SUCCESS: "successes", Outcome.FAILURE: "failures", Outcome.VOID: "voids"}[outcome]
        return replace(self, **{name: getattr(self, name) + 1})

    def __str__(self) -> str:
        return f"{self.successes} of {self.n}" + (f" and {self.voids} void" if self.voids else "")


@dataclass(frozen=True)
class Looks:
    """Looks of one kind in this stage: how many, and the candidate's count at the last one."""

    taken: int = 0
    at: int = 0

    def next(self, at: int) -> Looks:
        """One more."""
        return Looks(self.taken + 1, at)


@dataclass(frozen=True)
class Release:
    """The whole state."""

    model: str
    stable: Version
    candidate: Version | None = None
    shadow: Version | None = None
    previous: Version | None = None  # stable before the present one: where a roll-back without a candidate leads
    release_id: str = ""  # of the candidate's release; decides which episodes are its
    stage: int = 0
    episodes: int = 0  # ended in this stage, of both versions, void ones too
    candidate_counts: Counts = Counts()
    stable_counts: Counts = Counts()
    worse_looks: Looks = Looks()
    not_worse_looks: Looks = Looks()
    history: tuple[str, ...] = ()
    format: int = FORMAT

    @property
    def versions(self) -> tuple[Version, ...]:
        """Every version that must be ready to serve or to shadow."""
        return tuple(v for v in (self.stable, self.candidate, self.shadow) if v is not None)


@dataclass(frozen=True)
class Judgement:
    """What the counts say now: both p values, what the next look of each kind may spend, and when it is due."""

    p_worse: float
    worse_limit: float
    worse_at: int
    p_not_worse: float
    not_worse_limit: float
    not_worse_at: int


# -- who serves ------------------------------------------------------------------------------------------------------
def share_of(release: Release, episode: int, config: ReleaseConfig = ReleaseConfig()) -> Share:
    """Whose turn the `episode`-th of the present stage is (0-based): one place in each block of `every`, at random."""
    if release.candidate is None:
        return Share.STABLE
    every = config.stages[release.stage].every
    block, place = divmod(episode, every)
    digest = hashlib.sha256(f"{release.release_id}/{release.stage}/{block}".encode()).digest()
    return Share.CANDIDATE if int.from_bytes(digest[:8], "big") % every == place else Share.STABLE


def version_of(release: Release, share: Share) -> Version:
    """The version behind a share."""
    return release.candidate if share is Share.CANDIDATE and release.candidate is not None else release.stable


# -- what an operator says -------------------------------------------------------------------------------------------
def begin(release: Release, candidate: Version, release_id: str) -> Release:
    """Start the release of a candidate. Refused while another is under way, or when it is the stable one."""
    if release.candidate is not None:
        raise ConfigError(f"a release is under way (candidate {release.candidate}): promote it or roll it back first")
    if candidate.number == release.stable.number:
        raise ConfigError(f"version {candidate.number} is the stable one already")
    if not release_id:
        raise ConfigError("release_id: empty; give something random")
    shadow = None if release.shadow == candidate else release.shadow
    begun = _stage(replace(release, candidate=candidate, shadow=shadow, release_id=release_id), 0)
    return _noted(begun, f"release of {candidate} begun, stable {release.stable}")


def promote(release: Release, config: ReleaseConfig = ReleaseConfig(), all_the_way: bool = False) -> Release:
    """An operator advances the candidate by a stage (`all_the_way`: makes it stable). Refused when it is worse."""
    if release.candidate is None:
        raise ConfigError("no release is under way: nothing to promote")
    judged = judge(release, config)
    if judged.p_worse < config.alpha:
        raise ConfigError(f"candidate {release.candidate} is worse (p = {judged.p_worse:.2g}): roll it back")
    said = f"promoted by the operator (p of not worse {judged.p_not_worse:.2g})"
    release = _advanced(release, config, said)
    while all_the_way and release.candidate is not None:
        release = _advanced(release, config, said)
    return release


def roll_back(release: Release, why: str) -> Release:
    """Drop the candidate; without one, go back to the stable version before. Refused when there is none."""
    if release.candidate is not None:
        said = f"candidate {release.candidate} rolled back: {why}"
        return _noted(_stage(replace(release, candidate=None, release_id=""), 0), said)
    if release.previous is None:
        raise ConfigError("no candidate and no earlier stable version: nothing to roll back to")
    shadow = None if release.shadow == release.previous else release.shadow
    back = replace(release, stable=release.previous, previous=None, shadow=shadow)
    return _noted(back, f"stable {release.stable} rolled back to {back.stable}: {why}")


def with_shadow(release: Release, version: Version | None) -> Release:
    """Let a version run beside (None: no one). One that serves cannot."""
    if version is not None and version in (release.stable, release.candidate):
        raise ConfigError(f"version {version} serves: a shadow is one that does not")
    return _noted(replace(release, shadow=version), f"shadow {version or 'off'}")


# -- what the episodes say -------------------------------------------------------------------------------------------
def record(release: Release, share: Share, outcome: Outcome, config: ReleaseConfig = ReleaseConfig()) -> Release:
    """One episode of the release has ended: count it, and when a look is due, advance or roll back."""
    if release.candidate is None:
        return release
    name = "candidate_counts" if share is Share.CANDIDATE else "stable_counts"
    release = replace(release, episodes=release.episodes + 1, **{name: getattr(release, name).plus(outcome)})
    if release.candidate_counts.n >= _worse_at(release):
        judged = judge(release, config)
        if judged.p_worse < judged.worse_limit:
            limit = f"p = {judged.p_worse:.2g} below {judged.worse_limit:.2g}"
            return roll_back(release, f"worse, {limit}; {_said(release)}")
        release = replace(release, worse_looks=release.worse_looks.next(release.candidate_counts.n))
    if release.candidate_counts.n >= _not_worse_at(release, config):
        judged, margin = judge(release, config), config.stages[release.stage].margin
        if judged.p_not_worse < judged.not_worse_limit:
            limit = f"p = {judged.p_not_worse:.2g} below {judged.not_worse_limit:.2g}"
            return _advanced(release, config, f"not worse by {margin:g}, {limit}")
        release = replace(release, not_worse_looks=release.not_worse_looks.next(release.candidate_counts.n))
    return release


def judge(release: Release, config: ReleaseConfig = ReleaseConfig()) -> Judgement:
    """What the counts of the present stage say."""
    c, s, margin = release.candidate_counts, release.stable_counts, config.stages[release.stage].margin
    worse_limit = comparison.alpha_of_look(release.worse_looks.taken + 1, config.alpha)
    limit = comparison.alpha_of_look(release.not_worse_looks.taken + 1, config.alpha)
    return Judgement(
        comparison.p_worse(c.successes, c.n, s.successes, s.n), worse_limit,
        _worse_at(release),
        comparison.p_not_worse(c.successes, c.n, s.successes, s.n, margin, comparison.BETA_SHARE * limit), limit,
        _not_worse_at(release, config),
    )


def _worse_at(release: Release) -> int:
    return comparison.next_look(release.worse_looks.at, comparison.WORSE_FIRST)


def _not_worse_at(release: Release, config: ReleaseConfig) -> int:
    first = comparison.not_worse_first(config.stages[release.stage].margin, config.alpha)
    return comparison.next_look(release.not_worse_looks.at, first)


def _advanced(release: Release, config: ReleaseConfig, why: str) -> Release:
    said = f"candidate {release.candidate}, stage {release.stage + 1}: {why}; {_said(release)}"
    if release.stage < len(config.stages) - 1:
        following = _stage(release, release.stage + 1)
        every = config.stages[following.stage].every
        if every == 1:  # nobody else serves there: compare with those before
            following = replace(following, stable_counts=release.stable_counts)
        return _noted(following, f"{said}; on to one in {every}")
    done = replace(release, stable=release.candidate, previous=release.stable, candidate=None, release_id="")
    return _noted(_stage(done, 0), f"{said}; it is the stable version now")


def _stage(release: Release, stage: int) -> Release:
    return replace(release, stage=stage, episodes=0, candidate_counts=Counts(), stable_counts=Counts(),
                   worse_looks=Looks(), not_worse_looks=Looks())


def _said(release: Release) -> str:
    return f"candidate {release.candidate_counts}, stable {release.stable_counts}"


def _noted(release: Release, line: str) -> Release:
    return replace(release, history=(*release.history, line[:LINE_MAX])[-HISTORY_MAX:])
