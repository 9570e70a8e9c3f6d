"""Plants: the one that was identified, those drawn around it in training, and the pseudo-real ones of the test.

Pseudo-real plants are drawn after everything is frozen, from the hash of the frozen weights: nobody can have tuned to
them. Each parameter that training varied lies in the outer half of its range, in a quarter of the plants some lie
beyond it, and half have structure that neither the fit of the motor model nor the training has. They are simulated;
nothing here is a real robot.
"""
from __future__ import annotations

from dataclasses import asdict, fields, replace
from typing import Any

import numpy as np

from policies.training.config import RandomisationConfig
from steadyhand.errors import ConfigError

BEYOND = (0.1, 0.3)  # of the range's width, past its end
BEYOND_COUNT = 2  # parameters of a plant outside


def identified() -> Any:
    """The plant of the motor model that was fitted to recordings of a real UR5."""
    from steadyhand_sim.envs.plant_parameters import PlantParameters

    return PlantParameters()


def draw_plant(config: RandomisationConfig, rng: np.random.Generator, nominal: Any = None) -> Any:
    """A plant of the training distribution. Raises ConfigError for a parameter that a plant does not have."""
    nominal = identified() if nominal is None else nominal
    _check(config, nominal)
    if rng.random() < config.nominal_share:
        return nominal
    return _with(nominal, config, {name: rng.uniform(low, high) for name, (low, high) in _ranges(config)})


def pseudo_real(
    frozen_sha256: str, n: int, config: RandomisationConfig, structure: dict[str, tuple[float, float]],
    nominal: Any = None,
) -> list:
    """n plants that follow from the hash. Of each eight, two are outside the range, four have `structure` (ranges of
    parameters that are naught in the identified plant and that `config` does not vary)."""
    nominal = identified() if nominal is None else nominal
    _check(config, nominal)
    for name in structure:
        if name in config.factors or name in config.ranges:
            raise ConfigError(f"structure {name}: training varies it; it would be no structure that it lacks")
    return [_pseudo_real(int(frozen_sha256[:16], 16), index, config, structure, nominal) for index in range(n)]


def is_structured(index: int) -> bool:
    """Whether the plant of this number has structure that training lacks."""
    return index % 2 == 0


def is_outside(index: int) -> bool:
    """Whether the plant of this number lies outside the range that training drew from."""
    return index // 2 % 4 == 0


def described(plant: Any) -> dict:
    """Its parameters, for the record."""
    return asdict(plant)


def _pseudo_real(root: int, index: int, config: RandomisationConfig, structure: dict, nominal: Any) -> Any:
    rng = np.random.default_rng([root, index])
    ranges, drawn = _ranges(config), {}
    beyond = rng.permutation(len(ranges))[:BEYOND_COUNT] if is_outside(index) else ()
    for k, (name, (low, high)) in enumerate(ranges):
        centre = 1.0 if name in config.factors else 0.0
        far = _far_ends(low, high, centre)
        end, half = far[rng.integers(len(far))]
        drawn[name] = rng.uniform(*sorted((half, end)))
        if k in beyond:
            past = rng.uniform(*BEYOND) * (high - low)
            drawn[name] = end + past if end == high else end - past if end < 0 else max(end - past, 0.2 * end)
    plant = _with(nominal, config, drawn)
    if is_structured(index):
        plant = replace(plant, **{name: _set(plant, name, rng.uniform(low, high))
                                  for name, (low, high) in sorted(structure.items())})
    return plant


def _far_ends(low: float, high: float, centre: float) -> list[tuple[float, float]]:
    """(end, half-way to it from the centre) of each end of a range that leads away from the identified plant."""
    ends = [e for e in (low, high) if abs(e - centre) > 1e-9] or [high]
    return [(e, (e + min(max(centre, low), high)) / 2) for e in ends]


def _ranges(config: RandomisationConfig) -> list[tuple[str, tuple[float, float]]]:
    return sorted((config.factors | config.ranges).items())


def _check(config: RandomisationConfig, nominal: Any) -> None:
    known = [f.name for f in fields(nominal)]
    for name, _ in _ranges(config):
        if name not in known:
            raise ConfigError(f"randomisation: a plant has no {name!r}; it has {', '.join(known)}")


def _with(nominal: Any, config: RandomisationConfig, drawn: dict[str, float]) -> Any:
    changes = {}
    for name, value in drawn.items():
        if name in config.factors:
            old = getattr(nominal, name)
            changes[name] = tuple(value * x for x in old) if isinstance(old, tuple) else value * old
        else:
            changes[name] = _set(nominal, name, value)
    return replace(nominal, **changes)


def _set(plant: Any, name: str, value: float) -> Any:
    """A value in the shape that the plant has it: one number, or the same for each joint."""
    old = getattr(plant, name)
    return (value,) * len(old) if isinstance(old, tuple) else value
