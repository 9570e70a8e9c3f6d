"""What the processes of this folder inherit."""
from __future__ import annotations

import os
import sys


def environment(given: dict[str, str] | None = None) -> dict[str, str]:
    """`given`, or this process's own, with the import path of this process: a checkout's children use the checkout."""
    return dict(os.environ if given is None else given) | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
