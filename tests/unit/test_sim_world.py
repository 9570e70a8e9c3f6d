"""The simulated cell's physics: kinematics, reproducibility, gripper, brakes, refusals."""
import numpy as np
import pytest

pytest.importorskip("pybullet")
from steadyhand import cell, kinematics, ur5
from steadyhand.errors import ConfigError
from steadyhand_sim import bullet, robots
from steadyhand_sim.world import World, WorldConfig

pytestmark = pytest.mark.sim


@pytest.fixture
def world():
    with World(WorldConfig(n_cubes=3), seed=1) as w:
        yield w


def test_forward_kinematics_of_the_urdf_equals_the_core():
    client = bullet.connect()
    robot = bullet.load_ur5(client)
    index = bullet.joint_indices(client, robot)
    rng = np.random.default_rng(0)
    for _ in range(50):
        q = rng.uniform(-np.pi, np.pi, ur5.DOF)
        for name, value in zip(ur5.JOINT_NAMES, q):
            client.resetJointState(robot, index[name], value)
        state = client.getLinkState(robot, index["tool_fixed"], computeForwardKinematics=1)
        rotation = np.array(client.getMatrixFromQuaternion(state[5])).reshape(3, 3)
        expected = kinematics.pose_base_link_tool(q)
        np.testing.assert_allclose(state[4], expected[:3, 3], atol=1e-6)
        np.testing.assert_allclose(rotation, expected[:3, :3], atol=1e-6)
    client.disconnect()


def _run(world, n=60):
    trace = []
    world.set_gripper("pregrasp")
    for k in range(n):
        world.step(cell.HOME_Q_RAD + 0.1 * np.sin(k / 20) * np.ones(6))
        trace.append(np.concatenate([world.q_rad, world.qd_rad_s, world.torque_nm, world.object_poses()[0].ravel()]))
    return np.array(trace)


def test_same_seed_is_bit_identical_also_after_other_episodes(world):
    _run(world)
    world.reset(7)
    again = _run(world)
    with World(WorldConfig(n_cubes=3), seed=7) as fresh:
        np.testing.assert_array_equal(again, _run(fresh))


def test_other_seed_is_another_scene(world):
    first = world.object_poses()[0]
    world.reset(2)
    assert not np.allclose(first, world.object_poses()[0])


@pytest.mark.parametrize("n_cubes", [1, 5, 8])
def test_cubes_lie_still_in_the_tray_and_apart(world, n_cubes):
    world.reset(11, n_cubes)
    for _ in range(50):
        world.step(cell.HOME_Q_RAD)
    positions, _ = world.object_poses()
    gaps = [np.linalg.norm(a - b) for i, a in enumerate(positions) for b in positions[:i]]
    assert min(gaps, default=1.0) >= cell.MIN_CUBE_SPACING_M - 1e-3
    assert world.score().in_tray == n_cubes
    np.testing.assert_allclose(positions[:, 2], cell.CUBE_SIZE_M / 2, atol=1e-3)


def test_gripper_reaches_its_widths_with_both_fingers_alike(world):
    for command, width in (("close", 0.0), ("open", cell.GRIPPER_OPEN_M), ("pregrasp", cell.GRIPPER_PREGRASP_M)):
        world.set_gripper(command)
        for _ in range(120):
            world.step(cell.HOME_Q_RAD)
        assert world.gripper_width == pytest.approx(width, abs=1e-3)


@pytest.mark.parametrize("command", ["shut", -0.01, 0.2, float("nan")])
def test_gripper_refuses(world, command):
    with pytest.raises(ConfigError, match="gripper command"):
        world.set_gripper(command)


@pytest.mark.parametrize("target", [np.full(6, np.nan), np.zeros(5), np.full(6, np.inf)])
def test_step_refuses_what_is_not_six_finite_values(world, target):
    before = world.n_steps
    with pytest.raises(ConfigError, match="q_target_rad"):
        world.step(target)
    with pytest.raises(ConfigError, match="qd_target_rad_s"):
        world.step(cell.HOME_Q_RAD, target)
    assert world.n_steps == before


def test_brakes_hold_the_arm_against_gravity(world):
    q = world.q_rad.copy()
    world.step_braked(500)
    np.testing.assert_allclose(world.q_rad, q, atol=1e-3)
    assert np.abs(world.qd_rad_s).max() < 0.01


def test_smooth_motion_is_followed_within_two_milliradians(world):
    start, errors = world.q_rad.copy(), []
    n = 250
    for k in range(1, n + 1):
        s = k / n
        target = start + 0.5 * (10 * s**3 - 15 * s**4 + 6 * s**5)
        world.step(target, np.full(6, 0.5 * (30 * s**2 - 60 * s**3 + 30 * s**4) / (n * 0.008)))
        errors.append(np.abs(world.q_rad - target).max())
    assert max(errors) < 2.5e-3


def _potential_j(q_rad):
    """Of arm and gripper: published masses at published places of the DH frames, the gripper's boxes in tool0."""
    frames = kinematics.link_transforms(q_rad)
    masses = [(t, m, com) for t, m, com in zip(frames, robots.LINK_MASS_KG, robots.LINK_COM_M)]
    finger_z_m = robots.FINGER_ROOT_M + robots.FINGER_LENGTH_M / 2
    masses += [(frames[-1], 0.7, (0, 0, robots.FINGER_ROOT_M / 2)), (frames[-1], 0.2, (0, 0, finger_z_m))]
    return sum(9.81 * m * (t @ [*com, 1.0])[2] for t, m, com in masses)


def test_static_torque_is_that_of_gravity(world):
    """The joints carry what the masses say: the gradient of the potential energy."""
    for _ in range(100):
        world.step(cell.HOME_Q_RAD)
    q, h = world.q_rad, 1e-5
    expected = [(_potential_j(q + h * e) - _potential_j(q - h * e)) / (2 * h) for e in np.eye(ur5.DOF)]
    np.testing.assert_allclose(world.torque_nm, expected, atol=0.3)
    assert abs(expected[1]) > 5.0 and abs(expected[3]) > 1.0


def test_push_is_felt_in_the_torques(world):
    for _ in range(50):
        world.step(cell.HOME_Q_RAD)
    before = world.torque_nm[0]
    world.push_tool(np.array([0.0, 60.0, 0.0]), 0.1)
    world.step(cell.HOME_Q_RAD)
    assert world.torque_nm[0] - before == pytest.approx(-60.0 * 0.34, abs=2.0)


@pytest.mark.parametrize("field, value", [
    ("n_cubes", 9), ("physics_hz", 60), ("finger_friction", -1.0), ("cube_mass_kg", 0.0), ("q_start_rad", (0.0,) * 5),
    ("cube_friction", float("nan")),
])
def test_config_names_field_and_value(field, value):
    with pytest.raises(ConfigError, match=field):
        WorldConfig(**{field: value})
