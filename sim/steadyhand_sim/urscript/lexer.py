"""Text -> tokens. URScript ignores indentation; a new line ends a statement unless an expression is still open."""
from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from steadyhand_sim.urscript.errors import ScriptError

MAX_SOURCE_CHARS = 1_000_000
INT_MIN, INT_MAX = -(2**31), 2**31 - 1  # integers have 32 bits (UR manuals, variable value types)

KEYWORDS = frozenset(
    "def thread sec end if elif else while return break continue pass halt global local run join kill "
    "enter_critical exit_critical switch case default and or not xor True False".split()
)
# Words of the language that this interpreter does not run: refused by name rather than taken for variables.
UNSUPPORTED = frozenset("goto import from lambda struct try except".split())

_TOKEN = re.compile(
    r"""
    (?P<space>[ \t\r\f]+|\#[^\n]*|\$[ \t]*\d+(?:[ \t]+"[^"\n]*")?)  # the last one: a program label
  | (?P<newline>\n|;)
  | (?P<pose>p(?=\[))
  | (?P<number>(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?)
  | (?P<name>[A-Za-z_][A-Za-z_0-9]*)
  | (?P<string>"[^"\n]*"|'[^'\n]*')
  | (?P<op>==|!=|<=|>=|[-+*/%<>=()\[\],:.])
    """,
    re.VERBOSE | re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Token:
    """kind: newline, pose, number, name, keyword, string, op or end_of_text. `value`: text, or the number."""

    kind: str
    value: Any
    line: int


def tokenize(source: str) -> list[Token]:
    """All tokens, closed by one of kind end_of_text. Raises ScriptError with the line of the first bad character."""
    if len(source) > MAX_SOURCE_CHARS:
        raise ScriptError(f"program of {len(source)} characters, limit {MAX_SOURCE_CHARS}")
    tokens: list[Token] = []
    position, line = 0, 1
    while position < len(source):
        match = _TOKEN.match(source, position)
        if match is None:
            raise ScriptError(f"unexpected character {source[position]!r}", line)
        position = match.end()
        kind, text = match.lastgroup, match.group()
        if kind == "space":
            continue
        tokens.append(_token(kind, text, line))
        line += text == "\n"
    tokens.append(Token("newline", "\n", line))
    tokens.append(Token("end_of_text", "end of text", line))
    return tokens


def _token(kind: str, text: str, line: int) -> Token:
    if kind == "name":
        if text in UNSUPPORTED:
            raise ScriptError(f"`{text}` is not supported by this interpreter", line)
        return Token("keyword" if text in KEYWORDS else "name", text, line)
    if kind == "number":
        return Token("number", _number(text, line), line)
    if kind == "string":
        return Token("string", text[1:-1], line)
    return Token(kind, text, line)


def _number(text: str, line: int) -> int | float:
    if text.isdecimal():
        if len(text) > 10 or int(text) > INT_MAX:
            raise ScriptError(f"integer {text[:20]} does not fit in 32 bits", line)
        return int(text)
    value = float(text)
    if not math.isfinite(value):
        raise ScriptError(f"number {text[:20]} is too large", line)
    return value
