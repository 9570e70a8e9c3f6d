"""Limits are finite, consistent and as documented."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from steadyhand import ur5
from steadyhand.errors import ConfigError
from steadyhand.limits import UR5_LIMITS, Limits


@pytest.mark.parametrize(
    "change",
    [
        {"qdd_max_rad_s2": np.full(6, np.nan)},
        {"qd_max_rad_s": np.full(5, 1.0)},
        {"qddd_max_rad_s3": np.zeros(6)},
        {"max_stop_s": -0.1},
        {"tracking_rad": float("inf")},
        {"q_min_rad": ur5.Q_MAX_RAD},
        {"tool_min_m": np.array([0.9, 0.0, 0.0])},
        {"stop_qdd_rad_s2": np.full(6, 20.0)},
    ],
)
def test_bad_value_is_refused_by_name(change):
    with pytest.raises(ConfigError, match=f"limits.{next(iter(change))}"):
        replace(UR5_LIMITS, **change)


def test_arrays_cannot_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        UR5_LIMITS.qd_max_rad_s[0] = 10.0


def test_jerk_limit_is_one_full_acceleration_step_in_one_cb3_cycle():
    assert np.allclose(UR5_LIMITS.qddd_max_rad_s3 * ur5.SERVO_PERIOD_CB3_S, UR5_LIMITS.qdd_max_rad_s2)


def test_top_speed_can_be_stopped_within_the_admissible_time():
    limits = Limits()
    needed = limits.qd_max_rad_s / limits.qdd_max_rad_s2 + limits.qdd_max_rad_s2 / limits.qddd_max_rad_s3
    assert needed.max() < limits.max_stop_s


def test_document_states_the_numbers():
    text = (Path(__file__).parents[2] / "docs" / "limits.md").read_text()
    for values in (UR5_LIMITS.qdd_max_rad_s2, UR5_LIMITS.qddd_max_rad_s3, UR5_LIMITS.stop_qdd_rad_s2):
        assert ", ".join(f"{v:g}" for v in values) in text
