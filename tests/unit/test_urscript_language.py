"""The interpreter: what programs mean, and what is refused with its line."""
import math

import pytest

from steadyhand_sim.urscript import Machine, Pose, ScriptError, State, Wait


def finished(body, **builtins):
    """Globals of a program with this body, run to its end."""
    machine = Machine(f"def prog():\n{body}\nend", builtins)
    for _ in range(10_000):
        if not machine.running:
            break
        machine.tick()
    assert machine.state is State.FINISHED, machine.error
    return machine.globals


def failed(body, **builtins):
    """The error of a program with this body; line 2 is the body's first."""
    machine = Machine(f"def prog():\n{body}\nend", builtins)
    for _ in range(1000):
        if not machine.running:
            break
        machine.tick()
    assert machine.state is State.FAILED, machine.state
    return machine.error


@pytest.mark.parametrize(
    "expression, value",
    [
        ("1 + 2 * 3", 7), ("(1 + 2) * 3", 9), ("7 - 2 - 1", 4), ("7 / 2", 3.5), ("-7 % 3", -1), ("2 * -3", -6),
        ("1 < 2 and 2 < 3", True), ("not 1 == 2", True), ("True xor True", False), ("False or True and False", False),
        ("1 == 1.0", True), ('"a" + "b"', "ab"), ('"a" == "a"', True), ("[1, 2] == [1, 2]", True),
        ("[[1, 2], [3, 4]][1, 0]", 3), ("[[1, 2], [3, 4]][1][0]", 3), ("1e3", 1000.0), (".5", 0.5), ("5.", 5.0),
        ("norm(-3)", 3), ("norm([3, 4])", 5.0), ("floor(-1.5)", -2), ("ceil(1.2)", 2), ("pow(2, 3)", 8),
        ("sqrt(2.25)", 1.5), ("d2r(180)", math.pi), ("atan2(1, 0)", math.pi / 2), ("length([1, 2, 3])", 3),
        ("to_str(1.5)", "1.5"), ('str_cat("n=", 3)', "n=3"), ('to_num("12")', 12), ('to_num("1.5")', 1.5),
        ("to_str(p[1, 2, 3, 0, 0, 0])", "p[1, 2, 3, 0, 0, 0]"), ("binary_list_to_integer([True, False, True])", 5),
        ('str_sub("steady", 1, 3)', "tea"), ('str_find("abc", "c")', 2), ('str_at("abc", 1)', "b"),
        ("[\n1,\n2 +\n3\n]", [1, 5]), ("integer_to_binary_list(5)[2]", True),
        ('str_sub(src="steady", index=1, len=3)', "tea"), ("norm([3e200, 4e200]) < 5.1e200", True),
    ],
)  # fmt: skip
def test_expressions(expression, value):
    result = finished(f"x = {expression}")["x"]
    assert result == value and type(result) is type(value)


@pytest.mark.parametrize(
    "statement, reason",
    [
        ("x = 1 / 0", "division by zero"), ("x = 1 + True", "two numbers"), ("x = 1 and True", "needs True or False"),
        ('x = 1 == "1"', "cannot compare"), ("x = [1, 2] == p[1, 2, 3, 4, 5, 6]", "cannot compare"),
        ("x = [1, 2][2]", "outside"), ("x = [1][-1]", "outside"), ("x = [1][0.0]", "an index is an integer"),
        ("x = 3[0]", "cannot index"), ("x = y", "y has no value"), ("x[0] = 1", "x has no value yet"),
        ("x = 2147483647 + 1", "integer overflow"), ("x = -2147483647 - 2", "integer overflow"),
        ("x = sqrt(-1)", "domain"), ('x = sin("a")', "needs a number"), ("x = sin()", "sin needs f"),
        ("x = sin(1, 2)", "at most 1"), ("x = sin(g=1)", "no parameter g"), ("x = sin(1, f=1)", "argument f twice"),
        ("foo(1)", "unknown function foo"), ("if 1:\nend", "needs True or False"), ("while 0:\nend", "needs True"),
        ("x = textmsg(1)", "returns nothing"), ("x = p[1, 2, 3, 4, 5, True]", "a pose holds numbers"),
        ("sleep(-1)", "sleep needs"), ('popup("a", blocking=True)', "blocking"), ("x = pow(10.0, 400)", "range"),
        ('x = to_num("nan")', "not a number"), ('x = to_num("1e999")', "not a number"), ("x = 5 % 0", "by zero"),
        ("x = 5.0 % 0.0", "by zero"),
        ("exit_critical", "outside of a critical"), ("enter_critical\nenter_critical", "inside a critical"),
        ("kill 1", "main thread"), ("kill True", "thread handle"), ("x = [1]\nx[0] = [2]", "cannot become"),
        ("x = pose_trans([1, 2, 3, 4, 5, 6], p[0, 0, 0, 0, 0, 0])", "needs a pose"),
    ],
)  # fmt: skip
def test_run_time_refusals_name_the_line(statement, reason):
    error = failed(f"pass\n{statement}")
    assert reason in error.reason
    assert error.line == 3 + statement.count("\n") * ("\nend" not in statement)


