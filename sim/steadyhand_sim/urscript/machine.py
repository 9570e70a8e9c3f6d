"""The runtime of one program: its threads, one cycle per `tick`.

Scheduling (script manual, "Thread scheduling"): in each cycle every runnable thread gets one time slice, in turn, and
keeps the processor until it consumes time (a motion, sleep, sync), waits for another thread, or ends. A thread that
computes without end makes the real controller fail; here the limit is a number of statements per cycle.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping
from enum import Enum
from typing import Any

from steadyhand_sim.urscript import language
from steadyhand_sim.urscript.compiled import Code, Join, refuse
from steadyhand_sim.urscript.compiler import Compiler
from steadyhand_sim.urscript.errors import ScriptError
from steadyhand_sim.urscript.parser import parse
from steadyhand_sim.urscript.signature import of_python
from steadyhand_sim.urscript.values import Wait, to_text

STATEMENTS_PER_CYCLE = 20_000
MAX_THREADS = 50
MAX_CALL_DEPTH = 50
STRICT_HEADER = "# Steadyhand controller program"


class State(Enum):
    """What became of the program."""

    RUNNING = "running"
    PAUSED = "paused"
    FINISHED = "finished"  # the end of the program was reached
    HALTED = "halted"  # `halt` was executed
    KILLED = "killed"  # stopped from outside: dashboard, a new program, a safety stop
    FAILED = "failed"  # a run-time error, see Machine.error


class _Halt(Exception):
    """Unwinds the thread that executed `halt`."""


class _KilledItself(Exception):
    """Unwinds a thread that killed its own handle, or whose program was ended by a builtin it called."""


class _Thread:
    __slots__ = ("handle", "generator", "waiting", "slice_used", "depth")

    def __init__(self, handle: int, generator: Generator):
        self.handle = handle
        self.generator = generator
        self.waiting: Wait | Join | None = None
        self.slice_used = False
        self.depth = 0


class Machine:
    """One uploaded program. Raises ScriptError when the text is malformed (or, strict, when it calls unknown names).

    steptime_s: the controller's cycle, 0.008 (CB3) or 0.002 (e-Series). strict: check every name and arity at upload;
    None lets the header decide. on_message: receives the texts of textmsg and popup.
    """

    def __init__(
        self,
        source: str,
        builtins: Mapping[str, Callable[..., Any]],
        *,
        steptime_s: float = 0.008,
        strict: bool | None = None,
        on_message: Callable[[str], None] | None = None,
        statements_per_cycle: int = STATEMENTS_PER_CYCLE,
    ):
        self.state = State.RUNNING
        self.error: ScriptError | None = None
        self.cycle = 0
        self.line = 0  # of the last statement begun
        self.globals: dict[str, Any] = {}
        self.steptime_s = steptime_s
        self._on_message = on_message or (lambda text: None)
        self._budget = statements_per_cycle
        self._left = statements_per_cycle
        self._threads: dict[int, _Thread] = {}
        self._next_handle = 1
        self._current: _Thread | None = None
        self._critical: _Thread | None = None

        program = parse(source)
        self.name = program.name
        self.is_secondary = program.kind == "sec"
        signatures = {n: of_python(n, f, injected=False) for n, f in language.FUNCTIONS.items()}
        signatures |= {n: of_python(n, f) for n, f in self._own_builtins().items()}
        signatures |= {n: of_python(n, f) for n, f in builtins.items()}
        self.strict = is_strict_program(source) if strict is None else strict
        try:
            body = Compiler(self, signatures, self.strict).program(program)
        except RecursionError:
            raise ScriptError("nested too deeply") from None
        self._main = self.start_thread(body, self.globals, program.line)

    @staticmethod
    def language_names() -> frozenset[str]:
        """Functions that the interpreter itself provides."""
        return frozenset(language.FUNCTIONS) | {"sync", "sleep", "textmsg", "popup", "get_steptime"}

    # --- for the controller ------------------------------------------------------------------------------------
    @property
    def running(self) -> bool:
        """True while RUNNING or PAUSED."""
        return self.state in (State.RUNNING, State.PAUSED)

    @property
    def threads(self) -> int:
        """Threads alive, the program's own included."""
        return len(self._threads)

    def tick(self) -> State:
        """Advance one controller cycle; a paused or ended program stays as it is. Nothing a program does raises."""
        if self.state is not State.RUNNING:
            return self.state
        self.cycle += 1
        self._left = self._budget
        for thread in self._threads.values():
            thread.slice_used = False
        try:
            while self.state is State.RUNNING and self._pass():
                pass
        except _Halt:
            self._end(State.HALTED)
        except ScriptError as error:
            self._fail(error)
        except RecursionError:
            self._fail(ScriptError("call stack too deep", self.line))
        return self.state

    def pause(self) -> None:
        """Freeze all threads; waits are not polled."""
        if self.state is State.RUNNING:
            self.state = State.PAUSED

    def resume(self) -> None:
        """Go on after `pause`."""
        if self.state is State.PAUSED:
            self.state = State.RUNNING

    def kill(self) -> None:
        """End the program from outside."""
        if self.running:
            self._end(State.KILLED)

    # --- scheduling ----------------------------------------------------------------------------------------------
    def _pass(self) -> bool:
        """Give every runnable thread one turn; False when none was runnable."""
        progress = False
        for thread in list(self._threads.values()):
            # In a critical section the others do not run, not even when it consumes time.
            blocked = self._critical is not None and self._critical is not thread
            if thread.slice_used or blocked or thread.handle not in self._threads:
                continue
            if self._ready(thread):
                progress = True
                self._resume(thread)
                if self.state is not State.RUNNING:
                    return False
        return progress

    def _ready(self, thread: _Thread) -> bool:
        waiting = thread.waiting
        if waiting is None:
            return True
        if type(waiting) is Join:
            return waiting.handle not in self._threads
        if waiting.done():
            return True
        thread.slice_used = True
        return False

    def _resume(self, thread: _Thread) -> None:
        waiting, thread.waiting = thread.waiting, None
        value = waiting.value() if type(waiting) is Wait else None
        self._current = thread
        try:
            yielded = thread.generator.send(value)
        except StopIteration:
            self._finish(thread)
        except _KilledItself:
            self._finish(thread)
        else:
            thread.waiting = yielded
            thread.slice_used = type(yielded) is Wait
        finally:
            self._current = None

    def _finish(self, thread: _Thread) -> None:
        self._threads.pop(thread.handle, None)
        if self._critical is thread:
            self._critical = None
        if thread.handle == self._main:
            self._end(State.FINISHED)

    def _end(self, state: State) -> None:
        """The first end counts: a thread that is killed while it runs is unwound afterwards, and changes nothing."""
        if self.running:
            self.state = state
        for thread in list(self._threads.values()):
            self._close(thread)
        self._threads.clear()
        self._critical = None

    def _close(self, thread: _Thread) -> None:
        """Stop a suspended thread and tell what it waited for."""
        waiting, thread.waiting = thread.waiting, None
        if thread is not self._current:
            thread.generator.close()
        if type(waiting) is Wait and waiting.cancel is not None:
            waiting.cancel()

    def _fail(self, error: ScriptError) -> None:
        if self.running:
            self.error = refuse(self.line, error)
        self._end(State.FAILED)

    # --- called by compiled code -----------------------------------------------------------------------------------
    def spend(self, line: int) -> None:
        """Account for one statement; none runs in a program that a builtin of its own has ended (`powerdown`)."""
        if self.state is State.KILLED:
            raise _KilledItself
        self.line = line
        self._left -= 1
        if self._left < 0:
            raise ScriptError(
                f"{self._budget} statements in one cycle: runtime is too much behind; add sync() to the loop", line
            )

    def enter_call(self, line: int) -> _Thread:
        """Account for one call of a function of the program; the caller lowers `depth` again."""
        thread = self._current
        thread.depth += 1
        if thread.depth > MAX_CALL_DEPTH:
            raise ScriptError(f"more than {MAX_CALL_DEPTH} calls within one another", line)
        return thread

    def start_thread(self, body: Code, env: dict, line: int) -> int:
        """The handle of a new thread, which gets its first turn in this cycle."""
        if len(self._threads) >= MAX_THREADS:
            raise ScriptError(f"more than {MAX_THREADS} threads", line)
        handle = self._next_handle
        self._next_handle += 1
        self._threads[handle] = _Thread(handle, _generator(body, env))
        return handle

    def kill_thread(self, handle: int) -> None:
        """`kill`: a handle whose thread has ended is no error."""
        thread = self._threads.get(handle)
        if thread is None:
            return
        if handle == self._main:
            raise ScriptError("kill of the program's main thread; use halt", self.line)
        if thread is self._current:
            raise _KilledItself
        self._close(thread)
        self._finish(thread)

    def enter_critical(self, line: int) -> None:
        """The current thread alone runs until `exit_critical`."""
        if self._critical is not None:
            raise ScriptError("enter_critical inside a critical section", line)
        self._critical = self._current

    def exit_critical(self, line: int) -> None:
        """Ends the critical section of the current thread."""
        if self._critical is not self._current:
            raise ScriptError("exit_critical outside of a critical section", line)
        self._critical = None

    def halt(self) -> None:
        """`halt`: the whole program ends."""
        raise _Halt

    # --- builtins that need the machine -------------------------------------------------------------------------
    def _own_builtins(self) -> dict[str, Callable[..., Any]]:
        def sync():
            return Wait(lambda: True)

        def sleep(t):
            # Consumes whole cycles, one at least; the small term absorbs rounding of t / steptime.
            if type(t) not in (int, float) or not math.isfinite(t) or t < 0:
                raise ValueError(f"sleep needs a time of 0 s or more, got {to_text(t)}")
            last = self.cycle + max(1, math.ceil(t / self.steptime_s - 1e-6))
            return Wait(lambda: self.cycle >= last)

        def textmsg(s1, s2="") -> None:
            self._on_message(to_text(s1) + to_text(s2))

        def popup(s, title="Popup", warning=False, error=False, blocking=False) -> None:
            if blocking:
                raise ValueError("a blocking popup is not supported: nobody could answer it")
            self._on_message(f"{to_text(title)}: {to_text(s)}")

        def get_steptime() -> float:
            return self.steptime_s

        return {"sync": sync, "sleep": sleep, "textmsg": textmsg, "popup": popup,
                "get_steptime": get_steptime}


def _generator(body: Code, env: dict) -> Generator:
    """A thread's body as a generator, whether it waits or not."""
    if body.waits:
        return body.run(env)
    return _of_plain(body, env)


def _of_plain(body: Code, env: dict) -> Generator:
    body.run(env)
    return
    yield


def is_strict_program(source: str) -> bool:
    """True for our own program, which is checked entirely at upload: its first line is the header."""
    return source.lstrip().startswith(STRICT_HEADER)
