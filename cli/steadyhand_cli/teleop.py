"""`steadyhand teleop | takeover`: a person moves the arm by keyboard, in command of a manual arming of its own."""
from __future__ import annotations

import argparse
import getpass
import secrets
import select
import sys
import time

from steadyhand import cell
from steadyhand.errors import ConfigError, RobotError
from steadyhand.intervention import Recorder
from steadyhand.jog import MODES, Jog, JogStep
from steadyhand.slot import current_slot
from steadyhand.types import RobotState
from steadyhand_cli.after_stop import check_silence
from steadyhand_cli.keys import HELP, KeyMap, Terminal
from steadyhand_cli.operate import print_refusal
from steadyhand_firmware_bridge import operator, storage
from steadyhand_firmware_bridge.manual import ManualSession, request_realtime
from steadyhand_firmware_bridge.recording import InterventionWriter
from steadyhand_firmware_bridge.storage import Store

SHOWN_S = 0.2


def add_arguments(parser: argparse.ArgumentParser, name: str) -> None:
    if name == "teleop":
        parser.add_argument("--mode", choices=["manual", "recover"], default="manual")
    else:
        parser.add_argument("--node", action="store_true", help="for teleop_node: gamepad and jog topics, no keyboard")
    parser.add_argument("--no-record", action="store_true", help="do not write out/interventions/")


def run(args: argparse.Namespace) -> int:
    if args.command == "takeover" and args.node:
        return _take_over_for_node()
    writer = None if args.no_record else _writer()
    request_realtime()
    try:
        with Terminal() as terminal, ManualSession("teleop") as session:
            teleop = Teleop(session, terminal, writer)
            session.on_state = lambda state: teleop.record()  # so that the mode before and its end are known
            reply = session.take_over() if args.command == "takeover" else session.take(args.mode)
            if not reply.ok:
                return print_refusal(reply)
            print(f"armed: {session.state.mode.value}\n{HELP}", flush=True)
            return teleop.run()
    finally:
        if writer is not None:
            writer.close()
            if writer.written:
                print(f"recorded: {writer.newest} ({writer.dropped} steps dropped)")
            if writer.refused or writer.errors:
                print(f"NOT recorded in whole: {writer.store.why or 'refused by the disk or its budget'}", file=sys.stderr)


def _writer() -> InterventionWriter | None:
    """None where its configuration is wrong: nobody is kept from the arm by that."""
    try:
        return InterventionWriter(Store(current_slot().out_dir, "interventions", storage.load()))
    except ConfigError as error:
        print(f"NOT recorded: {error}", file=sys.stderr)
        return None


def _take_over_for_node() -> int:
    """The same takeover for who commands through guard_node: AUTO stopped under its name, rest, MANUAL armed."""
    with ManualSession("teleop") as session:
        session.stand()
    reply = operator.rearm("manual")
    if not reply.ok:
        return print_refusal(reply)
    print("armed: ARMED_MANUAL, for teleop_node; hand back: steadyhand stop, then steadyhand rearm", flush=True)
    return 0


class Teleop:
    """The loop: keys in, chunks out, everything recorded."""

    def __init__(self, session: ManualSession, terminal: Terminal, writer: InterventionWriter | None):
        self.session, self.terminal, self.writer = session, terminal, writer
        self.keys, self.recorder = KeyMap(), Recorder()
        self.jog = Jog(f"teleop-{secrets.token_hex(2)}")
        self._by = getpass.getuser()
        self._shown_s, self._shown = 0.0, ""

    def run(self) -> int:
        """Until the person leaves (0) or the guard disarms (1). Raises RobotError when it goes or falls silent."""
        self.session.on_state = None  # from here on with the command
        heard_s = time.monotonic()
        while True:
            if self.session.client.connected:  # if not, `poll` says so
                select.select([self.session.client, self.terminal.fd], [], [], 0.05)
            now_s = time.monotonic()
            for key in self.terminal.read():
                if self._act(self.keys.press(key, now_s)):
                    return self._leave()
            if self.terminal.closed:
                return self._leave()
            state = self.session.poll()
            for verdict in self.session.verdicts:
                self.jog.on_verdict(verdict)
            if state is None:
                check_silence(heard_s)
                continue
            heard_s = now_s
            command = self.keys.command(now_s)
            step = self.jog.step(state, command, now_s)
            if step.chunk is not None:
                self.session.send_chunk(step.chunk)
            self.record(command, step.status)
            self._show(state, step, now_s)
            if state.mode not in MODES:
                print(f"\n{state.mode.value}: {'; '.join(state.causes)}")
                return 1

    def record(self, command=None, status: str = "") -> None:
        """The newest state, and what was asked of it."""
        records = self.recorder.step(self.session.state, command, status=status, by=self._by)
        if self.writer is not None:
            self.writer.put(records)

    def _act(self, act: str) -> bool:
        """Whether to leave."""
        if act == "stop":
            operator.stop("teleop", "space bar")
        elif act in ("open", "close"):
            try:
                self.session.set_gripper(cell.GRIPPER_OPEN_M if act == "open" else 0.0)
            except RobotError as error:
                print(f"\n{error}")
        return act == "leave"

    def _leave(self) -> int:
        self.session.release()
        self.record()
        print("\ndisarmed")
        return 0

    def _show(self, state: RobotState, step: JogStep, now_s: float) -> None:
        if now_s - self._shown_s < SHOWN_S:
            return
        self._shown_s = now_s
        text = f"{state.mode.value} {self.keys.frame} {self.keys.speed:.0%} joint {self.keys.joint + 1}  {step.status}"
        if text != self._shown:
            self._shown = text
            sys.stdout.write(f"\r{text[:100]:<100}")
            sys.stdout.flush()
