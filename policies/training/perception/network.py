"""The network: ResNet-34 topology at a quarter of its width, with a feature pyramid down to stride 4 and one head.

Topology after He et al. 2016 (3, 4, 6, 3 basic blocks; 16, 32, 64, 128 channels where the original has 64 to 512), the
top-down path after Lin et al. 2017, centre maps after Zhou et al. 2019. Trained from scratch: no pretrained weights.
A word of the whole image (flattened last stage) corrects for the camera's pose: `TrayPosesNetwork.from_float`.
Images enter as uint8 (N, H, W, 3) RGB; the normalisation is part of the graph, so that no caller can forget it.
"""
from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from steadyhand_perception.maps import MAPS

BLOCKS = (3, 4, 6, 3)
CHANNELS = (16, 32, 64, 128)
FEATURES = CHANNELS[-1]
PYRAMID = 32
CONTEXT = 64
COARSEST = 5 * 5  # cells of the last stage for 160 x 160 px
STRIDE_PX = 4
CENTRE_PRIOR = 0.01  # share of cells that hold a centre: where the centre map starts (Lin et al. 2017, focal loss)


def conv_norm(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Sequential:
    """Convolution without bias, then batch normalisation."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(outputs)
    )


class BasicBlock(nn.Module):
    """Two 3 x 3 convolutions round an identity (or 1 x 1) short cut."""

    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.first, self.second = conv_norm(inputs, outputs, 3, stride), conv_norm(outputs, outputs, 3)
        same = stride == 1 and inputs == outputs
        self.short_cut = nn.Identity() if same else conv_norm(inputs, outputs, 1, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(self.second(functional.relu(self.first(x))) + self.short_cut(x))


class TrayPosesNetwork(nn.Module):
    """uint8 (N, H, W, 3) -> maps (N, MAPS, H / 4, W / 4), features (N, FEATURES)."""

    def __init__(self, mean: tuple[float, float, float] = (128.0,) * 3, std: tuple[float, float, float] = (64.0,) * 3):
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean).reshape(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor(std).reshape(1, 3, 1, 1))
        self.stem = conv_norm(3, CHANNELS[0], 7, 2)
        self.stages = nn.ModuleList()
        inputs = CHANNELS[0]
        for index, (blocks, outputs) in enumerate(zip(BLOCKS, CHANNELS)):
            first = BasicBlock(inputs, outputs, 1 if index == 0 else 2)
            self.stages.append(nn.Sequential(first, *(BasicBlock(outputs, outputs, 1) for _ in range(blocks - 1))))
            inputs = outputs
        self.lateral = nn.ModuleList(conv_norm(c, PYRAMID, 1) for c in CHANNELS)
        self.context = nn.Sequential(nn.Linear(COARSEST * CHANNELS[-1], CONTEXT), nn.ReLU())
        self.context_to_cells, self.context_to_offset = nn.Linear(CONTEXT, PYRAMID), nn.Linear(CONTEXT, 2)
        self.smooth = conv_norm(PYRAMID, PYRAMID, 3)
        self.head = conv_norm(PYRAMID, 2 * PYRAMID, 3)
        self.out = nn.Conv2d(2 * PYRAMID, MAPS, 1)
        self._start()

    def _start(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            if isinstance(module, BasicBlock):  # a block starts as its short cut (Goyal et al. 2017)
                nn.init.zeros_(module.second[1].weight)
        nn.init.normal_(self.out.weight, std=0.01)
        nn.init.zeros_(self.out.bias)
        for linear in (self.context_to_cells, self.context_to_offset):
            nn.init.zeros_(linear.weight)
            nn.init.zeros_(linear.bias)
        with torch.no_grad():
            self.out.bias[0] = torch.logit(torch.tensor(CENTRE_PRIOR))

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.from_float(image.permute(0, 3, 1, 2).float())

    def from_float(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """As `forward`, for augmented images (N, 3, H, W) float, 0..255."""
        x = functional.max_pool2d(functional.relu(self.stem((image - self.mean) / self.std)), 3, 2, 1)
        levels = []
        for stage in self.stages:
            x = stage(x)
            levels.append(x)
        features = x.mean(dim=(2, 3))
        top = self.lateral[-1](levels[-1])
        for lateral, level in zip(self.lateral[-2::-1], levels[-2::-1]):
            top = functional.interpolate(top, scale_factor=2.0, mode="nearest") + lateral(level)
        # The camera hangs a little differently in each look. Where the tray's edges lie in the image tells how, and
        # that is one correction for all cells: a word of the whole image to each cell, and to the offsets directly.
        context = self.context(x.flatten(1))
        top = self.smooth(functional.relu(top)) + self.context_to_cells(context)[..., None, None]
        maps = self.out(functional.relu(self.head(functional.relu(top))))
        correction = functional.pad(self.context_to_offset(context), (1, MAPS - 3))
        return maps + correction[..., None, None], features
