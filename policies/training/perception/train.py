"""Train the perception model: `python -m policies.training.perception.train` (after dataset.py; then export.py).

One thread, bfloat16 where the processor has it; deterministic from the configured seed. A checkpoint after each epoch:
an interrupted run continues. Writes `checkpoint.pt` and the learning curve `curve.json` to the configured folder.
"""
from __future__ import annotations

import argparse
import copy
import json
import math
import sys
import time
from pathlib import Path

import numpy as np
import torch

from policies.training.perception.augment import BLANK_SHARE, augment, blank
from policies.training.perception.dataset import HERE, IGNORED, PRESENT, camera_of, load_config, load_split
from policies.training.perception.losses import total_loss
from policies.training.perception.metrics import match, summary
from policies.training.perception.network import STRIDE_PX, TrayPosesNetwork
from policies.training.perception.scenes import STANDING_Z_M
from steadyhand.errors import ConfigError
from steadyhand_perception.maps import DecodeConfig, Grid, decode, encode

GRADIENT_NORM_MAX = 5.0
SHOWN = ("position_mm_p50", "position_mm_p95", "yaw_deg_p50", "misses", "false_positives", "cubes")
IGNORE_CELLS = 2.0  # round an ignored cube's centre


def make_grid() -> Grid:
    """The grid of the simulator's camera."""
    from steadyhand_sim.camera import CameraConfig

    return Grid(camera_of(CameraConfig()), STRIDE_PX, STANDING_Z_M)


