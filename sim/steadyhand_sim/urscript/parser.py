"""Tokens -> tree: recursive descent for statements and definitions, over the expressions of `expression_parser`."""
from __future__ import annotations

from steadyhand_sim.urscript import nodes
from steadyhand_sim.urscript.errors import ScriptError
from steadyhand_sim.urscript.expression_parser import ExpressionParser
from steadyhand_sim.urscript.lexer import Token, tokenize

BLOCK_ENDS = ("end", "elif", "else", "case", "default")


def parse(source: str) -> nodes.Function:
    """The program as a function without parameters. Raises ScriptError for anything else, with its line.

    One top-level definition is the program, as the controller runs `def name(): ... end` sent to a script port.
    Otherwise the top-level statements are the program, and definitions beside them are its functions.
    """
    try:
        return _Parser(tokenize(source)).program()
    except RecursionError:
        raise ScriptError("nested too deeply") from None


class _Parser(ExpressionParser):
    def __init__(self, tokens: list[Token]):
        super().__init__(tokens)
        self.functions: list[dict] = []  # of the definitions being parsed, innermost last

    def program(self) -> nodes.Function:
        self.functions.append({})
        body = self.block(())
        if self.token.kind != "end_of_text":
            self.fail("expected a statement")
        functions = self.functions.pop()
        if body:
            return nodes.Function("def", "", [], [], body, 1, functions)
        if len(functions) != 1:
            raise ScriptError(f"expected one program, found {len(functions)} definitions and no statement")
        (program,) = functions.values()
        if program.kind == "thread" or program.params:
            raise ScriptError("a program is `def name(): ... end` without parameters", program.line)
        return program

    def block(self, ends: tuple[str, ...]) -> list:
        """Statements up to, not including, one of the ending keywords (or the end of the text)."""
        self.enter()
        statements = []
        self.skip_newlines()
        while self.token.kind != "end_of_text" and not self.is_word(*ends):
            statement = self.statement()
            if statement is not None:
                statements.append(statement)
            # Several statements may share a line when a keyword begins the next one; so does the stock RTDE client.
            if self.token.kind not in ("newline", "keyword", "end_of_text"):
                self.fail("expected the end of the statement")
            self.skip_newlines()
        self.nesting -= 1
        return statements

    def statement(self):
        token = self.token
        if token.kind in ("name", "pose"):
            return self.assignment_or_call("")
        if token.kind == "keyword":
            handler = getattr(self, f"on_{token.value}", None)
            if handler is not None:
                self.take()
                return handler(token.line)
        return self.fail("expected a statement")

    def definition(self, kind: str, line: int) -> None:
        name = self.expect_name(f"after `{kind}`").value
        self.expect("(", f"after `{kind} {name}`")
        params, defaults = [], []
        while not self.is_word(")"):
            param = self.expect_name("as a parameter").value
            if param in params:
                raise ScriptError(f"{name}: parameter {param} twice", line)
            params.append(param)
            defaults.append(self.expression() if self.accept("=") else None)
            if not self.accept(","):
                break
        self.expect(")", f"after the parameters of {name}")
        self.expect(":", f"after {name}(...)")
        self.functions.append({})
        body = self.block(("end",))
        self.expect("end", f"to close {name} of line {line}")
        functions = self.functions.pop()
        if name in self.functions[-1]:
            raise ScriptError(f"{name} is defined twice", line)
        self.functions[-1][name] = nodes.Function(kind, name, params, defaults, body, line, functions)

    def on_def(self, line):
        self.definition("def", line)

    def on_thread(self, line):
        self.definition("thread", line)

    def on_sec(self, line):
        self.definition("sec", line)

    def on_global(self, line):
        return self.assignment_or_call("global")

    def on_local(self, line):
        return self.assignment_or_call("local")

    def assignment_or_call(self, scope: str):
        token = self.expect_name("to assign to" if scope else "")
        if not scope and self.is_word("("):
            return nodes.Evaluate(self.call(token, as_thread=False), token.line)
        indices = self.indices() if self.is_word("[") else []
        self.expect("=", f"after {token.value}")
        self.skip_newlines()
        return nodes.Assign(token.value, indices, self.expression(), scope, token.line)

    def on_if(self, line):
        branches = []
        condition = self.expression()
        while True:
            self.expect(":", "after the condition" if condition is not None else "after `else`")
            branches.append((condition, self.block(("end",) if condition is None else ("elif", "else", "end"))))
            if self.accept("elif"):
                condition = self.expression()
            elif self.accept("else"):
                condition = None
            else:
                self.expect("end", f"to close `if` of line {line}")
                return nodes.If(branches, line)

    def on_while(self, line):
        condition = self.expression()
        self.expect(":", "after the condition")
        body = self.block(("end",))
        self.expect("end", f"to close `while` of line {line}")
        return nodes.While(condition, body, line)

    def on_switch(self, line):
        subject = self.expression()
        self.expect(":", "after the value of `switch`")
        cases = []
        self.skip_newlines()
        while not self.accept("end"):
            if self.accept("default"):
                value = None
            else:
                self.expect("case", f"in `switch` of line {line}")
                value = self.expression()
                if not isinstance(value, nodes.Literal):
                    raise ScriptError("a case needs a constant", value.line)
            self.expect(":", "after the case")
            cases.append((value, self.block(("end",))))
            self.expect("end", "to close the case")
            self.skip_newlines()
        return nodes.Switch(subject, cases, line)

    def on_return(self, line):
        if self.token.kind == "newline" or self.is_word(*BLOCK_ENDS):
            return nodes.Return(None, line)
        return nodes.Return(self.expression(), line)

    def simple(self, word, line):
        if self.accept("("):
            self.expect(")", f"after `{word}(`")
        return nodes.Simple(word, line)

    def on_break(self, line):
        return nodes.Simple("break", line)

    def on_continue(self, line):
        return nodes.Simple("continue", line)

    def on_pass(self, line):
        return nodes.Simple("pass", line)

    def on_halt(self, line):
        return self.simple("halt", line)

    def on_enter_critical(self, line):
        return self.simple("enter_critical", line)

    def on_exit_critical(self, line):
        return self.simple("exit_critical", line)

    def on_join(self, line):
        return nodes.OnThread("join", self.expression(), line)

    def on_kill(self, line):
        return nodes.OnThread("kill", self.expression(), line)

    def on_run(self, line):
        return nodes.Evaluate(self.call(self.expect_name("after `run`"), as_thread=True), line)
