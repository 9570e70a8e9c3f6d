"""Every call of the table of the stock `ur_rtde` clients has its effect: `benchmarks/_conformance.py`, in its order."""
import json
import subprocess
import sys

import pytest

from benchmarks import common
from benchmarks._conformance import BOTH, TABLE, calls_of

pytest.importorskip("rtde_control")
pytestmark = pytest.mark.process


@pytest.mark.parametrize("generation", BOTH)
def test_the_calls_of_the_stock_clients_have_their_effect(generation):
    """In a process of its own: a stock client that loses its connection may end its process."""
    command = [sys.executable, "-m", "benchmarks._conformance", generation]
    done = subprocess.run(command, cwd=common.ROOT, capture_output=True, text=True, timeout=1200)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"call"')]
    failed = {row["call"]: row["failure"] for row in rows if not row["ok"]}
    assert not failed
    assert [row["call"] for row in rows] == [entry.name for entry in calls_of(generation)], done.stderr[-2000:]


def test_the_table_names_each_call_once_and_enough_of_them():
    names = [entry.name for entry in TABLE]
    assert len(names) == len(set(names)) >= 40
