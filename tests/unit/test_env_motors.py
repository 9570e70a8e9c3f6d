"""The motors of the training world: the identified model, and what each plant parameter adds to it."""
import numpy as np
import pytest

pytest.importorskip("gymnasium")

from steadyhand.errors import ConfigError  # noqa: E402
from steadyhand_sim.envs.arm_motors import ArmMotors  # noqa: E402
from steadyhand_sim.envs.plant_parameters import PSEUDO_REAL, RANGES, PlantParameters  # noqa: E402
from steadyhand_sim.motor_model import MotorModel, MotorParameters  # noqa: E402

CYCLE_S = 0.008
IDENTIFIED = MotorParameters.load()
START = np.array([0.25, -1.8, 1.7, -1.4, -1.57, -1.3])


def setpoints(n=120, amplitude=0.2):
    """Smooth motion of all joints from rest: positions and velocities (n, 6)."""
    t = CYCLE_S * np.arange(1, n + 1)[:, None]
    rate = np.array([3.0, 4.0, 5.0, 6.0, 7.0, 8.0])
    return START + amplitude * (1 - np.cos(rate * t)) / 2, amplitude * rate * np.sin(rate * t) / 2


def run(plant=PlantParameters(), exchanges=4, micro_steps=1, n=120, sag=None, motion=None):
    """(n, 6) joints, by physics that does exactly what it is told."""
    motors = ArmMotors(IDENTIFIED, plant, CYCLE_S, exchanges, micro_steps)
    motors.reset(START.tolist())
    if sag is not None:
        motors.sag_rad_s2 = sag
    q, qd, seen = (START + plant.bias_rad).tolist(), [0.0] * 6, []
    for position, velocity in zip(*(motion or setpoints(n))):
        motors.begin(position.tolist(), velocity.tolist())
        for _ in range(exchanges):
            qd = motors.drive(q, qd)
            q = [a + b * CYCLE_S / exchanges for a, b in zip(q, qd)]
        seen.append(q)
    return np.array(seen)


def by_model(n=120):
    """The same motion by `MotorModel`, as `World.step` feeds it at 500 Hz."""
    model = MotorModel(IDENTIFIED, CYCLE_S / 4)
    model.reset(START)
    start, start_rate, seen = START, np.zeros(6), []
    for position, velocity in zip(*setpoints(n)):
        acceleration = (velocity - start_rate) / CYCLE_S
        for k in (1, 2, 3, 4):
            share = k / 4
            model.step(start + share * (position - start), start_rate + share * (velocity - start_rate), acceleration)
        start, start_rate = position, velocity
        seen.append(model.q_rad)
    return np.array(seen)


def test_in_plain_floats_it_is_the_identified_model():
    assert np.abs(run() - by_model()).max() < 1e-9


@pytest.mark.parametrize(("exchanges", "micro_steps", "limit_rad"), [(1, 4, 1e-9), (2, 1, 2.5e-3), (1, 2, 2.5e-3)])
def test_fewer_exchanges_and_steps_stay_near_it(exchanges, micro_steps, limit_rad):
    """The motion reaches 0.8 rad/s and 6 rad/s2; half the steps shift it by half of a step's way."""
    assert np.abs(run(exchanges=exchanges, micro_steps=micro_steps) - by_model()).max() < limit_rad


def lag_s(plant, joint=0):
    """Delay against the identified arm, of the best fit."""
    reference, late = run(n=200)[:, joint], run(plant, n=200)[:, joint]
    t = CYCLE_S * np.arange(200)
    shifts = np.arange(0.0, 0.12, 0.001)
    errors = [np.square(np.interp(t - s, t, reference) - late)[20:].mean() for s in shifts]
    return shifts[int(np.argmin(errors))]


def test_dead_time_and_lag_come_late():
    assert lag_s(PlantParameters(dead_time_s=0.020)) == pytest.approx(0.020, abs=0.002)
    assert lag_s(PlantParameters(lag_s=0.030)) == pytest.approx(0.030, abs=0.008)


def test_a_bias_stands_still_where_it_is():
    plant = PlantParameters(bias_rad=(0.002, -0.002, 0.001, 0.0, 0.0, 0.003))
    still = (np.repeat(START[None], 50, axis=0), np.zeros((50, 6)))
    assert np.abs(run(plant, motion=still) - START - plant.bias_rad).max() < 1e-9


def test_play_is_crossed_before_a_joint_turns_back():
    plant = PlantParameters(backlash_rad=0.004)
    moved = run(plant, n=260) - run(n=260)
    assert (moved[:, 0].min(), moved[:, 0].max()) == pytest.approx((-0.002, 0.002), abs=1e-9)  # half to each side
    assert np.abs(np.diff(run(plant, n=260), axis=0)).max() < 0.02  # no jump when the play is through


def test_weak_control_errs_more_and_friction_too():
    target = setpoints()[0]
    error = {name: np.abs(run(plant) - target).mean() for name, plant in {
        "identified": PlantParameters(), "weak": PlantParameters(gain=0.5), "rough": PlantParameters(friction=4.0),
    }.items()}
    assert error["weak"] > error["identified"] and error["rough"] > error["identified"]


def test_a_payload_sags_by_load_over_stiffness():
    still = (np.repeat(START[None], 300, axis=0), np.zeros((300, 6)))
    sag = run(motion=still, sag=[0.0, -1.5, 0.0, 0.0, 0.0, 0.0])[-1] - START
    friction = IDENTIFIED.coulomb_rad_s2[1] / IDENTIFIED.wn_rad_s[1] ** 2
    assert sag[1] == pytest.approx(-1.5 / IDENTIFIED.wn_rad_s[1] ** 2, abs=2 * friction)
    assert np.abs(np.delete(sag, 1)).max() < 1e-9


@pytest.mark.parametrize("change", [
    {"dead_time_s": -0.001}, {"lag_s": float("nan")}, {"gain": 0.0}, {"friction": -1.0}, {"backlash_rad": 1.0},
    {"bias_rad": (0.0,) * 5}, {"bias_rad": (float("inf"),) * 6}, {"payload_kg": 50.0},
])
def test_a_plant_names_its_wrong_field(change):
    with pytest.raises(ConfigError, match=next(iter(change))):
        PlantParameters(**change)


def test_samples_are_within_the_published_ranges_and_repeat():
    drawn = [PlantParameters.sample(np.random.default_rng(k)) for k in range(50)]
    for name, (low, high) in RANGES.items():
        values = [getattr(p, name) for p in drawn]
        assert low <= min(values) and max(values) <= high and np.ptp(values) > 0.5 * (high - low)
    assert PlantParameters.sample(np.random.default_rng(3)) == drawn[3]
    assert PlantParameters.sample(np.random.default_rng(3), share=0.0) == PlantParameters()
    assert PSEUDO_REAL.gain == 0.65
