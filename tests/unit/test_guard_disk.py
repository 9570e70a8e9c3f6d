"""No cycle of the guard waits for a disk: what the loop opens is watched from arming to rest."""
import gc
import re
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from steadyhand import ur5
from steadyhand.guard_protocol import Chunk, Gripper, Verdict
from steadyhand_firmware_bridge import fake, operator, urscript
from steadyhand_firmware_bridge.client import GuardClient
from steadyhand_firmware_bridge.fake import FakeRobot
from steadyhand_firmware_bridge.guard import loop as loop_module
from steadyhand_firmware_bridge.guard.config import GuardConfig
from steadyhand_firmware_bridge.guard.core import Guard
from steadyhand_firmware_bridge.guard.loop import Loop
from steadyhand_firmware_bridge.guard.main import fresh_token
from steadyhand_firmware_bridge.guard.server import Server

GUARD = Path(loop_module.__file__).parent

@pytest.fixture
def server(tmp_path):
    server = Server(tmp_path / "slot")
    server.open()
    yield server
    server.close()
    gc.enable()  # the loop runs without
    gc.unfreeze()


DISK = ("open", "os.", "import", "subprocess.Popen", "shutil.")
_watched = {}  # thread -> what it did; a hook of the interpreter cannot be taken away


def _note(event, arguments):
    found = _watched.get(threading.get_ident())
    if found is not None and event.startswith(DISK):
        found.append((event, str(arguments)[:200]))


sys.addaudithook(_note)


def test_the_loop_touches_no_file_from_arming_to_rest(server, monkeypatch):
    """Files, folders, imports and processes: each may wait for a disk."""
    monkeypatch.setattr(fake, "HEARTBEAT_LIMIT_S", 5.0)  # a busy machine is not what is tested
    loop, touched = Loop(server, 0.008), []
    config = GuardConfig(shell_timeout_s=5.0, command_timeout_s=5.0)
    guard = Guard(FakeRobot(), config, server.credential, fresh_token, server.send, time.monotonic())
    guard.late_limit_s = 5.0

    def work():
        _watched[threading.get_ident()] = touched
        try:
            loop.run(guard)
        finally:
            del _watched[threading.get_ident()]

    thread = threading.Thread(target=work)
    thread.start()
    client = GuardClient("commander", commander=True, folder=server.folder)
    try:
        client.connect()
        assert operator.wait_rest(5.0, server.folder).at_rest
        assert operator.rearm("auto", folder=server.folder).ok
        verdicts, end_s = [], time.monotonic() + 20.0
        while client.state is None or client.state.mode != "ARMED_AUTO":
            client.poll()
            assert time.monotonic() < end_s
        for step_rad in (0.001, 3.0):  # one that is accepted, one that is refused
            client.poll()
            client.send(a_chunk(client.state, step_rad))
            verdict = client.wait(lambda m: isinstance(m, Verdict), 5.0)
            verdicts.append(verdict.accepted)
        client.send(Gripper(client.state.token, 0.0, "g"))
        operator.stop("panel", "", server.folder)
        assert operator.wait_rest(5.0, server.folder).at_rest
    finally:
        loop.ending = True
        thread.join(10.0)
        client.close()
    assert verdicts == [True, False] and touched == []


def a_chunk(state, step_rad):
    q = np.array(state.q_commanded_rad) + np.outer(np.arange(1, 9) * step_rad, [1, 0, 0, 0, 0, 0])
    return Chunk(
        token=state.token, state_seq=state.seq, state_stamp_s=state.stamp_s, trace_id=f"t{step_rad}", source="policy",
        joint_names=list(ur5.JOINT_NAMES), period_s=0.05, q_rad=q.tolist(),
    )  # fmt: skip


def test_the_controllers_program_is_read_before_the_loop():
    urscript.program_text()
    touched = _watched[threading.get_ident()] = []
    try:
        urscript.render(1), urscript.render(2)
    finally:
        del _watched[threading.get_ident()]
    assert touched == []


@pytest.mark.parametrize("path", sorted(GUARD.glob("*.py")), ids=lambda p: p.name)
def test_what_a_guard_prints_may_be_refused_by_a_full_disk(path):
    # service.say and say_exception never raise
    assert not re.search(r"\bprint\(|traceback\.|logging", path.read_text())
