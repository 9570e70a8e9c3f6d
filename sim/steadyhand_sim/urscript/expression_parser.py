"""Tokens -> expressions: precedence climbing, depth bounded. `parser` adds statements and definitions."""
from __future__ import annotations

from steadyhand_sim.urscript import nodes
from steadyhand_sim.urscript.errors import ScriptError
from steadyhand_sim.urscript.lexer import Token

MAX_NESTING = 40  # blocks, brackets and calls within one another
MAX_EXPRESSION_DEPTH = 100  # operators in one chain: a + b + c ...

PRECEDENCE = {"or": 1, "xor": 2, "and": 3, "==": 5, "!=": 5, "<": 5, ">": 5, "<=": 5, ">=": 5,
              "+": 6, "-": 6, "*": 7, "/": 7, "%": 7}
NOT_PRECEDENCE, SIGN_PRECEDENCE = 4, 8


class ExpressionParser:
    """A cursor over the tokens, and the expressions at it."""

    def __init__(self, tokens: list[Token]):
        self.tokens = tokens
        self.at = 0
        self.nesting = 0

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
