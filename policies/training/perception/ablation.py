"""Train and export the ablation's arms in turn: `python -m policies.training.perception.ablation [ARM ...]`.

Each arm is a run of `train` with a configuration of its own and its checkpoint in `<out>/ablation`; an arm that is
exported is done. Interrupted anywhere, the same command continues.
"""
from __future__ import annotations

import copy
import sys
import tomllib
from pathlib import Path

import torch

from policies.training.perception import train
from policies.training.perception.dataset import HERE, arguments_of, load_config, load_set
from policies.training.perception.export import export
from policies.training.perception.teacher import write_features
from steadyhand.errors import ConfigError
from steadyhand_perception.tray_poses import CONTRACT_FILE


def arms_of(config: dict, path: Path) -> dict[str, dict]:
    """The configuration of every arm by name: the common changes, then its own. Raises ConfigError for unknown keys."""
    content, arms = tomllib.loads(path.read_text()), {}
    for name, own in content["arms"].items():
        arm = copy.deepcopy(config)
        for changes in (content["all"], own):
            for section, values in changes.items():
                known = {*arm.get(section, ()), "teacher"}
                if section not in ("network", "training") or not set(values) <= known:
                    raise ConfigError(f"{path}: arm {name}: {section}={values}: not of the configuration")
                arm[section] |= values
        arms[name] = arm
    return arms


def run_arm(name: str, config: dict, arms: dict[str, dict], folder: Path, stop: train.Stop) -> bool:
    """Train and export an arm, its teacher before; whether it is done."""
    if (folder / name / CONTRACT_FILE).exists():
        return True
    teacher = config["training"].get("teacher")
    if teacher and not (folder / f"{teacher}_features.npy").exists():
        if not run_arm(teacher, arms[teacher], arms, folder, stop):
            return False
        network = train.TrayPosesNetwork(**arms[teacher]["network"])
        network.load_state_dict(train.load_checkpoint(folder / f"{teacher}.pt", arms[teacher])["mean"])
        count = config["training"]["images"]
        images = load_set(config, config["training"]["set"], count)
        torch.set_num_threads(1)
        if not write_features(network, images, count, folder / f"{teacher}_features.npy", stop):
            return False
    training, check = train.start(config, folder / f"{name}.pt")
    if not train.run(training, check, stop):
        return False
    export(config, folder / f"{name}.pt", folder / name)
    return True


def main() -> int:
    parser = arguments_of(__doc__.splitlines()[0])
    parser.add_argument("arms", nargs="*", help="names; all by default")
    parser.add_argument("--arms-file", type=Path, default=HERE / "ablation.toml")
    parser.add_argument("--minutes", type=float, help="stop after so long; the same command continues")
    arguments = parser.parse_args()
    config = load_config(arguments.config, arguments.out)
    arms = arms_of(config, arguments.arms_file)
    folder = Path(config["out"]) / "ablation"
    folder.mkdir(parents=True, exist_ok=True)
    if unknown := set(arguments.arms) - set(arms):
        raise ConfigError(f"arms {sorted(unknown)}: {arguments.arms_file} has {sorted(arms)}")
    stop = train.Stop(arguments.minutes)
    done = [run_arm(name, arms[name], arms, folder, stop) for name in arguments.arms or arms if not stop]
    return 0 if len(done) == len(arguments.arms or arms) and all(done) else 3  # 3: not finished


if __name__ == "__main__":
    sys.exit(main())
