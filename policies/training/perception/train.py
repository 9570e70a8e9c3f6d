"""Train the perception model: `python -m policies.training.perception.train` (after dataset.py; then export.py).

One thread, bfloat16 where the processor has it. Every step's random numbers follow from the seed and the step's number,
so a run that was interrupted and continued gives the same weights as one that was not. A checkpoint every few minutes
and on SIGTERM or SIGINT; the same command continues. Writes `<name>.pt`, the learning curve `<name>_curve.json` and
progress lines, one JSON object each.
"""
from __future__ import annotations

import copy
import json
import math
import signal
import sys
import time
from pathlib import Path

import numpy as np
import torch

from policies.training.perception.augment import BLANK_SHARE, augment, blank
from policies.training.perception.dataset import NOT_ASKED, arguments_of, camera_of, load_config, load_set
from policies.training.perception.losses import total_loss
from policies.training.perception.metrics import inspection, match, summary
from policies.training.perception.network import STRIDE_PX, Outputs, TrayPosesNetwork
from policies.training.perception.scenes import STANDING_Z_M
from policies.training.perception.store import ImageSet
from policies.training.perception.targets import TargetMaker
from policies.training.perception.teacher import Distillation
from steadyhand.errors import ConfigError
from steadyhand_perception.maps import DecodeConfig, Grid, decode

GRADIENT_NORM_MAX = 5.0
SAVE_EVERY_S, TELL_EVERY_STEPS = 180.0, 50
SEED_STRIDE = 1_000_003
RUN_OF = ("seed", "labels", "network", "training")  # what a checkpoint must have in common with the configuration


def make_grid() -> Grid:
    """The grid of the simulator's camera."""
    from steadyhand_sim.camera import CameraConfig

    return Grid(camera_of(CameraConfig()), STRIDE_PX, STANDING_Z_M)


def predict(network: TrayPosesNetwork, images: np.ndarray, batch: int = 25) -> Outputs:
    """Outputs of images (N, H, W, 3), float32 arrays."""
    network.eval()
    with torch.no_grad():
        parts = [network(torch.from_numpy(images[k : k + batch])) for k in range(0, len(images), batch)]
    return Outputs(*(torch.cat(part).numpy() for part in zip(*parts)))


def learning_rate(step: int, steps: int, config: dict) -> float:
    """Linear warm-up, then half a cosine down to 1 %."""
    warm_up = max(1, int(config["warm_up_share"] * steps))
    if step < warm_up:
        return config["learning_rate"] * (step + 1) / warm_up
    cosine = 0.5 * (1 + math.cos(math.pi * (step - warm_up) / (steps - warm_up)))
    return config["learning_rate"] * (0.01 + 0.99 * cosine)


def update_mean(mean: TrayPosesNetwork, network: TrayPosesNetwork, decay: float) -> None:
    """Move the running mean of weights (and batch statistics) towards the network's."""
    with torch.no_grad():
        for m, n in zip(mean.state_dict().values(), network.state_dict().values()):
            if m.dtype.is_floating_point:
                m.lerp_(n, 1 - decay)
            else:
                m.copy_(n)


def load_checkpoint(path: Path, config: dict) -> dict:
    """The content of a checkpoint. Raises ConfigError when another configuration made it: its run is not this one's."""
    if not path.exists():
        raise ConfigError(f"{path}: not there; run policies.training.perception.train first")
    state = torch.load(path, weights_only=True)
    made_by = state.get("config", {})
    for name in RUN_OF:
        if made_by.get(name) != config[name]:
            raise ConfigError(
                f"{path}: made with {name}={made_by.get(name)}, configured is {config[name]}; remove it to train anew"
            )
    return state


def score(network: TrayPosesNetwork, grid: Grid, check: ImageSet, count: int, decoding: DecodeConfig) -> dict:
    """Figures on the first images of a set."""
    count = min(count, len(check))
    results, grasp = [], []
    for first in range(0, count, 100):
        numbers = range(first, min(first + 100, count))
        seen = predict(network, np.stack([check.sensed(k) for k in numbers]))
        for i, k in enumerate(numbers):
            peaks = decode(grid, seen.maps[i], decoding, seen.scratch[i, 0])
            results.append(match(peaks, *(check.labels[name][k] for name in ("cubes", "label", "scratch"))))
        grasp.append(seen.grasp[:, 0])
    asked = check.labels["grasp"][:count]
    wrong = (np.concatenate(grasp) > 0) != (asked == 1)
    return {
        **summary(results), "inspection": inspection(results), "grasp_asked": int((asked != NOT_ASKED).sum()),
        "grasp_wrong": int(wrong[asked != NOT_ASKED].sum()),
    }


