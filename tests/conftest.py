"""Every test process gets its own slot before anything reads it. `STEADYHAND_TEST_CORE=1` leaves out the test files
whose imports this environment lacks (another Python without simulator, ROS or inference engine), and names them."""
import ast
import functools
import importlib.util
import os
from pathlib import Path

import pytest

from steadyhand.errors import DependencyMissing
from steadyhand.slot import current_slot
from tests.support.slots import worker_slot


@pytest.fixture(autouse=True, scope="session")
def own_slot(tmp_path_factory):
    """Slot, sockets and output of this worker."""
    os.environ["STEADYHAND_SLOT"] = str(worker_slot())
    os.environ.update(current_slot().environment())
    os.environ["STEADYHAND_OUT"] = str(tmp_path_factory.mktemp("out"))


ROOT = Path(__file__).parents[1]
OPTIONAL = ("pybullet", "rclpy", "onnxruntime", "tritonclient", "rosbags", "gymnasium", "torch", "rtde_receive", "cv2")
left_out = []


@functools.cache
def _named(path: Path) -> tuple[str, ...]:
    """Modules that a file names in its imports, late ones too; `from a import b` names a and a.b."""
    found = []
    for item in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(item, ast.Import):
            found += [a.name for a in item.names]
        elif isinstance(item, ast.ImportFrom) and item.level == 0:
            found += [item.module, *(f"{item.module}.{a.name}" for a in item.names)]
    return tuple(found)


@functools.cache
def _source(module: str) -> tuple[Path | None, str]:
    """The file of one of the project's own modules, and what it lacks where importing the package above it fails."""
    if not module.startswith(("steadyhand", "tests", "benchmarks", "policies")):
        return None, ""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, AttributeError):
        return None, ""
    except DependencyMissing as error:  # the package above it says so when it is imported
        return None, error.__cause__.name
    return (Path(spec.origin) if spec and spec.origin and spec.origin.endswith(".py") else None), ""


def _imports(path: Path, seen: set[Path]) -> set[str]:
    """Top-level names that a file imports, through the project's own modules."""
    if path in seen:
        return set()
    seen.add(path)
    found = set()
    for module in _named(path):
        source, lacking = _source(module)
        found |= {module.split(".")[0]} | ({lacking} if lacking else set())
        if source is not None:
            found |= _imports(source, seen)
    return found


def pytest_ignore_collect(collection_path, config):
    if os.environ.get("STEADYHAND_TEST_CORE") != "1" or collection_path.suffix != ".py":
        return None
    missing = {n for n in _imports(collection_path, set()) if n in OPTIONAL and importlib.util.find_spec(n) is None}
    if missing:
        left_out.append(f"{collection_path.name} (needs {', '.join(sorted(missing))})")
        return True
    return None


def pytest_collection_modifyitems(items):
    """Tests of real processes may be run up to twice more: on a shared machine another program may hold both cores for
    longer than the 40 ms of silence that must stop the arm, and then it stops, as it should. Reruns are reported."""
    for item in items:
        if item.get_closest_marker("process"):
            item.add_marker(pytest.mark.flaky(reruns=2))


def pytest_terminal_summary(terminalreporter):
    if left_out:
        terminalreporter.write_line(f"not on this Python: {'; '.join(left_out)}")
