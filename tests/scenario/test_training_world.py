"""The training world against the runtime's: the same arm within a fraction of a millimetre, the same grasps."""
import numpy as np
import pytest

pytest.importorskip("pybullet")
pytest.importorskip("gymnasium")

from steadyhand import cell, kinematics  # noqa: E402
from steadyhand.errors import ConfigError  # noqa: E402
from steadyhand_sim.envs.motion import CYCLE_S  # noqa: E402
from steadyhand_sim.envs.plant_parameters import PlantParameters  # noqa: E402
from steadyhand_sim.envs.training_world import RUNTIME_RATES, Rates, TrainingWorld  # noqa: E402
from steadyhand_sim import scene  # noqa: E402
from steadyhand_sim.world import World, WorldConfig  # noqa: E402

pytestmark = pytest.mark.sim
HOME = cell.HOME_Q_RAD


def motion(n=150):
    """Smooth set-points from home: positions, velocities (n, 6); up to 0.9 rad/s."""
    t = CYCLE_S * np.arange(1, n + 1)[:, None]
    rate, size = np.array([3.0, 3.5, 4.0, 4.5, 5.0, 6.0]), np.array([0.3, 0.15, -0.2, 0.2, 0.2, 0.3])
    return HOME + size * (1 - np.cos(rate * t)), size * rate * np.sin(rate * t)


def by_runtime(setpoints):
    with World(WorldConfig(n_cubes=1)) as world:
        seen = []
        for q, qd in zip(*setpoints):
            world.step(q, qd, 4)
            seen.append(world.q_rad)
    return np.array(seen)


def by_training(setpoints, rates=Rates(), plant=PlantParameters(), detail="contact"):
    with TrainingWorld(WorldConfig(n_cubes=1), plant, rates) as world:
        seen = []
        world.detail(detail)
        for q, qd in zip(*setpoints):
            world.cycle(q.tolist(), qd.tolist())
            seen.append(world.q_rad)
    return np.array(seen)


def tools_mm(a, b):
    """Distance of the tools, mm."""
    there, here = (kinematics.pose_base_link_tool(q)[:, :3, 3] for q in (a, b))
    return 1e3 * np.linalg.norm(there - here, axis=1)


def test_at_the_runtimes_rates_it_is_the_runtimes_world():
    assert np.abs(by_training(motion(), RUNTIME_RATES) - by_runtime(motion())).max() < 1e-6


@pytest.mark.parametrize("detail", ["free", "near", "contact"])
def test_at_its_own_rates_the_tool_is_where_the_runtimes_is(detail):
    """At up to 0.5 m/s of the tool: a motor period of 4 ms instead of 2 comes 1 ms late."""
    apart = tools_mm(by_training(motion(), detail=detail), by_runtime(motion()))
    assert np.median(apart) < 0.7 and apart.max() < 1.5


def grasp(world, step, seed, offset_m):
    """Close on the cube `offset_m` beside its middle, lift 15 cm in a second: where the cube is in the hand."""
    world.reset(seed, 1)
    position = world.object_poses()[0][0]
    yaw = float(scene.cube_yaw(world.object_poses()[1])[0])
    way = [(0.12, 60), (0.0, 120)]
    q = kinematics.ik_near(
        kinematics.tool_down(position[0] + offset_m, position[1], 0.14, yaw), HOME, max_iterations=100
    )
    for share in np.linspace(0, 1, 150):
        step(HOME + share * (q - HOME), (q - HOME) / 1.2 * (share < 1))
    for up, cycles in way:
        wanted = kinematics.ik_near(kinematics.tool_down(position[0] + offset_m, position[1], 0.02 + up, yaw), q)
        for share in np.linspace(0, 1, cycles):
            step(q + share * (wanted - q), np.zeros(6))
        q = wanted
    world.set_gripper("close")
    for _ in range(40):
        step(q, np.zeros(6))
    up = kinematics.ik_near(kinematics.tool_down(position[0] + offset_m, position[1], 0.17, yaw), q, max_iterations=60)
    for share in np.linspace(0, 1, 125):
        step(q + share * (up - q), np.zeros(6))
    for _ in range(60):
        step(up, np.zeros(6))
    return world.object_poses()[0][0] - kinematics.pose_base_link_tool(world.q_rad)[:3, 3], world.gripper_width


@pytest.mark.parametrize(("seed", "offset_m"), [(1, 0.0), (2, 0.006)])
def test_a_grasp_ends_as_in_the_runtimes_world(seed, offset_m):
    with World(WorldConfig(n_cubes=1)) as world:
        there, width = grasp(world, lambda q, qd: world.step(q, qd, 4), seed, offset_m)
    with TrainingWorld(WorldConfig(n_cubes=1)) as world:
        here, other = grasp(world, lambda q, qd: world.cycle(q.tolist(), qd.tolist()), seed, offset_m)
    assert np.abs(there).max() < 0.02  # held
    assert np.abs(here - there).max() < 0.0015 and abs(width - other) < 0.0005


def test_same_seed_same_bits_after_another_episode():
    def bits(world, seed):
        world.reset(seed, 1)
        for q, qd in zip(*motion(40)):
            world.cycle(q.tolist(), qd.tolist())
        return world.q_rad.tobytes() + world.object_poses()[0].tobytes()

    with TrainingWorld() as world:
        first, other, again = bits(world, 5), bits(world, 6), bits(world, 5)
        assert world.time_s == pytest.approx(40 * CYCLE_S)  # since the reset
    assert first == again != other


def test_a_payload_hangs_and_a_bias_shows():
    still = (np.repeat(HOME[None], 150, axis=0), np.zeros((150, 6)))
    loaded = by_training(still, plant=PlantParameters(payload_kg=1.0))[-1] - HOME
    height = kinematics.pose_base_link_tool(HOME + loaded)[2, 3] - kinematics.pose_base_link_tool(HOME)[2, 3]
    assert -0.02 < height < -0.0002
    bias = (0.002, -0.001, 0.001, 0.0, 0.0, 0.0)
    assert np.abs(by_training(still, plant=PlantParameters(bias_rad=bias))[-1] - HOME - bias).max() < 3e-4


@pytest.mark.parametrize("bad", [{"free_hz": 240}, {"contact_hz": 125}, {"exchanges": 3}, {"exchanges": 0}])
def test_rates_name_what_does_not_fit(bad):
    with pytest.raises(ConfigError, match=next(iter(bad))):
        Rates(**bad)
