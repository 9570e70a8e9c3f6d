"""The one page for a safety reviewer, `docs/faults.md`: both fault tables, phases and bad input as Markdown.

`python -m steadyhand.fault_page > docs/faults.md` makes it anew; a test keeps the two in step.
"""
from __future__ import annotations

from collections.abc import Iterable

from steadyhand import bad_input, faults, guard_state
from steadyhand.guard_state import ARMED
from steadyhand.phases import PHASES

HEAD = """# Faults

Made by `python -m steadyhand.fault_page` from `steadyhand/faults.py`, `guard_state.RULES`, `phases.py` and
`bad_input.py`: do not edit it here. What is not in these tables cannot be raised.

**The software stop is not the safety function of the cell.** The wired emergency stop and the robot's own safety system
are. Times hold for the emulated controller; on hardware they must be measured again.

Levels, highest first, in every state: STOP = at rest, task over, an operator re-arms; L3 = brake, hold, diagnose,
report, an operator starts anew; L2 = the step failed, the same sub-goal by a different action; L1 = absorbed inside the
step.
"""
OPEN = """
## Open
- Nothing here has met a real controller: limits of detection on hardware are unknown.
- `robot_local` is asked for over the dashboard four times a second: on CB3 there is no such mode.
- The report names a layer by what failed most often; it does not test components by itself.
"""


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    return [f"| {' | '.join(head)} |", "|" + "---|" * len(head), *(f"| {' | '.join(row)} |" for row in rows), ""]


def guard_reaction(name: str) -> str:
    """What the guard does about one of its faults, and which modes it forbids while it holds."""
    rule = guard_state.RULES[name]
    if not rule.forbids:
        return "named as a cause; stops nothing and forbids nothing by itself"
    forbids = "all modes" if rule.forbids == ARMED else ", ".join(sorted(m.value for m in rule.forbids))
    return f"{faults.STOPS[rule.reaction.name]}. Forbids {forbids} while it holds"


def page() -> str:
    """The whole text."""
    head = ("fault", "detector", "level", "reaction", "time limit", "test")
    test = lambda text: f"`{text.removeprefix('tests/')}`"  # noqa: E731
    guard = (
        (f"`{r.name}`", r.detector, "STOP", guard_reaction(r.name), r.limit, test(r.test))
        for r in faults.GUARD_TABLE.values()
    )
    task = ((f"`{r.name}`", r.detector, r.level.name, r.reaction, r.limit, test(r.test)) for r in faults.TABLE.values())
    phases = (
        (f"`{p.phase.value}`", p.controller, p.post_condition, p.deadline(),
         ", ".join(f"`{f}`" for f in p.faults), p.on_success)
        for p in PHASES.values()
    )
    bad = ((b.name, b.answer, "; ".join(test(t) for t in b.tests)) for b in bad_input.ROWS)
    return "\n".join([
        HEAD, "## The guard", *_table(head, guard), "## The task", *_table(head, task),
        "## Steps",
        "One deterministic controller each; the learned policy only proposes way-points, and asks for the fingers.", "",
        *_table(("step", "controller", "measured post-condition", "deadline", "fails as", "then"), phases),
        "## Bad input", *_table(("input", "answer", "tests"), bad),
    ]) + OPEN


if __name__ == "__main__":
    print(page(), end="")
