"""Make the ROS 2 wheels of this environment usable for building interface packages. Idempotent.

The message wheels' CMake export files name the Python and NumPy headers of the machine that built them; this points
them at this interpreter's. It can go when the wheels export relocatable paths.
"""
from __future__ import annotations

import re
import sys
import sysconfig
from pathlib import Path

import numpy

NUMPY_INCLUDE = re.compile(r"/opt/python/cp\d+-cp\d+/lib/python[\d.]+/site-packages/numpy/_core/include")
PYTHON_INCLUDE = re.compile(r"/opt/python/cp\d+-cp\d+/include/python[\d.]+")


def main() -> int:
    include = sysconfig.get_path("include")
    if not (Path(include) / "Python.h").exists():
        print(f"no Python.h in {include}: install the headers of this Python (Debian: python3-dev)", file=sys.stderr)
        return 1
    changed = 0
    for path in Path(sys.prefix).glob("share/*/cmake/*__rosidl_generator_pyExport.cmake"):
        old = path.read_text()
        new = PYTHON_INCLUDE.sub(include, NUMPY_INCLUDE.sub(numpy.get_include(), old))
        if new != old:
            path.write_text(new)
            changed += 1
    print(f"relocated {changed} CMake export files")
    return 0


if __name__ == "__main__":
    sys.exit(main())
