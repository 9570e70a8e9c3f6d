"""Manifests, launch files, entry points and imports agree."""
import ast
import re
import runpy
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MANIFESTS = {p.parent.name if p.parent != ROOT else "steadyhand": p for p in [
    ROOT / "package.xml", *sorted((ROOT / "ros2_ws/src").glob("*/package.xml"))]}
ROS_NODES = ROOT / "ros2_ws/src/steadyhand_ros/steadyhand_ros"


@pytest.fixture
def built(monkeypatch):
    """What setup.py hands to setuptools."""
    given = {}
    monkeypatch.setattr("setuptools.setup", lambda **kwargs: given.update(kwargs))
    runpy.run_path(str(ROOT / "setup.py"))
    return given


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


def test_setup_lists_every_package_folder(built):
    from tests.unit.test_architecture import FOLDERS

    assert built["package_dir"] == {name: folder for name, folder in FOLDERS.items() if name != "steadyhand_ros"}
    inits = {path.parent for folder in built["package_dir"].values() for path in (ROOT / folder).rglob("__init__.py")}
    assert len(built["packages"]) == len(set(built["packages"])) == len(inits)


def test_ros_imports_are_declared():
    local = {"steadyhand", "steadyhand_ros"} | {p.name for p in ROOT.glob("*/steadyhand_*")}
    third_party = {"numpy", "msgpack", "rich"}
    late = {"controller_manager_msgs", "nav2_msgs", "ur_dashboard_msgs", "ur_msgs"}  # where they are used, with a hint
    used = set()
    for path in ROS_NODES.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                used |= {a.name.split(".")[0] for a in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                used.add(node.module.split(".")[0])
    assert "rclpy" in used
    undeclared = used - local - third_party - late - set(sys.stdlib_module_names) - depends("steadyhand_ros")
    assert undeclared == set()


def test_launch_files_start_what_exists(built):
    scripts = [entry.split(" = ")[0] for entry in built["entry_points"]["console_scripts"]]
    paths = list((ROOT / "launch").glob("*.launch.xml"))
    assert len(scripts) >= 4 and paths
    for path in paths:
        root = ET.parse(path).getroot()
        for node in root.iter("node"):
            assert node.get("pkg") in MANIFESTS
            assert (ROS_NODES / f"{node.get('exec')}.py").is_file(), node.get("exec")
        for executable in root.iter("executable"):
            assert executable.get("cmd").split()[0] in scripts


def test_what_launch_files_take_from_the_share_folder_is_installed_there(built):
    installed = {}
    for target, sources in built["data_files"]:
        assert all((ROOT / source).is_file() for source in sources)
        installed |= {f"{target}/{Path(source).name}": source for source in sources}
    assert set(installed) >= {"share/steadyhand/package.xml", "share/steadyhand/urscript/steadyhand.script"}
    for path in (ROOT / "launch").iterdir():
        for wanted in re.findall(r"\$\(find-pkg-share steadyhand\)/([\w./]+)", path.read_text()):
            place = ROOT / wanted
            files = [place] if place.is_file() else [p for p in place.rglob("*.*") if p.is_file()]
            assert files, wanted
            for file in files:
                assert installed.get(f"share/steadyhand/{file.relative_to(ROOT)}") == str(file.relative_to(ROOT))


def test_entry_points_exist(built):
    from tests.unit.test_architecture import FOLDERS

    for entry in built["entry_points"]["console_scripts"]:
        package, module = re.fullmatch(r"[a-z-]+ = (steadyhand_[a-z_]+)\.([a-z_.]+):main", entry).groups()
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


def test_extras_cpu_and_gpu_differ_in_the_engine_only(built):
    extras = built["extras_require"]
    (cpu,), (gpu,) = extras["cpu"], extras["gpu"]
    assert cpu.startswith("onnxruntime==") and gpu == cpu.replace("onnxruntime", "onnxruntime-gpu")
    assert not any(r.startswith("onnxruntime") for r in built["install_requires"])
