"""Pictures for people: drawn where the objects are, in the colour of the word on them."""
import numpy as np
import pytest

from steadyhand.types import Detection
from steadyhand_perception.pictures import GREEN, RED, YELLOW, annotate, frame, overlay, sheet
from tests.unit.test_perception_maps import looking_down

CAMERA = looking_down()


@pytest.mark.parametrize(
    "presence, defect, colour",
    [(0.99, None, GREEN), (0.99, 0.2, GREEN), (0.99, 0.9, RED), (0.6, 0.1, YELLOW)],
)
def test_an_object_is_drawn_at_its_place_in_the_colour_of_the_word_on_it(presence, defect, colour):
    image = np.zeros((160, 160, 3), np.uint8)
    seen = Detection(np.array([0.5, -0.1, 0.02]), 0.3, presence, 0.001, defect)
    drawn = annotate(image, [seen], CAMERA, scale=2)
    v, u = np.nonzero(drawn.any(axis=2))
    assert {tuple(c) for c in drawn[v, u].tolist()} == {colour} and not image.any()
    centre = (CAMERA.project(np.array([0.5, -0.1, 0.04])) + 0.5) * 2
    np.testing.assert_allclose([u.mean(), v.mean()], centre, atol=2.0)


def test_what_lies_outside_the_image_is_left_out():
    seen = Detection(np.array([50.0, 0.0, 0.02]), 0.0, 1.0, 0.001)
    assert not annotate(np.zeros((160, 160, 3), np.uint8), [seen], CAMERA).any()


def test_heat_is_red_and_nothing_where_there_is_none():
    image, heat = np.full((4, 4, 3), 100, np.uint8), np.zeros((4, 4))
    heat[0, 0] = 1.0
    shown = overlay(image, heat)
    assert shown[0, 0, 0] > 200 and shown[0, 0, 1] < 50 and (shown[1:] == 100).all()


def test_a_sheet_is_filled_up_with_black():
    tiles = [np.full((2, 3, 3), 9, np.uint8)] * 3
    frame(tiles[0], width=1)
    made = sheet(tiles, 2)
    assert made.shape == (4, 6, 3) and not made[2:, 3:].any()
    with pytest.raises(ValueError, match="no tiles"):
        sheet([], 2)
