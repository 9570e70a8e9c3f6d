"""The worker's loop: commands in, the gripper's state out, over one socket pair. Ends when the guard has gone."""
from __future__ import annotations

import json
import select
import socket
import time
from collections import Counter
from dataclasses import replace

from steadyhand.errors import ConfigError, RobotError
from steadyhand_firmware_bridge.robotiq.config import RobotiqConfig
from steadyhand_firmware_bridge.robotiq.session import REGISTERS, Session
from steadyhand_firmware_bridge.robotiq.state import ACTIVE, GripperState

ACTIVATION_LIMIT_S = 10.0  # the fingers run through their stroke twice
BACK_OFF_MAX_S = 2.0


class Worker:
    """`pair` is a SEQPACKET socket to the guard; its packets: {"width_m", "stamp_s"}, {"activate": true}, {"drop": true}."""

    def __init__(self, config: RobotiqConfig, pair: socket.socket, restarts: int = 0):
        self._config, self._pair = config, pair
        self._pair.setblocking(False)
        self._counters: Counter = Counter(restarts=restarts)
        self._session: Session | None = None
        self._link = "connecting"
        self._back_off_s, self._retry_s = config.back_off_s, 0.0
        self._wanted: tuple[float, float] | None = None  # width, stamp
        self._activate = False
        self._act, self._act_until_s, self._act_seen = "", 0.0, False
        self._values: dict[str, int | None] = dict.fromkeys(REGISTERS)
        self.ended = False

    def run(self) -> None:
        """Until the guard has gone."""
        next_s = time.monotonic()
        while not self.ended:
            self._turn()
            next_s = max(next_s + self._config.poll_s, time.monotonic())
            while not self.ended and (left_s := next_s - time.monotonic()) > 0:
                if select.select([self._pair], [], [], left_s)[0]:
                    self._serve()
        if self._session is not None:
            self._session.close()

    def _turn(self) -> None:
        """One reading of everything, commands between two questions."""
        self._connect()
        if self._session is not None:
            try:
                for name in REGISTERS:
                    self._take_packets()
                    self._write()
                    self._values[name] = self._session.read(name)
                self._link, self._back_off_s = "", self._config.back_off_s
                self._watch_activation()
            except RobotError as error:
                self._lost(str(error))
        self._report()

    def _serve(self) -> None:
        """Commands that came while waiting: written at once."""
        self._take_packets()
        try:
            self._write()
        except RobotError as error:
            self._lost(str(error))
            self._report()

    def _connect(self) -> None:
        now_s = time.monotonic()
        if self._session is not None or now_s < self._retry_s:
            return
        self._values = dict.fromkeys(REGISTERS)
        try:
            self._session = Session(
                self._config.host, self._config.port, self._config.answer_timeout_s, self._counters
            )
        except RobotError as error:
            self._lost(str(error))

    def _lost(self, why: str) -> None:
        self._session, self._link = None, why
        if self._act == "under way":
            self._act = f"the connection was lost: {why}"
        self._retry_s = time.monotonic() + self._back_off_s
        self._back_off_s = min(BACK_OFF_MAX_S, 2.0 * self._back_off_s)

    def _take_packets(self) -> None:
        """Everything that the guard has sent: the newest command counts."""
        while True:
            try:
                packet = self._pair.recv(4096)
            except BlockingIOError:
                return
            except OSError:
                packet = b""
            if not packet:
                self.ended = True
                return
            message = json.loads(packet)
            if "width_m" in message:
                self._counters["superseded"] += self._wanted is not None
                self._wanted = message["width_m"], message["stamp_s"]
            elif "drop" in message:
                self._counters["dropped_by_stop"] += self._wanted is not None
                self._wanted = None
            else:
                self._activate = True

    def _write(self) -> None:
        """The commanded opening, if it is fresh and the gripper ready; an activation that was asked for."""
        if self._activate:
            self._activate = False
            self._counters["activations"] += 1
            self._act = "no connection" if self._session is None else "under way"
            if self._session is not None:
                self._act_until_s, self._act_seen = time.monotonic() + ACTIVATION_LIMIT_S, False
                self._session.write({"ACT": 0})
                self._session.write({"ACT": 1})
        if self._wanted is None:
            return
        (width_m, stamp_s), self._wanted = self._wanted, None
        if time.monotonic() - stamp_s > self._config.command_age_s:
            self._counters["expired"] += 1
        elif self._session is None or self._values["STA"] != ACTIVE:
            self._counters["not_ready"] += 1
        else:
            try:
                count = self._config.count_of(width_m)
            except ConfigError:
                self._counters["out_of_range"] += 1
                return
            speed, force = self._config.speed_count, self._config.force_count
            self._session.write({"POS": count, "SPE": speed, "FOR": force, "GTO": 1})

    def _watch_activation(self) -> None:
        if self._act != "under way":
            return
        self._act_seen |= self._values["STA"] in (0, 1)
        if self._act_seen and self._values["STA"] == ACTIVE:
            self._act = "done"
        elif time.monotonic() > self._act_until_s:
            said = f"STA {self._values['STA']}, FLT {self._values['FLT']}"
            self._act = f"not done within {ACTIVATION_LIMIT_S:g} s: {said}"

    def _report(self) -> None:
        values = {name.lower(): value for name, value in self._values.items()}
        state = GripperState(time.monotonic(), self._link, **values, act=self._act)
        try:
            self._pair.send(replace(state, counters=dict(self._counters)).encode())
        except BlockingIOError:
            self._counters["reports_dropped"] += 1  # the guard reads each cycle: it is frozen, or ending
        except OSError:
            self.ended = True
