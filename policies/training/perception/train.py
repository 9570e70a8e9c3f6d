"""Train the perception model: `python policies/training/perception/train.py` (after dataset.py; then export.py).

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
from augment import BLANK_SHARE, augment, blank
from dataset import HERE, IGNORED, PRESENT, camera_of, load_config, load_split
from losses import total_loss
from metrics import match, summary
from network import STRIDE_PX, TrayPosesNetwork
from scenes import STANDING_Z_M
from steadyhand_perception.maps import DecodeConfig, Grid, decode, encode

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
    return config["learning_rate"] * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * (step - warm_up) / (steps - warm_up))))


def update_mean(mean: TrayPosesNetwork, network: TrayPosesNetwork, decay: float) -> None:
    """Move the running mean of weights (and batch statistics) towards the network's."""
    with torch.no_grad():
        for m, n in zip(mean.state_dict().values(), network.state_dict().values()):
            if m.dtype.is_floating_point:
                m.lerp_(n, 1 - decay)
            else:
                m.copy_(n)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", type=Path, default=HERE / "config.toml")
    parser.add_argument("--start", type=Path, help="weights to start from (a checkpoint of an earlier run)")
    parser.add_argument("--name", default="checkpoint", help="name of the checkpoint and the curve")
    arguments = parser.parse_args()
    config = load_config(arguments.config)
    training, folder = config["training"], Path(config["out"])
    torch.set_num_threads(1)
    torch.manual_seed(config["seed"])
    grid = make_grid()
    data, check = load_split(folder, "train"), load_split(folder, "validation")
    made = [targets(grid, c, lab) for c, lab in zip(data["cubes"], data["label"])]
    maps, weight, keep = (np.stack([m[i] for m in made]).astype(np.float16) for i in range(3))
    network = TrayPosesNetwork().to(memory_format=torch.channels_last)
    if arguments.start:
        network.load_state_dict(torch.load(arguments.start, weights_only=True)["mean"])
    mean = copy.deepcopy(network)
    decays = [p for p in network.parameters() if p.ndim > 1]
    others = [p for p in network.parameters() if p.ndim <= 1]
    optimizer = torch.optim.AdamW([{"params": decays, "weight_decay": training["weight_decay"]}, {"params": others, "weight_decay": 0.0}])
    checkpoint, curve_path = folder / f"{arguments.name}.pt", folder / f"{arguments.name}_curve.json"
    first, curve = 0, []
    if checkpoint.exists():
        state = torch.load(checkpoint, weights_only=True)
        network.load_state_dict(state["network"])
        mean.load_state_dict(state["mean"])
        optimizer.load_state_dict(state["optimizer"])
        first, curve = state["epoch"] + 1, json.loads(curve_path.read_text())
    batch = training["batch"]
    per_epoch = len(data["images"]) // batch
    steps = per_epoch * training["epochs"]
    bfloat16 = torch.backends.mkldnn.is_available() and torch.cpu._is_avx512_bf16_supported()
    for epoch in range(first, training["epochs"]):
        rng = np.random.default_rng([config["seed"], 99, epoch])
        torch.manual_seed(config["seed"] + epoch)
        order, start, sums = rng.permutation(len(data["images"])), time.perf_counter(), {}
        network.train()
        for k in range(per_epoch):
            step = epoch * per_epoch + k
            chosen = np.sort(order[k * batch : (k + 1) * batch])
            images = augment(torch.from_numpy(data["images"][chosen]))
            target, near, asked = (torch.from_numpy(a[chosen]).float() for a in (maps, weight, keep))
            for i in torch.nonzero(torch.rand(batch) < BLANK_SHARE).flatten().tolist():
                images[i], target[i], near[i], asked[i] = blank(images[i]), 0.0, 0.0, 1.0
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(step, steps, training)
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bfloat16):
                predicted, _ = network.from_float(images.contiguous(memory_format=torch.channels_last))
            loss, parts = total_loss(predicted.float(), target, near, asked)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 5.0)
            optimizer.step()
            update_mean(mean, network, min(training["ema"], (step + 1) / (step + 10)))
            for name, value in parts.items():
                sums[name] = sums.get(name, 0.0) + value / per_epoch
        figures = validate(mean, grid, check)
        curve.append({"epoch": epoch, "seconds": round(time.perf_counter() - start, 1), "loss": {k: round(v, 4) for k, v in sums.items()}, "validation": figures})
        state = {"epoch": epoch, "network": network.state_dict(), "mean": mean.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save(state, checkpoint.with_suffix(".partial"))
        checkpoint.with_suffix(".partial").rename(checkpoint)
        curve_path.write_text(json.dumps(curve, indent=1))
        shown = {k: figures.get(k) for k in ("position_mm_p50", "position_mm_p95", "yaw_deg_p50", "misses", "false_positives", "cubes")}
        print(f"epoch {epoch}: {curve[-1]['seconds']} s, loss {curve[-1]['loss']}, validation {shown}", flush=True)
    return 0


def validate(network: TrayPosesNetwork, grid: Grid, check: dict) -> dict:
    """Figures on the validation images with the uncalibrated threshold."""
    maps = predict(network, check["images"])
    config = DecodeConfig(presence_min=0.3)
    return summary([match(decode(grid, m, config), c, lab) for m, c, lab in zip(maps, check["cubes"], check["label"])])


if __name__ == "__main__":
    sys.exit(main())
