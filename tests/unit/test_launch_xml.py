"""The reader of launch files: what it understands, and that it refuses the rest by name."""
from pathlib import Path

import pytest

from steadyhand.errors import ConfigError
from steadyhand_ros.launch_runner import parse_arguments
from steadyhand_ros.launch_xml import read

ROOT = Path(__file__).parents[2]


def load(tmp_path, body, given=None, environ=None):
    path = tmp_path / "x.launch.xml"
    path.write_text(f"<launch>{body}</launch>")
    return read(path, given or {}, environ or {}, lambda package: f"/share/{package}")[0]


def test_defaults_given_values_and_conditions(tmp_path):
    body = """
      <arg name="sim" default="true"/><arg name="n" default="3"/>
      <group if="$(var sim)"><executable cmd="sim --n $(var n)" name="sim"/></group>
      <executable cmd="robot" name="robot" unless="$(var sim)"/>"""
    assert [p.command for p in load(tmp_path, body)] == ["sim --n 3"]
    assert [p.command for p in load(tmp_path, body, {"n": "7"})] == ["sim --n 7"]
    assert [p.command for p in load(tmp_path, body, {"sim": "false"})] == ["robot"]


def test_node_with_everything(tmp_path):
    (node,) = load(tmp_path, """
      <let name="who" value="a"/>
      <node pkg="p" exec="e" name="$(var who)1" namespace="ns" args="--x" respawn="true" respawn_delay="0.5">
        <param from="$(find-pkg-share q)/c.yaml"/><param name="k" value="v"/><param name="n" value="v" if="false"/>
        <remap from="f" to="t"/><env name="E" value="$(env HOME_OF unset)"/>
      </node>""")
    assert (node.name, node.package, node.executable, node.namespace, node.arguments) == ("a1", "p", "e", "ns", "--x")
    assert node.parameter_files == ("/share/q/c.yaml",)
    assert node.parameters == (("k", "v"),)
    assert node.remappings == (("f", "t"),)
    assert node.environment == (("E", "unset"),)
    assert (node.respawn, node.respawn_delay_s) == (True, 0.5)


def test_a_group_is_a_scope(tmp_path):
    body = '<let name="a" value="1"/><group><let name="a" value="2"/></group><executable cmd="c $(var a)"/>'
    assert load(tmp_path, body)[0].command == "c 1"


def test_include_passes_arguments(tmp_path):
    (tmp_path / "inner.launch.xml").write_text('<launch><arg name="k"/><executable cmd="run $(var k)"/></launch>')
    body = '<include file="$(dirname)/inner.launch.xml"><arg name="k" value="9"/></include>'
    assert load(tmp_path, body)[0].command == "run 9"


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ("<timer/>", "<timer>"),
        ('<node pkg="p" exec="e" machine="m"/>', "machine"),
        ('<executable cmd="$(eval 1+1)"/>', "$(eval 1+1)"),
        ('<executable cmd="$(var nope)"/>', "nope"),
        ('<executable cmd="$(env NOPE)"/>', "NOPE"),
        ('<executable cmd="$(var x"/>', "unclosed"),
        ('<executable cmd="a" if="maybe"/>', "maybe"),
        ('<executable cmd="a" if="true" unless="true"/>', "both"),
        ('<executable cmd="a" respawn_delay="soon"/>', "soon"),
        ('<executable cmd="a" respawn_delay="nan"/>', "nan"),
        ('<executable cmd="a" respawn_delay="inf"/>', "inf"),
        ('<executable cmd="a" respawn_delay="-1"/>', "-1"),
        ('<executable name="a"/>', "cmd"),
        ('<arg name="need"/>', "need"),
        ('<arg name="a" value="1"/>', "default"),
        ('<node pkg="p" exec="e"/><node pkg="p" exec="e"/>', "two processes"),
        ('<include file="$(dirname)/missing.xml"/>', "missing.xml"),
        ('<node pkg="p" exec="e"><arg name="x" value="1"/></node>', "<arg>"),
    ],
)
def test_refusals_name_the_offender(tmp_path, body, named):
    with pytest.raises(ConfigError, match=".*") as caught:
        load(tmp_path, body)
    assert named in str(caught.value)


