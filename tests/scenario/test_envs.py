"""The environments: Gymnasium's contract, bits, experts, what ends an episode, and what does not pay."""
import numpy as np
import pytest

pytest.importorskip("pybullet")
gymnasium = pytest.importorskip("gymnasium")

from steadyhand import cell, policy_io, skills  # noqa: E402
from steadyhand.errors import ConfigError  # noqa: E402
from steadyhand.limits import UR5_LIMITS  # noqa: E402
from steadyhand.types import Skill  # noqa: E402
from steadyhand_sim.envs import DOCK_ID, GRASP_ID, INSERT_ID  # noqa: E402
from steadyhand_sim.envs.agv_dock import AGVDockEnv  # noqa: E402
from steadyhand_sim.envs.arm_config import ArmConfig  # noqa: E402
from steadyhand_sim.envs.experts import expert  # noqa: E402
from steadyhand_sim.envs.plant_parameters import PSEUDO_REAL, PlantParameters  # noqa: E402
from steadyhand_sim.envs.ur5_grasp import UR5GraspEnv  # noqa: E402
from steadyhand_sim.envs.ur5_insert import UR5InsertEnv  # noqa: E402

pytestmark = pytest.mark.sim
SETTINGS = [
    (GRASP_ID, {"formulation": "cartesian_delta"}), (GRASP_ID, {"formulation": "joint_delta"}),
    (INSERT_ID, {"formulation": "cartesian_delta"}), (INSERT_ID, {"formulation": "joint_delta"}), (DOCK_ID, {}),
]
NAMES = [" ".join([i.split("/")[1], *k.values()]) for i, k in SETTINGS]
EACH = pytest.mark.parametrize(("env_id", "kwargs"), SETTINGS, ids=NAMES)
ONCE = pytest.mark.parametrize(("env_id", "kwargs"), SETTINGS[1:3] + SETTINGS[4:], ids=NAMES[1:3] + NAMES[4:])


def drive(env, seed, act, steps=10_000, options=None):
    """Observations, rewards, last info of an episode."""
    observation, info = env.reset(seed=seed, options=options)
    seen, paid = [observation], []
    for _ in range(steps):
        observation, reward, terminated, truncated, info = env.step(act(observation, info))
        seen.append(observation)
        paid.append(reward)
        if terminated or truncated:
            break
    return seen, paid, info


@pytest.fixture(scope="module")
def grasp():
    env = UR5GraspEnv()
    yield env
    env.close()


@pytest.fixture(scope="module")
def insert():
    env = UR5InsertEnv()
    yield env
    env.close()


# -- contract --------------------------------------------------------------------------------------------------------
@ONCE
def test_gymnasium_accepts_it(env_id, kwargs):
    from gymnasium.utils.env_checker import check_env

    env = gymnasium.make(env_id, **kwargs)
    check_env(env.unwrapped, skip_render_check=True)
    env.close()


@pytest.mark.parametrize("env_id", [GRASP_ID, INSERT_ID, DOCK_ID])
def test_images_are_observations_too(env_id):
    def pictures():
        env = gymnasium.make(env_id, observations="image")
        seen, _, _ = drive(env, 3, lambda o, i: np.zeros(env.action_space.shape, np.float32), steps=3)
        assert all(o in env.observation_space for o in seen)
        names = env.unwrapped.state_names
        assert len(names) == len(seen[0]["state"])
        assert not any(n.startswith(("target_", "dock_", "person_")) for n in names)
        env.close()
        return [o["image"] for o in seen]

    first, second = pictures(), pictures()
    assert all((a == b).all() for a, b in zip(first, second))
    assert first[0].std() > 5 and (first[0] != first[1]).any()  # something is seen, and it is noisy


@ONCE
def test_same_seed_same_bits_also_after_another_episode(env_id, kwargs):
    env, rng = gymnasium.make(env_id, **kwargs), np.random.default_rng(0)
    actions = rng.uniform(-0.5, 0.5, (15, *env.action_space.shape)).astype(np.float32)

    def run(seed):
        at = iter(actions)
        seen, paid, _ = drive(env, seed, lambda o, i: next(at), steps=15)
        return np.array(seen).tobytes() + np.array(paid).tobytes()

    first, other, again = run(5), run(6), run(5)
    env.close()
    fresh = gymnasium.make(env_id, **kwargs)
    env = fresh
    assert first == again == run(5) != other
    fresh.close()


