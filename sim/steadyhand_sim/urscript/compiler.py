"""Tree -> Python closures. Each takes the dictionary of local variables (`env`).

An expression or statement that may consume time is a *generator* function: it yields `Wait` or `Join` and is sent the
result. All others are plain functions: most of a program never waits, and this keeps a cycle short.

Scope rules (script manual, "Scoping rules"): a variable is global or local to its function. Without a qualifier it is
the global one if that exists when the assignment runs, otherwise local. Variables of the program's own body are global.
An inner function does not see the locals of the outer one.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from steadyhand_sim.urscript import nodes, operators
from steadyhand_sim.urscript.errors import ScriptError
from steadyhand_sim.urscript.signature import Signature
from steadyhand_sim.urscript.values import Wait, copied, type_name

BREAK, CONTINUE = object(), object()  # how a statement ended, besides None and Returned
MAX_CALL_DEPTH = 50


class Returned(NamedTuple):
    """A `return` was executed."""

    value: Any


class Join:
    """Yielded by `join`: the thread goes on when the other has ended, in the same cycle if that one ends in it."""

    __slots__ = ("handle",)

    def __init__(self, handle: int):
        self.handle = handle


class Code(NamedTuple):
    """A compiled node: `run(env)`, a generator function when `waits`."""

    waits: bool
    run: Callable[[dict], Any]


@dataclass
class Routine:
    """A compiled def or thread; `body` is filled in after all signatures are known, so that calls may be recursive."""

    function: nodes.Function
    signature: Signature
    body: Code | None = None


def refuse(line: int, error: Exception | str) -> ScriptError:
    """The error as it is reported: with a line, unless it has one."""
    if isinstance(error, ScriptError) and error.line:
        return error
    reason = error.reason if isinstance(error, ScriptError) else str(error)
    return ScriptError(reason or type(error).__name__, line)


class Compiler:
    """Compiles one program for one machine. `scope` is a chain of function tables, innermost last."""

    def __init__(self, machine: Any, builtins: dict[str, Signature], strict: bool):
        self.machine = machine
        self.globals = machine.globals
        self.builtins = builtins
        self.strict = strict
        self.assigned: list[set[str]] = []  # names assigned in the program and in the function being compiled

    def program(self, program: nodes.Function) -> Code:
        """The body of the program; its functions are compiled with it."""
        self.assigned = [_assigned(program, top=True), set()]
        scope = self.routines(program, [])
        return self.block(program.body, scope)

    def routines(self, owner: nodes.Function, scope: list[dict]) -> list[dict]:
        """Compile the definitions inside `owner`; returns the scope in which its body runs."""
        table = {f.name: Routine(f, self.signature(f)) for f in owner.functions.values()}
        inner = [*scope, table]
        for routine in table.values():
            if self.strict and routine.function.name in self.builtins:
                raise ScriptError(f"{routine.function.name} hides a built-in function", routine.function.line)
            outer_assigned = self.assigned
            self.assigned = [outer_assigned[0], _assigned(routine.function, top=False)]
            routine.body = self.block(routine.function.body, self.routines(routine.function, inner))
            self.assigned = outer_assigned
        return inner

    def signature(self, function: nodes.Function) -> Signature:
        defaults = {}
        for name, default in zip(function.params, function.defaults):
            if default is None:
                continue
            if not _is_constant(default):  # a call would run at upload, whether or not the program ever does
                raise ScriptError(f"{function.name}: the default of {name} must be a constant", function.line)
            defaults[name] = self.expression(default, []).run({})
        return Signature(function.name, tuple(function.params), defaults)

    # --- statements ------------------------------------------------------------------------------------------------
    def block(self, statements: list, scope: list[dict]) -> Code:
        codes = [self.statement(s, scope) for s in statements]
        machine = self.machine
        if not any(c.waits for c in codes):
            runs = tuple((s.line, c.run) for s, c in zip(statements, codes))

            def plain(env):
                for line, run in runs:
                    machine.spend(line)
                    ending = run(env)
                    if ending is not None:
                        return ending

            return Code(False, plain)
        steps = tuple((s.line, c.waits, c.run) for s, c in zip(statements, codes))

        def waiting(env):
            for line, waits, run in steps:
                machine.spend(line)
                ending = (yield from run(env)) if waits else run(env)
                if ending is not None:
                    return ending

        return Code(True, waiting)

    def statement(self, node: Any, scope: list[dict]) -> Code:
        return getattr(self, f"compile_{type(node).__name__.lower()}")(node, scope)

    def after(self, parts: list[Code], line: int, apply: Callable) -> Code:
        """Evaluate the parts in order, then `apply(env, *values)`, whose errors get the line."""
        if not any(p.waits for p in parts):
            if len(parts) == 1:
                only = parts[0].run

                def one(env):
                    value = only(env)
                    try:
                        return apply(env, value)
                    except (TypeError, ValueError, ArithmeticError, ScriptError) as error:
                        raise refuse(line, error) from None

                return Code(False, one)
            if len(parts) == 2:
                first, second = parts[0].run, parts[1].run

                def two(env):
                    left, right = first(env), second(env)
                    try:
                        return apply(env, left, right)
                    except (TypeError, ValueError, ArithmeticError, ScriptError) as error:
                        raise refuse(line, error) from None

                return Code(False, two)
            runs = tuple(p.run for p in parts)

            def plain(env):
                values = [run(env) for run in runs]
                try:
                    return apply(env, *values)
                except (TypeError, ValueError, ArithmeticError, ScriptError) as error:
                    raise refuse(line, error) from None

            return Code(False, plain)
        steps = tuple(parts)

        def waiting(env):
            values = []
            for waits, run in steps:
                values.append((yield from run(env)) if waits else run(env))
            try:
                return apply(env, *values)
            except (TypeError, ValueError, ArithmeticError, ScriptError) as error:
                raise refuse(line, error) from None

        return Code(True, waiting)

    def compile_assign(self, node: nodes.Assign, scope: list[dict]) -> Code:
        name, scope_word, world = node.name, node.scope, self.globals

        def table(env):
            if scope_word == "global" or (not scope_word and name not in env and name in world):
                return world
            return env

        if node.indices:
            def apply(env, value, *indices):
                variables = table(env)
                if name not in variables:
                    raise ValueError(f"{name} has no value yet")
                operators.set_item(variables[name], copied(value), *indices)
        else:
            def apply(env, value):
                if value is None:
                    raise TypeError(f"{name} = the result of a function that returns nothing")
                table(env)[name] = copied(value)
        parts = [self.expression(node.value, scope), *(self.expression(i, scope) for i in node.indices)]
        return self.after(parts, node.line, apply)

    def compile_evaluate(self, node: nodes.Evaluate, scope: list[dict]) -> Code:
        return self.after([self.expression(node.call, scope)], node.line, lambda env, value: None)

    def compile_return(self, node: nodes.Return, scope: list[dict]) -> Code:
        if node.value is None:
            return Code(False, lambda env: Returned(None))
        return self.after([self.expression(node.value, scope)], node.line, lambda env, value: Returned(copied(value)))

    def compile_simple(self, node: nodes.Simple, scope: list[dict]) -> Code:
        machine = self.machine
        action = {
            "break": lambda env: BREAK,
            "continue": lambda env: CONTINUE,
            "pass": lambda env: None,
            "halt": lambda env: machine.halt(),
            "enter_critical": lambda env: machine.enter_critical(node.line),
            "exit_critical": lambda env: machine.exit_critical(node.line),
        }[node.word]
        return Code(False, action)

    def compile_onthread(self, node: nodes.OnThread, scope: list[dict]) -> Code:
        handle = self.expression(node.handle, scope)
        machine, line = self.machine, node.line

        def check(env, value):
            if type(value) is not int:
                raise TypeError(f"`{node.word}` needs a thread handle, got {type_name(value)}")
            return value

        checked = self.after([handle], line, check)

        def run(env):
            number = (yield from checked.run(env)) if checked.waits else checked.run(env)
            if node.word == "kill":
                machine.kill_thread(number)
            else:
                yield Join(number)

        return Code(True, run)

    def condition(self, node: Any, scope: list[dict], where: str) -> Code:
        return self.after([self.expression(node, scope)], node.line, lambda env, v: operators.boolean(v, where))

    def compile_if(self, node: nodes.If, scope: list[dict]) -> Code:
        always = Code(False, lambda env: True)
        branches = tuple(
            (always if c is None else self.condition(c, scope, "`if`"), self.block(b, scope)) for c, b in node.branches
        )
        if not any(c.waits or b.waits for c, b in branches):
            runs = tuple((c.run, b.run) for c, b in branches)

            def plain(env):
                for condition, block in runs:
                    if condition(env):
                        return block(env)

            return Code(False, plain)

        def waiting(env):
            for condition, block in branches:
                if (yield from condition.run(env)) if condition.waits else condition.run(env):
                    return (yield from block.run(env)) if block.waits else block.run(env)

        return Code(True, waiting)

    def compile_while(self, node: nodes.While, scope: list[dict]) -> Code:
        condition, body = self.condition(node.condition, scope, "`while`"), self.block(node.body, scope)
        spend, line = self.machine.spend, node.line
        if not (condition.waits or body.waits):
            def plain(env):
                while condition.run(env):
                    spend(line)
                    ending = body.run(env)
                    if ending is BREAK:
                        return None
                    if ending is not None and ending is not CONTINUE:
                        return ending

            return Code(False, plain)

        def waiting(env):
            while (yield from condition.run(env)) if condition.waits else condition.run(env):
                spend(line)
                ending = (yield from body.run(env)) if body.waits else body.run(env)
                if ending is BREAK:
                    return None
                if ending is not None and ending is not CONTINUE:
                    return ending

        return Code(True, waiting)

    def compile_switch(self, node: nodes.Switch, scope: list[dict]) -> Code:
        """The first case that equals the value, else the default; a case ends at its own `end`."""
        subject = self.expression(node.subject, scope)
        cases = tuple((value and value.value, value is None, self.block(b, scope)) for value, b in node.cases)
        equal = operators.BINARY["=="]

        def choose(env, value):
            for wanted, is_default, block in cases:
                if not is_default and equal(value, wanted):
                    return block
            return next((block for _, is_default, block in cases if is_default), None)

        chosen = self.after([subject], node.line, choose)

        def run(env):
            block = (yield from chosen.run(env)) if chosen.waits else chosen.run(env)
            if block is not None:
                return (yield from block.run(env)) if block.waits else block.run(env)

        return Code(True, run)

    # --- expressions --------------------------------------------------------------------------------------------
    def expression(self, node: Any, scope: list[dict]) -> Code:
        return getattr(self, f"value_{type(node).__name__.lower()}")(node, scope)

    def value_literal(self, node: nodes.Literal, scope: list[dict]) -> Code:
        value = node.value
        return Code(False, lambda env: value)

    def value_name(self, node: nodes.Name, scope: list[dict]) -> Code:
        name, line, world = node.name, node.line, self.globals
        if self.strict and not any(name in names for names in self.assigned):
            raise ScriptError(f"{name} is never assigned", line)

        def run(env):
            if name in env:
                return env[name]
            if name in world:
                return world[name]
            raise ScriptError(f"{name} has no value", line)

        return Code(False, run)

    def value_sequence(self, node: nodes.Sequence, scope: list[dict]) -> Code:
        make = operators.make_pose if node.pose else operators.make_list
        return self.after([self.expression(i, scope) for i in node.items], node.line, lambda env, *v: make(*v))

    def value_operation(self, node: nodes.Operation, scope: list[dict]) -> Code:
        table = operators.UNARY if len(node.operands) == 1 else operators.BINARY
        function = table[node.operator]
        return self.after([self.expression(o, scope) for o in node.operands], node.line, lambda env, *v: function(*v))

    def value_index(self, node: nodes.Index, scope: list[dict]) -> Code:
        parts = [self.expression(node.base, scope), *(self.expression(i, scope) for i in node.indices)]
        return self.after(parts, node.line, lambda env, *v: operators.get_item(*v))

    def value_call(self, node: nodes.Call, scope: list[dict]) -> Code:
        routine = next((table[node.name] for table in reversed(scope) if node.name in table), None)
        signature = routine.signature if routine else self.builtins.get(node.name)
        wrong = None
        if signature is None:
            wrong = f"unknown function {node.name}"
        elif node.as_thread != (routine is not None and routine.function.kind == "thread"):
            wrong = f"{node.name} is a thread, start it with run" if routine and not node.as_thread else (
                f"{node.name} is not a thread")
        else:
            wrong = signature.mismatch(len(node.positional), tuple(node.named))
        parts = [self.expression(a, scope) for a in (*node.positional, *node.named.values())]
        if wrong:
            if self.strict:
                raise ScriptError(wrong, node.line)

            def unknown(env, *values):
                raise ScriptError(wrong, node.line)

            return self.after(parts, node.line, unknown)
        arrange = signature.arranger(len(node.positional), tuple(node.named))
        if routine is not None:
            return self.call_routine(node, routine, parts, arrange)
        function, line = signature.function, node.line
        call = self.after(parts, line, lambda env, *values: function(*arrange(values)))
        if signature.instant:
            return self.after([call], line, _not_a_wait) if signature.injected else call

        def waiting(env):
            result = (yield from call.run(env)) if call.waits else call.run(env)
            return (yield result) if result.__class__ is Wait else result

        return Code(True, waiting)

    def call_routine(self, node: nodes.Call, routine: Routine, parts: list[Code], arrange: Callable) -> Code:
        machine, params, line = self.machine, routine.signature.params, node.line

        def bind(env, *values):
            return {name: copied(value) for name, value in zip(params, arrange(values))}

        bound = self.after(parts, line, bind)
        # A body that is not compiled yet (recursion, or defined further down) is taken to wait.
        if not (node.as_thread or bound.waits or routine.body is None or routine.body.waits):
            body_run = routine.body.run

            def plain(env):
                thread = machine.enter_call(line)
                ending = body_run(bound.run(env))
                thread.depth -= 1
                return ending.value if type(ending) is Returned else None

            return Code(False, plain)

        def run(env):
            local = (yield from bound.run(env)) if bound.waits else bound.run(env)
            if node.as_thread:
                return machine.start_thread(routine.body, local, line)
            thread = machine.enter_call(line)
            body = routine.body
            ending = (yield from body.run(local)) if body.waits else body.run(local)
            thread.depth -= 1
            return ending.value if type(ending) is Returned else None

        return Code(True, run)


def _not_a_wait(env: dict, value: Any) -> Any:
    if value.__class__ is Wait:
        raise TypeError("a builtin that is not annotated as returning a Wait returned one")
    return value


def _is_constant(node: Any) -> bool:
    if isinstance(node, nodes.Sequence):
        return all(_is_constant(item) for item in node.items)
    if isinstance(node, nodes.Operation):
        return all(_is_constant(operand) for operand in node.operands)
    return isinstance(node, nodes.Literal)


def _assigned(function: nodes.Function, top: bool) -> set[str]:
    """Names a function may read: its parameters and what it assigns; for the program, every global of its functions."""
    names = set(function.params)

    def visit(statements):
        for node in statements:
            if isinstance(node, nodes.Assign):
                names.add(node.name)
            elif isinstance(node, nodes.If):
                for _, block in node.branches:
                    visit(block)
            elif isinstance(node, nodes.While):
                visit(node.body)
            elif isinstance(node, nodes.Switch):
                for _, block in node.cases:
                    visit(block)

    visit(function.body)
    return names
