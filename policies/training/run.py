"""One run from its YAML file: demonstrations, cloning, fine-tuning, evaluation. Killed at any moment, it goes on.

    python -m policies.training.run policies/training/configs/grasp_joint.yaml [--seed 2] [--out FOLDER]

`<out>/training/<name>/seed<k>/` gets `config.yaml`, `demonstrations/`, `cloned_<n>.npz` and `cloning_<n>.csv` (n
demonstrations), `samples/`, `state.pt`, `best.npz`, `ppo.csv`, `ppo.png`, `result.json`. `--keep` copies what a figure
needs (actors, curves, result) to `policies/training/checkpoints/`.
"""
from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import signal
import sys
from dataclasses import asdict, replace
from pathlib import Path

import torch

from policies.training import evaluate
from policies.training.actor_contract import export_actor, formulation_of
from policies.training.bc import Pairs, blind_elements, clone
from policies.training.config import RunConfig, identity, shrunk
from policies.training.curves import Curve, plot
from policies.training.demonstrate import gather
from policies.training.export import commit
from policies.training.network import initial_actor
from policies.training.ppo.loop import FineTuning
from policies.training.rollout.actor import Actor
from policies.training.rollout.fragment import schema
from policies.training.rollout.hosts import Described, HostSpec
from policies.training.rollout.pools import Pool, open_pool
from policies.training.schema import read
from policies.training.store.files import write_whole
from policies.training.store.samples import SampleStore
from steadyhand.errors import ConfigError, SteadyhandError
from steadyhand.slot import current_slot
from steadyhand_policies import contract as contracts

LOG = logging.getLogger("run")
KEPT = Path(__file__).with_name("checkpoints")
KEPT_FILES = ("*.npz", "*.csv", "*.png", "result.json", "config.yaml")


class Stop:
    """True from the first SIGTERM or SIGINT on: the update under way is finished and saved."""

    def __init__(self) -> None:
        self._asked = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._ask)

    def _ask(self, number, frame) -> None:
        if self._asked:
            raise KeyboardInterrupt
        self._asked = True

    def __call__(self) -> bool:
        return self._asked


def open_run_pool(config: RunConfig) -> Pool:
    """The workers of a run."""
    spec = HostSpec(config.environment.id, config.environment.keywords(), config.seed, config.randomisation)
    environments = config.ppo.environments if config.ppo else config.workers.count
    return open_pool(spec, environments, config.workers)


def cloned_actors(config: RunConfig, pool: Pool, folder: Path, made_by: dict) -> Actor:
    """The actor cloned from `demonstrations.episodes`; those of the learning curve beside it."""
    counts = sorted({config.demonstrations.episodes, *config.cloning.curve})
    files = {n: folder / f"cloned_{n}.npz" for n in counts}
    if not all(path.exists() for path in files.values()):
        pairs = gather(config, pool, folder / "demonstrations", counts[-1])
        about = pool.describe()
        for n, path in files.items():
            if not path.exists():
                clone_from(config, pairs.first(n), about, folder / f"cloning_{n}.csv").described(
                    demonstrations=n, **made_by
                ).save(path)
    return Actor.load(files[config.demonstrations.episodes])


def clone_from(config: RunConfig, pairs: Pairs, about, path: Path) -> Actor:
    """Clone, and leave the curve of its losses."""
    mean, std = pairs.statistics()
    untrained = initial_actor(mean, std, config.network.clip, config.network.hidden, config.exploration.std_start,
                              about.low, about.high, config.seed)
    rows: list[dict] = []
    blind = blind_elements(about.observation_names, config.cloning.blind)
    actor = clone(untrained, pairs, config.cloning, config.seed, rows.append, blind)
    curve = Curve(path)
    curve.extend(rows)
    plot(curve, path.with_suffix(".png"), "epoch", {"error": ("train_loss", "validation_loss")}, config.name)
    return actor