@pytest.mark.parametrize(
    "text, line, reason",
    [
        ("def p():\n x = 1\n", 3, "expected `end`"), ("def p():\n x = \nend", 3, "expected a value"),
        ("def p():\n 5\nend", 2, "expected a statement"), ("def p():\n x = 1 y = 2\nend", 2, "end of the statement"),
        ("def p():\n x = (1\nend", 3, "close the bracket"), ('def p():\n x = "a\nend', 2, "unexpected character"),
        ("def p():\n x = 1 @ 2\nend", 2, "unexpected character"), ("def p():\n goto a\nend", 2, "not supported"),
        ("def p():\n x = 99999999999\nend", 2, "32 bits"), ("def p():\n x = 1e999\nend", 2, "too large"),
        ("def p():\n x = p[1, 2, 3]\nend", 2, "6 numbers"), ("def p(a):\nend", 1, "without parameters"),
        ("def p():\nend\ndef q():\nend", 0, "one program"), ("", 0, "one program"), ("thread t():\nend", 1, "without"),
        ("def p():\n def f():\n end\n def f():\n end\nend", 4, "twice"),
        ("def p():\n def f(a, a):\n end\nend", 2, "twice"),
        ("def p():\n if True\n end\nend", 2, "expected `:`"), ("def p():\n x = f(a=1, 2)\nend", 2, "name=value"),
        ("end", 1, "expected a statement"), ("def p():\n else:\n end\nend", 2, "expected a statement"),
        ("def p():\n switch 1:\n  case x:\n  end\n end\nend", 3, "constant"),
        ("def p():\n x = [1, 2\nend", 3, "last element"), ("def p():\n x = \u0663\nend", 2, "unexpected character"),
        ("def p():\n def f(a=g()):\n end\nend", 2, "constant"), ("def p():\n def f(a=b):\n end\nend", 2, "constant"),
    ],
)
def test_malformed_programs_are_refused_at_upload(text, line, reason):
    with pytest.raises(ScriptError, match=reason) as caught:
        Machine(text, {})
    assert caught.value.line == line


def test_deep_nesting_and_size_are_bounded():
    for text in ("x = " + "(" * 5000, "x = " + "1 + " * 5000 + "1", "if True:\n" * 5000, "x = " + "-" * 5000 + "1",
                 "x = " + "[" * 5000, "x = a" + "[0]" * 5000, "#" * 1_000_001):
        with pytest.raises(ScriptError, match="nested|deep|limit"):
            Machine(text, {})


def test_scope_rules_of_the_manual():
    """Script manual, "Scoping rules": the four examples."""
    masked = finished("global a = 0\ndef f():\n local a = 1\nend\nf()")
    assert masked["a"] == 0
    shared = finished("global a = 0\ndef f():\n a = 1\nend\nf()")
    assert shared["a"] == 1
    nested = finished("global a = 0\ndef f():\n local a = 1\n def g():\n  a = 2\n end\n g()\n global b = a\nend\nf()")
    assert (nested["a"], nested["b"]) == (2, 1)
    first_level = finished("local a = 0\ndef f():\n a = 1\nend\nf()")
    assert first_level["a"] == 1
    hidden = finished("global a = 0\ndef f():\n local a = 1\n a = 2\n return a\nend\nb = f()")
    assert (hidden["a"], hidden["b"]) == (0, 2)
    free = finished("def f():\n c = 3\nend\nf()")
    assert "c" not in free


