"""Build of `steadyhand_ros`; the version is the one of its package.xml (a test keeps the manifests equal)."""
import re
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
NODES = sorted(p.stem for p in (ROOT / "steadyhand_ros").glob("*_node.py"))

setup(
    name="steadyhand_ros",
    version=re.search(r"<version>([^<]+)</version>", (ROOT / "package.xml").read_text()).group(1),
    description="ROS 2 nodes of the Steadyhand runtime",
    license="Apache-2.0",
    packages=["steadyhand_ros"],
    data_files=[
        ("share/ament_index/resource_index/packages", ["resource/steadyhand_ros"]),
        ("share/steadyhand_ros", ["package.xml"]),
    ],
    entry_points={"console_scripts": [f"{node} = steadyhand_ros.{node}:main" for node in NODES]},
)
