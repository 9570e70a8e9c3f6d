"""`mtbf`: mean operating time between operator interventions, with L1 to L3 and without, under the same faults.

Virtual time on the kinematic cell; strikes of `steadyhand_sim.mission_faults`, the same per seed in both arms. A
mission clears a tray of five. Arm `recovering` is the executor as shipped; arm `control` is the same with the first
failed step ending the mission. Failure: any end but "tray cleared, all five in the box", or no end within
`MISSION_LIMIT_S`; then the operator sets everything right, which does not count as operation. The control arm runs
the first seeds of the other. `ratio_low` is the smaller lower bound of two 95 % intervals: bootstrap over missions,
and two Poisson rates. It says nothing about a real cell's times: its faults are rarer. Missions done are kept, so
that a long run can go on.
"""
from __future__ import annotations

import argparse
import functools
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Iterator

import numpy as np
from scipy import stats

from benchmarks import common
from benchmarks._kept import Kept, identity
from steadyhand.agent import Agent
from steadyhand.executor import ExecutorConfig
from steadyhand.task import Code
from steadyhand_sim import kinematic_cell, mission_faults
from steadyhand_sim.kinematic_cell import KinematicCell, scatter
from steadyhand_sim.mission_faults import Injector, schedule

CUBES, MISSION_LIMIT_S, ADJACENT_S = 5, 600.0, 15.0
ARMS = {"recovering": ExecutorConfig(), "control": ExecutorConfig(failures_max=1)}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--failures", type=int, default=200, help="at least so many in each arm")
    parser.add_argument("--missions", type=int, default=20_000, help="at most so many in each arm")
    parser.add_argument("--budget-s", type=float, default=7200.0, help="stop early after so long; the result says so")
    parser.add_argument("--workers", type=int, default=1, help="processes; the result does not depend on it")
    parser.add_argument("--fresh", action="store_true", help="forget the missions of an earlier run")


def mission(arm: str, seed: int) -> dict:
    """One tray: operating time, whether the operator is needed, and what struck."""
    cell = KinematicCell(scatter(CUBES, seed), seed, agent=Agent(arm, executor=ARMS[arm]))
    cell.warm_up()
    cell.decisions.clear()
    injector = Injector(schedule(seed, MISSION_LIMIT_S), seed)
    start_s = cell.now_s
    cell.goal()
    while not cell.results and cell.now_s - start_s < MISSION_LIMIT_S:
        injector.step(cell, cell.now_s - start_s)
        cell.step()
        cell.decisions.clear()  # of no interest here, and they would fill the memory
    operating_s = cell.now_s - start_s
    result = cell.results[-1] if cell.results else None
    cleared = result is not None and result.code is Code.OK and cell.in_box() == CUBES
    code = result.code.name if result is not None else "TIME_LIMIT"
    failures = result.statistics.get("failures", []) if result is not None else []
    return {
        "arm": arm, "seed": seed, "operating_s": round(operating_s, 3), "failed": not cleared,
        "code": code if cleared or code != "OK" else "INCOMPLETE", "placed": cell.in_box(),
        "failed_steps": len(failures), "struck": [name for _, name in injector.struck],
        "at_failure": [] if cleared else injector.active(operating_s, ADJACENT_S),
    }


def mtbf_s(missions: list[dict]) -> float:
    """Operating seconds per failure."""
    return sum(m["operating_s"] for m in missions) / max(sum(m["failed"] for m in missions), 1)


def poisson_low(treated: list[dict], control: list[dict], confidence: float = 0.95) -> float:
    """Lower bound of the ratio of two Poisson rates (conditional exact, Przyborowski and Wilenski 1940)."""
    (n_t, t_t), (n_c, t_c) = (
        (sum(m["failed"] for m in arm), sum(m["operating_s"] for m in arm)) for arm in (treated, control)
    )
    share_low = stats.beta.ppf((1 - confidence) / 2, n_c, n_t + 1)  # of the failures that are the control's
    return float(share_low / (1 - share_low) * t_t / t_c)


