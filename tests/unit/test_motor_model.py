"""The motor model against a real UR5: abrupt cuts and smooth motion that the fit has not seen (No6) and has (No5)."""
from pathlib import Path

import numpy as np
import pytest

from steadyhand import cell
from steadyhand.errors import ConfigError
from steadyhand_sim.currents import motor_currents
from steadyhand_sim.motor_model import MotorModel, MotorParameters
from steadyhand_sim.motor_validation import FIELDS, compare, main, replay

DATA = Path(__file__).parents[1] / "data" / "ur5_ntnu_2013"
J1, J6 = 0, 5
# Torque of the controller's model (N m), joint speed (rad/s) and motor current (A), measured at ten instants of run
# No8, which the currents were not fitted to.
NO8 = (
    ((-2.3, 31.8, 14.3, 0.6, 0.0, 0.2), (-0.09, -0.06, 0.08, -0.11, 0.11, 0.18),
     (-1.28, 1.97, 1.81, -0.50, 0.21, -0.09)),
    ((-0.6, 46.5, 15.1, 1.4, -0.2, 0.0), (-0.56, -0.36, 0.56, -0.75, 0.72, 1.01),
     (-0.63, 2.81, 2.68, 0.03, 0.31, 0.31)),
    ((3.8, 56.2, 15.7, 1.6, 0.0, -0.2), (-0.35, -0.23, 0.34, -0.50, 0.46, 0.65),
     (-0.73, 4.13, 2.36, 0.12, 0.11, -0.03)),
    ((-0.4, 52.3, 16.3, 1.5, 0.0, 0.0), (0.56, 0.38, -0.56, 0.74, -0.75, -1.08),
     (0.79, 5.23, 0.18, 0.68, -0.26, -0.58)),
    ((-0.6, 39.7, 13.8, 1.1, -0.2, 0.0), (0.55, 0.37, -0.56, 0.75, -0.74, -1.08),
     (0.97, 4.83, -0.09, 0.23, -0.37, -0.19)),
    ((-3.1, 36.1, 14.9, 0.8, -0.0, 0.2), (-0.50, -0.33, 0.50, -0.63, 0.67, 0.98),
     (-1.69, 2.17, 2.50, -0.51, 0.33, 0.14)),
    ((-0.5, 51.2, 16.1, 1.5, -0.0, 0.0), (-0.55, -0.37, 0.56, -0.72, 0.71, 1.09),
     (-1.24, 3.96, 2.84, -0.45, 0.31, 0.18)),
    ((3.9, 56.4, 15.8, 1.6, 0.0, -0.2), (0.23, 0.15, -0.24, 0.27, -0.30, -0.39),
     (1.55, 5.63, 0.73, 0.75, -0.52, -0.67)),
    ((-0.6, 48.0, 15.4, 1.5, -0.1, 0.0), (0.55, 0.36, -0.56, 0.71, -0.74, -1.04),
     (1.47, 5.85, 0.51, 0.84, -0.29, -0.55)),
    ((-2.4, 32.4, 14.4, 0.6, 0.0, 0.2), (0.20, 0.14, -0.20, 0.29, -0.28, -0.40),
     (0.75, 3.85, 0.41, -0.09, -0.18, 0.02)),
)


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


def test_currents_are_those_of_a_run_that_the_fit_has_not_seen():
    torque_nm, qd_rad_s, measured_a = np.array(NO8).transpose(1, 0, 2)
    rmse_a = np.sqrt(((motor_currents(torque_nm, qd_rad_s) - measured_a) ** 2).mean(axis=0))
    assert (rmse_a < [0.6, 0.6, 0.6, 0.35, 0.35, 0.35]).all()


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
    ("wn_rad_s", (0.0,) * 6), ("zeta", (1.0,) * 5), ("dead_time_s", (0.5,) * 6),
    ("coulomb_rad_s2", (float("nan"),) * 6),
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
