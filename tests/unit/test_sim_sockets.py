"""Scene and score sockets: what is sent arrives; hostile peers are refused, counted, and delay nobody."""
import json
import socket
from types import SimpleNamespace

import msgpack
import numpy as np
import pytest

from steadyhand.errors import ConfigError, ProtocolError, RobotError
from steadyhand.slot import current_slot
from steadyhand_sim import scene_stream
from steadyhand_sim.json_lines import MAX_LINE, JsonLinesServer
from steadyhand_sim.score_client import ScoreClient
from steadyhand_sim.snapshot import Snapshot


@pytest.fixture
def slot(tmp_path):
    return current_slot({"STEADYHAND_SLOT": "3", "XDG_RUNTIME_DIR": str(tmp_path)})


def _snapshot(seq=1):
    return Snapshot(seq, 1.5, np.arange(6.0), 0.05, np.ones((2, 3)), np.ones((2, 4)), 4, "train", "blank")


def test_snapshot_survives_the_wire():
    sent, got = _snapshot(), scene_stream.decode(scene_stream.encode(_snapshot()))
    for name in ("seq", "time_s", "gripper_width_m", "look_seed", "look_split", "camera"):
        assert getattr(got, name) == getattr(sent, name)
    for name in ("q_rad", "position_m", "quaternion_xyzw"):
        np.testing.assert_array_equal(getattr(got, name), getattr(sent, name))


def _fields(**changes):
    return msgpack.packb({**msgpack.unpackb(scene_stream.encode(_snapshot())), **changes})


@pytest.mark.parametrize("packet", [
    b"", b"\xff" * 40, msgpack.packb([1, 2]), scene_stream.encode(_snapshot())[:-3], _fields(v=1), _fields(q=[1.0] * 5),
    _fields(q=[float("nan")] * 6), _fields(p=[[0.0] * 3] * 65, o=[[0.0] * 4] * 65), _fields(p=[[0.0] * 3]),
    _fields(split="holdout"), _fields(camera="upside down"), _fields(t=float("inf")), _fields(look=-1),
    _fields(seq="x"), _fields(seq=-1),
    _fields(split=["test"]), _fields(camera={}), _fields(w=None),
])
def test_malformed_packets_are_refused(packet):
    with pytest.raises(ProtocolError, match="scene packet"):
        scene_stream.decode(packet)


def test_reader_gets_the_newest_and_notices_the_end(slot):
    server, client = scene_stream.SceneServer(slot), scene_stream.SceneClient(slot)
    assert client.latest() is None
    server.publish(_snapshot(1))
    for seq in (2, 3, 4):
        server.publish(_snapshot(seq))
    assert client.latest().seq == 4
    server.close()
    client.latest()
    assert client._socket is None
    client.close()


def test_a_silent_simulator_has_no_scene_and_a_new_one_is_found(slot, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(scene_stream, "time", SimpleNamespace(monotonic=lambda: now[0]))
    server, client = scene_stream.SceneServer(slot), scene_stream.SceneClient(slot)
    client.latest()
    server.publish(_snapshot(1))
    assert client.latest().seq == 1
    now[0] += 0.9 * scene_stream.STALE_S
    assert client.latest().seq == 1
    now[0] += 0.2 * scene_stream.STALE_S
    assert client.latest() is None
    server.close()
    assert client.latest() is None  # notices the end
    server = scene_stream.SceneServer(slot)
    client.latest()  # connects
    server.publish(_snapshot(2))
    assert client.latest().seq == 2
    client.close()
    server.close()


def test_malformed_packet_is_counted_by_the_reader(slot):
    server, client = scene_stream.SceneServer(slot), scene_stream.SceneClient(slot)
    client.latest()
    server.publish(_snapshot(1))
    server._clients[0].send(b"garbage")
    assert client.latest() is None and client.malformed == 1
    server.publish(_snapshot(2))
    assert client.latest().seq == 2
    client.close()
    server.close()


def test_reader_that_does_not_read_loses_packets_and_delays_nobody(slot):
    server, client = scene_stream.SceneServer(slot), scene_stream.SceneClient(slot)
    client.latest()
    for seq in range(2000):
        server.publish(_snapshot(seq))
    assert server.dropped > 0
    assert client.latest() is not None
    client.close()
    server.close()


def test_second_simulator_in_a_slot_is_refused_a_dead_socket_is_not(slot):
    server = scene_stream.SceneServer(slot)
    with pytest.raises(OSError, match="another simulator"):
        scene_stream.SceneServer(slot)
    server._server.close()  # as SIGKILL leaves it: the file stays, nobody listens
    again = scene_stream.SceneServer(slot)
    again.close()


def test_simulator_that_hangs_with_a_full_queue_is_refused_at_once(slot):
    server = scene_stream.SceneServer(slot)
    waiting = []
    while True:  # nobody accepts: the queue fills up
        waiting.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        waiting[-1].setblocking(False)
        try:
            waiting[-1].connect(str(scene_stream.socket_path(slot)))
        except BlockingIOError:
            break
    with pytest.raises(OSError, match="another simulator"):
        scene_stream.SceneServer(slot)
    for client in waiting:
        client.close()
    server.close()


def test_score_client_names_what_is_wrong(tmp_path):
    with pytest.raises(RobotError, match="is steadyhand-sim running"):
        ScoreClient(tmp_path).score()
    client = ScoreClient(tmp_path)
    client._socket, simulator = socket.socketpair()
    simulator.sendall(b"not json\n")
    with pytest.raises(RobotError, match="sim_score.sock"):
        client.score()
    assert client._socket is None
    simulator.close()


@pytest.fixture
def json_server(tmp_path):
    def handle(request):
        if request.get("boom"):
            raise ConfigError("boom=1: give 0")
        float(request.get("number", 0.0))
        return {"echo": request}

    server = JsonLinesServer(tmp_path / "score.sock", handle)
    client = socket.socket(socket.AF_UNIX)
    client.connect(str(tmp_path / "score.sock"))
    client.settimeout(2.0)
    server.poll()
    yield server, client
    client.close()
    server.close()


def _ask(server, client, data: bytes) -> dict:
    client.sendall(data)
    server.poll()
    return json.loads(client.recv(100_000).split(b"\n")[0])


def test_request_and_answer(json_server):
    assert _ask(*json_server, b'{"a": 1}\n') == {"ok": True, "echo": {"a": 1}}


@pytest.mark.parametrize("line", [
    b"not json\n", b"[1]\n", b"\xff\xfe\n", b'{"boom": 1}\n', b"[" * 20_000 + b"\n", b"\n", b'"x"\n',
    b'{"number": 1' + b"0" * 400 + b"}\n",
])
def test_bad_request_is_answered_and_counted_and_the_next_works(json_server, line):
    answer = _ask(*json_server, line)
    assert answer["ok"] is False and answer["error"]
    assert json_server[0].counters["refused"] == 1
    assert _ask(*json_server, b'{"a": 1}\n')["ok"] is True


def test_endless_line_is_disconnected(json_server):
    server, client = json_server
    client.setblocking(False)
    sent = 0
    while sent <= 2 * MAX_LINE:
        try:
            sent += client.send(b"x" * 4096)
        except BlockingIOError:
            pass
        except BrokenPipeError:
            break
        server.poll()
    for _ in range(3):
        server.poll()
    assert server.counters["disconnected"] == 1


def test_flood_is_bounded_per_poll(json_server):
    server, client = json_server
    client.sendall(b"{}\n" * 500)
    server.poll()
    assert server.counters["requests"] == 16
