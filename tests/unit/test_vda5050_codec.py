"""The codec takes what the official schemas allow and refuses the rest by field and value."""
import json
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steadyhand.errors import ConfigError, ProtocolError
from steadyhand.vda5050 import codec, dialect, strict_json
from steadyhand.vda5050.freshness import Freshness
from steadyhand.vda5050.header import HeaderIds, Identity, parse_timestamp, timestamp
from tests.unit import vda5050_messages as messages

VERSIONS = codec.VERSIONS


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_encoded_is_decoded(version):
    state = messages.state(version)
    assert codec.decode("state", codec.encode("state", state, version), version) == state


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", codec.KINDS)
def test_every_kind_has_a_schema_and_asks_for_its_header(kind, version):
    with pytest.raises(ProtocolError, match=f"{kind}: field .* is missing|{kind}.*is not"):
        codec.decode(kind, b'{"headerId": 1, "timestamp": 5}', version)


WRONG = [
    (b"", "not JSON"), (b"[]", "no JSON object"), (b"\xff{}", "not UTF-8"), (b'{"a":1,"a":2}', "'a' twice"),
    (b'{"headerId": NaN}', "NaN"), (b'{"headerId": -Infinity}', "Infinity"), (b'{"x": 1e999}', "too great"),
    (b'{"x": 99999999999999999999999}', "too great"), (b'{"x": ' + b"9" * 5000 + b"}", "too great"),
    (b'{"x": "\\ud800"}', "surrogate"), (b'{"x":' * 5000, "nested|not JSON"), (b'{"x": 1', "not JSON"),
    (b"[" * 100_000, "nested"), (b" " * (codec.MAX_BYTES + 1), "limit"),
]  # fmt: skip


@pytest.mark.parametrize("payload, match", WRONG, ids=range(len(WRONG)))
def test_what_is_no_strict_json_is_refused(payload, match):
    with pytest.raises(ProtocolError, match=match):
        codec.decode("state", payload, "2.1.0")


@pytest.mark.parametrize("changes, match", [
    ({"driving": "yes"}, r"state.driving: 'yes' is not boolean"),
    ({"operatingMode": "FAST"}, r"state.operatingMode: 'FAST', wanted one of AUTOMATIC"),
    ({"timestamp": "yesterday"}, r"state.timestamp: 'yesterday' is no date-time"),
    ({"timestamp": "2026-13-01T00:00:00Z"}, r"state.timestamp"),
    ({"version": "1.1.0"}, r"state.version: '1.1.0', wanted 2.1.0"),
    ({"headerId": -1}, r"state.headerId: -1"), ({"headerId": 2**32}, r"state.headerId"),
    ({"headerId": 1.5}, r"state.headerId: 1.5 is not integer"),
    ({"nodeStates": [{"nodeId": "a", "sequenceId": 0}]}, r"state.nodeStates\[0\]: field released is missing"),
    ({"safetyState": {"eStop": "MAYBE", "fieldViolation": False}}, r"state.safetyState.eStop: 'MAYBE'"),
    ({"errors": "x" * 9000}, r"state.errors: 'x{50,60}\.\.\. is not array"),
])  # fmt: skip
def test_what_breaks_the_schema_is_refused_by_field_and_value(changes, match):
    with pytest.raises(ProtocolError, match=match) as caught:
        codec.decode("state", json.dumps(messages.state(**changes)).encode(), "2.1.0")
    assert len(str(caught.value)) < 400
    with pytest.raises(ProtocolError, match=match):
        codec.encode("state", messages.state(**changes), "2.1.0")


def test_a_whole_number_with_a_point_is_an_integer_as_json_schema_has_it():
    payload = json.dumps(messages.state(headerId=3.0, lastNodeSequenceId=2e0, orderUpdateId=1e15)).encode()
    state = codec.decode("state", payload, "2.1.0")
    assert [repr(state[n]) for n in ("headerId", "lastNodeSequenceId", "orderUpdateId")] == ["3", "2", str(10**15)]
    assert repr(strict_json.loads(b'{"x": 1e300, "y": 0.5}', "m", 99)) == "{'x': 1e+300, 'y': 0.5}"


def test_naming_a_key_that_stands_twice_takes_no_time_that_grows_with_the_square():
    payload = ("{" + "".join(f'"{i:x}":"",' for i in range(15_000)) + '"3a97":""}').encode()  # the last one, 3a97, twice
    calls = []
    sys.setprofile(lambda _frame, event, _arg: calls.append(event) if event == "c_call" else None)
    try:
        with pytest.raises(ProtocolError, match="key '3a97' twice"):
            strict_json.loads(payload, "state", codec.MAX_BYTES)
    finally:
        sys.setprofile(None)
    assert len(calls) < 1000  # one look through all keys for each would be 15,000


def test_not_a_number_is_not_sent():
    with pytest.raises(ProtocolError, match="JSON"):
        codec.encode("state", messages.state(distanceSinceLastNode=float("nan")), "2.1.0")


def test_an_unknown_kind_or_version_is_named():
    with pytest.raises(ProtocolError, match="'orders'"):
        codec.decode("orders", b"{}", "2.1.0")
    with pytest.raises(ProtocolError, match="'1.1'"):
        codec.decode("order", b"{}", "1.1")


