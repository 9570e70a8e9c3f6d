"""The MQTT link against brokers that misbehave: a socket that says what a test wants. Each is named, none a crash."""
import socket
import threading
import time

import pytest

from steadyhand.slot import current_slot
from steadyhand_firmware_bridge.vda5050.config import BrokerConfig
from steadyhand_firmware_bridge.vda5050.mqtt import Mqtt

TAKEN = b"\x20\x02\x00\x00"  # CONNACK


class Broker:
    """Answers each connection with these bytes, and keeps what it was sent."""

    def __init__(self, *answers):
        self.heard, self._answers, self._held = [], list(answers), []
        self._listener = socket.create_server((current_slot().robot_host, 0))
        self.host, self.port = self._listener.getsockname()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                link, _ = self._listener.accept()
            except OSError:
                return
            link.settimeout(5.0)
            self.heard.append(link.recv(1000))
            link.sendall(self._answers.pop(0) if len(self._answers) > 1 else self._answers[0])
            self._held.append(link)

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        for part in (self._listener, *self._held):
            part.close()


@pytest.fixture
def link():
    made = []

    def begin(*answers, kind=Mqtt, **config):
        broker = Broker(*answers)
        said, taken = [], []
        config = BrokerConfig(broker.host, broker.port, retry_s=0.05, retry_max_s=0.05, **config)
        mqtt = kind(config, "me", "uagv/v2/acme/agv-1/+", lambda *message: taken.append(message), said.append)
        made.extend((mqtt, broker))
        return mqtt, broker, said, taken

    yield begin
    for part in made:
        part.close()


def until(mqtt, wanted, seconds=10.0):
    end_s = time.monotonic() + seconds
    while not wanted():
        assert time.monotonic() < end_s, mqtt.counts
        mqtt.poll(time.monotonic())
        time.sleep(0.002)


@pytest.mark.parametrize("noise", [
    b"\x30\x01\x00", b"\x30\x04\x00\x20ab", b"\x30\x06\x00\x02\xff\xfe{}", b"\x32\x04\x00\x02ab", b"\x90\x01\x00",
    b"\xf0\x00", b"\x40\x01\x00", b"\x30\xff\xff\xff\xff\xff", b"\x20\x03\x00\x00\x00",
], ids=range(9))  # fmt: skip
def test_a_broker_that_sends_no_mqtt_is_lost_by_name_and_tried_again(link, noise):
    mqtt, broker, said, taken = link(TAKEN + noise, TAKEN)
    until(mqtt, lambda: len(said) >= 3)
    assert said[0] == "" and f"{broker.host}:{broker.port}: " in said[1] and said[2] == "" and taken == []


def test_what_came_before_the_noise_is_taken(link):
    mqtt, _, said, taken = link(TAKEN + b"\x30\x08\x00\x04a/b/{}" + b"\x30\x01\x00", TAKEN)
    until(mqtt, lambda: len(said) >= 2)
    assert taken == [("a/b/", b"{}", False)]


def test_a_broker_of_another_protocol_is_not_tried_anew_behind_our_back(link):
    mqtt, broker, said, _ = link(b"\x20\x02\x00\x01")
    until(mqtt, lambda: len(broker.heard) >= 3)
    assert all(said) and all(b"MQTT\x04" in heard for heard in broker.heard)


def test_a_subscription_that_is_refused_is_named(link):
    mqtt, _, said, _ = link(TAKEN + b"\x90\x03\x00\x01\x80", TAKEN, user="reader")
    until(mqtt, lambda: len(said) >= 2)
    assert "uagv/v2/acme/agv-1/+" in said[1] and "'reader'" in said[1]


@pytest.mark.parametrize("answer", [b"", TAKEN])
def test_a_broker_that_falls_silent_is_lost_once(link, answer):
    mqtt, _, said, _ = link(answer, b"\x20", keepalive_s=1)
    until(mqtt, lambda: any(said))
    assert mqtt.counts == {"lost": 1} and said[-1] and said.count("") == bool(answer)


class Odd(Mqtt):
    def _new_client(self):
        raise RuntimeError("what nobody thought of")


def test_an_attempt_that_fails_in_an_unforeseen_way_is_told_and_made_again(link):
    mqtt, _, said, _ = link(TAKEN, kind=Odd)
    until(mqtt, lambda: len(said) >= 2)
    assert all("what nobody thought of" in why for why in said)
