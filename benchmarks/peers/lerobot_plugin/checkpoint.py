"""A checkpoint folder as LeRobot's server loads it: the configuration and the two pipelines around the policy."""
from __future__ import annotations

from pathlib import Path

from lerobot.configs.types import FeatureType, PolicyFeature
from lerobot.processor import (
    AddBatchDimensionProcessorStep,
    DeviceProcessorStep,
    PolicyProcessorPipeline,
    RenameObservationsProcessorStep,
)

from benchmarks.peers.lerobot_plugin.config_recorder import ACTION_NAMES, STATE_NAMES
from benchmarks.peers.lerobot_plugin.configuration_steadyhand import SteadyhandOnnxConfig
from benchmarks.peers.scene import MODEL


def write(folder: Path) -> Path:
    """Write it. The pipelines are those of LeRobot's own policies without normalisation, which is in the graph."""
    folder.mkdir(parents=True, exist_ok=True)
    SteadyhandOnnxConfig(
        model=str(MODEL / "model.onnx"),
        device="cpu",
        push_to_hub=False,
        input_features={"observation.state": PolicyFeature(type=FeatureType.STATE, shape=(len(STATE_NAMES),))},
        output_features={"action": PolicyFeature(type=FeatureType.ACTION, shape=(len(ACTION_NAMES),))},
    ).save_pretrained(folder)
    batch, device = AddBatchDimensionProcessorStep(), DeviceProcessorStep("cpu")
    before = [RenameObservationsProcessorStep(rename_map={}), batch, device]
    PolicyProcessorPipeline(steps=before, name="policy_preprocessor").save_pretrained(folder)
    PolicyProcessorPipeline(steps=[DeviceProcessorStep("cpu")], name="policy_postprocessor").save_pretrained(folder)
    return folder
