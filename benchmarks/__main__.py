"""`python -m benchmarks [NAME ...]`: run benchmarks by name; without a name all but the LONG ones, in turn."""
from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

NAMES = sorted(
    p.stem for p in Path(__file__).parent.glob("*.py") if p.stem not in ("__init__", "__main__", "common") and not p.stem.startswith("_")
)

LONG = {"dst", "fault_matrix", "fuzz", "main_job", "mtbf", "stop_latency"}  # from half an hour to many: only by name


def main(argv: list[str]) -> int:
    """Options after a single name go to that benchmark."""
    names = [a for a in argv if not a.startswith("-")][:1] if any(a.startswith("-") for a in argv) else argv
    for name in names or [n for n in NAMES if n not in LONG]:
        if name not in NAMES:
            print(f"benchmark {name!r}: known are {', '.join(NAMES)}", file=sys.stderr)
            return 2
        module = importlib.import_module(f"benchmarks.{name}")
        parser = argparse.ArgumentParser(prog=f"python -m benchmarks {name}", description=module.__doc__)
        module.add_arguments(parser)
        rest = argv[argv.index(name) + 1:] if len(names) == 1 and name in argv else []
        print(f"== {name}", flush=True)
        module.run(parser.parse_args(rest))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
