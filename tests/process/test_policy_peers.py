"""The real peers, where `make setup-peers` has been run: a short run of each, and one fault that tells them apart."""
import contextlib
import time

import pytest

from benchmarks.peers import accounting, arms, faults
from benchmarks.peers.side import Command

pytestmark = pytest.mark.process
SECONDS, ONSET_S, CLEARED_S = 3.0, 1.0, 1.8


@pytest.fixture(params=list(arms.ENVIRONMENTS))
def peer(request, tmp_path, monkeypatch):
    """A peer's client, its server, and the file that names the fault."""
    name = request.param
    python = arms.interpreter(name)
    if not python.exists():
        pytest.skip(f"the environment of {name} is not set up (make setup-peers)")
    monkeypatch.setenv("STEADYHAND_OUT", str(tmp_path))
    fault_file = tmp_path / "fault"
    rate = ("--fps", "20") if name == "lerobot" else ()
    with contextlib.ExitStack() as stack:
        server = arms.Server(f"server_{name}", python, arms.port(9), "--fault-file", str(fault_file), *rate)
        stack.callback(server.close)
        client = arms.Client(f"client_{name}", python)
        stack.callback(client.close)
        yield name, client, server, fault_file


def test_a_peer_serves_the_shipped_policy_and_hands_on_what_its_server_says(peer):
    name, client, server, fault_file = peer
    assert client.versions

    def act(start_s):
        time.sleep(max(0.0, start_s + ONSET_S - time.monotonic()))
        onset_s = time.monotonic()
        fault_file.write_text(faults.NAN)
        time.sleep(CLEARED_S - ONSET_S)
        fault_file.unlink()
        return onset_s, time.monotonic()

    command = Command(name, server.url, SECONDS, 1, accounting.PERIOD_S)
    reply, times = client.run(command, act)
    found = accounting.account(accounting.run_of(reply, *times))
    assert found["before_executed"] > 5 and found["nan"] > 0 and reply["latency_s"]
