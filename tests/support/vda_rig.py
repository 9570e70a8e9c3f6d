"""A test vehicle on a real broker, and a `VdaAgv` beside it. Wall time; every wait has a limit."""
import json
import time

from paho.mqtt import client as paho

from steadyhand.errors import ProtocolError
from steadyhand.vda5050 import codec
from steadyhand_firmware_bridge.vda5050.agv import VdaAgv
from steadyhand_firmware_bridge.vda5050.config import BrokerConfig, MasterConfig
from tests.support.vda_vehicle import Vehicle
from tests.unit import vda5050_messages as messages


class VehicleOnBroker:
    """`poll` often: no thread."""

    def __init__(self, broker, version="2.1.0", vehicle=None):
        self.vehicle, self.version = vehicle or Vehicle(version), version
        self.identity = messages.IDENTITY[version]
        self.broker = broker
        self.client = None

    def connect(self):
        broken = {"2.1.0": "CONNECTIONBROKEN", "3.0.0": "CONNECTION_BROKEN"}[self.version]
        will = self.vehicle.message("connection", {"connectionState": broken})
        self.client = paho.Client(paho.CallbackAPIVersion.VERSION2, protocol=paho.MQTTv311)
        self.client.will_set(self.identity.topic("connection"), json.dumps(will), qos=1, retain=True)
        topics = [self.identity.topic(kind) for kind in ("order", "instantActions")]
        self.client.on_connect = lambda client, *_: [client.subscribe(topic) for topic in topics]
        self.client.on_message = self._take
        self.client.connect(self.broker.host, self.broker.port, 5)
        self.vehicle.online = False
        return self

    def _take(self, _, __, message):
        kind = message.topic.rpartition("/")[2]
        try:
            self.vehicle.take(kind, codec.decode(kind, message.payload, self.version))
        except ProtocolError:
            pass  # somebody's garbage

    def poll(self, now_s):
        for _ in range(8):
            self.client.loop_read()
        self.client.loop_misc()
        for kind, message in self.vehicle.tick(now_s) if self.client.is_connected() else ():
            qos, retain = (1, True) if kind == "connection" else (0, False)
            self.client.publish(self.identity.topic(kind), codec.encode(kind, message, self.version), qos, retain)

    def die(self):
        """Without a goodbye: the broker publishes the last will."""
        self.client.socket().close()


class Rig:
    def __init__(self, broker, version="2.1.0", broker_config=None, **config):
        self.broker = broker
        self.vehicle = VehicleOnBroker(broker, version).connect()
        self.agv = VdaAgv(
            MasterConfig(messages.IDENTITY[version], **config),
            broker_config or BrokerConfig(broker.host, broker.port, retry_s=0.1, retry_max_s=0.4),
        )
        self.now_s = time.monotonic()

    def tick(self):
        time.sleep(self.agv.period_s / 4)  # the rig's clock: both sides are polled by it
        self.now_s = time.monotonic()
        self.vehicle.poll(self.now_s)
        self.agv.poll(self.now_s)

    def until(self, wanted, seconds=10.0):
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            self.tick()
            if wanted():
                return
        raise AssertionError(f"not within {seconds} s: {self.troubles()} {self.agv.feedback()} {self.agv.counters()}")

    def troubles(self):
        return dict(self.agv.troubles(self.now_s))

    def close(self):
        self.agv.close()
