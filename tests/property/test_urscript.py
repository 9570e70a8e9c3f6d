"""Whatever text arrives at a script port: the parser answers with ScriptError only, a cycle always ends."""
import math
import random
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from steadyhand_sim.urscript import Machine, ScriptError, State, Wait
from steadyhand_sim.urscript.lexer import KEYWORDS
from steadyhand_sim.urscript.parser import parse

BUDGET = 500
WORDS = sorted(KEYWORDS) + list("()[]:,=+-*/%<>\n") + ["==", "p[", "a", "b", "f(", "1", "2.5", '"s"', "#x\n", "sync()"]
PROGRAM = Path(__file__).parents[2] / "firmware_bridge" / "urscript" / "steadyhand.script"


def builtins():
    return {"f": lambda x=0: x, "w": lambda: Wait(lambda: True, result=1)}


def check(text, ticks=5):
    """Upload and run a few cycles: ScriptError at upload, or a state; nothing else."""
    try:
        machine = Machine(text, builtins(), statements_per_cycle=BUDGET)
    except ScriptError:
        return None
    for _ in range(ticks):
        machine.tick()
        assert machine._left >= -1  # the budget ended the cycle, if nothing else did
    assert (machine.state is State.FAILED) == (machine.error is not None)
    return machine


@given(st.text(max_size=400))
@settings(max_examples=300, deadline=None)
def test_random_text(text):
    check(text)


@given(st.lists(st.sampled_from(WORDS), max_size=80))
@settings(max_examples=300, deadline=None)
@example(["def", " a(", "):", "end"])
def test_random_words(words):
    check("def p():\n" + " ".join(words) + "\nend")


@given(st.integers(0, 6000), st.integers(0, 60), st.text(max_size=5))
@settings(max_examples=100, deadline=None)
def test_our_program_truncated_or_damaged(start, length, replacement):
    text = PROGRAM.read_text().replace("{{", "").replace("}}", "")
    damaged = text[:start] + replacement + text[start + length:]
    try:
        parse(damaged)
    except ScriptError as error:
        assert 0 <= error.line <= damaged.count("\n") + 1


class Writer:
    """Valid programs from a small grammar: threads, loops, waits, critical sections, values of every type."""

    LEAVES = ("1", "-2", "2.5", "a", "b", "c", "h", "True", "False", '"s"', "w()", "p[1, 2, 3, 0, 0, 0]")
    OPERATORS = ("+", "-", "*", "/", "%", "==", "<", "and", "or")
    SIMPLE = ("sync()", "break", "continue", "return a", "halt", "enter_critical", "exit_critical", "run t()",
              "h = run t()", "kill h", "join h", "sleep(0.01)", "pass", "b = b + 1", "a = a + b")  # fmt: skip

    def __init__(self, seed):
        self.random = random.Random(seed)

    def expression(self, depth=0):
        kind = self.random.randrange(10 if depth < 3 else 4)
        if kind < 4:
            return self.random.choice(self.LEAVES)
        inner = self.expression(depth + 1)
        if kind < 7:
            return f"({inner} {self.random.choice(self.OPERATORS)} {self.expression(depth + 1)})"
        return (f"f({inner})", f"g({inner})", f"[{inner}, {self.expression(depth + 1)}]")[kind - 7]

    def condition(self):
        return self.random.choice(("True", "a < 3", "b < 9", "a == b", "not (a < 1)", self.expression()))

    def block(self, depth=0):
        return "\n".join(self.statement(depth) for _ in range(self.random.randint(1, 5)))

    def statement(self, depth):
        kind = self.random.randrange(8 if depth < 3 else 5)
        if kind < 3:
            return self.random.choice(self.SIMPLE)
        if kind < 5:
            scope = self.random.choice(("", "", "global ", "local "))
            return f"{scope}{self.random.choice('abch')} = {self.expression()}"
        if kind < 6:
            return f"if {self.condition()}:\n{self.block(depth + 1)}\nelse:\n{self.block(depth + 1)}\nend"
        return f"while {self.condition()}:\n{self.block(depth + 1)}\nend"

    def program(self):
        return (
            f"def p():\na = 1\nb = 2.5\nc = [1]\nh = 0\ndef g(a):\n{self.block()}\nend\n"
            f"thread t():\n{self.block()}\nend\n{self.block()}\nend"
        )


ENDINGS = set()


@given(st.integers(0, 2**32))
@settings(max_examples=300, deadline=None)
def test_random_programs_end_every_cycle(seed):
    text = Writer(seed).program()
    machine = check(text, ticks=20)
    assert machine is not None, "the grammar makes valid programs only"
    ENDINGS.add(machine.state)
    if machine.error is not None:
        assert 1 <= machine.error.line <= text.count("\n") + 1


def test_random_programs_reach_every_ending():
    for seed in range(300):
        ENDINGS.add(check(Writer(seed).program(), ticks=20).state)
    assert ENDINGS == {State.RUNNING, State.FINISHED, State.HALTED, State.FAILED}


@given(st.lists(st.one_of(st.integers(-(2**31), 2**31 - 1), st.floats(allow_nan=True)), min_size=2, max_size=2),
       st.sampled_from(["+", "-", "*", "/", "%", "<", "=="]))
@settings(max_examples=300, deadline=None)
def test_arithmetic_gives_numbers_in_range_or_a_refusal(pair, operator):
    machine = Machine(f"x = f(0) {operator} f(1)", {"f": lambda k: pair[k]})
    machine.tick()
    if machine.state is State.FINISHED:
        x = machine.globals["x"]
        assert isinstance(x, (bool, float)) or -(2**31) <= x < 2**31
        assert not (isinstance(x, float) and math.isnan(x)) or any(map(math.isnan, pair)) or math.inf in map(abs, pair)
