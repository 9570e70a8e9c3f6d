"""`perception_latency`: from the moment that a frame begins to be drawn until its objects have been published and received.

The main job runs meanwhile, with a camera of `--hz`: guard, simulator, Triton, agent and the policy share the cores with
perception. Measured by a subscriber of its own in this process: `header.stamp` of the objects is the capture time (the
renderer reads it before it draws), so drawing, transport of the image, checks, inference and transport of the objects are
all inside. One machine, one clock.
"""
from __future__ import annotations

import argparse
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import yaml
from sensor_msgs.msg import CameraInfo
from steadyhand_interfaces.msg import ObjectPoses

from benchmarks import common
from steadyhand_cli.job import JobConfig, run_job
from steadyhand_cli.session import Session
from steadyhand_ros import qos

SETTLE_S = 2.0  # after the first objects: models are loaded, caches warm


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this benchmark."""
    parser.add_argument("--runs", type=int, default=5, help="main jobs, about 40 s each")
    parser.add_argument("--hz", type=float, default=30.0, help="frames a second of the simulated camera")
    parser.add_argument("--first-seed", type=int, default=4000)


def run(args: argparse.Namespace) -> None:
    """Run the jobs and write `perception_latency.json`."""
    jobs, latency_s, inference_ms, drawn, seconds = [], [], [], 0, 0.0
    with common.alone(), tempfile.TemporaryDirectory() as folder:
        arguments = (("params", str(parameters(Path(folder), args.hz))),)
        for seed in range(args.first_seed, args.first_seed + args.runs):
            with Listener() as listener:
                jobs.append(run_job(JobConfig(seed=seed, launch_arguments=arguments)))
            rows, frames = listener.judged()
            latency_s += [row[1] for row in rows]
            inference_ms += [row[2] for row in rows]
            drawn += frames
            seconds += rows[-1][0] - rows[0][0]
            placed = f"{jobs[-1]['cubes_placed']} of {jobs[-1]['cubes_attempted']}"
            print(f"seed {seed}: {len(rows)} images, {common.percentiles_ms([r[1] for r in rows])}, {placed}", flush=True)
    metrics = {
        **common.percentiles_ms(latency_s), "hz": round(len(latency_s) / seconds, 2), "camera_hz": args.hz,
        "drawn": drawn, "inference_p50_ms": round(float(np.median(inference_ms)), 2),
        "inference_p99_ms": round(float(np.quantile(inference_ms, 0.99)), 2),
        "cubes_placed": sum(j["cubes_placed"] for j in jobs),
        "cubes_attempted": sum(j["cubes_attempted"] for j in jobs),
    }
    load = "the whole graph clears the tray; rendered camera"
    print(common.write("perception_latency", len(latency_s), load, "SCHED_OTHER", metrics).read_text())


def parameters(folder: Path, hz: float) -> Path:
    """The nodes' parameters with another rate of the camera."""
    values = yaml.safe_load((common.ROOT / "config" / "ur5.yaml").read_text())
    values["/**/sim_camera_node"]["ros__parameters"]["rate_hz"] = hz
    file = folder / "ur5.yaml"
    file.write_text(yaml.safe_dump(values))
    return file


class Listener:
    """Context manager: writes down when objects arrive, and how many frames were drawn."""

    def __init__(self) -> None:
        self._rows: list[tuple[float, float, float]] = []  # arrival (steady), latency s, inference ms
        self._frames: list[float] = []
        self._lock = threading.Lock()
        self._session: Session | None = None

    def __enter__(self) -> Listener:
        self._session = Session("perception_latency")
        node = self._session.node
        node.create_subscription(ObjectPoses, "perception/objects", self._on_objects, qos.NEWEST)
        node.create_subscription(CameraInfo, "camera/camera_info", self._on_frame, qos.NEWEST)
        return self

    def __exit__(self, *exc) -> None:
        self._session.__exit__(*exc)

    def _on_objects(self, m: ObjectPoses) -> None:
        latency_s = time.time() - (m.header.stamp.sec + m.header.stamp.nanosec * 1e-9)
        with self._lock:
            self._rows.append((time.monotonic(), latency_s, m.inference_ms))

    def _on_frame(self, _: CameraInfo) -> None:
        with self._lock:
            self._frames.append(time.monotonic())

    def judged(self) -> tuple[list[tuple[float, float, float]], int]:
        """Rows after settling, and the number of frames drawn in that time. RuntimeError when nothing was seen."""
        with self._lock:
            rows, frames = list(self._rows), list(self._frames)
        if not rows:
            raise RuntimeError("no objects were published: see the logs of the run")
        rows = [row for row in rows if row[0] > rows[0][0] + SETTLE_S]
        if len(rows) < 2:
            raise RuntimeError("objects were published for less than 2 s: see the logs of the run")
        return rows, sum(rows[0][0] <= at_s <= rows[-1][0] for at_s in frames)
