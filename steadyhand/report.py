"""A diagnosis as Markdown for the technician, as one line of the index, and as JSON for a webhook. Pure."""
from __future__ import annotations

import re
from dataclasses import asdict

from steadyhand.task import Diagnosis

VERSION = 1
INDEX_HEAD = "# Reports\n\n| time | task | layer | what happened | report |\n|---|---|---|---|---|\n"


def markdown(d: Diagnosis, when: str = "") -> str:
    """The report. `when` is the wall-clock time for people, given by the shell."""
    lines = [
        "# The task was given up", "", d.message, "",
        f"**Time:** {when or 'not known'} (guard's clock {d.stamp_s:.2f} s)", "", f"**Scope:** {d.scope}", "",
        f"**Layer:** {d.layer} ({d.share:.0%} of the last {len(d.failures)} failures)", "",
        f"**Expected recovery:** {d.expected_recovery}", "",
        "## What to do", *(f"{k}. {action}" for k, action in enumerate(d.actions, 1)), "",
        "## Measures taken by itself", *(f"- {measure}" for measure in d.measures), "",
        "## Failed steps", "| time s | phase | fault | evidence | next action |", "|---|---|---|---|---|",
        *(f"| {f.stamp_s:.2f} | {f.phase} | {f.fault} | {_cell(f.detail)} | {f.recovery} |" for f in d.failures), "",
        "## Evidence by layer",
    ]
    for layer, findings in d.findings.items():
        named = " **(named as failing)**" if layer == d.layer else ""
        lines += [f"- {layer}{named}", *(f"  - {finding}" for finding in findings or ("nothing conspicuous",))]
    lines += ["", "## Robot", *(f"- {line}" for line in d.robot), ""]
    counters = [f"- {name}: {value}" for name, value in sorted(d.counters.items()) if value]
    lines += ["## Counters of this goal", *counters, ""]
    return "\n".join(lines)


def index_line(d: Diagnosis, when: str, file_name: str) -> str:
    """One row of the index of reports."""
    return f"| {when} | {_cell(d.task)} | {d.layer} | {_cell(d.message)} | [{file_name}]({file_name}) |\n"


def indexed(line: str) -> str:
    """The file that a row of the index names; empty when it names none."""
    found = re.search(r"\[([^][]+)\]\(\1\) \|\s*$", line)
    return found[1] if found else ""


def document(d: Diagnosis, when: str, file_name: str) -> dict[str, object]:
    """The webhook's JSON: plain types only."""
    return {"event": "task_given_up", "version": VERSION, "time": when, "report": file_name} | asdict(d)


def _cell(text: str) -> str:
    """Text that cannot break a table."""
    return text.replace("|", "/").replace("\n", " ")[:300]
