"""Replay of a recorded UR5: what is found in it, and what is said of bags that cannot be used."""
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from steadyhand.errors import ConfigError
from steadyhand_cli import bag, replay
from steadyhand_cli.main import main

SAMPLE = Path(__file__).parents[1] / "data/ur5_ntnu_2013/No5_push"


@pytest.fixture(scope="module")
def recording():
    return bag.read(SAMPLE)


def test_the_push_is_seen_and_good_motion_is_admitted(recording):
    report = replay.analyse(recording)
    pushes = report["contacts"]["seen"]
    assert [c["joint"] for c in pushes] == ["shoulder_pan_joint"]
    assert 12.5 < pushes[0]["start_s"] + 11.0 < 12.7 and pushes[0]["peak_a"] > 3.5
    assert report["gate"]["moving_samples"] > 200 and report["gate"]["refused"] == 0
    assert 6.5 < report["tracking"]["shoulder_pan_joint"]["max_mrad"] < 7.5
    assert report["estimator"]["rejected"] == 0


def test_a_jump_in_the_targets_is_refused_by_name(recording):
    velocity = recording.target.qd_rad_s.copy()
    velocity[200:, 2] += 1.0  # one sample of 125 rad/s2
    verdict = replay.judge_setpoints(recording.target.q_rad, velocity, 0.008)
    assert verdict["reasons"]["acceleration"] == 1
    assert verdict["first"]["acceleration"] == "at 1.600 s, elbow_joint"


def steady(speed_rad_s=0.1, n=60, q=(0.0, -1.57, 1.57, -1.57, -1.57, 0.0)):
    """Targets of joint 1 at a constant speed, and of an arm that stands at `q` as far as positions are judged."""
    return np.tile(q, (n, 1)), np.tile([speed_rad_s, 0, 0, 0, 0, 0], (n, 1))


def test_limits_are_those_of_the_gate():
    q, qd = steady()
    assert replay.judge_setpoints(q, qd, 0.008)["reasons"] == {}
    for step_rad_s, reasons in ((0.062, {}), (0.066, {"acceleration": 1, "jerk": 2})):  # 7.75 and 8.25 rad/s2, limit 8
        faster = qd.copy()
        faster[30:, 0] += step_rad_s
        found = replay.judge_setpoints(q, faster, 0.008)["reasons"]
        assert {k: v for k, v in found.items() if k != "stop_inadmissible"} == reasons
    assert replay.judge_setpoints(*steady(3.2), 0.008)["reasons"]["velocity"] == 60


@pytest.mark.parametrize(("q", "reason"), [
    ((-6.4, -1.57, 1.57, -1.57, -1.57, 0.0), "position"), ((0.0, -1.57, 3.0, -1.57, -1.57, 0.0), "self_collision"),
])
def test_where_the_arm_may_not_be_counts_while_it_moves(q, reason):
    report = replay.judge_setpoints(*steady(q=q), 0.008)
    assert report["reasons"] == {reason: 60} and report["refused"] == 60 and report["refused_share"] == 1.0
    standing = replay.judge_setpoints(*steady(0.0, q=q), 0.008)
    assert (standing["moving_samples"], standing["refused"], standing["reasons"]) == (0, 0, {})


def test_a_gap_starts_the_estimator_anew(recording):
    time_s = recording.actual.time_s.copy()
    time_s[200:] += 2.0
    gap = bag.JointRecording(time_s, *(getattr(recording.actual, n) for n in ("q_rad", "qd_rad_s", "current_a")))
    starts = [replay.analyse(bag.Recording(r, None, {}))["estimator"]["restarts"] for r in (recording.actual, gap)]
    assert starts == [1, 2]


def test_without_currents_in_contact_nothing_is_seen(recording):
    quiet, target = (
        bag.JointRecording(*(getattr(r, n)[:180] for n in ("time_s", "q_rad", "qd_rad_s", "current_a")))
        for r in (recording.actual, recording.target)
    )
    assert replay.analyse(bag.Recording(quiet, target, {}))["contacts"]["seen"] == []


