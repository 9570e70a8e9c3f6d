"""The page of figures says what the committed results say."""
import json

import pytest

from benchmarks import _report
from benchmarks.common import wilson


def test_page_is_what_the_results_say():
    assert _report.PAGE.read_text() == _report.page(), "run python -m benchmarks._report"


@pytest.mark.parametrize("path", sorted(_report.RESULTS.glob("*.json")), ids=lambda p: p.stem)
def test_results_have_the_common_shape(path):
    result = json.loads(path.read_text())
    assert set(result) == {"name", "n", "load", "scheduler", "machine", "commit", "metrics"}
    assert result["name"] == path.stem and result["n"] > 0


INTERVALS = [(200, 200, 0.9812, 1.0), (0, 10, 0.0, 0.2775), (190, 200, 0.9104, 0.9726)]


def quoted(r: dict) -> dict[str, list[str]]:
    """Document -> texts with figures of the results `r` (name -> metrics), as they must stand there."""
    job, loop, call, seen = r["main_job"], r["control_loop"], r["policy_call"], r["perception_spine"]
    start, gate, emulated = r["cold_start"], r["gate_admission"], r["emulated_controller"]
    moving = gate["real_moving_samples"]
    spikes, smooth = r["spikes"], r["smoothness"]
    stop, recovered, fleet = r["stop_latency"], r["recovery"], r["vda5050"]
    chunks = [gate["chunks"][name] for name in ("demonstrator", "policy")]
    training = gate["chunks"]["training"]
    return {
        "README.md": [
            f"| {job['cubes_placed']} of {job['cubes_attempted']} (Wilson 95 % low {job['wilson_low']:.3f}), "
            f"{job['invariant_violations']} invariants broken |",
            f"cubes placed, {job['runs']} runs of 5",
            f"| topic {stop['topic_p999_ms']:.1f} ms, own channel {stop['stop_channel_p999_ms']:.1f} ms; "
            f"all cores busy {stop['loaded_topic_p999_ms']:.1f} and {stop['loaded_stop_channel_p999_ms']:.1f} ms |",
            f"| {stop['process_death_decel_p99_ms']:.1f} ms |",
            f"| {recovered['detect_p99_ms']:.1f} ms; {recovered['same_processes']} of {4 * recovered['n']} |",
            f"| {fleet['order_ack_p99_ms']:.1f} ms; {fleet['schema_errors']} errors in {fleet['messages']:,} |",
            f"| {loop['quiet_p999_ms']:.2f} ms quiet, "
            f"{loop['loaded_p999_ms']:.2f} ms with all cores busy and a packet flood "
            f"(SCHED_OTHER: {loop['other']['quiet_p999_ms']:.1f} and {loop['other']['loaded_p999_ms']:.1f} ms) |",
            f"| {call['local_p50_ms']:.2f} / {call['local_p99_ms']:.2f} ms in process, "
            f"{call['triton_p50_ms']:.1f} / {call['triton_p99_ms']:.1f} ms by Triton |",
            f"| {start['graph_armed_s_p50']:.1f} s; {start['agent_first_action_ms_p50'] + 1e-9:.0f} ms |",
            f"| {round(gate['real_moves_refused'] * moving)} of {moving:,} samples; "
            f"{sum(x['refused'] for x in chunks)} of {sum(x['offered'] for x in chunks):,} |",
            f"| {seen['position_mm_p50']:.2f} / {seen['position_mm_p95']:.2f} mm |",
            f"| {smooth['jerk_ours']:.1f}, {smooth['jerk_playback']:.1f} rad/s3 ({smooth['ratio']:.1f} times as much, "
            f"95 % interval {smooth['ratio_low']:.1f} to {smooth['ratio_high']:.1f}; {smooth['pairs']} scenes) |",
        ],
        "docs/perception.md": [
            f"On {seen['images']} test images with {seen['cubes']} cubes",
            f"| {seen['position_mm_p50']:.2f} / {seen['position_mm_p95']:.2f} / {seen['position_mm_p99']:.2f} mm |",
            f"| {seen['yaw_deg_p50']:.2f} / {seen['yaw_deg_p95']:.2f} deg |",
            f"| {seen['misses']} of {seen['cubes']} ({seen['miss_rate']:.2%}, Wilson 95 % ".replace("%,", " %,"),
            f"| {seen['false_positives']} ({seen['false_rate']:.2%}, ".replace("%,", " %,"),
            f"| {seen['within_1_std']:.0%} / {seen['within_2_std']:.0%} ".replace("%", "", 1).replace("%", " %"),
            f"| {seen['channels_swapped']['position_mm_p50']:.2f} mm ({seen['channels_swapped']['images']} images) |",
        ],
        "docs/emulated_controller.md": [
            f"lag {emulated['cb3']['lag_driver_parameters_ms']} ms (CB3) and "
            f"{emulated['e_series']['lag_driver_parameters_ms']} ms",
            f"{emulated['cb3']['lag_ours_ms']} ms with our program's",
            f"p99.9 {emulated['cb3']['interval_p999_ms']:.1f} ms apart at 8 ms and "
            f"{emulated['e_series']['interval_p999_ms']:.1f} ms at 2 ms",
        ],
        "docs/filters.md": [
            *(
                f"| {kind} | {100 * k['tpr']:.1f} % | {100 * k['fpr']:.2f} % | {100 * k['tpr_at_1_percent']:.1f} % | "
                f"{100 * k['plain']['tpr_at_1_percent']:.1f} % |" for kind, k in spikes["kinds"].items()
            ),
            f"{100 * spikes['tpr']:.1f} % (95 % interval {100 * spikes['tpr_low']:.1f} % to "
            f"{100 * spikes['tpr_high']:.1f} %) of the spikes are found at {100 * spikes['fpr']:.2f} % false alarms",
            f"{100 * spikes['unseen']['tpr']:.1f} % are found at {100 * spikes['unseen']['fpr']:.2f} % false alarms",
            f"{100 * spikes['kinds']['velocity']['ordinary']['tpr']:.1f} % of the velocity's",
            f"{100 * spikes['plain']['three_sigma']['tpr']:.1f} % at "
            f"{100 * spikes['plain']['three_sigma']['fpr']:.1f} % false alarms",
            f"recordings, {100 * spikes['plain']['tuned']['tpr']:.1f} % at {100 * spikes['plain']['tuned']['fpr']:.1f} %",
        ],
        "docs/policies.md": [
            f"of {training['offered']:,} chunks were refused when they were made, {training['refused']} are by today's",
            f"Played to their end instead, the same chunks shake the arm {smooth['ratio']:.1f} times as much "
            f"(median of {smooth['pairs']} scenes, 95 % interval {smooth['ratio_low']:.1f} to "
            f"{smooth['ratio_high']:.1f})",
        ],
    }


def results() -> dict:
    return {p.stem: json.loads(p.read_text())["metrics"] for p in _report.RESULTS.glob("*.json")}


@pytest.mark.parametrize("document", quoted(results()))
def test_figures_in_the_text_are_those_of_the_results(document):
    text = " ".join((_report.ROOT / document).read_text().split())
    assert [q for q in quoted(results())[document] if q not in text] == []


def test_every_goal_has_a_result_or_none_of_its_kind():
    found = results()
    goals = [g.split(".") for g in _report.GOALS]
    assert [(name, metric) for name, metric in goals if name in found and metric not in found[name]] == []


@pytest.mark.parametrize(("k", "n", "low", "high"), INTERVALS)
def test_wilson_interval(k, n, low, high):
    assert wilson(k, n) == pytest.approx((low, high), abs=2e-4)
