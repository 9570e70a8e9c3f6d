"""Imports point one way: core <- domain packages (not one another) <- steadyhand_ros <- CLI and tests."""
import ast
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
ROS = {"rclpy", "std_msgs", "sensor_msgs", "geometry_msgs", "lifecycle_msgs", "steadyhand_interfaces", "launch"}
CORE_THIRD_PARTY = {"numpy", "scipy", "ruckig", "filterpy", "msgpack"}
IO_MODULES = {"socket", "threading", "subprocess", "multiprocessing", "time", "asyncio"}
OURS = set(FOLDERS)


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
    return sorted((ROOT / FOLDERS[package]).rglob("*.py"))


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
