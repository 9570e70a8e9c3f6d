"""Same seeds, same results: here, in processes, after a worker's death, after going on from the samples."""
import os
import signal

import numpy as np
import pytest

pytest.importorskip("gymnasium")

from policies.training.config import TRAINING_SEEDS_FROM, DisturbanceConfig, WorkersConfig
from policies.training.rollout.actor import Actor
from policies.training.rollout.disturbance import Disturbance
from policies.training.rollout.fragment import Fragment
from policies.training.rollout.hosts import HostSpec, Trial, make_env, training_seed
from policies.training.rollout.pools import Pool, SerialWorker, open_pool
from policies.training.rollout.tamper import TAMPERS, tamper_of
from steadyhand.errors import ConfigError, SteadyhandError
from tests.support import reach

SPEC = HostSpec(reach.ID, {}, seed=3)
TRIALS = [Trial(seed) for seed in range(45)]


def make_actor(seed=0) -> Actor:
    """A damped spring as a network would have it, roughly, and its exploration."""
    rng = np.random.default_rng(seed)
    f4 = lambda *shape: rng.standard_normal(shape).astype(np.float32) * 0.3
    return Actor(np.zeros(6, np.float32), np.ones(6, np.float32), 10.0, (f4(16, 6), f4(2, 16)), (f4(16), f4(2)),
                 np.full(2, 0.2, np.float32), -np.ones(2, np.float32), np.ones(2, np.float32))


def serial() -> Pool:
    return open_pool(SPEC, 3, WorkersConfig("serial"))


def same(a: list[Fragment], b: list[Fragment]) -> bool:
    return [f.environment for f in a] == [f.environment for f in b] and all(
        np.array_equal(x, y) for f, g in zip(a, b) for x, y in zip(f.columns().values(), g.columns().values())
    )


@pytest.fixture(scope="module")
def truth():
    """Two rounds of fragments of three environments, and outcomes."""
    with serial() as pool:
        actor = make_actor()
        return [pool.collect(actor, k, 70, (0, 1, 2)) for k in range(2)], pool.evaluate(actor, TRIALS)


def test_a_fragment_is_what_happened(truth):
    (first, second), _ = truth
    f, g = first[0], second[0]
    assert f.starts[0] and not f.starts[1]
    ended = f.terminated | f.truncated
    assert ended.any() and (f.success[~ended] == -1).all() and (f.success[ended] >= 0).all()
    assert np.array_equal(f.starts[1:], ended[:-1])
    going_on = ~ended[:-1]
    np.testing.assert_array_equal(f.next_observation[:-1][going_on], f.observation[1:][going_on])
    if not f.over():
        np.testing.assert_array_equal(f.next_observation[-1], g.observation[0])
        assert not g.starts[0]  # the episode was not cut
    assert not np.array_equal(first[0].observation[0], first[1].observation[0])  # environments differ
    assert (np.abs(f.action) > 1).any() or f.action.std() > 0.1  # as sampled, not as bounded


def test_a_process_gives_the_same(truth):
    with open_pool(SPEC, 3, WorkersConfig("processes", 1)) as pool:
        actor = make_actor()
        for k in range(2):
            assert same(pool.collect(actor, k, 70, (0, 1, 2)), truth[0][k])
        assert pool.evaluate(actor, TRIALS) == truth[1]


def test_two_processes_give_the_same_and_a_killed_one_costs_nothing_but_time(truth):
    with open_pool(SPEC, 3, WorkersConfig("processes", 2)) as pool:
        actor = make_actor()
        assert same(pool.collect(actor, 0, 70, (0, 1, 2)), truth[0][0])
        os.kill(pool.workers[0].pid, signal.SIGKILL)
        assert same(pool.collect(actor, 1, 70, (0, 1, 2)), truth[0][1])
        assert pool.restarts == 1
        os.kill(pool.workers[1].pid, signal.SIGKILL)
        assert pool.evaluate(actor, TRIALS) == truth[1]


