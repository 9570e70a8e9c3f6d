"""What differs between episodes: a vehicle and its guard beside the arm, tighter limits of inputs while it moves.

A third of the episodes have the vehicle, a quarter the limits, so a twelfth both; which ones, the seed says.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

ARM, PARTNER = "arm", "agv"
ZONE_M = (0.0, 0.35, -0.75, 1.2, 1.2, 0.9)  # of base_link: a tenth of the configurations that the commander goes to
INPUTS_S = {"agent": 0.5, "estimator": 0.5}
MOVING_INPUTS_S = {"agent": 0.075}


@dataclass(frozen=True)
class Mix:
    """What an episode has."""

    vehicle: bool = False
    moving_inputs: bool = False

    def guard(self) -> dict[str, Any]:
        """Parameters of the arm's guard."""
        found: dict[str, Any] = {"inputs": INPUTS_S}
        if self.moving_inputs:
            found["moving_inputs"] = MOVING_INPUTS_S
        if self.vehicle:
            found |= {
                "name": ARM, "peers": {PARTNER: "slot:"}, "interlock": (PARTNER,), "interlock_zone_m": ZONE_M
            }  # fmt: skip
        return found


def mix_of(seed: int) -> Mix:
    """Of the episode with this seed."""
    return Mix(seed % 3 == 0, seed % 4 == 2)
