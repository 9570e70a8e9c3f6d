"""Impulse noise in a stream of samples: single readings that no side of their neighbourhood explains. Pure.

A reading is compared with five predictions from its two neighbours on either side (Lagrange polynomials through the
real stamps, so that uneven sampling is no motion). Its residual is the distance to their median; the scale it is
measured in has three parts:

    score = |median of predictions - x| / (noise + g_r recent + g_d disagreement)

`noise` is the channel's ordinary change between samples, `recent` the robust scale (1.4826 times the median) of the
last residuals, and `disagreement` the range of the predictions. In fast motion the sides disagree about what comes
between them, so that the threshold rises with the motion itself and at once; the reading that is judged has no part
in it. No model of the robot is used.

Two rules keep apart what looks alike. A step of the signal is explained by the side it belongs to: the nearest
prediction must leave a tenth of the residual. A neighbour of a spike is not one: its deviation from the straight line
through its neighbours is half the spike's, so a reading counts only where its deviation is not less than that of the
next one; earlier spikes have been repaired. Spikes in adjacent samples of a channel may be taken for a step.
"""
from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass

import numpy as np

from steadyhand.config import check_ranges, described
from steadyhand.errors import ConfigError, ProtocolError

DELAY_SAMPLES = 2  # a reading is judged when two later ones are there
# Stencils of the predictions, as places among the neighbours (k-2, k-1, k+1, k+2).
_STENCILS = ((0, 1), (1, 2), (2, 3), (0, 1, 2), (0, 1, 2, 3))
_NEAREST_SHARE = 0.1
_TO_STD = 1.4826  # median absolute deviation -> standard deviation of a normal distribution


@dataclass(frozen=True)
class ImpulseConfig:
    """Channels and threshold. `noise_std`: per channel, standard deviation of the differences of adjacent samples in
    ordinary motion, in the channel's unit; `steadyhand.impulse_channels` holds measured ones."""

    noise_std: tuple[float, ...] = ()
    threshold: float = described(1.0, "score from which a reading is a spike", "", 0.0, 1e6)
    recent_gain: float = described(1.0, "weight of the last residuals in the scale", "", 0.0, 100.0)
    disagreement_gain: float = described(0.3, "weight of the predictions' range in the scale", "", 0.0, 100.0)
    recent_samples: int = described(25, "residuals that the recent scale is taken over", "", 1, 1000)
    max_gap_s: float = described(0.2, "a longer gap starts the window anew", "s", 0.001, 10.0)

    def __post_init__(self) -> None:
        check_ranges(self)
        noise = np.asarray(self.noise_std, dtype=float)
        if noise.ndim != 1 or not len(noise) or not np.isfinite(noise).all() or not (noise > 0).all():
            raise ConfigError(f"ImpulseConfig.noise_std = {self.noise_std}: give a finite number above 0 per channel")


@dataclass(frozen=True)
class Judged:
    """One reading, `DELAY_SAMPLES` after it came: all (C,) in the channels' units."""

    stamp_s: float
    raw: np.ndarray
    repaired: np.ndarray  # spikes replaced by the median of the predictions
    score: np.ndarray
    spikes: np.ndarray  # bool


class ImpulseDetector:
    """Feed readings in order of time to `update`; `rejected` counts what was refused, by reason."""

    def __init__(self, config: ImpulseConfig):
        self.config = config
        self.rejected: Counter[str] = Counter()  # duplicate, out_of_order, not_finite
        self.restarts = 0
        self.found = np.zeros(len(config.noise_std), dtype=int)  # spikes per channel
        self._noise = np.asarray(config.noise_std, dtype=float)
        self._window: deque[tuple[float, np.ndarray]] = deque(maxlen=2 * DELAY_SAMPLES + 1)
        self._recent: deque[np.ndarray] = deque(maxlen=config.recent_samples)

    def update(self, stamp_s: float, values: np.ndarray) -> Judged | None:
        """One reading (C,). The verdict on the one two samples earlier, or None: not yet, or refused and counted.

        Raises ProtocolError for another number of channels.
        """
        values = np.array(values, dtype=float)
        if values.shape != self._noise.shape:
            raise ProtocolError(f"reading has shape {values.shape}: expected {self._noise.shape}")
        if not (np.isfinite(stamp_s) and np.isfinite(values).all()):
            self.rejected["not_finite"] += 1
            return None
        if self._window and stamp_s <= self._window[-1][0]:
            self.rejected["duplicate" if stamp_s == self._window[-1][0] else "out_of_order"] += 1
            return None
        if self._window and stamp_s - self._window[-1][0] > self.config.max_gap_s:
            self.restarts += 1
            self._window.clear()
            self._recent.clear()
        self._window.append((stamp_s, values))
        return self._judge() if len(self._window) == self._window.maxlen else None

    def _judge(self) -> Judged:
        stamps, rows = zip(*self._window)
        c, middle = self.config, DELAY_SAMPLES
        raw = rows[middle]
        predictions = prediction_weights(stamps) @ np.stack([r for k, r in enumerate(rows) if k != middle])
        predicted = np.median(predictions, axis=0)
        residual = np.abs(raw - predicted)
        recent = _TO_STD * np.median(self._recent, axis=0) if self._recent else 0.0
        scale = self._noise + c.recent_gain * recent + c.disagreement_gain * np.ptp(predictions, axis=0)
        own, next_one = (np.abs(_off_line(stamps[k - 1 : k + 2], rows[k - 1 : k + 2])) for k in (middle, middle + 1))
        alone = (own >= next_one) & (np.abs(predictions - raw).min(axis=0) >= _NEAREST_SHARE * residual)
        score = np.where(alone, residual / scale, 0.0)
        spikes = score > c.threshold
        self._recent.append(residual)
        self.found += spikes
        repaired = np.where(spikes, predicted, raw)
        self._window[middle] = (stamps[middle], repaired)
        return Judged(stamps[middle], raw, repaired, score, spikes)


def prediction_weights(stamps_s: tuple[float, ...]) -> np.ndarray:
    """(5, 4) weights of the neighbours of the middle of five stamps: one row per prediction of its value."""
    at = stamps_s[DELAY_SAMPLES]
    around = [s for k, s in enumerate(stamps_s) if k != DELAY_SAMPLES]
    weights = np.zeros((len(_STENCILS), len(around)))
    for row, stencil in enumerate(_STENCILS):
        for i in stencil:
            weight = 1.0
            for j in stencil:
                if j != i:
                    weight *= (at - around[j]) / (around[i] - around[j])
            weights[row, i] = weight
    return weights


def _off_line(stamps: tuple[float, ...], rows: tuple[np.ndarray, ...]) -> np.ndarray:
    """(C,) of the middle one of three readings: its distance from the line through the other two."""
    share = (stamps[1] - stamps[0]) / (stamps[2] - stamps[0])
    return rows[1] - rows[0] - share * (rows[2] - rows[0])
