"""What a vehicle's state tells the guard and people: what of it forbids motion, and a report of bounded size. Pure."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from steadyhand.vda5050.dialect import FAILED, FINISHED, VehicleState
from steadyhand.vda5050.strict_json import printable

MAX_LISTED, MAX_TEXT = 8, 120


def state_causes(state: VehicleState) -> dict[str, str]:
    """What in a state forbids motion. eStop is the vehicle's own doing: read and obeyed, never a command."""
    found = {}
    if state.e_stop != "NONE":
        found["robot_safety:e_stop"] = f"emergency stop of the vehicle ({state.e_stop}): acknowledge it there"
    if state.operating_mode != "AUTOMATIC":
        found["robot_mode:operating_mode"] = f"{state.operating_mode}, wanted AUTOMATIC: switch it at the vehicle"
    for error in state.errors:
        if error.blocks:
            found[f"robot_mode:{error.kind[:40]}"] = f"{error.level} {error.text[:200]}: clear it at the vehicle"
    if not state.localised:
        found["robot_mode:not_localised"] = "the vehicle does not know where it is: initialise its position"
    return found


def report(state: VehicleState, kind_of: Callable[[str], str]) -> dict[str, Any]:
    """For an operator: safety, place, loads, errors, actions under way. `kind_of` names the actions of our order."""
    actions = [
        f"{kind_of(action_id) or said.kind or action_id}: {said.status}"[:MAX_TEXT]
        for action_id, said in state.actions.items()
        if said.status != FINISHED and (said.status != FAILED or kind_of(action_id))
    ]
    return {
        "e_stop": state.e_stop, "field_violation": state.field_violation, "localised": state.localised,
        "charging": state.charging, "maps": _listed(state.maps), "loads": _listed(state.loads),
        "errors": _listed(f"{e.kind} ({e.level}): {e.text}" for e in state.errors),
        "actions": _listed(actions), "requests": _listed(state.requests),
    }  # fmt: skip


def _listed(texts: Any) -> list[str]:
    listed = [printable(text[:MAX_TEXT]) for text in texts]
    more = [f"and {len(listed) - MAX_LISTED} more"] if len(listed) > MAX_LISTED else []
    return listed[:MAX_LISTED] + more
