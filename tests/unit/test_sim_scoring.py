"""Ground-truth scoring is a pure function of poses."""
import numpy as np
import pytest

from steadyhand import cell
from steadyhand_sim import scoring

BOX = np.array([*cell.BOX.centre_m, 0.02])
TRAY = np.array([*cell.TRAY.centre_m, 0.02])
STILL = np.zeros(3)


@pytest.mark.parametrize("position, velocity, held, place", [
    (BOX, STILL, False, "box"),
    (BOX + [0, 0, 0.04], STILL, False, "box"),  # on top of another cube
    (BOX, [0, 0, -0.5], False, "moving"),
    (BOX, STILL, True, "moving"),  # a finger still touches it
    (BOX + [0, 0, 0.12], STILL, False, "moving"),
    (TRAY, STILL, False, "tray"),
    (TRAY + [0, 0, 0.2], STILL, False, "moving"),
    (np.array([0.2, -0.4, 0.02]), STILL, False, "dropped"),
    (np.array([2.0, 0.0, -5.0]), STILL, False, "dropped"),
])
def test_place_of_one_cube(position, velocity, held, place):
    result = scoring.score(np.array([position]), np.array([velocity]), np.array([held]))
    assert result.places == (place,)


def test_on_the_wall_of_the_box_is_not_in_it():
    on_wall = np.array([cell.BOX.x_max_m + 0.003, cell.BOX.centre_m[1], cell.BOX.wall_height_m + 0.02])
    assert scoring.score(on_wall[None], STILL[None]).in_box == 0


def test_counts_add_up():
    positions = np.array([BOX, TRAY, [0.2, -0.4, 0.02], TRAY + [0, 0, 0.2]])
    result = scoring.score(positions, np.zeros((4, 3)))
    assert (result.in_box, result.in_tray, result.dropped, result.in_motion, result.n_cubes) == (1, 1, 1, 1, 4)


def test_no_cubes():
    assert scoring.score(np.zeros((0, 3)), np.zeros((0, 3))).n_cubes == 0
