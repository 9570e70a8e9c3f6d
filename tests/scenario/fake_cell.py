"""The kinematic cell under the name that tests use."""
from steadyhand_sim.kinematic_cell import (  # noqa: F401
    Cube, KinematicCell as FakeCell, scatter, scripted_policy,
)
