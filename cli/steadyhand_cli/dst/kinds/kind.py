"""The type of a row's `apply`."""
from __future__ import annotations

import random
from collections.abc import Callable

from steadyhand_cli.dst.world import World

Apply = Callable[[World, random.Random], bool]  # False: nothing was there to strike
