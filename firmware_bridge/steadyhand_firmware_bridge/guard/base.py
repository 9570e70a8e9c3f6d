"""What every guard does, whatever it guards: clients, arming, watchdogs of inputs and links, the stop domain.

Carries out nothing itself: `core` (an arm) and `agv_core` (a vehicle) turn the decisions of `steadyhand.guard_state`
into motion. One set of rules, so that a stop, an operator or a peer means the same to both.
"""
from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from typing import Any

from steadyhand import guard_state as gs
from steadyhand import stop_domain
from steadyhand.guard_protocol import Arm, Beat, Heartbeat, Link, Reply, RobotAct, Stop, Verdict
from steadyhand.types import Mode, Reason
from steadyhand.watchdog import InputWatchdog, LinkWatchdog
from steadyhand_firmware_bridge.client import SHELL_HEARTBEAT
from steadyhand_firmware_bridge.guard.acts import RobotActs

TOO_MANY = "too many failed credentials; wait a second"
MANUAL_MODES = (Mode.ARMED_MANUAL, Mode.RECOVERING)
ARM_FAILURES, ARM_FAILURE_REFILL_S = 5, 1.0
SEAT_TIMEOUT_S = 1.0  # a commander speaks many times in this
# Characters of somebody else's text that are passed on. The wire takes 4096 bytes a text and 65536 a packet: what is
# cut here can always be sent, and read by every client.
NAME_MAX, TEXT_MAX = 80, 500

Answer = Callable[[Any, Any], None]  # (client, message)


