"""Randomised plants stay within what was asked; pseudo-real ones follow from the weights."""
from dataclasses import dataclass, replace

import numpy as np
import pytest

from policies.training import plants
from policies.training.config import RandomisationConfig
from steadyhand.errors import ConfigError


@dataclass(frozen=True)
class Plant:
    """A stand-in with the kinds of parameter that the environments' plant has."""

    dead_time_s: tuple[float, ...] = (0.009, 0.006)
    gain: float = 1.0
    friction: tuple[float, ...] = (0.1, 0.2)
    bias_rad: tuple[float, ...] = (0.0, 0.0)
    backlash_rad: tuple[float, ...] = (0.0, 0.0)


CONFIG = RandomisationConfig({"dead_time_s": (0.8, 2.5), "gain": (0.6, 1.1), "friction": (0.5, 4.0)},
                             {"bias_rad": (-0.01, 0.01)}, nominal_share=0.1)
STRUCTURE = {"backlash_rad": (0.001, 0.004)}
HASH = "0123456789abcdef" * 4


def shares(plant: Plant) -> dict[str, float]:
    """The factor (or value) of each varied parameter."""
    return {"dead_time_s": plant.dead_time_s[0] / 0.009, "gain": plant.gain, "friction": plant.friction[0] / 0.1,
            "bias_rad": plant.bias_rad[0]}


def outside(plant: Plant) -> list[str]:
    ranges = CONFIG.factors | CONFIG.ranges
    return [n for n, v in shares(plant).items() if not ranges[n][0] - 1e-9 <= v <= ranges[n][1] + 1e-9]


def test_randomised_plants_fill_the_range_and_stay_in_it():
    rng = np.random.default_rng(0)
    drawn = [plants.draw_plant(CONFIG, rng, Plant()) for _ in range(500)]
    assert not any(map(outside, drawn)) and all(p.backlash_rad == (0.0, 0.0) for p in drawn)
    gains = np.array([p.gain for p in drawn if p != Plant()])
    assert gains.min() < 0.63 and gains.max() > 1.07
    assert 20 < sum(p == Plant() for p in drawn) < 90  # the identified one, now and then
    assert all(p.dead_time_s[1] / p.dead_time_s[0] == pytest.approx(6 / 9) for p in drawn)  # one factor for all joints
    assert any(p.bias_rad[0] * p.bias_rad[1] < 0 for p in drawn)  # a value of its own for each


def test_a_plant_follows_from_its_generator():
    one, two = (plants.draw_plant(CONFIG, np.random.default_rng([7, 11]), Plant()) for _ in range(2))
    assert one == two


def test_an_unknown_parameter_is_named():
    config = RandomisationConfig({"dead_time": (1.0, 2.0)}, {})
    with pytest.raises(ConfigError, match="a plant has no 'dead_time'; it has dead_time_s, gain"):
        plants.draw_plant(config, np.random.default_rng(0), Plant())


def test_pseudo_real_plants_follow_from_the_weights():
    one, same = (plants.pseudo_real(HASH, 25, CONFIG, STRUCTURE, Plant()) for _ in range(2))
    other = plants.pseudo_real("f" + HASH[1:], 25, CONFIG, STRUCTURE, Plant())
    assert one == same and not any(a == b for a, b in zip(one, other))
    assert plants.pseudo_real(HASH, 10, CONFIG, STRUCTURE, Plant()) == one[:10]


def test_half_have_structure_and_a_quarter_lie_outside():
    drawn = plants.pseudo_real(HASH, 400, CONFIG, STRUCTURE, Plant())
    structured = [p.backlash_rad != (0.0, 0.0) for p in drawn]
    beyond = [bool(outside(p)) for p in drawn]
    assert sum(structured) == 200 and sum(beyond) == 100
    assert sum(a and b for a, b in zip(structured, beyond)) == 50  # crossed
    assert all(len(outside(p)) in (0, plants.BEYOND_COUNT) for p in drawn)
    assert [plants.is_structured(k) for k in range(400)] == structured
    assert [plants.is_outside(k) for k in range(400)] == beyond
    assert min(p.friction[0] for p in drawn) > 0 and min(p.gain for p in drawn) > 0
    assert all(0.001 <= p.backlash_rad[0] <= 0.004 for p, s in zip(drawn, structured) if s)


def test_no_pseudo_real_plant_is_near_the_identified_one():
    for p in plants.pseudo_real(HASH, 100, CONFIG, STRUCTURE, Plant()):
        far = shares(p)
        assert abs(far["bias_rad"]) >= 0.005 - 1e-12
        assert not 0.9 < far["dead_time_s"] < 1.75 and not 0.8 < far["gain"] < 1.05


def test_structure_that_training_varies_is_none():
    with pytest.raises(ConfigError, match="structure bias_rad: training varies it"):
        plants.pseudo_real(HASH, 1, CONFIG, {"bias_rad": (0.0, 1.0)}, Plant())


def test_described_is_for_the_record():
    assert plants.described(replace(Plant(), gain=0.7))["gain"] == 0.7


def test_the_committed_randomisation_is_of_the_environments_plant():
    pytest.importorskip("gymnasium")
    pytest.importorskip("pybullet")
    from pathlib import Path

    import policies.training
    from benchmarks.policy_success import STRUCTURE as REAL_STRUCTURE
    from policies.training.config import RunConfig
    from policies.training.schema import read

    path = Path(policies.training.__file__).parent / "configs" / "grasp_joint_random.yaml"
    config = read(RunConfig, path).randomisation
    identified, rng = plants.identified(), np.random.default_rng(0)
    drawn = [plants.draw_plant(config, rng) for _ in range(100)]
    assert identified in drawn and len(set(drawn)) > 50
    tested = plants.pseudo_real(HASH, 100, config, REAL_STRUCTURE)  # none leaves what the plant itself accepts
    assert not set(tested) & set(drawn)
