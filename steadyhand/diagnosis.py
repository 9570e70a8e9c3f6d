"""L3: collect evidence per layer, name the failing one, and say what a technician should do. Pure; text in `report`."""
from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from steadyhand import kinematics, skills
from steadyhand.task import Diagnosis, Failure
from steadyhand.types import Estimate, EstimateMode, RobotState

LAYERS_IN_ORDER = ("perception", "planning", "policy", "execution", "hardware", "communication")

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
# Layer -> what ends the trouble, and how soon work goes on after it. Estimates for planning, not promises.
EXPECTED_RECOVERY: Mapping[str, str] = {
    "perception": "5 to 15 min: clean or fasten the camera, restore the light; work goes on with the next goal",
    "planning": "2 min: move the parts towards the middle of the tray; work goes on with the next goal",
    "policy": "30 min or more: roll back to the model version that worked, or have it trained for this target",
    "execution": "15 min: lower the load of the machine or correct the limits; re-arm, then the next goal",
    "hardware": "10 to 30 min: clean or change the finger pads, restore air or power; re-arm, then the next goal",
    "communication": "5 to 15 min: restart the server or restore the network; work goes on with the next goal",
}


@dataclass(frozen=True)
class Evidence:
    """What is known at the moment of giving up. `counters` and `latency_ms` (of policy replies) are this goal's."""

    state: RobotState
    estimate: Estimate | None
    counters: Mapping[str, int]
    placed: int = 0
    attempted: int = 0
    task: str = ""
    goal_id: str = ""
    latency_ms: Sequence[float] = ()


def failing_layer(failures: Sequence[Failure]) -> tuple[str, float]:
    """The layer with most of the recent failures, and its share. Later failures decide a tie."""
    counts: Counter[str] = Counter()
    for i, failure in enumerate(failures):
        counts[LAYERS[failure.fault][0]] += 1 + 1e-3 * i
    layer = max(counts, key=lambda name: counts[name])
    return layer, sum(LAYERS[f.fault][0] == layer for f in failures) / len(failures)


def diagnose(failures: Sequence[Failure], message: str, evidence: Evidence) -> Diagnosis:
    """Everything that the report and the webhook say."""
    recent = tuple(failures[-5:])
    layer, share = failing_layer(recent)
    findings = {name: tuple(collect(evidence)) for name, collect in _COLLECTORS.items()}
    for failure in recent:
        name = LAYERS[failure.fault][0]
        found = f"{failure.fault} in {failure.phase} at {failure.stamp_s:.2f} s: {failure.detail}"
        findings[name] = (*findings[name], found)
    holds = _holds(evidence.state)
    actions = (
        *dict.fromkeys(f"check {LAYERS[f.fault][1]}" for f in recent if LAYERS[f.fault][0] == layer),
        *(("take the part out of the fingers, or leave it: the next goal places it first",) if holds else ()),
        "send the goal again; re-arm first if the guard says STOPPED",
    )
    hand = "holding an object" if holds else "hand empty"
    return Diagnosis(
        stamp_s=evidence.state.stamp_s, task=evidence.task, goal_id=evidence.goal_id, message=message,
        layer=layer, share=share,
        scope=f"goal {evidence.task or 'unknown'}: {evidence.placed} placed, {evidence.attempted} attempted, {hand}; "
              "the arm is at rest and holds its position; it moves only after an operator's goal",
        findings=findings,
        measures=tuple(f"after {f.fault} in {f.phase}: {f.recovery}" for f in failures),
        actions=actions, expected_recovery=EXPECTED_RECOVERY[layer], failures=recent,
        robot=tuple(_robot(evidence.state)), counters=dict(evidence.counters),
    )


def _holds(state: RobotState) -> bool:
    return skills.grasp_verified(state.gripper_width_m, state.gripper_commanded_m < 0.02)


def _robot(state: RobotState) -> list[str]:
    tool = kinematics.pose_base_link_tool(state.q_rad)[:3, 3]
    hand = "an object" if _holds(state) else "nothing"
    return [
        f"joints {np.round(state.q_rad, 3).tolist()} rad, tool {np.round(tool, 3).tolist()} m",
        f"gripper {state.gripper_width_m * 1e3:.1f} mm, commanded {state.gripper_commanded_m * 1e3:.0f} mm: "
        f"holds {hand}",
        f"mode {state.mode.value}, causes: {'; '.join(state.causes) or 'none'}",
    ]


def _counts(e: Evidence, *names: str) -> list[str]:
    """One line of the counters of these names; a name that ends in `_` stands for all that begin with it."""
    found = [
        f"{n} {v}" for n, v in sorted(e.counters.items())
        if v and any(n == x or (x.endswith("_") and n.startswith(x)) for x in names)
    ]
    return [", ".join(found)] if found else []


def _perception(e: Evidence) -> list[str]:
    if e.estimate is None:
        return ["no estimate received: estimator_node is silent"]
    said = f"estimate {EstimateMode(e.estimate.mode).name} {e.estimate.reason}".rstrip()
    found = [f"{said}, image age {e.estimate.image_age_s:.2f} s"]
    found += [
        f"object {o.object_id}: {np.round(o.position_m, 3).tolist()} m, std {o.position_std_m * 1e3:.1f} mm, "
        f"presence {o.presence:.2f}, age {o.age_s:.2f} s{', in the box' if o.in_box else ''}"
        for o in e.estimate.objects
    ]
    return found + _counts(e, "fault_perception_lost", "fault_target_lost", "fault_target_moved")


def _planning(e: Evidence) -> list[str]:
    return _counts(e, "fault_path_infeasible", "chunks_planner")


def _policy(e: Evidence) -> list[str]:
    found = _counts(e, "policy_calls", "served_", "fault_policy_output_invalid", "fault_step_deadline")
    if len(e.latency_ms):
        p50, p99 = np.percentile(e.latency_ms, [50, 99])
        found.append(f"latency p50 {p50:.1f} ms, p99 {p99:.1f} ms")
    return found


def _execution(e: Evidence) -> list[str]:
    return _counts(e, "refused_", "gripper_refused", "braked", "fault_chunks_refused")


def _hardware(e: Evidence) -> list[str]:
    off = float(np.abs(e.state.q_commanded_rad - e.state.q_rad).max())
    found = [
        f"gripper {e.state.gripper_width_m * 1e3:.1f} mm, commanded {e.state.gripper_commanded_m * 1e3:.0f} mm",
        f"largest distance from commanded to measured joint {off * 1e3:.1f} mrad",
    ]
    return found + _counts(e, "fault_grasp_empty", "fault_grasp_lost", "fault_release_unverified", "fault_rest_unknown")


def _communication(e: Evidence) -> list[str]:
    return _counts(e, "fault_policy_timeout", "fault_policy_reply_foreign", "fault_policy_unavailable",
                   "fault_guard_silent", "state_out_of_order", "fault_state_invalid")


_COLLECTORS = dict(zip(LAYERS_IN_ORDER, (_perception, _planning, _policy, _execution, _hardware, _communication)))
