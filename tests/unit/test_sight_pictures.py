"""Which object the heat map explains."""
import numpy as np
import pytest

pytest.importorskip("rclpy")
from steadyhand.types import Detection
from steadyhand_ros.sight_pictures import to_explain

pytestmark = pytest.mark.ros


def seen(presence: float, defect: float | None = None) -> Detection:
    return Detection(np.array([0.5, 0.0, 0.02]), 0.0, presence, 0.001, defect)


def test_the_likeliest_scratch_is_explained_or_else_the_least_certain_object():
    sure, unsure, scratched = seen(0.99, 0.1), seen(0.6, 0.2), seen(0.9, 0.8)
    assert to_explain((sure, unsure, scratched)) == (scratched, "scratch")
    old = seen(0.99), seen(0.6)
    assert to_explain(old) == (old[1], "presence")
    assert to_explain(()) is None
