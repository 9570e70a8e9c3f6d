"""`spikes`: impulse noise found in the fast run of a real UR5 (NTNU 2013, No3: up to 3.5 rad/s, samples lost).

Spikes are put into single readings of every channel, one in a hundred on average, never nearer than six samples.
`sigma` is the standard deviation of the differences of adjacent samples of the channel, the quantity that the plain
rule thresholds: `own`, that of the run itself (headline: plus or minus 5 of it); `ordinary`, that of the tuning
recordings, up to 15 times less; `drawn`, normal with 5 own sigma, as the simulator makes them, of which many are too
small to matter. `tpr` and `fpr` count readings of all channels; their intervals are 95 % bootstraps over blocks of a
second of the run. False alarms are counted in the very readings that hold the spikes. Noise and thresholds were found
on other recordings (`_spike_recordings.TUNING`) and are those that the runtime uses; `thresholds_found` is what the
tuning recordings say today. The form of the detector was chosen with this run in view; `unseen` is of another one
that nobody had looked at before, every third sample of it. `plain` is the control arm: |x[k] - x[k-1]| over a
threshold of 3 ordinary sigma, and over the one with 1 % false alarms on the same tuning recordings; the difference
behind a spike is not held against it. `roc` sweeps the threshold about the operating point; `tpr_at_1_percent` is
read off it, thus chosen on the run itself.
"""
from __future__ import annotations

import argparse
import functools
import json
import operator
import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks import common
from benchmarks._spike_recordings import (
    FALSE_ALARMS, FASTER, JUDGED, KINDS, TUNING, UNSEEN, Channels, faster, load, noise_of, thresholds_of,
)
from steadyhand.impulse import DELAY_SAMPLES, ImpulseConfig, ImpulseDetector
from steadyhand.impulse_channels import CHANNELS

EVERY, APART = 100, 6  # samples between spikes: on average, at least
SIGMAS = 5.0
FACTORS = (0.25, 0.5, 0.7, 1.0, 1.4, 2.0, 4.0)  # of the operating threshold
EDGE = 4  # readings at either end that are not counted: they have no verdict
RESAMPLES = 2000


@dataclass(frozen=True)
class Counts:
    """Per block of a second: spikes, those found, other readings, false alarms; each (B,)."""

    spikes: np.ndarray
    found: np.ndarray
    others: np.ndarray
    alarms: np.ndarray

    def __add__(self, other: Counts) -> Counts:
        n = max(len(self.spikes), len(other.spikes))
        pairs = zip(self.__dict__.values(), other.__dict__.values())
        return Counts(*(np.pad(a, (0, n - len(a))) + np.pad(b, (0, n - len(b))) for a, b in pairs))

    def rates(self) -> dict:
        """tpr and fpr with intervals."""
        rng = np.random.default_rng(0)
        rows = rng.integers(0, len(self.spikes), (RESAMPLES, len(self.spikes)))
        out = {}
        for name, hit, all_ in (("tpr", self.found, self.spikes), ("fpr", self.alarms, self.others)):
            resampled = hit[rows].sum(axis=1) / np.maximum(all_[rows].sum(axis=1), 1)
            out[name] = round(float(hit.sum() / max(all_.sum(), 1)), 4)
            out[f"{name}_low"], out[f"{name}_high"] = np.percentile(resampled, [2.5, 97.5]).round(4).tolist()
        return out | {"spikes": int(self.spikes.sum()), "readings": int(self.others.sum())}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    data = os.environ.get("STEADYHAND_DATA", str(common.ROOT.parent / "shared" / "data"))
    parser.add_argument("--data", type=Path, default=Path(data), help="folder of ur5_ntnu_2013 (STEADYHAND_DATA)")
    parser.add_argument("--copies", type=int, default=12, help="of the run, each with spikes of its own")
    parser.add_argument("--seed", type=int, default=5)


