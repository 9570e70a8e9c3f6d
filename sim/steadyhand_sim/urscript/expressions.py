"""Expressions -> Python closures; `compiler` adds statements and definitions."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from steadyhand_sim.urscript import nodes, operators
from steadyhand_sim.urscript.compiled import Code, Returned, Routine, refuse
from steadyhand_sim.urscript.errors import ScriptError
from steadyhand_sim.urscript.signature import Signature
from steadyhand_sim.urscript.values import Wait, copied


class ExpressionCompiler:
    """Compiles for one machine. `scope` is a chain of function tables, innermost last."""

    def __init__(self, machine: Any, builtins: dict[str, Signature], strict: bool):
        self.machine = machine
        self.globals = machine.globals
        self.builtins = builtins
        self.strict = strict
        self.assigned: list[set[str]] = []  # names assigned in the program and in the function being compiled

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
