"""Master and vehicle through a real mosquitto: restarts, last will, TLS, passwords, names that do not resolve."""
import json
import subprocess
import time

import pytest

from steadyhand.agv import DriveTo, TaskState, Waypoint
from steadyhand.protocols import ArmingPhase
from steadyhand_firmware_bridge.vda5050.agv import VdaAgv
from steadyhand_firmware_bridge.vda5050.config import BrokerConfig, MasterConfig
from tests.support.authority import Authority
from tests.support.broker import Broker
from tests.support.vda_rig import Rig
from tests.unit import vda5050_messages as messages

pytestmark = [pytest.mark.process, pytest.mark.broker]
ROUTE = tuple(Waypoint(f"n{i}", 1.5 * i, 0.0, map_id="hall") for i in range(4))


@pytest.fixture
def broker(tmp_path):
    made = Broker(tmp_path).start()
    yield made
    made.kill()


@pytest.fixture
def rig(broker):
    made = Rig(broker)
    yield made
    made.close()


def well(rig):
    rig.agv.open(rig.now_s)
    rig.until(lambda: rig.agv.feedback() is not None and not rig.troubles())


def driving(rig):
    well(rig)
    rig.agv.begin_arming(1, rig.now_s)
    rig.until(lambda: rig.agv.arming().phase is ArmingPhase.READY)
    assert rig.agv.go(DriveTo("t1", ROUTE), rig.now_s) == ""
    rig.until(lambda: rig.vehicle.vehicle.v > 0.3)


def test_a_broker_restart_resumes_nothing_and_the_link_comes_back(broker, rig):
    driving(rig)
    broker.kill()
    rig.until(lambda: "robot_unreachable" in rig.troubles())
    assert f"{broker.host}:{broker.port}" in rig.troubles()["robot_unreachable"]
    rig.agv.stop(rig.now_s)
    broker.start()
    rig.vehicle.connect()
    rig.until(lambda: not rig.troubles())
    rig.until(lambda: not rig.vehicle.vehicle.nodes and rig.vehicle.vehicle.v == 0.0)
    orders = [m for kind, m in rig.vehicle.vehicle.seen if kind == "order"]
    assert len({o["orderUpdateId"] for o in orders}) == len(orders) <= 2
    assert rig.agv.feedback().task_state is TaskState.STOPPED


def test_the_last_will_of_a_vehicle_is_a_cause(rig):
    driving(rig)
    rig.vehicle.die()
    rig.vehicle.poll = lambda now_s: None
    rig.until(lambda: "CONNECTIONBROKEN" in rig.troubles().get("robot_unreachable", ""))


def test_two_masters_on_one_vehicle_notice_each_other(broker, rig):
    driving(rig)
    other = VdaAgv(MasterConfig(messages.IDENTITY["2.1.0"]), BrokerConfig(broker.host, broker.port))
    other.open(rig.now_s)
    try:
        rig.until(lambda: other.poll(rig.now_s) or other.feedback() is not None)
        other.begin_arming(2, rig.now_s)
        other.stop(rig.now_s)
        rig.until(lambda: other.poll(rig.now_s) or "agv_foreign" in rig.troubles())
        assert "sh" in rig.troubles()["agv_foreign"]
    finally:
        other.close()


def test_garbage_on_the_topics_is_counted_and_moves_nothing(rig):
    well(rig)
    topic = rig.vehicle.identity.topic
    for kind in ("state", "connection", "order", "instantActions", "factsheet", "visualization"):
        for payload in (b"", b"\xff\xfe", b"[]", b'{"headerId": 1, "headerId": 2}', b"{" * 10_000, b"x" * 400_000):
            rig.vehicle.client.publish(topic(kind), payload)
    rig.vehicle.client.publish("uagv/v2/acme/agv-1/strange", b"{}")
    rig.until(lambda: rig.agv.counters().get("invalid", 0) == 36 and rig.agv.counters().get("mqtt:strange_topics") == 1)
    assert rig.vehicle.vehicle.v == 0.0 and not rig.vehicle.vehicle.nodes
    rig.until(lambda: not rig.troubles())


