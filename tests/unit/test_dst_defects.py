"""What counts as a planted defect that was found, and how the judge of a run is kept apart from what it judges."""
import ast
from collections import Counter
from pathlib import Path

import pytest

from steadyhand_cli.dst import (
    body, cell, cell_checker, checker, controller_checker, defects, followed, operators_checker, setpoints,
)
from steadyhand_cli.dst.checker import RAISED, Violation
from steadyhand_cli.dst.episode import Outcome

JUDGES = (body, cell, cell_checker, checker, controller_checker, followed, operators_checker, setpoints)
BREAKS, RAISES = "interlock_not_asked", "crash_on_early_feedback"


def outcome_of(*details: str) -> Outcome:
    violations = tuple(Violation("I11", 100.0, detail) for detail in details)
    return Outcome(1, violations, 1.0, 1.0, 0.0, Counter(), 0, 0, 0)


@pytest.mark.parametrize("name, details, found", [
    (BREAKS, (), False), (BREAKS, ("begins to reach",), True), (BREAKS, (f"{RAISED} KeyError: 'x'", "begins"), False),
    (RAISES, (), False), (RAISES, ("begins to reach",), False), (RAISES, (f"{RAISED} AttributeError: x",), True),
])  # fmt: skip
def test_a_defect_that_raises_instead_of_what_it_is_about_is_not_found(name, details, found):
    assert defects.found(name, outcome_of(*details)) is found


@pytest.mark.parametrize("judge", JUDGES, ids=lambda module: module.__name__)
def test_the_judges_import_nothing_that_they_judge(judge):
    names = set()
    for node in ast.walk(ast.parse(Path(judge.__file__).read_text())):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {node.module} if isinstance(node, ast.ImportFrom) else {a.name for a in node.names}
    product = {n for n in names if n.startswith("steadyhand") and not n.startswith("steadyhand_cli.dst")}
    assert product <= {"steadyhand.guard_protocol", "steadyhand.protocols"}
