"""Clock and link of real recordings: a UR5's bag, and the odometry and IMU of a vehicle; damaged ones by name."""
from pathlib import Path

import numpy as np
import pytest

from steadyhand_cli import bag, replay

DATA = Path(__file__).parents[1] / "data"


@pytest.fixture(scope="module")
def husky():
    with np.load(DATA / "agv_husky/arrivals.npz") as found:
        return {name: found[name][:, ::-1] for name in found}  # stamp, received


def test_a_ur5s_bag_goes_through_the_clock_map():
    recording = bag.read(DATA / "ur5_ntnu_2013/No5_push")
    link = replay.analyse(recording)["link"]
    assert link["link_states"] == len(recording.actual.time_s) == 438
    assert link["link_missed"] == link["link_gaps"] == link["clock_resets"] == 0
    assert link["link_jitter_max_us"] < 10  # its times were written from one clock


def test_a_vehicles_odometry_is_on_the_recorders_clock_and_its_imu_is_not(husky):
    odom, imu = replay.judge_link(husky["odom"]), replay.judge_link(husky["imu"])
    assert (odom["link_states"], imu["link_states"]) == (1200, 3600)
    for name, link in (("odom", odom), ("imu", imu)):  # beside the least squares of all the delays
        stamps, received = husky[name].T
        slope, at_zero = np.polyfit(stamps, received - stamps, 1)
        assert abs(link["clock_drift_ppb"] - slope * 1e9) < 5_000
        assert -1_000 < link["clock_offset_us"] - (at_zero + slope * stamps[-1]) * 1e6 < 0
    assert abs(odom["clock_drift_ppb"]) < 1_000 and imu["clock_drift_ppb"] < -30_000
    assert odom["clock_resets"] == imu["clock_resets"] == 0 and imu["link_jitter_p99_us"] < 3_000


def test_reordered_and_not_finite_stamps_are_counted_by_name(husky):
    damaged = husky["odom"].copy()
    damaged[[300, 301], 0] = damaged[[301, 300], 0]
    damaged[500, 0] = np.nan
    link = replay.judge_link(damaged[np.argsort(damaged[:, 1], kind="stable")])
    assert link["clock_refused:not_finite"] == 1 and link["link_states"] < 1200
    assert link["clock_refused:off_the_map"] == 2  # 100 ms early, and 100 ms late


def test_a_cut_off_vehicle_clock_begins_anew(husky):
    damaged = husky["odom"].copy()
    damaged[600:, 0] -= 5_000.0
    link = replay.judge_link(damaged)
    assert link["clock_resets"] == 1 and link["link_states"] > 1150
