"""The policy's configuration."""
from dataclasses import dataclass

from lerobot.configs.policies import PreTrainedConfig

TYPE = "steadyhand_onnx"
HORIZON = 8


@PreTrainedConfig.register_subclass(TYPE)
@dataclass
class SteadyhandOnnxConfig(PreTrainedConfig):
    """A policy that is an ONNX file, for inference only."""

    model: str = ""

    @property
    def observation_delta_indices(self) -> None:
        return None

    @property
    def action_delta_indices(self) -> list[int]:
        return list(range(HORIZON))

    @property
    def reward_delta_indices(self) -> None:
        return None

    def get_optimizer_preset(self):
        raise NotImplementedError("inference only")

    def get_scheduler_preset(self):
        raise NotImplementedError("inference only")

    def validate_features(self) -> None: ...
