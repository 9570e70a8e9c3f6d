"""PyBullet, imported late and connected quietly."""
from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import tempfile
from collections.abc import Iterator

from steadyhand.errors import DependencyMissing
from steadyhand_sim import robots


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Bullet's C code prints a banner to stdout and stderr, where our callers expect JSON and log lines only."""
    sys.stdout.flush()
    sys.stderr.flush()
    saved = os.dup(1), os.dup(2)
    with open(os.devnull, "w") as null:
        os.dup2(null.fileno(), 1)
        os.dup2(null.fileno(), 2)
        try:
            yield
        finally:
            ctypes.CDLL(None).fflush(None)  # on a pipe C's stdout is buffered: the banner would come at exit
            for copy, fd in zip(saved, (1, 2)):
                os.dup2(copy, fd)
                os.close(copy)


def connect():
    """A PyBullet client of its own, without window; raises DependencyMissing that says how to get PyBullet."""
    try:
        with _quiet():
            import pybullet
            import pybullet_utils.bullet_client as bullet_client

            return bullet_client.BulletClient(connection_mode=pybullet.DIRECT)
    except ImportError as error:
        raise DependencyMissing("the simulated cell needs pybullet: pip install 'steadyhand[sim]'") from error


def load_ur5(client, visual: bool = True) -> int:
    """Load the generated arm with its gripper, fixed at the origin; returns the body. Not `visual`: never drawn."""
    with tempfile.NamedTemporaryFile("w", suffix=".urdf", prefix="steadyhand_ur5_") as urdf:
        urdf.write(robots.ur5_urdf())
        urdf.flush()
        flags = 0 if visual else client.URDF_IGNORE_VISUAL_SHAPES
        return client.loadURDF(urdf.name, useFixedBase=True, flags=flags)


def joint_indices(client, body: int) -> dict[str, int]:
    """Index of every joint by name; a link has the index of the joint before it."""
    return {client.getJointInfo(body, j)[1].decode(): j for j in range(client.getNumJoints(body))}
