"""The kinds of trouble: each strikes the running rig once and undoes itself where nobody else does."""
from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable

from benchmarks.failover.rig import MODEL, Rig, until
from steadyhand_policies import release as releases
from steadyhand_policies import repository as repositories
from steadyhand_policies.release import Release

WINDOW_S = 3.0  # from a strike on; what does not end by itself ends then


def _killed(rig: Rig) -> None:
    os.kill(rig.triton.status()["server_pid"], signal.SIGKILL)


def _frozen(rig: Rig) -> None:
    os.kill(rig.triton.status()["server_pid"], signal.SIGSTOP)  # the supervisor restarts it after three canaries


def _stub_killed(rig: Rig) -> None:
    for pid in rig.triton.group()[1:]:
        os.kill(pid, signal.SIGKILL)


def _supervisor_killed(rig: Rig) -> None:
    rig.triton.process.kill()
    rig.triton.process.wait(5)
    threading.Timer(WINDOW_S, rig.triton.start).start()  # whoever supervises the supervisor


def _cable(**trouble) -> Callable[[Rig], None]:
    def strike(rig: Rig) -> None:
        rig.cable.trouble(**trouble)
        threading.Timer(WINDOW_S, rig.cable.trouble).start()

    return strike


def _cut(rig: Rig) -> None:
    rig.cable.cut()


def _released(rig: Rig) -> None:
    """A candidate begins to serve one episode in two."""
    rig.file.update(lambda now: releases.begin(
        none_under_way(now or Release(MODEL, rig.versions[1])), rig.versions[2], "benchmark"
    ))


def _rolled_back(rig: Rig) -> None:
    """In the middle of an episode of the candidate's."""
    _released(rig)
    until(lambda: rig.driver.live.pin.version == rig.versions[2], "the candidate serves")
    at_s = time.monotonic()
    rig.file.update(lambda now: releases.roll_back(now, "benchmark"))
    until(lambda: rig.driver.live.pin.version == rig.versions[1], "the stable one serves")
    rig.driver.counts["rollback_ms_max"] = max(
        rig.driver.counts["rollback_ms_max"], int((time.monotonic() - at_s) * 1e3)
    )


def _installed(rig: Rig) -> None:
    """A new version appears in the repository; the server loads it beside the others."""
    number = repositories.newest(rig.triton.repository, MODEL)
    repositories.install(rig.triton.repository / MODEL / str(number), rig.triton.repository, MODEL)


def none_under_way(release: Release) -> Release:
    """The state without a candidate."""
    return releases.roll_back(release, "benchmark") if release.candidate is not None else release


KINDS: dict[str, Callable[[Rig], None]] = {
    "server_killed": _killed, "server_frozen": _frozen, "backend_killed": _stub_killed,
    "supervisor_killed": _supervisor_killed, "connection_cut": _cut, "answers_late": _cable(delay_s=0.06),
    "answers_held": _cable(hold=True), "answers_lost": _cable(drop=True), "answers_cut_off": _cable(truncate_bytes=30),
    "candidate_released": _released, "rolled_back": _rolled_back, "version_loaded": _installed,
}
