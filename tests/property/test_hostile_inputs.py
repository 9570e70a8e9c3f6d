"""The fuzzing itself: its mutations are invalid, a sound guard withstands them, a defective one is found."""
import dataclasses

import numpy as np
import pytest

from benchmarks import _hostile as hostile
from benchmarks._fuzz_guard import CoreTarget
from benchmarks._fuzz_parsers import RtdeTarget, ScriptTarget
from steadyhand.errors import ProtocolError
from steadyhand.guard_protocol import Gripper, Heartbeat, Stop, decode
from steadyhand.safety_gate import SafetyGate
from steadyhand_firmware_bridge.guard import core as core_module


@pytest.mark.parametrize("target, n", [(CoreTarget, 1500), (RtdeTarget, 500), (ScriptTarget, 60)])
def test_nothing_crashes_and_nothing_moves(target, n):
    outcome = target(7).run(n)
    assert outcome["messages"] == n and outcome["crashes"] == 0 and outcome["motions"] == 0
    assert outcome["proofs"] or target is ScriptTarget


@pytest.mark.ros
def test_nothing_crashes_and_nothing_moves_through_the_shell():
    pytest.importorskip("steadyhand_interfaces")
    from benchmarks._fuzz_parsers import RosTarget

    outcome = RosTarget(7).run(500)
    assert outcome["messages"] == 500 and outcome["crashes"] == 0 and outcome["motions"] == 0


def test_no_kind_of_input_is_forgotten():
    outcome = CoreTarget(3).run(4000)
    fields = {"token", "state_seq", "state_stamp_s", "source", "joint_names", "period_s", "q_rad value", "q_rad shape"}
    assert fields <= {k.removeprefix("kind chunk.") for k in outcome if k.startswith("kind chunk.")}
    others = {"kind gripper.token", "kind gripper.width_m", "kind arm.credential", "kind unauthorised client"}
    assert others <= set(outcome)


@pytest.mark.parametrize("seed", range(200))
def test_a_wrong_type_is_refused_by_the_decoder(seed):
    rng = np.random.default_rng(seed)
    for message in (Gripper(1, 0.04, "g"), Heartbeat("camera", True), Stop("panel")):
        _, packet = hostile.wrong_type(rng, message)
        with pytest.raises(ProtocolError):
            decode(packet)


def test_the_base_of_the_mutations_is_valid():
    target = CoreTarget(5)
    for _ in range(12):
        target.prove()  # accepted, and the arm moves
    assert target.outcome["proofs"] == 12 and target.guard.accepted == 12


def finds(what, n=400):
    """Whether one of `n` hostile inputs has shown it; what comes after the first says nothing more."""
    target = CoreTarget(7)
    target.prove()
    for _ in range(n):
        target.one()
        if target.outcome[what]:
            return True
    return False


def blind_to(field):
    """A gate that takes one field on trust."""
    check = SafetyGate.check_chunk

    def trusting(self, chunk, state, token, last_seq, now_s, published=None):
        answered = published(state.seq)
        right = {"token": token, "state_seq": state.seq, "state_stamp_s": answered.stamp_s}[field]
        return check(self, dataclasses.replace(chunk, **{field: right}), state, token, last_seq, now_s, published)

    return trusting


@pytest.mark.parametrize("field", ["token", "state_stamp_s"])
def test_a_gate_that_does_not_look_is_found(field, monkeypatch):
    monkeypatch.setattr(SafetyGate, "check_chunk", blind_to(field))
    assert finds("motions")


def test_a_guard_without_one_commander_is_found(monkeypatch):
    monkeypatch.setattr(core_module.Guard, "_may_command", lambda *_: True)
    assert finds("motions")


def test_a_parser_that_crashes_is_found(monkeypatch):
    monkeypatch.setattr(core_module.Guard, "_on_gripper", lambda self, client, message: [][int(message.width_m)])
    assert finds("crashes")
