"""`freshness`: is every way for an image to be worthless detected and named, and never a good one refused?

False alarms: an hour of static scenes at 30 Hz (108,000 frames), a third of them real desk images, the rest rendered,
all under the simulated sensor's noise, each scene from a fresh start; and, counted apart, frames of the policy picking
and placing, with the arm's joints as a witness. Faults: each kind, in `trials` scenes, breaks in after three seconds of
good frames; it counts as detected when every trial names it from first detection to its end.

`worst_ms` is from the arrival of the first bad image (silence: of the last good one) to the alarm, in the stream's
time, plus the slowest check. Interrupted, it goes on scene by scene and trial by trial.
"""
from __future__ import annotations

import argparse
import hashlib
import inspect
import io
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks import common
from benchmarks._kept import Kept
from policies.training.perception.scenes import sample_scene
from steadyhand import kinematics
from steadyhand_perception import arm_witness, frozen_frames, image_age, image_checks, image_gate
from steadyhand_perception.geometry import PinholeCamera
from steadyhand_perception.image_gate import Frame, ImageGate
from steadyhand_policies import repository
from steadyhand_policies.local_onnx import LocalOnnxPolicy
from steadyhand_sim import camera as sim_camera
from steadyhand_sim.camera import CameraConfig, Renderer, sensor_noise
from steadyhand_sim.envs.pick_place import PickPlaceEnv
from steadyhand_sim.look import Look, sample_look
from steadyhand_sim.snapshot import Snapshot

SIM, K = CameraConfig(), CameraConfig().camera_matrix
SHAPE = (SIM.height, SIM.width, 3)
CAMERA = PinholeCamera(
    SIM.width, SIM.height, K[0, 0], K[1, 1], K[0, 2], K[1, 2], tuple(map(tuple, SIM.pose_base_link_camera))
)
PERIOD_S = 1 / 30
TIMER_S = 0.1  # of the node, which looks for silence
LEARNT, LASTS = 90, 60  # frames before a fault and of it
EPISODES_A_LOOK = 5
DESK = common.ROOT / "tests" / "data" / "desk_board"
Stream = Callable[[int], Frame]  # frame number n of a fault -> what arrives


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--frames", type=int, default=108_000, help="of static scenes")
    parser.add_argument("--scenes", type=int, default=36)
    parser.add_argument("--episodes", type=int, default=40, help="of moving scenes, about a hundred frames each")
    parser.add_argument("--trials", type=int, default=10, help="of each kind of fault")
    parser.add_argument("--fresh", action="store_true", help="forget an interrupted run")


