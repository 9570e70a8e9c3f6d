"""Breaker, fallback and check_policy on the shipped model, without a server."""
import time
from types import SimpleNamespace

import numpy as np
import pytest

from steadyhand.errors import ConfigError, ContractError, PolicyError, PolicyTimeout
from steadyhand.types import ActionChunk
from steadyhand_policies import contract as contracts
from steadyhand_policies import repository
from steadyhand_policies.breaker import Breaker, BreakerConfig, Failure
from steadyhand_policies.checks import check_policy, make_observation
from steadyhand_policies.fallback import FallbackPolicy
from steadyhand_policies.local_onnx import LocalOnnxPolicy
from steadyhand_policies.triton_client import TritonConfig, TritonPolicy

GENEROUS_S = 5.0  # no test here is about time


@pytest.fixture(scope="module")
def local():
    return LocalOnnxPolicy(repository.policy_files()).open()


class Primary:
    """A server whose behaviour the test sets: an exception to raise, or a function of the local answer."""

    def __init__(self, local, change=lambda chunk: chunk):
        self.local, self.change, self.error, self.calls, self.canaries = local, change, None, 0, 0
        self.late_replies = 0

    def infer(self, observation, observation_id, deadline_s):
        self.calls += 1
        if self.error:
            raise self.error
        chunk = self.local.infer(observation, observation_id, GENEROUS_S)
        return self.change(ActionChunk(chunk.observation_id, chunk.actions, "primary", chunk.latency_s))

    def canary(self, deadline_s):
        self.canaries += 1
        if self.error:
            raise self.error


@pytest.fixture
def pair(local):
    primary = Primary(local)
    policy = FallbackPolicy(primary, local, local.contract, breaker=BreakerConfig(probe_interval_s=0.01)).start()
    assert policy.wait_primary(GENEROUS_S)
    yield primary, policy
    policy.close()


def ask(policy, observation_id="o1"):
    return policy.infer(np.float32(policy._contract.canary.observation), observation_id, GENEROUS_S)


def test_breaker_starts_open_and_closes_after_three_good_canaries():
    breaker = Breaker()
    for k in range(3):
        assert not breaker.closed
        breaker.on_canary(None, float(k))
    assert breaker.closed and breaker.cause == ""


def closed_breaker() -> Breaker:
    breaker = Breaker()
    for k in range(3):
        breaker.on_canary(None, float(k))
    return breaker


@pytest.mark.parametrize("failure", [f for f in Failure if f is not Failure.DEADLINE])
def test_breaker_opens_at_once_unless_it_was_a_deadline(failure):
    breaker = closed_breaker()
    breaker.on_failure(failure, 9.0)
    assert not breaker.closed and failure.value in breaker.cause and breaker.opened_s == 9.0


def test_breaker_opens_at_the_third_missed_deadline_in_a_row():
    breaker = closed_breaker()
    for failures in (2, 2, 3):
        breaker.on_success()
        for _ in range(failures):
            breaker.on_failure(Failure.DEADLINE, 1.0)
        assert breaker.closed is (failures < 3)
    assert breaker.times_opened == 1


def test_breaker_opens_at_the_third_missed_canary_in_a_row():
    breaker = closed_breaker()
    for _ in range(2):
        breaker.on_canary(None, 1.0)
        breaker.on_canary(Failure.DEADLINE, 2.0)
        breaker.on_canary(Failure.DEADLINE, 3.0)
        assert breaker.closed
    breaker.on_canary(Failure.DEADLINE, 4.0)
    assert not breaker.closed and breaker.cause == "canary: deadline"


def test_a_bad_canary_starts_the_count_again():
    breaker = closed_breaker()
    breaker.on_failure(Failure.UNAVAILABLE, 1.0)
    breaker.on_canary(None, 2.0)
    breaker.on_canary(None, 2.1)
    breaker.on_canary(Failure.DEADLINE, 2.2)
    breaker.on_canary(None, 2.3)
    breaker.on_canary(None, 2.4)
    assert not breaker.closed
    breaker.on_canary(None, 2.5)
    assert breaker.closed


@pytest.mark.parametrize("name, value", [("misses_to_open", 0), ("canaries_to_close", 0), ("probe_interval_s", 0.0),
                                         ("healthy_interval_s", float("nan"))])
def test_breaker_config_names_the_field(name, value):
    with pytest.raises(ConfigError, match=name):
        BreakerConfig(**{name: value})


@pytest.mark.parametrize("url", ["localhost", "127.0.0.1:", "127.0.0.1:99999", ":80", "127.0.0.1:x"])
def test_triton_config_names_a_bad_url(url):
    with pytest.raises(ConfigError, match="url"):
        TritonConfig(url)


def test_healthy_primary_serves(pair):
    assert ask(pair[1]).served_by == "primary"


