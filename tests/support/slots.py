"""A slot of its own for each test process, so that parallel workers share no address, domain, port or file."""
import os

FIRST_TEST_SLOT = 20  # below: people and benchmarks


def worker_slot() -> int:
    """Slot of this pytest worker (pytest-xdist's number, else the first), shifted by the slot that pytest runs in."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
    base = int(os.environ.get("STEADYHAND_SLOT", "0"))
    return FIRST_TEST_SLOT + (2 * base + int(worker[2:])) % 20
