"""The table of injections is complete and its judge can say no."""
import dataclasses
import math
import re
from pathlib import Path

import numpy as np
import pytest

from steadyhand import faults, guard_state
from steadyhand.errors import ConfigError
from steadyhand_cli.injection import judge, proxy, table
from steadyhand_cli.injection.flood import WHERE, flood
from steadyhand_cli.injection.observer import FIELDS, RECORD, read, record, setpoint_trace, trace
from steadyhand_cli.injection.running import through_the_cable
from steadyhand_cli.launch import launch_path
from steadyhand_firmware_bridge.dashboard import DASHBOARD_PORT
from steadyhand_firmware_bridge.primary import PRIMARY_PORT
from steadyhand_firmware_bridge.rtde import RTDE_PORT
from steadyhand_firmware_bridge.script_upload import SCRIPT_PORT
from steadyhand_ros.launch_runner import read_launch
from steadyhand_sim.faults import FAULTS, check

ROOT = Path(__file__).parents[2]
SPECS = read_launch(launch_path("ur5"), {"sim": "true", "robot_ip": "127.0.0.1"})
PROCESSES = {spec.name for spec in SPECS}


def acts(kind):
    return [row.act for row in table.TABLE.values() if isinstance(row.act, kind)]


def test_there_are_enough_and_each_name_once():
    assert len(table.TABLE) == len(table._ROWS) >= 40


@pytest.mark.parametrize("name", sorted(PROCESSES))
def test_every_process_of_the_launch_file_is_killed_and_frozen(name):
    assert name in {a.process for a in acts(table.Signal)}
    assert name in {a.process for a in acts(table.Freeze)}


def test_no_act_names_a_process_that_is_not_there():
    assert {table.process_of(row.act) for row in table.TABLE.values()} - {""} == PROCESSES


def test_every_port_of_the_cable_and_both_ways_are_troubled():
    assert {p for a in acts(table.Cable) for p in a.ports} == set(proxy.PORTS)
    assert {*proxy.PORTS, *proxy.SOUND} >= {DASHBOARD_PORT, PRIMARY_PORT, SCRIPT_PORT, RTDE_PORT}  # no arming without one
    assert {a.way for a in acts(table.Cable)} == {"both", *proxy.WAYS}
    troubles = {name for a in acts(table.Cable) for name in a.trouble}
    assert troubles == {f.name for f in dataclasses.fields(proxy.Trouble)}
    for act in acts(table.Cable):
        proxy.Trouble.of(dict(act.trouble))


def test_every_act_at_the_robot_is_one_the_simulator_knows_and_is_undone():
    for act in acts(table.AtRobot):
        if not act.target:
            check(act.fault, dict(act.parameters))
        for name in act.undo:
            check(name, dict(act.undo_parameters))
    lasting = {"protective_stop", "safeguard_stop", "emergency_stop", "power_off", "reduced_mode", "press_freedrive",
               "camera_off", "camera_blank", "camera_freeze", "pause"}  # fmt: skip
    assert lasting <= set(FAULTS)
    assert all(act.undo for act in acts(table.AtRobot) if act.fault in lasting)


def test_every_flood_has_a_source():
    assert {a.where for a in acts(table.Flood)} == set(WHERE)
    with pytest.raises(ConfigError, match="flood 'sea'"):
        flood("sea", 1.0, 1.0)


@pytest.mark.parametrize("name", sorted({*guard_state.RULES, *faults.TABLE}))
def test_every_rule_and_every_fault_is_reached_or_said_where_it_is_proved(name):
    reached = {covered for row in table.TABLE.values() for covered in row.covers}
    assert (name in reached) != (name in table.UNREACHED), name
    if name in table.UNREACHED:
        path = re.search(r"tests/\S+\.py", table.UNREACHED[name])
        assert path and name.split(":")[0] in (ROOT / path.group()).read_text(), table.UNREACHED[name]


def test_nothing_is_covered_that_does_not_exist():
    reached = {covered for row in table.TABLE.values() for covered in row.covers}
    assert (reached | set(table.UNREACHED)) <= {*guard_state.RULES, *faults.TABLE}


def test_stop_expectations_name_causes_of_the_guards_table():
    for row in table.TABLE.values():
        for cause in row.expect.causes:
            assert cause.partition(":")[0] in guard_state.RULES, row.name
    with pytest.raises(ConfigError, match="a stop has causes"):
        table.Expect(table.Kind.STOP)


STOP = table.Expect(table.Kind.STOP, 0.06, ("shell_lost",))
GOOD = judge.Measured(
    "guard_node_killed", "pick", True, speed_rad_s=0.5, detect_s=0.01, decelerate_s=0.05, brake_s=0.03, rest_s=0.4,
    recover_s=3.0, disarmed=True, causes=("shell_lost: gone",), recovered=True, result="STOPPED",
)


def test_a_good_cell_is_ok():
    assert judge.problems(GOOD, STOP) == []
    at_rest = dataclasses.replace(GOOD, speed_rad_s=0.0, decelerate_s=math.nan)
    assert judge.problems(at_rest, STOP) == []