def test_missed_deadlines_with_an_answer_between_them_are_not_in_a_row(pair):
    def late(chunk):
        raise PolicyTimeout("late")

    primary, policy = pair
    for _ in range(2):
        primary.change = late  # calls only: the canary, which has a count of its own, stays good
        ask(policy), ask(policy)
        primary.change = lambda chunk: chunk
        assert ask(policy).served_by == "primary"


@pytest.mark.parametrize(("deadline_s", "primary_s"), [(0.040, 0.020), (0.020, 0.015), (0.006, 0.003)])
def test_the_primary_leaves_the_local_model_its_time(local, monkeypatch, deadline_s, primary_s):
    now_s, given_s = [100.0], {}
    monkeypatch.setattr("steadyhand_policies.fallback.time", SimpleNamespace(monotonic=lambda: now_s[0]))

    class Hung:
        def infer(self, observation, observation_id, deadline_s):
            given_s["primary"], now_s[0] = deadline_s, now_s[0] + deadline_s
            raise PolicyTimeout("late")

    class Local:
        def infer(self, observation, observation_id, deadline_s):
            given_s["local"] = deadline_s
            return ActionChunk(observation_id, np.array(local.contract.canary.actions), "local", 0.0)

    policy = FallbackPolicy(Hung(), Local(), local.contract, primary_deadline_s=0.020)
    policy._breaker.closed = True
    policy.infer(np.float32(local.contract.canary.observation), "o1", deadline_s)
    assert given_s == pytest.approx({"primary": primary_s, "local": deadline_s - primary_s})


@pytest.mark.parametrize("error", [PolicyTimeout("late"), PolicyError("broken")])
def test_a_failed_call_is_answered_by_local_within_the_call(pair, error):
    primary, policy = pair
    primary.error = error
    chunk = ask(policy, "o7")
    assert chunk.served_by == "local" and chunk.observation_id == "o7"
    assert sum(policy.statistics().failures.values()) == 1


def test_an_open_breaker_does_not_ask_the_primary_and_only_canaries_close_it(pair):
    primary, policy = pair
    primary.error = PolicyError("broken")
    ask(policy)
    asked = primary.calls
    for _ in range(5):
        assert ask(policy).served_by == "local"
    assert primary.calls == asked
    canaries = primary.canaries
    primary.error = None
    assert policy.wait_primary(GENEROUS_S)
    assert primary.canaries >= canaries + 3
    assert ask(policy).served_by == "primary"


@pytest.mark.parametrize(
    "change",
    [
        lambda c: ActionChunk(c.observation_id, c.actions * np.nan, "primary", 0.0),
        lambda c: ActionChunk(c.observation_id, c.actions + 3.0, "primary", 0.0),
        lambda c: ActionChunk(c.observation_id, c.actions[:4], "primary", 0.0),
        lambda c: ActionChunk("another", c.actions, "primary", 0.0),
    ],
)
def test_a_bad_reply_is_never_passed_on(pair, change):
    primary, policy = pair
    primary.change = change
    chunk = ask(policy)
    assert chunk.served_by == "local" and policy.statistics().failures == {"bad_reply": 1}


def test_a_bad_observation_is_refused_and_blames_no_server(pair):
    primary, policy = pair
    with pytest.raises(PolicyError, match="target_minus_tool_x"):
        policy.infer(np.full(len(primary.local.contract.observation.names), np.nan), "o1", GENEROUS_S)
    statistics = policy.statistics()
    assert statistics.refused == 1 and statistics.failures == {} and statistics.primary_healthy


def test_both_failing_raises_and_counts(local):
    class Broken:
        def infer(self, *_):
            raise PolicyError("no model")

    policy = FallbackPolicy(None, Broken(), local.contract)
    with pytest.raises(PolicyError, match="no model"):
        ask(policy)
    assert policy.statistics().refused == 1


def test_nothing_listening_is_a_failed_call_not_a_hang(local):
    primary = TritonPolicy(TritonConfig("127.0.0.1:9", deadline_s=0.2), local.contract).open()
    with pytest.raises(PolicyError, match="triton"):
        primary.infer(np.float32(local.contract.canary.observation), "o1")
    primary.close()


def test_local_refuses_before_open_and_reads_its_provider_back(local):
    assert local.provider == "CPUExecutionProvider"
    with pytest.raises(PolicyError, match="open"):
        LocalOnnxPolicy(repository.policy_files()).infer(np.zeros(14), "o1")


def test_local_on_another_provider_than_asked_for_is_refused():
    with pytest.warns(UserWarning), pytest.raises(ConfigError, match="provider: asked for CUDAExecutionProvider"):
        LocalOnnxPolicy(repository.policy_files(), "cuda").open()


def test_local_says_so_when_it_was_too_slow(local, monkeypatch):
    clock = iter([0.0, 0.5])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    with pytest.raises(PolicyTimeout, match="500.0 ms"):
        local.infer(np.float32(local.contract.canary.observation), "o1", 0.02)


