"""Message packages of other people's drivers that no wheel brings, built once for the tests and the doubles.

The folder `foreign_messages` holds the interfaces that are used here: names, types and order of the fields as ur_msgs,
ur_dashboard_msgs, controller_manager_msgs, control_msgs and nav2_msgs define them, for the wire's sake. A user has the
packages themselves, from apt. They are built into `build/`, not into the environment, so that a test may also run as on
a machine without them.
"""
import ctypes
import fcntl
import hashlib
import importlib.util
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

SOURCES = Path(__file__).with_suffix("")
BUILD = Path(__file__).parents[2] / "build" / "foreign_messages"
DEPENDENCIES = ("action_msgs", "builtin_interfaces", "geometry_msgs", "std_msgs", "trajectory_msgs")
BUILD_LIMIT_S = 300
_used: set[str] = set()

CMAKE = """cmake_minimum_required(VERSION 3.20)
project({name})
find_package(ament_cmake REQUIRED)
find_package(rosidl_default_generators REQUIRED)
{find}
file(GLOB files RELATIVE ${{CMAKE_CURRENT_SOURCE_DIR}} msg/*.msg srv/*.srv action/*.action)
rosidl_generate_interfaces(${{PROJECT_NAME}} ${{files}} DEPENDENCIES {dependencies})
ament_package()
"""
PACKAGE = """<?xml version="1.0"?>
<package format="3"><name>{name}</name><version>0.0.0</version><description>for tests</description>
<maintainer email="maintainers@steadyhand.example.com">tests</maintainer><license>Apache-2.0</license>
<buildtool_depend>rosidl_default_generators</buildtool_depend>{depends}
<member_of_group>rosidl_interface_packages</member_of_group></package>
"""


def use() -> None:
    """Make the packages importable in this process; builds them the first time (about a minute)."""
    for name in sorted(p.name for p in SOURCES.iterdir() if p.is_dir()):
        spec = importlib.util.find_spec(name)
        if name in _used or (spec is not None and str(BUILD) not in str(spec.origin)):
            continue  # by us already, or the real one
        prefix = _built(name)
        folder = str(next(prefix.glob("lib/python*/site-packages")))
        if folder not in sys.path:
            sys.path.append(folder)
        _preload(sorted((prefix / "lib").glob("*.so")))
        _used.add(name)
    importlib.invalidate_caches()


def _built(name: str) -> Path:
    """Prefix of one package, by the content of its interfaces and the interpreter."""
    files = sorted(p for p in (SOURCES / name).rglob("*") if p.is_file())
    content = b"".join(str(p.relative_to(SOURCES)).encode() + p.read_bytes() for p in files)
    key = hashlib.sha256(content + CMAKE.encode() + sys.version.encode() + sys.prefix.encode()).hexdigest()[:12]
    prefix = BUILD / f"{name}-{key}"
    BUILD.mkdir(parents=True, exist_ok=True)
    with open(BUILD / f"{name}.lock", "w") as lock:  # parallel workers: one builds, the others wait
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (prefix / "complete").exists():
            _build(name, files, prefix)
            (prefix / "complete").touch()
    return prefix


def _build(name: str, files: list[Path], prefix: Path) -> None:
    source, build = BUILD / "src" / name, BUILD / "make" / name
    for file in files:
        target = source / file.relative_to(SOURCES / name)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(file.read_text())
    used = " ".join(p.read_text() for p in files)
    dependencies = [d for d in DEPENDENCIES if f"{d}/" in used]
    dependencies += ["action_msgs"] * any("action" in p.parts for p in files)
    names = list(dict.fromkeys(dependencies or ["builtin_interfaces"]))
    find = "\n".join(f"find_package({d} REQUIRED)" for d in names)
    (source / "CMakeLists.txt").write_text(CMAKE.format(name=name, find=find, dependencies=" ".join(names)))
    depends = "".join(f"<depend>{d}</depend>" for d in names)
    (source / "package.xml").write_text(PACKAGE.format(name=name, depends=depends))
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    environment |= {"AMENT_PREFIX_PATH": sys.prefix, "CMAKE_PREFIX_PATH": sys.prefix}
    environment["PATH"] = f"{sysconfig.get_path('scripts')}{os.pathsep}{environment.get('PATH', '')}"
    for command in (
        ["cmake", "-S", str(source), "-B", str(build), f"-DCMAKE_INSTALL_PREFIX={prefix}",
         f"-DPython3_EXECUTABLE={sys.executable}", "-DBUILD_TESTING=OFF"],
        ["cmake", "--build", str(build), "-j1"],
        ["cmake", "--install", str(build)],
    ):  # fmt: skip
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=BUILD_LIMIT_S)
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-1500:]}\n{done.stderr[-1500:]}"


def _preload(libraries: list[Path]) -> None:
    """Load them by path, so that ROS finds them by name although their folder is on no search path."""
    left = list(libraries)
    while left:
        failed = []
        for library in left:
            try:
                ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
            except OSError as error:  # one that it needs comes later in the list
                failed.append((library, error))
        assert len(failed) < len(left), failed[0][1]
        left = [library for library, _ in failed]


if __name__ == "__main__":
    use()
