"""The operator's own loops end by name when the guard goes or falls silent; what the gripper holds is said in words."""
from types import SimpleNamespace

import numpy as np
import pytest

from steadyhand.errors import RobotError
from steadyhand.types import Mode, RobotState
from steadyhand_cli import after_stop, teleop
from steadyhand_cli.teleop import Teleop
from steadyhand_firmware_bridge.manual import ManualSession

SILENT = SimpleNamespace(client=SimpleNamespace(connected=False), poll=lambda: None, verdicts=[])


class Keyboard:
    """A terminal without keys."""

    fd, closed = 0, False

    def read(self):
        return ""


@pytest.fixture(params=["home", "teleop"])
def loop(request):
    """A loop over a session."""
    loops = {"home": lambda s: after_stop.drive(s, []), "teleop": lambda s: Teleop(s, Keyboard(), None).run()}
    return loops[request.param]


def test_a_guard_that_has_gone_is_said(loop):
    with pytest.raises(RobotError, match="guard has gone"):
        loop(ManualSession())  # its connection is closed


def test_a_guard_that_says_nothing_is_said(loop, monkeypatch):
    monkeypatch.setattr(after_stop, "SILENT_S", 0.05)
    with pytest.raises(RobotError, match="said nothing for 0.05 s"):
        loop(SILENT)


@pytest.mark.parametrize(("width", "commanded", "said"), [
    (0.040, 0.0, "an object is held, 40 mm"), (0.002, 0.0, "closed on nothing known"), (0.060, 0.060, "not closed"),
    (float("nan"), 0.0, "width is not known"),
])
def test_what_is_held_in_words(width, commanded, said):
    zeros = np.zeros(6)
    state = RobotState(1.0, 1, 1, Mode.STOPPED, zeros, zeros, zeros, zeros, width, commanded, True)
    assert said in after_stop.held(state)


def test_a_wrong_storage_file_keeps_nobody_from_the_arm(monkeypatch, capsys):
    monkeypatch.setenv("STEADYHAND_STORAGE", "/none/storage.yaml")
    assert teleop._writer() is None
    assert "NOT recorded: STEADYHAND_STORAGE=/none/storage.yaml" in capsys.readouterr().err
