"""`python -m benchmarks [NAME ...]`: run benchmarks by name; without a name all but the LONG ones, in turn."""
from __future__ import annotations

import argparse
import importlib
import itertools
import sys
from pathlib import Path

NAMES = sorted(p.stem for p in Path(__file__).parent.glob("*.py") if p.stem != "common" and not p.stem.startswith("_"))

# from some minutes to many hours: only by name
LONG = {
    "clock_steps", "dst", "emulator_conformance", "env_experts", "fault_matrix", "filter_success", "freshness", "fuzz",
    "inspection", "main_job", "mtbf", "perception", "perception_ablation", "perception_latency", "policy_failover",
    "policy_peers", "policy_success", "recovery", "resume", "rtde_stream", "smoothness", "stop_latency",
}  # fmt: skip


def main(argv: list[str]) -> int:
    """Names first; options after a single name go to that benchmark. 2 for wrong use, before anything has been run."""
    names = list(itertools.takewhile(lambda a: not a.startswith("-"), argv))
    options = argv[len(names):]
    unknown = [n for n in names if n not in NAMES]
    if unknown or (options and len(names) != 1 and options != ["--help"]):
        wrong = f"benchmark {unknown[0]!r}" if unknown else f"{options[0]}: options follow a single name"
        print(f"{wrong}; known are {', '.join(NAMES)}", file=sys.stderr)
        return 2
    if options and not names:
        print(f"{__doc__}\nNAME: {', '.join(NAMES)}\nLONG: {', '.join(sorted(LONG))}")
        return 0
    for name in names or [n for n in NAMES if n not in LONG]:
        module = importlib.import_module(f"benchmarks.{name}")
        parser = argparse.ArgumentParser(prog=f"python -m benchmarks {name}", description=module.__doc__)
        module.add_arguments(parser)
        arguments = parser.parse_args(options)
        print(f"== {name}", flush=True)
        module.run(arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
