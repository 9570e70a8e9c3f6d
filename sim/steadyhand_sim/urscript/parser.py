"""Tokens -> tree: recursive descent for statements, precedence climbing for expressions. Depth is bounded."""
from __future__ import annotations

from steadyhand_sim.urscript import nodes
from steadyhand_sim.urscript.errors import ScriptError
from steadyhand_sim.urscript.lexer import Token, tokenize

MAX_NESTING = 40  # blocks, brackets and calls within one another
MAX_EXPRESSION_DEPTH = 100  # operators in one chain: a + b + c ...

PRECEDENCE = {"or": 1, "xor": 2, "and": 3, "==": 5, "!=": 5, "<": 5, ">": 5, "<=": 5, ">=": 5,
              "+": 6, "-": 6, "*": 7, "/": 7, "%": 7}
NOT_PRECEDENCE, SIGN_PRECEDENCE = 4, 8
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


class _Parser:
    def __init__(self, tokens: list[Token]):
        self.tokens = tokens
        self.at = 0
        self.nesting = 0
        self.functions: list[dict] = []  # of the definitions being parsed, innermost last

    # --- tokens ---------------------------------------------------------------------------------------------
    @property
    def token(self) -> Token:
        return self.tokens[self.at]

    def is_word(self, *words: str) -> bool:
        token = self.token
        return token.kind in ("keyword", "op") and token.value in words

    def take(self) -> Token:
        token = self.token
        if token.kind != "end_of_text":
            self.at += 1
        return token

    def accept(self, *words: str) -> Token | None:
        return self.take() if self.is_word(*words) else None

    def expect(self, word: str, where: str) -> Token:
        if not self.is_word(word):
            self.fail(f"expected `{word}` {where}")
        return self.take()

    def expect_name(self, where: str) -> Token:
        if self.token.kind not in ("name", "pose"):  # `p` is an ordinary name where a name is wanted
            self.fail(f"expected a name {where}")
        return self.take()

    def fail(self, reason: str):
        found = "end of line" if self.token.kind == "newline" else f"`{str(self.token.value)[:40]}`"
        raise ScriptError(f"{reason}, found {found}", self.token.line)

    def skip_newlines(self) -> None:
        while self.token.kind == "newline":
            self.at += 1

    def enter(self) -> None:
        self.nesting += 1
        if self.nesting > MAX_NESTING:
            raise ScriptError(f"nested more than {MAX_NESTING} deep", self.token.line)

    # --- definitions and statements ---------------------------------------------------------------------------
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

    # --- expressions --------------------------------------------------------------------------------------------
    def expression(self, least: int = 1):
        left = self.operand()
        while True:
            operator = self.token
            precedence = PRECEDENCE.get(operator.value) if operator.kind in ("op", "keyword") else None
            if precedence is None or precedence < least:
                return left
            self.take()
            self.skip_newlines()
            right = self.expression(precedence + 1)
            left = nodes.Operation(operator.value, [left, right], operator.line, self.depth([left, right]))

    def operand(self):
        token = self.token
        if self.is_word("not", "-", "+"):
            self.take()
            self.enter()
            inner = self.expression(NOT_PRECEDENCE if token.value == "not" else SIGN_PRECEDENCE)
            self.nesting -= 1
            if token.value != "not" and isinstance(inner, nodes.Literal) and type(inner.value) in (int, float):
                return nodes.Literal(-inner.value if token.value == "-" else inner.value, token.line)
            return nodes.Operation(token.value, [inner], token.line, self.depth([inner]))
        value = self.atom()
        while self.is_word("["):
            indices = self.indices()
            value = nodes.Index(value, indices, token.line, self.depth([value, *indices]))
        return value

    def atom(self):
        token = self.take()
        if token.kind in ("number", "string"):
            return nodes.Literal(token.value, token.line)
        if token.kind == "keyword" and token.value in ("True", "False"):
            return nodes.Literal(token.value == "True", token.line)
        if token.kind == "name":
            return self.call(token, as_thread=False) if self.is_word("(") else nodes.Name(token.value, token.line)
        if token.kind == "keyword" and token.value == "run":
            return self.call(self.expect_name("after `run`"), as_thread=True)
        if token.kind == "pose":
            self.expect("[", "after p")
            items = self.items("]")
            if len(items) in (1, 2):  # a variable named p, indexed
                return nodes.Index(nodes.Name("p", token.line), items, token.line, self.depth(items))
            if len(items) != 6:
                raise ScriptError(f"a pose has 6 numbers, not {len(items)}", token.line)
            return nodes.Sequence(items, True, token.line, self.depth(items))
        if token.kind == "op" and token.value == "[":
            items = self.items("]")
            return nodes.Sequence(items, False, token.line, self.depth(items))
        if token.kind == "op" and token.value == "(":
            self.enter()
            self.skip_newlines()
            inner = self.expression()
            self.skip_newlines()
            self.expect(")", "to close the bracket")
            self.nesting -= 1
            return inner
        if token.kind != "end_of_text":
            self.at -= 1
        return self.fail("expected a value")

    def items(self, closing: str) -> list:
        """Comma-separated expressions after an opening bracket, and the closing bracket."""
        self.enter()
        items = []
        self.skip_newlines()
        while not self.is_word(closing):
            items.append(self.expression())
            self.skip_newlines()
            if not self.accept(","):
                break
            self.skip_newlines()
        self.expect(closing, "after the last element")
        self.nesting -= 1
        return items

    def indices(self) -> list:
        line = self.expect("[", "").line
        found = self.items("]")
        if len(found) not in (1, 2):
            raise ScriptError(f"an index has 1 or 2 numbers, not {len(found)}", line)
        return found

    def call(self, name: Token, as_thread: bool) -> nodes.Call:
        self.expect("(", f"after {name.value}")
        self.enter()
        positional, named = [], {}
        self.skip_newlines()
        while not self.is_word(")"):
            following = self.tokens[min(self.at + 1, len(self.tokens) - 1)]  # the last one is the end of the text
            if self.token.kind == "name" and following.kind == "op" and following.value == "=":
                key = self.take().value
                self.take()
                if key in named:
                    raise ScriptError(f"{name.value}: argument {key} twice", name.line)
                named[key] = self.expression()
            elif named:
                self.fail("expected name=value after a named argument")
            else:
                positional.append(self.expression())
            self.skip_newlines()
            if not self.accept(","):
                break
            self.skip_newlines()
        self.expect(")", f"after the arguments of {name.value}")
        self.nesting -= 1
        depth = self.depth([*positional, *named.values()])
        return nodes.Call(name.value, positional, named, as_thread, name.line, depth)

    def depth(self, operands: list) -> int:
        depth = 1 + max((o.depth for o in operands), default=0)
        if depth > MAX_EXPRESSION_DEPTH:
            raise ScriptError(f"expression of more than {MAX_EXPRESSION_DEPTH} operators deep", self.token.line)
        return depth
