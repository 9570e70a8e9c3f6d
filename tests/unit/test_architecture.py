"""Imports point one way: core <- domain packages (not one another) <- steadyhand_ros <- CLI and tests."""
import ast
import functools
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOMAINS = {
    "steadyhand_policies": "policies/steadyhand_policies",
    "steadyhand_firmware_bridge": "firmware_bridge/steadyhand_firmware_bridge",
    "steadyhand_sim": "sim/steadyhand_sim",
    "steadyhand_calibration": "calibration/steadyhand_calibration",
    "steadyhand_perception": "perception/steadyhand_perception",
    "steadyhand_motion": "motion/steadyhand_motion",
}
FOLDERS = {
    "steadyhand": "steadyhand",
    **DOMAINS,
    "steadyhand_ros": "ros2_ws/src/steadyhand_ros/steadyhand_ros",
    "steadyhand_cli": "cli/steadyhand_cli",
}
ROS = {
    "rclpy", "std_msgs", "sensor_msgs", "geometry_msgs", "nav_msgs", "nav2_msgs", "lifecycle_msgs",
    "steadyhand_interfaces", "launch",
}
CORE_THIRD_PARTY = {"numpy", "scipy", "ruckig", "filterpy", "msgpack", "jsonschema"}
IO_MODULES = {"socket", "threading", "subprocess", "multiprocessing", "time", "asyncio"}
OURS = set(FOLDERS)


@functools.cache
def imports(path: Path) -> set[str]:
    """Top-level names imported anywhere in a file, late imports too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add(node.module.split(".")[0])
    return found


def files(package: str) -> list[Path]:
    found = sorted((ROOT / FOLDERS[package]).rglob("*.py"))
    assert found, f"no files in {FOLDERS[package]}"
    return found


def forbidden(package: str) -> set[str]:
    if package == "steadyhand":
        return (OURS - {"steadyhand"}) | ROS | IO_MODULES
    if package in DOMAINS:
        return (OURS - {"steadyhand", package}) | ROS
    if package == "steadyhand_ros":
        return {"steadyhand_cli"}
    return set()


@pytest.mark.parametrize("package", FOLDERS)
def test_imports_point_one_way(package):
    wrong = {
        f"{path.relative_to(ROOT)} imports {name}"
        for path in files(package)
        for name in imports(path) & forbidden(package)
    }
    assert wrong == set()


def test_core_uses_only_its_libraries():
    import sys

    allowed = set(sys.stdlib_module_names) | CORE_THIRD_PARTY | {"steadyhand"}
    wrong = {f"{p.name} imports {n}" for p in files("steadyhand") for n in imports(p) - allowed}
    assert wrong == set()


@pytest.mark.parametrize("package", [p for p in FOLDERS if p != "steadyhand_cli"])
def test_nothing_imports_tests_or_cli(package):
    wrong = {str(p.relative_to(ROOT)) for p in files(package) if imports(p) & {"tests", "steadyhand_cli"}}
    assert wrong == set()


def test_launch_folder_is_no_python_package():
    assert not (ROOT / "launch" / "__init__.py").exists()  # it would shadow ROS's own `launch`


# Wall-clock readings by file: stamps and file names for people, and ages of what another clock has stamped. No decision.
WALL_CLOCK = {
    "sim_camera_node.py": "stamp of an image",
    "guard_node.py": "stamp of a message",
    "fault_publisher.py": "stamp of a message",
    "perception_node.py": "stamp of a message",
    "node.py": "stamp of a message",
    "lifecycle_manager_node.py": "stamp of a message",
    "estimator_node.py": "age of an image on arrival: wrong once when a clock is set, see the estimator",
    "teleop_node.py": "age of a stamped jog command: wrong while a clock is set, then refused; the arm rests in 100 ms",
    "clock_watch.py": "sees that the clock was set, and wakes what waits by it",
    "report_writer.py": "name of a report",
    "recording.py": "name of a file",
    "trace_writer.py": "name of a stop's folder",
    "storage.py": "age of files, for deleting the oldest; a clock behind the newest file makes nothing old",
    "agv.py": "stamp of a message",
    "agv_link.py": "stamp of a message",
    "tls.py": "dates of certificates; OpenSSL judges them by the same clock",
}
WALL_CALLS = {
    "time.time", "time.time_ns", "time.strftime", "time.localtime", "time.gmtime", "time.ctime", "datetime.now",
    "datetime.utcnow", "datetime.today", "get_clock",
}


def wall_clock_calls(path: Path) -> set[str]:
    """Calls that read a clock which can be set."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute):  # `datetime.datetime.now` is read as `datetime.now`
            owner = getattr(node.value, "id", getattr(node.value, "attr", ""))
            found |= {f"{owner}.{node.attr}", node.attr} & WALL_CALLS
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names} & WALL_CALLS
    return found


