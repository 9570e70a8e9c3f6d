"""L2: which *different* action follows a failed step. One table, one pure choice."""
from __future__ import annotations

import enum


class Recovery(str, enum.Enum):
    """A way to reach the same sub-goal that differs from the one that failed. Each begins by backing off upwards."""

    REPERCEIVE = "re-perceive"  # go home, look again, plan anew
    OTHER_YAW = "other yaw"  # go home, look again, fingers a quarter turn away
    FROM_ABOVE = "from above"  # planned move above the target, then the policy again
    OTHER_OBJECT = "other object first"
    OTHER_POINT = "other release point"


MAX_PER_SUBGOAL = 3

_R = Recovery
PICKING: dict[str, tuple[Recovery, ...]] = {
    "step_deadline": (_R.FROM_ABOVE, _R.REPERCEIVE, _R.OTHER_YAW),
    "grasp_empty": (_R.REPERCEIVE, _R.OTHER_YAW, _R.FROM_ABOVE),
    "grasp_lost": (_R.REPERCEIVE, _R.OTHER_YAW, _R.OTHER_OBJECT),
    "target_lost": (_R.REPERCEIVE, _R.OTHER_OBJECT),
    "target_moved": (_R.REPERCEIVE, _R.FROM_ABOVE, _R.OTHER_OBJECT),
    "chunks_refused": (_R.FROM_ABOVE, _R.OTHER_YAW, _R.OTHER_OBJECT),
    "policy_unavailable": (_R.FROM_ABOVE, _R.REPERCEIVE),
    "path_infeasible": (_R.OTHER_OBJECT, _R.REPERCEIVE),
    "release_unverified": (_R.REPERCEIVE, _R.OTHER_OBJECT),  # neither held nor measured free: look where it is
}
CARRYING: dict[str, tuple[Recovery, ...]] = {
    "step_deadline": (_R.FROM_ABOVE, _R.OTHER_POINT),
    "release_unverified": (_R.OTHER_POINT, _R.FROM_ABOVE),
    "chunks_refused": (_R.FROM_ABOVE, _R.OTHER_POINT),
    "policy_unavailable": (_R.FROM_ABOVE, _R.OTHER_POINT),
    "path_infeasible": (_R.OTHER_POINT,),
    "target_lost": (_R.FROM_ABOVE,),
}


def choose(fault_name: str, carrying: bool, tried: tuple[Recovery, ...]) -> Recovery:
    """The first action of the fault's row not yet tried for this sub-goal; when all are, give way to another."""
    row = (CARRYING if carrying else PICKING)[fault_name]
    if len(tried) < MAX_PER_SUBGOAL:
        for recovery in row:
            if recovery not in tried:
                return recovery
    return Recovery.OTHER_POINT if carrying else Recovery.OTHER_OBJECT