@settings(max_examples=60, deadline=None)
@given(st.one_of(st.binary(max_size=200), st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20).map(lambda v: json.dumps(v).encode("utf-8", "surrogatepass"))))  # fmt: skip
def test_nothing_but_a_protocol_error_comes_of_garbage(payload):
    for kind in codec.KINDS:
        try:
            codec.decode(kind, payload, "2.1.0")
        except ProtocolError:
            pass


FIELDS = sorted(messages.state())


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(VERSIONS), st.sampled_from(FIELDS), st.sampled_from([None, 1, -1.5, "", "x", [], [1], {}, True]))
def test_a_state_that_passes_can_be_read(version, name, value):
    if name not in messages.state(version):
        return
    try:
        state = codec.decode("state", json.dumps(messages.state(version, **{name: value})).encode(), version)
    except ProtocolError:
        return
    dialect.read_state(state, version)


@pytest.mark.parametrize("version", VERSIONS)
def test_both_versions_read_the_same(version):
    said = dialect.read_state(messages.state(version), version)
    assert said.localised and said.e_stop == "NONE" and said.battery_percent == 80.0 and said.idle
    assert said.pose_m_rad == (1.0, 2.0, 0.5) and said.velocity_m_s_rad_s == (0.0, 0.0, 0.0) and said.map_id == "hall"


def test_topics_and_headers():
    old, new = messages.IDENTITY.values()
    assert old.topic("order") == "uagv/v2/acme/agv-1/order" and new.topic("state") == "vda5050/v3/acme/agv-1/state"
    assert old.kind_of("uagv/v2/acme/agv-1/state") == "state"
    for wrong in ("uagv/v2/acme/agv-2/state", "uagv/v3/acme/agv-1/state", "uagv/v2/acme/agv-1/", "state", ""):
        with pytest.raises(ProtocolError, match="topic"):
            old.kind_of(wrong)
    with pytest.raises(ProtocolError, match="serialNumber: 'agv-2'"):
        old.check("state", messages.state(serialNumber="agv-2"))
    ids = HeaderIds()
    assert [ids.take("order"), ids.take("order"), ids.take("state")] == [0, 1, 0]


@pytest.mark.parametrize("part", ["", "a/b", "a+", "#", "a b", "x" * 65, "\n", 5])
def test_what_cannot_stand_in_a_topic_is_no_identity(part):
    with pytest.raises(ConfigError, match="serial_number"):
        Identity("acme", part)
    if part != "":
        with pytest.raises(ConfigError, match="interface"):
            Identity("acme", "agv", interface=part)


def test_timestamps_go_both_ways():
    assert timestamp(0.25) == "1970-01-01T00:00:00.250Z"
    assert parse_timestamp("1970-01-01T01:00:00.5+01:00") == 0.5 and parse_timestamp("1970-01-01T00:00:01Z") == 1.0
    with pytest.raises(ProtocolError, match="timestamp"):
        parse_timestamp("2026-02-31T00:00:00Z")


# --- freshness ---


def sent(header_id, wall_s):
    return {"headerId": header_id, "timestamp": timestamp(wall_s)}


def test_duplicates_and_reordered_messages_are_dropped_and_counted():
    fresh = Freshness()
    assert fresh.take("state", sent(5, 100.0), 0.0) == ""
    assert fresh.take("state", sent(5, 100.0), 0.1) == "duplicate"
    assert fresh.take("state", sent(6, 100.1), 0.2) == ""
    assert fresh.take("state", sent(5, 100.0), 0.3) == "reordered"
    assert fresh.take("connection", sent(5, 100.0), 0.3) == ""  # another topic counts on its own
    assert fresh.take("state", sent(0, 100.4), 0.4) == ""  # the vehicle was restarted
    assert fresh.counts == {"duplicate": 1, "reordered": 1, "restarted": 1}


def test_the_header_id_wraps():
    fresh = Freshness()
    assert fresh.take("state", sent(codec.MAX_HEADER_ID, 100.0), 0.0) == ""
    assert fresh.take("state", sent(0, 100.1), 0.1) == ""
    assert fresh.take("state", sent(codec.MAX_HEADER_ID, 100.0), 0.2) == "reordered" and "restarted" not in fresh.counts


def test_a_message_that_was_held_up_is_stale_whatever_the_clocks_show():
    fresh = Freshness(max_delay_s=1.0)
    assert fresh.take("state", sent(0, 5000.0), 10.0) == ""
    assert fresh.take("state", sent(1, 5001.0), 11.9) == ""  # 0.9 s
    assert fresh.take("state", sent(2, 5002.0), 13.5) == "stale"
    assert fresh.take("state", sent(3, 5004.0), 14.0) == ""
    fresh.reset()
    assert fresh.take("state", sent(0, 1000.0), 15.0) == ""  # its clock was set back: a new connection begins anew


def test_clocks_that_drift_apart_are_no_delay():
    fresh = Freshness(max_delay_s=1.0)
    for i in range(0, 40_000, 10):
        assert fresh.take("state", sent(i, 1000.0 + i * (1 - 150e-6)), float(i)) == ""