def test_the_cartesian_observation_is_the_running_graphs(grasp):
    grasp.reset(seed=2)
    for action in ([0.5, -0.2, -0.4, 0.3, -1.0], [0.4, 0.4, -0.4, 0.3, -1.0], [0.1, 0.1, 0.2, -0.5, -1.0]):
        observation, *_ = grasp.step(np.array(action, np.float32))
    commanded, errors, p = grasp._player.commanded(), grasp._errors[grasp._steps], grasp._perception
    noise = p.noise_m * np.array([errors[0], errors[1], 0.0])
    target = policy_io.Target(Skill.PICK, np.array(grasp._perceived) + noise, grasp._perceived_yaw)
    width = grasp._world.gripper_width + p.width_noise_m * errors[2]
    expected = policy_io.observation(target, commanded.q_rad, commanded.qd_rad_s, width, False)
    assert grasp.observation_names == policy_io.OBSERVATION_NAMES
    assert np.allclose(observation, expected, atol=1e-5)


def test_noise_is_where_it_is_said_to_be():
    noisy, quiet = UR5GraspEnv(), UR5GraspEnv(noise=False)
    idle = np.zeros(5, np.float32)
    for seed in (1, 2):
        for env in (noisy, quiet):
            env.reset(seed=seed)
        assert noisy._start_m == quiet._start_m  # the same scene
        seen = [np.array([env.step(idle)[0][:2] for _ in range(4)]) for env in (noisy, quiet)]
        assert seen[0].std(axis=0).max() > 2e-4 and seen[1].std(axis=0).max() < 1e-6
        assert 1e-4 < np.abs(seen[0] - seen[1]).max() < 0.02
    noisy.close()
    quiet.close()


# -- experts and chance ----------------------------------------------------------------------------------------------
def grasped(env):
    """Both pads on the cube, its centre 10 cm above where it lay."""
    world = env._world
    return world.cube_position(0)[2] - cell.CUBE_SIZE_M / 2 >= 0.0995 and world.pads_touching(world.cube_body(0)) == 2


def inserted(env):
    """The peg stands on the floor inside the walls, upright; by where physics has it."""
    client = env._world.client
    (x, y, z), quaternion = client.getBasePositionAndOrientation(env._peg)
    upright = client.getMatrixFromQuaternion(quaternion)[8] > 0.996
    return np.hypot(x - env.socket.x_m, y - env.socket.y_m) < 0.006 and abs(z - 0.04) < 0.005 and upright


def docked(env):
    """Within 20 mm and 2 degrees of the dock, at rest; by where physics has the vehicle."""
    along, across, turn = env._hall.dock_from(env._hall.pose())
    speed, rotation = env._hall.plant.twist()
    return np.hypot(along, across) <= 0.02 and abs(turn) <= 0.035 and abs(speed) < 0.01 and abs(rotation) < 0.02


# What success is, and for how many steps on end: one second, 0.2 s, 0.4 s
TRUTH = {GRASP_ID: (grasped, 20), INSERT_ID: (inserted, 4), DOCK_ID: (docked, 2)}


@EACH
def test_the_expert_succeeds_and_chance_does_not(env_id, kwargs):
    """Rates over hundreds of episodes: `python -m benchmarks env_experts`."""
    env, actor, (true, steps) = gymnasium.make(env_id, **kwargs), expert(env_id, **kwargs), TRUTH[env_id]
    truth = []

    def act(observation, info):
        truth.append(true(env.unwrapped))
        return actor.act(observation, info)

    _, paid, info = drive(env, 11, act)
    truth.append(true(env.unwrapped))
    assert truth[-steps:] == [True] * steps
    assert env_id == INSERT_ID or not truth[-steps - 1]  # not a step too late (a peg must be let go of)
    assert info["success"] and info["is_success"] and info["failure"] == ""
    assert 0.9 <= sum(paid) <= 1.1 and info["terms"]["success"] == 1.0
    env.action_space.seed(1)
    _, paid, info = drive(env, 11, lambda o, i: env.action_space.sample(), steps=80)
    assert not info["success"] and sum(paid) <= 0.1
    env.close()


