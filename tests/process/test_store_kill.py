"""A real training killed (SIGKILL) and started anew has lost nothing that was acknowledged (`benchmarks/resume.py`)."""
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("gymnasium")
pytest.importorskip("pybullet")
from benchmarks import resume
from policies.training.store import samples
from policies.training.store.checkpoints import Checkpoints

pytestmark = [pytest.mark.process, pytest.mark.sim]

ARGS = SimpleNamespace(env="Steadyhand/UR5PickPlace-v0", seed=3, work_s=1.0, start_s=1.0)


def test_nothing_acknowledged_is_lost_and_training_goes_on(tmp_path):
    folder = tmp_path / "training"
    kills = [resume.one_kill(folder, ARGS, number) for number in (1, 2, 3)]
    acks = [ack for kill in kills for ack in kill["acks"]]
    assert len(acks) >= 3 and resume.missing(folder / "samples", acks) == 0
    ends = [end for end, _, _ in acks]
    assert ends == sorted(set(ends))
    for earlier, later in zip(kills, kills[1:]):
        assert later["resumed"][0] >= earlier["acks"][-1][0]
    newest, _ = Checkpoints(folder / "checkpoints").newest()
    schema = samples.schema_of(folder / "samples")
    total = sum(len(b["reward"]) for b in samples.read(folder / "samples", schema))
    assert newest is None or newest.samples <= total

    changed = [list(ack) for ack in acks]
    changed[0][2] ^= 1  # the look-up can fail
    assert resume.missing(folder / "samples", changed) == changed[0][1]
    assert resume.missing(folder / "samples", [*acks, [total + 8, 8, 1]]) == 8
    assert np.isfinite(kills[0]["first_sample_s"])