class Training:
    """The state of one run: network, its running mean, optimizer, step and curve. All of it is in the checkpoint."""

    def __init__(self, config: dict, checkpoint: Path, images: ImageSet, grid: Grid, distillation=None) -> None:
        self.whole_config, self.config, self.checkpoint = config, config["training"], checkpoint
        self.images, self.grid, self.targets = images, grid, TargetMaker(grid)
        self.distillation = distillation
        self.seed, self.step, self.curve = config["seed"], 0, []
        self.count = self.config["images"]
        if not self.config["batch"] <= self.count <= len(images):
            raise ConfigError(
                f"training.images={self.count}: give at least batch={self.config['batch']} and at most the "
                f"{len(images)} of set {self.config['set']!r}"
            )
        torch.manual_seed(self.seed)
        self.network = TrayPosesNetwork(**config["network"]).to(memory_format=torch.channels_last)
        self.mean = copy.deepcopy(self.network)
        trained = [*self.network.parameters(), *(distillation.parameters() if distillation else ())]
        decay = self.config["weight_decay"]
        self.optimizer = torch.optim.AdamW([  # biases and norms do not decay
            {"params": [p for p in trained if p.ndim > 1], "weight_decay": decay},
            {"params": [p for p in trained if p.ndim <= 1], "weight_decay": 0.0},
        ])
        self.bfloat16 = torch.backends.mkldnn.is_available() and torch.cpu._is_avx512_bf16_supported()
        if checkpoint.exists():
            self._resume()

    @property
    def steps_per_epoch(self) -> int:
        return self.count // self.config["batch"]

    @property
    def steps(self) -> int:
        """Of the whole run."""
        return self.steps_per_epoch * self.config["epochs"]

    @property
    def curve_path(self) -> Path:
        return self.checkpoint.with_name(f"{self.checkpoint.stem}_curve.json")

    def _parts(self) -> dict:
        parts = {"network": self.network, "mean": self.mean, "optimizer": self.optimizer}
        return parts | ({"distillation": self.distillation} if self.distillation else {})

    def _resume(self) -> None:
        state = load_checkpoint(self.checkpoint, self.whole_config)
        for name, part in self._parts().items():
            part.load_state_dict(state[name])
        self.step, self.curve = state["step"], json.loads(state["curve"])

    def save(self) -> None:
        """Checkpoint and curve; the checkpoint whole or not at all."""
        state = {name: part.state_dict() for name, part in self._parts().items()}
        partial = self.checkpoint.with_suffix(".partial")
        config = {name: self.whole_config[name] for name in RUN_OF}
        torch.save({"step": self.step, "curve": json.dumps(self.curve), "config": config, **state}, partial)
        partial.rename(self.checkpoint)
        self.curve_path.write_text(json.dumps(self.curve, indent=1) + "\n")

    def one_step(self) -> dict[str, float]:
        """One batch; the parts of its loss. Raises ConfigError when the loss is not finite."""
        batch, (epoch, k) = self.config["batch"], divmod(self.step, self.steps_per_epoch)
        order = np.random.default_rng([self.seed, 99, epoch]).permutation(self.count)
        chosen = np.sort(order[k * batch : (k + 1) * batch])
        torch.manual_seed(self.seed * SEED_STRIDE + self.step)
        self.network.train()
        sensor = torch.from_numpy(self.images.labels["sensor"][chosen])
        x = augment(torch.from_numpy(self.images.images(chosen)), sensor, self.config["photometric"])
        nothing = torch.rand(batch) < BLANK_SHARE
        for i in torch.nonzero(nothing).flatten().tolist():
            x[i] = blank(x[i])
        asked = self.targets.batch(self.images.labels, chosen, nothing.numpy())
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.step, self.steps, self.config)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.bfloat16):
            outputs = self.network.from_float(x.contiguous(memory_format=torch.channels_last))
        outputs = Outputs(*(part.float() for part in outputs))
        loss, parts = total_loss(outputs, asked)
        if self.distillation:
            extra = self.distillation.loss(outputs.features, chosen, ~nothing)
            loss, parts = loss + extra, parts | {"distillation": float(extra.detach())}
        if not math.isfinite(float(loss.detach())):
            rate = self.config["learning_rate"]
            raise ConfigError(f"training.learning_rate={rate} gives losses {parts} in step {self.step}; lower it")
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), GRADIENT_NORM_MAX)
        self.optimizer.step()
        update_mean(self.mean, self.network, min(self.config["ema"], (self.step + 1) / (self.step + 10)))
        self.step += 1
        return parts

    def validate(self, check: ImageSet, count: int) -> dict:
        """Figures with the threshold not yet calibrated; they go to the curve."""
        figures = score(self.mean, self.grid, check, count, DecodeConfig(presence_min=0.3))
        self.curve.append({"step": self.step, "of": self.steps, "validation": figures})
        return figures