def desk_image(k: int) -> np.ndarray:
    """A real image, its middle, from near or from far."""
    paths = sorted(DESK.glob("*.jpg"))
    with Image.open(paths[k % len(paths)]) as picture:
        high = SHAPE[0] * (1 + k // len(paths) % 2)
        small = picture.convert("RGB").resize((high * picture.width // picture.height, high))
        left, top = (small.width - SHAPE[1]) // 2, (high - SHAPE[0]) // 2
        return np.asarray(small.crop((left, top, left + SHAPE[1], top + SHAPE[0])))


class Scene:
    """A static scene: one picture without noise, and a sensor. `good(n)` is a live frame's pixels."""

    def __init__(self, k: int, renderer: Renderer):
        self.rng, self.look = np.random.default_rng([k, 11]), sample_look(k, "test")
        self.real = k % 3 == 2
        if self.real:
            self.clean = desk_image(k // 3)
        else:
            scene = sample_scene(self.rng)
            renderer.set_look(self.look)
            self.clean = renderer.draw_clean(
                Snapshot(0, 0.0, scene.q_rad, scene.gripper_width_m, scene.position_m, scene.quaternion_xyzw)
            )

    def live(self) -> np.ndarray:
        return sensor_noise(self.clean, self.look, self.rng)

    def with_noise_of_its_own(self, image: np.ndarray, times: float) -> np.ndarray:
        """Fresh noise like the sensor's, so many times as strong, on an image that has some."""
        signal = image.astype(np.float32)
        sigma = times * np.sqrt(signal * (255.0 / self.look.full_well_electrons) + self.look.read_noise_dn**2)
        noisy = signal + sigma * self.rng.standard_normal(image.shape, dtype=np.float32)
        return np.clip(np.rint(noisy), 0, 255).astype(np.uint8)


def raw(image: np.ndarray, stamp_s: float, **changes) -> Frame:
    given = {"height_px": image.shape[0], "width_px": image.shape[1], "step_bytes": 3 * image.shape[1]} | changes
    return Frame(given.pop("data", image.tobytes()), given.pop("encoding", "rgb8"), stamp_s, **given)


def packed(image: np.ndarray, share: float) -> bytes:
    data = io.BytesIO()
    Image.fromarray(image).save(data, "JPEG")
    return data.getvalue()[: int(share * data.tell())]


def faults(scene: Scene | None, before: list[np.ndarray], start_s: float) -> dict[str, tuple[str, Stream]]:
    """Kind -> (name it must get, stream), after the good frames `before`; frame n arrives at start_s + n periods."""
    frozen = before[-1]

    def at(n: int) -> float:
        return start_s + n * PERIOD_S

    def pixels(make) -> Stream:
        return lambda n: raw(make(n), at(n))

    def dimmed(n: int) -> np.ndarray:
        return sensor_noise(scene.clean // 50, scene.look, scene.rng)

    def glaring(n: int) -> np.ndarray:
        return sensor_noise(np.full_like(scene.clean, 255), Look(exposure=1.3), scene.rng)

    def cover(n: int) -> np.ndarray:
        return sensor_noise(np.full_like(scene.clean, 70), scene.look, scene.rng)

    def cut(n: int) -> np.ndarray:
        image = scene.live()
        image[SHAPE[0] * 6 // 10 :] = 0
        return image

    last = [frozen]

    def torn(n: int) -> np.ndarray:
        image = scene.live()
        image[SHAPE[0] // 2 :] = last[0][SHAPE[0] // 2 :]
        last[0] = image
        return image

    kinds = {
        "empty": ("empty", lambda n: raw(scene.live(), at(n), data=b"")),
        "zero size": ("empty", lambda n: raw(scene.live(), at(n), height_px=0, width_px=0)),
        "cut-off message": ("size", lambda n: raw(scene.live(), at(n), data=scene.live().tobytes()[:40_000])),
        "half written, blank": ("half_written", pixels(cut)),
        "half written, left over": ("half_written", pixels(torn)),
        "half a JPEG": ("half_written", lambda n: Frame(packed(scene.live(), 0.6), "jpeg", at(n), compressed=True)),
        "no JPEG": ("undecodable", lambda n: Frame(scene.rng.bytes(900), "jpeg", at(n), compressed=True)),
        "wrong encoding": ("encoding", lambda n: raw(scene.live(), at(n), encoding="yuv422_yuy2")),
        "16-bit depth": ("depth", lambda n: raw(scene.live(), at(n), encoding="16UC1")),
        "wrong size": ("shape", pixels(lambda n: scene.live()[::2, ::2])),
        "dark": ("dark", pixels(dimmed)),
        "saturated": ("saturated", pixels(glaring)),
        "covered lens": ("covered", pixels(cover)),
        "snow": ("noise", pixels(lambda n: scene.rng.integers(0, 256, SHAPE, dtype=np.uint8))),
        "frozen": ("frozen", pixels(lambda n: frozen)),
        "replayed": ("replayed", pixels(lambda n: before[n - LASTS])),
        "late": ("late", lambda n: raw(scene.live(), at(n) - 0.5)),
        "clock ahead": ("early", lambda n: raw(scene.live(), at(n) + 0.5)),
        "one stamp": ("stamp_order", lambda n: raw(scene.live(), start_s)),
    }
    for times in (0.3, 1.0, 4.0):
        kinds[f"frozen with noise x {times}"] = (
            "noise_on_frozen", pixels(lambda n, times=times: scene.with_noise_of_its_own(frozen, times))
        )
    return kinds


def good_frames(scene: Scene, gate: ImageGate, n: int) -> Iterator[tuple[np.ndarray, list[str], float]]:
    """Pixels, names of alarms, and seconds of the check, of n good frames."""
    for k in range(n):
        image, stamp_s = scene.live(), 1.0 + k * PERIOD_S
        start = time.perf_counter()
        _, found = gate.admit(raw(image, stamp_s), stamp_s + 0.02)
        yield image, [fault.name for fault in found], time.perf_counter() - start


def static(k: int, frames: int, renderer: Renderer) -> dict:
    """Alarms of one scene in which nothing happens."""
    scene, gate, alarms, slowest = Scene(k, renderer), ImageGate(CAMERA), Counter(), 0.0
    for _, names, took_s in good_frames(scene, gate, frames):
        alarms.update(names)
        slowest = max(slowest, took_s)
    return {
        "scene": k, "frames": frames, "alarms": dict(alarms), "blind": gate.frozen.blind, "slowest_ms": slowest * 1e3,
    }


def moving(k: int, renderer: Renderer) -> dict:
    """Alarms while the policy picks and places five times under one look."""
    policy, env, gate = LocalOnnxPolicy(repository.policy_files()).open(), PickPlaceEnv(), ImageGate(CAMERA)
    renderer.set_look(sample_look(k, "test"))
    rng, frames, alarms = np.random.default_rng([k, 12]), 0, Counter()
    for episode in range(EPISODES_A_LOOK):
        observation, _ = env.reset(seed=2000 + EPISODES_A_LOOK * k + episode)
        over = False
        while not over:
            observation, _, terminated, truncated, _ = env.step(policy.infer(observation, "o", 5.0).actions)
            over = terminated or truncated
            seen, stamp_s = env.snapshot(k), 1.0 + frames * 0.05
            image = sensor_noise(renderer.draw_clean(seen), renderer.look, rng)
            found = gate.admit(raw(image, stamp_s), stamp_s + 0.02, seen.q_rad)[1]
            alarms.update(fault.name for fault in found)
            frames += 1
    env.close()
    return {"moving": k, "frames": frames, "alarms": dict(alarms), "blind": gate.frozen.blind}


def trial(kind: str, t: int, renderer: Renderer) -> dict:
    """One fault in one scene: after how long it was named, and whether it then stood until its end."""
    scene, gate = Scene(1000 + t, renderer), ImageGate(CAMERA)
    before, early = [], 0
    if kind != "frozen from the start":
        for image, names, _ in good_frames(scene, gate, LEARNT):
            before.append(image)
            early += len(names)
    start_s = 1.0 + LEARNT * PERIOD_S
    if kind == "silence":
        arrived_s = start_s - PERIOD_S + 0.02
        ticks = arrived_s + TIMER_S * np.arange(1, 40)  # the timer's worst phase: just before the image
        said = [any(f.name == "stale" for f in gate.silence(t, arrived_s)) for t in ticks]
        at_s = ticks - arrived_s
    elif kind == "frozen from the start":
        said, at_s = unmoved(scene, gate), PERIOD_S * np.arange(LASTS)
    else:
        expected, stream = faults(scene, before, start_s)[kind]
        said, at_s = [], PERIOD_S * np.arange(LASTS)
        for n in range(LASTS):
            said.append(expected in [f.name for f in gate.admit(stream(n), start_s + n * PERIOD_S + 0.02)[1]])
    first = said.index(True) if True in said else None
    return {
        "kind": kind, "trial": t, "ms": None if first is None else float(at_s[first] * 1e3),
        "held": first is not None and all(said[first:]), "early": early,
    }


def unmoved(scene: Scene, gate: ImageGate) -> list[bool]:
    """A picture frozen before it was first seen, with fresh noise, and an arm that begins to move at 0.15 m/s."""
    frozen, said, q_rad = scene.live(), [], np.array([0, -1.6, 1.8, -1.8, -1.57, 0])
    for n in range(-LEARNT, LASTS):
        q_rad = kinematics.ik_near(kinematics.tool_down(0.45 + 0.005 * min(max(n, 0), 40), -0.1, 0.15, 0.0), q_rad)
        stamp_s = 10.0 + n * PERIOD_S
        found = gate.admit(raw(scene.with_noise_of_its_own(frozen, 1.0), stamp_s), stamp_s + 0.02, q_rad)[1]
        said.append("unmoved" in [f.name for f in found])
    assert not any(said[:LEARNT]), "before the arm moved"
    return said[LEARNT:]


KINDS = ("silence", "frozen from the start", *faults(None, [np.zeros(SHAPE, np.uint8)], 0.0))


def run(args: argparse.Namespace) -> None:
    modules = (arm_witness, frozen_frames, image_age, image_checks, image_gate, sim_camera, sys.modules[__name__])
    text = "".join(map(inspect.getsource, modules)) + f"{args.frames} {args.scenes}"
    kept = Kept("freshness-blocks", hashlib.sha256(text.encode()).hexdigest()[:16], args.fresh)
    done = {(line.get("kind"), line.get("trial"), line.get("scene"), line.get("moving")) for line in kept.lines}
    renderer = Renderer()
    try:
        for kind in KINDS:
            for t in range(args.trials):
                if (kind, t, None, None) not in done:
                    kept.add(trial(kind, t, renderer))
        for k in range(args.scenes):
            if (None, None, k, None) not in done:
                kept.add(static(k, args.frames // args.scenes, renderer))
                print(f"scene {k}: {kept.lines[-1]}", flush=True)
        for k in range(args.episodes // EPISODES_A_LOOK):
            if (None, None, None, k) not in done:
                kept.add(moving(k, renderer))
                print(f"moving {k}: {kept.lines[-1]}", flush=True)
    finally:
        renderer.close()
    report(kept.lines, args)


def report(lines: list[dict], args: argparse.Namespace) -> Path:
    """Write the figures of a whole run."""
    scenes = [line for line in lines if "scene" in line][: args.scenes]
    kinds = {kind: [x for x in lines if x.get("kind") == kind][: args.trials] for kind in KINDS}
    good = {kind for kind, found in kinds.items() if found and all(x["held"] for x in found)}
    slowest_ms = max(s["slowest_ms"] for s in scenes)
    alarms = sum((Counter(s["alarms"]) for s in scenes), Counter())
    worst = {kind: max((x["ms"] for x in found if x["ms"] is not None), default=None) for kind, found in kinds.items()}
    moved = [line for line in lines if "moving" in line][: args.episodes // EPISODES_A_LOOK]
    metrics = {
        "faults": len(KINDS), "detected": len(good), "missed": sorted(set(KINDS) - good), "trials_each": args.trials,
        "false_alarms": sum(alarms.values()) + sum(x["early"] for found in kinds.values() for x in found),
        "false_alarms_by_name": dict(alarms), "static_frames": sum(s["frames"] for s in scenes),
        "moving_frames": sum(m["frames"] for m in moved),
        "moving_alarms": sum(sum(m["alarms"].values()) for m in moved),
        "moving_alarms_by_name": dict(sum((Counter(m["alarms"]) for m in moved), Counter())),
        "worst_ms": round(max(ms for ms in worst.values() if ms is not None) + slowest_ms, 1),
        "worst_ms_by_kind": {kind: None if ms is None else round(ms, 1) for kind, ms in worst.items()},
        "slowest_check_ms": round(slowest_ms, 2), "scenes": len(scenes),
        "real_scenes": sum(s["scene"] % 3 == 2 for s in scenes),
        "scenes_blind_to_noise_on_frozen": sum(bool(s["blind"]) for s in scenes),
    }
    path = common.write("freshness", metrics["static_frames"], "one process", "SCHED_OTHER", metrics)
    told = ("faults", "detected", "missed", "false_alarms", "static_frames", "moving_alarms", "worst_ms")
    print({name: metrics[name] for name in told})
    return path
