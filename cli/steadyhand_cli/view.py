"""Pictures of a run: scene snapshots are kept while it goes on and drawn after it, so that drawing never slows it."""
from __future__ import annotations

import dataclasses
import time
from pathlib import Path

import numpy as np
from PIL import Image

from steadyhand_sim.camera import CameraConfig, Renderer
from steadyhand_sim.scene_stream import SceneClient
from steadyhand_sim.snapshot import Snapshot

RECORD_HZ = 5.0
GIF_FRAMES = 240  # at most: a GIF must stay a few megabytes
GIF_FPS = 10
STRIP_FRAMES = 8
VIEW = CameraConfig(
    width=360, height=270, eye_m=(1.35, 0.75, 0.85), look_at_m=(0.35, 0.02, 0.15), vertical_fov_deg=42.0
)


class Recorder:
    """`tick` while the job runs, `close`, then `write`."""

    def __init__(self) -> None:
        self._client = SceneClient()
        self._next_s = 0.0
        self.snapshots: list[Snapshot] = []

    def tick(self) -> None:
        """Keep a snapshot when one is due."""
        now = time.monotonic()
        if now < self._next_s:
            return
        snapshot = self._client.latest()
        if snapshot is not None:
            self.snapshots.append(snapshot)
            self._next_s = now + 1.0 / RECORD_HZ

    def close(self) -> None:
        """Let go of the simulator's socket."""
        self._client.close()

    def write(self, folder: Path) -> list[Path]:
        """Draw what was kept: `run.gif` and `strip.png`. Returns what was written; nothing when nothing was kept."""
        if not self.snapshots:
            return []
        frames = draw(self.snapshots[:: max(1, -(-len(self.snapshots) // GIF_FRAMES))])
        gif, strip = folder / "run.gif", folder / "strip.png"
        images = [Image.fromarray(f).quantize(64) for f in frames]
        images[0].save(gif, save_all=True, append_images=images[1:], duration=1000 // GIF_FPS, loop=0, optimize=True)
        chosen = np.linspace(0, len(frames) - 1, min(STRIP_FRAMES, len(frames))).astype(int)
        Image.fromarray(tile([frames[k] for k in chosen], columns=4)).save(strip, optimize=True)
        return [gif, strip]


def draw(snapshots: list[Snapshot]) -> list[np.ndarray]:
    """Frames (H, W, 3) of snapshots, seen from the side as a visitor would."""
    renderer = Renderer(camera=VIEW)
    try:
        return [renderer.draw_clean(dataclasses.replace(s, camera="ok")) for s in snapshots]
    finally:
        renderer.close()


def tile(frames: list[np.ndarray], columns: int) -> np.ndarray:
    """Frames in rows of `columns`; a last short row is filled with white."""
    rows = [frames[k: k + columns] for k in range(0, len(frames), columns)]
    blank = np.full_like(frames[0], 255)
    return np.vstack([np.hstack(row + [blank] * (columns - len(row) if len(rows) > 1 else 0)) for row in rows])
