"""Where the Triton server comes from: the `nvidia-pytriton` wheel in an environment of its own, laid out to run.

The server needs numpy < 2 (with 2 it says ready and returns empty outputs), so it never shares the runtime's
environment. The backends (3 MB) are copied: Triton refuses a library that a link leads out of its folder.
"""
from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from steadyhand.errors import ConfigError, DependencyMissing

VENV_VARIABLE = "STEADYHAND_TRITON_VENV"
_INSTALL_HINT = "run `make setup`, or give --venv or STEADYHAND_TRITON_VENV"
_FACTS = (
    "import json, sys, sysconfig; import numpy, onnxruntime; print(json.dumps({"
    "'version': '%d.%d' % sys.version_info[:2], 'site': sysconfig.get_path('purelib'), "
    "'libdir': sysconfig.get_config_var('LIBDIR'), 'numpy': numpy.__version__, 'ort': onnxruntime.__version__}))"
)


@dataclass(frozen=True)
class ServerTree:
    """A runnable server: binary, backends, environment."""

    binary: Path
    backends: Path
    environment: dict[str, str]


def default_venv() -> Path:
    """The folder named by STEADYHAND_TRITON_VENV, else `.venv-triton` at the project's root or here."""
    named = os.environ.get(VENV_VARIABLE)
    if named:
        return Path(named)
    for root in (Path(__file__).parents[2], Path.cwd()):
        if (root / ".venv-triton").exists():
            return root / ".venv-triton"
    return Path(".venv-triton")


def lay_out(venv: Path, tree: Path) -> ServerTree:
    """Make the server's tree in a folder. Raises DependencyMissing when the environment lacks something."""
    venv, tree = Path(venv).absolute(), Path(tree).absolute()
    facts = _environment_facts(venv)
    site = Path(facts["site"])
    bundle = site / "pytriton" / "tritonserver"
    stub = bundle / "python_backend_stubs" / facts["version"] / "triton_python_backend_stub"
    binary = bundle / "bin" / "tritonserver"
    for path in (binary, stub, bundle / "backends" / "python" / "libtriton_python.so"):
        if not path.exists():
            raise DependencyMissing(f"Triton: {path} is missing; pip install --no-deps nvidia-pytriton==0.7.0 into "
                                    f"{venv} ({_INSTALL_HINT})")
    backends = tree / "backends"
    shutil.rmtree(backends, ignore_errors=True)
    python = backends / "python"
    python.mkdir(parents=True)
    for name in ("libtriton_python.so", "triton_python_backend_utils.py"):
        shutil.copy(bundle / "backends" / "python" / name, python / name)
    shutil.copy(stub, python / stub.name)
    (backends / "onnxruntime").mkdir()
    shutil.copy(Path(__file__).with_name("triton_backend.py"), backends / "onnxruntime" / "model.py")
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "LD_", "_ROS_WHEELS"))},
        "LD_LIBRARY_PATH": f"{site / 'nvidia_pytriton.libs'}:{facts['libdir']}",
        "PYTHONPATH": str(site),
        "PATH": f"{venv / 'bin'}:{os.environ.get('PATH', '')}",
        "OMP_NUM_THREADS": "1",
    }
    return ServerTree(binary, backends, environment)


def _environment_facts(venv: Path) -> dict[str, str]:
    python = venv / "bin" / "python"
    if not python.exists():
        raise DependencyMissing(f"Triton's environment {venv} is missing; {_INSTALL_HINT}")
    bare = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "LD_"))}
    try:
        done = subprocess.run([python, "-c", _FACTS], capture_output=True, text=True, timeout=30, env=bare)
    except subprocess.TimeoutExpired as error:
        raise DependencyMissing(f"Triton's environment {venv}: its Python did not answer in 30 s") from error
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise DependencyMissing(f"Triton's environment {venv}: {last}; {_INSTALL_HINT}")
    facts = json.loads(done.stdout)
    if int(facts["numpy"].split(".")[0]) >= 2:
        raise ConfigError(f"Triton's environment {venv}: numpy {facts['numpy']}, needs numpy < 2 "
                          "(with 2 the server returns empty outputs)")
    return facts
