"""Whether a cell of the matrix went as its expectation says. Pure: what was measured in, reasons out."""
from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from steadyhand_cli.injection.onset import MOVING_RAD_S
from steadyhand_cli.injection.table import Expect, Kind

STILL_RAD_S = 5e-3  # a rise of commanded speed after rest that is none
SERVO_LAG_S = 0.1  # twice what the controller's servo law is behind the set-points


@dataclass(frozen=True)
class Measured:
    """One cell. Times in seconds after the act (a blind one: after the controller's return); NaN: did not happen.

    `speed_after_rest_rad_s` is the greatest rise of the commanded speed at the port between rest and re-arming,
    `changed` names the processes, other than the one struck, whose ids differ afterwards.
    """

    injection: str
    phase: str
    phase_reached: bool
    speed_rad_s: float = math.nan  # commanded at the port when it struck
    detect_s: float = math.nan  # the guard's own stamp of the stop
    decelerate_s: float = math.nan  # commanded speed at the port begins to fall to rest
    brake_s: float = math.nan  # the set-points that arrive there begin to slow down, or cease
    accelerating: bool = False  # commanded speed at the port was still rising when it struck
    rest_s: float = math.nan
    recover_s: float = math.nan
    disarmed: bool = False
    causes: tuple[str, ...] = ()
    speed_after_rest_rad_s: float = 0.0
    plant_moved_rad: float = 0.0  # of the simulated joints, while the port said rest
    changed: tuple[str, ...] = ()
    violations: tuple[str, ...] = ()
    recovered: bool = False
    result: str = ""  # of the task's goal


def problems(measured: Measured, expect: Expect) -> list[str]:
    """Why the cell is not ok; empty when it is."""
    if not measured.phase_reached:
        return [f"phase {measured.phase} was not reached"]
    found = [f"broken invariant: {v}" for v in measured.violations]
    if measured.changed:
        found.append(f"other processes have new ids: {', '.join(measured.changed)}")
    if not measured.recovered:
        found.append("did not recover: not re-armed, or no motion again")
    if expect.kind is Kind.NO_STOP:
        if measured.disarmed:
            found.append(f"the guard disarmed: {'; '.join(measured.causes)}")
        return found
    if expect.kind is Kind.STOP:
        found += _stop_problems(measured, expect)
    if measured.disarmed:
        if math.isnan(measured.rest_s):
            found.append("rest was not seen at the port")
        if not measured.speed_after_rest_rad_s < STILL_RAD_S:
            found.append(f"moved at {measured.speed_after_rest_rad_s:.4f} rad/s after rest, before re-arming")
        if not measured.plant_moved_rad < 2e-3:
            found.append(f"the simulated joints moved {measured.plant_moved_rad:.4f} rad after rest")
    return found


def _stop_problems(measured: Measured, expect: Expect) -> list[str]:
    found = []
    if not measured.disarmed:
        found.append("the guard stayed armed")
    elif not any(cause.startswith(wanted) for cause in measured.causes for wanted in expect.causes):
        found.append(f"causes {list(measured.causes)}: none begins with {' or '.join(expect.causes)}")
    began_s = judged_s(measured.accelerating, measured.brake_s, measured.decelerate_s)
    if measured.speed_rad_s > MOVING_RAD_S and not began_s <= expect.within_s:
        found.append(
            f"deceleration began after {began_s * 1e3:.0f} ms, limit {expect.within_s * 1e3:.0f} ms"
        )
    return found


def judged_s(accelerating: bool, brake_s: float, decelerate_s: float) -> float:
    """The time that is held against the limit. An arm that is still gaining speed gains a little more after its
    set-points brake: the servo law is behind them. Set-points that braked long before it were another motion's end."""
    followed = accelerating and decelerate_s - brake_s <= SERVO_LAG_S
    return brake_s if followed else decelerate_s


def to_record(measured: Measured, found: list[str]) -> dict:
    """For JSON; NaN becomes None."""
    record = {k: (None if isinstance(v, float) and math.isnan(v) else v) for k, v in vars(measured).items()}
    return record | {"ok": not found, "problems": found}


def markdown(
    records: Mapping[tuple[str, str], dict], injections: list[str], phases: tuple[str, ...], limits: Mapping[str, str]
) -> str:
    """The matrix as a table: detect / decelerate / rest / recover; times in ms, recover in s."""
    lines = ["| fault | expected | " + " | ".join(phases) + " |", "|---|---|" + "---|" * len(phases)]
    for name in injections:
        cells = [_cell(records.get((name, phase))) for phase in phases]
        lines.append(f"| {name} | {limits[name]} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _cell(record: dict | None) -> str:
    if record is None:
        return ""
    moved = (record["speed_rad_s"] or 0.0) > MOVING_RAD_S
    decelerates = _ms(record["decelerate_s"]) if moved else "-"
    brake_s, decelerate_s = (math.nan if record[k] is None else record[k] for k in ("brake_s", "decelerate_s"))
    if moved and record["accelerating"] and judged_s(True, brake_s, decelerate_s) == brake_s != decelerate_s:
        decelerates = f"{_ms(record['brake_s'])} > {decelerates}"
    times = [_ms(record["detect_s"]), decelerates]
    times += [_ms(record["rest_s"]), "-" if record["recover_s"] is None else f"{record['recover_s']:.1f}"]
    text = " / ".join(times) if record["disarmed"] else "goes on"
    return text if record["ok"] else f"**{text}** not ok"


def _ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1e3:.0f}"
