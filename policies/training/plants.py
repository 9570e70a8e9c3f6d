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
    drawn = {name: rng.uniform(low, high, _count(nominal, name, config)) for name, (low, high) in _ranges(config)}
    return _with(nominal, config, drawn)


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
        centre, count = (1.0 if name in config.factors else 0.0), _count(nominal, name, config)
        drawn[name] = np.array([_far(low, high, centre, k in beyond, rng) for _ in range(count)])
    plant = _with(nominal, config, drawn)
    if is_structured(index):
        extra = {name: _shaped(nominal, name, np.array([rng.uniform(low, high)]))
                 for name, (low, high) in sorted(structure.items())}
        plant = replace(plant, **extra)
    return plant


def _far(low: float, high: float, centre: float, beyond: bool, rng: np.random.Generator) -> float:
    """A value in the outer half of the range, as seen from the identified plant's, or past the range's end."""
    ends = [e for e in (low, high) if abs(e - centre) > 1e-9] or [high]
    end = ends[rng.integers(len(ends))]
    half = (end + min(max(centre, low), high)) / 2
    value, past = rng.uniform(*sorted((half, end))), rng.uniform(*BEYOND) * (high - low)
    if not beyond:
        return value
    if end == high:
        return end + past
    return end - past if end < 0 else max(end - past, 0.2 * end)


def _ranges(config: RandomisationConfig) -> list[tuple[str, tuple[float, float]]]:
    return sorted((config.factors | config.ranges).items())


def _check(config: RandomisationConfig, nominal: Any) -> None:
    known = [f.name for f in fields(nominal)]
    for name, _ in _ranges(config):
        if name not in known:
            raise ConfigError(f"randomisation: a plant has no {name!r}; it has {', '.join(known)}")


def _count(nominal: Any, name: str, config: RandomisationConfig) -> int:
    """Numbers to draw: a factor is one for all joints, a value of its own for each."""
    old = getattr(nominal, name)
    return len(old) if isinstance(old, tuple) and name in config.ranges else 1


def _with(nominal: Any, config: RandomisationConfig, drawn: dict[str, np.ndarray]) -> Any:
    changes = {}
    for name, values in drawn.items():
        old = np.atleast_1d(getattr(nominal, name))
        changes[name] = _shaped(nominal, name, values * old if name in config.factors else values)
    return replace(nominal, **changes)


def _shaped(plant: Any, name: str, values: np.ndarray) -> Any:
    """Values in the shape that the plant has: one number, or one for each joint."""
    old = getattr(plant, name)
    if not isinstance(old, tuple):
        return float(values[0])
    return tuple(float(v) for v in np.broadcast_to(values, len(old)))
