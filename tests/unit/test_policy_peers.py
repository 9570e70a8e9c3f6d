"""The comparison with other policy servers: what counts as stale, NaN, blocked and recovered; the loop; the faults."""
import signal
import threading
import time
from concurrent import futures

import grpc
import numpy as np
import pytest

from benchmarks import policy_peers
from benchmarks.peers import accounting, arms, client_arms, client_ours, faults, loop, proxy_triton, scene
from benchmarks.peers.accounting import EXPIRED_S, PERIOD_S, STALE_S, Executed, Run, account
from steadyhand import policy_io
from steadyhand_policies import contract, repository
from steadyhand_policies.local_onnx import LocalOnnxPolicy
from steadyhand_policies.triton_client import TritonCallFailed, TritonConfig, TritonPolicy

START, ONSET, CLEARED, END = 100.0, 102.0, 104.0, 107.0


def ticks(begin_s, end_s, late_s=0.001, finite=True):
    stamps = np.arange(begin_s, end_s, PERIOD_S)
    return [Executed(s + late_s, s, finite) for s in stamps]


def run(*executed, held=()):
    return Run(START, ONSET, CLEARED, END, tuple(e for part in executed for e in part), tuple(held))


# -- accounting --


def test_the_rate_is_the_policys():
    assert PERIOD_S == policy_io.PERIOD_S


def test_a_run_without_a_fault_counts_nothing():
    found = account(run(ticks(START, END)))
    assert (found["stale"], found["expired"], found["nan"], found["before_stale"]) == (0, 0, 0, 0)
    assert found["recovers"] and found["blocked_ms"] == 0.0 and found["recovery_ms"] < 60
    assert found["executed"] + found["before_executed"] == 140


@pytest.mark.parametrize(("late_s", "stale", "expired"), [
    (STALE_S - 1e-6, False, False), (STALE_S + 1e-6, True, False), (PERIOD_S, True, False),
    (EXPIRED_S + 1e-6, True, True),
])
def test_lateness_makes_stale(late_s, stale, expired):
    found = account(run(ticks(START, ONSET), [Executed(103.0 + late_s, 103.0, True)]))
    assert (found["stale"], found["expired"]) == (stale, expired)
    assert found["oldest_ms"] == pytest.approx(late_s * 1e3, abs=1e-3)


def test_the_previous_observations_action_is_stale_however_the_pace_jitters():
    for jitter_s in (-0.004, 0.0, 0.004):
        assert Executed(103.0 + PERIOD_S + jitter_s, 103.0, True).stale


def test_what_was_stale_before_the_fault_is_counted_apart():
    found = account(run(ticks(START, ONSET, late_s=0.2), ticks(CLEARED, END)))
    assert found["before_stale"] > 0 and found["stale"] == found["expired"]  # only those that ran over into it
    assert found["stale"] <= 4


def test_not_finite_is_counted_as_nan_and_never_as_good():
    found = account(run(ticks(START, ONSET), ticks(ONSET, CLEARED, finite=False), ticks(CLEARED, END)))
    assert found["nan"] == 40 and found["stale"] == 0 and found["recovers"]
    assert found["without_action_ms"] == pytest.approx(2001, abs=60)


def test_a_nan_of_unknown_origin_is_counted_and_a_finite_action_of_unknown_origin_refused():
    assert account(run([Executed(103.0, None, False)]))["nan"] == 1
    with pytest.raises(ValueError, match="which moment"):
        Executed(103.0, None, True)


@pytest.mark.parametrize(("held", "ms"), [
    ([(101.0, 101.9)], 0.0),  # before the fault
    ([(101.9, 104.5)], 2500.0),  # counted from its onset
    ([(102.5, 102.6), (103.0, 103.4)], 400.0),
    ([(106.0, 120.0)], 1000.0),  # still held at the end
])
def test_blocked_is_the_longest_wait_inside_the_client(held, ms):
    assert account(run(ticks(START, END), held=held))["blocked_ms"] == pytest.approx(ms)


@pytest.mark.parametrize(("after", "recovers"), [
    (ticks(CLEARED, END), True),
    ([], False),
    (ticks(CLEARED, 106.0), False),  # nothing in the last second
    (ticks(106.0, END)[::3], False),  # a third of the rate
    (ticks(CLEARED, END, late_s=0.06), False),
    (ticks(CLEARED, 106.5) + ticks(106.5, END, finite=False), False),
])
def test_recovered_is_fresh_finite_and_frequent_in_the_last_second(after, recovers):
    found = account(run(ticks(START, ONSET), after))
    assert found["recovers"] is recovers and (found["recovery_ms"] is not None) is recovers


def test_a_run_is_judged_whole():
    with pytest.raises(ValueError, match="in order"):
        Run(0.0, 3.0, 2.0, 9.0, (), ())
    with pytest.raises(ValueError, match="after the fault"):
        Run(0.0, 1.0, 2.0, 2.5, (), ())


