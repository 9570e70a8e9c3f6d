"""Steadyhand's client, as the agent uses it: `local`, `triton` (a call waits up to 1 s, so that a slow one is measured
and not cut off), `shipped` (Triton with its deadline, the local model behind it) and `no_fallback` (Triton only, with
its deadline); the last two drop a reply that comes later than the agent's expiry, as the agent does. Which observation
an executed action answers is found by its content, not by the label it carries."""
from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from benchmarks.peers import accounting, loop, scene, side
from steadyhand.agent import AgentConfig
from steadyhand.errors import PolicyTimeout
from steadyhand_policies import repository
from steadyhand_policies.fallback import FallbackPolicy
from steadyhand_policies.local_onnx import LocalOnnxPolicy
from steadyhand_policies.triton_client import TritonConfig, TritonPolicy

MEASURED_S = 1.0
READY_S = 20.0


def open_client(command: side.Command) -> tuple[Callable, Callable[[], None]]:
    """`infer(observation, id)` of the arm, and what closes it."""
    local = LocalOnnxPolicy(repository.policy_files()).open()
    if command.arm == "local":
        return (lambda observation, name: local.infer(observation, name, MEASURED_S)), local.close
    triton = TritonPolicy(TritonConfig(command.url), local.contract).open()
    if command.arm == "triton":
        return (lambda observation, name: triton.infer(observation, name, MEASURED_S)), triton.close
    if command.arm == "no_fallback":
        return triton.infer, triton.close
    if command.arm != "shipped":
        raise ValueError(f"arm {command.arm!r}: give local, triton, shipped or no_fallback")
    policy = FallbackPolicy(triton, local, local.contract).start()

    def close() -> None:
        policy.close()
        triton.close()

    if not policy.wait_primary(READY_S):
        close()
        raise RuntimeError(f"Triton at {command.url}: no good canary within {READY_S} s")
    deadline_s = AgentConfig().policy_deadline_s
    return (lambda observation, name: policy.infer(observation, name, deadline_s)), close


def prepare(command: side.Command) -> Callable[[loop.Log], dict | None]:
    infer, close = open_client(command)
    observations = scene.observations(int(command.seconds / command.period_s) + 1, command.seed)
    expiry_s = AgentConfig().policy_expiry_s if command.arm in ("shipped", "no_fallback") else MEASURED_S

    def ask(k: int, observation: np.ndarray, stamp_s: float):
        chunk = infer(observation, f"{command.seed}/{k}")
        waited_s = time.monotonic() - stamp_s
        if waited_s > expiry_s:
            raise PolicyTimeout(f"reply after {waited_s * 1e3:.0f} ms: dropped, as the agent drops it")
        return chunk.actions[0], None

    def run(log: loop.Log) -> dict:
        try:
            loop.drive(ask, observations, log, command.seconds, command.period_s, command.interrupt_s)
        finally:
            close()
        return {"executed": attribute(log, observations)}

    return run


def attribute(log: loop.Log, observations: np.ndarray) -> list[list]:
    """The executed actions with the moments they were computed for, found by their content."""
    reference = LocalOnnxPolicy(repository.policy_files()).open()
    asked = observations[: len(log.stamps_s)]
    first = np.array([reference.infer(o, "reference", 10.0).actions[0] for o in asked])
    reference.close()
    found = []
    for (stamp_s, _, finite), action in zip(log.executed, log.actions):
        index = accounting.answered(action, first)[0] if finite else None
        if finite and index is None:
            raise RuntimeError(f"an executed action answers no observation of this run: {action.tolist()}")
        found.append([stamp_s, None if index is None else log.stamps_s[index], finite])
    return found


if __name__ == "__main__":
    side.serve(prepare, ("onnxruntime", "tritonclient", "grpcio", "numpy"))