class Stop:
    """Asked to stop: by a signal, or by the time that was given."""

    def __init__(self, minutes: float | None) -> None:
        self._deadline = math.inf if minutes is None else time.monotonic() + 60 * minutes
        self._asked = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._ask)

    def _ask(self, *_) -> None:
        self._asked = True

    def __bool__(self) -> bool:
        return self._asked or time.monotonic() > self._deadline


def run(training: Training, check: ImageSet, stop: Stop | None = None) -> bool:
    """Train to the end or until asked to stop; whether it is finished. Saved either way."""
    every = training.config["validate_steps"]
    saved, sums, cpu = time.monotonic(), {}, time.process_time()
    while training.step < training.steps and not stop:
        for name, value in training.one_step().items():
            sums[name] = sums.get(name, 0.0) + value / TELL_EVERY_STEPS
        last = training.step == training.steps
        if training.step % TELL_EVERY_STEPS == 0:
            spent, cpu = time.process_time() - cpu, time.process_time()
            per_image = spent / (TELL_EVERY_STEPS * training.config["batch"])
            left = per_image * training.config["batch"] * (training.steps - training.step)
            _tell(training, loss={k: round(v, 4) for k, v in sums.items()}, cpu_ms_per_image=round(1e3 * per_image, 1),
                  cpu_hours_left=round(left / 3600, 2))
            sums = {}
        if training.step % every == 0 or last:
            count = len(check) if last else training.config["validate_images"]
            _tell(training, validation=training.validate(check, count))
            cpu = time.process_time()
        if time.monotonic() - saved > SAVE_EVERY_S or last:
            training.save()
            saved = time.monotonic()
    training.save()
    return training.step == training.steps


def _tell(training: Training, **what) -> None:
    at = {"run": training.checkpoint.stem, "step": training.step, "of": training.steps}
    print(json.dumps(at | what), flush=True)


def start(config: dict, checkpoint: Path) -> tuple[Training, ImageSet]:
    """A run, new or continued, and its validation images."""
    torch.set_num_threads(1)
    images, grid = load_set(config, config["training"]["set"], config["training"]["images"]), make_grid()
    teacher = config["training"].get("teacher")
    distillation = None
    if teacher:
        torch.manual_seed(config["seed"])  # where the linear map begins
        features = checkpoint.with_name(f"{teacher}_features.npy")
        distillation = Distillation(features, TrayPosesNetwork(**config["network"]).feature_count)
    return Training(config, checkpoint, images, grid, distillation), load_set(config, "validation")


def main() -> int:
    parser = arguments_of(__doc__.splitlines()[0])
    parser.add_argument("--name", default="tray_poses", help="name of the checkpoint and of the curve")
    parser.add_argument("--minutes", type=float, help="stop after so long; the same command continues")
    arguments = parser.parse_args()
    config = load_config(arguments.config, arguments.out)
    stop = Stop(arguments.minutes)
    training, check = start(config, Path(config["out"]) / f"{arguments.name}.pt")
    return 0 if run(training, check, stop) else 3  # 3: not finished


if __name__ == "__main__":
    sys.exit(main())
