"""A file system of a few megabytes that can really be full: a tmpfs, where this user may mount one."""
import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def small_disk(folder: Path, size_mb: int) -> Iterator[Path]:
    """Mounted at `folder` while the context lasts; the test is skipped where mounting is not permitted."""
    folder.mkdir()
    options = f"size={size_mb}m,mode=0777"
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], capture_output=True, timeout=20)
    if mounted.returncode != 0:
        pytest.skip(f"no tmpfs of its own for this user ({os.getuid()})")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True, timeout=20)


def fill(folder: Path) -> Path:
    """A file that leaves not one byte; delete it to make room."""
    path = folder / "ballast"
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(b"\0" * 65536):
            pass
    return path
