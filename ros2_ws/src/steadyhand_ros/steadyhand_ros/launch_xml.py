"""The subset of ROS 2's XML launch format that this project's files use, as data.

    launch, arg (name, default, description), let (name, value), group (if, unless), include (file; nested arg),
    node (pkg, exec, name, namespace, args, output, respawn, respawn_delay; nested param, remap, env),
    executable (cmd, name, cwd, output, respawn, respawn_delay; nested env), and if/unless on each action,
    substitutions $(var x), $(env X), $(env X default), $(find-pkg-share pkg), $(dirname).

Anything else is refused with file, element and attribute: the same files run under `ros2 launch`, and what this reader
does not know it must not guess. Pure but for reading the files.
"""
from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from steadyhand.errors import ConfigError

COMMON = {"if", "unless"}
PROCESS = {"name", "output", "respawn", "respawn_delay"}
ATTRIBUTES = {
    "launch": set(),
    "arg": {"name", "default", "description", "value"},
    "let": {"name", "value"} | COMMON,
    "group": COMMON,
    "include": {"file"} | COMMON,
    "node": {"pkg", "exec", "namespace", "args"} | PROCESS | COMMON,
    "executable": {"cmd", "cwd"} | PROCESS | COMMON,
    "param": {"name", "value", "from"} | COMMON,
    "remap": {"from", "to"} | COMMON,
    "env": {"name", "value"} | COMMON,
}
CHILDREN = {
    "launch": {"arg", "let", "group", "include", "node", "executable"},
    "group": {"let", "group", "include", "node", "executable"},
    "include": {"arg"},
    "node": {"param", "remap", "env"},
    "executable": {"env"},
}
SUBSTITUTION = re.compile(r"\$\(([^()]*)\)")
MAX_INCLUDE_DEPTH = 8


@dataclass(frozen=True)
class ProcessSpec:
    """One process to run."""

    name: str
    package: str = ""  # with `executable`: a ROS node; empty: `command` is run as it stands
    executable: str = ""
    command: str = ""
    namespace: str = ""
    arguments: str = ""
    parameters: tuple[tuple[str, str], ...] = ()
    parameter_files: tuple[str, ...] = ()
    remappings: tuple[tuple[str, str], ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    cwd: str = ""
    respawn: bool = False
    respawn_delay_s: float = 0.0


@dataclass(frozen=True)
class Argument:
    """A launch argument; no default means that it must be given."""

    name: str
    default: str | None
    description: str


@dataclass
class _Scope:
    path: Path
    variables: dict[str, str]
    given: dict[str, str]
    environ: Mapping[str, str]
    find_share: Callable[[str], str]
    processes: list[ProcessSpec] = field(default_factory=list)
    arguments: list[Argument] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    depth: int = 0


def read(
    path: Path, given: Mapping[str, str], environ: Mapping[str, str], find_share: Callable[[str], str]
) -> tuple[list[ProcessSpec], list[Argument]]:
    """Processes and arguments of a launch file. Raises ConfigError naming file, element and what is wrong."""
    scope = _Scope(Path(path), {}, dict(given), environ, find_share)
    _read_file(scope)
    unknown = set(given) - {a.name for a in scope.arguments}
    if unknown:
        known = ", ".join(f"{a.name}:={a.default}" for a in scope.arguments)
        raise ConfigError(f"{path}: unknown argument {sorted(unknown)[0]!r}; it takes: {known}")
    names = [p.name for p in scope.processes]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"{path}: two processes are called {name!r}; give one of them another name")
    return scope.processes, scope.arguments


def _read_file(scope: _Scope) -> None:
    try:
        root = ET.parse(scope.path).getroot()
    except (OSError, ET.ParseError) as error:
        raise ConfigError(f"{scope.path}: {error}") from error
    if root.tag != "launch":
        raise ConfigError(f"{scope.path}: the root element is <{root.tag}>, expected <launch>")
    _check(scope, root)
    for element in root:
        _action(scope, element)


def _check(scope: _Scope, element: ET.Element) -> None:
    if element.tag not in ATTRIBUTES:
        raise ConfigError(f"{scope.path}: <{element.tag}> is not supported; known: {', '.join(sorted(ATTRIBUTES))}")
    for name in element.attrib:
        if name not in ATTRIBUTES[element.tag]:
            raise ConfigError(f"{scope.path}: <{element.tag} {name}=...> is not supported")
    for child in element:
        if child.tag not in CHILDREN.get(element.tag, set()):
            raise ConfigError(f"{scope.path}: <{child.tag}> is not supported inside <{element.tag}>")


def _substitute(scope: _Scope, text: str) -> str:
    def one(match: re.Match) -> str:
        words = match.group(1).split()
        kind, rest = (words[0] if words else ""), words[1:]
        if kind == "var" and len(rest) == 1:
            if rest[0] not in scope.variables:
                raise ConfigError(f"{scope.path}: $(var {rest[0]}): no such argument")
            return scope.variables[rest[0]]
        if kind == "env" and rest:
            if rest[0] in scope.environ:
                return scope.environ[rest[0]]
            if len(rest) == 2:
                return rest[1]
            raise ConfigError(f"{scope.path}: $(env {rest[0]}): not set; set it or give a default")
        if kind == "find-pkg-share" and len(rest) == 1:
            return scope.find_share(rest[0])
        if kind == "dirname" and not rest:
            return str(scope.path.parent)
        raise ConfigError(f"{scope.path}: substitution {match.group(0)} is not supported")

    previous = None
    while previous != text:  # innermost first, so that they nest
        previous, text = text, SUBSTITUTION.sub(one, text)
    if "$(" in text:
        raise ConfigError(f"{scope.path}: unclosed substitution in {text!r}")
    return text