def bootstrap_low(treated: list[dict], control: list[dict], n: int = 10_000, confidence: float = 0.95) -> float:
    """Lower bound over resampled seeds; a seed that both arms ran is drawn for both."""
    rng = np.random.default_rng(1)
    rows = np.array([[m["operating_s"], m["failed"], 0.0, 0.0] for m in treated])
    for row, m in zip(rows, control):
        row[2:] = m["operating_s"], m["failed"]
    paired, rest = rows[: len(control)], rows[len(control):]
    ratios = np.empty(n)
    for k in range(n):
        total = paired[rng.integers(len(paired), size=len(paired))].sum(axis=0)
        if len(rest):
            total = total + rest[rng.integers(len(rest), size=len(rest))].sum(axis=0)
        ratios[k] = total[0] / max(total[1], 1.0) / (total[2] / max(total[3], 1.0))
    return float(np.quantile(ratios, (1 - confidence) / 2))


def summary(treated: list[dict], control: list[dict]) -> dict:
    """The metrics."""
    arms = {}
    for name, missions in (("recovering", treated), ("control", control)):
        failed = [m for m in missions if m["failed"]]
        arms[name] = {
            "missions": len(missions), "failures": len(failed),
            "operating_h": round(sum(m["operating_s"] for m in missions) / 3600, 3),
            "mtbf_s": round(mtbf_s(missions), 1),
            "placed_per_failure": round(sum(m["placed"] for m in missions) / max(len(failed), 1), 2),
            "codes": dict(Counter(m["code"] for m in missions)),
            "struck": dict(Counter(s for m in missions for s in m["struck"])),
            "near_failures": dict(Counter(s for m in failed for s in m["at_failure"])),
        }
    low = {"bootstrap": bootstrap_low(treated, control), "poisson": poisson_low(treated, control)}
    return {
        "ratio": round(mtbf_s(treated) / mtbf_s(control), 3), "ratio_low": round(min(low.values()), 3),
        "failures": min(a["failures"] for a in arms.values()), "ratio_low_by": {k: round(v, 3) for k, v in low.items()},
        "arms": arms, "table": {k.name: {"rate_per_h": k.rate_per_h, "mean_s": k.mean_s} for k in mission_faults.KINDS},
    }


def _missions(arm: str, seeds: range, workers: int) -> Iterator[dict]:
    """Missions in order of their seeds."""
    if workers == 1:
        yield from (mission(arm, seed) for seed in seeds)
        return
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        yield from pool.imap(functools.partial(mission, arm), seeds)


def run(args: argparse.Namespace) -> None:
    mark = identity(mission_faults, kinematic_cell, sys.modules[__name__])
    kept, done = Kept("mtbf-missions", mark, args.fresh), {arm: [] for arm in ARMS}
    for m in kept.lines:
        if m["seed"] == len(done[m["arm"]]):
            done[m["arm"]].append(m)
    end_s = time.monotonic() + args.budget_s
    for arm, missions in done.items():
        failures = sum(m["failed"] for m in missions)
        wanted = range(len(missions), args.missions if failures < args.failures else 0)
        for m in _missions(arm, wanted, args.workers):
            missions.append(m)
            failures += m["failed"]
            kept.add(m)
            if len(missions) % 50 == 0:
                said = f"{len(missions)} missions, {failures} failures, MTBF {mtbf_s(missions):.0f} s"
                print(f"{arm}: {said}", flush=True)
            if failures >= args.failures or time.monotonic() > end_s:
                break
    metrics = summary(done["recovering"], done["control"])
    metrics["complete"] = metrics["failures"] >= args.failures
    n = sum(len(missions) for missions in done.values())
    path = common.write("mtbf", n, "virtual time", "virtual time, one process", metrics)
    print(f"ratio {metrics['ratio']} (low {metrics['ratio_low']}), {metrics['failures']} failures\n{path}")