def targets(grid: Grid, cubes: np.ndarray, label: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Maps, weight and keep (0 where nothing is asked) of one image."""
    maps, weight = encode(grid, cubes[label == PRESENT])
    rows, columns = grid.shape
    keep = np.ones((rows, columns), np.float32)
    row_of, column_of = np.mgrid[:rows, :columns]
    for row, column in grid.cells(cubes[label == IGNORED, :2]):
        keep[np.hypot(row_of - row, column_of - column) < IGNORE_CELLS] = 0.0
    return maps, weight, keep


def predict(network: TrayPosesNetwork, images: np.ndarray, batch: int = 50) -> np.ndarray:
    """Maps (N, MAPS, rows, columns) of images (N, H, W, 3), float32."""
    network.eval()
    with torch.no_grad():
        return np.concatenate(
            [network(torch.from_numpy(images[k : k + batch]))[0].numpy() for k in range(0, len(images), batch)]
        )


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
    state = torch.load(path, weights_only=True)
    made_by = state.get("config", {})
    for name in ("seed", "images", "labels", "training"):
        if made_by.get(name) != config[name]:
            raise ConfigError(
                f"{path}: made with {name}={made_by.get(name)}, configured is {config[name]}; remove it to train anew"
            )
    return state


class Training:
    """The state of one run: network, its running mean, optimizer, curve, and what is left to do."""

    def __init__(self, config: dict, checkpoint: Path, start: Path | None = None) -> None:
        self.whole_config, self.config, self.checkpoint = config, config["training"], checkpoint
        self.seed, self.first, self.curve = config["seed"], 0, []
        torch.manual_seed(self.seed)
        self.network = TrayPosesNetwork().to(memory_format=torch.channels_last)
        if start:
            self.network.load_state_dict(torch.load(start, weights_only=True)["mean"])
        self.mean = copy.deepcopy(self.network)
        matrices = [p for p in self.network.parameters() if p.ndim > 1]
        vectors = [p for p in self.network.parameters() if p.ndim <= 1]  # biases and norms do not decay
        decay = self.config["weight_decay"]
        self.optimizer = torch.optim.AdamW(
            [{"params": matrices, "weight_decay": decay}, {"params": vectors, "weight_decay": 0.0}]
        )
        self.bfloat16 = torch.backends.mkldnn.is_available() and torch.cpu._is_avx512_bf16_supported()
        if checkpoint.exists():
            self._resume()

    @property
    def curve_path(self) -> Path:
        return self.checkpoint.with_name(f"{self.checkpoint.stem}_curve.json")

    def _resume(self) -> None:
        state = load_checkpoint(self.checkpoint, self.whole_config)
        for name in ("network", "mean", "optimizer"):
            getattr(self, name).load_state_dict(state[name])
        self.first, self.curve = state["epoch"] + 1, json.loads(self.curve_path.read_text())

    def save(self, epoch: int) -> None:
        """Checkpoint and curve; the checkpoint whole or not at all."""
        state = {name: getattr(self, name).state_dict() for name in ("network", "mean", "optimizer")}
        partial = self.checkpoint.with_suffix(".partial")
        torch.save({"epoch": epoch, "config": self.whole_config, **state}, partial)
        self.curve_path.write_text(json.dumps(self.curve, indent=1))
        partial.rename(self.checkpoint)

    def epoch(self, epoch: int, images: np.ndarray, labels: tuple[np.ndarray, ...]) -> dict[str, float]:
        """One pass over the images in random order; `labels` are maps, weights and keeps. Mean losses."""
        batch, sums = self.config["batch"], {}
        per_epoch = len(images) // batch
        if not per_epoch:
            raise ConfigError(f"training.batch={batch}: there are {len(images)} images; give at most as many")
        order = np.random.default_rng([self.seed, 99, epoch]).permutation(len(images))
        torch.manual_seed(self.seed + epoch)
        self.network.train()
        for k in range(per_epoch):
            step = epoch * per_epoch + k
            chosen = np.sort(order[k * batch : (k + 1) * batch])
            x = augment(torch.from_numpy(images[chosen]))
            target, weight, keep = (torch.from_numpy(a[chosen]).float() for a in labels)
            for i in torch.nonzero(torch.rand(batch) < BLANK_SHARE).flatten().tolist():
                x[i], target[i], weight[i], keep[i] = blank(x[i]), 0.0, 0.0, 1.0
            for group in self.optimizer.param_groups:
                group["lr"] = learning_rate(step, per_epoch * self.config["epochs"], self.config)
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.bfloat16):
                maps, _ = self.network.from_float(x.contiguous(memory_format=torch.channels_last))
            loss, parts = total_loss(maps.float(), target, weight, keep)
            self.optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.network.parameters(), GRADIENT_NORM_MAX)
            self.optimizer.step()
            update_mean(self.mean, self.network, min(self.config["ema"], (step + 1) / (step + 10)))
            for name, value in parts.items():
                sums[name] = sums.get(name, 0.0) + value / per_epoch
        if not all(math.isfinite(value) for value in sums.values()):
            rate = self.config["learning_rate"]
            raise ConfigError(f"training.learning_rate={rate} gives losses {sums} in epoch {epoch}; lower it")
        return sums


def validate(network: TrayPosesNetwork, grid: Grid, check: dict) -> dict:
    """Figures on the validation images with the threshold not yet calibrated."""
    maps = predict(network, check["images"])
    config = DecodeConfig(presence_min=0.3)
    return summary([match(decode(grid, m, config), c, lab) for m, c, lab in zip(maps, check["cubes"], check["label"])])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", type=Path, default=HERE / "config.toml")
    parser.add_argument("--start", type=Path, help="checkpoint of another run whose weights to start from")
    parser.add_argument("--name", default="checkpoint", help="name of the checkpoint and of the curve")
    arguments = parser.parse_args()
    config = load_config(arguments.config)
    folder, grid = Path(config["out"]), make_grid()
    torch.set_num_threads(1)
    data, check = load_split(config, "train"), load_split(config, "validation")
    made = [targets(grid, cubes, label) for cubes, label in zip(data["cubes"], data["label"])]
    labels = tuple(np.stack([m[i] for m in made]).astype(np.float16) for i in range(3))
    training = Training(config, folder / f"{arguments.name}.pt", arguments.start)
    for epoch in range(training.first, config["training"]["epochs"]):
        start = time.perf_counter()
        losses = training.epoch(epoch, data["images"], labels)
        row = {
            "epoch": epoch, "seconds": round(time.perf_counter() - start, 1),
            "loss": {name: round(value, 4) for name, value in losses.items()},
            "validation": validate(training.mean, grid, check),
        }
        training.curve.append(row)
        training.save(epoch)
        shown = {k: row["validation"].get(k) for k in SHOWN}
        print(json.dumps({**row, "validation": shown}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
