"""Message packages of other people's drivers that no wheel brings, built once for the tests and the doubles.

The folder `foreign_messages` holds the interfaces that are used here: names, types and order of the fields as ur_msgs,
ur_dashboard_msgs, controller_manager_msgs, control_msgs and nav2_msgs define them, for the wire's sake. A user has the
packages themselves, from apt. They are built into `build/`, not into the environment, so that a test may also run as on
a machine without them.

ROS's own generators make the sources, as for any package. Of these only what rclpy over Fast DDS loads is compiled (C,
Python, two of the type supports; no CMake, unoptimised): seconds instead of a minute.
"""
import ctypes
import fcntl
import hashlib
import importlib.util
import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = Path(__file__).with_suffix("")
BUILD = ROOT / "build" / "foreign_messages"
SERIALISING, DESCRIBING = TYPE_SUPPORTS = ("rosidl_typesupport_fastrtps_c", "rosidl_typesupport_introspection_c")
RUNTIME = f"fastcdr rcutils rosidl_runtime_c rosidl_typesupport_c {SERIALISING} {SERIALISING}pp {DESCRIBING}"
NEEDED = "action_msgs builtin_interfaces geometry_msgs service_msgs std_msgs trajectory_msgs unique_identifier_msgs"
PARTS = ("generator_c", "generator_py", "typesupport_c", "typesupport_fastrtps_c", "typesupport_introspection_c")
BUILD_LIMIT_S = 300
_used: set[str] = set()


def use() -> None:
    """Make the packages importable in this process; builds them the first time (20 s of one processor)."""
    for name in sorted(p.name for p in SOURCES.iterdir() if p.is_dir()):
        spec = importlib.util.find_spec(name)
        if name in _used or (spec is not None and str(BUILD) not in str(spec.origin)):
            continue  # by us already, or the real one
        prefix = _built(name)
        sys.path.append(str(prefix / "python"))
        for part in TYPE_SUPPORTS:  # so that ROS finds them by name, although their folder is on no search path
            ctypes.CDLL(str(prefix / f"lib{name}__{part}.so"), mode=ctypes.RTLD_GLOBAL)
        _used.add(name)
    importlib.invalidate_caches()


def environment() -> dict[str, str]:
    """Environment of a process that finds the packages as on a machine that has them."""
    use()
    return os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}


def _built(name: str) -> Path:
    """Prefix of one package: by the content of its interfaces, of this file, and the interpreter."""
    files = [Path(__file__), *sorted(p for p in (SOURCES / name).rglob("*") if p.is_file())]
    content = b"".join(str(p.relative_to(ROOT)).encode() + p.read_bytes() for p in files)
    key = hashlib.sha256(content + sys.version.encode() + sys.prefix.encode()).hexdigest()[:12]
    prefix = BUILD / f"{name}-{key}"
    BUILD.mkdir(parents=True, exist_ok=True)
    with open(BUILD / f"{name}.lock", "w") as lock:  # parallel workers: one builds, the others wait
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (prefix / "complete").exists():
            # in a process of its own, because the generators write to the standard output, and replace it
            _run([sys.executable, "-m", "tests.support.foreign_messages", name, str(prefix)], ROOT)
            (prefix / "complete").touch()
    return prefix


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=BUILD_LIMIT_S)
    assert done.returncode == 0, f"{' '.join(command)[-300:]}\n{done.stdout[-1500:]}\n{done.stderr[-1500:]}"


