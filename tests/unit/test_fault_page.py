"""docs/faults.md is what the tables say; the tables say what the code does; every test they name exists."""
import ast
import re
from dataclasses import fields
from pathlib import Path

import pytest

from steadyhand import bad_input, diagnosis, fault_page, faults, guard_state, recovery
from steadyhand.phases import PHASES, POLICY_PHASES, ExecutorConfig, Phase

ROOT = Path(__file__).parents[2]


def exists(test: str) -> bool:
    path, _, function = test.partition("::")
    return re.search(rf"^def {re.escape(function)}\(", (ROOT / path).read_text(), re.M) is not None


def test_the_page_is_in_step():
    written = (ROOT / "docs" / "faults.md").read_text()
    assert written == fault_page.page(), "python -m steadyhand.fault_page > docs/faults.md"


def test_every_rule_of_the_guard_has_a_row():
    assert set(faults.GUARD_TABLE) == set(guard_state.RULES)


@pytest.mark.parametrize("row", faults.GUARD_TABLE.values(), ids=lambda row: row.name)
def test_each_row_of_the_guard_names_an_existing_test(row):
    assert exists(row.test), row.test
    assert row.detector and row.limit and fault_page.guard_reaction(row.name)


def test_the_guard_raises_nothing_without_a_rule():
    raised = set()
    for path in (ROOT / "firmware_bridge/steadyhand_firmware_bridge/guard").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
                called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                if called in ("fault", "FaultRaised"):
                    raised.add(node.args[0].value)
    assert len(raised) > 5 and raised - set(guard_state.RULES) == set()


@pytest.mark.parametrize("row", bad_input.ROWS, ids=lambda row: row.name)
def test_each_bad_input_names_existing_tests(row):
    assert row.tests and all(exists(test) for test in row.tests), row.tests


def test_every_phase_has_a_row_and_every_deadline_a_parameter():
    assert set(PHASES) == set(Phase)
    names = {f.name for f in fields(ExecutorConfig)}
    for row in PHASES.values():
        assert row.deadline_field in names or row.phase is Phase.DONE
        assert row.controller and row.post_condition and row.on_success


def test_what_a_step_fails_as_is_an_l2_fault_with_recovery_and_layer():
    for row in PHASES.values():
        for fault in (*row.faults, *filter(None, [row.late])):
            assert faults.level(fault) is faults.Level.L2
            assert fault in recovery.PICKING or fault in recovery.CARRYING
            assert fault in diagnosis.LAYERS
    l2 = {r.name for r in faults.TABLE.values() if r.level is faults.Level.L2}
    assert {f for row in PHASES.values() for f in row.faults} == l2
    assert {p for p, row in PHASES.items() if row.controller.startswith("policy")} == POLICY_PHASES