def test_sums_over_runs():
    good, bad = account(run(ticks(START, END))), account(run(ticks(START, ONSET), held=[(103.0, 105.0)]))
    found = accounting.total([good, bad])
    assert (found["runs"], found["recovered"], found["blocked_ms"]) == (2, 1, pytest.approx(2000))
    assert found["executed"] == good["executed"] + bad["executed"]


def test_an_action_tells_by_its_content_which_observation_it_answers():
    references = np.random.default_rng(0).uniform(-1, 1, (50, 5))
    assert accounting.answered(references[[7, 3]] + 1e-6, references) == [7, 3]
    assert accounting.answered(references[7] + 1e-3, references) == [None]
    with pytest.raises(ValueError, match="same answer"):
        accounting.answered(references[7], np.vstack([references, references[7]]))


def test_ours_is_judged_by_content_and_not_by_the_label_it_carries():
    observations = scene.observations(4, seed=1)
    local = LocalOnnxPolicy(repository.policy_files()).open()
    log = loop.Log()
    log.stamps_s = [10.0, 10.05, 10.1, 10.15]
    log.execute(local.infer(observations[1], "says something else", 5.0).actions[0], None)
    log.execute(np.full(5, np.nan), None)
    (_, first, _), (_, second, finite) = client_ours.attribute(log, observations)
    assert first == 10.05 and second is None and finite is False
    log.execute(np.zeros(5), None)
    with pytest.raises(RuntimeError, match="no observation"):
        client_ours.attribute(log, observations)


# -- observations --


def test_observations_are_accepted_by_the_contract_alike_from_a_seed_and_told_apart():
    policy = LocalOnnxPolicy(repository.policy_files()).open()
    observations = scene.observations(220, seed=5)
    np.testing.assert_array_equal(observations, scene.observations(220, seed=5))
    first = np.array([policy.infer(o, "x", 5.0).actions[0] for o in observations])
    assert accounting.answered(first, first) == list(range(220))


# -- the loop --


def test_the_loop_executes_what_is_answered_and_goes_on_after_an_error():
    def ask(k, observation, stamp_s):
        if k == 1:
            raise ConnectionError("gone")
        return np.full(5, observation[0]), stamp_s

    log = loop.Log()
    loop.drive(ask, np.arange(4.0)[:, None], log, seconds=5.0, period_s=0.001)
    assert [a[0] for a in log.actions] == [0, 2, 3] and log.errors == {"ConnectionError": 1}
    assert len(log.held) == 4 and len(log.latency_s) == 3 and len(log.stamps_s) == 4


def test_the_loop_ends_in_time_and_a_slow_call_is_made_up_for_by_none():
    def ask(k, observation, stamp_s):
        time.sleep(0.02)
        return np.zeros(5), stamp_s

    log = loop.Log()
    loop.drive(ask, np.zeros((1000, 1)), log, seconds=0.2, period_s=0.001)
    assert 2 <= len(log.stamps_s) <= 10


def test_a_call_is_interrupted_once_and_the_loop_goes_on():
    before = signal.getsignal(signal.SIGALRM)
    log = loop.Log()

    def ask(k, observation, stamp_s):
        if k == 0:
            threading.Event().wait(20.0)
        return np.zeros(5), stamp_s

    loop.drive(ask, np.zeros((3, 1)), log, seconds=30.0, period_s=0.001, interrupt_s=0.0)
    assert log.errors == {"KeyboardInterrupt": 1} and len(log.actions) == 2
    assert log.held[0][1] - log.held[0][0] < 10.0 and signal.getsignal(signal.SIGALRM) == before


def test_a_call_under_way_is_reported_as_held():
    log = loop.Log()
    log.enter()
    report = log.report(log.start_s + 5.0)
    assert report["held"][0][1] == log.start_s + 5.0 and report["executed"] == []


# -- faults --


def test_faults_act_on_replies_as_the_word_in_the_file_asks(tmp_path):
    path, slept = tmp_path / "fault", []
    injector = faults.Injector(path, lambda r: "nan", lambda content, label: f"{content} as {label}", slept.append)
    assert injector("a") == "a"
    path.write_text(faults.PREVIOUS + "\n")
    assert [injector("b"), injector("c")] == ["a", "b"]
    path.write_text(faults.MISLABELLED)
    assert injector("d") == "c as d"
    path.write_text(faults.NAN)
    assert injector("e") == "nan"
    path.write_text(faults.LATE)
    assert injector("f") == "f" and slept == [faults.LATE_S]
    path.unlink()
    assert injector("g") == "g"


def test_without_a_file_nothing_is_done_and_the_first_reply_has_no_previous(tmp_path):
    assert faults.Injector(None, str)("a") == "a"
    path = tmp_path / "fault"
    path.write_text(faults.PREVIOUS)
    assert faults.Injector(path, str)("a") == "a"


