"""What lies on the disk: budgets of real folders, traces with the evidence of stops, and a disk that is really full."""
import json
import os
import time

import pytest

from steadyhand import retention
from steadyhand.retention import MB, Budget, StorageConfig
from steadyhand.trace import Record
from steadyhand_firmware_bridge import storage
from steadyhand_firmware_bridge.storage import Store
from steadyhand_ros import trace_writer
from steadyhand_ros.trace_writer import TraceWriter
from tests.support.small_disk import fill, small_disk


def config(max_mb=1.0, free_mb=0.0, resume_mb=None, **more):
    budgets = {kind: Budget(max_mb, 30.0) for kind in retention.BUDGETS}
    return StorageConfig(free_mb, free_mb if resume_mb is None else resume_mb, budgets=budgets, **more)


def put(path, size_bytes, age_s=0.0):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size_bytes)
    os.utime(path, (time.time() - age_s,) * 2)
    return path


def until(condition, timeout_s=10.0):
    end_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end_s, "not in time"
        time.sleep(0.005)


def test_the_oldest_go_for_what_is_new_and_what_is_in_use_stays(tmp_path):
    for k in range(8):
        put(tmp_path / "trace" / f"{k}.jsonl", 100_000, age_s=100 - k)
    store = Store(tmp_path, "trace", config())
    assert store.room(400_000, keep={"0.jsonl"})
    there = sorted(p.name for p in (tmp_path / "trace").iterdir())
    assert there[0] == "0.jsonl" and there[-1] == "7.jsonl" and store.deleted == 8 - len(there) > 0
    assert sum(e.size_bytes for e in storage.scan(tmp_path / "trace")) + 400_000 <= MB
    assert not store.room(2 * MB) and "over its budget of 1 MB" in store.why and store.room(0)
    assert store.why  # asking for nothing changes nothing
    assert store.room(1) and store.why == ""


def test_what_is_not_bulky_goes_on_when_space_is_short(tmp_path):
    short = config(free_mb=1e7)
    assert not Store(tmp_path, "trace", short).room(1) and Store(tmp_path, "reports", short, bulky=False).room(1)


def test_what_vanishes_or_may_not_be_deleted_is_no_error(tmp_path, monkeypatch):
    assert Store(tmp_path / "none", "trace", config()).room(10)
    put(tmp_path / "trace/a", 900_000, age_s=9), put(tmp_path / "trace/b", 900_000)
    monkeypatch.setattr(storage, "_delete", lambda path: False)
    store = Store(tmp_path, "trace", config())
    assert not store.room(1) and store.deleted == 0


def test_a_sweep_cuts_live_logs_and_never_deletes_them(tmp_path):
    log = put(tmp_path / "log/guard.log", 300_000, age_s=90 * 86_400)
    idle = put(tmp_path / "log/idle.log", 10, age_s=90 * 86_400)
    old = put(tmp_path / "log/ros/python_1.log", 10, age_s=80 * 86_400)
    report, index = (put(tmp_path / "reports" / name, 10, age_s=70 * 86_400) for name in ("a.md", "index.md"))
    put(tmp_path / "reports/new.md", 10)
    with log.open("ab", buffering=0) as process:  # as the launcher opens it for a process
        process.write(b"the end\n")
        os.utime(log, (time.time() - 90 * 86_400,) * 2)
        storage.sweep(tmp_path, config(log_file_mb=0.1))
        process.write(b"goes on\n")
    assert log.read_bytes() == b"goes on\n"
    assert (tmp_path / "log/guard.1.log").read_bytes().endswith(b"xthe end\n")
    assert not old.exists() and not report.exists() and index.exists() and idle.exists()
    storage.sweep(tmp_path, config(log_file_mb=0.1))
    assert {p.name for p in (tmp_path / "log").glob("*.log")} == {"guard.log", "guard.1.log", "idle.log"}


