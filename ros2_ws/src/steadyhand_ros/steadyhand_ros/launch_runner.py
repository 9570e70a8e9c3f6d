"""Runs a launch file: by ROS 2's own launch system where it is installed, else by this project's reader of its subset.

No launch system can be installed from wheels. This module can go when one can.
"""
from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

from steadyhand.errors import ConfigError
from steadyhand.slot import current_slot
from steadyhand_ros.launch_xml import ProcessSpec, read

PROJECT_ROOT = Path(__file__).resolve().parents[4]
# Without the link to the current version: what is restarted after a switch is still of the version that runs.
PREFIX = Path(sys.prefix).resolve()
PYTHON = str(PREFIX / "bin" / Path(sys.executable).name)


def real_launch_available() -> bool:
    """Whether ROS 2's launch system and its XML front end are importable, and the `ros2` command is there."""
    found = all(importlib.util.find_spec(name) for name in ("launch", "launch_xml", "launch_ros"))
    return found and shutil.which("ros2") is not None


def find_share(package: str, environ: Mapping[str, str] = os.environ) -> str:
    """Share folder of a package: installed in a prefix, else the checkout for `steadyhand` itself."""
    for prefix in filter(None, environ.get("AMENT_PREFIX_PATH", "").split(":")):
        share = Path(prefix) / "share" / package
        if (share / "launch").is_dir() or (share / "config").is_dir():
            return str(share)
    if package == "steadyhand" and (PROJECT_ROOT / "launch").is_dir():
        return str(PROJECT_ROOT)
    raise ConfigError(f"package {package!r} not found in AMENT_PREFIX_PATH: build the workspace or source it")


def command_of(spec: ProcessSpec, environ: Mapping[str, str] = os.environ) -> list[str]:
    """Argument list of a process, with ROS arguments for nodes. ConfigError when the executable is not to be found."""
    if not spec.package:
        words = spec.command.split()
        found = shutil.which(words[0], path=environ.get("PATH"))
        if found is None:
            raise ConfigError(f"{spec.name}: command {words[0]!r} not found; run `make setup`")
        return [found, *words[1:]]
    command = [*_node_executable(spec, environ), *spec.arguments.split(), "--ros-args"]
    command.append("--disable-external-lib-logs")  # the log of its output has the same lines, and a budget
    command += ["-r", f"__node:={spec.name}"]
    if spec.namespace:
        namespace = spec.namespace if spec.namespace.startswith("/") else f"/{spec.namespace}"
        command += ["-r", f"__ns:={namespace}"]
    for file in spec.parameter_files:
        if not Path(file).is_file():
            raise ConfigError(f"{spec.name}: parameter file {file} does not exist")
        command += ["--params-file", file]
    for name, value in spec.parameters:
        command += ["-p", f"{name}:={value}"]
    for source, target in spec.remappings:
        command += ["-r", f"{source}:={target}"]
    return command


def _node_executable(spec: ProcessSpec, environ: Mapping[str, str]) -> list[str]:
    for prefix in filter(None, environ.get("AMENT_PREFIX_PATH", "").split(":")):
        path = Path(prefix) / "lib" / spec.package / spec.executable
        if path.is_file():
            return [str(path)]
    module = f"{spec.package}.{spec.executable}"
    try:
        found = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        found = None
    if found is None:
        raise ConfigError(f"{spec.name}: no executable {spec.executable!r} in package {spec.package!r}")
    return [PYTHON, "-m", module]


def child_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What every process of the graph inherits: the slot, and the library path of the ROS wheels.

    The wheels' start-up hook would set the path by executing each Python process twice; set here, it runs once. The
    hook's flag can go with the hook.
    """
    slot = current_slot(environ)
    environment = dict(environ) | slot.environment()
    environment.setdefault("STEADYHAND_ROBOT_HOST", slot.robot_host)
    environment["PATH"] = f"{PREFIX / 'bin'}:{environment.get('PATH', '')}"
    environment.setdefault("AMENT_PREFIX_PATH", str(PREFIX))
    environment.setdefault("ROS_LOG_DIR", str((slot.out_dir / "log" / "ros").absolute()))
    environment.setdefault("RMW_IMPLEMENTATION", "rmw_fastrtps_cpp")
    environment["PYTHONUNBUFFERED"] = "1"
    # numpy's and onnxruntime's pools would fight over the cores with the control loop
    environment.setdefault("OMP_NUM_THREADS", "1")
    environment.setdefault("OPENBLAS_NUM_THREADS", "1")
    site = Path(sysconfig.get_path("purelib")).resolve()
    libraries = [str(PREFIX / "lib"), *sorted(str(p) for p in site.glob("ros_*.libs"))]
    if len(libraries) > 1:
        old = environment.get("LD_LIBRARY_PATH", "")
        environment["LD_LIBRARY_PATH"] = ":".join(libraries + ([old] if old else []))
        environment["_ROS_WHEELS_BOOTSTRAP_COMPLETE"] = "1"
    return environment


def read_launch(path: Path, given: Mapping[str, str], environ: Mapping[str, str] = os.environ) -> list[ProcessSpec]:
    """Processes of a launch file under this environment."""
    environment = child_environment(environ)
    processes, _ = read(path, given, environment, lambda package: find_share(package, environment))
    return processes


def parse_arguments(words: list[str]) -> dict[str, str]:
    """`name:=value` words to a mapping; ConfigError for anything else."""
    given = {}
    for word in words:
        name, separator, value = word.partition(":=")
        if not separator or not name.isidentifier():
            raise ConfigError(f"launch argument {word!r}: write name:=value")
        if name in given:
            raise ConfigError(f"launch argument {name!r} is given twice")
        given[name] = value
    return given
