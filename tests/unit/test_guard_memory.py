"""The guard's memory: locked in a process that may, named in one that may not, and never under a limit."""
import ctypes
import re
import resource
import subprocess
import sys

import pytest

from steadyhand_firmware_bridge.guard import memory

SCRIPT = """
import ctypes, resource, sys
from steadyhand_firmware_bridge.guard import memory
{before}
print(memory.lock())
print(open("/proc/self/status").read())
"""


def locked(before=""):
    """(what `lock` said, the locked share of its memory) in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(before=before)], capture_output=True, text=True, timeout=60,
        env={"PYTHONPATH": ":".join(p for p in sys.path if p)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    kb = {name: int(n) for name, n in re.findall(r"(Vm\w+):\s+(\d+) kB", done.stdout)}
    assert kb["VmSize"] * 1024 > memory.HEAP_BYTES
    return done.stdout.splitlines()[0], kb["VmLck"] / kb["VmSize"]


@pytest.mark.skipif(memory.may_lock() != "", reason="this user may not lock its memory")
def test_all_of_it_is_locked_where_that_is_permitted():
    said, share = locked()
    assert said == memory.LOCKED and share > 0.95  # all but a few pages of the kernel's


def test_under_a_limit_nothing_is_locked_and_the_limit_is_named(monkeypatch):
    monkeypatch.setattr(memory, "_capabilities", lambda: 0)
    monkeypatch.setattr(resource, "getrlimit", lambda which: (8 << 20, 8 << 20))
    assert memory.lock().startswith("memory not locked: limit of 8192 kB: grant LimitMEMLOCK=infinity")


def test_a_kernel_that_refuses_is_named(monkeypatch):
    class Refusing:
        def mlockall(self, flags):
            ctypes.set_errno(12)
            return -1

    monkeypatch.setattr(memory, "may_lock", lambda: "")
    monkeypatch.setattr(ctypes, "CDLL", lambda *a, **k: Refusing())
    assert memory.lock() == "memory not locked: error 12 of mlockall"
