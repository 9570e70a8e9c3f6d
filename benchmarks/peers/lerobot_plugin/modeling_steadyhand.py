"""The shipped policy behind LeRobot's policy interface."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from lerobot.configs.policies import PreTrainedConfig
from lerobot.policies.pretrained import PreTrainedPolicy

from benchmarks.peers.accounting import PERIOD_S
from benchmarks.peers.lerobot_plugin.config_recorder import STATE_SCALE
from benchmarks.peers.lerobot_plugin.configuration_steadyhand import TYPE, SteadyhandOnnxConfig
from benchmarks.peers.model import OnnxPolicy


class SteadyhandOnnxPolicy(PreTrainedPolicy):
    """Appends to each action the moment it is meant for: the state's stamp, plus a period for each step."""

    config_class = SteadyhandOnnxConfig
    name = TYPE

    def __init__(self, config: SteadyhandOnnxConfig, **_) -> None:
        super().__init__(config)
        self._policy = OnnxPolicy(Path(config.model))

    @classmethod
    def from_pretrained(cls, pretrained_name_or_path, *, config=None, **_) -> SteadyhandOnnxPolicy:
        """The weights are the ONNX file that the configuration names; there is nothing else to load."""
        return cls(config or PreTrainedConfig.from_pretrained(pretrained_name_or_path))

    @torch.no_grad()
    def predict_action_chunk(self, batch: dict[str, torch.Tensor], **_) -> torch.Tensor:
        """Actions (1, H, A + 1) for `observation.state` (1, D + 1)."""
        state = batch["observation.state"][0].numpy()
        actions = self._policy(state[:-1] / STATE_SCALE)
        meant_for_s = state[-1] + PERIOD_S * np.arange(len(actions), dtype=np.float32)
        return torch.from_numpy(np.column_stack([actions, meant_for_s]).astype(np.float32))[None]

    def select_action(self, batch: dict[str, torch.Tensor], **_) -> torch.Tensor:
        return self.predict_action_chunk(batch)[:, 0]

    def reset(self) -> None: ...

    def get_optim_params(self) -> dict:
        raise NotImplementedError("inference only")

    def forward(self, batch: dict[str, torch.Tensor]):
        raise NotImplementedError("inference only")