@pytest.mark.parametrize("change, said", [
    ({"phase_reached": False}, "was not reached"), ({"decelerate_s": 0.061}, "61 ms, limit 60 ms"),
    ({"decelerate_s": math.nan}, "deceleration began"), ({"disarmed": False}, "stayed armed"),
    ({"causes": ("tracking",)}, "none begins with shell_lost"), ({"rest_s": math.nan}, "rest was not seen"),
    ({"speed_after_rest_rad_s": 0.1}, "after rest"), ({"speed_after_rest_rad_s": math.nan}, "after rest"),
    ({"plant_moved_rad": 0.01}, "simulated joints"), ({"changed": ("agent_node",)}, "new ids: agent_node"),
    ({"violations": ("I1: moved",)}, "broken invariant: I1"), ({"recovered": False}, "did not recover"),
])  # fmt: skip
def test_each_thing_that_is_not_as_expected_is_said(change, said):
    assert said in "; ".join(judge.problems(dataclasses.replace(GOOD, **change), STOP))


def test_an_accelerating_arm_is_judged_by_its_set_points():
    late = dataclasses.replace(GOOD, decelerate_s=0.12, accelerating=True)
    assert judge.problems(late, STOP) == []
    assert "61 ms" in judge.problems(dataclasses.replace(late, brake_s=0.061), STOP)[0]
    assert "120 ms" in judge.problems(dataclasses.replace(late, accelerating=False), STOP)[0]
    for another, said in ((0.2, "200 ms"), (math.nan, "nan ms")):  # those set-points did not stop this motion
        assert said in judge.problems(dataclasses.replace(late, decelerate_s=another), STOP)[0]


def test_no_stop_means_armed_and_either_may_stop_but_not_misbehave():
    goes_on = table.Expect(table.Kind.NO_STOP)
    assert "disarmed: shell_lost" in judge.problems(GOOD, goes_on)[0]
    assert judge.problems(dataclasses.replace(GOOD, disarmed=False, rest_s=math.nan), goes_on) == []
    assert judge.problems(GOOD, table.EITHER) == []
    assert judge.problems(dataclasses.replace(GOOD, speed_after_rest_rad_s=0.3), table.EITHER)


def test_records_are_json_and_the_matrix_shows_what_is_missing_and_wrong():
    bad = dataclasses.replace(GOOD, phase="lift", decelerate_s=math.nan)
    records = {
        ("guard_node_killed", m.phase): judge.to_record(m, judge.problems(m, STOP)) for m in (GOOD, bad)
    }
    assert records["guard_node_killed", "lift"]["decelerate_s"] is None
    text = judge.markdown(records, ["guard_node_killed"], ("pick", "lift", "home"), {"guard_node_killed": "stop 60"})
    row = text.splitlines()[-1]
    assert "10 / 50 / 400 / 3.0 |" in row and "**10 / - / 400 / 3.0** not ok" in row and row.endswith("|  |")
    gaining = judge.to_record(dataclasses.replace(GOOD, accelerating=True, brake_s=0.031), [])
    assert "| 10 / 31 > 50 / 400 / 3.0 |" in judge.markdown({("a", "pick"): gaining}, ["a"], ("pick",), {"a": "stop"})


def test_the_guard_goes_through_the_cable_and_nobody_else():
    changed = through_the_cable(SPECS, "127.0.0.1", "127.0.1.1")
    moved = [a.name for a, b in zip(SPECS, changed) if a != b]
    assert moved == ["guard"] and "--robot-ip 127.0.1.1 " in next(s.command for s in changed if s.name == "guard")
    with pytest.raises(ConfigError, match="no process 'guard'"):
        through_the_cable(SPECS, "10.0.0.1", "127.0.1.1")


def test_records_of_the_port_come_back_since_a_time(tmp_path):
    path = tmp_path / "port.bin"
    assert len(read(path)) == 0 and len(read(path, 1.0)) == 0
    values = {"timestamp": 1.0, "target_qd": [0.5] * 6, "actual_qd": [0.4] * 6, "runtime_state": 2, "safety_mode": 1,
              "robot_mode": 7, "input_int_register_24": 9, "output_int_register_24": 2, "input_int_register_27": 5,
              "target_q": [0.1] * 6, "actual_digital_output_bits": 3,
              **{f"input_double_register_{i}": float(i) for i in range(24, 30)}}  # fmt: skip
    assert set(values) == set(FIELDS)
    path.write_bytes(b"".join(record(float(t), values) for t in range(100)) + b"half")
    assert len(read(path)) == 100 and read(path, 42.0)["received_s"][0] == 42.0 and len(read(path, 99.5)) == 0
    rows = read(path, 97.5)
    assert rows["input_int_register_24"].tolist() == [9, 9] and RECORD.itemsize == len(record(0.0, values))
    assert rows["setpoint"][0].tolist() == [24.0, 25.0, 26.0, 27.0, 28.0, 29.0]
    assert trace(rows).target_speed.tolist() == pytest.approx([0.5 * 6**0.5] * 2)


def test_set_points_show_their_speed_whatever_their_timing():
    """One doubled and one missed set-point, then the first braking one: only that one is slower."""
    seq = np.array([1, 2, 3, 3, 5, 6, 7])
    rows = np.zeros(len(seq), RECORD)
    rows["received_s"], rows["input_int_register_27"] = 0.008 * np.arange(len(seq)), seq
    rows["setpoint"][:, 0] = 0.004 * seq
    rows["setpoint"][-1, 0] -= 4e-5
    speeds = setpoint_trace(rows, 0.008).target_speed
    assert speeds[:-1] == pytest.approx([0.5] * 4) and speeds[-1] == pytest.approx(0.495)
