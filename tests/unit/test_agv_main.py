"""The process of a vehicle's guard, in this one: its folder, its end by an error of its own."""
import gc
import signal
import stat
from pathlib import Path

import pytest

from steadyhand_firmware_bridge.agv_ros import config as ros_config
from steadyhand_firmware_bridge.fake_agv import FakeAgv
from steadyhand_firmware_bridge.guard import agv_main
from steadyhand_firmware_bridge.guard.agv_config import WEAKEST, AgvGuardConfig, load

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def as_before():
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
    gc.enable()  # the loop runs without
    gc.unfreeze()


class Breaking(FakeAgv):
    """Its `poll` has an error from the fifth time on; `stop` too, if `wholly`."""

    polls, wholly = 0, False

    def poll(self, now_s):
        self.polls += 1
        if self.polls >= 5:
            raise RuntimeError("poll broke")
        super().poll(now_s)

    def stop(self, now_s):
        super().stop(now_s)
        if self.wholly:
            raise RuntimeError("stop broke")


@pytest.mark.parametrize("wholly", [False, True])
def test_an_error_of_the_bridge_ends_the_process_with_one_stop_more(tmp_path, capsys, wholly):
    agv = Breaking()
    agv.wholly = wholly
    assert agv_main.serve(agv, AgvGuardConfig(), tmp_path / "slot", "other") == 3
    said = capsys.readouterr()
    assert agv.stops == 1 and "poll broke" in said.err and ("stop broke" in said.err) == wholly
    assert "ended: mode STOPPED" in said.out
    assert [path.name for path in (tmp_path / "slot").iterdir()] == ["guard.lock"]


def test_the_slots_folder_is_made_private_too(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("STEADYHAND_SLOT", "0")
    monkeypatch.setattr(agv_main, "serve", lambda agv, config, folder, sched: folder)
    assert agv_main.main(["--bridge", "fake"]) == tmp_path / "run" / "slot0" / "agv"
    assert [stat.S_IMODE(p.stat().st_mode) for p in (tmp_path / "run", tmp_path / "run" / "slot0")] == [0o700] * 2


def test_a_runtime_folder_that_is_somebody_elses_is_refused(tmp_path, monkeypatch, capsys):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "theirs")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("STEADYHAND_SLOT", "0")
    assert agv_main.main(["--bridge", "fake"]) == 1
    assert f"{tmp_path / 'run'}: not a folder of user" in capsys.readouterr().err


@pytest.mark.parametrize(("arguments", "taken"), [
    (["--bridge", "fake"], True), (["--bridge", "vda5050"], False), (["--bridge", "vda5050", "--weaker-limits"], True),
])  # fmt: skip
def test_weaker_limits_are_for_a_vehicle_that_is_not_real(tmp_path, monkeypatch, capsys, arguments, taken):
    path = tmp_path / "agv.yaml"
    path.write_text(
        "vehicle: {manufacturer: a, serial_number: b}\nguard: {shell_timeout_s: 5.0, inputs: {agent: 0.6}, link_timeout_s: 0.5}"
    )
    monkeypatch.setattr(agv_main, "serve", lambda *_: 0)
    code = agv_main.main([*arguments, "--config", str(path), "--socket-dir", str(tmp_path / "slot")])
    said = capsys.readouterr().err
    assert "shell_timeout_s=5.0 (promised: 0.5); inputs.agent=0.6 (promised: 0.5)" in said and "link_timeout" not in said
    assert code == (0 if taken else 1) and ("or say --weaker-limits" not in said) == taken


def test_what_is_shipped_for_vehicles_keeps_what_is_promised():
    assert AgvGuardConfig().weakened() == []
    assert [load(ROOT / "config" / name).guard.weakened() for name in ("agv.yaml", "cell_agv.yaml")] == [[], []]
    assert ros_config.load(str(ROOT / "config" / "agv_ros.yaml")).guard.weakened() == []
    for name in set(WEAKEST) - {"inputs", "moving_inputs"}:
        made = [AgvGuardConfig(**{name: WEAKEST[name] * k}).weakened() != [] for k in (1.0, 1.001)]
        assert made == [False, True], name