def test_endless_include_is_refused(tmp_path):
    path = tmp_path / "x.launch.xml"
    with pytest.raises(ConfigError, match="nest deeper"):
        load(tmp_path, f'<include file="{path}"/>')


def test_unknown_argument_lists_the_known(tmp_path):
    with pytest.raises(ConfigError, match="'simm'.*sim:=true"):
        load(tmp_path, '<arg name="sim" default="true"/>', {"simm": "false"})


@pytest.mark.parametrize("words", [["sim=true"], ["sim"], [":=x"], ["a:=1", "a:=2"], ["a b:=1"]])
def test_malformed_arguments_are_refused(words):
    with pytest.raises(ConfigError):
        parse_arguments(words)


def test_a_value_may_hold_the_separator():
    assert parse_arguments(["a:=b:=c"]) == {"a": "b:=c"}


ARM = {"guard", "guard_node", "agent_node", "perception_node", "estimator_node", "lifecycle_manager_node"}
# file -> what it always runs, and what stands in for hardware in simulation
FILES = {
    "ur5.launch.xml": (ARM | {"triton"}, {"sim", "sim_camera_node"}),
    "agv.launch.xml": ({"agv_guard"}, {"broker", "sim_agv"}),
    "cell.launch.xml": (ARM | {"triton", "agv_guard"}, {"sim", "sim_camera_node", "broker", "sim_agv"}),
}


def shipped(name, **given):
    return read(ROOT / "launch" / name, given, {}, lambda package: str(ROOT))[0]


@pytest.mark.parametrize("name", sorted(p.name for p in (ROOT / "launch").iterdir()))
def test_shipped_files_run_the_same_processes_for_simulation_and_hardware(name):
    always, simulated = FILES[name]
    hardware, both = shipped(name, sim="false"), shipped(name, sim="true")
    assert {p.name for p in hardware} == always and {p.name for p in both} == always | simulated
    assert [p for p in both if p.name in always] == hardware  # with the same arguments, too


@pytest.mark.parametrize("name", FILES)
def test_a_guard_that_is_a_service_of_its_own_is_left_out_and_nothing_else(name):
    apart, together = shipped(name, sim="false", guard="false"), shipped(name, sim="false")
    assert [p for p in together if p.name not in ("guard", "agv_guard")] == apart and len(apart) < len(together)


def test_every_node_of_a_robot_is_in_its_namespace():
    for name, given, wanted in (
        ("ur5.launch.xml", {"namespace": "left", "teleop": "true"}, "left"), ("ur5.launch.xml", {}, ""),
        ("cell.launch.xml", {}, "arm"), ("cell.launch.xml", {"namespace": "left"}, "left"),
    ):  # fmt: skip
        nodes = [p for p in shipped(name, **given) if p.package]
        assert len(nodes) >= 6 and {p.namespace for p in nodes} == {wanted}
        topics = [text for p in nodes for pair in p.remappings for text in pair]
        assert not any(t.startswith("/") for t in topics)  # an absolute name would reach another robot


def test_the_cell_has_one_world_one_broker_and_one_stop_domain():
    commands = {p.name: p.command for p in shipped("cell.launch.xml", agv_pose="-0.66,0,1.57", broker="127.0.0.9:1999")}
    assert "--agv --agv-pose=-0.66,0,1.57" in commands["sim"] and "--plant cell" in commands["sim_agv"]
    for name in ("broker", "sim_agv", "agv_guard"):
        assert "127.0.0.9:1999" in commands[name]
    assert "config/cell_guard_ur5.yaml" in commands["guard"] and "config/cell_agv.yaml" in commands["agv_guard"]
