"""Stop plug-ins: byte protocol, pin, keys on a pseudo terminal, and the loop that repeats and never gives up."""
import os
import pty
import termios

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhand.errors import ConfigError, RobotError
from steadyhand_firmware_bridge.estop import source
from steadyhand_firmware_bridge.estop.gpio import ChipInput, SysfsInput
from steadyhand_firmware_bridge.estop.keyboard import KeyboardInput
from steadyhand_firmware_bridge.estop.serial_line import Line, SerialInput

BEATS = bytes([0x55, 0xAA])


# --- serial ---


def test_a_box_that_beats_asks_for_nothing():
    line = Line(0.15)
    assert line.take(b"", 0.0) == "no heartbeat yet"
    for k in range(100):
        assert line.take(BEATS[k % 2 : k % 2 + 1], 0.05 * k) == ""


@pytest.mark.parametrize("stuck", [b"", b"\x55", b"\xaa"])
def test_silence_and_a_stuck_line_are_a_stop(stuck):
    line = Line(0.15)
    line.take(BEATS, 0.0)
    reasons = [line.take(stuck, 0.05 * k) for k in range(2, 8)]
    assert reasons[0] == "" and reasons[-1].startswith("no heartbeat for")


def test_the_button_is_a_stop_at_once_and_beats_release_it():
    line = Line(0.15)
    line.take(BEATS, 0.0)
    assert line.take(b"S", 0.01) == "button pressed" == line.take(b"", 0.02)
    assert line.take(b"\x55", 0.03) == ""
    assert line.take(b"S" + BEATS, 0.04) == "button pressed"  # said, though it was let go within one read


@given(st.binary(min_size=1, max_size=50).filter(lambda b: any(x not in BEATS for x in b)))
def test_any_other_byte_is_a_stop(data):
    line = Line(0.15)
    line.take(BEATS, 0.0)
    assert line.take(data, 0.01)


@given(st.lists(st.tuples(st.binary(max_size=4), st.floats(0, 1)), max_size=40))
def test_without_a_fresh_beat_the_line_never_says_released(parts):
    line, now_s, last_s = Line(0.15), 0.0, None
    for data, dt_s in parts:
        now_s += dt_s
        before = line.beats
        reason = line.take(data, now_s)
        if line.beats > before:
            last_s = now_s
        if reason == "":
            assert last_s is not None and now_s - last_s <= 0.15


def test_a_serial_line_on_a_pseudo_terminal(tmp_path):
    box, line = pty.openpty()
    source_ = SerialInput(os.ttyname(line), timeout_s=0.15)
    os.close(line)
    source_.open()
    assert source_.poll(0.0) == "no heartbeat yet"
    os.write(box, BEATS)
    assert source_.poll(0.01) == "" and source_.poll(0.2) == "no heartbeat for 150 ms"
    os.write(box, BEATS + b"S")
    assert source_.poll(0.3) == "button pressed"
    os.close(box)  # the adapter is pulled out
    assert source_.poll(0.4) == "device lost" == source_.poll(0.5)
    source_.close()


@pytest.mark.parametrize("make", [
    lambda: SerialInput("/nonexistent/tty").open(), lambda: SerialInput("x", baud=7),
    lambda: SerialInput("x", timeout_s=9.0),
    lambda: SysfsInput("/nonexistent/value").open(), lambda: SysfsInput("x", 2),
    lambda: KeyboardInput(os.open("/dev/null", os.O_RDONLY)).open(),
])  # fmt: skip
def test_what_cannot_be_used_is_refused_with_a_reason(make):
    with pytest.raises(ConfigError):
        make()


# --- pin ---


@pytest.fixture
def pin(tmp_path):
    value = tmp_path / "gpio17" / "value"
    value.parent.mkdir()
    value.write_text("1\n")
    source_ = SysfsInput(str(value))
    source_.open()
    yield value, source_
    source_.close()


def test_a_normally_closed_button(pin):
    value, source_ = pin
    assert source_.poll(0.0) == ""
    value.write_text("0\n")
    assert "pressed" in source_.poll(0.0)
    value.write_text("1\n")
    assert source_.poll(0.0) == ""


@pytest.mark.parametrize("content", ["", "x", "2", "11"])
def test_an_unreadable_pin_is_a_stop(pin, content):
    value, source_ = pin
    value.write_text(content)
    assert "unreadable" in source_.poll(0.0)


def test_a_chip_without_its_package_says_what_to_install():
    try:
        import gpiod  # noqa: F401
    except ImportError:
        with pytest.raises(ConfigError, match="pip install 'gpiod"):
            ChipInput("/dev/gpiochip0", 3).open()


# --- keyboard ---


def test_any_key_is_a_stop_and_the_terminal_is_given_back():
    person, terminal = pty.openpty()
    before = termios.tcgetattr(terminal)
    source_ = KeyboardInput(terminal)
    source_.open()
    assert source_.poll(0.0) == ""
    os.write(person, b"q")  # no return key needed
    assert source_.poll(0.1) == "key pressed" and source_.poll(0.2) == ""
    source_.close()
    assert termios.tcgetattr(terminal) == before
    source_ = KeyboardInput(terminal)
    source_.open()
    os.close(person)
    assert source_.poll(0.3) == "terminal closed" and source_.ended
    source_.close()
    os.close(terminal)


# --- the loop ---


class Scripted:
    """An input that says these reasons one after the other, then is over."""

    name, poll_s = "estop:test", 0.0

    def __init__(self, reasons):
        self.reasons, self.opened, self.closed = list(reasons), False, False

    def open(self):
        self.opened = True

    def fileno(self):
        return -1

    def poll(self, now_s):
        return self.reasons.pop(0)

    @property
    def ended(self):
        return not self.reasons

    def close(self):
        self.closed = True


def serve(reasons, stop):
    said, now = [], iter(x * 0.03 for x in range(10_000))
    input_ = Scripted(reasons)
    code = source.run(input_, stop, said.append, lambda: False, lambda: next(now))
    assert input_.opened and input_.closed
    return code, said


def test_a_stop_is_sent_at_once_and_repeated_while_it_lasts():
    sent = []
    code, said = serve(["", "pressed", "pressed", "pressed", "pressed", "", ""], lambda s, r: sent.append((s, r)))
    assert sent[0] == ("estop:test", "pressed") and 2 <= sent.count(("estop:test", "pressed")) < 4
    assert all(reason for _, reason in sent)  # a released button asks for nothing
    assert sent[-1] == ("estop:test", "the plug-in ends") and code == 0
    assert any("STOP: pressed" in s for s in said) and said[-1] == "estop:test: released"


def test_a_plug_in_that_fails_stops():
    sent = []

    class Failing(Scripted):
        ended = False  # and its poll raises

    with pytest.raises(IndexError):
        source.run(Failing([]), lambda s, r: sent.append((s, r)), lambda text: None, lambda: False)
    assert sent == [("estop:test", "the plug-in ends")]


def test_an_undelivered_stop_is_tried_again_at_each_poll_and_said():
    tries = []

    def nobody(name, reason):
        tries.append(reason)
        raise RobotError("no guard")

    code, said = serve(["pressed"] * 5, nobody)
    assert tries == ["pressed"] * 5 + ["the plug-in ends"] and code == 1
    assert any("NOT DELIVERED" in s for s in said)