def _attribute(scope: _Scope, element: ET.Element, name: str, default: str | None = None) -> str:
    text = element.get(name, default)
    if text is None:
        raise ConfigError(f"{scope.path}: <{element.tag}> needs {name}=\"...\"")
    return _substitute(scope, text)


def _boolean(scope: _Scope, element: ET.Element, name: str, default: str) -> bool:
    text = _attribute(scope, element, name, default).strip().lower()
    if text in ("true", "1"):
        return True
    if text in ("false", "0"):
        return False
    raise ConfigError(f"{scope.path}: <{element.tag} {name}={text!r}>: give true or false")


def _enabled(scope: _Scope, element: ET.Element) -> bool:
    if "if" in element.attrib and "unless" in element.attrib:
        raise ConfigError(f"{scope.path}: <{element.tag}> has both if and unless")
    if "if" in element.attrib:
        return _boolean(scope, element, "if", "")
    if "unless" in element.attrib:
        return not _boolean(scope, element, "unless", "")
    return True


def _action(scope: _Scope, element: ET.Element) -> None:
    _check(scope, element)
    if element.tag == "arg":
        _declare(scope, element)
    elif not _enabled(scope, element):
        return
    elif element.tag == "let":
        scope.variables[_attribute(scope, element, "name")] = _attribute(scope, element, "value")
    elif element.tag == "group":
        saved = dict(scope.variables)  # a group is a scope
        for child in element:
            _action(scope, child)
        scope.variables = saved
    elif element.tag == "include":
        _include(scope, element)
    else:
        scope.processes.append(_process(scope, element))


def _declare(scope: _Scope, element: ET.Element) -> None:
    name = _attribute(scope, element, "name")
    if "value" in element.attrib:
        raise ConfigError(f"{scope.path}: <arg name={name!r}> declares: it takes default=..., not value=...")
    default = element.get("default")
    default = None if default is None else _substitute(scope, default)
    scope.arguments.append(Argument(name, default, element.get("description", "")))
    if name in scope.given:
        scope.variables[name] = scope.given[name]
    elif default is not None:
        scope.variables.setdefault(name, default)
    else:
        raise ConfigError(f"{scope.path}: argument {name} has no default: give {name}:=VALUE")


def _include(scope: _Scope, element: ET.Element) -> None:
    if scope.depth >= MAX_INCLUDE_DEPTH:
        raise ConfigError(f"{scope.path}: includes nest deeper than {MAX_INCLUDE_DEPTH}")
    given = {}
    for child in element:
        _check(scope, child)
        if "default" in child.attrib:
            raise ConfigError(f"{scope.path}: <include><arg> gives a value to {child.get('name')!r}, not a default")
        given[_attribute(scope, child, "name")] = _attribute(scope, child, "value")
    inner = _Scope(
        Path(_attribute(scope, element, "file")), dict(scope.variables), given, scope.environ, scope.find_share,
        depth=scope.depth + 1,
    )
    _read_file(inner)
    unknown = set(given) - {a.name for a in inner.arguments}
    if unknown:
        raise ConfigError(f"{scope.path}: {inner.path.name} has no argument {sorted(unknown)[0]!r}")
    scope.processes.extend(inner.processes)


def _process(scope: _Scope, element: ET.Element) -> ProcessSpec:
    parameters, files, remappings, environment = [], [], [], []
    for child in element:
        _check(scope, child)
        if not _enabled(scope, child):
            continue
        if child.tag == "param" and "from" in child.attrib:
            files.append(_attribute(scope, child, "from"))
        elif child.tag == "param":
            parameters.append((_attribute(scope, child, "name"), _attribute(scope, child, "value")))
        elif child.tag == "remap":
            remappings.append((_attribute(scope, child, "from"), _attribute(scope, child, "to")))
        else:
            environment.append((_attribute(scope, child, "name"), _attribute(scope, child, "value")))
    delay = _attribute(scope, element, "respawn_delay", "0")
    try:
        delay_s = float(delay)
    except ValueError:
        delay_s = math.nan
    if not 0.0 <= delay_s < math.inf:
        raise ConfigError(f"{scope.path}: respawn_delay={delay!r}: give seconds, 0 or more")
    is_node = element.tag == "node"
    executable = _attribute(scope, element, "exec") if is_node else ""
    command = "" if is_node else _attribute(scope, element, "cmd")
    default_name = executable if is_node else (command.split() or [""])[0]
    return ProcessSpec(
        name=_attribute(scope, element, "name", default_name),
        package=_attribute(scope, element, "pkg") if is_node else "",
        executable=executable,
        command=command,
        namespace=_attribute(scope, element, "namespace", "") if is_node else "",
        arguments=_attribute(scope, element, "args", "") if is_node else "",
        parameters=tuple(parameters),
        parameter_files=tuple(files),
        remappings=tuple(remappings),
        environment=tuple(environment),
        cwd="" if is_node else _attribute(scope, element, "cwd", ""),
        respawn=_boolean(scope, element, "respawn", "false"),
        respawn_delay_s=delay_s,
    )
