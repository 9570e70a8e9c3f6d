"""The vehicle's body in the arm's world: its link, its tray, and what the cell sees of it."""
import math
import socket
import threading
from dataclasses import replace

import msgpack
import numpy as np
import pytest

pytest.importorskip("pybullet")
from steadyhand import cell
from steadyhand.errors import ConfigError, ProtocolError, RobotError
from steadyhand.slot import current_slot
from steadyhand_sim.agv import body_link, deck
from steadyhand_sim.agv.body_link import RemoteBody, VehicleInCell
from steadyhand_sim.agv.vehicle_config import parse_pose
from steadyhand_sim.camera import CameraConfig, Renderer
from steadyhand_sim.main import _arguments, add_vehicle, build
from steadyhand_sim.scene_stream import decode, encode
from steadyhand_sim.world import World, WorldConfig

pytestmark = pytest.mark.sim
DOCKED = (-0.66, 0.0, math.pi / 2)


class Cell:
    """Arm and vehicle in one world, in virtual time."""

    def __init__(self, folder, pose=DOCKED, cubes=1):
        self.now_s = 0.0
        self.slot = current_slot({"STEADYHAND_SLOT": "3", "XDG_RUNTIME_DIR": str(folder)})
        self.world = World(WorldConfig(n_cubes=cubes), 0)
        self.vehicle = VehicleInCell(self.world.client, self.slot, pose, lambda: self.now_s)

    def pass_cycles(self, count, each=lambda: None):
        for _ in range(count):
            self.now_s += 0.008
            each()
            self.vehicle.before_cycle()
            self.world.step(cell.HOME_Q_RAD, np.zeros(6), 4)
            self.vehicle.after_cycle()

    def driver(self):
        raw = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        raw.connect(str(self.slot.socket_dir / body_link.SOCKET))
        self.pass_cycles(1)
        return raw

    def state(self):
        return self.vehicle.state(self.world.object_poses()[0], self.world.robot)

    def close(self):
        self.vehicle.close()
        self.world.close()


@pytest.fixture
def rig(tmp_path):
    made = Cell(tmp_path)
    yield made
    made.close()


def command(*values):
    return msgpack.packb(list(values))


def test_it_is_driven_by_one_process_and_stops_without_it(rig):
    driver = rig.driver()
    rig.pass_cycles(100, lambda: driver.send(command(0.3, 0.0, 0.0)))
    y = rig.state()["pose"][1]
    assert y == pytest.approx(0.24, abs=0.05) and rig.state()["driven"]
    rig.pass_cycles(30)  # 240 ms of silence
    rig.pass_cycles(50)
    assert rig.vehicle.counters["timeouts"] == 1 and abs(rig.state()["twist"][0]) < 0.01
    rig.pass_cycles(20, lambda: driver.send(command(0.3, 0.0, 0.0)))
    assert rig.state()["twist"][0] > 0.2
    driver.close()
    rig.pass_cycles(50)
    assert not rig.state()["driven"] and abs(rig.state()["twist"][0]) < 0.01


def test_a_second_driver_is_refused_and_the_next_one_taken_when_the_first_has_gone(rig):
    first, second = rig.driver(), rig.driver()
    second.settimeout(2)
    assert second.recv(100) == b"" and rig.vehicle.counters["refused"] == 1
    first.close()
    third = rig.driver()
    third.settimeout(2)
    assert len(msgpack.unpackb(third.recv(1000))) == 7
    for client in (second, third):
        client.close()


@pytest.mark.parametrize("packet", [
    b"\xc1", b"x" * 500, command(0.1, 0.0), command(float("nan"), 0.0, 0.0), command(99.0, 0.0, 0.0),
    command(0.0, 99.0, 0.0), command(0.0, 0.0, -1.0), command("a", 0.0, 0.0), msgpack.packb({"a": 1}),
])  # fmt: skip
def test_a_malformed_command_moves_nothing_and_is_counted(rig, packet):
    driver = rig.driver()
    driver.send(packet)
    rig.pass_cycles(20)
    assert rig.vehicle.counters["malformed"] == 1 and math.dist(rig.state()["pose"][:2], DOCKED[:2]) < 1e-3
    driver.close()


def test_a_flood_takes_no_time_of_the_physics(rig):
    driver = rig.driver()
    driver.setblocking(False)
    with pytest.raises(BlockingIOError):
        while True:
            driver.send(command(0.0, 0.0, 0.0))
    before = rig.vehicle.counters["commands"]
    rig.pass_cycles(1)
    assert rig.vehicle.counters["commands"] - before == body_link.COMMANDS_PER_CYCLE
    driver.close()


