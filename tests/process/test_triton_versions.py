"""Versions on a real Triton server: loaded while it serves, each asked by its number, a bad one refused; releases."""
import os
import shutil
import threading
import time

import numpy as np
import pytest

from steadyhand_policies import release as releases
from steadyhand_policies import repository, triton_tree
from steadyhand_policies.live import LivePolicy
from steadyhand_policies.local_onnx import LocalOnnxPolicy
from steadyhand_policies.member import opener
from steadyhand_policies.release import Release, ReleaseConfig, Share, Stage
from steadyhand_policies.release_file import ReleaseFile
from steadyhand_policies.triton_client import TritonConfig, TritonPolicy
from tests.process.test_triton import LIMIT_S, Server, wait_for
from tests.support import onnx_models as onnx

pytestmark = [
    pytest.mark.triton, pytest.mark.process,
    pytest.mark.skipif(not triton_tree.default_venv().exists(), reason="Triton's environment is not set up"),
]
MODEL = "pick_place"


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = onnx.repository_with(tmp_path_factory.mktemp("models"), 1)
    shutil.copytree(repository.DEFAULT_REPOSITORY / "tray_poses", folder / "tray_poses")
    return folder


@pytest.fixture(scope="module")
def server(tmp_path_factory, models):
    server = Server(tmp_path_factory.mktemp("triton"), "--repository", str(models))
    server.ready()
    yield server
    server.stop()


def asked(server, models, number):
    """A client of one version, and the model itself."""
    local = LocalOnnxPolicy(repository.policy_files(models, MODEL, number)).open()
    config = TritonConfig(server.status()["grpc"], MODEL, str(number), deadline_s=1.0)
    return TritonPolicy(config, local.contract).open(), local


def test_a_new_version_is_loaded_while_the_old_one_serves_without_a_failed_call(server, models, tmp_path):
    old, local = asked(server, models, 1)
    golden = np.float32(local.contract.canary.observation)
    old.infer(golden, "warm", LIMIT_S)
    failures, calls, stop = [], [0], threading.Event()

    def call():
        while not stop.is_set():
            try:
                answer = old.infer(golden, f"o{calls[0]}", LIMIT_S).actions
                np.testing.assert_allclose(answer, local.contract.canary.actions, atol=1e-3)
            except Exception as error:  # whatever it is, it is counted
                failures.append(error)
            calls[0] += 1
            time.sleep(0.01)

    thread = threading.Thread(target=call)
    thread.start()
    try:
        onnx.write_version(tmp_path / "trained", *onnx.weights_of(2))
        assert repository.install(tmp_path / "trained", models, MODEL) == 2
        wait_for(lambda: server.status().get("versions") == [1, 2], "version 2 is served")
    finally:
        stop.set()
        thread.join()
    assert failures == [] and calls[0] > 10
    new, other = asked(server, models, 2)
    answer = new.infer(golden, "o", LIMIT_S).actions
    np.testing.assert_allclose(answer, other.contract.canary.actions, atol=1e-3)
    assert np.abs(answer - local.contract.canary.actions).max() > 0.05
    for policy in (old, new):
        policy.close()


def test_a_bad_version_is_named_and_not_loaded_and_the_others_serve(server, models):
    pid = server.ready()
    folder = models / MODEL / "7"
    onnx.write_version(models / "scratch", *onnx.weights_of(5))
    onnx.edit(models / "scratch" / "contract.json", lambda raw: raw["joint_names"].reverse())
    os.rename(models / "scratch", folder)
    refused = wait_for(lambda: server.status().get("refused"), "the bad version is refused")
    assert "joint_names[0]" in refused["7"] and 7 not in server.status()["versions"]
    policy, local = asked(server, models, 1)
    policy.canary(LIMIT_S)
    policy.close()
    shutil.rmtree(folder)
    wait_for(lambda: server.status().get("refused") == {}, "it is gone")
    assert server.ready() == pid


def test_a_release_on_the_server_changes_version_between_episodes_and_rolls_back(server, models, tmp_path):
    """Both versions by Triton, one in two episodes; the roll-back is in force within its limit."""
    wait_for(lambda: server.status().get("versions") == [1, 2], "both are served")
    file = ReleaseFile(tmp_path, MODEL)
    open_version = opener(models, MODEL, server.status()["grpc"])
    config = ReleaseConfig((Stage(2, 0.2), Stage(1, 0.1)))
    live = LivePolicy(MODEL, open_version, 1, ReleaseFile(tmp_path, MODEL), config).open()
    try:
        second = open_version(2)
        file.update(lambda found: releases.begin(found or Release(MODEL, live.pin.version), second.version, "r"))
        golden = np.float32(live.pin.member.contract.canary.observation)
        wait_for(lambda: live.release().candidate, "followed")
        served = set()
        for _ in range(10):
            pin = live.begin_episode()
            wait_for(lambda: pin.member.policy.statistics().primary_healthy, "the server's canary")
            expected = np.array(pin.member.contract.canary.actions)
            for k in range(5):
                chunk = live.infer(golden, f"o{k}", 1.0)
                np.testing.assert_allclose(chunk.actions, expected, atol=1e-3)
                served.add((pin.version.number, chunk.served_by))
        assert {(1, "triton"), (2, "triton")} <= served
        while live.begin_episode().share is not Share.CANDIDATE:
            pass
        start_s = time.monotonic()
        file.update(lambda found: releases.roll_back(found, "test"))
        wait_for(lambda: live.begin_episode().version.number == 1 and live.release().candidate is None, "rolled back")
        assert time.monotonic() - start_s < 10.0  # the requirement itself, not a timing of this machine
        second.close()
    finally:
        live.close()
