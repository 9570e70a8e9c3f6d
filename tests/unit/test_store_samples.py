"""The store of samples: what is refused and how it is named, where reading begins, and how a training resumes."""
import dataclasses

import numpy as np
import pytest

from policies.training.store import samples, segments
from policies.training.store.checkpoints import Checkpoints, load, resume
from policies.training.store.frames import BadStore
from policies.training.store.log import LogConfig
from policies.training.store.samples import BadSample, SampleField, SampleSchema, SampleStore, transition_schema
from steadyhand.errors import ConfigError

SCHEMA = transition_schema(3, 2)
SMALL = LogConfig(segment_bytes=1024)


def batch(count=4, first=0):
    """Transitions whose reward is their number."""
    rng, numbers = np.random.default_rng(first), np.arange(first, first + count)
    return {
        "observation": rng.standard_normal((count, 3)).astype(np.float32),
        "action": rng.standard_normal((count, 2)).astype(np.float32), "reward": numbers.astype(np.float32),
        "terminated": numbers % 5 == 4, "truncated": np.zeros(count, bool), "episode_start": numbers % 5 == 0,
        "value": np.zeros(count, np.float32), "log_prob": -np.ones(count, np.float32),
        "next_observation": rng.standard_normal((count, 3)).astype(np.float32), "env": np.zeros(count, np.int32),
    }  # fmt: skip


def filled(folder, batches=8):
    with SampleStore(folder, SCHEMA, SMALL) as store:
        for k in range(batches):
            assert store.append(batch(4, 4 * k)) == 4 * (k + 1)


def test_batches_come_back_bit_by_bit(tmp_path):
    filled(tmp_path)
    with SampleStore(tmp_path, SCHEMA, SMALL) as store:
        assert store.samples == 32 and len(segments.paths(tmp_path)) > 1
        for k, found in enumerate(store.read()):
            expected = batch(4, 4 * k)
            assert list(found) == list(expected)
            for name, values in found.items():
                assert values.dtype == expected[name].dtype and np.array_equal(values, expected[name])
                assert not values.flags.writeable


@pytest.mark.parametrize("first", [0, 1, 4, 17, 30, 31, 32])
def test_reading_begins_at_any_sample(tmp_path, first):
    filled(tmp_path)
    with SampleStore(tmp_path, SCHEMA, SMALL) as store:
        assert store.since(first)["reward"].tolist() == list(range(first, 32))
        assert store.since(first)["observation"].shape == (32 - first, 3)


def test_several_batches_with_one_sync(tmp_path):
    with SampleStore(tmp_path, SCHEMA) as store:
        assert store.extend([batch(2, 0), batch(3, 2)]) == 5 and store.extend([]) == 5
        assert store.since(0)["reward"].tolist() == [0, 1, 2, 3, 4]


def spoilt(name, change):
    found = batch()
    found[name] = change(found[name])
    return found


def holed(values):
    values = values.copy()
    values[2, 1] = np.nan
    return values


@pytest.mark.parametrize("bad, said", [
    (spoilt("action", lambda v: v.astype(float)), "action: float64, not float32"),
    (spoilt("action", lambda v: v[:, :1]), r"action: shape \(4, 1\), expected \(4, 2\)"),
    (spoilt("reward", lambda v: v[:3]), r"reward: shape \(3,\), expected \(4,\)"),
    (spoilt("observation", holed), r"observation\[2, 1\] = nan: not finite"),
    (spoilt("value", lambda v: v + np.float32(np.inf)), r"value\[0\] = inf: not finite"),
    (spoilt("terminated", lambda v: v.tolist()), "terminated: list, not bool"),
    ({k: v for k, v in batch().items() if k != "env"}, "env: missing"),
    ({**batch(), "speed": np.zeros(4, np.float32)}, "speed: not in the schema"),
    ({k: v[:0] for k, v in batch().items()}, r"observation: shape \(0, 3\), expected \(1, 3\)"),
])  # fmt: skip
def test_a_bad_batch_is_refused_by_its_field_and_nothing_of_it_is_added(tmp_path, bad, said):
    with SampleStore(tmp_path, SCHEMA) as store:
        with pytest.raises(BadSample, match=f"^{said}"):
            store.extend([batch(), bad])
        assert store.samples == 0 and store.append(batch()) == 4


def changed(which, **changes):
    return SampleSchema(tuple(dataclasses.replace(f, **changes) if f.name == which else f for f in SCHEMA.fields))


