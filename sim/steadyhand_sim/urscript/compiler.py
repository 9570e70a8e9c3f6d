"""Tree -> Python closures. Each takes the dictionary of local variables (`env`).

An expression or statement that may consume time is a *generator* function: it yields `Wait` or `Join` and is sent the
result. All others are plain functions: most of a program never waits, and this keeps a cycle short.

Scope rules (script manual, "Scoping rules"): a variable is global or local to its function. Without a qualifier it is
the global one if that exists when the assignment runs, otherwise local. Variables of the program's own body are global.
An inner function does not see the locals of the outer one.
"""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from steadyhand_sim.urscript import nodes, operators
from steadyhand_sim.urscript.compiled import BREAK, CONTINUE, Code, Join, Returned, Routine
from steadyhand_sim.urscript.errors import ScriptError
from steadyhand_sim.urscript.expressions import ExpressionCompiler
from steadyhand_sim.urscript.signature import Signature
from steadyhand_sim.urscript.values import copied, type_name


class Compiler(ExpressionCompiler):
    """Compiles one program."""

    def program(self, program: nodes.Function) -> Code:
        """The body of the program; its functions are compiled with it."""
        self.assigned = [_globals(program), set()]
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
            self.assigned = [outer_assigned[0], _assigned(routine.function)]
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


def _is_constant(node: Any) -> bool:
    if isinstance(node, nodes.Sequence):
        return all(_is_constant(item) for item in node.items)
    if isinstance(node, nodes.Operation):
        return all(_is_constant(operand) for operand in node.operands)
    return isinstance(node, nodes.Literal)


def _assigned(function: nodes.Function) -> set[str]:
    """Names a function may read besides the program's: its parameters and what it assigns."""
    return {*function.params, *(node.name for node in _assignments(function.body))}


def _globals(program: nodes.Function) -> set[str]:
    """Names any function may read: what the program assigns, and what its functions assign as `global`."""
    names = _assigned(program)
    waiting = list(program.functions.values())
    while waiting:
        function = waiting.pop()
        names.update(node.name for node in _assignments(function.body) if node.scope == "global")
        waiting += function.functions.values()
    return names


def _assignments(statements: list) -> Iterator[nodes.Assign]:
    for node in statements:
        if isinstance(node, nodes.Assign):
            yield node
        elif isinstance(node, nodes.If):
            for _, block in node.branches:
                yield from _assignments(block)
        elif isinstance(node, nodes.While):
            yield from _assignments(node.body)
        elif isinstance(node, nodes.Switch):
            for _, block in node.cases:
                yield from _assignments(block)
