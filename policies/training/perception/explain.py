"""Grad-CAM (Selvaraju et al. 2017) as a graph of its own, so that the runtime needs no automatic differentiation.

The score is the sum over chosen cells of one output map's logits; the layer is the pyramid's finest level, the last one
common to all heads. From there to the output are three convolutions: their backward pass is written out here in forward
operations, and a test holds it against torch's own.
"""
from __future__ import annotations

from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

from policies.training.perception.network import LAYERS, TrayPosesNetwork
from steadyhand_perception.contract import INPUT_NAME
from steadyhand_perception.explain import HEAT_NAME, SCORE_NAME


class GradCam(nn.Module):
    """uint8 (N, H, W, 3) and the score's weights (N, LAYERS, rows, columns) -> heat (N, rows, columns), 0 and up."""

    def __init__(self, network: TrayPosesNetwork):
        super().__init__()
        self.network = network.eval()
        head = self.network.head
        self.smooth, self.head = _folded(head.smooth), _folded(head.head)

    def gradient(self, top: torch.Tensor, context: torch.Tensor, score: torch.Tensor) -> torch.Tensor:
        """Of the score with respect to `top`, both (N, ., rows, columns)."""
        head = self.network.head
        hidden = head.smooth(functional.relu(top)) + head.context_to_cells(context)[..., None, None]
        last = head.head(functional.relu(hidden))
        back = functional.conv_transpose2d(score, head.out.weight) * (last > 0)
        back = functional.conv_transpose2d(back, self.head, padding=1) * (hidden > 0)
        return functional.conv_transpose2d(back, self.smooth, padding=1) * (top > 0)

    def forward(self, image: torch.Tensor, score: torch.Tensor) -> torch.Tensor:
        network = self.network
        top, last = network.pyramid((image.permute(0, 3, 1, 2).float() - network.mean) / network.std)
        gradient = self.gradient(top, network.context(last.flatten(1)), score)
        weights = gradient.mean(dim=(2, 3), keepdim=True)
        return functional.relu((weights * functional.relu(top)).sum(dim=1))


def _folded(layer: nn.Sequential) -> torch.Tensor:
    """The weights of a convolution with the scale of the batch normalisation behind it."""
    convolution, norm = layer
    scale = norm.weight / torch.sqrt(norm.running_var + norm.eps)
    return (convolution.weight * scale[:, None, None, None]).detach()


def write_explain(network: TrayPosesNetwork, path: Path, image_shape: tuple[int, int, int]) -> None:
    """Export for `steadyhand_perception.explain`."""
    cam = GradCam(network)
    image = torch.zeros(1, *image_shape, dtype=torch.uint8)
    with torch.no_grad():
        maps = network(image).maps
    score = torch.zeros(1, LAYERS, *maps.shape[2:])
    torch.onnx.export(
        cam, (image, score), str(path), input_names=[INPUT_NAME, SCORE_NAME], output_names=[HEAT_NAME],
        dynamic_axes={name: {0: "batch"} for name in (INPUT_NAME, SCORE_NAME, HEAT_NAME)},
        opset_version=17, dynamo=False,
    )