@pytest.mark.parametrize(("off_m", "turn_rad", "there"), [
    (0.0195, 0.0, True), (0.0205, 0.0, False), (0.0, 0.0345, True), (0.0, 0.0355, False),
])
def test_docked_is_within_20_mm_and_2_degrees(monkeypatch, off_m, turn_rad, there):
    env = AGVDockEnv()
    env.reset(seed=1)
    x, y, heading = env._hall.dock
    pose = (x + off_m * np.cos(heading), y + off_m * np.sin(heading), heading + turn_rad)
    monkeypatch.setattr(env._hall, "pose", lambda: pose)
    assert [env._docked() for _ in range(2)] == [False, there]  # at rest for 0.4 s
    env.close()


def test_plants_change_the_arm_and_the_expert_still_sees_it_through(grasp):
    def joints(plant):
        env = UR5GraspEnv(plant=plant)
        drive(env, 4, expert(GRASP_ID).act, steps=25)
        q = env._world.q_rad
        env.close()
        return q

    assert np.abs(joints(PSEUDO_REAL) - joints(None)).max() > 0.003
    for plant in (PSEUDO_REAL, PlantParameters()):  # told at a reset it is the same arm as one that was made so
        drive(grasp, 4, expert(GRASP_ID).act, steps=25, options={"plant": plant})
        assert np.array_equal(grasp._world.q_rad, joints(plant))
    _, _, info = drive(grasp, 4, expert(GRASP_ID).act, options={"plant": PlantParameters(dead_time_s=0.01, gain=0.9)})
    assert info["success"] and grasp.plant.gain == 0.9
    with pytest.raises(ConfigError, match="plant"):
        grasp.reset(seed=1, options={"plant": {"gain": 2}})
    grasp.reset(seed=1, options={"plant": PlantParameters()})


def test_the_whole_gate_and_the_certificate_give_the_same_episode(grasp):
    whole = UR5GraspEnv(config=ArmConfig(certify=False))
    act = expert(GRASP_ID).act
    quick, _, info = drive(grasp, 9, act, steps=40)
    slow, _, other = drive(whole, 9, act, steps=40)
    whole.close()
    assert info["certified"] > 20 and other["certified"] == 0 and info["accepted"] == other["accepted"]
    assert np.abs(np.array(quick) - np.array(slow)).max() < 1e-5


# -- what ends an episode --------------------------------------------------------------------------------------------
def test_three_invalid_actions_in_a_row_end_the_episode(grasp):
    good, nan = np.zeros(5, np.float32), np.full(5, np.nan, np.float32)
    grasp.reset(seed=1)
    streaks = []
    for action in (nan, 3 * np.ones(5), good, good, nan, nan):
        *_, terminated, _, info = grasp.step(action)
        streaks.append(info["invalid_streak"])
        assert not terminated
    assert streaks == [1, 2, 2, 0, 1, 2] or streaks == [1, 2, 0, 0, 1, 2]  # a good one resets it when it arrives
    *_, terminated, _, info = grasp.step(nan)
    assert terminated and info["failure"] == "invalid_actions" and info["invalid_streak"] == 3
    assert info["refused"] == {"not_finite": 4, "out_of_range": 1} and info["invalid_total"] == 5


def test_an_arm_that_is_not_where_it_is_told_to_be_ends_the_episode(grasp, monkeypatch):
    grasp.reset(seed=1)
    (first, *others), qd = grasp._world.measured()
    for share, over in ((0.5, False), (1.5, True)):
        there = [first + share * UR5_LIMITS.tracking_rad, *others], qd
        monkeypatch.setattr(grasp._world, "measured", lambda there=there: there)
        *_, terminated, _, info = grasp.step(idle(None, None))
        assert terminated == over and info["failure"] == ("tracking" if over else "")


