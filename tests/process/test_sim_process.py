"""`steadyhand-sim` as a process: ports, camera and score; ends on a signal, refuses wrong arguments."""
import json
import os
import signal
import socket
import subprocess
import sys

import pytest

pytest.importorskip("pybullet")
from steadyhand.slot import current_slot
from steadyhand_sim.scene_stream import SceneClient
from tests.support.first_line import first_line

pytestmark = [pytest.mark.sim, pytest.mark.process]


def _start(tmp_path, *arguments):
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path), "PYTHONPATH": ":".join(p for p in sys.path if p)}
    environment.setdefault("STEADYHAND_SLOT", "39")
    process = subprocess.Popen(
        ["timeout", "-s", "KILL", "40", sys.executable, "-m", "steadyhand_sim.main", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True,
    )
    return process, current_slot(environment)


@pytest.fixture
def sim(tmp_path):
    process, slot = _start(tmp_path, "--seed", "3", "--cubes", "2")
    yield process, slot, json.loads(first_line(process))
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=5)
    for stream in (process.stdout, process.stderr):
        stream.close()


def _ask(slot, *requests):
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(5)
        client.connect(str(slot.socket_dir / "sim_score.sock"))
        stream = client.makefile("rw")
        answers = []
        for request in requests:
            stream.write(json.dumps(request) + "\n")
            stream.flush()
            answers.append(json.loads(stream.readline()))
    return answers


def test_serves_ports_camera_and_score_and_ends_on_sigterm(sim):
    process, slot, ready = sim
    assert ready["ready"] == slot.robot_host and ready["seed"] == 3
    with socket.create_connection((slot.robot_host, 29999), timeout=5) as dashboard:
        assert b"Connected" in dashboard.recv(200)
    with socket.create_connection((slot.robot_host, 30004), timeout=5):
        pass
    scene, snapshot = SceneClient(slot), None
    # Each request is answered after the cycle it arrived in, so the simulator has published by the fourth.
    while snapshot is None:
        _ask(slot, {"get": "score"})
        snapshot = scene.latest()
    assert len(snapshot.position_m) == 2 and snapshot.camera == "ok"
    scene.close()
    score, refused, blank, state = _ask(
        slot, {"get": "score"}, {"fault": "meteor"}, {"fault": "camera_blank"}, {"get": "state"}
    )
    assert score["score"]["in_tray"] == 2
    assert refused["ok"] is False and "meteor" in refused["error"]
    assert blank["ok"] and state["state"]["camera"] == "blank"
    os.killpg(process.pid, signal.SIGTERM)
    process.wait(timeout=10)
    assert not (slot.socket_dir / "sim_score.sock").exists()


def test_second_one_in_a_slot_is_refused(sim, tmp_path):
    second, _ = _start(tmp_path, "--seed", "3")
    _, error = second.communicate(timeout=35)
    assert second.returncode == 2 and "steadyhand-sim:" in error


@pytest.mark.parametrize("arguments, message", [
    (("--cubes", "9"), "n_cubes=9"), (("--seed", "-1"), "--seed -1"), (("--fault", "rain@3"), "rain"),
    (("--motors", "ur99"), "ur99"), (("--camera", "sepia"), "sepia"), (("--finger-friction", "nan"), "finger_friction"),
])
def test_wrong_argument_names_it(tmp_path, arguments, message):
    process, _ = _start(tmp_path, *arguments)
    _, error = process.communicate(timeout=35)
    assert process.returncode == 2 and message in error and "Traceback" not in error
