"""Parameters of a vehicle driven over ROS: each wrong one is named."""
from pathlib import Path

import pytest

from steadyhand.errors import ConfigError
from steadyhand_firmware_bridge.agv_ros import config, link_process
from steadyhand_firmware_bridge.agv_ros.config import load, vehicle

ROOT = Path(__file__).parents[2]


def write(folder, text):
    path = folder / "agv.yaml"
    path.write_text(text)
    return path


def test_the_example_loads_and_survives_the_way_to_the_link_process():
    import json

    file = load(ROOT / "config/agv_ros.yaml")
    assert file.vehicle.limits.stop_m_s2 == 0.4 and file.guard.rest_gap_s == 0.5
    assert vehicle(json.loads(json.dumps(file.vehicle.plain()))) == file.vehicle


@pytest.mark.parametrize("text, names", [
    ("vehicle: {load: a}", ["loads: give at least one"]),
    ("vehicle: {loads: {a: {}}}", ["load=''", "give one of a"]),
    ("vehicle: {load: b, loads: {a: {}}}", ["load='b'", "give one of a"]),
    ("vehicle: {load: a, loads: {a: {speed_m_s: .nan}}}", ["loads.a", "speed_m_s", "nan"]),
    ("vehicle: {load: a, loads: {a: {speed_m_s: 9}}}", ["loads.a", "speed_m_s = 9", "0.01 to 5.0"]),
    ("vehicle: {load: a, loads: {a: {stop_m_s2: 0}}}", ["stop_m_s2 = 0"]),
    ("vehicle: {load: a, loads: {a: {stop_m_s2: 0.1}}}", ["stop_m_s2=0.1", "no gentler than decel_m_s2"]),
    ("vehicle: {load: a, loads: {a: {speed_m_s: 2.0}}}", ["loads.a", "takes 2.50 m", "stop_distance_m=1.0"]),
    ("vehicle: {load: a, loads: {a: {sped: 1}}}", ["loads.a", "unknown parameter 'sped'"]),
    ("vehicle: {load: a, loads: {a: 3}}", ["a: 3: give a map"]),
    ("vehicle: {load: a, loads: {a: {}}, cmd_vel_type: Twists}", ["cmd_vel_type='Twists'", "TwistStamped, Twist"]),
    ("vehicle: {load: a, loads: {a: {}}, drive: fly}", ["drive='fly'", "cmd_vel, nav2"]),
    ("vehicle: {load: a, loads: {a: {}}, cmd_vel: 'cmd vel'}", ["cmd_vel='cmd vel'"]),
    ("vehicle: {load: a, loads: {a: {}}, odom_frame: 3}", ["odom_frame=3"]),
    ("vehicle: {load: a, loads: {a: {}}, base_frame: /base_link}", ["base_frame='/base_link'", "'base_link'"]),
    ("vehicle: {load: a, loads: {a: {}}, odom: a//b}", ["odom='a//b'"]),
    ("vehicle: {load: a, loads: {a: {}}, namespace: /left/}", ["namespace='/left/'"]),
    ("vehicle: {load: [a], loads: {a: {}}}", ["load=('a',)"]),
    ("vehicle: {load: a, loads: [a]}", ["loads", "give a map"]),
    ("vehicle: {load: a, loads: {a: {}}, namespace: left}", ["namespace='left'", "absolute"]),
    ("vehicle: {load: a, loads: {a: {}}, expire_s: 0.6}", ["expire_s = 0.6", "0.05 to 0.5"]),
    ("vehicle: {load: a, loads: {a: {}}, holonomic: 1}", ["holonomic"]),
    ("vehicle: {load: a, loads: {a: {}}, other_publishers: [joy]}", ["other_publishers: 'joy'"]),
    ("broker: {}", ["unknown section 'broker'", "guard, vehicle"]),
    ("vehicle: {load: a, loads: {a: {}}}\nguard: {peers: {arm: 'slot:0'}, interlock: [arm], interlock_xy_m: [0, 0]}",
     ["interlock_xy_m", "odometry drifts"]),
    ("vehicle: {load: a, loads: {a: {}}}\nguard: {velocity_timeout_s: 2}", ["velocity_timeout_s = 2"]),
])  # fmt: skip
def test_what_is_wrong_is_named(tmp_path, text, names):
    with pytest.raises(ConfigError) as error:
        load(write(tmp_path, text))
    assert all(name in str(error.value) for name in [*names, "agv.yaml"]), error.value


def test_a_localised_odometry_may_say_where_the_arm_stands(tmp_path):
    guard = "guard: {peers: {arm: 'slot:0'}, interlock: [arm], interlock_xy_m: [0, 0]}"
    text = f"vehicle: {{load: a, loads: {{a: {{}}}}, odom_frame: map}}\n{guard}"
    assert load(write(tmp_path, text)).guard.interlock_xy_m == (0, 0)


def test_names_are_below_the_namespace():
    car = vehicle({"loads": {"a": {}}, "load": "a", "namespace": "/left", "odom": "/global/odom"})
    assert car.name_of(car.cmd_vel) == "/left/cmd_vel" and car.name_of(car.odom) == "/global/odom"


def test_a_package_that_is_missing_is_named_with_what_to_install(monkeypatch):
    there = {"rclpy", "steadyhand_ros", "geometry_msgs", "nav_msgs", "action_msgs"}
    monkeypatch.setattr(link_process.importlib.util, "find_spec", lambda name: name if name in there else None)
    raw = {"loads": {"a": {}}, "load": "a"}
    link_process.check_packages(vehicle(raw))
    with pytest.raises(ConfigError, match=r"'nav2_msgs' is missing: install ros-\$ROS_DISTRO-nav2-msgs"):
        link_process.check_packages(vehicle(raw | {"drive": "nav2"}))
    there.clear()
    with pytest.raises(ConfigError, match="'rclpy' is missing"):
        link_process.check_packages(vehicle(raw))


def test_each_parameter_has_a_range():
    from dataclasses import fields

    for cls in (config.LoadLimits, config.RosVehicleConfig):
        numbers = [f for f in fields(cls) if isinstance(f.default, float)]
        assert numbers and all("min" in f.metadata for f in numbers)
