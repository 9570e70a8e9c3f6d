"""`inspection`: decisions on scratched cubes, half of them defective, by one image each, through the runtime.

Cubes in the tray, apart, nudged and touching, with clutter, under test light; the arm is out of the way. A cube that
perception misses counts as decided wrongly. Rejected is what is scratched with a probability of at least one half, as
calibrated on the validation images.
"""
from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from benchmarks import _perception as shared
from benchmarks import common
from policies.training.perception.metrics import inspection
from steadyhand.errors import ContractError
from steadyhand_perception.tray_poses import TrayPoses

add_arguments = shared.add_arguments


def run(args: argparse.Namespace) -> Path:
    poses = TrayPoses(args.repository)
    if not poses.contract.has_heads:
        raise ContractError(f"{args.repository}: this model does not tell of scratches; train and export a new one")
    images, count = shared.test_set(args, "inspection")
    load = os.getloadavg()[0]
    results = [shared.matched(images, k, s.objects) for k, s in enumerate(shared.look(poses, images, count))]
    metrics = inspection(results) | {"model_sha256": poses.contract.model_sha256}
    print(json.dumps(metrics, indent=1))
    return common.write("inspection", metrics["items"], f"1-minute load {load:.1f}", "SCHED_OTHER", metrics)