def test_the_vehicles_own_process_sees_its_body_and_the_worlds_end(rig):
    found = []
    thread = threading.Thread(target=lambda: found.append(RemoteBody(rig.slot)), daemon=True)
    thread.start()
    for _ in range(2000):
        rig.pass_cycles(1)
        thread.join(0.005)
        if found:
            break
    remote = found[0]
    assert remote.pose() == pytest.approx(DOCKED, abs=1e-3)
    remote.put(0.0, 0.0, 0.0)
    rig.pass_cycles(100, lambda: remote.step(0.3, 0.0, 5.0))
    assert remote.pose()[1] > 0.1 and remote.twist()[0] == pytest.approx(0.3, abs=0.03)
    assert remote.rolled_m()[0] == pytest.approx(remote.pose()[1], abs=0.01)
    rig.vehicle.close()
    with pytest.raises(RobotError, match="ended"):
        remote.step(0.0, 0.0, 0.0)
    remote.close()


def test_no_world_is_named(tmp_path):
    slot = current_slot({"STEADYHAND_SLOT": "3", "XDG_RUNTIME_DIR": str(tmp_path)})
    with pytest.raises(RobotError, match="steadyhand-sim --agv"):
        RemoteBody(slot, 0.0)


def test_a_cube_in_the_tray_rides_along_and_a_rim_holds_it(rig):
    at = np.array([DOCKED[0] + 0.05, 0.0, rig.vehicle.deck_z_m + cell.CUBE_SIZE_M / 2 + 0.003])
    rig.world.move_object(0, at, 0.0)
    rig.pass_cycles(50)
    assert rig.state()["loaded"] == [0] and not rig.state()["touches_arm"]
    driver = rig.driver()
    rig.pass_cycles(250, lambda: driver.send(command(min(0.5, 0.6 * rig.now_s), 0.0, 0.0)))
    assert rig.state()["pose"][1] > 0.5 and rig.state()["loaded"] == [0]
    assert rig.world.object_poses()[0][0, 1] == pytest.approx(rig.state()["pose"][1], abs=0.35)
    rig.pass_cycles(100, lambda: driver.send(command(0.0, 0.0, 0.0)))  # as hard as the wheels can
    assert rig.state()["loaded"] == [0]
    driver.close()


def test_what_lies_in_the_tray():
    top = deck.FLOOR_Z_M + 0.65
    places = np.array([[0.0, 0.0, 0.02], [0.25, 0.0, 0.02], [0.0, 0.25, 0.02], [0.0, 0.0, 0.2], [0.0, 0.0, -0.2]])
    heading = 0.7
    turned = np.column_stack([
        1.0 + places[:, 0] * np.cos(heading) - places[:, 1] * np.sin(heading),
        2.0 + places[:, 0] * np.sin(heading) + places[:, 1] * np.cos(heading), places[:, 2] + top,
    ])  # fmt: skip
    assert deck.lies_in(turned, (1.0, 2.0, heading), top).tolist() == [True, True, False, False, False]
    assert deck.lies_in(np.zeros((0, 3)), (0.0, 0.0, 0.0), top).tolist() == []


def test_the_cell_tells_and_draws_it(rig):
    snapshot = rig.world.snapshot()
    assert decode(encode(snapshot)).vehicle_m_rad is None
    seen = replace(snapshot, vehicle_m_rad=rig.vehicle.plant.pose())
    assert decode(encode(seen)).vehicle_m_rad == pytest.approx(DOCKED, abs=1e-3)
    with pytest.raises(ProtocolError):
        decode(encode(replace(snapshot, vehicle_m_rad=(0.0, math.nan, 0.0))))
    side = CameraConfig(eye_m=(-2.5, 1.5, 1.2), look_at_m=(-0.66, 0.0, -0.2), vertical_fov_deg=60.0)
    for camera, differs in ((side, True), (CameraConfig(), False)):  # the tray's camera does not see the dock
        renderer = Renderer(camera=camera)
        try:
            without, with_it = renderer.draw_clean(snapshot), renderer.draw_clean(seen)
        finally:
            renderer.close()
        assert bool((without != with_it).any()) == differs


def test_the_command_line(tmp_path):
    slot = current_slot({"STEADYHAND_SLOT": "3", "XDG_RUNTIME_DIR": str(tmp_path)})
    args = _arguments(["--agv", "--agv-pose=-0.66,0,1.5708", "--cubes", "0"])
    made = build(args)
    try:
        add_vehicle(made, args, slot)
        assert made.handle({"get": "state"})["state"]["vehicle"]["pose"] == pytest.approx(DOCKED, abs=1e-3)
        assert made.snapshot().vehicle_m_rad == pytest.approx(DOCKED, abs=1e-3)
        with pytest.raises(ConfigError, match="another simulator"):
            add_vehicle(made, args, slot)
        made.vehicle.close()
    finally:
        made.world.close()
    for text in ("here", "0,0", "0,0,nan"):
        with pytest.raises(ConfigError, match="--agv-pose"):
            parse_pose("--agv-pose", text)
