"""The main job as a user runs it, smaller, and its negative controls: without sight or friction nothing is placed."""
import json
import socket

import pytest

from steadyhand.errors import ConfigError, RobotError
from steadyhand.slot import current_slot
from steadyhand_cli.job import JobConfig, run_job
from steadyhand_cli.main import main

pytestmark = [pytest.mark.ros, pytest.mark.sim, pytest.mark.process, pytest.mark.triton]


def test_two_cubes_with_a_stop_in_the_middle():
    summary = run_job(JobConfig(cubes=2, seed=7))
    assert summary["problems"] == []
    assert summary["results"] == ["STOPPED", "OK"]
    assert summary["cubes_placed"] == 2 and summary["violations"] == []
    assert summary["stop"]["speed_before_rad_s"] > 0.1 and summary["stop"]["rest_after_s"] < 1.0
    assert summary["armings"] == 2 and summary["processes"]["died"] == []
    evidence = max((current_slot().out_dir / "stops").glob("*stop_requested*"))  # by its time: the operator's, kept whole
    assert json.loads((evidence / "stop.json").read_text())["causes"][0].startswith("stop_requested")
    kinds = {json.loads(line)["kind"] for p in evidence.glob("*.jsonl") for line in p.read_text().splitlines()}
    assert {"goal", "chunk", "verdict", "stop"} <= kinds


def test_a_blanked_camera_places_nothing():
    faults = (("camera_blank", ()),)
    summary = run_job(JobConfig(cubes=2, seed=7, operator_stop=False, sim_faults=faults, job_timeout_s=60))
    assert summary["cubes_placed"] == 0
    assert summary["results"][0] in ("PERCEPTION_LOST", "STOPPED", "EMPTY_TRAY", "NOT_ARMED")
    assert summary["violations"] == []


def test_frictionless_fingers_place_nothing_and_end_in_a_report():
    faults = (("finger_friction", (("value", 0.0),)),)
    summary = run_job(JobConfig(cubes=1, seed=7, operator_stop=False, sim_faults=faults, job_timeout_s=120))
    assert summary["cubes_placed"] == 0
    assert summary["results"] == ["L3_FAILURE"]
    reports = list((current_slot().out_dir / "reports").glob("*.md"))
    assert reports and "grasp" in max(reports, key=lambda p: p.stat().st_mtime).read_text()


def test_a_taken_port_is_named():
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind((current_slot().robot_host, 30004))
        taken.listen()
        with pytest.raises(RobotError, match="sim keeps ending.*30004"):
            run_job(JobConfig(cubes=1))


def test_a_missing_triton_environment_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("STEADYHAND_TRITON_VENV", str(tmp_path / "none"))
    with pytest.raises(RobotError, match="triton keeps ending.*make setup"):
        run_job(JobConfig(cubes=1))


def test_a_missing_model_repository_is_named(tmp_path):
    with pytest.raises(RobotError, match="keeps ending|active"):
        run_job(JobConfig(cubes=1, ready_timeout_s=15, launch_arguments=(("models", str(tmp_path / "none")),)))


@pytest.mark.parametrize("cubes", [0, 9])
def test_cubes_out_of_range(cubes, capsys):
    with pytest.raises(ConfigError, match=f"cubes={cubes}: give 1 to 8"):
        JobConfig(cubes=cubes)
    assert main(["run", "--cubes", str(cubes)]) == 2
    assert "give 1 to 8" in capsys.readouterr().err


@pytest.mark.parametrize(("word", "named"), [("sim=true", "name:=value"), ("robt_ip:=1", "unknown argument 'robt_ip'")])
def test_malformed_launch_arguments(word, named, capsys):
    assert main(["run", word]) == 2
    assert named in capsys.readouterr().err
