"""The motor model against a real UR5: abrupt cuts and smooth motion that the fit has not seen (No6) and has (No5)."""
from pathlib import Path

import numpy as np
import pytest

from steadyhand import cell
from steadyhand.errors import ConfigError
from steadyhand_sim.motor_model import MotorModel, MotorParameters
from steadyhand_sim.motor_validation import FIELDS, compare, main, replay

DATA = Path(__file__).parents[1] / "data" / "ur5_ntnu_2013"
J1, J6 = 0, 5


def _load(name):
    with np.load(DATA / f"{name}.npz") as data:
        return {field: data[field].astype(float) for field in FIELDS}


@pytest.mark.parametrize("name, joint, overshoot_mrad", [("cut_j1", J1, 12), ("cut_j6", J6, 20)])
def test_abrupt_cut_overshoots_as_the_robot_does(name, joint, overshoot_mrad):
    recording = _load(name)
    errors = compare(MotorParameters.load(), recording)
    assert errors["model_rmse"][joint] < errors["identity_rmse"][joint] / 3
    simulated = replay(
        MotorParameters.load(), recording["q_target"], recording["qd_target"],
        recording["q_actual"][0], recording["qd_actual"][0],
    )
    lead = np.abs(simulated - recording["q_target"])[:, joint].max() * 1e3
    assert lead == pytest.approx(overshoot_mrad, abs=4)


def test_smooth_motion_is_followed_as_the_robot_does():
    errors = compare(MotorParameters.load(), _load("smooth"))
    assert errors["model_max"].max() < 2e-3
    assert (errors["model_rmse"][1:] < errors["identity_rmse"][1:]).all()
    assert errors["model_rmse"][J1] < errors["identity_rmse"][J1] * 1.1


def test_pseudo_real_plant_is_far_from_the_robot():
    smooth = _load("smooth")
    near, far = compare(MotorParameters.load(), smooth), compare(MotorParameters.load(variant="pseudo_real"), smooth)
    assert far["model_rmse"].max() > 5 * near["model_rmse"].max()


@pytest.mark.sim
@pytest.mark.parametrize("name", ["cut_j1", "cut_j6"])
def test_physics_follows_the_motor_model(name):
    """The world's arm does through Bullet what the model does alone, for the same targets about the home pose."""
    pytest.importorskip("pybullet")
    from steadyhand_sim.world import World, WorldConfig

    recording = _load(name)
    targets = recording["q_target"] - recording["q_target"][0] + cell.HOME_Q_RAD
    velocities = recording["qd_target"]
    velocities[0] = 0.0
    expected = replay(MotorParameters.load(), targets, velocities, cell.HOME_Q_RAD, np.zeros(6))
    with World(WorldConfig(n_cubes=0)) as world:
        measured = [world.q_rad]
        for target, velocity in zip(targets[1:], velocities[1:]):
            world.step(target, velocity)
            measured.append(world.q_rad)
    assert np.abs(np.array(measured) - expected).max() < 1.5e-3


def test_rest_stays_rest():
    model = MotorModel(MotorParameters.load(), 0.002)
    model.reset(cell.HOME_Q_RAD)
    for _ in range(500):
        model.step(cell.HOME_Q_RAD, np.zeros(6), np.zeros(6))
    np.testing.assert_allclose(model.q_rad, cell.HOME_Q_RAD, atol=1e-12)


def test_dead_time_delays_the_first_motion_by_its_length():
    parameters = MotorParameters.load()
    for dead_time_s, first in ((0.0, 0), (0.004, 2), (0.010, 5)):
        model = MotorModel(MotorParameters(**{**parameters.__dict__, "dead_time_s": (dead_time_s,) * 6}), 0.002)
        model.reset(np.zeros(6))
        moved = [bool(model.step(np.full(6, 0.1), np.zeros(6), np.zeros(6)).any()) for _ in range(8)]
        assert moved.index(True) == first


@pytest.mark.parametrize("field, value", [
    ("wn_rad_s", (0.0,) * 6), ("zeta", (1.0,) * 5), ("dead_time_s", (0.5,) * 6), ("coulomb_rad_s2", (float("nan"),) * 6),
    ("acceleration_limit_rad_s2", (-1.0,) * 6),
])
def test_parameters_name_field_and_value(field, value):
    with pytest.raises(ConfigError, match=field):
        MotorParameters(**{**MotorParameters.load().__dict__, field: value})


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"ur5": {}}', '{"ur5": {"parameters": {"wn": [1]}}}'])
def test_malformed_parameter_file_is_refused(tmp_path, text):
    path = tmp_path / "motors.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match="motor parameters"):
        MotorParameters.load(path)


def test_validation_refuses_what_is_no_recording(tmp_path, capsys):
    path = tmp_path / "x.npz"
    for content in (b"not a zip", b"", b"PK\x03\x04 a zip that ends here"):
        path.write_bytes(content)
        assert main([str(path)]) == 2
    np.savez(path, q_target=np.zeros((60, 6)))
    assert main([str(path)]) == 2
    assert "q_actual" in capsys.readouterr().err