def test_lists_and_arguments_are_values():
    values = finished(
        "a = [1, 2]\nb = a\nb[0] = 9\ndef f(l):\n l[1] = 9\n return l\nend\nc = f(a)\nm = [a, a]\na[0] = 7"
    )
    assert values["a"] == [7, 2] and values["b"] == [9, 2] and values["c"] == [1, 9] and values["m"] == [[1, 2], [1, 2]]


def test_functions_defaults_names_and_recursion():
    values = finished(
        "def f(a, b=2):\n return [a, b]\nend\nx = f(1)\ny = f(b=5, a=4)\n"
        "def fact(n):\n if n < 2:\n  return 1\n end\n return n * fact(n - 1)\nend\nz = fact(10)"
    )
    assert (values["x"], values["y"], values["z"]) == ([1, 2], [4, 5], 3628800)


def test_return_without_a_value_ends_the_function():
    values = finished("a = 0\ndef f(x):\n if x:\n  return\n end\n a = 1\n return end\nf(True)\nb = a\nf(False)")
    assert (values["b"], values["a"]) == (0, 1)


def test_limits_are_exact():
    assert finished("x = " + " + ".join(["1"] * 100))["x"] == 100
    with pytest.raises(ScriptError, match="100 operators"):
        Machine("x = " + " + ".join(["1"] * 101), {})
    assert finished("x = " + "(" * 38 + "1" + ")" * 38)["x"] == 1  # the program and the body are two blocks more
    with pytest.raises(ScriptError, match="nested more than 40"):
        Machine("def p():\nx = " + "(" * 39 + "1" + ")" * 39 + "\nend", {})
    full = ", ".join(["0"] * 4095)
    assert len(finished(f"x = [{full}, 1]")["x"]) == 4096
    assert "list of more" in failed(f"x = [{full}, 1, 2]").reason
    text = "a" * 65_535
    assert finished(f'x = "{text}" + "b"')["x"] == text + "b"
    assert "limit 65536" in failed(f'x = "{text}" + "bc"').reason
    assert "outside of 0..1" in failed("x = [1, 2][2]").reason


def test_endless_recursion_is_refused():
    assert "calls within one another" in failed("def f():\n f()\nend\nf()").reason


def test_control_flow():
    values = finished(
        "n = 0\ni = 0\nwhile True:\n i = i + 1\n if i == 3:\n  continue\n elif i > 5:\n  break\n"
        " else:\n  n = n + i\n end\nend\n"
        "switch n:\n case 1:\n  s = 1\n end\n case 12:\n  s = 2\n end\n default:\n  s = 3\n end\nend"
    )
    assert (values["n"], values["s"]) == (12, 2)


def test_keywords_may_share_a_line_and_an_assignment_may_go_on_after_a_comment():
    """The stock RTDE client fills its script in like this."""
    assert finished("global a = # offset\n24 global b = # second\n1 if True: c = 3 end") == {"a": 24, "b": 1, "c": 3}


def test_a_variable_named_p_is_not_a_pose():
    values = finished("p = [1, 2, 3]\nx = p[1]\np[0] = 5\ny = p[1, 2, 3, 0, 0, 0]")
    assert values["p"] == [5, 2, 3] and values["x"] == 2 and values["y"] == Pose([1, 2, 3, 0, 0, 0])


def test_statements_without_a_definition_are_a_program():
    machine = Machine("def f(x):\n return x + 1\nend\ny = f(2)\n", {})
    assert machine.tick() is State.FINISHED and machine.globals["y"] == 3


def test_halt_ends_everything():
    machine = Machine("def p():\n thread t():\n  sync()\n end\n run t()\n halt\n x = 1\nend", {})
    assert machine.tick() is State.HALTED and "x" not in machine.globals and machine.threads == 0


