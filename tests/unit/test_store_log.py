"""The log of the training store: what was acknowledged is there, one writer, torn is cut, damaged is said."""
import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from policies.training.store import frames, segments
from policies.training.store.frames import BadStore
from policies.training.store.log import LogConfig, RecordLog
from policies.training.store.survey import survey
from steadyhand.errors import ConfigError

SMALL = LogConfig(segment_bytes=1024)


def opened(folder, config=SMALL, kind="test", meta=None):
    return RecordLog(folder, kind, meta or {"a": 1}, config)


def filled(folder, count=20, size=100, config=SMALL):
    """A closed log of `count` records."""
    with opened(folder, config) as log:
        for k in range(count):
            log.append(bytes([k]) * size)
    return [bytes([k]) * size for k in range(count)]


def contents(folder):
    return [payload for _, payload in segments.read(folder)]


def test_records_are_numbered_and_read_back(tmp_path):
    with opened(tmp_path / "log") as log:
        assert [log.append(b"one"), log.append(b""), log.extend([b"two", b"three"])] == [0, 1, 2]
        assert log.end == 4 and list(log.read(2)) == [(2, b"two"), (3, b"three")]
    with opened(tmp_path / "log") as log:
        assert log.recovery.records == 4 and log.recovery.torn_bytes == log.recovery.unmarked == 0
        assert log.append(b"four") == 4
    assert contents(tmp_path / "log") == [b"one", b"", b"two", b"three", b"four"]
    assert survey(tmp_path / "log").problems == []


def test_segments_follow_one_another_and_are_read_from_the_middle(tmp_path):
    written = filled(tmp_path)
    assert len(segments.paths(tmp_path)) > 2 and contents(tmp_path) == written
    assert [p for _, p in segments.read(tmp_path, 13)] == written[13:] and list(segments.read(tmp_path, 20)) == []
    assert all(p.stat().st_size <= SMALL.segment_bytes for p in segments.paths(tmp_path))


@pytest.mark.parametrize("cut", [1, 5, 23, 60, 119])
def test_a_torn_tail_is_cut_and_counted(tmp_path, cut):
    with opened(tmp_path) as log:
        log.append(b"x" * 100)
        whole = os.path.getsize(segments.segment_path(tmp_path, 0))
        mark = (tmp_path / segments.MARK_NAME).read_bytes()
        log.append(b"y" * 100)
    os.truncate(segments.segment_path(tmp_path, 0), whole + 120 - cut)  # a kill before the acknowledgement
    (tmp_path / segments.MARK_NAME).write_bytes(mark)
    with opened(tmp_path) as log:
        assert log.recovery == type(log.recovery)(1, 0, 120 - cut) and log.append(b"z") == 1
    assert contents(tmp_path) == [b"x" * 100, b"z"]


def test_a_whole_record_that_was_not_acknowledged_is_kept(tmp_path):
    filled(tmp_path, 2)
    (tmp_path / segments.MARK_NAME).write_bytes(segments.mark_bytes(1))
    with opened(tmp_path) as log:
        assert (log.recovery.records, log.recovery.unmarked) == (2, 1)


def test_a_hole_that_a_power_cut_left_behind_the_mark_is_cut_and_kept_aside(tmp_path):
    written = filled(tmp_path, 5)
    path = segments.segment_path(tmp_path, 0)
    third = segments.scan(segments.open_segment(path)).frames[2]
    content = bytearray(path.read_bytes())
    content[third.start : third.end] = bytes(third.end - third.start)
    path.write_bytes(content)
    (tmp_path / segments.MARK_NAME).write_bytes(segments.mark_bytes(2))
    with opened(tmp_path) as log:
        assert log.end == 2 and (tmp_path / log.recovery.torn_kept).stat().st_size == log.recovery.torn_bytes
    assert contents(tmp_path) == written[:2]