def test_check_policy_passes_the_shipped_model(local):
    report = check_policy(local, local.contract, n=5, deadline_s=GENEROUS_S)
    assert report.served_by == ("local",) and report.observations == 5


def test_make_observation_is_within_range(local):
    rng = np.random.default_rng(1)
    for _ in range(20):
        contracts.check_observation(local.contract, make_observation(local.contract, rng))


class Wrapped:
    def __init__(self, local, change):
        self.local, self.change, self.count = local, change, 0

    def infer(self, observation, observation_id, deadline_s):
        self.count += 1
        return self.change(self, self.local.infer(observation, observation_id, deadline_s))


@pytest.mark.parametrize(
    "change, field",
    [
        (lambda w, c: ActionChunk(c.observation_id, c.actions * np.nan, "x", 0.0), "actions"),
        (lambda w, c: ActionChunk("x", c.actions, "x", 0.0), "observation_id"),
        (lambda w, c: ActionChunk(c.observation_id, c.actions[:, ::-1], "x", 0.0), "canary"),
        (lambda w, c: ActionChunk(c.observation_id, c.actions * (1.0, 0.9)[w.count % 2 == 0], "x", 0.0), "differ"),
    ],
)
def test_check_policy_names_what_is_wrong(local, change, field):
    with pytest.raises(ContractError, match=field):
        check_policy(Wrapped(local, change), local.contract, n=5, deadline_s=GENEROUS_S)


def test_check_policy_finds_a_policy_that_answers_nonsense_observations(local):
    class Careless:
        def infer(self, observation, observation_id, deadline_s):
            observation = np.nan_to_num(np.resize(observation, 14), nan=0.0, posinf=0.0)
            observation = np.clip(observation, local.contract.observation.minimum, local.contract.observation.maximum)
            return local.infer(observation, observation_id, deadline_s)

    with pytest.raises(ContractError, match="answered instead of refused"):
        check_policy(Careless(), local.contract, n=2, deadline_s=GENEROUS_S)


class SlowServer:
    """Stands in for the gRPC client: keeps the callback of each request, so that the test decides when it answers."""

    def __init__(self):
        self.callbacks, self.cancelled = [], 0

    def async_infer(self, model, inputs, callback, **_):
        self.callbacks.append(callback)
        return self

    def cancel(self):
        self.cancelled += 1

    def close(self):
        pass


class Reply:
    def __init__(self, request_id, actions):
        self.id, self.actions = request_id, actions

    def get_response(self):
        return self

    def as_numpy(self, name):
        return self.actions


@pytest.fixture
def slow(local):
    policy = TritonPolicy(TritonConfig("127.0.0.1:9"), local.contract).open()
    policy.close()
    policy._client = SlowServer()
    return policy


def test_a_late_reply_is_counted_and_dropped(slow, local):
    golden = np.array([local.contract.canary.actions], dtype=np.float32)
    with pytest.raises(PolicyTimeout, match="o1"):
        slow.infer(np.float32(local.contract.canary.observation), "o1", 0.002)
    assert slow._client.cancelled == 1 and slow.late_replies == 0
    slow._client.callbacks[0](Reply("o1", golden), None)
    assert slow.late_replies == 1


@pytest.mark.parametrize("reply", ["another", "no output"])
def test_a_reply_for_another_observation_or_without_output_is_refused(slow, local, reply):
    golden = np.array([local.contract.canary.actions], dtype=np.float32)
    answer = Reply("o2", golden) if reply == "another" else Reply("o1", None)
    slow._client.async_infer = lambda model, inputs, callback, **_: callback(answer, None)
    with pytest.raises(PolicyError) as failed:
        slow.infer(np.float32(local.contract.canary.observation), "o1", GENEROUS_S)
    assert failed.value.failure is Failure.BAD_REPLY


def test_a_hung_server_holds_a_bounded_number_of_calls_and_those_it_lets_go_make_room(slow, local):
    golden = np.float32(local.contract.canary.observation)
    for k in range(slow.config.queue_max):
        with pytest.raises(PolicyTimeout):
            slow.infer(golden, f"o{k}", 0.002)
    with pytest.raises(PolicyError, match="8 calls are under way, limit 8: one more not sent") as failed:
        slow.infer(golden, "one more", GENEROUS_S)
    assert failed.value.failure is Failure.UNAVAILABLE and slow.queue_refusals == 1
    assert len(slow._client.callbacks) == slow.config.queue_max
    slow._client.callbacks[3](None, RuntimeError("cancelled"))
    with pytest.raises(PolicyTimeout):
        slow.infer(golden, "again", 0.002)


@pytest.mark.parametrize("name, value", [("queue_max", 0), ("version", "0"), ("version", "latest")])
def test_triton_config_names_what_is_wrong(name, value):
    with pytest.raises(ConfigError, match=name):
        TritonConfig("127.0.0.1:18001", **{name: value})
