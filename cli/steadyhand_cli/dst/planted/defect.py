"""What a planted defect is, and the table into which a module enters its own."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Patch = tuple[Any, str, Any]  # owner, attribute, replacement
Patches = Callable[[], list[Patch]]


@dataclass(frozen=True)
class Defect:
    """`patches` is called when it is planted; `breaks` names the invariant whose requirement it violates; `raises`: by
    an exception.
    """

    breaks: str
    says: str
    patches: Patches
    raises: bool = False


class Table(dict[str, Defect]):
    """Defects by name."""

    def enter(self, name: str, breaks: str, says: str, raises: bool = False) -> Callable[[Patches], Patches]:
        """Decorator of a defect's patches."""

        def enter(patches: Patches) -> Patches:
            self[name] = Defect(breaks, says, patches, raises)
            return patches

        return enter
