"""The stop domain's socket and configuration, and two guards coupled beat by beat in virtual time."""
import os
import socket

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steadyhand.errors import ConfigError
from steadyhand.guard_protocol import Arm, Beat, Stop, encode
from steadyhand.stop_domain import StopDomain
from steadyhand_firmware_bridge.guard.config import GuardConfig
from steadyhand_firmware_bridge.guard.peers import BEATS_PER_CYCLE, PeerSocket, peer_folder
from tests.unit.test_guard_core import CREDENTIAL, DT_S, Rig

NEWS = Beat("left", 1, 0)


@pytest.fixture
def sockets(tmp_path):
    pair = []
    for name, other in (("left", "right"), ("right", "left")):
        (tmp_path / name).mkdir()
        pair.append(PeerSocket(tmp_path / name, {other: str(tmp_path / other)}))
        pair[-1].open()
    yield pair
    for s in pair:
        s.close()


def test_beats_go_to_the_peer_at_once_when_there_is_news_else_at_every_second_cycle(sockets):
    left, right = sockets
    left.send(NEWS)
    assert right.receive() == [NEWS]
    left.send(NEWS)
    assert right.receive() == []
    counts = []
    for _ in range(6):
        left.send(NEWS, each_cycle=True)
        counts.append(len(right.receive()))
    assert sum(counts) == 3
    stop = Beat("left", 1, 1, "stop_requested")
    left.send(stop)
    assert right.receive() == [stop]


def test_garbage_is_counted_and_a_flood_is_bounded(sockets):
    left, right = sockets
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stranger:
        stranger.connect(str(right._path))
        stranger.setblocking(False)
        sent = 0
        for packet in [b"", b"\x00" * 2048, encode(Stop("x")), os.urandom(100)] + [encode(NEWS)] * 5:
            try:
                stranger.send(packet)
                sent += 1
            except BlockingIOError:
                break
        assert sent >= 5
    assert all(isinstance(b, Beat) for b in right.receive()) and right.malformed >= 3
    for number in range(5):
        left.send(Beat("left", 1, 100 + number))
    right._budget = 3
    assert len(right.receive()) == 3 and right.readable() == []
    right.new_cycle()
    assert len(right.receive()) == 2
    right._budget = BEATS_PER_CYCLE
    for _ in range(BEATS_PER_CYCLE):
        left.send(Beat("left", 1, _))
        right.receive()
    assert right.readable() == []
    right.new_cycle()
    assert right.readable() != []


def test_a_peer_that_is_not_there_costs_nothing(tmp_path):
    alone = PeerSocket(tmp_path, {"right": str(tmp_path / "nobody")})
    alone.open()
    for _ in range(4):
        alone.send(NEWS, each_cycle=True)
    assert alone.unsent == 2 + 1
    alone.close()
    assert not (tmp_path / "domain.sock").exists()


def test_without_peers_there_is_no_socket(tmp_path):
    none = PeerSocket(tmp_path, {})
    none.open()
    none.send(NEWS)
    assert none.readable() == [] == none.receive() and not (tmp_path / "domain.sock").exists()


def test_peers_are_found_by_slot_or_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert peer_folder("slot:7") == tmp_path / "slot7"
    assert peer_folder(str(tmp_path / "x")) == tmp_path / "x"
    for wrong in ("slot:x", "slot:99", "slot:-1"):
        with pytest.raises(ConfigError, match="slot:0 to slot:"):
            peer_folder(wrong)


@pytest.mark.parametrize("given_, match", [
    (dict(peers=["right"]), "peers"), (dict(peers={"right": 1}), "peers"), (dict(peers={"": "slot:1"}), "peers"),
    (dict(name="left", peers={"left": "slot:1"}), "own name"), (dict(name=""), "name"),
    (dict(peer_timeout_s=0.0), "peer_timeout_s"),
    (dict(link_timeout_s=-1.0), "link_timeout_s"),
])  # fmt: skip
def test_a_wrong_configuration_is_refused_by_name(given_, match):
    with pytest.raises(ConfigError, match=match):
        GuardConfig(**given_)


# --- two guards ---


class Pair:
    """Two guards that hear each other's newest beat after every cycle, or not at all."""

    def __init__(self):
        self.rigs = [Rig(name="left", peers={"right": "x"}), Rig(name="right", peers={"left": "x"})]
        self.cut = False
        self.run(0.3)

    def run(self, seconds):
        for _ in range(round(seconds / DT_S)):
            for rig, other in zip(self.rigs, reversed(self.rigs)):
                if not self.cut:
                    other.guard.peer_beat(rig.guard.beat(), other.now_s)
                rig.run(DT_S)

    def arm(self):
        for rig in self.rigs:
            rig.guard.handle("operator", Arm("auto", CREDENTIAL, "r"), rig.now_s)
        self.run(0.3)
        assert [r.state.mode for r in self.rigs] == ["ARMED_AUTO"] * 2


ACTS = {
    "stop": lambda rig: rig.guard.stop_requests([(Stop("panel"), 1)], rig.now_s),
    "fault": lambda rig: rig.guard.fault("tracking", "x", rig.now_s),
    "protective": lambda rig: setattr(rig.robot, "safety_mode", 3),
    "silent robot": lambda rig: setattr(rig.robot, "silent", True),
    "commander gone": lambda rig: rig.guard.commander_changed(None, rig.now_s),
}


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("act", ACTS)
def test_whatever_stops_one_stops_the_other_and_it_ends_there(act, side):
    pair = Pair()
    pair.arm()
    ACTS[act](pair.rigs[side])
    pair.run(0.1)
    assert all(not r.guard.state.armed for r in pair.rigs)
    pair.run(2.5)  # a rest that stays unknown is news again, after 2 s
    stops = [r.guard.beat().stops for r in pair.rigs]
    pair.run(1.0)
    assert [r.guard.beat().stops for r in pair.rigs] == stops and stops[1 - side] == 0 < stops[side] <= 2


def test_a_cut_between_them_stops_both_and_forbids_both():
    pair = Pair()
    pair.arm()
    pair.cut = True
    pair.run(0.2)
    assert all(not r.guard.state.armed for r in pair.rigs)
    pair.run(1.0)
    assert [r.guard.beat().stops for r in pair.rigs] == [0, 0]  # the cut is nobody's own stop: told, it would go round
    assert not any(r.arm().ok for r in pair.rigs)
    pair.cut = False
    pair.run(0.5)
    pair.arm()


beats = st.builds(
    Beat, st.sampled_from(["a", "b", "stranger"]), st.integers(0, 2), st.integers(0, 3), st.text(max_size=5),
    st.just(""),
)


@settings(max_examples=200)
@given(st.lists(st.tuples(beats, st.floats(0, 0.2)), max_size=30))
def test_no_peer_is_well_that_was_not_heard_of_lately(history):
    domain, now_s, last = StopDomain(("a", "b"), 0.1), 0.0, {}
    for beat, dt_s in history:
        now_s += dt_s
        before = domain._beats.get(beat.guard)
        news = domain.hear(beat, now_s)
        known = beat.guard in ("a", "b")
        assert bool(news) == (known and before is not None and (before.boot, before.stops) != (beat.boot, beat.stops))
        if known:
            last[beat.guard] = now_s
        well = {"a", "b"} - {name.partition(":")[2] for name in domain.holding(now_s)}
        assert well == {n for n, t in last.items() if now_s - t <= 0.1}
