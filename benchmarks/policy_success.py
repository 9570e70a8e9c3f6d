"""`policy_success`: the committed actors on held-out scenes and on pseudo-real plants (PyBullet, paired scenes).

Every arm of every training seed tries the same scenes, with the runtime's perception noise. An arm's figure is that of
its worst training seed, `_low` its lower 95 % bound (Wilson; on pseudo-real plants a bootstrap over plants).
`bc50` and `ppo`: joint-delta formulation, cloned from 50 demonstrations, then fine-tuned; `cartesian_*` the same in the
Cartesian one. `dr_pseudo_real`: fine-tuned with randomised dynamics, on plants drawn from the hash of all the weights
evaluated here, so after them; half with structure that the motor model's fit lacks, a quarter outside the range trained
on. `nominal_pseudo_real` is its control arm. Also: the learning curve over demonstrations, 4 passes over a sample
against 6, and tampered observations, which must lower success. Simulated throughout; outcomes are kept one arm and
seed at a time: an interrupted run goes on.
"""
from __future__ import annotations

import argparse
import hashlib
import re
from pathlib import Path

import numpy as np

from benchmarks import _kept, common
from policies.training import evaluate, plants
from policies.training.config import RunConfig, WorkersConfig
from policies.training.rollout import hosts, tamper
from policies.training.rollout.actor import Actor
from policies.training.rollout.hosts import HostSpec
from policies.training.rollout.pools import open_pool
from policies.training.schema import read
from policies.training.statistics import mcnemar_p
from steadyhand.errors import ConfigError

CHECKPOINTS = Path(evaluate.__file__).with_name("checkpoints")
# arm: run, file of its folder
ARMS = {
    "bc50": ("grasp_joint", "cloned_50.npz"), "ppo": ("grasp_joint", "best.npz"),
    "cartesian_bc50": ("grasp_cartesian", "cloned_50.npz"), "cartesian_ppo": ("grasp_cartesian", "best.npz"),
    "ppo_passes4": ("grasp_joint_passes4", "best.npz"),
    **{f"bc{n}_curve": ("grasp_joint_curve", f"cloned_{n}.npz") for n in (10, 25, 50, 100, 200)},
}
PLANT_ARMS = {
    "dr_pseudo_real": ("grasp_joint_random", "best.npz"), "nominal_pseudo_real": ("grasp_joint", "best.npz"),
    "cartesian_pseudo_real": ("grasp_cartesian", "best.npz"),
}
TAMPERED = "ppo"
PAIRS = (("bc50", "ppo"), ("ppo", "ppo_passes4"), ("ppo", "cartesian_ppo"))
PLANT_SEED = 950_000_000
# What neither the fit of the motor model nor the training knows: play in the gears, a load that makes the joints sag
STRUCTURE = {"backlash_rad": (0.0005, 0.003), "payload_kg": (0.2, 1.0)}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--trials", type=int, default=500, help="scenes, each tried by every arm of every seed")
    parser.add_argument("--plants", type=int, default=25)
    parser.add_argument("--episodes-per-plant", type=int, default=20)
    parser.add_argument("--tampered", type=int, default=100, help="scenes with tampered observations")
    parser.add_argument("--arms", nargs="+", default=[*ARMS, *PLANT_ARMS], metavar="ARM", help="only these")
    parser.add_argument("--checkpoints", type=Path, default=CHECKPOINTS)
    parser.add_argument("--workers", type=int, default=2, help="processes; the result does not depend on it")
    parser.add_argument("--fresh", action="store_true", help="throw away what is kept")


def actors_of(folder: Path, arms: list[str]) -> dict[tuple[str, int], tuple[Path, Actor]]:
    """(arm, training seed) -> the folder of its run, the actor. ConfigError when an arm has none."""
    known, found = ARMS | PLANT_ARMS, {}
    for arm in arms:
        if arm not in known:
            raise ConfigError(f"--arms {arm}: known are {', '.join(known)}")
        run, name = known[arm]
        for path in sorted((folder / run).glob(f"seed*/{name}")):
            found[arm, int(re.sub(r"\D", "", path.parent.name))] = (path.parent, Actor.load(path))
        if not any(a == arm for a, _ in found):
            raise ConfigError(f"{folder / run}: no seed*/{name}; train it (policies.training.campaign), or leave out "
                              f"--arms {arm}")
    return found


def frozen_hash(actors: dict[tuple[str, int], tuple[Path, Actor]]) -> str:
    """Hash of all weights: whoever changes one gets other plants."""
    return hashlib.sha256("".join(sorted({a.sha256() for _, a in actors.values()})).encode()).hexdigest()


def spec_of(folder: Path) -> tuple[HostSpec, RunConfig]:
    """Environment of a run, the identified plant unless a trial says otherwise."""
    config = read(RunConfig, folder / "config.yaml")
    return HostSpec(config.environment.id, config.environment.keywords(), config.seed), config


