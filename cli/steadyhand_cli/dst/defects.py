"""Seeded defects of the product, each planted in this process by name: the simulator must find every one.

A defect patches one function of the real guard, as a careless change would. `planted(name)` undoes it at the end.
"""
from __future__ import annotations

import contextlib
from collections.abc import Iterator

from steadyhand_cli.dst.checker import RAISED
from steadyhand_cli.dst.episode import Outcome
from steadyhand_cli.dst.planted import cell, chunks, endings, people, stops, watching

DEFECTS = {**stops.TABLE, **chunks.TABLE, **watching.TABLE, **endings.TABLE, **people.TABLE, **cell.TABLE}


@contextlib.contextmanager
def planted(name: str) -> Iterator[None]:
    """The product with this defect. A method that the owner inherits is patched where it is defined."""
    kept = []
    try:
        for named, attribute, replacement in DEFECTS[name].patches():
            heirs = named.__mro__ if isinstance(named, type) else (named,)
            owner = next(o for o in heirs if attribute in o.__dict__)
            kept.append((owner, attribute, owner.__dict__[attribute]))
            setattr(owner, attribute, replacement)
        yield
    finally:
        for owner, attribute, original in reversed(kept):
            setattr(owner, attribute, original)


def found(name: str, outcome: Outcome) -> bool:
    """Whether an episode with this defect shows it. An exception shows only a defect that raises: any other one raises
    because the function that it replaces has changed, and is none any more.
    """
    return not outcome.ok and outcome.violations[0].detail.startswith(RAISED) is DEFECTS[name].raises
