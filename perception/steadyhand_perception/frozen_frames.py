"""Is the camera still looking? Frames in turn: the same bytes, bytes seen before, and one picture under ever new noise.

**What tells a frozen picture with fresh noise from a static scene.** A live frame of a static scene is s + n_t: the
scene and a noise that never comes again. A frozen one is s + n_0 + m_t: somebody's fresh noise m_t over the *one*
realisation n_0 that the sensor made last. So against a mean of the scene from before, live residuals of different
frames share nothing, and frozen ones share n_0: their covariance is the sensor's own variance v, whatever is added on
top, and is so in *every* part of the picture. Something that moved, or a change of light, also makes residuals that
frames share, but only where there is structure, and of any size. Hence, block by block of the second difference along
rows (which takes light and shading out):

    covariance of the residuals of the last frames / v of that block, by live differences of frames
        live: about the mean's own error, 0.07        frozen with noise: about 1

Alarm when it lies in a band about 1 in at least half of the blocks that show noise, and what is shared is as grainy as
noise: the same ratio of sums over 2 rows and 3 colours is no larger. A grained table in another light, or seen by a
camera that was touched, shares residuals of that size too, but of neighbours that change together. Added noise so
strong that three frames cannot show n_0 under it is a fault by itself: live noise does not grow many times over. While
either holds, nothing is learnt from the frames. Blocks without noise (clipped, or flattened by compression) have no
vote, nor have those in which something moves: their mean begins anew. A camera with too few voting blocks, or whose
noise is itself correlated in time (a denoising camera), leaves this check blind, and `blind` says so.

What pixels cannot tell: see docs/camera.md.
"""
from __future__ import annotations

import hashlib
from collections import deque
from dataclasses import dataclass

import numpy as np

from steadyhand.config import check_ranges, described
from steadyhand_perception.image_checks import ImageFault, edge_run

SAMPLED_PIXELS = 1 << 16  # of larger images, only every k-th row is looked at for noise
BLOCK_PX = 16


@dataclass(frozen=True)
class FrozenConfig:
    """Counts of frames and thresholds; figures in docs/camera.md."""

    frames: int = described(3, "frames in a row without anything new that make the camera frozen", "", 3, 30)
    memory_frames: int = described(900, "frames back in which a repeated one is recognised", "", 1, 100_000)
    learn_frames: int = described(30, "frames to learn the camera's noise from before it is judged", "", 16, 1000)
    mean_frames: int = described(8, "frames in the mean of the scene, and still ones before a block votes", "", 4, 100)
    moved: float = described(2.5, "residual over the noise above which a block has moved", "", 1.5, 100.0)
    ratio_low: float = described(0.5, "shared residual over the sensor's noise that is frozen, from", "", 0.3, 1.0)
    ratio_high: float = described(2.0, "the same, to", "", 1.0, 10.0)
    smooth_max: float = described(1.7, "ratio of sums of neighbours over that of pixels above which it is no noise", "",
                                  1.2, 5.0)
    share: float = described(0.5, "share of the voting blocks that must say so", "", 0.2, 1.0)
    noise_min_dn2: float = described(0.1, "variance below which a block shows no noise and has no vote", "", 0.0, 100.0)
    voting_share_min: float = described(0.25, "share of blocks that must have a vote", "", 0.05, 1.0)
    live_ratio_max: float = described(0.25, "the same ratio, live, above which it is blind", "", 0.1, 0.5)
    growth_max: float = described(25.0, "variance over the learnt one that is a fault", "", 4.0, 1e6)
    rows_share: float = described(0.10, "share of rows at an edge left over from the frame before", "", 0.01, 1.0)

    def __post_init__(self) -> None:
        check_ranges(self)


