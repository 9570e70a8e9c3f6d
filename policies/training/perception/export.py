"""Export the trained model to the model repository: `python -m policies.training.perception.export`.

Writes `1/model.onnx` (opset 17, normalisation inside), `1/contract.json` (with presence, deviation, scratch and grasp
calibrated on the validation images), `1/explain.onnx` (Grad-CAM, see `explain`) and `config.pbtxt`. Refuses when
onnxruntime's outputs differ from the network's. With `--variants`, the same model in half precision and with 8-bit
weights beside it in the output folder, each with a contract of its own, for the benchmark to compare.
"""
from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from scipy.optimize import minimize

from policies.training.perception.dataset import HERE, NOT_ASKED, arguments_of, load_config, load_set
from policies.training.perception.explain import write_explain
from policies.training.perception.metrics import Matched, inspection, match, summary
from policies.training.perception.network import Outputs, TrayPosesNetwork
from policies.training.perception.store import ImageSet
from policies.training.perception.train import load_checkpoint, make_grid, predict
from steadyhand import cell
from steadyhand.errors import ConfigError, ContractError
from steadyhand_perception.contract import INPUT_NAME, HeadCalibration, PerceptionContract, sha256_of
from steadyhand_perception.maps import DecodeConfig, Grid, decode
from steadyhand_perception.tray_poses import CONTRACT_FILE, EXPLAIN_FILE, MODEL_FILE

REPOSITORY = HERE.parents[1] / "model_repository" / "tray_poses"
CANDIDATES = DecodeConfig(presence_min=0.02)  # weak peaks too, so that the calibration sees wrong ones
MEDIAN_OF_RAYLEIGH = float(np.sqrt(2 * np.log(2)))  # of the length of a 2-D Gaussian error with unit deviation
OUTPUT_TOLERANCE = 2e-3
SERVED = Outputs._fields[:4]
TRUTH = ("cubes", "label", "scratch")
QUANTISATION_IMAGES = 64


def fit_presence(logit: np.ndarray, right: np.ndarray) -> tuple[float, float]:
    """Scale and bias of p = 1 / (1 + exp(-(scale logit + bias))), with Platt's smoothed targets (Platt 1999)."""
    n_right, n_wrong = int(right.sum()), int((~right).sum())
    target = np.where(right, (n_right + 1) / (n_right + 2), 1 / (n_wrong + 2))

    def cost(parameters: np.ndarray) -> float:
        z = np.exp(parameters[0]) * logit + parameters[1]
        return float(np.mean(np.logaddexp(0, z) - target * z))

    found = minimize(cost, np.zeros(2), method="Nelder-Mead", options={"xatol": 1e-5, "fatol": 1e-10, "maxiter": 4000})
    return float(np.exp(found.x[0])), float(found.x[1])


def calibrate(grid: Grid, seen: Outputs, labels: dict) -> tuple[DecodeConfig, HeadCalibration, HeadCalibration, dict]:
    """Decoding, scratch and grasp fitted on the validation images, and the figures there."""
    def score(config: DecodeConfig) -> list[Matched]:
        return [
            match(decode(grid, maps, config, scratch[0]), *truth)
            for maps, scratch, *truth in zip(seen.maps, seen.scratch, *(labels[n] for n in TRUTH))
        ]

    weak = score(CANDIDATES)
    logit, right, error, std = (
        np.concatenate([getattr(w, name) for w in weak]) for name in ("peak_logit", "peak_right", "error_m", "std_m")
    )
    if not len(error):
        raise ConfigError(f"training: none of the cubes in {len(weak)} validation images is found; train more epochs")
    scale, bias = fit_presence(logit, right)
    std_scale = float(np.median(error / (MEDIAN_OF_RAYLEIGH * std)))
    config = DecodeConfig(presence_scale=scale, presence_bias=bias, std_scale=std_scale)
    results, asked = score(config), labels["grasp"][: len(seen.grasp)] != NOT_ASKED
    marks, scratched = (np.concatenate([getattr(r, name) for r in results]) for name in ("scratch_logit", "scratched"))
    scratch = HeadCalibration(*fit_presence(marks, scratched))
    held = labels["grasp"][: len(seen.grasp)][asked] == 1
    grasp = HeadCalibration(*fit_presence(seen.grasp[asked, 0], held))
    wrong = int(((grasp.scale * seen.grasp[asked, 0] + grasp.bias > 0) != held).sum())
    figures = summary(results) | {
        "inspection": inspection(results, -scratch.bias / scratch.scale), "grasp_asked": int(asked.sum()),
        "grasp_wrong": wrong,
    }
    return config, scratch, grasp, figures