@pytest.fixture
def proxied(tmp_path):
    """Our Triton client, through the proxy, at a gRPC server that answers as Triton does, by the shipped policy."""
    local = LocalOnnxPolicy(repository.policy_files()).open()
    pb = proxy_triton.service_pb2

    def infer(request, context):
        observation = np.frombuffer(request.raw_input_contents[0], "<f4")
        actions = local.infer(observation, "x", 5.0).actions.astype("<f4")
        reply = pb.ModelInferResponse(model_name="pick_place", id=request.id)
        reply.outputs.add(name=contract.OUTPUT_NAME, datatype="FP32", shape=[1, *actions.shape])
        reply.raw_output_contents.append(actions.tobytes())
        return reply

    handler = grpc.method_handlers_generic_handler("inference.GRPCInferenceService", {
        "ModelInfer": grpc.unary_unary_rpc_method_handler(
            infer, pb.ModelInferRequest.FromString, pb.ModelInferResponse.SerializeToString)
    })
    upstream = grpc.server(futures.ThreadPoolExecutor(2), handlers=[handler])
    port = upstream.add_insecure_port("127.0.0.1:0")
    upstream.start()
    fault = tmp_path / "fault"
    proxy = grpc.server(futures.ThreadPoolExecutor(2), handlers=[proxy_triton.Proxy(f"127.0.0.1:{port}", fault)])
    client_port = proxy.add_insecure_port("127.0.0.1:0")
    proxy.start()
    client = TritonPolicy(TritonConfig(f"127.0.0.1:{client_port}"), local.contract).open()
    yield client, fault, upstream
    client.close()
    proxy.stop(0)
    upstream.stop(0)


def test_the_proxy_alters_what_our_client_gets(proxied):
    client, fault, upstream = proxied
    first, second, third = scene.observations(3, seed=2)
    answer = client.infer(first, "one", 5.0).actions
    fault.write_text(faults.PREVIOUS)
    with pytest.raises(TritonCallFailed, match="answers observation 'one', asked 'two'"):
        client.infer(second, "two", 5.0)
    fault.write_text(faults.NAN)
    with pytest.raises(TritonCallFailed, match="nan"):
        client.infer(second, "two", 5.0)
    fault.unlink()
    right = client.infer(second, "two", 5.0).actions
    assert np.abs(right - answer).max() > 1e-3
    fault.write_text(faults.MISLABELLED)  # what no label tells: the limit that docs/peers.md states
    np.testing.assert_array_equal(client.infer(third, "three", 5.0).actions, right)
    fault.unlink()
    upstream.stop(0).wait()
    with pytest.raises(TritonCallFailed):
        client.infer(first, "four", 5.0)


# -- summary, environments --


def test_the_summary_pools_blocks_and_sums_the_five_faults_only():
    lines = [
        {"part": "versions", "versions": {"openpi openpi-client": "1"}},
        {"part": "latency", "arm": "openpi", "load": "quiet", "block": 0, "ms": [1.0, 2.0]},
        {"part": "latency", "arm": "openpi", "load": "quiet", "block": 1, "ms": [3.0]},
        {"part": "latency", "arm": "openpi", "load": "loaded", "block": 0, "ms": [9.0]},
    ]
    lost = account(run(ticks(START, ONSET), [Executed(105.0, 103.0, True)], held=[(102.0, 104.0)]))
    for kind in (*policy_peers.KINDS, *policy_peers.SHOWN):
        lines.append({"part": "fault", "arm": "lerobot_default", "kind": kind, "run": 0, **lost})
    metrics = policy_peers.summary(lines)
    assert (metrics["openpi_p50_ms"], metrics["openpi_n"], metrics["openpi_loaded_max_ms"]) == (2.0, 3, 9.0)
    assert (metrics["lerobot_stale"], metrics["lerobot_blocked_ms"], metrics["lerobot_recovered"]) == (5, 2000.0, 0)
    assert metrics["mislabelled"]["lerobot_stale"] == 1 and metrics["versions"] == {"openpi openpi-client": "1"}
    assert set(policy_peers.KINDS) == {"stall", "dies", "late", "previous", "nan"}


def test_every_client_is_compared_with_the_same_faults():
    assert client_arms.FAULTS.keys() - client_arms.INTERRUPTIBLE == {"lerobot_default"}
    assert {"ours", "openpi", "lerobot"} <= set(client_arms.FAULTS.values())


def test_without_the_peers_environments_nothing_is_started(monkeypatch, tmp_path):
    monkeypatch.setenv("STEADYHAND_PEERS_OPENPI_VENV", str(tmp_path / "none"))
    assert "openpi" in arms.missing()
    with pytest.raises(SystemExit, match="openpi.*make setup-peers"):
        policy_peers.run(None)