def test_the_file_is_read_where_the_variable_says(tmp_path):
    path = tmp_path / "storage.yaml"
    path.write_text("min_free_mb: 7\nbudgets: {log: {max_mb: 3}}\n")
    got = storage.load({storage.CONFIG_VARIABLE: str(path)})
    assert got.min_free_mb == 7 and got.budgets["log"] == Budget(3, 30.0) and storage.load({}) == StorageConfig()
    for text in ("min_free_mb: x", "- 1", ":", "\x00"):
        path.write_text(text)
        with pytest.raises(storage.ConfigError, match=str(path)):
            storage.load({storage.CONFIG_VARIABLE: str(path)})
    with pytest.raises(storage.ConfigError, match="none.yaml"):
        storage.load({storage.CONFIG_VARIABLE: str(tmp_path / "none.yaml")})


# --- the trace ---


@pytest.fixture
def traced(tmp_path, monkeypatch):
    """`traced(out, config)` is a trace writer; what it says is in `traced.said`."""
    writers, said = [], []
    monkeypatch.setattr(trace_writer, "FLUSH_S", 0.005)

    def make(out=tmp_path, settings=None, name="agent-b"):
        settings = settings or config()
        stops = Store(out, "stops", settings, bulky=False)
        writers.append(TraceWriter(Store(out, "trace", settings), stops, name, out / "log", said.append))
        return writers[-1]

    make.said = said
    yield make
    for writer in writers:
        writer.close()


def lines_of(folder):
    return [json.loads(x) for p in sorted(folder.glob("*.jsonl")) for x in p.read_text().splitlines()]


def test_a_trace_keeps_to_its_budget_and_the_newest_is_there(tmp_path, traced):
    writer, text = traced(), "y" * 1000
    for k in range(3000):
        writer.put(Record("phase", float(k), {"text": text}))
        if k % 50 == 0:
            until(lambda: not writer.buffer._lines)
    writer.close()
    stamps = [x["stamp_s"] for x in lines_of(tmp_path / "trace") if x["kind"] == "phase"]
    assert stamps == [float(k) for k in range(int(stamps[0]), 3000)] and len(stamps) > 500
    assert sum(e.size_bytes for e in storage.scan(tmp_path / "trace")) <= MB and writer.buffer.dropped == 0


def test_the_evidence_of_the_newest_stop_outlives_the_trace_round_it(tmp_path, traced, monkeypatch):
    monkeypatch.setattr(trace_writer, "AFTERMATH_S", 60.0)  # a busy machine is not what is tested
    put(tmp_path / "log/guard.log", 200_000)
    writer = traced()
    writer.put(Record("chunk", 1.0, {"trace_id": "before"}))
    writer.stop("peer: ../right", Record("stop", 2.0, {"causes": ["peer: ../right"]}))
    until(lambda: writer.evidence == 1)
    for k in range(3000):
        writer.put(Record("phase", 3.0 + k, {"text": "y" * 1000}))
        if k % 50 == 0:
            until(lambda: not writer.buffer._lines)
    (folder,) = (tmp_path / "stops").iterdir()
    assert folder.name.endswith("-agent-b-1-peer-right")
    assert json.loads((folder / "stop.json").read_text())["causes"] == ["peer: ../right"]
    kept = lines_of(folder)
    assert [x["kind"] for x in kept[:2]] == ["chunk", "stop"] and kept[0]["trace_id"] == "before"
    assert kept[2]["stamp_s"] == 3.0 and (folder / "agent-b-0002.jsonl").exists()  # what followed
    assert (folder / "guard.log").stat().st_size == trace_writer.LOG_TAIL_BYTES
    assert not (tmp_path / "trace/agent-b-0001.jsonl").exists()


def test_a_stop_in_a_segment_just_begun_keeps_the_one_before(tmp_path, traced):
    writer, k = traced(), 0
    while not (tmp_path / "trace/agent-b-0002.jsonl").exists():
        writer.put(Record("phase", float(k), {"text": "y" * 30_000}))
        until(lambda: not writer.buffer._lines)
        k += 1
    writer.stop("estop", Record("stop", 1.0))
    until(lambda: writer.evidence == 1)
    (folder,) = (tmp_path / "stops").iterdir()
    assert {p.name for p in folder.glob("*.jsonl")} == {"agent-b-0001.jsonl", "agent-b-0002.jsonl"}


def test_old_stops_go_and_the_newest_stays_though_it_is_over_the_budget(tmp_path, traced):
    put(tmp_path / "stops/1/big", 1_500_000, age_s=10)
    put(tmp_path / "stops/2/big", 1_500_000, age_s=5)
    assert storage.sweep(tmp_path, config()) == 1
    assert [p.name for p in (tmp_path / "stops").iterdir()] == ["2"]


