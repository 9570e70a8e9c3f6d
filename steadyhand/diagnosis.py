"""L3: name the failing layer with its evidence, and write a report that a technician can act on (Markdown)."""
from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from steadyhand import kinematics, skills
from steadyhand.task import Failure
from steadyhand.types import Estimate, EstimateMode, RobotState

# Fault -> (layer, what to look at). One fault is a symptom; the layer named is the one with the most of them.
LAYERS: Mapping[str, tuple[str, str]] = {
    "target_lost": ("perception", "camera cable, lens, light, what hides the tray; perception_node on /diagnostics"),
    "target_moved": ("perception", "whether something moves the parts; camera mounting and calibration"),
    "path_infeasible": ("planning", "whether the parts lie within reach, as the message says"),
    "step_deadline": ("policy", "the policy's model version; whether the target lies within its training range"),
    "policy_unavailable": ("communication", "Triton server, network; steadyhand doctor"),
    "chunks_refused": ("execution", "reasons of the refusals below; limits of the gate; load of the machine"),
    "grasp_empty": ("hardware", "finger pads, grip force, air or power of the gripper; then camera calibration"),
    "grasp_lost": ("hardware", "finger pads worn or greasy; grip force; weight of the part"),
    "release_unverified": ("hardware", "gripper does not open: air or power, a jammed part"),
}


def failing_layer(failures: Sequence[Failure]) -> tuple[str, float]:
    """The layer with most of the recent failures, and its share. Later failures decide a tie."""
    counts: Counter[str] = Counter()
    for i, failure in enumerate(failures):
        counts[LAYERS[failure.fault][0]] += 1 + 1e-3 * i
    layer = max(counts, key=lambda name: counts[name])
    return layer, sum(LAYERS[f.fault][0] == layer for f in failures) / len(failures)


def report(
    failures: Sequence[Failure], message: str, state: RobotState, estimate: Estimate | None, counters: Mapping[str, int]
) -> str:
    """Markdown: what failed, the layer and why, what to check, and the state of robot and estimate."""
    recent = list(failures[-5:])
    layer, share = failing_layer(recent)
    tool = kinematics.pose_base_link_tool(state.q_rad)[:3, 3]
    hand = "an object" if skills.grasp_verified(state.gripper_width_m, state.gripper_commanded_m < 0.02) else "nothing"
    checks = dict.fromkeys(LAYERS[f.fault][1] for f in recent if LAYERS[f.fault][0] == layer)
    lines = [
        "# The task was given up", "", message, "",
        f"**Layer:** {layer} ({share:.0%} of the last {len(recent)} failures)", "",
        "The arm is at rest and holds its position; it moves only after an operator's goal.", "",
        "## Check", *(f"- {check}" for check in checks), "",
        "## Failed steps", "| time s | phase | fault | evidence | next action |", "|---|---|---|---|---|",
        *(f"| {f.stamp_s:.2f} | {f.phase} | {f.fault} | {f.detail} | {f.recovery} |" for f in recent), "",
        "## Robot", f"- joints {np.round(state.q_rad, 3).tolist()} rad, tool {np.round(tool, 3).tolist()} m",
        f"- gripper {state.gripper_width_m * 1e3:.1f} mm, told {state.gripper_commanded_m * 1e3:.0f} mm: holds {hand}",
        f"- mode {state.mode.value}, causes: {'; '.join(state.causes) or 'none'}", "", "## Estimate",
    ]
    if estimate is None:
        lines.append("- none received")
    else:
        lines.append(f"- {EstimateMode(estimate.mode).name} {estimate.reason}, image age {estimate.image_age_s:.2f} s")
        lines += [
            f"- object {o.object_id}: {np.round(o.position_m, 3).tolist()} m, std {o.position_std_m * 1e3:.1f} mm, "
            f"age {o.age_s:.2f} s{', in the box' if o.in_box else ''}" for o in estimate.objects
        ]
    lines += ["", "## Counters", *(f"- {name}: {value}" for name, value in sorted(counters.items())), ""]
    return "\n".join(lines)
