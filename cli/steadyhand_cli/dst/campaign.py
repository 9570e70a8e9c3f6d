"""Many episodes: seeds in a row until enough hours are simulated; sums, and a log that later campaigns go on from."""
from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from steadyhand_cli.dst import episode
from steadyhand_cli.dst.episode import Outcome


@dataclass
class Totals:
    """Sums over episodes. `cpu_s` is processor time, so that hours per core hour do not depend on who else runs."""

    episodes: int = 0
    robot_s: float = 0.0
    virtual_s: float = 0.0
    block_s: float = 0.0
    cpu_s: float = 0.0
    stops: int = 0
    arms: int = 0
    fast: int = 0
    faults: int = 0
    violations: int = 0
    next_seed: int = 0
    version: str = ""  # of the code under test that these sums are about
    simulator: str = ""  # version of the simulator and its judges, now
    simulators: Counter = field(default_factory=Counter)  # robot_s by such a version
    failed: list = field(default_factory=list)  # seeds
    kinds: Counter = field(default_factory=Counter)

    def add(self, outcome: Outcome, cpu_s: float) -> None:
        """Count one episode."""
        self.episodes += 1
        self.robot_s += outcome.robot_s
        self.virtual_s += outcome.virtual_s
        self.block_s += outcome.block_s
        self.cpu_s += cpu_s
        self.stops += outcome.stops
        self.arms += outcome.arms
        self.fast += outcome.fast
        self.faults += sum(outcome.injected.values())
        self.violations += not outcome.ok
        self.failed += [] if outcome.ok else [outcome.seed]
        self.simulators[self.simulator] += outcome.robot_s
        self.kinds.update(outcome.injected)
        self.next_seed = max(self.next_seed, outcome.seed + 1)

    def metrics(self) -> dict:
        """The figures, by the names of the benchmark."""
        cpu_h = max(self.cpu_s, 1e-9) / 3600.0
        return {
            "robot_hours": round(self.robot_s / 3600.0, 3),
            "hours_per_core_hour": round(self.robot_s / 3600.0 / cpu_h, 1),
            "faults_injected": self.faults,
            "faults_above_0p1_rad_s": round(self.fast / max(1, self.faults), 3),
            "fault_kinds": len(self.kinds),
            "violations": self.violations,
            "episodes": self.episodes,
            "stops": self.stops,
            "armings": self.arms,
            "core_hours": round(cpu_h, 4),
            "share_in_blocks": round(self.block_s / max(self.virtual_s, 1e-9), 3),
        }

    def save(self, path: Path) -> None:
        """Write the log; it is whole at every moment."""
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        part.write_text(json.dumps(vars(self) | {"kinds": dict(sorted(self.kinds.items()))}, indent=1) + "\n")
        part.replace(path)

    @staticmethod
    def load(path: Path) -> Totals:
        """What an earlier campaign left; empty when there is none."""
        if not path.is_file():
            return Totals()
        raw = json.loads(path.read_text())
        return Totals(**(raw | {name: Counter(raw[name]) for name in ("kinds", "simulators")}))


def episodes(
    first_seed: int, more: Callable[[Totals], bool], totals: Totals, every_s: float = episode.EVERY_S
) -> Iterator[Outcome]:
    """Run seeds from `first_seed` while `more(totals)`; each outcome is added to `totals` and handed out."""
    seed = first_seed
    while more(totals):
        before_s = time.process_time()
        outcome = episode.run(seed, every_s=every_s)
        totals.add(outcome, time.process_time() - before_s)
        yield outcome
        seed += 1
