"""The process of a vehicle's guard, in this one: its folder, its end by an error of its own."""
import gc
import signal
import stat

import pytest

from steadyhand_firmware_bridge.fake_agv import FakeAgv
from steadyhand_firmware_bridge.guard import agv_main
from steadyhand_firmware_bridge.guard.agv_config import AgvGuardConfig


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