class GuardBase:
    """Subclasses add `_carry_out` (a decision), `_snapshot` (what is in progress) and `_command` (a client's command).

    `config` has at least: name, inputs, moving_inputs, link_timeout_s, peers, peer_timeout_s.
    """

    def __init__(self, config: Any, credential: str, fresh_token: Callable[[], int], answer: Answer, now_s: float):
        self.config = config
        self.credential, self.fresh_token, self.answer = credential, fresh_token, answer
        self.state = gs.initial(fresh_token(), now_s)
        self.inputs = InputWatchdog(dict(config.inputs), dict(config.moving_inputs))
        self.links = LinkWatchdog(config.link_timeout_s)
        self.domain = stop_domain.StopDomain(tuple(config.peers), config.peer_timeout_s)
        self.refused: dict[str, int] = {}
        self.accepted = 0
        self.seq = 0
        self.scheduler = "SCHED_OTHER"
        self.late_cycles = 0
        self._arm_asked: tuple[Any, str] | None = None
        self._arm_commands = False  # whether who asked shall command
        self._commander: Any = None  # the shell's connection
        self._seat_s = now_s  # when that connection was last heard of
        self._manual: Any = None  # the operator's that armed and commands; then the shell may not
        self._boot, self._stops, self._stop_cause = fresh_token(), 0, ""
        self._last_stop: dict[str, Any] = {}
        self._shell_s = now_s
        self._arm_credit, self._arm_credit_s = float(ARM_FAILURES), now_s
        self._acts = RobotActs(None)

    # --- what the loop needs beside `cycle`, `handle` and the stops ---

    commands: tuple[type, ...] = ()  # the messages that `_command` takes, of the commander only
    late_limit_s = 0.040  # a cycle that begins so late is a fault
    pending = False  # whether a command waits to be judged by `admit`

    def open(self, now_s: float) -> None:
        """Begin to connect."""
        raise NotImplementedError

    def readable(self) -> list[Any]:
        """Sockets of the robot whose input is wanted at once, by `service`."""
        raise NotImplementedError

    def service(self, now_s: float) -> None:
        """Take what the robot has sent."""
        raise NotImplementedError

    @property
    def moving(self) -> bool:
        """Whether motion is under way."""
        raise NotImplementedError

    @property
    def feedback_s(self) -> float | None:
        """When the newest state came, for a loop that keeps its phase to the controller's; None: it need not."""
        return None

    @property
    def settled(self) -> bool:
        """Whether a stop has run its course."""
        return not self.state.armed and self.state.arming is None and self.state.stopping is None

    # --- what a subclass does ---

    def _carry_out(self, decision: gs.Decision, now_s: float) -> None:
        raise NotImplementedError

    def _snapshot(self) -> dict:
        raise NotImplementedError

    def _command(self, client: Any, message: Any, now_s: float) -> None:
        raise NotImplementedError

    # --- decisions ---

    def _step(self, event: gs.Event, now_s: float) -> None:
        before = self.state.mode
        self.state, decisions = gs.step(self.state, event, now_s)
        if before in MANUAL_MODES and not self.state.armed:
            self.inputs.renew()  # hand-back to AUTO needs observations made after the person's last motion
        if stop_domain.begins_here(event, decisions):
            first = next((d.cause for d in decisions if isinstance(d, gs.Stop)), "stop_requested")
            self._stops, self._stop_cause = self._stops + 1, first
        for decision in decisions:
            self._carry_out(decision, now_s)

    def _note_stop(self, reaction: gs.Reaction, cause: str) -> None:
        """Times of a stop, for measurements. One that escalates is the same stop: its first cause, its first time."""
        if self._last_stop.get("received_s") == self.state.stop_since_s:
            self._last_stop["reaction"] = reaction.name
            return
        number = self._last_stop.get("number", 0) + 1
        self._last_stop = {
            "number": number, "cause": cause, "reaction": reaction.name, "received_s": self.state.stop_since_s
        }

    # --- clients ---

    def stop_requests(self, stops: list[tuple[Stop, int]], now_s: float) -> None:
        """From the stop socket: answered before anything else."""
        for stop, count in stops:
            source, reason = stop.source[:NAME_MAX], stop.reason[:TEXT_MAX]
            self._step(gs.StopRequest(source, reason, self._snapshot(), count), now_s)

    def fault(self, name: str, detail: str, now_s: float) -> None:
        """A fault found outside: the loop, or the process being asked to end."""
        self._step(gs.FaultRaised(name, detail, self._snapshot()), now_s)

    def commander_changed(self, client: Any, now_s: float) -> None:
        """A commander came (`client`) or went (None)."""
        if client is None and self.state.armed and self._manual is None:
            self.fault("shell_lost", "the commander's connection ended", now_s)
        self._commander, self._seat_s = client, now_s
        if self._manual is None:
            self._shell_s = now_s

    def seat_free(self, now_s: float) -> bool:
        """Whether a newcomer may become the commander: nobody is, or who is has said nothing for long.

        A process that hangs, or a stranger that only connected, must not keep the shell out for ever.
        """
        return self._commander is None or now_s - self._seat_s > SEAT_TIMEOUT_S

    def handle(self, client: Any, message: Any, now_s: float) -> None:
        """One message of a client that has said hello."""
        if client is self.commander:
            self._shell_s = now_s
        if client is self._commander:
            self._seat_s = now_s
        match message:
            case Stop():
                self.stop_requests([(message, 1)], now_s)
                self.answer(client, Reply(message.request_id, True, "stopping", self.state.causes()))
            case Heartbeat():
                if client is self._commander and message.name != SHELL_HEARTBEAT:
                    self.inputs.beat(message.name, message.ok, message.detail[:TEXT_MAX], now_s)
            case Link():
                self.links.beat(client, message.name or "unnamed", message.in_control, now_s)
                if message.request_id:
                    said = "in control" if message.in_control else "released"
                    self.answer(client, Reply(message.request_id, True, said))
            case Arm():
                self._on_arm(client, message, now_s)
            case RobotAct():
                self._on_act(client, message, now_s)
            case _ if isinstance(message, self.commands):
                if self._may_command(client, message.trace_id):
                    self._command(client, message, now_s)
            case _:
                taken = ", ".join(kind.__name__ for kind in self.commands)
                detail = f"{type(message).__name__}: as commands this guard takes {taken}"
                self._refuse(client, getattr(message, "trace_id", ""), Reason.MALFORMED, detail)

    def forget(self, client: Any, now_s: float) -> None:
        """A client has gone."""
        self._acts.forget(client)
        if self._arm_asked is not None and self._arm_asked[0] is client:
            self._arm_asked = None
            if self.state.arming is not None:  # nobody is armed behind the back of who asked and gave up
                self.fault("shell_lost", "the operator's connection ended while arming", now_s)
        if client is self._manual:
            self._manual = None
            self.fault("shell_lost", "the connection of the operator in command ended", now_s)
        operator = self.links.gone(client)
        if operator:
            self.fault("operator_link", f"{operator}: connection ended", now_s)

    @property
    def commander(self) -> Any:
        """Who may command now: the operator that armed for itself, else the shell."""
        return self._commander if self._manual is None else self._manual

    # --- stop domain ---

    def peer_beat(self, beat: Beat, now_s: float) -> None:
        """A beat of another guard."""
        news = self.domain.hear(beat, now_s)
        if news:
            self.fault(stop_domain.PEER, news, now_s)

    def beat(self) -> Beat:
        """What the other guards are told."""
        unsafe = stop_domain.unsafe(self.state.holding)
        return Beat(self.config.name, self._boot, self._stops, self._stop_cause, unsafe, self._zone())

    def _zone(self) -> str:
        """What of this robot is, or is about to be, where arm and vehicle meet; empty when it is clear."""
        raise NotImplementedError

    def _may_command(self, client: Any, trace_id: str) -> bool:
        if client is self.commander:
            return True
        self._refuse(client, trace_id, Reason.SECOND_COMMANDER, "this connection is not the commander's")
        return False

    def _refuse(self, client: Any, trace_id: str, reason: Reason, detail: str) -> None:
        self.refused[reason.value] = self.refused.get(reason.value, 0) + 1
        self.answer(client, Verdict(trace_id, False, reason.value, detail[:TEXT_MAX]))

    # --- arming ---

    def _on_arm(self, client: Any, message: Arm, now_s: float) -> None:
        def refuse(why: str) -> None:
            self.answer(client, Reply(message.request_id, False, why))

        if message.mode == "disarm":
            self._step(gs.DisarmRequest("operator", self._snapshot()), now_s)
            return self.answer(client, Reply(message.request_id, True, "disarmed", self.state.causes()))
        if message.mode not in gs.ARM_MODES:
            return refuse(f"mode {message.mode[:20]!r}: give one of {', '.join((*gs.ARM_MODES, 'disarm'))}")
        verified = self._verified(message.credential, now_s)
        if verified is None:
            return refuse(TOO_MANY)
        if self._arm_asked is not None:
            return refuse("an arming is under way")
        if self._acts.busy:
            return refuse("an act on the robot is under way")
        if message.command and message.mode == "auto":
            return refuse("an operator's connection commands in manual and recover only")
        self._arm_asked, self._arm_commands = (client, message.request_id), message.command
        return self._step(gs.ArmRequest(gs.ARM_MODES[message.mode], verified, self.fresh_token()), now_s)

    def _verified(self, credential: str, now_s: float) -> bool | None:
        """Whether the credential is ours; None when too many wrong ones came lately."""
        self._arm_credit = min(ARM_FAILURES, self._arm_credit + (now_s - self._arm_credit_s) / ARM_FAILURE_REFILL_S)
        self._arm_credit_s = now_s
        if self._arm_credit < 1.0:
            return None
        verified = hmac.compare_digest(credential.encode(), self.credential.encode())
        if not verified:
            self._arm_credit -= 1.0
        return verified

    def _on_act(self, client: Any, message: RobotAct, now_s: float) -> None:
        """Power, brakes, unlocking: an authenticated operator's word, and only while nothing is armed or stopping."""
        verified = self._verified(message.credential, now_s)
        refusal = TOO_MANY if verified is None else "" if verified else "credential refused"
        if not refusal and (self.state.armed or self.state.arming is not None or self.state.stopping is not None):
            refusal = f"mode {self.state.mode.value}: stop and disarm first"
        refusal = refusal or self._acts.begin(client, message, now_s)
        if refusal:
            self.answer(client, Reply(message.request_id, False, refusal[:TEXT_MAX], self.state.causes()))

    def _answer_acts(self) -> None:
        """Once a cycle: tell who asked how the act ended."""
        for client, reply in self._acts.ended():
            self.answer(client, reply)

    def _reply_arm(self, reply: Reply) -> None:
        if self._arm_asked is not None:
            (client, request_id), self._arm_asked = self._arm_asked, None
            self.answer(client, Reply(request_id, reply.ok, reply.message, reply.causes, reply.snapshot))

    def _armed(self, mode: Mode, snapshot: Mapping[str, Any]) -> None:
        if self._arm_commands and self._arm_asked is not None:
            self._manual = self._arm_asked[0]
        self._reply_arm(Reply("", True, f"armed: {mode.value}", [], dict(snapshot)))

    def _arm_refused(self, causes: tuple[str, ...]) -> None:
        self._reply_arm(Reply("", False, "refused", list(causes), dict(self.state.snapshot)))

    # --- what is published ---

    def counters(self) -> dict[str, int]:
        """Everything counted, under one level of names."""
        counts = dict(self.state.counts)
        counts.update({f"refused:{reason}": n for reason, n in self.refused.items()})
        counts.update(accepted=self.accepted, cycles=self.seq, late_cycles=self.late_cycles)
        return counts
