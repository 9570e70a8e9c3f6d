"""One simulated cell: virtual time, the event queue, and everything in it. `run` plays a schedule of injections."""
from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from steadyhand import cell, ur5
from steadyhand.guard_protocol import Beat, Heartbeat, Reply, State, Stop, Verdict
from steadyhand_cli.dst import coast
from steadyhand_cli.dst.actors import BEAT, Agent, Operator, Shell, spoilt
from steadyhand_cli.dst.cell import INPUTS_S, mix_of
from steadyhand_cli.dst.checker import Checker
from steadyhand_cli.dst.clock import BEAT_AT_S, BEAT_CYCLES, INPUT_AT_S, MOVING_BEAT_CYCLES, Clock
from steadyhand_cli.dst.host import CREDENTIAL, Client, Host
from steadyhand_cli.dst.links import Link
from steadyhand_cli.dst.mission import Mission
from steadyhand_cli.dst.people import Person
from steadyhand_cli.dst.plant import MEASURED, TARGET, TARGET_SPEED
from steadyhand_cli.dst.robot import SimRobot
from steadyhand_cli.dst.vehicle import TO_ARM, TO_VEHICLE, Vehicle
from steadyhand_cli.dst.vehicle import LINKS as VEHICLE_LINKS
from steadyhand_firmware_bridge.guard.config import GuardConfig

LINKS = ("agent-shell", "shell-guard", "guard-agent", "verdicts", "operator-stop", "operator-arm", "operator-guard")
STATE_LATENCY_S = 0.004
FAST_RAD_S = 0.1
WATCH_CYCLES = 32  # between looks at whether the arm moves well