class FrozenFrames:
    """Feed `check` with every frame that can be looked at."""

    def __init__(self, config: FrozenConfig = FrozenConfig()) -> None:
        self.config = config
        self._noise = _FreshNoise(config)
        self._known: deque[bytes] = deque(maxlen=config.memory_frames)
        self._repeated = 0  # frames in a row whose bytes came before
        self._last: np.ndarray | None = None

    @property
    def blind(self) -> str:
        """Why fresh noise on a frozen picture cannot be seen now; empty when it can."""
        return self._noise.blind

    def check(self, image: np.ndarray) -> tuple[ImageFault, ...]:
        """Call once per frame, RGB (H, W, 3) uint8; the fault stands as long as nothing new comes."""
        image = np.ascontiguousarray(image)
        digest = hashlib.blake2b(image, digest_size=16).digest()
        again = bool(self._known) and digest == self._known[-1]
        seen_before = again or digest in self._known
        self._repeated = self._repeated + 1 if seen_before else 0
        last, self._last = self._last, image
        if not again:
            self._known.append(digest)
        if seen_before:  # what came before teaches nothing
            if self._repeated < self.config.frames - 1:
                return ()
            name = "frozen" if again else "replayed"
            detail = f"{self._repeated} frames in a row with bytes seen before, limit {self.config.frames - 1}"
            return (ImageFault(name, detail),)
        left = 0.0 if last is None or self.blind else _left_over_rows(image, last)
        if left > self.config.rows_share:
            return (ImageFault("half_written", f"{left:.0%} of the rows, at one edge, are those of the frame before"),)
        return self._noise.check(image)


def _left_over_rows(image: np.ndarray, last: np.ndarray) -> float:
    """Share of rows, from an edge, that equal those of the frame before, byte by byte; clipped rows do not count."""
    if image.shape != last.shape:
        return 0.0
    rows, before = image.reshape(len(image), -1), last.reshape(len(last), -1)
    same = (rows == before).all(axis=1)
    if not (same[0] or same[-1]):
        return 0.0
    return edge_run(same & (rows.min(axis=1) < 250) & (rows.max(axis=1) > 5)) / len(same)


