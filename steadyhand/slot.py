"""Slots: several whole systems side by side on one machine without sharing an address, a port or a file.

`STEADYHAND_SLOT=n` (0..40) sets the loopback address, the ROS domain, Triton's ports, the socket folder and the output
folder of everything started under it. Slot 0 is the default.
"""
from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from steadyhand.errors import ConfigError

MAX_SLOT = 40


@dataclass(frozen=True)
class Slot:
    """The addresses and folders of one slot."""

    index: int
    robot_host: str
    ros_domain_id: int
    triton_http_port: int
    triton_grpc_port: int
    triton_metrics_port: int
    socket_dir: Path
    out_dir: Path

    def environment(self) -> dict[str, str]:
        """Variables that children must inherit to stay within this slot."""
        return {
            "STEADYHAND_SLOT": str(self.index),
            "ROS_DOMAIN_ID": str(self.ros_domain_id),
            "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
        }


def current_slot(environ: Mapping[str, str] = os.environ) -> Slot:
    """The slot named by `STEADYHAND_SLOT`; raises ConfigError when it is not a whole number in range."""
    text = environ.get("STEADYHAND_SLOT", "0")
    if not text.isdecimal() or int(text) > MAX_SLOT:
        raise ConfigError(f"STEADYHAND_SLOT={text!r}: give a whole number from 0 to {MAX_SLOT}")
    index = int(text)
    runtime_dir = environ.get("XDG_RUNTIME_DIR") or f"/tmp/steadyhand-{os.getuid()}"
    out_root = Path(environ.get("STEADYHAND_OUT", "out"))
    return Slot(
        index=index,
        robot_host=f"127.0.0.{index + 1}",
        ros_domain_id=20 + index,
        triton_http_port=18000 + 10 * index,
        triton_grpc_port=18001 + 10 * index,
        triton_metrics_port=18002 + 10 * index,
        socket_dir=Path(runtime_dir) / f"slot{index}",
        out_dir=out_root if index == 0 else out_root / f"slot{index}",
    )