def placed(shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """(T, C) where the spikes are: in each column at random, `EVERY` samples apart on average."""
    where = np.zeros(shape, dtype=bool)
    for column in where.T:
        at = np.cumsum(APART + rng.geometric(1.0 / (EVERY - APART), shape[0] // APART)) + EDGE
        column[at[at < shape[0] - EDGE]] = True
    return where


def counted(where: np.ndarray, flagged: np.ndarray, stamp_s: np.ndarray) -> Counts:
    """Counts of flags (T, C) against spikes (T, C), without the edges."""
    inner = slice(EDGE, len(where) - EDGE)
    where, flagged = where[inner], flagged[inner]
    block = (stamp_s[inner] - stamp_s[inner][0]).astype(int)
    per_sample = (where, where & flagged, ~where, ~where & flagged)
    return Counts(*(np.bincount(block, weights=a.sum(axis=1)) for a in per_sample))


def detected(stamp_s: np.ndarray, values: np.ndarray, config: ImpulseConfig) -> np.ndarray:
    """(T, C) what the detector flags."""
    detector, flagged = ImpulseDetector(config), np.zeros(values.shape, dtype=bool)
    for k, (s, row) in enumerate(zip(stamp_s.tolist(), values)):
        verdict = detector.update(s, row)
        if verdict is not None:
            flagged[k - DELAY_SAMPLES] = verdict.spikes
    return flagged


def plain(values: np.ndarray, threshold: np.ndarray, where: np.ndarray) -> np.ndarray:
    """(T, C) what the rule on raw differences flags; the difference back from a spike is let pass."""
    flagged = np.vstack([np.zeros((1, values.shape[1]), dtype=bool), np.abs(np.diff(values, axis=0)) > threshold])
    flagged[1:] &= ~where[:-1]
    return flagged


def judge(run: Channels, config: ImpulseConfig, sizes: np.ndarray, drawn: bool, copies: int, rng) -> tuple:
    """(Counts per factor of the threshold, spiked readings, where) for spikes of `sizes` (C,)."""
    values = np.tile(run.values, copies)
    where = placed(values.shape, rng)
    height = rng.standard_normal(values.shape) if drawn else rng.choice([-1.0, 1.0], values.shape)
    values = values + where * height * np.tile(sizes, copies)
    wide = replace(config, noise_std=config.noise_std * copies)
    factors = (1.0,) if drawn else FACTORS
    flags = {f: detected(run.stamp_s, values, replace(wide, threshold=f * config.threshold)) for f in factors}
    return {f: counted(where, flag, run.stamp_s) for f, flag in flags.items()}, values, where


def at_one_percent(points: list[dict]) -> float:
    """tpr at 1 % fpr, between the points of a ROC, which runs from (1, 1) to (0, 0)."""
    pairs = sorted([(p["fpr"], p["tpr"]) for p in points] + [(0.0, 0.0), (1.0, 1.0)])
    return round(float(np.interp(FALSE_ALARMS, *zip(*pairs))), 4)


def roc(counts: dict[float, Counts]) -> list[dict]:
    """Points of a ROC."""
    return [{"factor": f} | {k: v for k, v in c.rates().items() if k in ("tpr", "fpr")} for f, c in counts.items()]


@dataclass(frozen=True)
class OfKind:
    """What came of one kind of channels: Counts by factor of the threshold, those of the control arms, and figures."""

    detector: dict[float, Counts]
    plain: dict[str, Counts]
    metrics: dict


def of_kind(run: Channels, config: ImpulseConfig, tuning: list[Channels], noise: np.ndarray, copies: int, rng):
    """`OfKind` of one kind of channels. `tuning`: the recordings that the plain rule's second threshold is found on."""
    own = np.diff(run.values, axis=0).std(axis=0)
    counts, values, where = judge(run, config, SIGMAS * own, False, copies, rng)

    def plainly(factor: float) -> Counts:
        return counted(where, plain(values, factor * np.tile(noise, copies), where), run.stamp_s)

    differences = np.concatenate([np.abs(np.diff(c.values, axis=0)) / noise for c in tuning])
    arms = {"three_sigma": plainly(3.0), "tuned": plainly(float(np.quantile(differences, 1 - FALSE_ALARMS)))}
    sweep = {f: plainly(f) for f in np.geomspace(0.1, 200, 25)}
    others = {
        name: judge(run, config, sizes, drawn, max(1, copies // 3), rng)[0][1.0].rates()
        for name, sizes, drawn in (("ordinary", SIGMAS * noise, False), ("drawn", SIGMAS * own, True))
    }
    metrics = counts[1.0].rates() | {
        "tpr_at_1_percent": at_one_percent(roc(counts)), "roc": roc(counts), **others,
        "plain": {n: c.rates() for n, c in arms.items()} | {"tpr_at_1_percent": at_one_percent(roc(sweep))},
        "own_sigma": own.round(6).tolist(), "ordinary_sigma": noise.round(6).tolist(),
    }
    return OfKind(counts, arms, metrics)


def of_unseen(run: dict[str, Channels], copies: int, rng) -> dict:
    """The detector on a run that nothing was chosen on or looked at before, made faster by leaving out samples."""
    kinds = {}
    for kind, channels in run.items():
        quick = faster(channels, FASTER[-1])
        own = np.diff(quick.values, axis=0).std(axis=0)
        kinds[kind] = judge(quick, CHANNELS[kind], SIGMAS * own, False, copies, rng)[0][1.0]
    return together([{"all": c} for c in kinds.values()])["all"].rates() | {
        "recording": UNSEEN, "every": FASTER[-1], "kinds": {kind: c.rates() for kind, c in kinds.items()},
    }


def together(parts: list[dict]) -> dict:
    """Counts of all kinds, by the keys that they share."""
    return {key: functools.reduce(operator.add, (p[key] for p in parts)) for key in parts[0]}


def run(args: argparse.Namespace) -> Path:
    tuning, fast = [load(args.data, name) for name in TUNING], load(args.data, JUDGED)
    noise, rng, kinds = noise_of(tuning), np.random.default_rng(args.seed), {}
    for kind in KINDS:
        slow = [r[kind] for r in tuning if kind in r]
        found = kinds[kind] = of_kind(fast[kind], CHANNELS[kind], slow, noise[kind], args.copies, rng)
        print(kind, {k: found.metrics[k] for k in ("tpr", "fpr", "tpr_at_1_percent")}, flush=True)
    counts, arms = (together([getattr(k, name) for k in kinds.values()]) for name in ("detector", "plain"))
    rates = counts[1.0].rates()
    of_all = {name: k.metrics for name, k in kinds.items()}
    worst = min(of_all, key=lambda k: of_all[k]["tpr"])
    thresholds = thresholds_of(tuning, {k: np.array(CHANNELS[k].noise_std) for k in KINDS})
    metrics = rates | {
        "goal_met": rates["tpr"] >= 0.95 and rates["fpr"] <= FALSE_ALARMS,
        "tpr_at_1_percent": at_one_percent(roc(counts)),
        "worst_kind": worst, "worst_kind_tpr": of_all[worst]["tpr"], "worst_kind_fpr": of_all[worst]["fpr"],
        "largest_fpr": max(k["fpr"] for k in of_all.values()),
        "plain": {name: c.rates() for name, c in arms.items()},
        "unseen": of_unseen(load(args.data, UNSEEN), args.copies, rng),
        "roc": roc(counts), "kinds": of_all, "delay_samples": DELAY_SAMPLES,
        "thresholds": {k: c.threshold for k, c in CHANNELS.items()},
        "thresholds_found": {k: round(v, 3) for k, v in thresholds.items()},
        "tuning": list(TUNING), "judged": JUDGED, "copies": args.copies, "seed": args.seed,
    }
    print(json.dumps({k: v for k, v in metrics.items() if not isinstance(v, dict | list)}, indent=1))
    return common.write("spikes", metrics["spikes"], "no timing is measured", "SCHED_OTHER", metrics)