class Served(torch.nn.Module):
    """The network with the outputs that the runtime reads."""

    def __init__(self, network: TrayPosesNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return self.network(image)[: len(SERVED)]


def write_onnx(network: TrayPosesNetwork, path: Path, image_shape: tuple[int, int, int]) -> None:
    """The model with a free batch axis."""
    path.parent.mkdir(parents=True, exist_ok=True)
    example = torch.zeros(1, *image_shape, dtype=torch.uint8)
    names = list(SERVED)
    torch.onnx.export(
        Served(network).eval(), (example,), str(path), input_names=[INPUT_NAME], output_names=names,
        dynamic_axes={name: {0: "batch"} for name in (INPUT_NAME, *names)}, opset_version=17, dynamo=False,
    )


def served(model: Path, images: np.ndarray) -> Outputs:
    """Outputs of an exported model, without `held`."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    parts = [session.run(list(SERVED), {INPUT_NAME: images[k : k + 25]}) for k in range(0, len(images), 25)]
    return Outputs(*(np.concatenate(part) for part in zip(*parts)), held=None)


def check_served(model: Path, images: np.ndarray, wanted: Outputs) -> float:
    """Largest difference of the exported model from the network. Raises ContractError when it is too large."""
    found = served(model, images)
    worst = float(np.max([np.abs(getattr(found, name) - getattr(wanted, name)).max() for name in SERVED]))
    if not worst <= OUTPUT_TOLERANCE:  # NaN too
        raise ContractError(f"{model}: differs from the network by {worst:.2e} when served, at most {OUTPUT_TOLERANCE}")
    return worst


def pbtxt(contract: PerceptionContract) -> str:
    """Triton's model configuration."""
    height, width, _ = contract.image_shape
    outputs = ",\n".join(
        f'  {{ name: "{name}", data_type: TYPE_FP32, dims: [ {", ".join(map(str, shape))} ] }}'
        for name, shape in contract.outputs.items()
    )
    return f'''# Object poses from one camera image; the meaning of the maps and the camera: 1/contract.json.
# Standard ONNX Runtime model: loads on a stock Triton with or without a GPU.
name: "tray_poses"
backend: "onnxruntime"
max_batch_size: 8
input [ {{ name: "{INPUT_NAME}", data_type: TYPE_UINT8, dims: [ {height}, {width}, 3 ] }} ]
output [
{outputs}
]
instance_group [ {{ count: 1, kind: KIND_AUTO }} ]
dynamic_batching {{
  max_queue_delay_microseconds: 0
  default_queue_policy {{ max_queue_size: 16 }}
}}
parameters {{ key: "intra_op_thread_count", value: {{ string_value: "1" }} }}
'''


def write_half(model: Path, to: Path) -> None:
    """The same model with weights and activations in half precision; inputs and outputs stay."""
    import onnx
    from onnxruntime.transformers.float16 import convert_float_to_float16

    onnx.save(convert_float_to_float16(onnx.load(str(model)), keep_io_types=True), str(to))


def write_int8(model: Path, to: Path, images: np.ndarray) -> None:
    """The same model with 8-bit convolutions, ranges calibrated on images; per channel, QDQ."""
    from onnxruntime import quantization as q

    class Reader(q.CalibrationDataReader):
        def __init__(self) -> None:
            self._left = iter(images)

        def get_next(self):
            image = next(self._left, None)
            return None if image is None else {INPUT_NAME: image[None]}

    prepared = to.with_suffix(".prepared")
    q.shape_inference.quant_pre_process(str(model), str(prepared), skip_symbolic_shape=True)
    q.quantize_static(
        str(prepared), str(to), Reader(), quant_format=q.QuantFormat.QDQ, per_channel=True,
        op_types_to_quantize=["Conv"], calibrate_method=q.CalibrationMethod.Percentile,
    )
    prepared.unlink()


def export(config: dict, checkpoint: Path, repository: Path, images: ImageSet | None = None) -> PerceptionContract:
    """Write a run's model with its contract; returns the contract."""
    torch.set_num_threads(1)
    network, state = TrayPosesNetwork(**config["network"]), load_checkpoint(checkpoint, config)
    network.load_state_dict(state["mean"])
    grid, check = make_grid(), images or load_set(config, "validation")
    model = repository / MODEL_FILE
    fresh = model.with_suffix(".partial")  # an interrupted export leaves the old model with its contract
    write_onnx(network, fresh, (grid.camera.height_px, grid.camera.width_px, 3))
    pictures = np.stack([check.sensed(k) for k in range(len(check))])
    seen = predict(network, pictures)
    check_served(fresh, pictures[:20], Outputs(*(part[:20] for part in seen)))
    contract = contract_of(config, state, fresh, grid, seen, check.labels)
    fresh.rename(model)
    (repository / CONTRACT_FILE).write_text(contract.to_json() + "\n")
    (repository / "config.pbtxt").write_text(pbtxt(contract))
    if network.kind != "raw_pixels":
        write_explain(network, repository / EXPLAIN_FILE, (grid.camera.height_px, grid.camera.width_px, 3))
    return contract


def contract_of(
    config: dict, state: dict, model: Path, grid: Grid, seen: Outputs, labels: dict
) -> PerceptionContract:
    """The contract of a model file whose outputs on the validation images are `seen`."""
    decoding, scratch, grasp, figures = calibrate(grid, seen, labels)
    return PerceptionContract(
        model="tray_poses", model_sha256=sha256_of(model), camera=grid.camera, stride_px=grid.stride_px,
        plane_z_m=grid.plane_z_m, cube_size_m=cell.CUBE_SIZE_M, features=seen.features.shape[1], decode=decoding,
        scratch=scratch, grasp=grasp,
        trained_on={
            **config["network"], "from": "scratch", "seed": config["seed"],
            **{name: config["training"][name] for name in ("set", "images", "epochs", "photometric")},
            "steps": state["step"], "validation": figures,
        },
    )


def export_variants(config: dict, repository: Path, folder: Path) -> None:
    """Half precision and 8 bits of an exported model, each a model folder below `folder`."""
    check = load_set(config, "validation")
    pictures = np.stack([check.sensed(k) for k in range(len(check))])
    few = load_set(config, config["training"]["set"], QUANTISATION_IMAGES)
    for name in ("fp16", "int8"):
        model = folder / name / MODEL_FILE
        model.parent.mkdir(parents=True, exist_ok=True)
        if name == "fp16":
            write_half(repository / MODEL_FILE, model)
        else:
            write_int8(repository / MODEL_FILE, model, np.stack([few.sensed(k) for k in range(QUANTISATION_IMAGES)]))
        contract = json.loads((repository / CONTRACT_FILE).read_text())
        state = {"step": contract["trained_on"]["steps"]}
        made = contract_of(config, state, model, make_grid(), served(model, pictures), check.labels)
        named = dataclasses.replace(made, model=f"tray_poses_{name}")
        (folder / name / CONTRACT_FILE).write_text(named.to_json() + "\n")


def main() -> int:
    parser = arguments_of(__doc__.splitlines()[0])
    parser.add_argument("--name", default="tray_poses", help="name of the checkpoint")
    parser.add_argument("--repository", type=Path, default=REPOSITORY)
    parser.add_argument("--variants", action="store_true", help="half precision and 8 bits too")
    arguments = parser.parse_args()
    config = load_config(arguments.config, arguments.out)
    contract = export(config, Path(config["out"]) / f"{arguments.name}.pt", arguments.repository)
    if arguments.repository == REPOSITORY:
        (HERE / "curve.json").write_text((Path(config["out"]) / f"{arguments.name}_curve.json").read_text())
    print(json.dumps(contract.trained_on["validation"]))
    if arguments.variants:
        export_variants(config, arguments.repository, Path(config["out"]) / "variants")
    return 0


if __name__ == "__main__":
    sys.exit(main())
