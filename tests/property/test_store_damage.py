"""Whatever happens to the bytes of a store: every record before the damage is there, nothing is made up, it is said."""
import os
import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.training.store import segments
from policies.training.store.checkpoints import Checkpoints, resume
from policies.training.store.frames import BadStore
from policies.training.store.log import LogConfig, RecordLog
from policies.training.store.samples import SampleField, SampleSchema, SampleStore
from policies.training.store.survey import survey

QUICK = LogConfig(segment_bytes=1024, durability="process")  # what a sync is worth is not what is tested here
PAYLOADS = st.lists(st.binary(max_size=120), min_size=1, max_size=40)
ACTS = st.sampled_from(["flip", "truncate", "zero", "append", "delete"])
PLACE = st.floats(0.0, 1.0, exclude_max=True)


def written(folder, payloads):
    """A closed log of these records."""
    with RecordLog(folder, "test", {}, QUICK) as log:
        for payload in payloads:
            log.append(payload)


def damage(path, act, where, extent, junk):
    """Do something to a file; the first byte that may have changed, None when none did."""
    content = bytearray(path.read_bytes())
    at = int(where * len(content))
    before = bytes(content)
    if act == "flip":
        content[at] ^= 1 << int(extent * 8)
    elif act == "truncate":
        del content[at:]
    elif act == "zero":
        stop = at + 1 + int(extent * (len(content) - at))
        content[at:stop] = bytes(len(content[at:stop]))
    elif act == "append":
        at = len(content)
        content += junk
    elif act == "delete":
        path.unlink()
        return 0
    path.write_bytes(content)
    return at if bytes(content) != before else None


@settings(max_examples=80, deadline=None)
@given(PAYLOADS, ACTS, PLACE, PLACE, PLACE, st.binary(min_size=1, max_size=60))
def test_any_damage_to_a_segment(payloads, act, which, where, extent, junk):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        written(folder, payloads)
        paths = segments.paths(folder)
        number = int(which * len(paths))
        segment = segments.open_segment(paths[number])
        ends = [frame.end for frame in segments.scan(segment).frames]
        at = damage(paths[number], act, where, extent, junk)
        intact = len(payloads) if at is None else segment.first + sum(end <= at for end in ends)

        kept = {}
        found = survey(folder, kept.__setitem__)
        assert kept == {k: payloads[k] for k in kept} and set(range(intact)) <= set(kept)
        assert found.records == len(kept) and found.missing == len(payloads) - len(kept)
        assert bool(found.problems) == (at is not None)

        given_back, raised = [], False
        try:
            for _, payload in segments.read(folder):
                given_back.append(payload)
        except BadStore:
            raised = True
        assert given_back == payloads[: len(given_back)]
        assert raised or len(given_back) == len(payloads)

        try:
            with RecordLog(folder, "test", {}, QUICK) as log:
                assert log.end == len(payloads), "an opening that succeeds has lost nothing that was acknowledged"
                assert log.recovery.torn_bytes == (len(junk) if act == "append" and number == len(paths) - 1 else 0)
        except BadStore:
            assert at is not None


@settings(max_examples=40, deadline=None)
@given(PAYLOADS, st.lists(st.binary(max_size=300), max_size=3), PLACE, st.binary(min_size=1, max_size=40))
def test_a_kill_at_any_byte_of_what_was_not_acknowledged(payloads, pending, where, later):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with RecordLog(folder, "test", {}, LogConfig(segment_bytes=2**20, durability="process")) as log:
            log.extend(payloads)
            mark, size = (folder / segments.MARK_NAME).read_bytes(), segments.paths(folder)[-1].stat().st_size
            log.extend(pending)
        path = segments.paths(folder)[-1]
        left = size + round(where * (path.stat().st_size - size))
        os.truncate(path, left)
        (folder / segments.MARK_NAME).write_bytes(mark)
        with RecordLog(folder, "test", {}, QUICK) as log:
            kept, torn = log.recovery.unmarked, log.recovery.torn_bytes
            expected = payloads + pending[:kept]
            assert log.end == len(expected) and torn == left - path.stat().st_size
            assert log.append(later) == len(expected)
        assert [p for _, p in segments.read(folder)] == [*expected, later]
        assert survey(folder).problems == []


SCHEMA = SampleSchema((SampleField("number", "int64"), SampleField("noise", "float32", (3,))))


def batch(first, count):
    numbers = np.arange(first, first + count)
    return {"number": numbers, "noise": np.float32(np.outer(numbers, [0.5, -1.0, 2.0]))}


STEPS = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 9)), st.tuples(st.just("kill"), st.integers(0, 40)),
    st.tuples(st.just("checkpoint"), st.just(0)), st.tuples(st.just("break"), PLACE),
)  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(st.lists(STEPS, min_size=1, max_size=25))
def test_a_training_killed_at_will_resumes_with_every_sample(steps):
    """`kill` leaves some bytes of the batch that it interrupted; `break` spoils the newest checkpoint."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        checkpoints = Checkpoints(folder / "checkpoints", keep=50)
        store, saved, total, step = SampleStore(folder / "samples", SCHEMA, QUICK), [], 0, 0
        for act, value in steps:
            if act == "append":
                total = store.append(batch(total, value))
            elif act == "checkpoint":
                step += 1
                checkpoints.save(step, store.samples, {"learner": bytes(str(total), "ascii")})
                saved.append(total)
            elif act == "break" and saved:
                path = checkpoints.paths()[-1]
                content = bytearray(path.read_bytes())
                content[int(value * len(content))] ^= 64
                path.write_bytes(content)
                saved.pop()
                passed = checkpoints.newest()[1]
                assert passed and path.name in passed[0]
                path.unlink()
            elif act == "kill":
                store.close()
                with segments.paths(folder / "samples")[-1].open("ab") as file:
                    file.write(bytes(value))
                store = SampleStore(folder / "samples", SCHEMA, QUICK)
                assert store.recovery.torn_bytes == value and store.samples == total
        resumption = resume(store, checkpoints)
        first = saved[-1] if saved else 0
        assert (resumption.checkpoint is None) == (not saved)
        if saved:
            assert resumption.checkpoint.samples == first == int(resumption.checkpoint.parts["learner"])
        expected = batch(first, total - first)
        assert all(np.array_equal(resumption.samples[name], expected[name]) for name in expected)
        store.close()
