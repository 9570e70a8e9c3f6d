"""Training images: the sensor's noise drawn afresh, and changes of exposure, colour balance and blur.

No shifts: a shifted image is another camera. The camera's own jitter is in the renders, with true labels, so that the
model learns to measure against the tray rather than against the pixels.
"""
from __future__ import annotations

import torch

BLURRED_SHARE = 0.3
BLANK_SHARE = 0.02  # images replaced by a picture of nothing
SENSOR_SPREAD = 0.3  # of the noise's strength, about the look's own


def augment(images: torch.Tensor, sensor: torch.Tensor, photometric: bool = True) -> torch.Tensor:
    """uint8 (N, H, W, 3) before the sensor and `sensor` (N, 3) exposure, full well, read noise -> (N, 3, H, W), 0..255.

    `photometric`: each image also in a light and colour balance of its own, some out of focus.
    """
    n = len(images)
    exposure, full_well, read_noise = (column.reshape(n, 1, 1, 1) for column in sensor.float().T)
    if photometric:
        gain = exposure * (1 + 0.15 * _signed(n, 1) + 0.08 * _signed(n, 3))
        x = torch.addcmul(10 * _signed(n, 1), images.float(), gain).clamp_(min=0)
        for k in torch.nonzero(torch.rand(n) < BLURRED_SHARE).flatten().tolist():
            x[k] = torch.lerp(x[k], _blurred(x[k]), float(torch.rand(())))
    else:
        x = images.float() * exposure
    strength = 1 + SENSOR_SPREAD * _signed(n, 1)
    sigma = torch.sqrt(x * (255.0 / full_well) + read_noise**2) * strength
    return x.addcmul_(sigma, torch.randn_like(x)).clamp_(0, 255).permute(0, 3, 1, 2)


def blank(image: torch.Tensor) -> torch.Tensor:
    """A picture of nothing in the shape of `image` (3, H, W): one level, with noise from none to snow."""
    level, spread = 255 * torch.rand(()), 128 * torch.rand(()) ** 2
    return (level + spread * torch.randn_like(image)).clamp(0, 255)


def _signed(n: int, channels: int) -> torch.Tensor:
    """Uniform in -1..1, (n, 1, 1, channels)."""
    return torch.rand(n, 1, 1, channels) * 2 - 1


def _blurred(image: torch.Tensor) -> torch.Tensor:
    """(H, W, 3) through the binomial filter (1 2 1) / 4 along rows and columns; the edge pixels repeat."""
    for axis in (0, 1):
        size = image.shape[axis]
        before = image.index_select(axis, torch.arange(-1, size - 1).clamp(min=0))
        after = image.index_select(axis, torch.arange(1, size + 1).clamp(max=size - 1))
        image = image / 2 + (before + after) / 4
    return image
