"""The recorder's bounded queue and files; keys as jog commands."""
import json
import string
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhand import retention
from steadyhand.intervention import demonstration
from steadyhand.jog import JogConfig
from steadyhand.retention import Budget, StorageConfig
from steadyhand.trace import Record
from steadyhand_cli.keys import HOLD_S, KeyMap
from steadyhand_firmware_bridge.recording import InterventionWriter
from steadyhand_firmware_bridge.storage import Store
from tests.unit.test_go_home_and_intervention import recorded


def store(out, config=StorageConfig(0.0, 0.0)):
    return Store(out, "interventions", config)


def test_each_intervention_is_one_file_that_reads_back(tmp_path):
    writer = InterventionWriter(store(tmp_path))
    writer.put(recorded())
    writer.put(recorded())
    writer.close()
    assert writer.written == 2 and writer.dropped == 0 and "takeover" in writer.newest.name
    assert_whole(tmp_path / "interventions", 2)


def assert_whole(folder, count):
    """So many files, each a whole intervention and nothing else."""
    files = list(folder.glob("*.jsonl"))
    assert len(files) == count
    for file in files:
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        assert [x["kind"] for x in lines].count("begin") == 1 and lines[-1]["dropped"] == 0
        assert demonstration(lines).complete and len(lines) == lines[-1]["steps"] + 2


def test_two_recorders_of_one_intervention_do_not_share_a_file(tmp_path):
    writers = [InterventionWriter(store(tmp_path)) for _ in range(2)]
    for record in recorded():
        for writer in writers:
            writer.put([record])
    for writer in writers:
        writer.close()
    assert_whole(tmp_path / "interventions", 2)


def test_a_full_queue_drops_steps_only_and_counts_them(tmp_path):
    writer = InterventionWriter(store(tmp_path), capacity=1)
    writer._queue.append(Record("step", 0.0))  # as if the disk had stopped: the queue is full from the start
    writer.capacity = 0
    writer.put(recorded())
    writer.close()
    lines = [json.loads(line) for line in writer.newest.read_text().splitlines()]
    assert [x["kind"] for x in lines] == ["begin", "end"]
    assert writer.dropped == lines[-1]["dropped"] == lines[-1]["steps"] > 10


def test_a_folder_that_cannot_be_made_is_counted(tmp_path):
    (tmp_path / "file").write_text("")
    writer = InterventionWriter(store(tmp_path / "file"))
    writer.put(recorded())
    writer.close()
    assert writer.errors >= 1 and writer.written == 0


class FullDisk(type(Path())):
    """A folder in which every file takes nothing."""

    def open(self, mode):
        return open("/dev/full", mode.replace("x", "w"))


def test_a_full_disk_is_counted_once_and_the_next_intervention_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(retention, "HOLD_S", 0.0)
    writer = InterventionWriter(store(FullDisk(tmp_path)))
    records = recorded()
    writer.put(records[:-1])
    deadline_s = time.monotonic() + 5.0
    while not writer.errors:  # what is buffered is refused at the flush only
        assert time.monotonic() < deadline_s and writer._thread.is_alive()
        time.sleep(0.002)
    writer.folder = tmp_path
    writer.put(records)
    writer.close()
    assert writer.written == writer.errors == writer.store.pauses == 1 and writer.store.why == ""
    assert demonstration(map(json.loads, writer.newest.read_text().splitlines())).complete


def test_an_intervention_without_room_is_refused_by_name_and_counted(tmp_path):
    writer = InterventionWriter(store(tmp_path, StorageConfig(min_free_mb=1e7, resume_free_mb=1e7)))
    writer.put(recorded())
    writer.close()
    assert (writer.written, writer.refused, writer.errors) == (0, 1, 0) and "min_free_mb" in writer.store.why
    assert not (tmp_path / "interventions").exists()


@pytest.mark.parametrize("max_mb", [1.0, 4.2])
def test_an_intervention_ends_without_an_end_where_its_room_does_and_the_next_one_is_whole(tmp_path, max_mb):
    budgets = {**retention.BUDGETS, "interventions": Budget(max_mb, 30.0)}
    writer = InterventionWriter(store(tmp_path, StorageConfig(0.0, 0.0, budgets=budgets)))
    begin, *steps, end = recorded()
    long = [replace(steps[0], fields={**steps[0].fields, "said": "x" * 100_000})] * 30
    writer.put([begin, *long, end, *recorded()])
    writer.close()
    cut, whole = sorted((tmp_path / "interventions").iterdir(), key=lambda p: p.stat().st_size, reverse=True)
    assert 0.2 * max_mb < cut.stat().st_size / retention.MB < 0.5 * max_mb and '"kind":"end"' not in cut.read_text()
    assert (writer.written, writer.refused, writer.errors) == (1, 1, 0) and whole == writer.newest


# --- keys ---


@pytest.mark.parametrize("key, axis, sign", [("w", 0, 1), ("d", 1, -1), ("e", 2, -1), ("u", 3, 1), ("l", 5, -1)])
def test_a_key_moves_one_axis_for_a_moment(key, axis, sign):
    keys = KeyMap(speed=0.5)
    assert keys.press(key, 1.0) == ""
    values = keys.command(1.0 + HOLD_S / 2).values
    c = JogConfig()
    assert values[axis] == pytest.approx(sign * 0.5 * (c.linear_m_s if axis < 3 else c.angular_rad_s))
    assert sum(v != 0 for v in values) == 1
    assert not any(keys.command(1.0 + HOLD_S).values)


def test_a_joint_is_chosen_and_moved():
    keys = KeyMap()
    keys.press("4", 0.0)
    keys.press("-", 0.0)
    command = keys.command(0.01)
    assert command.joint and command.values[3] < 0 and sum(v != 0 for v in command.values) == 1


def test_acts_end_the_motion():
    for key, act in ((" ", "stop"), ("x", "leave"), ("\x1b", "leave"), ("c", "close"), ("v", "open")):
        keys = KeyMap()
        keys.press("w", 0.0)
        assert keys.press(key, 0.01) == act and not any(keys.command(0.02).values)


@given(st.lists(st.sampled_from(string.printable + "é\x00\x7f"), max_size=30))
def test_any_keys_give_usable_commands(pressed):
    keys = KeyMap()
    for k, key in enumerate(pressed):
        keys.press(key, 0.05 * k)
        command = keys.command(0.05 * k)
        assert len(command.values) == 6 and max(map(abs, command.values)) <= 0.5