@pytest.mark.parametrize(("last", "kept"), [(b'{"kind":"end"}\n', 0), (b'{"kind":"chunk"}\n', 1), (b'{"kin', 1)])
def test_the_trace_of_a_process_that_died_becomes_evidence(tmp_path, traced, last, kept):
    put(tmp_path / "trace/agent-a-0001.jsonl", 0).write_bytes(b'{"kind":"goal"}\n' + last)
    writer = traced()
    writer.close()
    assert writer.evidence == kept and len(list(tmp_path.glob("stops/*agent-died/agent-a-0001.jsonl"))) == kept


def test_one_death_is_evidence_once_and_makes_room_for_itself(tmp_path, traced):
    put(tmp_path / "trace/agent-a-0001.jsonl", 0).write_bytes(b'{"kind":"chunk"}\n')
    put(tmp_path / "stops/1/big", 900_000, age_s=10), put(tmp_path / "stops/2/big", 900_000, age_s=5)
    first = traced(name="agent-b")  # dies without a line, and is started again
    until(lambda: first.evidence)
    second = traced(name="agent-c")
    second.put(Record("chunk", 1.0))
    until(lambda: list(tmp_path.glob("trace/agent-c-*")))
    assert second.evidence == 0 and not (tmp_path / "stops/1").exists() and len(list(tmp_path.glob("stops/*"))) == 2


def test_a_node_that_is_activated_again_begins_a_segment_of_its_own(tmp_path, traced):
    for stamp_s in (1.0, 2.0):
        writer = traced()
        writer.put(Record("chunk", stamp_s))
        writer.close()
    kinds = [[json.loads(x)["kind"] for x in p.read_text().splitlines()] for p in sorted(tmp_path.glob("trace/*"))]
    assert kinds == [["chunk", "end"]] * 2


def test_a_full_disk_stops_the_trace_once_and_loudly_and_room_lets_it_go_on(tmp_path, traced, monkeypatch):
    monkeypatch.setattr(retention, "HOLD_S", 0.2)
    with small_disk(tmp_path / "disk", 4) as disk:
        writer = traced(disk, config(max_mb=10.0, free_mb=0.0, resume_mb=1.0))
        writer.put(Record("phase", 1.0))
        until(lambda: list(disk.glob("trace/*.jsonl")))
        ballast = fill(disk)
        for k in range(20):
            writer.put(Record("phase", 2.0 + k, {"text": "z" * 2000}))
        until(lambda: writer.store.why)
        for _ in range(500):  # more of it: one pause, nobody waits
            writer.put(Record("phase", 50.0))
        assert writer.store.pauses == writer.errors == 1 and "No space left" in writer.store.why
        until(lambda: traced.said)
        ballast.unlink()
        writer.put(Record("phase", 99.0))
        until(lambda: any(x["stamp_s"] == 99.0 for x in lines_of(disk / "trace")))
        lines = lines_of(disk / "trace")  # every line whole
        assert [x["stamp_s"] for x in lines if x["stamp_s"] in (1.0, 99.0)] == [1.0, 99.0]
        written = sum(x["kind"] == "phase" for x in lines)
        assert written + writer.buffer.dropped == 522 and writer.store.pauses == 1 and writer.store.why == ""
        until(lambda: len(traced.said) == 2)
        assert "recording stopped: No space left" in traced.said[0] and traced.said[1] == "recording goes on"
        writer.close()


def test_recording_stops_before_the_disk_is_full_and_a_stops_evidence_is_kept_still(tmp_path, traced):
    writer = traced(settings=config(free_mb=1e7))
    writer.put(Record("chunk", 1.0))
    writer.stop("estop", Record("stop", 2.0))
    until(lambda: writer.evidence == 1 and traced.said)
    assert "min_free_mb" in writer.store.why and len(list(tmp_path.glob("stops/*/stop.json"))) == 1
    assert not (tmp_path / "trace").exists() and writer.errors == 0


