"""The guard's memory is kept in RAM, so that no cycle waits for a page from the disk. Never a reason not to start.

Locked only when the kernel puts no limit on it: under a limit, an allocation that reaches it fails in the middle of a
cycle, which is worse than a page fault.
"""
from __future__ import annotations

import ctypes
import resource

LOCKED = "memory locked"
HEAP_BYTES = 32 << 20  # kept for numpy's temporaries: more than one cycle ever has at a time
_MCL_CURRENT, _MCL_FUTURE = 1, 2
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # mallopt(3)
_CAP_IPC_LOCK = 1 << 14


def may_lock() -> str:
    """Empty when this process may lock whatever it uses, else why not and what to do."""
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    if limit == resource.RLIM_INFINITY or _capabilities() & _CAP_IPC_LOCK:
        return ""
    return f"limit of {limit // 1024} kB: grant LimitMEMLOCK=infinity (systemd), or memlock unlimited in limits.conf"


def lock() -> str:
    """Lock this process's memory, now and in future, and fill the heap; LOCKED, or why not.

    Its stack needs no filling: what the imports have used is deeper than any cycle, and locked with the rest.
    """
    why = may_lock()
    if why:
        return f"memory not locked: {why}"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mlockall(_MCL_CURRENT | _MCL_FUTURE) != 0:
        return f"memory not locked: error {ctypes.get_errno()} of mlockall"
    # what is freed stays ours: nothing is given back to the kernel and fetched, page by page, in a later cycle
    libc.mallopt(_M_TRIM_THRESHOLD, -1)
    libc.mallopt(_M_MMAP_MAX, 0)
    ctypes.memset(ctypes.create_string_buffer(HEAP_BYTES), 1, HEAP_BYTES)
    return LOCKED


def _capabilities() -> int:
    try:
        with open("/proc/self/status") as file:
            return next(int(line.split()[1], 16) for line in file if line.startswith("CapEff:"))
    except (OSError, StopIteration, ValueError, IndexError):
        return 0