class World:
    """Everything of one episode. `blocks` off: each cycle is simulated, for comparison."""

    def __init__(self, seed: int, blocks: bool = True):
        self.seed, self.blocks = seed, blocks
        self.clock = Clock(ur5.SERVO_PERIOD_CB3_S)
        self.mix = mix_of(seed)
        self.beat_cycles = MOVING_BEAT_CYCLES if self.mix.moving_inputs else BEAT_CYCLES
        config = GuardConfig(**self.mix.guard())
        self.checker = Checker(self.clock.period_s, INPUTS_S, config.gripper_max_width_m, CREDENTIAL, self.mix)
        self.robot = SimRobot(self.clock, cell.HOME_Q_RAD, self.rng("robot"))
        self.host = Host(self.clock, self.robot, self.checker, config, self.rng("host"), self._on_answer)
        self.robot.command_gripper = self._gripper(self.robot.command_gripper)
        names = (*LINKS, *VEHICLE_LINKS) if self.mix.vehicle else LINKS
        self.links = {name: Link(name, self.rng(name), self.at, self.count) for name in names}
        self.agent, self.shell = Agent(self, self.rng("agent")), Shell(self)
        self.operator = Operator(self, self.rng("operator"))
        self.agent_until_s = float("-inf")  # it runs, and its heartbeats come late or not at all
        self.agent_beat_cycles = 0  # until then, so many between two of them; 0: none comes
        self.estimator_until_s = self.unwell_until_s = float("-inf")  # silent; says that it is not well
        self.mission: Mission | None = None  # the product's agent commands
        self.mission_due, self.missions = False, 0
        self.person: Person | None = None  # an operator with a connection of its own
        self.people = 0
        self.injected: Counter[str] = Counter()
        self.fast = 0  # injections that struck above 0.1 rad/s
        self.block_cycles = 0
        self.single_until = 0  # no block is tried before this cycle
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._forgotten: set[int] = set()
        self.watching: list[Callable[[], None]] = []  # called every `WATCH_CYCLES`, once
        self._number = 0
        self._stalled_view: State | None = None
        self.vehicle = Vehicle(self, self.rng("vehicle")) if self.mix.vehicle else None
        self.host.on_beat = self._to_vehicle

    def rng(self, name: str) -> random.Random:
        """A stream of random numbers of its own."""
        return random.Random(f"{self.seed}/{name}")

    def at(self, time_s: float, act: Callable[[], None]) -> int:
        """Do something then; at once (in this cycle) when it has passed. The number of this is for `forget`."""
        self._number += 1
        heapq.heappush(self._events, (max(time_s, self.clock.now_s), self._number, act))
        return self._number

    def forget(self, number: int) -> None:
        """What was to be done is not to be done any more, and interrupts nothing."""
        self._forgotten.add(number)

    @property
    def next_event_s(self) -> float:
        """When something happens next that is not routine."""
        events, forgotten = self._events, self._forgotten
        while events and events[0][1] in forgotten:
            forgotten.discard(heapq.heappop(events)[1])
        return events[0][0] if events else float("inf")

    def when_fast(self, act: Callable[[], None]) -> None:
        """Do something when the arm moves well: looked for on a grid of times, which interrupts no block."""
        self.watching.append(act)

    @property
    def until_watch(self) -> int:
        """Cycles to the next look."""
        return WATCH_CYCLES - self.clock.cycle % WATCH_CYCLES

    def _watch(self) -> None:
        waiting, self.watching = self.watching, []
        for act in waiting:
            act()

    def count(self, kind: str) -> None:
        """A fault has struck."""
        self.injected[kind] += 1
        self.fast += self.fast_now

    @property
    def fast_now(self) -> bool:
        """Armed, and commanded to move well."""
        return self.checker.armed and self.checker.setpoints.speed_rad_s > FAST_RAD_S

    # --- time ------------------------------------------------------------------------------------------------------
    def begin(self) -> None:
        """Start all processes."""
        self.host.start(self.clock.now_s)
        self.shell.connect()
        self.agent.start(self.clock.now_s)

    def run_until(self, end_s: float) -> None:
        """Cycle until then, or until something is wrong."""
        while self.clock.now_s < end_s and not self.checker.violations:
            self.cycle()

    def cycle(self) -> None:
        """One control cycle, or a block of undisturbed ones."""
        if self.watching and self.clock.cycle % WATCH_CYCLES == 0:
            self._watch()
        if self.blocks:
            count = coast.advance(self)
            if count:
                self.block_cycles += count
                return
        clock, host, robot = self.clock, self.host, self.robot
        now_s = clock.now_s = clock.at(clock.cycle)
        host.cycle(now_s)
        guard = host.guard
        armed = guard is not None and guard.state.armed
        self.operator.watch(armed, now_s)
        self._beats(now_s)
        if self.vehicle is not None:
            self.vehicle.cycle(now_s)
        clock.cycle += 1
        end_s = clock.at(clock.cycle)
        events = self._events
        while self.next_event_s < end_s:
            time_s, _, act = heapq.heappop(events)
            clock.now_s = max(clock.now_s, time_s)
            act()
        k, program = robot.tick_count, robot.program
        robot.tick()
        if robot.program is not program and host.guard is not None:
            self.checker.program_started(now_s)
        if k > robot.frozen_until:
            self._judge_controller(now_s, robot.arrived_tick == k)
        if self.vehicle is not None:
            shared = robot.plant.x[MEASURED] if self.vehicle.rolls_near else None
            self.checker.cell.together(now_s, self.checker.armed, shared)
        self._line_faults()
        clock.now_s = end_s

    def _judge_controller(self, now_s: float, arrived: bool) -> None:
        robot, program, x = self.robot, self.robot.program, self.robot.plant.x
        obeys = program is not None and program.alive and robot.obeys
        self.checker.controller.tick(
            now_s, arrived, robot.inputs, program.token if obeys else None, program.goal_rad if obeys else None,
            x[TARGET], float(abs(x[TARGET_SPEED]).max()),
        )  # fmt: skip

    def _beats(self, now_s: float) -> None:
        """The heartbeats of all processes: routine, in every cycle."""
        host, shell = self.host, self.shell
        if not shell.well_now(now_s) or shell.client is None or self.links["shell-guard"].blocked(now_s):
            return
        self.clock.now_s = now_s + BEAT_AT_S
        host.deliver(shell.client, BEAT, now_s + BEAT_AT_S)
        if self.clock.cycle % self.beat_cycles == 0 and not self.links["agent-shell"].blocked(now_s):
            self.clock.now_s = now_s + INPUT_AT_S
            if self.agent.well_now(now_s) and self._agent_beats(now_s):
                host.deliver(shell.client, Heartbeat("agent", True), now_s + INPUT_AT_S)
            if now_s > self.estimator_until_s:
                well = now_s > self.unwell_until_s
                host.deliver(shell.client, Heartbeat("estimator", well, "" if well else "lost"), now_s + INPUT_AT_S)

    def _agent_beats(self, now_s: float) -> bool:
        slow = self.agent_beat_cycles
        return now_s > self.agent_until_s or slow > 0 and self.clock.cycle % slow == 0

    def _line_faults(self) -> None:
        for name, line in (("guard-controller", self.robot.up), ("controller-guard", self.robot.down)):
            for mode in sorted(line.hit & line.pending):
                self.count(f"{name}:{mode}")
            line.pending -= line.hit
            line.hit.clear()

    # --- messages --------------------------------------------------------------------------------------------------
    def command(self, message: Any, now_s: float) -> None:
        """From the agent, through the shell, to the guard."""
        self.links["agent-shell"].send(message, now_s, self._relay)

    def _to_vehicle(self, beat: Beat) -> None:
        link, now_s = self.links[TO_VEHICLE], self.clock.now_s
        if link.clear(now_s):
            return self.vehicle.hears(beat, now_s)
        return link.send(beat, now_s, lambda p: self.vehicle.hears(p, self.clock.now_s))

    def to_arm(self, packet: Any, now_s: float) -> None:
        """A datagram to the socket of the arm's guard."""
        link, self.clock.now_s = self.links[TO_ARM], now_s
        if link.clear(now_s):
            return self.host.peer(packet, now_s)
        return link.send(packet, now_s, lambda p: self.host.peer(p, self.clock.now_s))

    def begin_mission(self) -> None:
        """Let the product's agent command, from rest, for one goal."""
        self.mission_due = False
        self.mission = Mission(self, self.rng(f"mission{self.missions}"))

    def _relay(self, message: Any) -> None:
        self.shell.relay(message)

    def view(self, now_s: float) -> State | None:
        """The newest state that has reached the agent."""
        link = self.links["guard-agent"]
        if link.blocked(now_s) or link._take("drop"):
            return self._stalled_view
        states = self.host.states
        newest = (states[-1 - k] for k in range(min(4, len(states))))
        state = next((s for s in newest if s.stamp_s <= now_s - STATE_LATENCY_S), None)
        if state is None:
            return self._stalled_view
        if link._take("reorder") and len(states) > 12:
            state = states[-12]
        elif link._take("corrupt"):
            return spoilt(state, link.rng)
        elif link._take("duplicate") and self._stalled_view is not None:
            state = self._stalled_view
        self._stalled_view = state
        return state

    def stop(self, packet: Any = None) -> None:
        """The operator's stop, over its own channel."""
        stop = packet if packet is not None else Stop("operator")
        self.links["operator-stop"].send(
            stop, self.clock.now_s, lambda p: self.host.stop("operator", p, self.clock.now_s)
        )

    def _on_answer(self, client: Client, message: Any) -> None:
        if isinstance(message, Verdict) and client is self.shell.client:
            self.links["verdicts"].send(
                message, self.clock.now_s, lambda m: self.agent.on_verdict(m) if isinstance(m, Verdict) else None
            )
        elif isinstance(message, Reply) and client is self.operator.client:
            self.operator.on_reply(message)
        elif self.person is not None and client is self.person.client:
            self.person.on_answer(message)

    def _gripper(self, write: Callable[[float], bool]) -> Callable[[float], bool]:
        def watched(width_m: float) -> bool:
            taken = write(width_m)
            if taken:
                self.checker.gripper_written(self.clock.now_s, width_m)
            return taken

        return watched
