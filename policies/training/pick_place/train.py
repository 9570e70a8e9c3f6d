"""Train, export and evaluate the manipulation policy: one command, one YAML file.

    python -m policies.training.pick_place.train --config policies/training/pick_place/config.yaml

Writes `<out>/training/pick_place/` (demonstrations, learning curve, checkpoint, evaluation) and the model repository.
"""
from __future__ import annotations

import argparse
import hashlib
import json
import logging
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import yaml

from steadyhand import policy_io
from steadyhand.errors import ConfigError
from steadyhand.slot import current_slot
from steadyhand_policies import contract as contracts
from steadyhand_policies.repository import DEFAULT_REPOSITORY
from policies.training import export
from policies.training.curves import Curve, plot
from policies.training.pick_place import command_space, fit
from policies.training.pick_place.contract import make_contract
from policies.training.pick_place.expert import expert_actions
from policies.training.pick_place.network import PolicyNetwork
from policies.training.pick_place.rollout import Actor, Episode, run_episodes, summary

LOG = logging.getLogger("train")
# Each is a whole evaluation of its own; latencies beyond the range that training saw.
DISTURBANCES = {
    "latency_1_to_2_periods": {"latency_min_s": 0.05, "latency_max_s": 0.10},
    "target_error_5_mm": {"target_bias_m": 0.005, "target_noise_m": 0.003},
    "yaw_error_5_degrees": {"yaw_bias_rad": 0.087},
}


def seeds(part: dict, name: str = "episodes", offset: int = 0) -> list[int]:
    """Seeds of one part of the configuration."""
    return list(range(part["first_seed"] + offset, part["first_seed"] + offset + part[name]))


def observations_of(episodes: list[Episode]) -> np.ndarray:
    """All visited observations (N, D) float32."""
    return np.concatenate([e.observations for e in episodes]).astype(np.float32)


def save_chunks(episodes: list[Episode], path: Path) -> None:
    """Every chunk as the guard would get it: `q_rad` (n, H, 6) answers the state beside it. Refused ones included."""
    arrays = {k: np.concatenate([e.chunks[k] for e in episodes]) for k in episodes[0].chunks}
    arrays["episode"] = np.concatenate([np.full(len(e.chunks["stamp_s"]), e.seed) for e in episodes])
    arrays["observation"] = observations_of(episodes)
    np.savez_compressed(path, period_s=policy_io.PERIOD_S, **arrays)