def pseudo_real_plants(frozen: str, actors: dict, n: int) -> list:
    """The plants of the test: around the range that the randomised run was trained on."""
    folders = [folder for (arm, _), (folder, _) in sorted(actors.items()) if arm == "dr_pseudo_real"]
    if not folders:
        return []
    return plants.pseudo_real(frozen, n, spec_of(folders[0])[1].randomisation, STRUCTURE)


def trial_line(arm: str, folder: Path, actor: Actor, args: argparse.Namespace, drawn: list) -> dict:
    """Everything measured of one arm and training seed."""
    spec, config = spec_of(folder)
    with open_pool(spec, args.workers, WorkersConfig("processes", args.workers)) as pool:
        if arm in PLANT_ARMS:
            if not drawn:
                raise ConfigError("--arms: pseudo-real ones need dr_pseudo_real: the plants lie around its range")
            return evaluate.on_plants(actor, drawn, args.episodes_per_plant, PLANT_SEED, pool, arm)
        scenes = evaluate.first(config.evaluation, args.trials)
        line = evaluate.scenes(actor, scenes, pool, arm)
        if arm == TAMPERED:
            line["tampered"] = evaluate.tampered(actor, evaluate.first(config.evaluation, args.tampered), pool)
        return line


def worst(lines: list[dict], key: str = "success") -> float:
    """The lowest over the training seeds."""
    return round(min(line[key] for line in lines), 4)


def summary(kept: dict[tuple[str, int], dict], trials: int) -> dict:
    """The metrics: worst training seed of each arm, then everything by seed."""
    by_arm: dict[str, list[dict]] = {}
    for (arm, _), line in sorted(kept.items()):
        by_arm.setdefault(arm, []).append(line)
    metrics = {"trials": trials, "seeds": min(map(len, by_arm.values()))}
    for arm, lines in by_arm.items():
        metrics[arm] = worst(lines)
        metrics[f"{arm}_low"] = worst(lines, "low")
    curve = {int(m[1]): metrics[arm] for arm in by_arm if (m := re.fullmatch(r"bc(\d+)_curve", arm))}
    if curve:
        metrics["learning_curve"] = {str(n): curve[n] for n in sorted(curve)}
    metrics["paired"] = {f"{a}, {b}": paired(kept, a, b) for a, b in PAIRS if a in by_arm and b in by_arm}
    metrics["tampered"] = {str(seed): line["tampered"] for (arm, seed), line in kept.items() if "tampered" in line}
    metrics["by_seed"] = {
        arm: [{k: v for k, v in line.items() if k not in ("won", "tampered")} for line in lines]
        for arm, lines in by_arm.items()
    }
    return metrics


def paired(kept: dict[tuple[str, int], dict], a: str, b: str) -> list[dict]:
    """Scenes that only one of two arms mastered, by training seed; p of the first being no worse than the second."""
    found = []
    for seed in sorted({s for arm, s in kept if arm == a} & {s for arm, s in kept if arm == b}):
        one, other = (np.array(kept[arm, seed]["won"], bool) for arm in (a, b))
        found.append({"seed": seed, "first_only": int((one & ~other).sum()), "second_only": int((other & ~one).sum()),
                      "p_second_no_better": round(mcnemar_p(other, one), 6)})
    return found


def run(args: argparse.Namespace) -> Path:
    from benchmarks import policy_success as itself

    actors = actors_of(args.checkpoints, args.arms)
    frozen = frozen_hash(actors)
    drawn = pseudo_real_plants(frozen, actors, args.plants)
    store = _kept.Kept("policy_success", _kept.identity(itself, hosts, tamper, plants, evaluate), args.fresh)
    size = [args.trials, args.plants, args.episodes_per_plant, args.tampered]
    kept: dict[tuple[str, int], dict] = {}
    for key, (folder, actor) in actors.items():
        arm, seed = key
        mark = {"arm": arm, "seed": seed, "actor": actor.sha256(), "size": size,
                "frozen": frozen if arm in PLANT_ARMS else ""}
        done = [line for line in store.lines if line["mark"] == mark]
        if not done:
            store.add({"mark": mark, **trial_line(arm, folder, actor, args, drawn)})
            done = store.lines[-1:]
        kept[key] = {k: v for k, v in done[-1].items() if k != "mark"}
        print(f"{arm} seed {seed}: {kept[key]['success']:.3f} (low {kept[key]['low']:.3f})", flush=True)
    metrics = summary(kept, args.trials) | {
        "frozen_sha256": frozen, "plants": [plants.described(p) for p in drawn],
        "complete": set(args.arms) == set(ARMS | PLANT_ARMS),
    }
    n = sum(line["n"] for line in kept.values())
    return common.write("policy_success", n, "no timing is measured", "SCHED_OTHER", metrics)
