"""Where the model runs: read back, announced when it is not where it was wanted, and answered when it is lost.

No accelerator is at hand: `Accelerated` is a real CPU session that says it is CUDA and can be broken, as a session
whose device is lost breaks. What is tested is what our engine does then; that CUDA breaks so is ONNX Runtime's matter.
"""
import numpy as np
import pytest

from steadyhand.errors import ConfigError, PolicyError
from steadyhand_policies import engine as engines
from steadyhand_policies import repository
from steadyhand_policies.engine import CPU, CUDA, Engine
from steadyhand_policies.fallback import FallbackPolicy
from steadyhand_policies.local_onnx import LocalOnnxPolicy

MODEL = repository.policy_files().model
BATCH = np.zeros((1, 14), np.float32)


class Accelerated:
    """See the module."""

    def __init__(self, session):
        self.session, self.broken, self.runs = session, "", 0

    def get_providers(self):
        return [CUDA, CPU]

    def get_inputs(self):
        return self.session.get_inputs()

    def get_outputs(self):
        return self.session.get_outputs()

    def run(self, *arguments):
        self.runs += 1
        if self.broken:
            raise RuntimeError(self.broken)
        return self.session.run(*arguments)


@pytest.fixture
def cuda(monkeypatch):
    """CUDA is offered; what was opened on it."""
    opened, real = [], engines.open_session

    def open_session(model, provider=CPU):
        session = real(model, CPU)
        if provider == CUDA:
            opened.append(Accelerated(session))
            return opened[-1]
        return session

    monkeypatch.setattr(engines, "open_session", open_session)
    monkeypatch.setattr(engines, "available", lambda: (CUDA, CPU))
    return opened


def open_engine(wanted):
    return Engine(MODEL, wanted, "observation", "actions").open()


@pytest.mark.parametrize("wanted", ["auto", "cpu"])
def test_without_an_accelerator_it_runs_on_the_cpu_and_says_so(wanted):
    engine = open_engine(wanted)
    assert (engine.provider, engine.trouble) == (CPU, "") and engine.run(BATCH).shape == (1, 8, 5)


def test_cuda_that_is_asked_for_and_not_to_be_had_is_refused():
    with pytest.raises(ConfigError, match="asked for CUDAExecutionProvider, the session runs on CPUExecutionProvider"):
        open_engine("cuda")


def test_an_engine_that_silently_gives_the_cpu_is_announced(monkeypatch):
    """Built for CUDA, on a machine without: ONNX Runtime gives the CPU and two lines on stderr."""
    monkeypatch.setattr(engines, "available", lambda: (CUDA, CPU))
    engine = open_engine("auto")
    assert engine.provider == CPU and "asked for CUDAExecutionProvider" in engine.trouble


def test_a_wrong_word_is_named():
    with pytest.raises(ConfigError, match="provider = 'gpu'"):
        Engine(MODEL, "gpu", "a", "b")


def test_a_lost_accelerator_is_answered_in_the_same_call_and_announced(cuda):
    engine = open_engine("auto")
    assert engine.provider == CUDA
    before = engine.run(BATCH)
    cuda[0].broken = "CUDA failure 719: unspecified launch failure"
    np.testing.assert_array_equal(engine.run(BATCH), before)
    assert engine.provider == CPU and engine.losses == 1
    assert "CUDAExecutionProvider was lost" in engine.trouble and "719" in engine.trouble
    runs = cuda[0].runs
    cuda[0].broken = ""
    engine.run(BATCH)
    assert cuda[0].runs == runs  # no way back but a new start


def test_what_both_refuse_is_the_inputs_fault_and_no_accelerator_is_blamed(cuda):
    engine = open_engine("cuda")
    cuda[0].session = None
    cuda[0].broken = "bad input"
    with pytest.raises(PolicyError, match="CUDAExecutionProvider and CPUExecutionProvider"):
        engine.run(np.zeros((1, 3), np.float32))
    assert engine.provider == CUDA and engine.losses == 0


def test_the_standby_is_warm_before_it_is_needed(cuda):
    engine = open_engine("cuda")
    calls, real = [], engine._standby.run
    engine._standby = type("Counted", (), {"run": lambda self, *a: calls.append(1) or real(*a)})()
    engine.warm_up(BATCH, 5)
    assert len(calls) == 5 and cuda[0].runs == 5


def test_a_policy_that_loses_its_accelerator_goes_on_and_its_statistics_say_so(cuda):
    local = LocalOnnxPolicy(repository.policy_files(), "auto").open()
    policy = FallbackPolicy(None, local, local.contract)
    golden = np.float32(local.contract.canary.observation)
    assert policy.infer(golden, "a", 5.0).served_by == "local" and policy.statistics().local_provider == CUDA
    cuda[0].broken = "CUDA failure 2: out of memory"
    chunk = policy.infer(golden, "b", 5.0)
    np.testing.assert_allclose(chunk.actions, local.contract.canary.actions, atol=1e-3)
    said = policy.statistics()
    assert said.local_provider == CPU and "was lost" in said.local_trouble and said.refused == 0


def test_an_engine_that_is_not_open_refuses():
    with pytest.raises(PolicyError, match="not open"):
        Engine(MODEL, "cpu", "observation", "actions").run(BATCH)
