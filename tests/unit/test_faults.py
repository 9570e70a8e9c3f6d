"""The table is complete: what is raised is in it, and each row names a test that exists."""
import ast
import re
from pathlib import Path

import pytest

from steadyhand import diagnosis, faults, recovery

ROOT = Path(__file__).parents[2]
SOURCES = [
    *(ROOT / "steadyhand").glob("*.py"), *(ROOT / "ros2_ws/src/steadyhand_ros/steadyhand_ros").glob("*.py"),
]
RAISERS = {"fault", "_raise", "fail", "_refuse"}


def raised() -> set[str]:
    """Literal fault names given to a raiser anywhere in core or shells."""
    names = set()
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
                called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                if called in RAISERS and isinstance(node.args[0].value, str):
                    names.add(node.args[0].value)
    return names


def test_everything_raised_is_in_the_table():
    found = raised()
    assert len(found) > 15
    assert found - set(faults.TABLE) == set()


def test_everything_in_the_table_is_raised_somewhere():
    text = "\n".join(p.read_text() for p in SOURCES if p.name != "faults.py")
    assert {name for name in faults.TABLE if f'"{name}"' not in text} == set()


@pytest.mark.parametrize("row", faults.TABLE.values(), ids=lambda row: row.name)
def test_each_row_names_an_existing_test(row):
    path, _, function = row.test.partition("::")
    assert re.search(rf"^def {re.escape(function)}\(", (ROOT / path).read_text(), re.M), row.test
    assert row.reaction and row.limit and row.detector


def test_a_fault_that_is_not_in_the_table_cannot_be_made():
    with pytest.raises(KeyError):
        faults.fault("made_up", 0.0)


def test_each_failure_has_another_action_and_a_layer():
    l2 = {row.name for row in faults.TABLE.values() if row.level is faults.Level.L2}
    assert set(recovery.PICKING) == l2  # whatever failed, the object may be gone
    assert set(recovery.CARRYING) < l2
    assert set(diagnosis.LAYERS) == l2


@pytest.mark.parametrize("carrying", [False, True])
def test_recoveries_differ_until_the_row_is_used_up(carrying):
    table = recovery.CARRYING if carrying else recovery.PICKING
    for name, row in table.items():
        tried = ()
        for _ in row:
            chosen = recovery.choose(name, carrying, tried)
            assert chosen not in tried
            tried = (*tried, chosen)
        last = recovery.choose(name, carrying, tried)
        assert last in (recovery.Recovery.OTHER_POINT, recovery.Recovery.OTHER_OBJECT)
