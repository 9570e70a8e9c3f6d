"""Export the trained model to the model repository: `python -m policies.training.perception.export`.

Writes `1/model.onnx` (opset 17, normalisation inside), `1/contract.json` (with the presence and deviation calibrated on
the validation images) and `config.pbtxt`. Refuses when onnxruntime's outputs differ from the network's.
"""
from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from scipy.optimize import minimize

from policies.training.perception.dataset import HERE, load_config, load_split
from policies.training.perception.metrics import Matched, match, summary
from policies.training.perception.network import FEATURES, TrayPosesNetwork
from policies.training.perception.train import load_checkpoint, make_grid, predict
from steadyhand import cell
from steadyhand.errors import ConfigError, ContractError
from steadyhand_perception.contract import FEATURES_NAME, INPUT_NAME, MAPS_NAME, PerceptionContract, sha256_of
from steadyhand_perception.maps import MAPS, DecodeConfig, Grid, decode

REPOSITORY = HERE.parents[1] / "model_repository" / "tray_poses"
CANDIDATES = DecodeConfig(presence_min=0.02)  # weak peaks too, so that the calibration sees wrong ones
MEDIAN_OF_RAYLEIGH = float(np.sqrt(2 * np.log(2)))  # of the length of a 2-D Gaussian error with unit deviation
OUTPUT_TOLERANCE = 2e-3


def fit_presence(logit: np.ndarray, right: np.ndarray) -> tuple[float, float]:
    """Scale and bias of p = 1 / (1 + exp(-(scale logit + bias))), with Platt's smoothed targets (Platt 1999)."""
    n_right, n_wrong = int(right.sum()), int((~right).sum())
    target = np.where(right, (n_right + 1) / (n_right + 2), 1 / (n_wrong + 2))

    def cost(parameters: np.ndarray) -> float:
        z = np.exp(parameters[0]) * logit + parameters[1]
        return float(np.mean(np.logaddexp(0, z) - target * z))

    found = minimize(cost, np.zeros(2), method="Nelder-Mead", options={"xatol": 1e-5, "fatol": 1e-10, "maxiter": 4000})
    return float(np.exp(found.x[0])), float(found.x[1])


def calibrate(grid: Grid, maps: np.ndarray, check: dict) -> tuple[DecodeConfig, dict]:
    """Decoding fitted on the validation images, and its figures there."""
    def score(config: DecodeConfig) -> list[Matched]:
        return [match(decode(grid, m, config), c, lab) for m, c, lab in zip(maps, check["cubes"], check["label"])]

    weak = score(CANDIDATES)
    logit, right, error, std = (
        np.concatenate([getattr(w, name) for w in weak]) for name in ("peak_logit", "peak_right", "error_m", "std_m")
    )
    if not len(error):
        raise ConfigError(f"training: none of the cubes in {len(weak)} validation images is found; train more epochs")
    scale, bias = fit_presence(logit, right)
    std_scale = float(np.median(error / (MEDIAN_OF_RAYLEIGH * std)))
    config = DecodeConfig(presence_scale=scale, presence_bias=bias, std_scale=std_scale)
    return config, summary(score(config))


def write_onnx(network: TrayPosesNetwork, path: Path, image_shape: tuple[int, int, int]) -> None:
    """The model with a free batch axis."""
    path.parent.mkdir(parents=True, exist_ok=True)
    example = torch.zeros(1, *image_shape, dtype=torch.uint8)
    axes = {name: {0: "batch"} for name in (INPUT_NAME, MAPS_NAME, FEATURES_NAME)}
    torch.onnx.export(
        network.eval(), (example,), str(path), input_names=[INPUT_NAME], output_names=[MAPS_NAME, FEATURES_NAME],
        dynamic_axes=axes, opset_version=17, dynamo=False,
    )


def check_served(model: Path, images: np.ndarray, maps: np.ndarray) -> float:
    """Largest difference of the exported model from the network's `maps`. Raises ContractError when it is too large."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    served = session.run([MAPS_NAME], {INPUT_NAME: images})[0]
    worst = float(np.abs(served - maps).max())
    if not worst <= OUTPUT_TOLERANCE:  # NaN too
        raise ContractError(f"{model}: differs from the network by {worst:.2e} when served, at most {OUTPUT_TOLERANCE}")
    return worst


def pbtxt(contract: PerceptionContract) -> str:
    """Triton's model configuration."""
    rows, columns = contract.grid.shape
    height, width, _ = contract.image_shape
    return f'''# Object poses from one camera image; the meaning of the maps and the camera: 1/contract.json.
# Standard ONNX Runtime model: loads on a stock Triton with or without a GPU.
name: "tray_poses"
backend: "onnxruntime"
max_batch_size: 8
input [ {{ name: "{INPUT_NAME}", data_type: TYPE_UINT8, dims: [ {height}, {width}, 3 ] }} ]
output [
  {{ name: "{MAPS_NAME}", data_type: TYPE_FP32, dims: [ {MAPS}, {rows}, {columns} ] }},
  {{ name: "{FEATURES_NAME}", data_type: TYPE_FP32, dims: [ {contract.features} ] }}
]
instance_group [ {{ count: 1, kind: KIND_AUTO }} ]
dynamic_batching {{
  max_queue_delay_microseconds: 0
  default_queue_policy {{ max_queue_size: 16 }}
}}
parameters {{ key: "intra_op_thread_count", value: {{ string_value: "1" }} }}
'''


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", type=Path, default=HERE / "config.toml")
    parser.add_argument("--name", default="checkpoint")
    parser.add_argument("--repository", type=Path, default=REPOSITORY)
    arguments = parser.parse_args()
    config = load_config(arguments.config)
    folder = Path(config["out"])
    torch.set_num_threads(1)
    network = TrayPosesNetwork()
    state = load_checkpoint(folder / f"{arguments.name}.pt", config)
    network.load_state_dict(state["mean"])
    grid, check = make_grid(), load_split(config, "validation")
    model = arguments.repository / "1" / "model.onnx"
    fresh = model.with_suffix(".partial")  # an interrupted export leaves the old model with its contract
    write_onnx(network, fresh, (grid.camera.height_px, grid.camera.width_px, 3))
    maps = predict(network, check["images"])
    worst = check_served(fresh, check["images"][:20], maps[:20])
    decoding, figures = calibrate(grid, maps, check)
    contract = PerceptionContract(
        model="tray_poses", model_sha256=sha256_of(fresh), camera=grid.camera, stride_px=grid.stride_px,
        plane_z_m=grid.plane_z_m, cube_size_m=cell.CUBE_SIZE_M, features=FEATURES, decode=decoding,
        trained_on={
            "network": "ResNet-34 topology, width 0.25, from scratch", "seed": config["seed"],
            "images": config["images"]["train"], "epochs": state["epoch"] + 1, "validation": figures,
        },
    )
    fresh.rename(model)
    (arguments.repository / "1" / "contract.json").write_text(contract.to_json() + "\n")
    (arguments.repository / "config.pbtxt").write_text(pbtxt(contract))
    print(json.dumps(figures), f"{model.stat().st_size / 1e6:.1f} MB, largest difference {worst:.1e}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
