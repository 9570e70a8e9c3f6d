"""Guard, VDA 5050 bridge and the simulated vehicle in virtual time: only the broker is left out, no packet is."""
import itertools

import numpy as np

from steadyhand.guard_protocol import Arm, Drive, Heartbeat, Reply, VehicleAct, Verdict, decode, encode
from steadyhand.vda5050 import codec
from steadyhand.vda5050.header import Identity
from steadyhand_firmware_bridge.guard.agv_config import AgvGuardConfig
from steadyhand_firmware_bridge.guard.agv_core import AgvGuard
from steadyhand_firmware_bridge.vda5050.agv import VdaAgv
from steadyhand_firmware_bridge.vda5050.config import BrokerConfig, MasterConfig
from steadyhand_sim.agv import reports
from steadyhand_sim.agv.fleet import Fleet, make_unit
from steadyhand_sim.agv.noise import NoiseParameters
from steadyhand_sim.agv.plant import KinematicPlant
from steadyhand_sim.agv.site import Site
from steadyhand_sim.agv.vehicle_config import VehicleConfig

CREDENTIAL, DT_S, PERIOD_S = "secret", 0.02, 0.04


class VirtualFleet(Fleet):
    """Stamps its messages with virtual time."""

    now_s = 0.0

    def _payload(self, unit, kind, message):
        header = unit.identity.header(unit.headers.take(kind), 1.7e9 + self.now_s)
        unit.state_header_id = header["headerId"] if kind == "state" else unit.state_header_id
        return codec.encode(kind, header | message, unit.identity.version)


class Wire:
    """Both links to the broker: `Mqtt` of the guard, `MqttLink` of the vehicle. `cut` loses what it carries."""

    connected, counts = True, {}

    def __init__(self, chain):
        self.chain, self.cut, self.to_vehicle, self.to_guard = chain, False, [], []

    def publish(self, at, payload, retain=False):
        if self.cut:
            return
        if "/" in at:  # the guard's: whole topics, which come back to it as well
            self.to_vehicle.append((at.rpartition("/")[2], payload))
            self.to_guard.append((at, payload))
        else:
            self.to_guard.append((self.chain.identity.topic(at), payload))

    def poll(self, now_s):
        found, self.to_guard = self.to_guard, []
        for topic, payload in found:
            self.chain.agv._take(topic, payload, False)

    def readable(self):
        return []

    def reconnect(self, why):
        raise AssertionError(why)

    def close(self, farewell=None):
        pass


class Chain:
    def __init__(self, version="2.1.0", pose=(-5.0, 0.0, 0.0), localised=True, **config):
        self.identity, self.now_s = Identity("steadyhand", "agv", version), 100.0
        noise, rng, vehicle = NoiseParameters.none(), np.random.default_rng(0), VehicleConfig(period_s=PERIOD_S)
        plant = KinematicPlant(vehicle, noise, rng)
        self.unit = make_unit(self.identity, plant, vehicle, Site(), noise, rng, pose, localised)
        self.fleet = VirtualFleet([self.unit], None)
        self.agv = VdaAgv(MasterConfig(self.identity, **config), BrokerConfig())
        self.wire = self.unit.link = self.agv.mqtt = Wire(self)
        self.answers, tokens, self.traces = [], itertools.count(2000), itertools.count()
        self.guard = AgvGuard(self.agv, AgvGuardConfig(), CREDENTIAL, lambda: next(tokens), self._answer, self.now_s)
        self.guard.open(self.now_s)
        self.guard.commander_changed("commander", self.now_s)
        self.state = None
        self.agv.poll(self.now_s)
        self.agv._changed("")
        for kind, body in (("connection", reports.connection(version, reports.ONLINE)),
                           ("state", reports.state(self.unit.vehicle, version))):  # fmt: skip
            self.fleet._send(self.unit, kind, body)
        self.run(2.0)

    def _answer(self, client, message):
        self.answers.append(decode(encode(message)))

    def run(self, seconds, until=None):
        for _ in range(round(seconds / DT_S)):
            self.now_s += DT_S
            self.fleet.now_s = self.now_s
            found, self.wire.to_vehicle = self.wire.to_vehicle, []
            for kind, payload in found:
                self.fleet.take(self.unit, kind, payload)
            if round(self.now_s / DT_S) % 2 == 0:
                self.unit.pass_period(self.now_s, [])
            self.fleet.send_due(self.unit, self.now_s)
            self.state = decode(encode(self.guard.cycle(self.now_s)))
            self.guard.handle("commander", Heartbeat("shell", True), self.now_s)
            if until is not None and until():
                return self
        assert until is None, f"not within {seconds} s: {self.state}"
        return self

    def last(self, kind):
        return next(m for m in reversed(self.answers) if isinstance(m, kind))

    def arm(self):
        self.guard.handle("operator", Arm("auto", CREDENTIAL, "r"), self.now_s)
        self.run(5.0, lambda: self.state.mode == "ARMED_AUTO")
        return self

    def drive(self, *points, **fields):
        """From where it stands to these (x, y), named n1, n2 ...; the verdict."""
        here = self.state.pose_m_rad[:2]
        message = Drive(
            self.state.token, self.state.stamp_s, f"t{next(self.traces)}", "task",
            [f"n{i}" for i in range(len(points) + 1)], [here, *map(list, points)], "hall", **fields,
        )  # fmt: skip
        self.guard.handle("commander", decode(encode(message)), self.now_s)
        self.run(0.1)
        return self.last(Verdict)

    def ask(self, act, credential=CREDENTIAL, seconds=1.0, **fields):
        """The reply to an operator's act."""
        request = f"q{next(self.traces)}"
        if act == "resume":
            fields = {"token": self.state.token, "state_stamp_s": self.state.stamp_s} | fields
        self.guard.handle("operator", decode(encode(VehicleAct(act, credential, request, **fields))), self.now_s)
        self.run(seconds, lambda: isinstance(self.answers[-1], Reply) and self.answers[-1].request_id == request
                 if self.answers else False)  # fmt: skip
        return self.answers[-1]

    def arrived(self, seconds=90.0):
        return self.run(seconds, lambda: self.state.task_state == "arrived")
