"""Manifests, launch files, entry points and imports agree."""
import ast
import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MANIFESTS = {p.parent.name if p.parent != ROOT else "steadyhand": p for p in [
    ROOT / "package.xml", *sorted((ROOT / "ros2_ws/src").glob("*/package.xml"))]}
ROS_NODES = ROOT / "ros2_ws/src/steadyhand_ros/steadyhand_ros"


def manifest(name):
    return ET.parse(MANIFESTS[name]).getroot()


def depends(name):
    return {e.text for e in manifest(name) if e.tag.endswith("depend")}


@pytest.mark.parametrize("name", MANIFESTS)
def test_manifest_is_valid_for_colcon(name):
    root = manifest(name)
    assert root.get("format") == "3"
    assert root.findtext("name") == name
    # an invalid e-mail makes colcon treat the package as plain Python, without a word
    assert re.fullmatch(r"[^@\s]+@[^@\s]+\.[a-z]+", root.find("maintainer").get("email"))
    assert root.findtext("license") == "Apache-2.0"


def test_one_version():
    assert len({manifest(name).findtext("version") for name in MANIFESTS}) == 1


def test_root_does_not_depend_on_the_nodes():
    assert depends("steadyhand") & {"steadyhand_ros", "steadyhand_interfaces"} == set()


def test_no_project_table():
    assert "[project]" not in (ROOT / "pyproject.toml").read_text()


def test_setup_lists_every_package_folder():
    from tests.unit.test_architecture import FOLDERS

    text = (ROOT / "setup.py").read_text()
    for package, folder in FOLDERS.items():
        if package != "steadyhand_ros":
            assert f'"{package}": "{folder}"' in text


def test_ros_imports_are_declared():
    local = {"steadyhand", "steadyhand_ros"} | {p.name for p in ROOT.glob("*/steadyhand_*")}
    third_party = {"numpy", "msgpack", "rich"}
    used = set()
    for path in ROS_NODES.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                used |= {a.name.split(".")[0] for a in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                used.add(node.module.split(".")[0])
    assert "rclpy" in used
    undeclared = used - local - third_party - set(sys.stdlib_module_names) - depends("steadyhand_ros")
    assert undeclared == set()


def test_launch_files_start_what_exists():
    scripts = re.findall(r'"(steadyhand[a-z-]*) = ', (ROOT / "setup.py").read_text())
    paths = list((ROOT / "launch").glob("*.launch.xml"))
    assert len(scripts) >= 4 and paths
    for path in paths:
        root = ET.parse(path).getroot()
        for node in root.iter("node"):
            assert node.get("pkg") in MANIFESTS
            assert (ROS_NODES / f"{node.get('exec')}.py").is_file(), node.get("exec")
        for executable in root.iter("executable"):
            assert executable.get("cmd").split()[0] in scripts


def test_entry_points_exist():
    from tests.unit.test_architecture import FOLDERS

    points = re.findall(r'= (steadyhand_[a-z_]+)\.([a-z_.]+):main"', (ROOT / "setup.py").read_text())
    assert len(points) >= 4
    for package, module in points:
        path = ROOT / FOLDERS[package] / (module.replace(".", "/") + ".py")
        assert path.is_file(), path
        names = {n.name for n in ast.parse(path.read_text()).body if isinstance(n, ast.FunctionDef)}
        assert "main" in names, path


def test_interface_files_are_built():
    folder = ROOT / "ros2_ws/src/steadyhand_interfaces"
    text = (folder / "CMakeLists.txt").read_text()
    for kind in ("msg", "srv", "action"):
        for path in (folder / kind).iterdir():
            assert f'"{kind}/{path.name}"' in text


def test_extras_cpu_and_gpu_differ_in_the_engine_only():
    text = (ROOT / "setup.py").read_text()
    assert '"cpu": ENGINE' in text and "onnxruntime-gpu" in text
