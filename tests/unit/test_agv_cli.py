"""What the operator's commands for a vehicle show, send and refuse, by field and value; the guard behind them runs."""
import itertools
import threading
import time

import pytest

from steadyhand.errors import ConfigError
from steadyhand.guard_protocol import AgvState
from steadyhand_cli import agv, drive, main
from steadyhand_firmware_bridge import operator
from steadyhand_firmware_bridge.client import GuardClient
from steadyhand_firmware_bridge.fake_agv import FakeAgv
from steadyhand_firmware_bridge.guard.agv_config import AgvGuardConfig
from steadyhand_firmware_bridge.guard.agv_core import AgvGuard
from steadyhand_firmware_bridge.guard.loop import Loop
from steadyhand_firmware_bridge.guard.server import Server
from tests.support.vda_chain import Chain

NAMES = ["shelf", "table"]


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """Where the command line looks for a guard."""
    monkeypatch.setenv("STEADYHAND_SLOT", "9")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    from steadyhand.slot import current_slot

    return current_slot().socket_dir / "agv"


@pytest.fixture
def guard(folder):
    """A guard of a vehicle in this process, its loop in a thread."""
    folder.parent.mkdir(parents=True, mode=0o700, exist_ok=True)
    vehicle, server = FakeAgv(), Server(folder)
    server.open()
    loop = Loop(server, vehicle.period_s, None)
    config, tokens = AgvGuardConfig(command_age_s=5.0, shell_timeout_s=5.0), itertools.count(7)
    made = AgvGuard(vehicle, config, server.credential, lambda: next(tokens), server.send, time.monotonic())
    thread = threading.Thread(target=loop.run, args=(made,), daemon=True)
    thread.start()
    yield vehicle
    loop.ending = True
    thread.join(10.0)
    server.close()


def test_actions_and_deviations_are_read_from_words():
    assert drive.action("shelf:pick:SOFT:weight=12.5:lhd=fork:gentle=true", NAMES, False) == {
        "at": 1, "on_way": False, "kind": "pick", "blocking": "SOFT",
        "parameters": {"weight": 12.5, "lhd": "fork", "gentle": True},
    }  # fmt: skip
    assert drive.action("table:drop", NAMES, True) == {
        "at": 2, "on_way": True, "kind": "drop", "blocking": "HARD", "parameters": {}
    }
    for wrong in ("shelf", "shelf:", "attic:pick", "shelf:pick:HARD:weight", "shelf:pick:HARD:=1"):
        with pytest.raises(ConfigError, match="one of shelf, table"):
            drive.action(wrong, NAMES, False)
    assert drive.deviations(["table=0.2,0.1"], NAMES) == [[], [], [0.2, 0.1]] and drive.deviations([], NAMES) == []
    for wrong in ("table", "table=x", "table=1,2,3", "attic=1"):
        with pytest.raises(ConfigError, match="--deviation"):
            drive.deviations([wrong], NAMES)


def test_wrong_words_are_refused_before_a_guard_is_asked(folder, capsys):
    for words, says in ((["position"], "give X,Y,HEADING"), (["position", "1,2", "--map", "hall"], "give X,Y,HEADING"),
                        (["position", "1,2,nan", "--map", "hall"], "give X,Y,HEADING"),
                        (["position", "1,2,0"], "--map"), (["pause", "1,2,0"], "takes no pose"),
                        (["pause", "--timeout", "inf"], "--timeout inf"), (["cancel", "--timeout", "nan"], "nan")):  # fmt: skip
        assert main.main(["agv", *words]) == 2 and says in capsys.readouterr().err
    for words in (["state"], ["pause"], ["position", "1,2,0", "--map", "hall"]):  # nobody guards a vehicle here
        assert main.main(["agv", *words]) == 2 and str(folder) in capsys.readouterr().err


def test_an_operators_words_reach_a_guard_and_its_refusals_come_back(guard, folder, capsys):
    def says(*words):
        code = main.main(["agv", *words])
        taken = capsys.readouterr()
        return code, taken.out + taken.err

    assert says("state")[0] == 0 and "other/one" in says("state", "--vehicle", "other/one")[1]
    assert says("pause") == (1, "refused: pause: mode STOPPED: only an armed vehicle has something to pause\n"
                             "  cause: started: arm to begin\n")  # fmt: skip
    code, told = says("factsheet")
    assert code == 1 and "this vehicle's bridge has no factsheet to ask for" in told
    client = GuardClient("commander", commander=True, folder=folder)
    client.connect()
    try:
        assert client.wait(lambda m: isinstance(m, AgvState) and m.at_rest, 10.0)
        assert operator.rearm("auto", folder=folder).ok
        code, told = says("cancel")
        assert code == 1 and "no task is under way" in told
        code, told = says("resume", "--vehicle", "other/one")
        assert code == 1 and "this guard's is fake" in told
        code, told = says("pause")
        assert code == 0 and "at rest" in told
        assert says("resume")[0] == 0
        guard.hold = lambda now_s: ""  # a pause that is lost on its way: it stands, and may drive on
        code, told = says("pause", "--timeout", "0.5")
        assert code == 1 and "not seen within 0.5 s" in told
        assert "mode ARMED_AUTO: stop it first" in says("position", "1,2,0", "--map", "hall")[1]
    finally:
        client.close()


def test_a_drive_that_has_arrived_ends_in_order(guard, folder, capsys):
    watcher = GuardClient("watcher", folder=folder)
    watcher.connect()
    try:
        assert watcher.wait(lambda m: isinstance(m, AgvState) and m.at_rest, 10.0)
        assert operator.rearm("auto", folder=folder).ok
        assert main.main(["drive", "shelf=0.2,0"]) == 0
        assert "arrived at shelf" in capsys.readouterr().out
        state = watcher.wait(lambda m: isinstance(m, AgvState) and m.mode == "STOPPED", 10.0)
        assert [cause.partition(":")[0] for cause in state.causes] == ["disarmed"], state.causes
    finally:
        watcher.close()


def test_what_a_person_is_shown():
    chain = Chain("3.0.0").arm()
    assert chain.drive([-3.0, 0.0], [-2.0, 0.0], actions=[{"at": 1, "kind": "pick"}]).accepted
    chain.run(20.0, lambda: chain.state.report["actions"] == ["pick at n1: RUNNING"])
    chain.unit.vehicle.safety.e_stop = True
    chain.run(2.0, lambda: not chain.state.mode.startswith("ARMED"))
    shown = agv.describe(chain.state)
    for part in ("steadyhand/agv: STOPP", "vehicle's mode AUTOMATIC, battery 80 %", "emergency stop MANUAL",
                 "protective field clear", "in map hall; last node n1", "maps: hall", "task task:", "action: pick at n1",
                 "cause: robot_safety:e_stop"):  # fmt: skip
        assert part in shown, shown
    assert '"e_stop": "MANUAL"' in agv.as_json(chain.state)
