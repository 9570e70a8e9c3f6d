"""A real Triton server on the shipped repository: serving, dying, hanging, coming back, being wrong."""
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from steadyhand.errors import PolicyError, PolicyTimeout
from steadyhand.slot import current_slot
from steadyhand_policies import repository, triton_tree
from steadyhand_policies.breaker import BreakerConfig, Failure
from steadyhand_policies.checks import check_policy
from steadyhand_policies.fallback import FallbackPolicy
from steadyhand_policies.local_onnx import LocalOnnxPolicy
from steadyhand_policies.triton_client import TritonCallFailed, TritonConfig, TritonPolicy
from steadyhand_policies.triton_process import Addresses, TritonProcess

pytestmark = [
    pytest.mark.triton, pytest.mark.process,
    pytest.mark.skipif(not triton_tree.default_venv().exists(), reason="Triton's environment is not set up"),
]
ROOT = Path(__file__).parents[2]
LIMIT_S = 40.0  # of every wait; none is a timing assertion
DEADLINE_S = 0.25  # these tests are about what happens, on a loaded machine; benchmarks measure how fast


def wait_for(condition, what: str):
    end_s = time.monotonic() + LIMIT_S
    while time.monotonic() < end_s:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"not within {LIMIT_S:.0f} s: {what}")


class Server:
    """One `steadyhand-triton` process."""

    def __init__(self, out: Path, *arguments: str):
        self.slot = current_slot()
        self.folder = (out if self.slot.index == 0 else out / f"slot{self.slot.index}") / "triton"
        environment = {**os.environ, "STEADYHAND_OUT": str(out), "PYTHONPATH": os.pathsep.join(sys.path)}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "steadyhand_policies.triton_server", *arguments], env=environment, cwd=ROOT,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )

    def status(self) -> dict:
        try:
            return json.loads((self.folder / "status.json").read_text())
        except OSError:
            return {}

    def ready(self, restarts: int = 0) -> int:
        """Process id of the server once it is ready after so many restarts."""
        def state():
            assert self.process.poll() is None, self.process.stdout.read()
            status = self.status()
            return status.get("state") == "ready" and status["restarts"] >= restarts and status["server_pid"]
        return wait_for(state, f"ready after {restarts} restarts")

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(5)
        return self.process.returncode


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("triton"))
    server.ready()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def local():
    return LocalOnnxPolicy(repository.policy_files()).open()


@pytest.fixture
def triton(server, local):
    policy = TritonPolicy(TritonConfig(server.status()["grpc"], deadline_s=DEADLINE_S), local.contract).open()
    yield policy
    policy.close()


@pytest.fixture
def pair(triton, local):
    policy = FallbackPolicy(triton, local, local.contract, DEADLINE_S, BreakerConfig(probe_interval_s=0.05)).start()
    assert policy.wait_primary(LIMIT_S)
    yield policy
    policy.close()


def observation(local):
    return np.float32(local.contract.canary.observation)


def ask(policy, local, observation_id="o"):
    return policy.infer(observation(local), observation_id, 2 * DEADLINE_S)