def test_a_vehicle_brakes_on_nan_and_ends_after_three():
    env = AGVDockEnv()
    env.reset(seed=1)
    for k in range(3):
        *_, terminated, _, info = env.step(np.array([np.nan, 0.0]))
        assert info["invalid_streak"] == k + 1 and terminated == (k == 2)
    assert info["failure"] == "invalid_actions" and env._hall.speed_m_s == 0.0
    env.close()


@pytest.mark.parametrize("env_id", [GRASP_ID, DOCK_ID])
def test_a_wrong_shape_is_an_error(env_id):
    env = gymnasium.make(env_id).unwrapped
    env.reset(seed=1)
    with pytest.raises(ConfigError, match="shape"):
        env.step(np.zeros(3))
    env.close()


def test_time_truncates(grasp):
    env = UR5GraspEnv(config=ArmConfig(time_limit_s=1.0))
    _, _, info = drive(env, 1, lambda o, i: np.zeros(5, np.float32))
    assert info["failure"] == "time" and info["time_s"] == pytest.approx(1.0, abs=0.01)
    env.close()


def test_without_finger_friction_nothing_is_grasped():
    from steadyhand_sim.world import WorldConfig

    env = UR5GraspEnv(config=ArmConfig(world=WorldConfig(finger_friction=0.0)))
    _, paid, info = drive(env, 11, expert(GRASP_ID).act)
    env.close()
    assert not info["success"] and sum(paid) <= 0.1


def test_tampered_observations_fail(grasp):
    """Mirrored target: an actor that ignored its observation would not notice."""
    mirror = np.where(np.arange(14) < 2, -1.0, 1.0)
    act = expert(GRASP_ID).act
    _, _, info = drive(grasp, 11, lambda o, i: act(o * mirror))
    assert not info["success"]


def test_a_peg_dropped_beside_the_socket_is_no_success(insert):
    """All votes granted, the socket believed 3 cm away from where it is."""
    insert.reset(seed=3)
    x, y, z = insert._perceived
    insert._perceived = (x + 0.035, y + 0.035, z)
    insert._wanted = policy_io.Target(Skill.PLACE, np.array(insert._perceived), insert._perceived_yaw)
    act, paid, over = expert(INSERT_ID).act, 0.0, False
    observation = insert._observe()
    while not over:
        observation, reward, terminated, truncated, info = insert.step(act(observation))
        paid, over = paid + reward, terminated or truncated
    assert not info["success"] and info["failure"] != "" and paid <= 0.1


# -- what does not pay -----------------------------------------------------------------------------------------------
def idle(o, i):
    return np.array([0, 0, 0, 0, -1], np.float32)