def test_no_decision_by_the_wall_clock():
    packages = (
        "steadyhand", "steadyhand_firmware_bridge", "steadyhand_policies", "steadyhand_perception", "steadyhand_motion",
        "steadyhand_ros",
    )
    readers = {path.name for package in packages for path in files(package) if wall_clock_calls(path)}
    assert readers == set(WALL_CLOCK)
    assert not {path.name for path in files("steadyhand") if wall_clock_calls(path)}
    guard = ROOT / FOLDERS["steadyhand_firmware_bridge"] / "guard"
    assert not {path.name for path in guard.glob("*.py") if wall_clock_calls(path)}


# -- what only training needs ----------------------------------------------------------------------------------------
TRAINING = ROOT / "policies" / "training"
TRAINING_ONLY = {"policies", "benchmarks", "torch", "stable_baselines3", "ray", "pyarrow", "onnx", "matplotlib"}


@pytest.mark.parametrize("package", FOLDERS)
def test_the_runtime_needs_nothing_of_training(package):
    wrong = {f"{p.relative_to(ROOT)} imports {n}" for p in files(package) for n in imports(p) & TRAINING_ONLY}
    assert wrong == set()


def test_gymnasium_is_the_environments_alone():
    envs = ROOT / FOLDERS["steadyhand_sim"] / "envs"
    users = {p for package in FOLDERS for p in files(package) if "gymnasium" in imports(p)}
    assert users and {p for p in users if envs not in p.parents} == set()


@pytest.mark.parametrize(("folder", "foreign", "but"), [
    ("store", {"torch", "stable_baselines3", "gymnasium", "ray", "steadyhand_sim", "steadyhand_policies"}, set()),
    ("store", {"pyarrow"}, {"lerobot_format.py"}),
    ("rollout", {"torch", "stable_baselines3"}, set()),
    ("rollout", {"ray"}, {"ray_worker.py", "pools.py"}),
])
def test_training_keeps_its_folders_laws(folder, foreign, but):
    found = sorted((TRAINING / folder).glob("*.py"))
    assert len(found) > 3
    assert {f"{p.name} imports {n}" for p in found for n in imports(p) & foreign if p.name not in but} == set()


# The layers of steadyhand_policies: a module imports its own and those before (by the beginning of its name).
LAYERS = (
    ("contract_format", "contract", "runtime_facts", "onnx_file", "probe", "repository"),
    ("engine", "local_onnx", "triton_", "breaker", "latency", "chunking", "fallback", "checks"),
    ("comparison", "release", "episodes", "member", "shadow", "live"),
)


def layer(module: str) -> int:
    known = {name: k for k, names in enumerate(LAYERS) for name in names}
    return known[max((name for name in known if module.startswith(name)), key=len)]


def test_policies_keep_their_layers():
    wrong = set()
    for path in files("steadyhand_policies"):
        if path.stem == "__init__":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("steadyhand_policies"):
                inner = node.module.partition(".")[2]
                wrong |= {f"{path.stem} imports {m}" for m in ([inner] if inner else [a.name for a in node.names])
                          if layer(m) > layer(path.stem)}
    assert wrong == set()