def running_in_group(group: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, pgrp = stat.read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(pgrp) == group and state != "Z":
            found.append(int(stat.parent.name))
    return found


def shared_memory(slot) -> list[Path]:
    return list(Path("/dev/shm").glob(f"steadyhand_triton_{slot.index}_*"))


def test_server_and_process_give_the_same_answer(triton, local):
    rng = np.random.default_rng(0)
    for i in range(20):
        value = (observation(local) + 0.01 * rng.standard_normal(len(observation(local)))).astype(np.float32)
        value[11:14] = observation(local)[11:14]
        served, here = triton.infer(value, f"o{i}", LIMIT_S), local.infer(value, f"o{i}", LIMIT_S)
        assert served.observation_id == f"o{i}" and served.served_by == "triton"
        np.testing.assert_allclose(served.actions, here.actions, atol=1e-5)


def test_check_policy_passes_on_the_server(triton, local):
    assert check_policy(triton, local.contract, n=10, deadline_s=LIMIT_S).served_by == ("triton",)


def test_the_server_refuses_another_shape_and_lives(server, triton, local):
    import tritonclient.grpc as grpc
    from tritonclient.utils import InferenceServerException

    client = grpc.InferenceServerClient(server.status()["grpc"])
    for shape, kind in (((1, 13), np.float32), ((1, 14), np.float64), ((99, 14), np.float32)):
        tensor = grpc.InferInput("observation", shape, "FP32" if kind is np.float32 else "FP64")
        tensor.set_data_from_numpy(np.zeros(shape, kind))
        with pytest.raises(InferenceServerException):
            client.infer("pick_place", [tensor], client_timeout=LIMIT_S)
    many = grpc.InferInput("observation", (8, 14), "FP32")
    many.set_data_from_numpy(np.repeat(observation(local)[None], 8, axis=0))
    assert client.infer("pick_place", [many], client_timeout=LIMIT_S).as_numpy("actions").shape == (8, 8, 5)
    client.close()
    triton.canary(LIMIT_S)


def test_calls_at_once_get_each_its_own_answer(server, local):
    """Batched on the server: rows must come back to whoever asked."""
    wrong = []

    def call(k: int):
        policy = TritonPolicy(TritonConfig(server.status()["grpc"]), local.contract).open()
        for i in range(30):
            value = observation(local).copy()
            value[0] += 0.002 * (30 * k + i) / 8
            served = policy.infer(value, f"{k}-{i}", LIMIT_S)
            if np.abs(served.actions - local_answer(value)).max() > 1e-5:
                wrong.append((k, i))
        policy.close()

    def local_answer(value):
        with lock:
            return local.infer(value, "local", LIMIT_S).actions

    lock = threading.Lock()
    threads = [threading.Thread(target=call, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    assert wrong == [] and not any(t.is_alive() for t in threads)


def test_an_unknown_model_is_rejected(server, local):
    policy = TritonPolicy(TritonConfig(server.status()["grpc"], model="other"), local.contract).open()
    with pytest.raises(TritonCallFailed) as failed:
        policy.infer(observation(local), "o", LIMIT_S)
    assert failed.value.failure is not Failure.DEADLINE
    policy.close()


def test_killed_server_local_answers_within_the_same_call_and_the_supervisor_brings_it_back(server, pair, local):
    assert ask(pair, local).served_by == "triton"
    pid, restarts = server.ready(), server.status()["restarts"]
    os.kill(pid, signal.SIGKILL)
    chunks = [ask(pair, local, f"k{i}") for i in range(10)]
    assert {c.served_by for c in chunks} == {"local"} and chunks[0].observation_id == "k0"
    assert server.ready(restarts + 1) != pid
    wait_for(lambda: ask(pair, local).served_by == "triton", "served by Triton again")
    assert not running_in_group(pid)
    assert pair.statistics().times_opened == 1


def test_frozen_server_misses_the_deadline_then_local_and_back_by_the_canary(server, triton, pair, local):
    pid = server.ready()
    os.kill(pid, signal.SIGSTOP)
    try:
        chunks = [ask(pair, local, f"s{i}") for i in range(6)]
    finally:
        os.kill(pid, signal.SIGCONT)
    assert {c.served_by for c in chunks} == {"local"}
    statistics = pair.statistics()
    assert statistics.failures == {"deadline": 3} and not statistics.primary_healthy  # then it is not asked any more
    wait_for(lambda: ask(pair, local).served_by == "triton", "served by Triton again")


def test_a_late_reply_is_never_used(server, triton, local):
    pid = server.ready()
    other = observation(local).copy()
    other[0] += 0.05
    triton.infer(observation(local), "warm", LIMIT_S)
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(PolicyTimeout):
            triton.infer(other, "late", 0.05)
    finally:
        os.kill(pid, signal.SIGCONT)
    chunk = triton.infer(observation(local), "next", LIMIT_S)
    assert chunk.observation_id == "next"
    np.testing.assert_allclose(chunk.actions, local.contract.canary.actions, atol=1e-3)


def test_a_hung_server_is_restarted_by_the_supervisor(server, triton):
    pid, restarts = server.ready(), server.status()["restarts"]
    os.kill(pid, signal.SIGSTOP)
    assert server.ready(restarts + 1) != pid
    wait_for(lambda: not running_in_group(pid), "the hung group is gone")
    triton.canary(LIMIT_S)


def test_perception_is_served_and_goes_on_in_process_without_a_server(server):
    from steadyhand_perception.tray_poses import TrayPoses
    from steadyhand_perception.triton_poses import TritonPoses, TritonPosesConfig

    server.ready()
    model = TrayPoses(repository.DEFAULT_REPOSITORY / "tray_poses")
    image = np.random.default_rng(1).integers(0, 256, model.contract.image_shape, dtype=np.uint8)
    url = f"127.0.0.1:{server.slot.triton_grpc_port}"
    served = TritonPoses(model, TritonPosesConfig(url, deadline_s=1.0, retry_s=0.0))
    answer = wait_for(lambda: (s := served.infer(image)).provider == "triton" and s, "an answer of the server")
    np.testing.assert_allclose(answer.features, model.infer(image).features, atol=1e-2)
    nobody = TritonPoses(model, TritonPosesConfig("127.0.0.1:1", deadline_s=0.1))
    assert nobody.infer(image).provider == model.provider and nobody.problem
    assert nobody.counts == {"fallback": 1} and served.counts["served"] >= 1
    served.close()
    nobody.close()


def test_port_taken_is_named(server, tmp_path):
    second = Server(tmp_path)
    assert second.process.wait(LIMIT_S) == 2
    assert "port" in second.process.stdout.read()


def test_stop_leaves_no_process_and_no_shared_memory(server, local):
    pid = server.ready()
    assert shared_memory(server.slot)
    assert server.stop() == 0
    assert not running_in_group(pid) and not shared_memory(server.slot)
    policy = TritonPolicy(TritonConfig(f"127.0.0.1:{server.slot.triton_grpc_port}"), local.contract).open()
    with pytest.raises(PolicyError):
        policy.infer(observation(local), "o", DEADLINE_S)
    policy.close()


def test_a_killed_supervisor_takes_its_server_along(tmp_path):
    server = Server(tmp_path)
    pid = server.ready()
    server.process.kill()
    server.process.wait(5)
    wait_for(lambda: not running_in_group(pid), "server and stubs are gone")
    for path in shared_memory(server.slot):
        path.unlink()


def test_shared_memory_of_a_killed_server_is_removed_and_no_other(tmp_path):
    prefix = f"steadyhand_test_{os.getpid()}_"
    left, other = Path("/dev/shm") / f"{prefix}1", Path("/dev/shm") / f"{prefix[:-1]}x_1"
    for path in (left, other):
        path.touch()
    try:
        addresses = Addresses("127.0.0.1", 1024, 1025, 1026)
        TritonProcess(None, tmp_path, addresses, prefix, tmp_path / "log").clean_shared_memory()
        assert not left.exists() and other.exists()
    finally:
        for path in (left, other):
            path.unlink(missing_ok=True)


@pytest.mark.parametrize(
    "arguments, word",
    [
        (("--repository", "nowhere"), "nowhere"),
        (("--venv", "no-such-venv"), "no-such-venv"),
        (("--grpc-port", "80"), "grpc_port"),
    ],
)
def test_bad_input_is_refused_with_what_to_do(tmp_path, arguments, word):
    server = Server(tmp_path, *arguments)
    assert server.process.wait(LIMIT_S) == 2
    text = server.process.stdout.read()
    assert word in text and "give" in text and "Traceback" not in text