# --- time -------------------------------------------------------------------------------------------------------
def ticks_to_end(body, steptime_s=0.008, **builtins):
    machine = Machine(f"def prog():\n{body}\nend", builtins, steptime_s=steptime_s)
    while machine.running and machine.cycle < 1000:
        machine.tick()
    assert machine.state is State.FINISHED, machine.error
    return machine.cycle - 1


def test_time_is_counted_in_cycles():
    assert ticks_to_end("sync()") == 1
    assert ticks_to_end("sleep(0.04)") == 5
    assert ticks_to_end("sleep(0.04)", 0.002) == 20
    assert ticks_to_end("sleep(0)") == 1
    assert ticks_to_end("x = get_steptime()\nsleep(x)", 0.002) == 1


def test_wait_gives_its_result_when_done_and_consumes_a_cycle():
    polls = []
    wait = Wait(lambda: len(polls) > 3 or polls.append(1), result=lambda: len(polls))
    machine = Machine("def p():\n x = f() + 1\nend", {"f": lambda: wait})
    while machine.running:
        machine.tick()
    assert machine.globals["x"] == 5 and machine.cycle == 6


def test_a_wait_inside_an_expression_keeps_the_order_of_evaluation():
    order = []

    def f(n):
        order.append(n)
        return Wait(lambda: True, result=n)

    assert finished("x = [f(1), f(2) * f(3), f(4)]", f=f)["x"] == [1, 6, 4]
    assert order == [1, 2, 3, 4]


def test_an_endless_loop_is_stopped_as_on_the_robot():
    machine = Machine("def p():\n x = 0\n while True:\n  x = x + 1\n end\nend", {})
    assert machine.tick() is State.FAILED
    assert "too much behind" in machine.error.reason and machine.error.line in (3, 4)


def test_the_budget_is_one_for_all_threads():
    """Threads that start one another without end do not escape it."""
    machine = Machine("def p():\n thread t():\n  x = 1\n end\n while True:\n  h = run t()\n  join h\n end\nend", {})
    assert machine.tick() is State.FAILED and "too much behind" in machine.error.reason


def test_threads_take_turns_and_join_ends_in_the_same_cycle():
    machine = Machine(
        "def p():\n a = 0\n thread t():\n  while a < 3:\n   a = a + 1\n   sync()\n  end\n end\n h = run t()\n"
        " join h\n b = a\n sync()\nend",
        {},
    )
    for _ in range(4):
        machine.tick()
    assert machine.globals["b"] == 3 and machine.running
    machine.tick()
    assert machine.state is State.FINISHED


def test_end_of_the_program_ends_its_threads_and_cancels_their_waits():
    cancelled = []

    def forever():
        return Wait(lambda: False, cancel=lambda: cancelled.append(1))

    machine = Machine("def p():\n thread t():\n  forever()\n end\n run t()\n sync()\nend", {"forever": forever})
    machine.tick()
    assert machine.threads == 2 and not cancelled
    assert machine.tick() is State.FINISHED and cancelled == [1]


def test_kill_of_a_thread_cancels_its_wait_once():
    cancelled = []

    def forever():
        return Wait(lambda: False, cancel=lambda: cancelled.append(1))

    finished("thread t():\n forever()\nend\nh = run t()\nsync()\nkill h\nkill h\nkill 77\nsync()", forever=forever)
    assert cancelled == [1]


def test_a_thread_may_kill_itself_and_leaves_its_critical_section():
    values = finished(
        "thread t():\n enter_critical\n kill me\nend\nme = run t()\nsync()\nenter_critical\nx = 1\nexit_critical"
    )
    assert values["x"] == 1


def test_no_other_thread_runs_inside_a_critical_section():
    values = finished(
        "n = 0\nthread t():\n while True:\n  n = n + 1\n  sync()\n end\nend\nrun t()\nsync()\n"
        "enter_critical\na = n\nsleep(0.08)\nb = n\nexit_critical\nsync()\nc = n"
    )
    assert values["a"] == values["b"] < values["c"]


def test_pause_freezes_and_resume_goes_on():
    polls = []
    machine = Machine("def p():\n f()\nend", {"f": lambda: Wait(lambda: polls.append(1) or len(polls) > 2)})
    machine.tick()
    machine.tick()
    machine.pause()
    for _ in range(10):
        assert machine.tick() is State.PAUSED
    assert len(polls) == 1 and machine.running
    machine.resume()
    machine.tick()
    assert machine.tick() is State.FINISHED


