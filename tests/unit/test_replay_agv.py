"""A real vehicle's MCAP log through link monitor, ROS bridge and estimator; damaged ones by name."""
import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rosbags")
from steadyhand.errors import ConfigError
from steadyhand_cli import agv_bag, bag, main, replay_agv
from steadyhand_sim.agv.recordings import Husky

DATA = Path(__file__).parents[1] / "data/agv_husky"
SAMPLE = DATA / "bag"


@pytest.fixture(scope="module")
def recording():
    return agv_bag.read(SAMPLE)


@pytest.fixture(scope="module")
def config(recording):
    return replay_agv.vehicle_config("", recording)


def changed(recording, change):
    """The recording with `change(number, odom)` instead of each odometry message; None leaves it out."""
    odoms = [made for k, odom in enumerate(recording.odoms) if (made := change(k, odom)) is not None]
    start_s = recording.odoms[0].stamp_s - recording.odom_arrivals_s[0, 0]
    arrivals = np.array([(o.stamp_s - start_s, o.arrival_s) for o in odoms])
    return dataclasses.replace(recording, odoms=odoms, odom_arrivals_s=arrivals)


def test_the_recorded_vehicle_is_taken_whole_and_the_estimate_stays_beside_its_wheels(recording, config):
    report = replay_agv.analyse(recording, config)
    odometry, imu = report["link"]["odometry"], report["link"]["imu"]
    assert (odometry["link_states"], imu["link_states"]) == (450, 1351)
    assert odometry["link_missed"] == odometry["link_gaps"] == odometry["clock_resets"] == 0
    assert abs(odometry["clock_drift_ppb"]) < 5_000 and imu["clock_drift_ppb"] < -20_000  # a clock of its own
    assert report["bridge"]["accepted"] == 450 and report["bridge"]["refused"] == {}
    assert report["bridge"]["forbidden_s"] == {} and report["bridge"]["oldest_ms"] < 130
    speeds = np.array([o.twist[0] for o in recording.odoms])
    way_m = np.trapezoid(speeds, [o.stamp_s for o in recording.odoms])
    beside = report["estimator"]["beside_odometry"]
    assert report["estimator"]["way_m"] == pytest.approx(way_m, rel=1e-3) and way_m > 25
    assert beside["windows"] == 2 and beside["distance_max_m"] < 1.0 and beside["heading_max_rad"] < 0.1
    assert 0.2 < report["estimator"]["end_sigma_m"] < 3.0


def test_the_vertical_is_found_however_the_imu_is_mounted(recording):
    """This one lies on its side; the arrays say which axis its yaw is about."""
    monitor = replay_agv._link(recording.imu.arrivals_s)
    _, rate = replay_agv.about_the_vertical(recording.imu, monitor)
    arrays = Husky.load(DATA / "husky.npz")
    assert np.corrcoef(rate, arrays.gyro_rad_s[-len(rate):])[0, 1] > 0.99
    lying = dataclasses.replace(recording.imu, acceleration_m_s2=recording.imu.acceleration_m_s2 * 0.1)
    with pytest.raises(ConfigError, match="mean acceleration is 1.0"):
        replay_agv.about_the_vertical(lying, monitor)


def test_what_the_bridge_refuses_is_named_counted_and_forbids_motion(recording, config):
    nan, moved = [math.nan] * 7, [100.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]

    def spoil(k, odom):
        if 200 <= k < 210:
            return None  # a second of silence
        spoilt = {50: {"pose": nan}, 100: {"pose": moved}, 150: {"child_frame": "base_footprint"},
                  300: {"stamp_s": odom.stamp_s - 1.0}, 350: {"twist": [3.0] + [0.0] * 5}}  # fmt: skip
        return dataclasses.replace(odom, **spoilt.get(k, {}))

    report = replay_agv.analyse(changed(recording, spoil), config)
    bridge = report["bridge"]
    assert bridge["refused"] == {"not_finite": 1, "jump": 2, "frame": 1, "back_in_time": 1, "speed": 1}
    told = {cause.partition(":")[2] for cause in bridge["forbidden_s"]}
    assert told == {f"odom_{why}" for why in (*bridge["refused"], "stale")}
    assert bridge["forbidden_s"]["feedback_lost:odom_stale"] == pytest.approx(1.1 - config.feedback_timeout_s, abs=0.1)
    assert report["link"]["odometry"]["link_gaps"] == 1 and bridge["oldest_ms"] > 1_000
    assert report["estimator"]["beside_odometry"]["windows"] >= 1


def test_one_that_goes_faster_than_the_load_allows_is_not_believed(recording, tmp_path):
    file = tmp_path / "agv_ros.yaml"
    first = recording.odoms[0]
    file.write_text(json.dumps({"vehicle": {
        "odom_frame": first.frame, "base_frame": first.child_frame, "load": "box", "loads": {"box": {"speed_m_s": 0.3}},
    }}))  # fmt: skip
    bridge = replay_agv.analyse(recording, replay_agv.vehicle_config(str(file), recording))["bridge"]
    fast = sum(o.twist[0] > 0.65 for o in recording.odoms)
    assert bridge["refused"]["speed"] == pytest.approx(fast, abs=2) and fast > 50 and bridge["accepted"] < 450


def test_command_writes_json(tmp_path, capsys):
    assert main.main(["replay", str(SAMPLE), "--json", str(tmp_path / "r.json")]) == 0
    said = capsys.readouterr().out
    assert "bridge: 450 taken, refused none" in said and "beside the wheels' own pose, 2 windows" in said
    assert json.loads((tmp_path / "r.json").read_text())["estimator"]["beside_odometry"]["windows"] == 2


def test_a_truncated_bag_and_a_topic_that_is_not_there_are_named(tmp_path, capsys):
    (tmp_path / "metadata.yaml").write_bytes((SAMPLE / "metadata.yaml").read_bytes())
    (tmp_path / "husky.mcap").write_bytes((SAMPLE / "husky.mcap").read_bytes()[:5000])
    with pytest.raises(ConfigError, match="truncated or damaged"):
        agv_bag.read(tmp_path)
    with pytest.raises(ConfigError, match="--odom /odom: no topic of type nav_msgs/msg/Odometry; of that type: /husky"):
        agv_bag.read(SAMPLE, "/odom")
    assert main.main(["replay", str(tmp_path / "none")]) == 2 and "does not exist" in capsys.readouterr().err


def test_which_kind_of_bag_it_is():
    assert agv_bag.is_vehicle(bag.topics(SAMPLE))
    assert not agv_bag.is_vehicle(bag.topics(DATA.parent / "ur5_ntnu_2013/No5_push"))
