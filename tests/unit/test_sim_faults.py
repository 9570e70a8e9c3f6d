"""Faults of the simulated cell: closed list, checked parameters, seeded schedules, and their effect."""
import numpy as np
import pytest

pytest.importorskip("pybullet")
from steadyhand import cell
from steadyhand.errors import ConfigError
from steadyhand_sim import faults
from steadyhand_sim.plant import CellPlant
from steadyhand_sim.simulated_cell import SimulatedCell
from steadyhand_sim.ur_controller.controller import URController
from steadyhand_sim.ur_controller.modes import SafetyMode
from steadyhand_sim.ur_controller.plant import PlantCommand
from steadyhand_sim.world import World, WorldConfig

pytestmark = pytest.mark.sim


@pytest.fixture
def sim():
    with World(WorldConfig(n_cubes=2), seed=1) as world:
        yield SimulatedCell(world, URController(CellPlant(world)), look_seed=1, look_split="test")


@pytest.mark.parametrize("name, parameters", [
    ("meteor", {}), (None, {}), ("push", {"fx_n": 1e9}), ("push", {"fx_n": float("nan")}), ("push", {"fx_n": True}),
    ("push", {"torque": 1}), ("move_cube", {}), ("push", []), ("finger_friction", {"value": "0"}), (["push"], {}),
])
def test_unknown_or_out_of_range_is_refused(name, parameters):
    with pytest.raises(ConfigError, match="fault"):
        faults.check(name, parameters)


@pytest.mark.parametrize("name", faults.FAULTS)
def test_every_fault_applies(sim, name):
    parameters = {"index": 1, "x_m": 0.5, "y_m": 0.0} if name == "move_cube" else {}
    if name == "stall":
        parameters = {"duration_s": 0.1}
    assert sim.handle({"fault": name, "parameters": parameters}) == {"fault": name}
    for _ in range(5):
        sim.controller.step()
    assert sim.handle({"get": "state"})["state"]["events"][-1]["fault"] == name


def test_move_cube_beyond_the_scene_is_refused(sim):
    with pytest.raises(ConfigError, match="the scene has 2 cubes"):
        sim.handle({"fault": "move_cube", "parameters": {"index": 2, "x_m": 0.5, "y_m": 0.0}})


def test_a_schedule_is_checked_against_the_scene_before_it_begins(sim):
    late = faults.TimedFault.parse("move_cube@5,index=2,x_m=0.5,y_m=0")
    with pytest.raises(ConfigError, match="the scene has 2 cubes"):
        SimulatedCell(sim.world, sim.controller, 1, "test", [late])


def test_half_a_cube_is_refused():
    with pytest.raises(ConfigError, match="index=0.5"):
        faults.check("move_cube", {"index": 0.5, "x_m": 0.5, "y_m": 0.0})


def test_move_cube_moves_it(sim):
    sim.inject("move_cube", {"index": 0, "x_m": 0.47, "y_m": 0.31})
    assert sim.handle({"get": "score"})["score"]["in_box"] == 1


def test_frozen_camera_repeats_itself_and_thaws(sim):
    first = sim.snapshot()
    sim.inject("camera_freeze", {})
    frozen = sim.snapshot()
    for _ in range(5):
        sim.controller.step()
    assert sim.snapshot() is frozen and frozen.seq == first.seq + 1
    sim.inject("camera_ok", {})
    assert sim.snapshot().seq == frozen.seq + 1


def test_emergency_stop_reaches_the_controller(sim):
    sim.inject("emergency_stop", {})
    assert sim.controller.safety_mode is SafetyMode.ROBOT_EMERGENCY_STOP


def test_schedule_happens_at_its_time(sim):
    sim = SimulatedCell(sim.world, sim.controller, 1, "test", [faults.TimedFault.parse("camera_blank@0.04")])
    states = []
    for _ in range(8):
        sim.apply_due_faults()
        sim.controller.step()
        states.append(sim.snapshot().camera)
    assert states == ["ok"] * 5 + ["blank"] * 3


@pytest.mark.parametrize("text", ["push", "push@x", "push@-1", "push@1,fx_n", "push@1,fx_n=a", "push@nan", "rain@1"])
def test_malformed_schedule_is_refused(text):
    with pytest.raises(ConfigError, match="fault"):
        faults.TimedFault.parse(text)


@pytest.mark.parametrize("names", [(), ("push", "rain")])
def test_sampling_unknown_faults_is_refused(names):
    with pytest.raises(ConfigError, match="fault names"):
        faults.sample_schedule(1, 3, 10.0, names)


def test_sampled_schedule_is_seeded():
    names = ("camera_blank", "push", "move_cube")
    for seed in range(20):
        for fault in faults.sample_schedule(seed, 6, 30.0, ("move_cube",), n_cubes=2):
            faults.check(fault.name, fault.parameters, n_cubes=2)
    first = faults.sample_schedule(4, 6, 30.0, names)
    assert first == faults.sample_schedule(4, 6, 30.0, names) != faults.sample_schedule(5, 6, 30.0, names)
    assert [f.time_s for f in first] == sorted(f.time_s for f in first) and first[-1].time_s <= 30.0


@pytest.mark.parametrize("bits, width", [
    (0b01, 0.0), (0b11, 0.0), (0b10, cell.GRIPPER_PREGRASP_M), (0, cell.GRIPPER_OPEN_M),
])
def test_digital_outputs_move_the_gripper_and_the_analog_input_shows_it(sim, bits, width):
    plant, still = CellPlant(sim.world), np.zeros(6)
    for _ in range(120):
        state = plant.step(PlantCommand(cell.HOME_Q_RAD, still, still, digital_outputs=bits), 0.008)
    assert state.analog_inputs_v[0] / 10.0 * 0.1 == pytest.approx(width, abs=1e-3)


def test_plant_refuses_a_cycle_that_is_no_multiple_of_the_physics(sim):
    with pytest.raises(ConfigError, match="dt_s"):
        CellPlant(sim.world).step(PlantCommand(cell.HOME_Q_RAD, np.zeros(6), np.zeros(6)), 0.003)


def test_force_estimate_shows_a_push_in_the_controllers_frame(sim):
    plant, still = CellPlant(sim.world), np.zeros(6)
    command = PlantCommand(cell.HOME_Q_RAD, still, still)
    for _ in range(60):
        quiet = plant.step(command, 0.008)
    assert np.abs(quiet.tcp_force_n[:3]).max() < 3.0
    sim.world.push_tool(np.array([0.0, 60.0, -20.0]), 0.5)
    for _ in range(30):
        pushed = plant.step(command, 0.008)
    np.testing.assert_allclose(pushed.tcp_force_n[:3], [0.0, -60.0, -20.0], atol=3.0)  # `base` is half a turn away


def test_impulse_noise_is_on_the_encoders_only_and_can_be_switched_off(sim):
    plant, quiet = sim.controller.plant, PlantCommand(cell.HOME_Q_RAD, np.zeros(6), np.zeros(6))
    sim.inject("impulse_noise", {"every_steps": 1.0})
    plant.step(quiet, 0.008)
    moved = PlantCommand(cell.HOME_Q_RAD + 0.01, np.full(6, 1.0), np.zeros(6))
    on_encoders = [plant.step(moved, 0.008).q_rad - sim.world.q_rad for _ in range(20)]
    assert np.abs(on_encoders).max() > 1e-4
    sim.inject("impulse_noise", {"sigmas": 0.0})
    assert (plant.step(moved, 0.008).q_rad == sim.world.q_rad).all()
