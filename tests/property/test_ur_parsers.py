"""No bytes from a peer crash a parser or disturb another client; what is well-formed survives any cutting."""
import struct

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from steadyhand.errors import ProtocolError
from steadyhand_firmware_bridge.rtde_wire import KNOWN_TYPES, Framer, Recipe, package, parse_setup_reply
from steadyhand_sim.ur_controller.controller import ControllerConfig, URController
from steadyhand_sim.ur_controller.dashboard_commands import Dashboard
from steadyhand_sim.ur_controller.kinematic_plant import KinematicPlant
from steadyhand_sim.ur_controller.rtde_server import RtdeServer
from steadyhand_sim.ur_controller.script_server import ScriptFramer

FEW = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
CONTROLLER = URController(KinematicPlant(), ControllerConfig())


class Sink:
    """A connection that keeps what is sent."""

    behind, open = False, True

    def __init__(self):
        self.sent = b""

    def send(self, data):
        self.sent += data
        return True


def cut(data, cuts):
    points = sorted({c % (len(data) + 1) for c in cuts} | {0, len(data)})
    return [data[a:b] for a, b in zip(points, points[1:])]


@FEW
@given(st.binary(max_size=4096))
def test_client_framer_takes_anything(data):
    framer = Framer()
    try:
        for _ in range(3):
            framer.feed(data)
    except ProtocolError:
        pass


@FEW
@given(
    st.lists(st.tuples(st.sampled_from(sorted(KNOWN_TYPES)), st.binary(max_size=300)), max_size=8),
    st.lists(st.integers(0, 9999)),
)
def test_framing_survives_any_cutting(packages, cuts):
    framer, out = Framer(), []
    for part in cut(b"".join(package(kind, payload) for kind, payload in packages), cuts):
        out += framer.feed(part)
    assert out == packages


@FEW
@given(st.binary(max_size=200))
def test_setup_reply_and_recipe_take_anything(payload):
    try:
        recipe = parse_setup_reply(payload, ["a", "b"])
        recipe.unpack(payload)
    except ProtocolError:
        pass


@FEW
@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=6, max_size=6),
    st.integers(-(2**31), 2**31 - 1),
)
def test_recipe_round_trip(vector, number):
    recipe = Recipe(1, ("v", "n"), ("VECTOR6D", "INT32"))
    values = recipe.unpack(recipe.pack([vector, number])[3:])
    assert values["v"].tolist() == vector
    assert values["n"] == number


_REQUEST = st.tuples(st.sampled_from(list(b"VvMUOISP\x00\xff")), st.one_of(
    st.binary(max_size=64),
    st.lists(st.sampled_from(["timestamp", "actual_q", "input_int_register_24", "input_double_register_24", "x", ""]),
             max_size=5).map(lambda names: struct.pack(">d", 125.0) + ",".join(names).encode()),
    st.lists(st.sampled_from(["input_int_register_24", "input_double_register_24", "input_bit_register_64", "x"]),
             max_size=5).map(lambda names: ",".join(names).encode()),
))  # fmt: skip


@FEW
@given(st.lists(_REQUEST, max_size=20), st.lists(st.integers(0, 9999), max_size=20))
@example([(ord("I"), b"input_int_register_24"), (ord("U"), struct.pack(">Bi", 1, -7)), (ord("\xff"), b"")], [5, 30])
def test_rtde_server_takes_anything(requests, cuts):
    server = RtdeServer(CONTROLLER)
    session = server.accept(Sink())
    data = b"".join(package(kind, payload) for kind, payload in requests)
    try:
        for part in cut(data, cuts):
            session.received(part)
            server.publish()
    except ProtocolError:
        pass
    session.closed()
    assert server.owners == {}
    assert server.sessions == []
    CONTROLLER.step()


@FEW
@given(st.binary(max_size=2000))
def test_rtde_server_takes_random_bytes(data):
    server = RtdeServer(CONTROLLER)
    session = server.accept(Sink())
    try:
        session.received(data)
    except ProtocolError:
        pass
    session.closed()


@FEW
@given(st.text(max_size=200))
def test_dashboard_answers_any_line_with_one_line(line):
    answer = Dashboard(CONTROLLER).answer(line.replace("\n", " "))
    assert answer
    assert "\n" not in answer.rstrip("\n")


@FEW
@given(st.binary(max_size=2000), st.lists(st.integers(0, 9999)))
def test_script_framer_does_not_depend_on_the_cutting(data, cuts):
    framer, whole = ScriptFramer(), ScriptFramer()
    out = [program for part in cut(data, cuts) for program in framer.feed(part)]
    assert out == whole.feed(data)


@FEW
@given(st.text(alphabet=st.sampled_from("defnd()i:=\n\t #\"[],pstopj1.x"), max_size=200))
def test_any_text_as_a_program_is_refused_or_runs(text):
    controller = URController(KinematicPlant())
    controller.start_program(text)
    for _ in range(3):
        controller.step()
