"""Writes `docs/figures.md` from `benchmarks/results/*.json`: `python -m benchmarks._report`. No figure is typed."""
from __future__ import annotations

import json
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS, PAGE = ROOT / "benchmarks" / "results", ROOT / "docs" / "figures.md"

# What was aimed at, and the figure of the source documents where there is one. Metric -> (comparison, limit, remark);
# the limit is a number or the name of another metric of the same result.
GOALS = {
    "recovery.detect_p99_ms": ("<=", 16, "from the act itself: the controller's cycle and the guard's"),
    "fault_matrix.faults": (">=", 40, ""),
    "fault_matrix.cells_ok": (">=", 469, "every cell"),
    "fault_matrix.decelerate_60_ms_max": ("<=", 60, "of an arm that gains speed: its set-points"),
    "stop_latency.topic_p999_ms": ("<=", 16, "from the guard's receipt"),
    "stop_latency.service_p999_ms": ("<=", 16, "from the guard's receipt"),
    "stop_latency.stop_channel_p999_ms": ("<=", 16, "from the guard's receipt"),
    "stop_latency.loaded_topic_p999_ms": ("<=", 16, "from the guard's receipt"),
    "stop_latency.robot_status_p999_ms": ("<=", 16, "from the guard's receipt"),
    "stop_latency.process_death_decel_p99_ms": ("<=", 60, ""),
    "stop_latency.rest_over_minimum_p99": ("<=", 1.1, ""),
    "clock_steps.stops_nobody_asked_for": ("<=", 0, "clock set and set back while the main job runs"),
    "clock_steps.invariant_violations": ("<=", 0, ""),
    "dst.robot_hours": (">=", 1000, ""),
    "dst.hours_per_core_hour": (">=", 200, ""),
    "dst.faults_injected": (">=", 300_000, ""),
    "dst.violations": ("<=", 0, ""),
    "mtbf.ratio_low": (">=", 6.6, "source: 312 / 47 min"),
    "fuzz.crashes": ("<=", 0, ""),
    "fuzz.motions": ("<=", 0, ""),
    "main_job.wilson_low": (">=", 0.95, ""),
    "main_job.invariant_violations": ("<=", 0, ""),
    "cold_start.agent_first_action_ms_p50": ("<=", 500, "source: 820"),
    "cold_start.graph_armed_s_p50": ("<=", 8, ""),
    "policy_failover.kinds": (">=", 6, ""),
    "policy_failover.missed_cycles": ("<=", 0, "a repeated or held set-point counts"),
    "policy_failover.stale_executed": ("<=", 0, ""),
    "policy_failover.next_action_p99_ms": ("<=", 50, "one policy period"),
    "policy_call.triton_p99_ms": ("<=", 5, "source: 42"),
    "policy_success.seeds": (">=", 3, "the worst one is the figure"),
    "policy_success.ppo": (">=", 0.97, "source: 0.943"),
    "policy_success.ppo_low": (">=", 0.95, ""),
    "policy_success.dr_pseudo_real_low": (">=", 0.85, ""),
    "policy_peers.ours_stale": ("<=", 0, ""),
    "policy_peers.ours_nan": ("<=", 0, ""),
    "policy_peers.ours_blocked_ms": ("<=", 50, "one policy period; the call may take 40"),
    "smoothness.ratio_low": (">=", 1, "jerk of playback over ours"),
    "env_speed.steps_per_s_per_core": (">=", 1000, ""),
    "env_speed.ahead_of_panda_gym": (">=", 1, "ratio, in the same run"),
    "env_experts.expert_worst": (">=", 0.95, ""),
    "env_experts.random_best": ("<=", 0.05, ""),
    "control_loop.quiet_p999_ms": ("<=", 0.5, "SCHED_FIFO"),
    "control_loop.loaded_p999_ms": ("<=", 1, "SCHED_FIFO"),
    "spikes.tpr": (">=", 0.95, "at the operating point found on slow recordings"),
    "spikes.fpr": ("<=", 0.01, ""),
    "gate_admission.real_moves_refused": ("<=", 0.01, ""),
    "gate_admission.chunks_refused": ("<=", 0.01, ""),
    "perception.pose_median_mm": ("<=", 2, "worst number of cubes, as the next two"),
    "perception.pose_p95_mm": ("<=", 5, ""),
    "perception.presence_error": ("<=", 0.005, ""),
    "perception.ssi_output": ("<=", 0.01, ""),
    "perception.ssi_feature": ("<=", 0.05, ""),
    "perception.model_mb": ("<=", 10, ""),
    "inspection.wrong_high": ("<=", 0.018, "source's figure"),
    "freshness.faults": (">=", 8, "kinds"),
    "freshness.detected": (">=", "faults", "all kinds"),
    "freshness.false_alarms": ("<=", 0, ""),
    "freshness.static_frames": (">=", 108_000, ""),
    "resume.kills": (">=", 500, ""),
    "resume.lost": ("<=", 0, "acknowledged samples"),
    "resume.first_sample_p99_s": ("<=", 1, "from the start of the process"),
}


def page() -> str:
    """The whole page."""
    parts = [
        "# Figures",
        "",
        "Written by `python -m benchmarks._report` from `benchmarks/results/`; a test keeps the two in step. Stopping "
        "and control were measured against an emulated controller, the main job in a simulated cell: nothing here was "
        "measured on a robot. `make bench` measures anew, to `out/bench/`.",
    ]
    for path in sorted(RESULTS.glob("*.json")):
        parts += ["", *_section(json.loads(path.read_text()))]
    return "\n".join(parts) + "\n"


def _section(result: dict) -> list[str]:
    name = result["name"]
    lines = [
        f"## {name}",
        f"n = {result['n']}; {result['load']}; {result['scheduler']}; {result['machine']}; commit {result['commit']}",
        "",
        "| metric | value | goal |",
        "|---|---|---|",
    ]
    for metric, value in _scalars(result["metrics"]):
        goal = ""
        if (key := f"{name}.{metric}") in GOALS:
            comparison, limit, remark = GOALS[key]
            bound = result["metrics"][limit] if isinstance(limit, str) else limit
            met = value is not None and (value >= bound if comparison == ">=" else value <= bound)
            goal = f"{comparison} {limit}: {'met' if met else '**missed**'}{', ' + remark if remark else ''}"
        lines.append(f"| {metric} | {value} | {goal} |")
    return lines


def _scalars(metrics: dict, prefix: str = "", depth: int = 2):
    """(name, value) of numbers and short texts, two levels deep; what lies deeper is in the JSON file."""
    for key, value in metrics.items():
        if isinstance(value, dict):
            if depth > 1:
                yield from _scalars(value, f"{prefix}{key}.", depth - 1)
        elif isinstance(value, list):
            if len(value) <= 4:
                yield f"{prefix}{key}", ", ".join(map(str, value))
        else:
            yield f"{prefix}{key}", value


if __name__ == "__main__":
    PAGE.write_text(page())
