"""Sensor noise of the vehicle, as fitted to recordings of real machines (`noise.json` holds figures and sources).

Encoders read at a jittered instant, wheels slip in proportion to the root of the way, the gyro is white about a
constant bias, ranges are long by a bias, with a share of outliers behind walls.
"""
from __future__ import annotations

import json
import math
from dataclasses import dataclass, fields
from pathlib import Path

from steadyhand.errors import ConfigError

NOISE_FILE = Path(__file__).with_name("noise.json")


@dataclass(frozen=True)
class NoiseParameters:
    """Standard deviations unless said otherwise. Any may be zero: a perfect sensor."""

    encoder_jitter_s: float  # of the instant at which a wheel's counter is read
    slip_per_sqrt_m: float  # m per root of metre driven, of each wheel's way
    heading_per_sqrt_m: float  # rad per root of metre, what the vehicle turns and the gyro-less odometry misses
    scale_error: float  # of the wheels' circumference, relative, constant over a run
    gyro_white_rad_s: float  # of one sample at gyro_hz
    gyro_hz: float
    gyro_bias_rad_s: float  # constant over a run
    range_sigma_m: float
    range_bias_m: float  # mean; ranges are long
    range_outlier_share: float  # of ranges that came round a wall
    range_outlier_m: float  # mean length that an outlier adds

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            if not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
                raise ConfigError(f"noise parameter {f.name}={value!r}: give a finite value of 0 or more")
        if self.gyro_hz <= 0:
            raise ConfigError(f"noise parameter gyro_hz={self.gyro_hz}: give a value above 0")
        if self.range_outlier_share >= 0.5:
            raise ConfigError(f"noise parameter range_outlier_share={self.range_outlier_share}: give less than 0.5")

    @staticmethod
    def load(path: Path = NOISE_FILE) -> NoiseParameters:
        """The figures of a file made by `fit_noise`; raises ConfigError when it is absent or malformed."""
        try:
            groups = json.loads(Path(path).read_text())
            return NoiseParameters(**{k: v for group in groups.values() for k, v in group["parameters"].items()})
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigError(f"noise parameters {path}: {error!r}") from error

    @staticmethod
    def none() -> NoiseParameters:
        """Perfect sensors, for tests of everything else."""
        return NoiseParameters(0, 0, 0, 0, 0, 30.0, 0, 0, 0, 0, 0)