@pytest.mark.parametrize("other, said", [
    (transition_schema(4, 2), "observation: the store has .*shape=\\(3,\\)"),
    (changed("reward", dtype="float64"), "reward: the store has .*float32"),
    (changed("env", name="world"), "world: the store has None"),
    (SampleSchema(SCHEMA.fields[::-1]), "fields: the store has them in the order observation"),
])  # fmt: skip
def test_a_store_of_another_schema_is_refused(tmp_path, other, said):
    filled(tmp_path, 1)
    with pytest.raises(BadStore, match=said):
        SampleStore(tmp_path, other)
    assert samples.schema_of(tmp_path) == SCHEMA
    SampleStore(tmp_path, SCHEMA).close()


@pytest.mark.parametrize("fields", [
    (), (SampleField("a", "float32"), SampleField("a", "int32")),
])  # fmt: skip
def test_a_schema_is_checked(fields):
    with pytest.raises(ConfigError):
        SampleSchema(fields)


@pytest.mark.parametrize("field", [{"dtype": "object"}, {"dtype": "float32", "shape": (0,)}])
def test_a_field_is_checked(field):
    with pytest.raises(ConfigError, match="a: "):
        SampleField("a", **field)


def test_a_segment_begun_right_before_a_kill_does_not_count(tmp_path):
    filled(tmp_path, 3)
    found = segments.chain(tmp_path)
    last = found[-1]
    begun = segments.beginning(
        len(found), 3, last.path.stat().st_size, "samples", last.header["meta"], last.salt
    )  # fmt: skip
    segments.segment_path(tmp_path, len(found)).write_bytes(begun)
    with SampleStore(tmp_path, SCHEMA, SMALL) as store:
        assert store.samples == 12 and store.append(batch(4, 12)) == 16
        assert store.since(10)["reward"].tolist() == list(range(10, 16))


# --- checkpoints ---


def test_a_training_resumes_from_the_newest_whole_checkpoint(tmp_path):
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    with SampleStore(tmp_path / "samples", SCHEMA, SMALL) as store:
        assert resume(store, checkpoints).checkpoint is None
        for k in range(6):
            store.append(batch(4, 4 * k))
            if k in (1, 3):
                checkpoints.save(k, store.samples, {"policy": bytes([k]) * 1000, "empty": b""}, {"seed": 7})
        found = resume(store, checkpoints)
        assert (found.checkpoint.step, found.checkpoint.samples, found.checkpoint.about) == (3, 16, {"seed": 7})
        assert found.checkpoint.parts == {"policy": b"\x03" * 1000, "empty": b""} and found.passed_over == ()
        assert found.samples["reward"].tolist() == list(range(16, 24))

        path = checkpoints.paths()[-1]
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
        found = resume(store, checkpoints)
        assert found.checkpoint.step == 1 and found.samples["reward"].tolist() == list(range(8, 24))
        assert found.passed_over == (f"{path.name}: part 'policy' is not as it was written",)


@pytest.mark.parametrize("size", [0, 5, 44, 60, -1])
def test_a_checkpoint_cut_short_is_passed_over(tmp_path, size):
    checkpoints = Checkpoints(tmp_path)
    path = checkpoints.save(1, 10, {"policy": b"abc" * 50})
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(BadStore, match=path.name):
        load(path)
    assert checkpoints.newest()[0] is None and len(checkpoints.newest()[1]) == 1


def test_old_checkpoints_go_and_a_half_written_one_is_none(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=2)
    for step in range(5):
        checkpoints.save(step, step, {})
    (tmp_path / "checkpoint-000000000009.ckpt.new").write_bytes(b"half")
    assert [load(p).step for p in checkpoints.paths()] == [3, 4] and checkpoints.newest()[0].step == 4


def test_a_checkpoint_that_knows_more_samples_than_there_are_is_refused(tmp_path):
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    checkpoints.save(1, 5, {})
    with SampleStore(tmp_path / "samples", SCHEMA) as store:
        store.append(batch(4))
        with pytest.raises(BadStore, match="step 1 has learned from 5 samples, of 4"):
            resume(store, checkpoints)


@pytest.mark.parametrize("wrong", [lambda p: Checkpoints(p, keep=0), lambda p: Checkpoints(p).save(-1, 0, {})])
def test_wrong_numbers_are_refused(tmp_path, wrong):
    with pytest.raises(ValueError, match="give"):
        wrong(tmp_path)