def run(config: RunConfig, folder: Path, stop=lambda: False) -> dict | None:
    """Everything that is not done yet. The result, or None when `stop` came first."""
    torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    marker, mark = folder / "identity", identity(config)
    if marker.exists() and marker.read_text() != mark:
        raise ConfigError(f"{folder}: holds a run of another configuration; give another --out, or remove it")
    write_whole(marker, [mark.encode()])
    if (folder / "result.json").exists():
        return json.loads((folder / "result.json").read_text())
    made_by = {"run": config.name, "seed": config.seed, "commit": commit(), "config_sha256": mark,
               "environment": config.environment.id, **config.environment.keywords()}
    with open_run_pool(config) as pool:
        about = pool.describe()
        actors = {"cloned": cloned_actors(config, pool, folder, made_by)}
        if config.ppo is not None:
            with SampleStore(folder / "samples", schema(about.observation_dim, len(about.low))) as samples:
                tuning = FineTuning(config, actors["cloned"], pool, samples, folder)
                actors["tuned"] = tuning.run(stop)
            if not tuning.state.outcome:
                return None
        result = {"name": config.name, "seed": config.seed, "identity": mark, "commit": commit()}
        if config.ppo is not None:
            s = tuning.state
            result["ppo"] = {"outcome": s.outcome, "updates": s.updates, "best_update": s.best_update,
                             "rollbacks": s.rollbacks, "worker_restarts": pool.restarts}
        for name, actor in actors.items():
            result[name] = evaluate.held_out(actor, config.evaluation, pool, name)
            LOG.info("%s on held-out scenes: %s", name, result[name]["deterministic"])
        if formulation := formulation_of(config.environment.formulation, about):
            export(actor, about, formulation, config, result, folder / "model")
        write_whole(folder / "result.json", [json.dumps(result, indent=1).encode() + b"\n"])
    return result


def export(
    actor: Actor, about: Described, formulation: str, config: RunConfig, result: dict, folder: Path
) -> None:
    """The last actor as a policy that is served, with the contract of its formulation and its score."""
    kind = "tuned" if config.ppo else "cloned"
    score, samples = result[kind]["deterministic"], 0
    if config.ppo:
        samples = result["ppo"]["best_update"] * config.ppo.environments * config.ppo.fragment_steps
    export_actor(
        actor, about, formulation,
        contracts.Training(result["commit"], config.seed, result["identity"], config.demonstrations.episodes, samples),
        contracts.Score(f"{config.environment.id}, held-out scenes", score["n"], score["successes"], score["low"],
                        score["high"]),
        folder, config.name,
    )


def keep(folder: Path, config: RunConfig) -> Path:
    """Copy what re-evaluates the figures to the folder of committed checkpoints."""
    to = KEPT / config.name / f"seed{config.seed}"
    to.mkdir(parents=True, exist_ok=True)
    for pattern in KEPT_FILES:
        for path in folder.glob(pattern):
            shutil.copy(path, to)
    return to


def folder_of(config: RunConfig, out: Path | None = None, smoke: bool = False) -> Path:
    """Where a run leaves what it makes."""
    out = out or current_slot().out_dir / "training"
    return (out / "smoke" if smoke else out) / config.name / f"seed{config.seed}"


def main(argv: list[str] | None = None) -> int:
    """0 when the run is done, 3 when it was told to stop before that, 2 for a wrong configuration."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    parser = argparse.ArgumentParser(prog="policies.training.run", description=__doc__.splitlines()[0])
    parser.add_argument("config", type=Path)
    parser.add_argument("--seed", type=int, help="instead of the file's")
    parser.add_argument("--out", type=Path, help="folder of runs")
    parser.add_argument("--keep", action="store_true", help="copy actors, curves, result to the committed checkpoints")
    parser.add_argument("--smoke", action="store_true", help="a few steps of everything, to <out>/smoke")
    parser.add_argument("--check", action="store_true", help="read the configuration and say what it amounts to")
    options = parser.parse_args(argv)
    try:
        config = read(RunConfig, options.config)
        config = config if options.seed is None else replace(config, seed=options.seed)
        if options.check:
            print(json.dumps(asdict(config), indent=1))
            return 0
        if options.smoke:
            config = shrunk(config)
        folder = folder_of(config, options.out, options.smoke)
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(options.config, folder / "config.yaml")
        if run(config, folder, Stop()) is None:
            return 3
    except SteadyhandError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 2
    if options.keep and not options.smoke:
        print(keep(folder, config))
    return 0


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