def test_evidence_that_the_disk_refuses_is_tried_again(tmp_path, traced, monkeypatch):
    monkeypatch.setattr(trace_writer, "HOLD_S", 0.02)
    (tmp_path / "stops").write_text("in the way")
    writer = traced()
    writer.put(Record("chunk", 1.0))
    writer.stop("estop", Record("stop", 2.0))
    until(lambda: writer.errors >= 2)
    (tmp_path / "stops").unlink()
    until(lambda: writer.evidence == 1)
    assert [x["kind"] for x in lines_of(next((tmp_path / "stops").iterdir()))] == ["chunk", "stop"]
    assert writer.store.pauses == 0  # the trace went on meanwhile


def test_evidence_is_tried_again_now_and_then_and_at_the_end_and_makes_room_for_itself(tmp_path, traced, monkeypatch):
    monkeypatch.setattr(trace_writer, "HOLD_S", 60.0)
    monkeypatch.setattr(storage, "SCAN_S", 0.0)
    put(tmp_path / "aside/1/big", 900_000, age_s=10), put(tmp_path / "aside/2/big", 900_000, age_s=5)
    (tmp_path / "stops").write_text("in the way")
    writer = traced()
    writer.stop("estop", Record("stop", 2.0))
    until(lambda: writer.errors)
    for k in range(5):
        writer.put(Record("phase", float(k)))
        until(lambda: not writer.buffer._lines)
    assert writer.errors == 1
    (tmp_path / "stops").unlink()
    (tmp_path / "aside").rename(tmp_path / "stops")
    writer.close()
    assert writer.evidence == 1 and not (tmp_path / "stops/1").exists() and (tmp_path / "stops/2").exists()


def test_a_trace_without_a_folder_to_lie_in_counts_what_is_lost(tmp_path, traced):
    (tmp_path / "trace").write_text("in the way")
    writer = traced()
    writer.put(Record("chunk", 1.0))
    until(lambda: writer.errors)
    assert writer.buffer.dropped == 1 and "on " + str(tmp_path / "trace") in writer.store.why


def test_a_log_that_cannot_be_read_keeps_no_stop_from_its_evidence(tmp_path, traced):
    (tmp_path / "log/another_users.log").mkdir(parents=True)
    put(tmp_path / "log/guard.log", 10)
    writer = traced()
    for k in range(2):
        writer.stop("estop", Record("stop", 2.0 + k))
    until(lambda: writer.evidence == 2)
    assert writer.errors == 2 and len(list(tmp_path.glob("stops/*/guard.log"))) == 2


def test_stops_that_find_too_many_waiting_are_counted(tmp_path, traced, monkeypatch):
    monkeypatch.setattr(trace_writer, "HOLD_S", 0.02)
    (tmp_path / "stops").write_text("in the way")
    writer, asked = traced(), trace_writer.WAITING + 5
    for k in range(asked):
        writer.stop(f"s{k}", Record("stop", float(k)))
    until(lambda: writer.errors >= 2)
    (tmp_path / "stops").unlink()
    until(lambda: not writer._asked and not writer._keeping)
    assert writer.stops_lost + writer.evidence == asked and writer.stops_lost in (4, 5)
    assert len(list(tmp_path.glob("stops/*/stop.json"))) == writer.evidence
    assert list(tmp_path.glob(f"stops/*-s{asked - 1}"))  # the newest is there


def test_half_a_copy_never_passes_for_evidence(tmp_path, traced, monkeypatch):
    def no_links(source, target):  # as on a file system without hard links
        raise FileExistsError(target) if target.exists() else PermissionError(target)

    copy, refused = trace_writer.shutil.copyfile, []

    def copyfile(source, target):
        if not refused:
            refused.append(target.write_bytes(source.read_bytes()[:10]))
            raise OSError(28, "No space left on device")
        return copy(source, target)

    monkeypatch.setattr(trace_writer, "HOLD_S", 0.02)
    monkeypatch.setattr(trace_writer.os, "link", no_links)
    monkeypatch.setattr(trace_writer.shutil, "copyfile", copyfile)
    writer = traced()
    writer.put(Record("chunk", 1.0))
    writer.stop("estop", Record("stop", 2.0))
    until(lambda: writer.evidence == 1)
    assert refused and [x["kind"] for x in lines_of(next((tmp_path / "stops").iterdir()))] == ["chunk", "stop"]