def test_a_trial_on_another_plant_leaves_the_next_one_its_own():
    with serial() as pool:
        before, other, after = pool.evaluate(make_actor(), [Trial(5), Trial(5, 0.3, 7), Trial(5)])
    assert before == after and before.reward != other.reward and other.plant_index == 7


def test_a_pool_whose_workers_keep_dying_gives_up():
    class Dying(SerialWorker):
        def receive(self, timeout_s):
            from policies.training.rollout.pools import WorkerDied

            raise WorkerDied("again")

    with Pool(lambda share: Dying(SPEC, share), 1, 1) as pool:
        with pytest.raises(SteadyhandError, match="workers died 6 times; the last one: again"):
            pool.evaluate(make_actor(), TRIALS[:1])


@pytest.mark.parametrize("stored", [(0, 1, 2), (1,)])
def test_going_on_from_the_samples_is_exact(truth, stored):
    """The first round and some of the second are on disk: what is missing comes out as if nothing had happened."""
    (first, second), _ = truth
    with serial() as pool:
        for f in [*first, *(second[e] for e in stored)]:
            pool.note(Fragment.of(f.columns()))
        observed = pool.restore()
        assert sorted(observed) == [0, 1, 2]
        for e in stored:
            if not second[e].over():
                np.testing.assert_array_equal(observed[e], second[e].next_observation[-1])
        missing = tuple(e for e in range(3) if e not in stored)
        assert same(pool.collect(make_actor(), 1, 70, missing), [second[e] for e in missing])


def test_a_replay_that_ends_elsewhere_is_noticed(truth):
    (first, _), _ = truth
    columns = first[0].columns()
    ends = np.flatnonzero(columns["terminated"] | columns["truncated"])
    columns["terminated"] = columns["truncated"] = np.zeros(70, bool)  # as if no episode had ended
    assert len(ends)
    with serial() as pool:
        pool.note(Fragment.of(columns))
        with pytest.raises(SteadyhandError, match="ended during its replay"):
            pool.restore()


def test_episodes_of_training_are_no_test_scenes():
    drawn = {training_seed(s, e, k) for s in range(3) for e in range(4) for k in range(50)}
    assert len(drawn) == 600 and min(drawn) >= TRAINING_SEEDS_FROM and max(drawn) < 2**31


def test_what_is_not_finite_is_refused(truth):
    columns = truth[0][0][0].columns()
    columns["reward"] = np.where(np.arange(70) == 5, np.nan, columns["reward"])
    with pytest.raises(ConfigError, match="fragment 0 of environment 0: reward is not finite"):
        Fragment.of(columns)


def test_an_error_in_a_worker_is_told():
    with open_pool(SPEC, 1, WorkersConfig("processes", 1)) as pool:
        with pytest.raises(ConfigError, match="give module:factory"):
            pool.demonstrate("tests.support.reach:nobody", [1], DisturbanceConfig())
        assert pool.evaluate(make_actor(), TRIALS[:2])  # and it is there for the next call


def test_a_wrong_environment_is_named():
    with pytest.raises(ConfigError, match="Test/Reach-v0 with {'colour': 'red'}"):
        make_env(HostSpec(reach.ID, {"colour": "red"}, 1))
    with pytest.raises(ConfigError, match="No/Such"):
        make_env(HostSpec("No/Such-v0", {}, 1))


def test_the_demonstrator_is_disturbed_and_its_wish_recorded():
    with serial() as pool:
        quiet = pool.demonstrate("tests.support.reach:expert", list(range(20)), DisturbanceConfig())
        noisy = pool.demonstrate("tests.support.reach:expert", list(range(20)), DisturbanceConfig(noise=0.3))
    assert [s.seed for s in quiet] == list(range(20)) and sum(s.success for s in quiet) >= 19
    assert not np.array_equal(quiet[0].observation[3], noisy[0].observation[3])
    act = reach.expert("").act
    for shown in (quiet[0], noisy[0]):
        np.testing.assert_array_equal(shown.action, [act(o, {}) for o in shown.observation])


