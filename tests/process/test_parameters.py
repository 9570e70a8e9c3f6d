"""Parameters out of range, of the wrong type or for files that are not there: refused by name, nothing falls over."""
import os
import subprocess
import sys

import pytest

from steadyhand_cli.injection import children
from steadyhand_ros.launch_runner import child_environment
from tests.support.graph import Graph, node

pytestmark = [pytest.mark.ros, pytest.mark.process]


def start(module, *words):
    return subprocess.run(
        [sys.executable, "-m", f"steadyhand_ros.{module}", "--ros-args", *words],
        env=children.environment(child_environment(os.environ)),
        capture_output=True, text=True, timeout=30,
    )


@pytest.mark.parametrize(
    ("module", "words", "named"),
    [
        ("sim_camera_node", ["-p", "rate_hz:=900.0"], "rate_hz out of range"),
        ("lifecycle_manager_node", ["-p", "retry_s:=-1.0"], "retry_s out of range"),
        ("lifecycle_manager_node", ["-p", "retry_s:=soon"], "retry_s"),
    ],
)
def test_a_node_that_is_built_at_once_ends_with_the_reason(module, words, named):
    done = start(module, *words)
    assert done.returncode == 2 and named in done.stderr and "Traceback" not in done.stderr


def test_a_lifecycle_node_stays_unconfigured_and_says_why(tmp_path):
    specs = [
        node("perception_node", model_repository=str(tmp_path / "nowhere")),
        node("guard_node", state_divider=99),
        node("lifecycle_manager_node", node_names="[perception_node, guard_node]", retry_s="0.2"),
    ]
    with Graph(specs, tmp_path / "log") as graph:
        for name, said in (("perception_node", "nowhere"), ("guard_node", "state_divider")):
            log = tmp_path / "log" / f"{name}.log"
            graph.until(lambda f=log, s=said: s in f.read_text(), 20, f"{name} to say why")
        assert not graph.session.ready.is_set()
        assert set(graph.supervisor.pids()) == {"perception_node", "guard_node", "lifecycle_manager_node"}  # none died