def _build(name: str, prefix: Path) -> None:
    """Into `prefix`: the package in `python`, and a library for each of the two type supports."""
    import numpy

    made, package, environment = prefix / "made", prefix / "python" / name, Path(sys.prefix)
    sources, describing = _generate(name, made, package)
    headers, libraries = environment / "include", environment / "lib"
    folders = [made, made / "describing", package.parent, sysconfig.get_path("include"), numpy.get_include(), headers]
    flags = ["-O0", "-w", "-fPIC", *(f"-I{folder}" for folder in (*folders, *headers.glob("*")))]
    used = [*RUNTIME.split(), *(f"{needed}__rosidl_{part}" for needed in NEEDED.split() for part in PARTS)]
    link = [f"-L{libraries}", f"-Wl,-rpath,{libraries}:{prefix},-z,now,--as-needed", *(f"-l{part}" for part in used)]

    def library(target: Path, *parts: str | Path) -> Path:
        named = f"-Wl,-soname,{target.name}"
        _run(["g++", "-shared", named, *map(str, parts), *link, "-o", str(target)], made)
        return target

    (made / "all.cpp").write_text("".join(f'#include "{s}"\n' for s in sources if s.endswith(".cpp")))
    _run(["gcc", "-c", *flags, *(s for s in sources if s.endswith(".c"))], made)
    _run(["g++", "-c", "-std=c++17", *flags, "all.cpp"], made)  # at once: nearly all of it is headers
    first = library(prefix / f"lib{name}__{SERIALISING}.so", *made.glob("*.o"))
    _run(["gcc", "-c", *flags, *describing], made / "describing")
    library(prefix / f"lib{name}__{DESCRIBING}.so", *(made / "describing").glob("*.o"), first)
    library(package / f"{name}_s__rosidl_typesupport_c.so", "-Wl,--no-as-needed", first)


def _generate(name: str, made: Path, package: Path) -> tuple[list[str], list[str]]:
    """Sources of all but the describing type support, and its own; Python modules and their C are below `package`."""
    from rosidl_adapter import convert_to_idl
    from rosidl_generator_c import generate_c as generate_structures
    from rosidl_generator_py import generate_py
    from rosidl_generator_type_description import generate_type_hash
    from rosidl_typesupport_c import generate_c as generate_handles
    from rosidl_typesupport_fastrtps_c import generate_typesupport_fastrtps_c
    from rosidl_typesupport_introspection_c import generate_c as generate_descriptions

    share, source, target = Path(sys.prefix) / "share", SOURCES / name, made / name
    files = sorted(p.relative_to(source) for p in source.rglob("*") if p.is_file())
    interfaces = [convert_to_idl(source, name, file, made / "idl").relative_to(made / "idl") for file in files]

    def run(generate: Callable, generator: str, output: Path, *more: list[str], **arguments: list[str]) -> list[str]:
        given = {
            "package_name": name, "output_dir": str(output), "template_dir": str(share / generator / "resource"),
            "idl_tuples": [f"{made / 'idl'}:{i}" for i in interfaces], "target_dependencies": [], **arguments,
        }  # fmt: skip
        (made / f"{generator}.json").write_text(json.dumps(given))
        for header in (share / generator / "resource").glob("*__visibility_control.h.in"):
            text = header.read_text().replace("@PROJECT_NAME@", name).replace("@PROJECT_NAME_UPPER@", name.upper())
            (output / "msg").mkdir(parents=True, exist_ok=True)
            (output / "msg" / header.stem).write_text(text)
        return [str(path) for path in generate(str(made / f"{generator}.json"), *more)]

    known = [f"{folder.name}:{folder}" for folder in share.iterdir() if (folder / "msg").is_dir()]
    run(generate_type_hash, "rosidl_generator_type_description", made / "hash", include_paths=known)
    hashes = [f"{i}:{(made / 'hash' / i).with_suffix('.json')}" for i in interfaces]
    originals = [str(source / file) for file in files]
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").touch()
    sources = [
        *run(generate_structures, "rosidl_generator_c", target,
             type_description_tuples=hashes, ros_interface_files=originals),
        *run(generate_handles, "rosidl_typesupport_c", target, [*TYPE_SUPPORTS]),
        *run(generate_typesupport_fastrtps_c, SERIALISING, target),
        *run(generate_py, "rosidl_generator_py", package, ["rosidl_typesupport_c"]),
    ]  # fmt: skip
    described = run(generate_descriptions, DESCRIBING, made / "describing" / name)
    return sources, [path for path in described if path.endswith(".c")]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        _build(sys.argv[1], Path(sys.argv[2]))
    else:
        use()
