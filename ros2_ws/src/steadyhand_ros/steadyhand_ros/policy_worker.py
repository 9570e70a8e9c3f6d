"""The policy call's thread: one call at a time, the newest request wins, so that rclpy never waits for a server."""
from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from steadyhand.config import check_ranges, described
from steadyhand.errors import ConfigError, PolicyError
from steadyhand.slot import current_slot
from steadyhand.task import PolicyReply, PolicyRequest
from steadyhand.trace import Record
from steadyhand_policies.engine import WANTED
from steadyhand_policies.episodes import Begun, EpisodeWatch
from steadyhand_policies.live import LivePolicy, Pin
from steadyhand_policies.member import opener
from steadyhand_policies.release_file import ReleaseFile
from steadyhand_policies.repository import newest
from steadyhand_policies.shadow import Disagreement


@dataclass(frozen=True)
class PolicyServingConfig:
    """Which version serves, and where."""

    version: int = described(0, "version that serves when no release was ever decided; 0: the newest", "", 0, 1_000_000)
    provider: str = described("cpu", f"where the model in this process runs: {', '.join(WANTED)}")
    release: bool = described(True, "follow `steadyhand policy`: staged release, roll-back, shadow")

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.provider not in WANTED:
            raise ConfigError(f"provider = {self.provider!r}: give one of {', '.join(WANTED)}")


def open_policy(
    repository: Path, model: str, use_triton: bool, url: str, config: PolicyServingConfig = PolicyServingConfig(),
    say: Callable[[str], None] = lambda line: None,
    on_disagreement: Callable[[Disagreement], None] = lambda found: None,
) -> LivePolicy:
    """The policy as configured, checked and warm. Raises ContractError, ConfigError or DependencyMissing."""
    slot = current_slot()
    address = (url or f"127.0.0.1:{slot.triton_grpc_port}") if use_triton else ""
    file = ReleaseFile(slot.out_dir / "policy", model) if config.release else None
    first = config.version or newest(repository, model)
    open_version = opener(repository, model, address, config.provider)
    return LivePolicy(model, open_version, first, file, say=say, on_disagreement=on_disagreement).open()


class EpisodeKeeper:
    """Tells the policy of each attempt's beginning and end, from the agent's records; under the agent's lock."""

    def __init__(self, policy: LivePolicy):
        self._policy, self._watch = policy, EpisodeWatch()
        self.counts = {"success": 0, "failure": 0, "void": 0}

    def take(self, records: Iterable[Record], now_s: float) -> list[Record]:
        """Before the requests of the same step are sent. Returns what the trace shall say of it."""
        said = []
        for event in self._watch.take(records):
            if isinstance(event, Begun):
                pin = self._policy.begin_episode()
                said.append(Record("episode", now_s, {
                    "skill": event.skill, "version": pin.version.number, "contract": pin.version.sha256,
                    "share": pin.share.value, "release": pin.release_id,
                }))
            else:
                self._policy.end_episode(event.outcome)
                self.counts[event.outcome.value] += 1
                said.append(Record("episode_end", now_s, {
                    "skill": event.skill, "version": self._policy.pin.version.number,
                    "outcome": event.outcome.value, "fault": event.fault,
                }))
        return said


class PolicyWorker:
    """Calls `deliver(reply)` from its own thread for each request that was not overtaken by a newer one."""

    def __init__(self, policy: LivePolicy, deliver: Callable[[PolicyReply], None]):
        self._policy, self._deliver = policy, deliver
        self._wake = threading.Condition()
        self._request: tuple[PolicyRequest, Pin] | None = None
        self._stopping = False
        self.overtaken = 0
        self._thread = threading.Thread(target=self._work, name="policy", daemon=True)
        self._thread.start()

    def ask(self, request: PolicyRequest) -> None:
        """Hand over a request; returns at once. It is answered by the version of the episode it was asked in."""
        with self._wake:
            self.overtaken += self._request is not None
            self._request = request, self._policy.pin
            self._wake.notify()

    def close(self) -> None:
        """End the thread; waits at most one second."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        if self._thread is not threading.current_thread():
            self._thread.join(timeout=1.0)

    def _work(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._stopping or self._request is not None)
                if self._stopping:
                    return
                (request, pin), self._request = self._request, None
            try:
                chunk = self._policy.infer(request.observation, request.observation_id, request.deadline_s, pin)
                reply = PolicyReply(request.observation_id, chunk)
            except PolicyError as error:
                reply = PolicyReply(request.observation_id, None, str(error))
            self._deliver(reply)
