"""`sim_cell`: speed of the simulated cell's physics and camera, and scripted grasps on physics alone."""
from __future__ import annotations

import argparse
import time

import numpy as np

from benchmarks import common
from steadyhand import cell
from steadyhand_sim.camera import Renderer
from steadyhand_sim.look import sample_look
from steadyhand_sim.main import scheduler_name
from steadyhand_sim.selfcheck import run_episode
from steadyhand_sim.world import World, WorldConfig


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seeds", type=int, default=40, help="scripted episodes")
    parser.add_argument("--cubes", type=int, default=5)
    parser.add_argument("--frames", type=int, default=300)


def run(args: argparse.Namespace) -> None:
    with common.alone(), World(WorldConfig(n_cubes=args.cubes)) as world:
        outcomes, resets = [], []
        start_cpu_s, simulated_s = time.process_time(), 0.0
        for seed in range(args.seeds):
            outcomes.append(run_episode(world, seed, args.cubes))
            simulated_s += outcomes[-1].simulated_s
        cpu_s = time.process_time() - start_cpu_s
        for seed in range(20):
            start = time.perf_counter()
            world.reset(seed)
            resets.append(time.perf_counter() - start)
        frames = _frames(world, args.frames)
    placed, attempted = sum(o.in_box for o in outcomes), sum(o.n_cubes for o in outcomes)
    path = common.write("sim_cell", args.frames, "otherwise idle machine", scheduler_name(), {
        "scripted_cubes_placed": placed, "scripted_cubes_attempted": attempted,
        "scripted_wilson_low": round(common.wilson(placed, attempted)[0], 4),
        "scripted_s_per_cube": round(simulated_s / attempted, 2),
        "physics_steps_per_cpu_s": round(simulated_s * world.config.physics_hz / cpu_s),
        "reset_ms_p50": round(float(np.median(resets)) * 1e3, 2),
        "frame_ms": common.percentiles_ms(frames),
    })
    print(path.read_text())


def _frames(world: World, n: int) -> list[float]:
    """Seconds per 160x160 frame with noise, under looks of the test split (4 of 5 with shadows)."""
    renderer, times = Renderer(), []
    world.step(cell.HOME_Q_RAD)
    for k in range(n):
        renderer.set_look(sample_look(k, "test"))
        snapshot = world.snapshot(seq=k)
        start = time.perf_counter()
        renderer.draw(snapshot)
        times.append(time.perf_counter() - start)
    renderer.close()
    return times
