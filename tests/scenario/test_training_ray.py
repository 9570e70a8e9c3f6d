"""Rollouts on a Ray cluster of two local nodes give what processes give. Skipped by name where ray is not installed."""
import os
import sys

import numpy as np
import pytest

ray = pytest.importorskip("ray", reason="needs ray: pip install -r requirements/ray.txt")
pytest.importorskip("gymnasium")

from policies.training.config import WorkersConfig  # noqa: E402
from policies.training.rollout.actor import Actor  # noqa: E402
from policies.training.rollout.hosts import HostSpec, Trial  # noqa: E402
from policies.training.rollout.pools import open_pool  # noqa: E402
from tests.support import reach  # noqa: E402

SPEC = HostSpec(reach.ID, {}, seed=3)


def make_actor() -> Actor:
    rng = np.random.default_rng(0)
    f4 = lambda *shape: rng.standard_normal(shape).astype(np.float32) * 0.3
    return Actor(np.zeros(6, np.float32), np.ones(6, np.float32), 10.0, (f4(16, 6), f4(2, 16)), (f4(16), f4(2)),
                 np.full(2, 0.2, np.float32), -np.ones(2, np.float32), np.ones(2, np.float32))


@pytest.fixture(scope="module")
def cluster():
    from ray.cluster_utils import Cluster

    os.environ["PYTHONPATH"] = os.pathsep.join(p or os.getcwd() for p in sys.path)
    os.environ["RAY_DISABLE_IMPORT_WARNING"] = "1"
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    made.add_node(num_cpus=1)
    yield made
    ray.shutdown()
    made.shutdown()


def test_same_seeds_same_results_on_two_nodes(cluster):
    actor, trials = make_actor(), [Trial(s) for s in range(30)]
    with open_pool(SPEC, 2, WorkersConfig("serial")) as pool:
        truth = [pool.collect(actor, k, 50, (0, 1)) for k in range(2)], pool.evaluate(actor, trials)
    with open_pool(SPEC, 2, WorkersConfig("ray", 2, cluster.address)) as pool:
        for worker in pool.workers:
            worker.send("node")
        assert len({worker.receive(60.0) for worker in pool.workers}) == 2  # really two nodes
        found = pool.collect(actor, 0, 50, (0, 1))
        ray.kill(pool.workers[0]._host, no_restart=True)  # and one dies on the way
        found = [found, pool.collect(actor, 1, 50, (0, 1))]
        assert pool.restarts == 1
        assert pool.evaluate(actor, trials) == truth[1]
    for mine, theirs in zip(found, truth[0], strict=True):
        for f, g in zip(mine, theirs, strict=True):
            for x, y in zip(f.columns().values(), g.columns().values(), strict=True):
                np.testing.assert_array_equal(x, y)