def test_a_vehicle_whose_clock_is_set_back_is_heard_again_over_a_new_connection(rig):
    well(rig)
    vehicle = rig.vehicle.vehicle
    vehicle.message = lambda kind, body: body | vehicle.identity.header(vehicle.ids.take(kind), vehicle._now_s)
    rig.until(lambda: rig.agv.counters().get("mqtt:lost"), 20.0)
    assert rig.agv.counters()["messages:stale"] > 0
    rig.until(lambda: not rig.troubles())


def why(agv, seconds=10.0):
    """What it says of a link that does not come to be."""
    agv.open(time.monotonic())
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        agv.poll(time.monotonic())
        said = agv.troubles(time.monotonic())["robot_unreachable"]
        if said != "not connected yet":
            agv.close()
            return said
        time.sleep(0.005)
    raise AssertionError(f"nothing said within {seconds} s")


def agv(**broker):
    return VdaAgv(MasterConfig(messages.IDENTITY["2.1.0"]), BrokerConfig(**broker))


def test_a_host_that_does_not_resolve_is_named():
    assert "no-such-host.invalid" in why(agv(host="no-such-host.invalid"))


def test_a_broker_that_is_not_there_is_named(broker):
    broker.kill()
    assert "refused" in why(agv(host=broker.host, port=broker.port)).lower()


def test_a_wrong_password_is_named_and_the_right_one_is_taken(tmp_path):
    probe = Broker(tmp_path)
    passwords = tmp_path / "passwords"
    tool = probe.path.replace("usr/sbin/mosquitto", "usr/bin/mosquitto_passwd")
    subprocess.run([tool, "-b", "-c", str(passwords), "agv", "right"], check=True, env=probe.environment)
    passwords.chmod(0o644)
    secret = tmp_path / "secret"
    secret.write_text("wrong\n")
    secret.chmod(0o600)
    broker = Broker(tmp_path, ("allow_anonymous false", f"password_file {passwords}")).start()
    login = dict(host=broker.host, port=broker.port, user="agv", password_file=str(secret))
    try:
        assert "user and password_file" in why(agv(**login))
        assert "user and password_file" in why(agv(host=broker.host, port=broker.port))
        secret.write_text("right\n")
        assert "was not heard of" in why(agv(**login))  # connected: now the vehicle is missed
    finally:
        broker.kill()


@pytest.mark.parametrize("kind, said", [
    ("good", "was not heard of"), ("foreign", "authority is not trusted"), ("expired", "expired"),
    ("host", "is not for"),
])  # fmt: skip
def test_certificates_are_verified_and_what_is_wrong_is_named(tmp_path, kind, said):
    trusted, other = Authority(tmp_path, "Hall"), Authority(tmp_path, "Other")
    issuer = other if kind == "foreign" else trusted
    hosts = ("elsewhere",) if kind == "host" else (Broker(tmp_path).host,)
    cert, key = issuer.issue("broker", hosts, days=(-9, -1) if kind == "expired" else (-1, 9))
    broker = Broker(tmp_path, ("allow_anonymous true", f"certfile {cert}", f"keyfile {key}")).start()
    try:
        assert said in why(agv(host=broker.host, port=broker.port, tls=True, ca_file=str(trusted.ca_file)))
    finally:
        broker.kill()


def test_a_broker_without_tls_is_named(broker, tmp_path):
    ca_file = str(Authority(tmp_path, "Hall").ca_file)
    assert "TLS" in why(agv(host=broker.host, port=broker.port, tls=True, ca_file=ca_file))


def test_messages_that_are_sent_are_valid_json_of_the_schema(rig):
    driving(rig)
    kinds = {kind for kind, _ in rig.vehicle.vehicle.seen}  # each passed the codec's schema on the vehicle's side
    assert kinds == {"order", "instantActions"} and json.dumps(rig.agv.counters())
