"""What an act leaves behind when its cell ends in the middle of it: nothing frozen, nothing running."""
import contextlib
import os
import subprocess
import sys
import time

import pytest

from steadyhand_cli.injection.acts import Operators, perform
from steadyhand_cli.injection.table import Freeze, Load, Operator


class Graph:
    """What `perform` asks of a running graph: one process, and further ones."""

    def __init__(self):
        self.children = []

    def helper(self, *command):
        self.children.append(subprocess.Popen([sys.executable, *command]))
        return self.children[-1]

    def pid(self, name):
        return self.helper("-c", "import time; time.sleep(60)").pid


@pytest.fixture
def graph():
    graph = Graph()
    yield graph
    for child in graph.children:
        child.kill()
        child.wait(5.0)


def stopped_or_continued(pid, options, limit_s=5.0):
    """The process's next change of that kind; 0 when there is none in time."""
    end_s, changed = time.monotonic() + limit_s, 0
    while not changed and time.monotonic() < end_s:
        changed = os.waitpid(pid, options | os.WNOHANG)[0]
        time.sleep(0.01)
    return changed


def test_a_frozen_process_goes_on_when_its_cell_ends_early(graph):
    with contextlib.closing(perform(graph, Freeze("guard", 60.0), None)) as course:
        assert next(course) <= time.monotonic()
        pid = graph.children[0].pid
        assert stopped_or_continued(pid, os.WUNTRACED) == pid
    assert stopped_or_continued(pid, os.WCONTINUED) == pid


def test_load_ends_when_its_cell_ends_early(graph):
    with contextlib.closing(perform(graph, Load(60.0), None)) as course:
        next(course)
        assert len(graph.children) == os.cpu_count() and all(c.poll() is None for c in graph.children)
    assert all(c.poll() is not None for c in graph.children)


@pytest.mark.parametrize("early", [False, True])
def test_a_frozen_operators_link_goes_on_when_the_fault_is_over_or_its_cell_ends_early(graph, early):
    operators = Operators.__new__(Operators)  # without the ROS session that other acts need
    operators.link = graph.helper("-c", "import time; time.sleep(60)")
    with contextlib.closing(perform(graph, Operator("link_frozen"), operators)) as course:
        next(course)
        assert stopped_or_continued(operators.link.pid, os.WUNTRACED) == operators.link.pid
        for _ in () if early else course:
            time.sleep(0.01)
        if not early:
            assert stopped_or_continued(operators.link.pid, os.WCONTINUED) == operators.link.pid
    if early:
        assert stopped_or_continued(operators.link.pid, os.WCONTINUED) == operators.link.pid
