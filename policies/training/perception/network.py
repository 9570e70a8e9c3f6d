"""The network: ResNet-34 topology at a quarter of its width, with a feature pyramid down to stride 4 and light heads.

Topology after He et al. 2016 (3, 4, 6, 3 basic blocks; 64 to 512 channels times `width`), the top-down path after Lin
et al. 2017, centre maps after Zhou et al. 2019. Trained from scratch: no pretrained weights. A word of the whole image
(flattened last stage) corrects for the camera's pose. Whether the gripper holds a cube is the strongest cell's word.
Images enter as uint8 (N, H, W, 3) RGB; the normalisation is part of the graph, so that no caller can forget it.

Two other kinds are the ablation's: `plain`, a VGG-like stack of about the same cost, and `raw_pixels`, which is linear.
"""
from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional

from steadyhand.errors import ConfigError
from steadyhand_perception.maps import MAPS

BLOCKS = (3, 4, 6, 3)
PYRAMID = 32
CONTEXT = 64
COARSEST = 5 * 5  # cells of the last stage for 160 x 160 px
STRIDE_PX = 4
CENTRE_PRIOR = 0.01  # share of cells that hold a centre: where the centre map starts (Lin et al. 2017, focal loss)
PLAIN_CONVOLUTIONS, PLAIN_WIDENING = 4, 1.5  # a stage of the plain network against ResNet-34's
PATCH_PX, THUMB_PX = 31, 8  # raw pixels: side of the linear filters, and of the blocks averaged as features
LAYERS, HELD = MAPS + 2, MAPS + 1  # of the output: maps, scratch, held
KINDS = ("resnet34", "plain", "raw_pixels")


class Outputs(NamedTuple):
    """Of N images."""

    maps: torch.Tensor  # (N, MAPS, rows, columns)
    scratch: torch.Tensor  # (N, 1, rows, columns) logits
    grasp: torch.Tensor  # (N, 1) logit, the largest of `held`
    features: torch.Tensor  # (N, F)
    held: torch.Tensor  # (N, rows, columns) logits of "the centre of a held cube lies here"; training only


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


def _stage(kind: str, index: int, inputs: int, outputs: int) -> nn.Sequential:
    stride = 1 if index == 0 else 2
    if kind == "resnet34":
        rest = [BasicBlock(outputs, outputs, 1) for _ in range(BLOCKS[index] - 1)]
        return nn.Sequential(BasicBlock(inputs, outputs, stride), *rest)
    layers = []
    for k in range(PLAIN_CONVOLUTIONS):
        layers += [conv_norm(outputs if k else inputs, outputs, 3, 1 if k else stride), nn.ReLU()]
    return nn.Sequential(*layers)


class Backbone(nn.Module):
    """Normalised image (N, 3, H, W) -> activations at strides 4, 8, 16, 32."""

    def __init__(self, kind: str, width: float):
        super().__init__()
        widening = PLAIN_WIDENING if kind == "plain" else 1.0
        stem = round(64 * width)
        self.channels = tuple(round(64 * width * widening) * 2**k for k in range(4))
        self.stem = conv_norm(3, stem, 7, 2)
        inputs = (stem, *self.channels[:3])
        self.stages = nn.ModuleList(_stage(kind, k, *io) for k, io in enumerate(zip(inputs, self.channels)))

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        x = functional.max_pool2d(functional.relu(self.stem(x)), 3, 2, 1)
        levels = []
        for stage in self.stages:
            x = stage(x)
            levels.append(x)
        return levels


class Head(nn.Module):
    """Activations of the pyramid's finest level, and the word of the whole image, to maps and scratches."""

    def __init__(self):
        super().__init__()
        self.context_to_cells, self.context_to_offset = nn.Linear(CONTEXT, PYRAMID), nn.Linear(CONTEXT, 2)
        self.smooth = conv_norm(PYRAMID, PYRAMID, 3)
        self.head = conv_norm(PYRAMID, 2 * PYRAMID, 3)
        self.out = nn.Conv2d(2 * PYRAMID, LAYERS, 1)

    def forward(self, top: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        """(N, LAYERS, rows, columns)."""
        # The camera hangs a little differently in each look. Where the tray's edges lie in the image tells how, and
        # that is one correction for all cells: a word of the whole image to each cell, and to the offsets directly.
        hidden = self.smooth(functional.relu(top)) + self.context_to_cells(context)[..., None, None]
        maps = self.out(functional.relu(self.head(functional.relu(hidden))))
        correction = functional.pad(self.context_to_offset(context), (1, LAYERS - 3))
        return maps + correction[..., None, None]


class TrayPosesNetwork(nn.Module):
    """uint8 (N, H, W, 3) -> Outputs."""

    def __init__(self, kind: str = "resnet34", width: float = 0.25):
        super().__init__()
        if kind not in KINDS:
            raise ConfigError(f"network.kind={kind!r}: give one of {', '.join(KINDS)}")
        self.kind = kind
        self.register_buffer("mean", torch.full((1, 3, 1, 1), 128.0))
        self.register_buffer("std", torch.full((1, 3, 1, 1), 64.0))
        if kind == "raw_pixels":
            self.feature_count = 3 * (160 // THUMB_PX) ** 2
            self.out = nn.Conv2d(3, LAYERS, PATCH_PX, STRIDE_PX, (PATCH_PX - STRIDE_PX + 1) // 2)
        else:
            self.backbone = Backbone(kind, width)
            channels = self.backbone.channels
            self.feature_count = channels[-1]
            self.lateral = nn.ModuleList(conv_norm(c, PYRAMID, 1) for c in channels)
            self.context = nn.Sequential(nn.Linear(COARSEST * channels[-1], CONTEXT), nn.ReLU())
            self.head = Head()
        self._start()

    def _start(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            if isinstance(module, BasicBlock):  # a block starts as its short cut (Goyal et al. 2017)
                nn.init.zeros_(module.second[1].weight)
        out = self.out if self.kind == "raw_pixels" else self.head.out
        nn.init.normal_(out.weight, std=0.001 if self.kind == "raw_pixels" else 0.01)
        nn.init.zeros_(out.bias)
        words = [] if self.kind == "raw_pixels" else [self.head.context_to_cells, self.head.context_to_offset]
        for linear in words:
            nn.init.zeros_(linear.weight)
            nn.init.zeros_(linear.bias)
        with torch.no_grad():
            out.bias[[0, HELD]] = torch.logit(torch.tensor(CENTRE_PRIOR))

    def forward(self, image: torch.Tensor) -> Outputs:
        return self.from_float(image.permute(0, 3, 1, 2).float())

    def from_float(self, image: torch.Tensor) -> Outputs:
        """As `forward`, for augmented images (N, 3, H, W) float, 0..255."""
        x = (image - self.mean) / self.std
        if self.kind == "raw_pixels":
            layers, features = self.out(x), functional.avg_pool2d(x, THUMB_PX).flatten(1)
        else:
            top, last = self.pyramid(x)
            layers, features = self.head(top, self.context(last.flatten(1))), last.mean(dim=(2, 3))
        held = layers[:, HELD]
        return Outputs(layers[:, :MAPS], layers[:, MAPS:HELD], held.amax(dim=(1, 2))[:, None], features, held)

    def pyramid(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The pyramid's finest level (N, PYRAMID, rows, columns) and the last stage's activations."""
        levels = self.backbone(x)
        top = self.lateral[-1](levels[-1])
        for lateral, level in zip(self.lateral[-2::-1], levels[-2::-1]):
            top = functional.interpolate(top, scale_factor=2.0, mode="nearest") + lateral(level)
        return top, levels[-1]