def test_an_acknowledged_record_that_is_gone_from_the_end_is_said(tmp_path):
    filled(tmp_path, 3)
    os.truncate(segments.segment_path(tmp_path, 0), os.path.getsize(segments.segment_path(tmp_path, 0)) - 1)
    for attempt in (lambda: opened(tmp_path), lambda: contents(tmp_path)):
        with pytest.raises(BadStore, match="records 2 to 2 were acknowledged and are gone"):
            attempt()
    assert survey(tmp_path).missing == 1


def test_without_a_mark_the_torn_bytes_are_kept_aside(tmp_path):
    filled(tmp_path, 3)
    (tmp_path / segments.MARK_NAME).unlink()
    os.truncate(segments.segment_path(tmp_path, 0), os.path.getsize(segments.segment_path(tmp_path, 0)) - 1)
    with opened(tmp_path) as log:
        assert log.recovery.mark_lost and (tmp_path / log.recovery.torn_kept).stat().st_size == 119
        assert log.recovery.records == 2


def test_damage_below_the_mark_is_refused_and_everything_else_can_be_surveyed(tmp_path):
    written = filled(tmp_path, 5)
    path = segments.segment_path(tmp_path, 0)
    content = bytearray(path.read_bytes())
    content[segments.scan(segments.open_segment(path)).frames[2].payload_start + 3] ^= 1
    path.write_bytes(content)
    with pytest.raises(BadStore, match="damaged bytes at .*1 records gone.*survey"):
        opened(tmp_path)
    read = []
    with pytest.raises(BadStore, match="1 records gone"):
        read.extend(segments.read(tmp_path))
    kept = {}
    found = survey(tmp_path, kept.__setitem__)
    assert kept == {k: p for k, p in enumerate(written) if k != 2} and (found.records, found.missing) == (4, 1)


def test_everything_before_a_damage_is_given_first(tmp_path):
    written = filled(tmp_path)
    path = segments.paths(tmp_path)[1]
    segment = segments.open_segment(path)
    content = bytearray(path.read_bytes())
    content[segments.scan(segment).frames[1].start] ^= 255
    path.write_bytes(content)
    given = []
    with pytest.raises(BadStore):
        contents(tmp_path)
    given = []
    with pytest.raises(BadStore):
        for _, payload in segments.read(tmp_path):
            given.append(payload)
    assert given == written[: segment.first + 1]


@pytest.mark.parametrize("spoil, said", [
    (lambda f: segments.paths(f)[1].unlink(), "segment-00000001.log: missing"),
    (lambda f: segments.paths(f)[-1].unlink(), "were acknowledged and are gone"),
    (lambda f: [p.unlink() for p in segments.paths(f)], "acknowledged"),
    (lambda f: os.truncate(segments.paths(f)[0], 600), "600 bytes; it was sealed with"),
    (lambda f: os.truncate(segments.paths(f)[1], 10), "header is not intact"),
    (lambda f: segments.paths(f)[1].rename(segments.segment_path(f, 9)), "segment-00000001.log: missing"),
])  # fmt: skip
def test_a_chain_that_is_broken_is_refused(tmp_path, spoil, said):
    filled(tmp_path)
    spoil(tmp_path)
    for attempt in (lambda: opened(tmp_path), lambda: contents(tmp_path)):
        with pytest.raises(BadStore, match=said):
            attempt()


def test_segments_of_two_stores_are_not_mixed(tmp_path):
    filled(tmp_path / "one")
    filled(tmp_path / "other")
    segments.paths(tmp_path / "other")[1].replace(segments.segment_path(tmp_path / "one", 1))
    with pytest.raises(BadStore, match="salt is not segment-00000000.log's: two stores are mixed"):
        opened(tmp_path / "one")


def test_another_kind_or_meta_is_refused(tmp_path):
    filled(tmp_path, 1)
    with pytest.raises(BadStore, match="kind is 'test', asked for 'else'"):
        opened(tmp_path, kind="else")
    with pytest.raises(BadStore, match="meta is"):
        opened(tmp_path, meta={"a": 2})
    opened(tmp_path).close()  # the refusals have let go of the lock


