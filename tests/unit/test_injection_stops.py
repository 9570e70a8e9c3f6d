"""What one stop costs, from records whose answer is known; and the commander's way-points."""
import math
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks import stop_latency
from steadyhand import cell
from steadyhand_cli.injection import children, commander, stops
from steadyhand_cli.injection.observer import RECORD
from tests.support.first_line import first_line

DT_S = 0.008
SENT_S = 10.503


def records(received_s=10.504, brake_cycle=66, rate=4.0):
    """Steady motion of joint 0 at 0.4 rad/s; set-points fall from `brake_cycle` on, target 2 cycles, joints 4 later."""
    n = 200
    rows = np.zeros(n, RECORD)
    rows["received_s"] = 10.0 + DT_S * np.arange(n)
    rows["input_int_register_27"] = rows["input_int_register_24"] = np.arange(n)

    def speed(lag):
        return np.clip(0.4 - rate * DT_S * np.maximum(0, np.arange(n) - brake_cycle - lag + 1), 0.0, None)

    rows["setpoint"][:, 0] = np.cumsum(speed(0)) * DT_S
    rows["target_qd"][:, 0], rows["actual_qd"][:, 0] = speed(2), speed(4)
    return rows


def test_a_braked_stop_has_all_its_times():
    stop = {"received_s": 10.504, "braking_s": 10.52, "cause": "stop_requested", "reaction": "BRAKE"}
    found = stops.measure(records(), SENT_S, stop, lambda qd: 0.1 if qd[0] == pytest.approx(0.4) else math.nan)
    at = {lag: 10.0 + DT_S * (66 + lag) for lag in (0, 2)}
    assert found["sent_to_received_s"] == pytest.approx(0.001)
    assert found["received_to_braking_s"] == pytest.approx(0.016)
    assert found["received_to_setpoint_s"] == pytest.approx(at[0] - 10.504)
    assert found["sent_to_setpoint_s"] == pytest.approx(at[0] - SENT_S)
    assert found["sent_to_decelerate_s"] == pytest.approx(at[2] - SENT_S)
    rest_s = 10.0 + DT_S * (66 + 4 + 12)  # 13 steps of 0.032 rad/s end the motion
    assert found["sent_to_rest_s"] == pytest.approx(rest_s - SENT_S, abs=DT_S)
    assert found["rest_over_minimum"] == pytest.approx((rest_s - at[0]) / 0.1, abs=0.1)
    assert found["received_to_withdrawn_s"] is None and found["cause"] == "stop_requested"


def test_a_dead_guard_has_no_stamp_but_a_deceleration():
    found = stops.measure(records(), SENT_S, {}, lambda qd: 0.1)
    assert found["received_to_setpoint_s"] is None and found["sent_to_received_s"] is None
    assert found["sent_to_decelerate_s"] == pytest.approx(10.0 + DT_S * 68 - SENT_S)


def test_withdrawal_is_the_last_heartbeat_that_was_new():
    rows = records()
    rows["input_int_register_24"][67:] = 66
    stop = {"received_s": 10.524, "cause": "robot_safety:protective_stop", "reaction": "WITHDRAW"}
    found = stops.measure(rows, SENT_S, stop, lambda qd: 0.1)
    assert found["received_to_withdrawn_s"] == pytest.approx(10.0 + DT_S * 66 - 10.524, abs=1e-6)
    rows["input_int_register_24"][60:] = 60  # it had been silent before
    assert stops.measure(rows, SENT_S, stop, lambda qd: 0.1)["received_to_withdrawn_s"] == 0.0


def test_the_commander_reaches_its_speed_keeps_it_and_ends_within_reach():
    q, qd, travelled = np.array(cell.HOME_Q_RAD, dtype=float), np.zeros(6), []
    for _ in range(60):
        points = commander.waypoints(q, qd, 1.0)
        assert points.shape == (8, 6) and np.abs(np.diff(points, axis=0)).max() <= 0.4 * 0.05 + 1e-9
        q, qd = points[0], 2 * (points[0] - q) / 0.05 - qd
        travelled.append(qd[0])
    assert max(travelled) == pytest.approx(0.4) and travelled[10] == pytest.approx(0.4)
    assert abs(travelled[-1]) < 1e-6 and 0.45 <= q[0] - cell.HOME_Q_RAD[0] < 0.55
    back = commander.waypoints(q, np.zeros(6), -1.0)
    assert back[-1, 0] < q[0] and back[-1, 1] == q[1]


