"""The configuration of arm and AGV in one cell: one stop domain, one place, and nothing else than for each alone."""
import math
from pathlib import Path

import numpy as np
import pytest
import yaml

from steadyhand import cell, kinematics
from steadyhand.errors import ConfigError
from steadyhand.limits import UR5_LIMITS
from steadyhand_cli import broker, drive
from steadyhand_firmware_bridge.guard import agv_config, config
from steadyhand_firmware_bridge.guard.peers import peer_folder
from steadyhand_firmware_bridge.guard.zone import Zone
from steadyhand_firmware_bridge.vda5050.config import BrokerConfig
from steadyhand_motion import ik

ROOT = Path(__file__).parents[2]
ARM, AGV = ROOT / "config/cell_guard_ur5.yaml", ROOT / "config/cell_agv.yaml"
DOMAIN = ("name", "peers", "peer_timeout_s", "interlock", "interlock_zone_m", "tool_box_m")
DOCK_M = (-0.66, 0.0)


def test_each_is_configured_as_alone_but_for_the_domain():
    arm = yaml.safe_load(ARM.read_text())
    assert {k: v for k, v in arm.items() if k not in DOMAIN} == yaml.safe_load((ROOT / "config/guard_ur5.yaml").read_text())
    both = yaml.safe_load(AGV.read_text()), yaml.safe_load((ROOT / "config/agv.yaml").read_text())
    assert both[0]["vehicle"] == both[1]["vehicle"] and both[0]["broker"] == both[1]["broker"]


def test_each_names_the_other_and_finds_its_sockets_in_this_slot(monkeypatch):
    arm, agv = config.load(ARM), agv_config.load(AGV).guard
    assert (arm.name, agv.name) == ("arm", "agv") and arm.interlock == ("agv",) and agv.interlock == ("arm",)
    monkeypatch.setenv("STEADYHAND_SLOT", "3")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/x")
    assert peer_folder(arm.peers["agv"]) == Path("/run/x/slot3/agv")
    assert peer_folder(agv.peers["arm"]) == Path("/run/x/slot3")
    assert peer_folder("slot:4/agv") == Path("/run/x/slot4/agv")
    for wrong in ("slot:41", "slot:-1", "slot:x/agv"):
        with pytest.raises(ConfigError, match="slot:"):
            peer_folder(wrong)


def test_the_zone_is_over_the_dock_and_clear_of_the_work_on_the_table():
    pytest.importorskip("ur_analytic_ik")  # not on the Python that has the core alone
    zone = Zone(config.load(ARM).interlock_zone_m)
    down = np.diag([1.0, -1.0, -1.0])

    def at(x, y, z):
        pose = np.eye(4)
        pose[:3, :3], pose[:3, 3] = down, (x, y, z)
        found = ik.branches(pose, cell.HOME_Q_RAD)
        assert len(found), (x, y, z)
        return np.array(found)

    assert zone.inside(at(*DOCK_M, 0.0)).all() and zone.inside(at(DOCK_M[0], 0.3, 0.05)).all()
    for region in (cell.TRAY, cell.BOX):
        for x in (region.x_min_m, region.x_max_m):
            for y in (region.y_min_m, region.y_max_m):
                for z in (0.02, 0.3):
                    nearest = at(x, y, z)[:1]  # as the arm goes there from home
                    assert not zone.inside(nearest).any(), kinematics.link_transforms(nearest)[..., :3, 3]
    assert not zone.inside(cell.HOME_Q_RAD[None]).any()


def test_the_tool_reaches_the_deck_in_this_cell_and_in_no_other():
    limits = config.load(ARM).limits()
    at = np.array([*DOCK_M, 0.02])
    assert (limits.tool_min_m < at).all() and (at < limits.tool_max_m).all()
    assert config.GuardConfig().limits() is UR5_LIMITS and not (UR5_LIMITS.tool_min_m < at).all()
    for wrong in ((1.0,), (0.0, 0.0, 0.0, 1.0, 1.0, 0.0), (0.0, 0.0, math.nan, 1.0, 1.0, 1.0), [0, 0, 0, 1, 1, 1], "x"):
        with pytest.raises(ConfigError, match="tool_box_m"):
            config.GuardConfig(tool_box_m=wrong)


def test_the_vehicle_is_told_early_enough_to_stop_short_of_the_zone():
    from steadyhand_sim.agv.site import ARM_DOCK, Site
    from steadyhand_sim.agv.vehicle_config import VehicleConfig

    vehicle, guard, zone = VehicleConfig(), agv_config.load(AGV).guard, config.load(ARM).interlock_zone_m
    assert guard.interlock_xy_m == Site().nodes[ARM_DOCK][:2] == DOCK_M
    reach_m = zone[4] - DOCK_M[1] + vehicle.length_m / 2
    heard_m = vehicle.max_speed_m_s * (0.25 + config.load(ARM).peer_timeout_s)
    assert guard.interlock_radius_m >= reach_m + vehicle.stopping_m(vehicle.max_speed_m_s, vehicle.max_load_kg) + heard_m - 0.05
    half_m = vehicle.width_m / 2
    assert zone[0] < DOCK_M[0] - half_m - 0.1 and zone[3] >= DOCK_M[0] + half_m + 0.1


# --- what the launch files start ---


@pytest.mark.parametrize("text, wanted", [
    ("", ("127.0.0.5", 1883)), ("127.0.0.9", ("127.0.0.9", 1883)), ("127.0.0.9:2000", ("127.0.0.9", 2000)),
])  # fmt: skip
def test_the_simulated_broker_listens_on_loopback(text, wanted):
    assert broker.address(text, "127.0.0.5") == wanted
    assert f"listener {wanted[1]} {wanted[0]}\n" in broker.configuration(*wanted)


@pytest.mark.parametrize("text", ["0.0.0.0", "192.168.0.2", "localhost", "127.0.0.1:0", "127.0.0.1:x", "127.0.0.1:99999", ":1"])
def test_a_broker_without_logins_is_for_loopback_only(text):
    with pytest.raises(ConfigError, match="--at"):
        broker.address(text, "127.0.0.1")


def test_the_guards_broker_may_be_given():
    given = BrokerConfig(user="x", password_file="y")
    assert given.at("10.0.0.3") == BrokerConfig(host="10.0.0.3", user="x", password_file="y")
    assert given.at("hall:8883").port == 8883
    for wrong in ("hall:x", ":1883", "hall:0", "hall:70000"):
        with pytest.raises(ConfigError, match="(?i)broker"):
            given.at(wrong)


def test_places_to_drive_to():
    assert drive.place("dock=-0.66,0,1.57") == ("dock", [-0.66, 0.0, 1.57])
    for wrong in ("dock", "=1,2", "dock=1", "dock=1,2,3,4", "dock=a,b", "dock=nan,0", "here=0,0", "dock="):
        with pytest.raises(ConfigError, match="place"):
            drive.place(wrong)
    assert math.isclose(drive.place("a=1,2")[1][1], 2.0)