def test_one_writer_in_one_process(tmp_path):
    log = opened(tmp_path)
    with pytest.raises(BadStore, match="this process writes to it already"):
        opened(tmp_path)
    log.append(b"still mine")
    log.close()
    log.close()
    with pytest.raises(BadStore, match="closed"):
        log.append(b"late")
    opened(tmp_path).close()


def test_one_writer_among_processes(tmp_path):
    attempt = (
        "import sys; from pathlib import Path; from policies.training.store.log import RecordLog\n"
        "try: RecordLog(Path(sys.argv[1]), 'test', {'a': 1})\n"
        "except Exception as error: print(error)"
    )
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", attempt, str(tmp_path)]
    with opened(tmp_path):
        said = subprocess.run(command, cwd=root, env={**os.environ, "PYTHONPATH": "."}, capture_output=True, timeout=60)
    assert f"process {os.getpid()} writes to it already" in said.stdout.decode()


def test_a_full_disk_adds_nothing_and_the_next_record_goes_in(tmp_path, monkeypatch):
    with opened(tmp_path) as log:
        log.append(b"before")
        write, calls = os.write, []

        def full(fd, content):
            calls.append(fd)
            if len(calls) == 1:
                return write(fd, bytes(content)[:7])
            raise OSError(errno.ENOSPC, "no space")

        monkeypatch.setattr(os, "write", full)
        with pytest.raises(BadStore, match="nothing was added"):
            log.append(b"refused")
        monkeypatch.undo()
        assert log.append(b"after") == 1
    assert contents(tmp_path) == [b"before", b"after"]


def test_a_refused_sync_ends_the_log_until_it_is_opened_anew(tmp_path, monkeypatch):
    with opened(tmp_path) as log:
        log.append(b"before")

        def refuse(fd):
            raise OSError(errno.EIO, "bad block")

        monkeypatch.setattr(os, "fdatasync", refuse)
        with pytest.raises(BadStore, match="nobody knows what it holds"):
            log.append(b"doubtful")
        monkeypatch.undo()
        with pytest.raises(BadStore, match="open it anew"):
            log.append(b"after")
    with opened(tmp_path) as log:
        assert log.recovery.unmarked == 1 and log.append(b"after") == 2


def test_a_segment_that_cannot_be_begun_adds_nothing(tmp_path, monkeypatch):
    with opened(tmp_path) as log:
        while log.end < 5:
            log.append(b"x" * 150)
        number = len(segments.paths(tmp_path))
        rename = Path.rename
        monkeypatch.setattr(Path, "rename", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "no space")))
        with pytest.raises(BadStore, match="nothing was added"):
            while True:
                log.append(b"x" * 150)
        monkeypatch.setattr(Path, "rename", rename)
        end = log.end
        assert log.append(b"y" * 150) == end
    assert len(segments.paths(tmp_path)) == number + 1 and len(contents(tmp_path)) == end + 1


def test_acknowledged_means_synced_unless_asked_otherwise(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fdatasync", synced.append)
    with opened(tmp_path / "power") as log:
        log.extend([b"a", b"b", b"c"])
        assert len(synced) == 1
    with opened(tmp_path / "process", LogConfig(durability="process")) as log:
        log.append(b"a")
    assert len(synced) == 1


def test_a_record_over_the_limit_is_refused(tmp_path):
    with opened(tmp_path, LogConfig(record_bytes_max=64)) as log:
        with pytest.raises(BadStore, match="record of 65 bytes: record_bytes_max = 64"):
            log.append(b"x" * 65)
        assert log.append(b"x" * 64) == 0


@pytest.mark.parametrize("wrong", [{"segment_bytes": 10}, {"durability": "hope"}, {"record_bytes_max": 2**31}])
def test_configuration_is_checked(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        LogConfig(**wrong)


def test_a_frame_of_another_store_or_place_does_not_pass():
    frame = frames.encode(b"payload", 7, b"a" * 8)
    assert frames.read(frame, 0, b"a" * 8).sequence == 7
    assert frames.read(frame, 0, b"b" * 8) is None and frames.read(frame[:-1], 0, b"a" * 8) is None
    assert frames.read(frame, 0, b"a" * 8, frames.HEADER_MARK) is None
