"""The one error of the interpreter."""
from steadyhand.errors import SteadyhandError


class ScriptError(SteadyhandError):
    """A program is malformed or did what the controller forbids. `line` counts from 1; 0 when no line is to blame."""

    def __init__(self, reason: str, line: int = 0):
        super().__init__(f"line {line}: {reason}" if line else reason)
        self.reason = reason
        self.line = line