@pytest.mark.parametrize("early_s", [0.003, -0.003])
def test_targets_that_come_a_little_earlier_or_later_are_matched(recording, early_s):
    fields = ("q_rad", "qd_rad_s", "current_a")
    shifted = bag.JointRecording(recording.target.time_s - early_s, *(getattr(recording.target, n) for n in fields))
    actual, target = replay._aligned(recording.actual, shifted)
    assert len(actual.time_s) >= len(recording.actual.time_s) - 1
    assert np.abs(actual.time_s - early_s - target.time_s).max() < 1e-9


def test_command_writes_json(tmp_path, capsys):
    assert main(["replay", str(SAMPLE), "--json", str(tmp_path / "r.json")]) == 0
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["gate"]["refused"] == 0
    for kind, by_joint in report["impulses"].items():  # ordinary motion: false alarms of the detector
        assert max(by_joint.values()) < 0.03 * report["samples"], kind
    assert "impulses: " in capsys.readouterr().out


def test_missing_bag(capsys):
    assert main(["replay", "nowhere"]) == 2
    assert "does not exist" in capsys.readouterr().err


def test_truncated_bag(tmp_path):
    folder = tmp_path / "cut"
    shutil.copytree(SAMPLE, folder)
    path = next(folder.glob("*.mcap"))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(ConfigError, match="truncated or damaged"):
        bag.read(folder)


def test_folder_that_is_no_bag(tmp_path):
    with pytest.raises(ConfigError, match="no metadata.yaml"):
        bag.read(tmp_path)


def write_bag(folder, names, rows=20, topic="/joint_states", change=lambda k, q: q, period_ns=8_000_000):
    from rosbags.rosbag2 import StoragePlugin, Writer
    from rosbags.typesys import Stores, get_typestore

    store = get_typestore(Stores.ROS2_KILTED)
    t = store.types
    with Writer(folder, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        connection = writer.add_connection(topic, "sensor_msgs/msg/JointState", typestore=store)
        for k in range(rows):
            header = t["std_msgs/msg/Header"](t["builtin_interfaces/msg/Time"](1, k), "base")
            q = change(k, np.zeros(len(names)))
            message = t["sensor_msgs/msg/JointState"](header, list(names), q, np.zeros(len(names)), np.array([]))
            writer.write(connection, 10**9 + period_ns * k, store.serialize_cdr(message, "sensor_msgs/msg/JointState"))
    return folder


def test_joints_in_another_order_are_sorted_by_name(tmp_path):
    from steadyhand import ur5

    names = ur5.JOINT_NAMES[::-1]
    folder = write_bag(tmp_path / "b", names, change=lambda k, q: np.arange(6.0))
    assert bag.read(folder).actual.q_rad[0].tolist() == [5, 4, 3, 2, 1, 0]


def test_another_robot_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="expected those of a UR5"):
        bag.read(write_bag(tmp_path / "b", ["a", "b"]))


def test_another_topic_is_refused_and_listed(tmp_path):
    from steadyhand import ur5

    with pytest.raises(ConfigError, match="no /joint_states.*it holds: /js"):
        bag.read(write_bag(tmp_path / "b", ur5.JOINT_NAMES, topic="/js"))


def test_not_finite_rows_are_counted_not_used(tmp_path):
    from steadyhand import ur5

    folder = write_bag(tmp_path / "b", ur5.JOINT_NAMES, change=lambda k, q: q * np.nan if k == 3 else q)
    read = bag.read(folder)
    assert read.refused == {"position is not finite": 1} and len(read.actual.time_s) == 19
    assert "need the controller's targets" in replay.analyse(read)["note"]


def test_too_short_a_bag(tmp_path):
    from steadyhand import ur5

    with pytest.raises(ConfigError, match="at least 10"):
        bag.read(write_bag(tmp_path / "b", ur5.JOINT_NAMES, rows=3))


def test_stamps_that_stand_still(tmp_path):
    from steadyhand import ur5

    with pytest.raises(ConfigError, match="stamps of /joint_states do not advance"):
        bag.read(write_bag(tmp_path / "b", ur5.JOINT_NAMES, period_ns=0))


def test_rows_of_the_wrong_length_are_counted_not_used(tmp_path):
    from steadyhand import ur5

    read = bag.read(write_bag(tmp_path / "b", ur5.JOINT_NAMES, change=lambda k, q: q[:5] if k in (3, 4) else q))
    assert read.refused == {"position has 5 values": 2} and len(read.actual.time_s) == 18