def test_kill_from_outside_is_final():
    machine = Machine("def p():\n while True:\n  sync()\n end\nend", {})
    machine.tick()
    machine.kill()
    machine.resume()
    assert machine.tick() is State.KILLED and machine.threads == 0 and not machine.running


def test_a_builtin_that_ends_the_program_is_its_last_statement():
    calls = []
    machine = Machine(
        "def p():\n thread t():\n  sync()\n end\n run t()\n off()\n after()\nend",
        {"off": lambda: machine.kill(), "after": lambda: calls.append(1)},
    )
    assert machine.tick() is State.KILLED and machine.threads == 0 and machine.error is None
    assert not calls


def test_defaults_run_nothing_at_upload():
    calls = []

    def instant() -> int:
        calls.append(1)
        return 1

    with pytest.raises(ScriptError, match="default of a must be a constant"):
        Machine("def p():\n def f(a=[instant()]):\n end\nend", {"instant": instant})
    assert not calls
    values = finished("def f(a=[1, -2 * 3], b=p[0, 0, 0, 0, 0, 1]):\n return [a[1], b[5]]\nend\nx = f()")
    assert values["x"] == [-6, 1.0]


def test_thread_and_memory_bombs_are_refused():
    assert "threads" in failed("thread t():\n sync()\nend\nwhile True:\n run t()\nend").reason
    assert "list of more" in failed('a = [1, 1]\nwhile True:\n a = [a, a]\nend').reason
    assert "list of more" in failed("a = [[], []]\nwhile True:\n a = [a, a]\nend").reason
    assert "list of more" in failed("a = [[0], [0]]\nwhile True:\n a[0] = a\n a[1] = a\nend").reason
    assert "string of" in failed('a = "ab"\nwhile True:\n a = a + a\nend').reason
    assert "string of" in failed('a = "ab"\nwhile True:\n a = str_cat(a, a)\nend').reason


def test_errors_of_builtins_stop_the_program_with_the_line_of_the_call():
    def refuses(q):
        raise ValueError(f"q {q} is out of range")

    error = failed("x = 1\nrefuses(\n x)", refuses=refuses)
    assert (error.line, error.reason) == (3, "q 1 is out of range")


def test_a_builtin_that_hides_its_wait_is_found():
    def sneaky() -> int:
        return Wait(lambda: True)

    assert "not annotated" in failed("sneaky()", sneaky=sneaky).reason


# --- strict: our own program -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "body, reason",
    [
        ("if False:\n foo()\nend", "unknown function foo"), ("if False:\n sin(1, 2)\nend", "at most 1"),
        ("if False:\n x = y\nend", "y is never assigned"), ("def sync():\nend", "hides a built-in"),
        ("thread t():\nend\nt()", "start it with run"), ("def f():\nend\nrun f()", "not a thread"),
    ],
)
def test_strict_programs_are_checked_at_upload(body, reason):
    text = f"def prog():\n{body}\nend"
    with pytest.raises(ScriptError, match=reason):
        Machine(text, {}, strict=True)
    with pytest.raises(ScriptError, match=reason):
        Machine("# Steadyhand controller program\n" + text, {})
    Machine(text, {})  # others are refused when the line is executed


def test_strict_programs_may_share_globals_between_functions():
    text = "def prog():\ndef f():\n def g():\n  if True:\n   global a = 3\n  end\n end\n g()\nend\nf()\nx = a\nend"
    machine = Machine(text, {}, strict=True)
    assert machine.tick() is State.FINISHED and machine.globals["x"] == 3


def test_messages():
    heard = []
    machine = Machine('def p():\n textmsg("q=", [1, 2.5])\n popup("hello")\nend', {}, on_message=heard.append)
    machine.tick()
    assert heard == ["q=[1, 2.5]", "Popup: hello"]


def test_program_labels_and_secondary_programs():
    machine = Machine('sec s():\n  $ 1 "Robot Program"\n  x = 1\nend', {})
    assert machine.is_secondary and machine.tick() is State.FINISHED
