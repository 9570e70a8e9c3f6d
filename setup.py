"""Build of the `steadyhand` distribution: the core and the domain packages, one version (package.xml holds it).

No [project] table in pyproject.toml: colcon reads setup.py, and `--symlink-install` ignores the table.
"""
import re
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
VERSION = re.search(r"<version>([^<]+)</version>", (ROOT / "package.xml").read_text()).group(1)

# import name -> folder. Every domain package is listed: automatic discovery stops on so many top-level folders.
PACKAGE_DIR = {
    "steadyhand": "steadyhand",
    "steadyhand_policies": "policies/steadyhand_policies",
    "steadyhand_firmware_bridge": "firmware_bridge/steadyhand_firmware_bridge",
    "steadyhand_sim": "sim/steadyhand_sim",
    "steadyhand_calibration": "calibration/steadyhand_calibration",
    "steadyhand_perception": "perception/steadyhand_perception",
    "steadyhand_motion": "motion/steadyhand_motion",
    "steadyhand_cli": "cli/steadyhand_cli",
}


def subpackages(name: str, folder: str) -> list[str]:
    """`name` and every package below it."""
    base = ROOT / folder
    found = [name]
    for init in sorted(base.rglob("__init__.py")):
        relative = init.parent.relative_to(base)
        if relative.parts:
            found.append(".".join([name, *relative.parts]))
    return found


def requirements(name: str) -> list[str]:
    """The pins of one requirements file, comments dropped."""
    lines = (ROOT / "requirements" / f"{name}.txt").read_text().splitlines()
    return [line.split("#")[0].strip() for line in lines if line.split("#")[0].strip()]


def share(folder: str, pattern: str, source: str = "") -> list[tuple[str, list[str]]]:
    """`data_files` of share/steadyhand/`folder`: what the pattern finds in `source` (else in `folder`), by folder."""
    base, found = ROOT / (source or folder), {}
    for path in sorted(p for p in base.rglob(pattern) if p.is_file()):
        target = Path("share/steadyhand") / folder / path.parent.relative_to(base)
        found.setdefault(str(target), []).append(str(path.relative_to(ROOT)))
    return list(found.items())


RUNTIME = requirements("runtime")
ENGINE = [r for r in RUNTIME if r.startswith("onnxruntime")]

setup(
    name="steadyhand",
    version=VERSION,
    description="Robotics agent runtime that never moves late, blind, or after a stop",
    license="Apache-2.0",
    python_requires=">=3.10,<3.13",
    package_dir=PACKAGE_DIR,
    packages=[p for name, folder in PACKAGE_DIR.items() for p in subpackages(name, folder)],
    include_package_data=True,
    package_data={
        "steadyhand_sim": ["*.json"], "steadyhand_sim.agv": ["*.json"],
        "steadyhand": ["vda5050/schemas/*.txt", "vda5050/schemas/*/*.schema"],
    },
    install_requires=[r for r in RUNTIME if r not in ENGINE and not r.startswith("setuptools")],
    # cpu and gpu share one import folder: install exactly one of them.
    extras_require={
        "cpu": ENGINE,
        "gpu": [r.replace("onnxruntime", "onnxruntime-gpu") for r in ENGINE],
        "sim": requirements("sim"),
        "calibration": requirements("calibration"),
        "train": requirements("train"),
        "test": requirements("test"),
    },
    data_files=[
        ("share/ament_index/resource_index/packages", ["resource/steadyhand"]),
        ("share/steadyhand", ["package.xml"]),
        *share("launch", "*.launch.xml"),
        *share("config", "*.yaml"),
        *share("urscript", "*.script", source="firmware_bridge/urscript"),
        *(entry for name in ("config.pbtxt", "model.onnx", "contract.json")
          for entry in share("policies/model_repository", name)),
    ],
    entry_points={
        "console_scripts": [
            "steadyhand = steadyhand_cli.main:main",
            "steadyhand-guard = steadyhand_firmware_bridge.guard.main:main",
            "steadyhand-agv-guard = steadyhand_firmware_bridge.guard.agv_main:main",
            "steadyhand-sim = steadyhand_sim.main:main",
            "steadyhand-sim-agv = steadyhand_sim.agv.main:main",
            "steadyhand-triton = steadyhand_policies.triton_server:main",
        ]
    },
)