def train(config: dict, folder: Path) -> tuple[PolicyNetwork, int, int]:
    """Demonstrations, cloning, DAgger. Returns network, episodes demonstrated, observations visited."""
    workers, demo, dagger, settings = config["workers"], config["demonstrations"], config["dagger"], config["optimiser"]
    wide, seed = config["command_space"], config["seed"]
    rng = np.random.default_rng(seed)
    curve = Curve(folder / "learning_curve.csv")
    shown = run_episodes(Actor(None, demo["noise"], demo["noise_hold"]), seeds(demo), workers=workers)
    LOG.info("demonstrations: %s", summary(shown))
    save_chunks(shown, folder / "demonstrations.npz")
    kept = [e for e in shown if e.success]
    if not kept:
        raise ConfigError(f"demonstrations: none of {len(shown)} succeeded with noise={demo['noise']}; lower it")
    validation = observations_of(run_episodes(Actor(), seeds(config["validation"]), workers=workers))
    real = observations_of(kept)
    mean, std = fit.statistics(real)
    visited = np.concatenate([
        real, fit.jittered(real, settings, rng),
        command_space.run(expert_actions, wide["episodes"], wide["noise"], wide["first_seed"]).observations,
    ])
    torch.manual_seed(seed)
    network = PolicyNetwork(tuple(config["network"]["hidden"]), mean, std)

    def act(observations: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return network(torch.as_tensor(observations)).numpy()

    for part in range(dagger["rounds"] + 1):
        last = part == dagger["rounds"]
        epochs = settings["final_epochs"] if last else settings["epochs"]
        name = "cloning" if part == 0 else f"dagger {part}"
        fit.fit(network, visited, validation, settings, epochs, seed + part, lambda row: curve.add(part=name, **row))
        torch.save(network.state_dict(), folder / "checkpoint.pt")
        export.export_onnx(network, folder / f"round{part}.onnx", policy_io.OBSERVATION_DIM)
        LOG.info("%s: %s", name, curve.rows[-1])
        if not last:
            actor = Actor(folder / f"round{part}.onnx", dagger["noise"], demo["noise_hold"])
            driven = run_episodes(actor, seeds(dagger, offset=1000 * part), workers=workers)
            LOG.info("%s drives: %s", name, summary(driven))
            learner = command_space.run(
                act, wide["dagger_episodes"], wide["dagger_noise"], wide["first_seed"] + 1 + part
            )
            LOG.info("%s drives in command space: %.3f done", name, learner.done.mean())
            real = observations_of(driven)
            visited = np.concatenate([visited, real, fit.jittered(real, settings, rng), learner.observations])
    parts = {i: r["part"] for i, r in enumerate(curve.rows) if r["epoch"] == 0}
    losses = {"Huber loss": ("train_loss", "validation_loss")}
    plot(curve, folder / "learning_curve.png", "", losses, config["model"], parts, log=True)
    return network, len(kept), len(visited)


def evaluate(config: dict, model: Path, path: Path) -> dict:
    """The exported model on held-out seeds: nominal, then disturbed. Writes the results as they come."""
    part, results = config["evaluation"], {}
    for name, changes in {"nominal": {}, **DISTURBANCES}.items():
        some = seeds(part, "episodes" if name == "nominal" else "disturbed_episodes")
        results[name] = summary(run_episodes(Actor(model), some, changes, config["workers"]))
        path.write_text(json.dumps(results, indent=1) + "\n")
        LOG.info("evaluation, %s: %s", name, results[name])
    return results


def main(argv: list[str] | None = None) -> int:
    """Entry point."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    parser = argparse.ArgumentParser(prog="policies.training.pick_place.train", description=__doc__.splitlines()[0])
    parser.add_argument("--config", type=Path, default=Path(__file__).with_name("config.yaml"))
    parser.add_argument("--repository", type=Path, default=DEFAULT_REPOSITORY)
    parser.add_argument("--out", type=Path, default=None, help="folder of intermediate results")
    parser.add_argument("--evaluate-only", action="store_true", help="evaluate the model in the repository again")
    options = parser.parse_args(argv)
    text = options.config.read_text()
    config, config_sha256 = yaml.safe_load(text), hashlib.sha256(text.encode()).hexdigest()
    folder = options.out or current_slot().out_dir / "training" / config["model"]
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    made_at = export.commit()

    version = options.repository / config["model"] / "1"
    if not options.evaluate_only:
        network, demonstrations, visited = train(config, folder)
        export.export_onnx(network, version / "model.onnx", policy_io.OBSERVATION_DIM)
        with np.load(folder / "demonstrations.npz") as file:
            canary = file["observation"][10]
        contract = make_contract(
            network, version / "model.onnx",
            contracts.Training(made_at, config["seed"], config_sha256, demonstrations, visited),
            contracts.Score("not evaluated yet", 0, 0, 0.0, 1.0),
            canary, config["model"],
        )
        (version / "contract.json").write_text(contracts.dump(contract))  # usable while the evaluation runs
        if not (version.parent / "config.pbtxt").exists():
            shutil.copy(DEFAULT_REPOSITORY / config["model"] / "config.pbtxt", version.parent)
    contract = contracts.load(version / "contract.json")
    contracts.check_model_file(contract, version / "model.onnx")
    results = evaluate(config, version / "model.onnx", folder / "evaluation.json")
    whole = results["nominal"]["pick_and_place"]
    score = contracts.Score("pick and place in Steadyhand/UR5PickPlace-v0, held-out seeds", whole["n"],
                            whole["successes"], *whole["wilson"])
    (version / "contract.json").write_text(contracts.dump(replace(contract, score=score)))
    LOG.info("wrote %s: %s", version, score)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