def test_stops_that_are_there_are_not_made_again_and_sources_take_turns():
    done = [
        {"condition": "fifo_quiet", "source": "topic"}, {"condition": "fifo_quiet", "source": "service", "error": "x"},
        {"condition": "other_quiet", "source": "topic"},
    ]  # fmt: skip
    assert stop_latency.left(done, "fifo_quiet", ["topic", "service"], 3, 2) == ["topic", "service", "topic", "service"]
    assert stop_latency.left(done, "fifo_quiet", ["topic"], 1, 1) == []


def test_other_rigs_are_told_of_as_load():
    assert stop_latency.load([{"source": "topic"}]).startswith("quiet;")
    assert stop_latency.load([{"source": "topic"}, {"source": "topic", "rigs": 3}]).startswith("quiet but for up to 2")


@pytest.mark.parametrize("rigs", [0, -1, 42])
def test_rigs_without_a_slot_are_refused_before_anything_runs(rigs, monkeypatch, tmp_path):
    monkeypatch.setenv("STEADYHAND_OUT", str(tmp_path))
    options = SimpleNamespace(fresh=False, report=False, conditions="fifo_quiet", rigs=rigs)
    with pytest.raises(SystemExit, match=f"--rigs {rigs}: give 1 to "):
        stop_latency.run(options)


RIG_THAT_HANGS = """
import time
from pathlib import Path
from benchmarks import stop_latency
from steadyhand_cli.injection import stops

class Rig:
    def __init__(self, *_): pass
    def __enter__(self): return self
    def __exit__(self, *_): print("its processes are ended", flush=True)
    def fire(self, source): print("hangs", flush=True); time.sleep(60)

stops.StopRig = Rig
stop_latency._rig(0, "fifo_quiet", ["topic"], 1, Path("none/log"), 1)
"""


def test_a_rig_that_is_told_to_end_ends_its_processes():
    with subprocess.Popen(
        [sys.executable, "-c", RIG_THAT_HANGS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=children.environment(),
    ) as process:  # fmt: skip
        assert first_line(process) == "hangs\n"
        process.terminate()
        said, error = process.communicate(timeout=20)
    assert said == "its processes are ended\n" and "told to end" in error and process.returncode == 1


def test_an_operators_link_comes_after_each_arming_so_that_none_meets_its_silence(monkeypatch):
    said = []

    class Link:
        def __init__(self, *_, **__):
            pass

        def connect(self):
            said.append("link")

        def close(self):
            said.append("no link")

    monkeypatch.setattr(stops, "GuardClient", Link)
    rig = stops.StopRig.__new__(stops.StopRig)
    rig.graph, rig._link = SimpleNamespace(arm=lambda: said.append("arm")), None
    rig._arm("operator_link")
    rig._arm("operator_link")
    rig._arm("topic")
    assert said == ["arm", "link", "no link", "arm", "link", "no link", "arm"]


def test_the_figures_asked_for_come_from_the_right_stops():
    def record(condition, source, ms, **more):
        return {"condition": condition, "source": source, "cause": "c", "scheduler": "SCHED_FIFO", "commit": "x",
                "received_to_setpoint_s": ms / 1e3, "rest_over_minimum": 1.05, "minimum_s": 0.2, **more}  # fmt: skip

    records = [
        record("fifo_quiet", "topic", 10), record("fifo_quiet", "stop_channel", 11),
        record("fifo_loaded", "topic", 12), record("fifo_loaded", "stop_channel", 13),
        record("fifo_quiet", "guard_killed", 1, sent_to_decelerate_s=0.02),
        record("fifo_quiet", "source_killed", 1, sent_to_decelerate_s=0.1),
        {"condition": "fifo_quiet", "source": "topic", "error": "no", "commit": "x"},
    ]  # fmt: skip
    figures = stop_latency.metrics(records)
    assert figures["n"] == 1 and figures["topic_p999_ms"] == 10.0 and figures["loaded_topic_p999_ms"] == 12.0
    assert figures["process_death_decel_p99_ms"] == 20.0 and figures["command_source_decel_p99_ms"] == 100.0
    assert figures["rest_over_minimum_p99"] == 1.05 and figures["failed"] == 1 and figures["service_p999_ms"] is None
    assert figures["conditions"]["fifo_loaded"]["topic"]["received_to_setpoint"]["max_ms"] == 12.0