def test_noise_is_correlated_and_a_push_rises_and_falls():
    noise = Disturbance(DisturbanceConfig(noise=0.1, hold=0.9), 1)
    drawn = np.array([noise.step((2,)) for _ in range(20_000)])
    assert drawn.std() == pytest.approx(0.1, rel=0.1)
    assert np.mean(drawn[1:] * drawn[:-1]) / drawn.var() == pytest.approx(0.9, abs=0.03)
    pushed = Disturbance(DisturbanceConfig(push=0.2, push_chance=0.02, push_steps=8), 1)
    drawn = np.array([np.broadcast_to(pushed.step((3,)), 3) for _ in range(4000)])
    active = np.abs(drawn[:, 0]) > 0
    assert active.mean() == pytest.approx(8 / (8 + 50), rel=0.2)  # eight steps, then fifty free ones on average
    start = int(np.flatnonzero(active)[0])
    one = drawn[start:start + 8]
    shape = np.sin(np.pi * (np.arange(8) + 0.5) / 8)
    np.testing.assert_allclose(one, shape[:, None] * one[3] / shape[3], atol=1e-9)
    again = Disturbance(DisturbanceConfig(push=0.2, push_chance=0.02, push_steps=8), 1)
    np.testing.assert_array_equal(drawn[:200], [np.broadcast_to(again.step((3,)), 3) for _ in range(200)])


# -- the actor's file -------------------------------------------------------------------------------------------------
def test_an_actor_is_read_as_it_was_written(tmp_path):
    actor = make_actor().described(run="x", seed=2)
    actor.save(tmp_path / "a.npz")
    found = Actor.load(tmp_path / "a.npz")
    assert found.sha256() == actor.sha256() and found.about == {"run": "x", "seed": 2}
    assert found.sha256() != make_actor(1).sha256()
    observation = np.arange(6, dtype=np.float32)
    np.testing.assert_array_equal(found.act(observation), actor.act(observation))


@pytest.mark.parametrize("cut", [0, 100, -30])
def test_a_damaged_file_is_named(tmp_path, cut):
    path = tmp_path / "a.npz"
    make_actor().save(path)
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(ConfigError, match=f"checkpoint {path}"):
        Actor.load(path)
    with pytest.raises(ConfigError, match="nowhere.npz"):
        Actor.load(tmp_path / "nowhere.npz")


def test_an_actor_that_cannot_act_is_refused():
    a = make_actor()
    with pytest.raises(ConfigError, match="layer 1 has weights"):
        Actor(a.mean, a.std, 10.0, (a.weights[0], a.weights[0]), a.biases, a.action_std, a.low, a.high)
    with pytest.raises(ConfigError, match="weight0 is not finite"):
        Actor(a.mean, a.std, 10.0, (a.weights[0] * np.nan, a.weights[1]), a.biases, a.action_std, a.low, a.high)
    with pytest.raises(ConfigError, match="std has shape"):
        Actor(a.mean, a.std * 0, 10.0, a.weights, a.biases, a.action_std, a.low, a.high)


@pytest.mark.parametrize("name", TAMPERS)
def test_tampering_changes_what_is_seen_and_is_the_same_every_time(name):
    actor, rng = make_actor(), np.random.default_rng(0)
    seen = [rng.standard_normal(6).astype(np.float32) for _ in range(5)]
    changed = [[tamper(o) for o in seen] for tamper in (tamper_of(name, actor, 1), tamper_of(name, actor, 1))]
    np.testing.assert_array_equal(*changed)
    assert not np.array_equal(changed[0], seen)
    np.testing.assert_array_equal([tamper_of("", actor, 1)(o) for o in seen], seen)