class _FreshNoise:
    """The statistic of this module's docstring. Residuals are judged before they are learnt, `frames` frames later."""

    _DIFFERENCES = 15  # frame differences whose median is a block's noise: something that passes by does not move it

    def __init__(self, config: FrozenConfig) -> None:
        self.config = config
        self._shape: tuple[int, ...] = ()
        self.blind = "no frame yet"

    def _begin(self, shape: tuple[int, ...]) -> None:
        self._shape = shape
        self._waiting: deque[np.ndarray] = deque()  # fine structure of the newest frames, not yet learnt
        self._mean: np.ndarray | None = None
        self._still: np.ndarray | None = None  # frames in the mean of each block
        self._learnt: np.ndarray | None = None  # fine structure of the frame learnt last
        self._variances: deque[np.ndarray] = deque(maxlen=self._DIFFERENCES)
        self._live_ratios: list[float] = []
        self.blind = "learning the camera's noise"

    def check(self, image: np.ndarray) -> tuple[ImageFault, ...]:
        """`noise_on_frozen` or `noise`, as long as it lasts."""
        if image.shape != self._shape:
            self._begin(image.shape)
        if image.shape[0] < BLOCK_PX or image.shape[1] < BLOCK_PX + 2:
            self.blind = "the picture is too small"
            return ()
        self._waiting.append(_fine(image))
        if len(self._waiting) <= self.config.frames:
            return ()
        oldest = self._waiting.popleft()
        found = self._judge()
        if not found:
            self._learn(oldest)
        return found

    def _judge(self) -> tuple[ImageFault, ...]:
        """Faults of the waiting frames; none while learning or blind."""
        if self._mean is None or len(self._variances) < self._DIFFERENCES:
            return ()
        noise = np.median(np.stack(self._variances), axis=0)
        voting = (noise[0] > self.config.noise_min_dn2) & (self._still >= self.config.mean_frames)
        if voting.mean() < self.config.voting_share_min:
            self.blind = f"only {voting.mean():.0%} of the picture is still and shows noise"
            return ()
        residuals = [fine - self._mean for fine in self._waiting]
        n = len(residuals)
        total = residuals[0] + residuals[1]
        for residual in residuals[2:]:
            total += residual
        shared = (_power(total) - sum(map(_power, residuals))) / (n * (n - 1))
        ratio, of_sums = shared[:, voting] / np.maximum(noise, noise[0])[:, voting]
        if len(self._live_ratios) < self.config.learn_frames:
            self._live_ratios.append(float(np.median(ratio)))
            return ()
        live = float(np.median(self._live_ratios))
        if live > self.config.live_ratio_max:
            self.blind = f"the camera smooths its noise in time (ratio {live:.2f})"
            return ()
        self.blind = ""
        within = (ratio > self.config.ratio_low) & (ratio < self.config.ratio_high)
        share = float(within.mean())
        grainy = share > 0 and np.median(of_sums[within]) <= self.config.smooth_max * np.median(ratio[within])
        if share >= self.config.share and grainy:
            return (ImageFault("noise_on_frozen", f"{share:.0%} of the picture shows one noise under another"),)
        grown = _block_power(self._waiting[-1] - self._waiting[-2])[voting] / 2 / noise[0, voting]
        growth = float(np.quantile(grown, 0.2))  # noise is everywhere, motion is not
        if growth > self.config.growth_max:
            return (ImageFault("noise", f"noise of {growth:.0f} times the learnt variance"),)
        return ()

    def _learn(self, fine: np.ndarray) -> None:
        if self._mean is None:
            self._mean, self._still = fine.copy(), np.ones((fine.shape[0], fine.shape[2]))
        else:
            self._variances.append(_power(fine - self._learnt) / 2)
            residual = fine - self._mean
            noise = np.median(np.stack([v[0] for v in self._variances]), axis=0)
            moved = _block_power(residual) > self.config.moved * np.maximum(noise, self.config.noise_min_dn2)
            self._still = np.where(moved, 1, np.minimum(self._still + 1, 2 * self.config.mean_frames))
            weight = np.where(moved, 1.0, 1.0 / np.minimum(self._still, self.config.mean_frames)).astype(np.float32)
            self._mean += weight[:, None, :, None] * residual
        self._learnt = fine


def _fine(image: np.ndarray) -> np.ndarray:
    """Second differences along rows, scaled so that white noise keeps its variance, cut into blocks: (block rows,
    BLOCK_PX, block columns, BLOCK_PX * 3). What is left at the lower and right edge is not used."""
    stride = -(-image.shape[0] * image.shape[1] // SAMPLED_PIXELS)
    stride = min(stride, image.shape[0] // BLOCK_PX)
    rows, columns = image.shape[0] // stride // BLOCK_PX, (image.shape[1] - 2) // BLOCK_PX
    pixels = image[::stride][: rows * BLOCK_PX, : columns * BLOCK_PX + 2].astype(np.float32)
    fine = (2 * pixels[:, 1:-1] - pixels[:, :-2] - pixels[:, 2:]) / np.float32(np.sqrt(6))
    return fine.reshape(rows, BLOCK_PX, columns, BLOCK_PX * 3)


def _block_power(fine: np.ndarray) -> np.ndarray:
    """Mean square of every block."""
    return np.einsum("rhcx,rhcx->rc", fine, fine) / (fine.shape[1] * fine.shape[3])


def _power(fine: np.ndarray) -> np.ndarray:
    """(2, block rows, block columns): mean square of every block, and that of its sums over 2 rows and the 3 colours,
    scaled so that noise without any correlation has the same in both."""
    pairs = fine[:, ::2] + fine[:, 1::2]
    sums = pairs[..., ::3] + pairs[..., 1::3] + pairs[..., 2::3]
    return np.stack([_block_power(fine), _block_power(sums) / 6])