def wiggle():
    turn = iter(range(10_000))
    return lambda o, i: np.array([0.6 * (-1) ** (next(turn) // 3), 0, 0, 0.3, -1], np.float32)


@pytest.mark.parametrize("act", [idle, wiggle()], ids=["idle", "wiggling"])
def test_doing_nothing_and_wiggling_pay_less_than_a_tenth(grasp, act):
    _, paid, info = drive(grasp, 2, act)
    assert not info["success"] and sum(paid) <= 0.1
    assert np.abs(np.cumsum(paid)).max() <= 0.1 + 1e-9


def test_knocking_the_cube_ends_the_episode_without_pay(grasp):
    act = expert(GRASP_ID).act

    def sweep(o, i):
        """Down beside the cube first, then through it."""
        far = o.copy()
        far[0] -= 0.08 * (o[9] > 0.035)
        action = act(far)
        action[2], action[4] = -0.4 * (o[9] > 0.03), -1.0
        return action

    _, paid, info = drive(grasp, 3, sweep)
    assert info["failure"] in ("knocked", "tracking", "invalid_actions", "time") and sum(paid) <= 0.1
    grasp.reset(seed=3)
    grasp._world.move_object(0, np.array(grasp._start_m) + [0.04, 0.0, 0.0], 0.0)
    _, reward, terminated, _, info = grasp.step(idle(None, None))
    assert terminated and info["failure"] == "knocked" and reward <= 0.1


def test_a_success_is_paid_once(grasp):
    _, paid, info = drive(grasp, 11, expert(GRASP_ID).act)
    assert info["success"] and sum(p > 0.5 for p in paid) == 1 and paid[-1] == max(paid)


def test_lifting_again_and_again_pays_once():
    """Potentials pay back: the score of a lift cannot be repeated."""
    from steadyhand_sim.envs import rewards

    reward, names = rewards.make("grasp", "bounded", 160), rewards.STATE_NAMES["grasp"]
    low, high = np.zeros(len(names)), np.zeros(len(names))
    high[[names.index("held"), names.index("lifted")]] = 1.0, 0.15
    reward.reset(low)
    total = sum(reward.step(high if k % 2 else low, np.zeros(5), 0.05 * k)[0] for k in range(160))
    assert total <= 0.1


def test_standing_before_a_person_pays_nothing_and_hitting_costs():
    env = AGVDockEnv(protective_field=False, time_limit_s=12.0)
    _, paid, info = drive(env, 1, lambda o, i: np.zeros(2, np.float32))
    assert info["failure"] == "time" and sum(paid) <= 0.0
    env.reset(seed=1)
    hall = env._hall
    pose = hall.pose()
    hall.person = _standing(pose[0] + 0.9 * np.cos(pose[2]), pose[1] + 0.9 * np.sin(pose[2]))
    total, over = 0.0, False
    while not over:
        _, reward, terminated, truncated, info = env.step(np.array([0.5, 0.0], np.float32))
        total, over = total + reward, terminated or truncated
    assert info["failure"] == "hit_person" and -0.6 <= total <= -0.4
    env.close()


def test_the_protective_field_stops_before_a_person():
    env = AGVDockEnv()
    env.reset(seed=1)
    pose = env._hall.pose()
    env._hall.person = _standing(pose[0] + 1.6 * np.cos(pose[2]), pose[1] + 1.6 * np.sin(pose[2]))
    for _ in range(20):
        *_, terminated, _, info = env.step(np.array([0.8, 0.0], np.float32))
        assert not terminated
    assert info["field_stops"] >= 1 and env._hall.person_gap_m() > 0.05 and abs(env._hall.plant.twist()[0]) < 0.02
    env.close()


def _standing(x, y):
    from steadyhand_sim.envs.agv_hall import Person

    return Person(x, x + 100.0, y, 0.0, 0.0, 1e9, 0.0, x_m=x)


@pytest.mark.parametrize("bad", [
    {"formulation": "polar"}, {"observations": "smell"}, {"reward": "generous"},
])
def test_a_wrong_argument_is_named(bad):
    with pytest.raises(ConfigError, match=next(iter(bad))):
        UR5GraspEnv(**bad)


def test_no_expert_for_an_unknown_environment():
    with pytest.raises(ConfigError, match="no expert"):
        expert("Steadyhand/Other-v0")


def test_votes_are_granted_by_the_runtimes_rule(grasp, monkeypatch):
    asked = []
    monkeypatch.setattr(skills, "grant_close", lambda *a: asked.append(a) or skills.Grant(False, "never"))
    _, _, info = drive(grasp, 11, expert(GRASP_ID).act, steps=120)
    assert asked and not info["success"]


@pytest.mark.parametrize("env_id", [GRASP_ID, INSERT_ID])
def test_gradients_are_true_where_an_episode_goes(env_id):
    from steadyhand_sim.envs.rewards import GradientMonitor, RewardStatistics

    env = gymnasium.make(env_id).unwrapped
    monitor, statistics, act = GradientMonitor(env.reward), RewardStatistics(), expert(env_id).act
    observation, info = env.reset(seed=11)
    for k in range(160):
        action = act(observation, info)
        observation, reward, terminated, truncated, info = env.step(action)
        statistics.add(reward, info["terms"])
        assert monitor.check(env._reward_state(info["success"]), action.astype(float), info["time_s"]) == []
        if terminated or truncated:
            break
    env.close()
    assert info["success"] and monitor.checked == k + 1 and max(monitor.worst.values()) < 0.01
    found = statistics.summary()
    assert found["inside_share"] == 1.0 and found["paid"]["success"] == 1.0 and found["n"] == k + 1
