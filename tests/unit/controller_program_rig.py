"""A rig for the controller program: the real interpreter, registers that a test sets, and a record of every call."""
from __future__ import annotations

from steadyhand.protocols import Command, ProgramState
from steadyhand_firmware_bridge import urscript
from steadyhand_sim.urscript import Machine, State, Wait

TOKEN = 271828
START_Q = [0.0, -1.57, 1.57, -1.57, -1.57, 0.0]


class Rig:
    """Plays the guard (inputs) and the robot (targets). `calls` holds (cycle, name, arguments) of motion and I/O."""

    def __init__(self, steptime_s=0.008, config=None, text=None, stop_cycles=3, target=START_Q):
        self.int_in, self.float_in = [0] * 48, [0.0] * 48
        self.int_out = [-1] * 48
        self.target, self.target_speeds = list(target), [0.0] * 6
        self.calls = []
        self.unknown_writes = []
        self.stop_cycles = stop_cycles
        self.config = config or urscript.ProgramConfig()
        self.heartbeats_per_cycle = steptime_s / self.config.heartbeat_period_s
        self.machine = Machine(
            text or urscript.render(TOKEN, self.config), self.builtins(), steptime_s=steptime_s
        )

    def builtins(self):
        def read_input_integer_register(address) -> int:
            return self.int_in[address]

        def read_input_float_register(address) -> float:
            return self.float_in[address]

        def get_target_joint_positions() -> list:
            return list(self.target)

        def get_target_joint_speeds() -> list:
            return list(self.target_speeds)

        def set_payload(m, cog) -> None:
            self.record("set_payload", m, list(cog))

        def write_output_integer_register(address, value) -> None:
            self.int_out[address] = value

        def servoj(q, a=0, v=0, t=0.002, lookahead_time=0.1, gain=300):
            self.record("servoj", list(q), t, lookahead_time, gain)
            self.target = list(q)
            return Wait(lambda: True)

        def stopj(a):
            last = self.machine.cycle + self.stop_cycles
            self.record("stopj", a)
            return Wait(lambda: self.machine.cycle >= last)

        functions = (
            read_input_integer_register, read_input_float_register, get_target_joint_positions,
            write_output_integer_register, servoj, stopj, get_target_joint_speeds, set_payload,
        )  # fmt: skip
        return {f.__name__: f for f in functions}

    def record(self, name, *arguments):
        self.calls.append((self.machine.cycle, name, arguments))

    def named(self, name):
        return [c for c in self.calls if c[1] == name]

    # --- the guard's part -----------------------------------------------------------------------------------
    def send(self, command=None, q=None, sequence=None, token=TOKEN, beat=True):
        """One package of the guard."""
        if beat:
            self.int_in[urscript.IN_HEARTBEAT] = urscript.next_heartbeat(self.int_in[urscript.IN_HEARTBEAT])
        self.int_in[urscript.IN_TOKEN] = token
        if command is not None:
            self.int_in[urscript.IN_COMMAND] = int(command)
        if sequence is not None:
            self.int_in[urscript.IN_SEQUENCE] = sequence
        if q is not None:
            self.float_in[urscript.IN_Q_FIRST:urscript.IN_Q_FIRST + 6] = q

    def tick(self, cycles=1):
        for _ in range(cycles):
            self.machine.tick()

    def cycle(self, **package):
        self.send(**package)
        self.tick()

    def ready(self):
        """Run to READY."""
        self.tick()
        self.cycle(command=Command.HOLD)
        assert self.state is ProgramState.READY
        return self

    def servoing(self):
        """Run to SERVOING at the start pose."""
        self.ready()
        self.cycle(command=Command.SERVO, q=START_Q, sequence=1)
        assert self.state is ProgramState.SERVOING
        return self

    # --- what came out --------------------------------------------------------------------------------------
    @property
    def state(self):
        return ProgramState(self.int_out[urscript.OUT_STATE])

    def assert_stopped_once(self, state):
        """`stopj` called once, then halted for good; nothing moves afterwards."""
        assert self.state is state
        self.tick(self.stop_cycles + 1)
        assert self.machine.state is State.HALTED, self.machine.error
        assert len(self.named("stopj")) == 1
        before = list(self.calls)
        for k in range(100):
            self.cycle(command=Command.SERVO, q=START_Q, sequence=1000 + k)
        assert self.calls == before
