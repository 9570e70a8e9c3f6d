"""What an episode must be: refused by the field's name, kept bit by bit, stored once, hashed by content."""
import dataclasses

import numpy as np
import pytest

from policies.training.store import demonstrations, episode_bytes, segments
from policies.training.store.demonstrations import DemonstrationStore
from policies.training.store.episode import UNSEEDED, BadEpisode, Episode
from policies.training.store.frames import BadStore
from steadyhand import policy_io, ur5

GRASP = "Steadyhand/UR5Grasp-v0"
JOINT_ELEMENTS = tuple(f"q_{name.removesuffix('_joint')}" for name in ur5.JOINT_NAMES)


def episode(number=1, steps=12, pictures=False, **changes):
    """A valid one."""
    rng = np.random.default_rng(number)
    found = Episode(
        GRASP, "expert", number, True, 20.0, policy_io.OBSERVATION_NAMES, policy_io.ACTION_NAMES, ur5.JOINT_NAMES,
        100.0 + np.arange(steps) / 20.0 + rng.uniform(0, 0.008, steps),
        rng.standard_normal((steps, policy_io.OBSERVATION_DIM)).astype(np.float32),
        rng.uniform(-1, 1, (steps, policy_io.ACTION_DIM)).astype(np.float32), rng.random(steps).astype(np.float32),
        {"image": rng.integers(0, 256, (steps, 8, 10, 3), dtype=np.uint8)} if pictures else {}, origin="a test",
    )  # fmt: skip
    return dataclasses.replace(found, **changes)


def same(one, other):
    """Whether two episodes are the same bit by bit."""
    return one.form == other.form and all(
        np.array_equal(getattr(one, f.name), getattr(other, f.name)) if f.name != "images"
        else one.images.keys() == other.images.keys()
        and all(np.array_equal(one.images[k], other.images[k]) for k in one.images)
        for f in dataclasses.fields(Episode)
    )  # fmt: skip


def changed(name, change):
    values = np.array(getattr(episode(), name))
    change(values)
    return {name: values}


def put(*place, value):
    def change(values):
        values[place] = value

    return change


def stamps(*rates_hz):
    """Stamps of stretches of 30 frames at these rates."""
    return {"stamp_s": np.cumsum([1 / r for rate in rates_hz for r in [rate] * 30]), "steps": 30 * len(rates_hz)}


def renamed(field, names):
    return {field: tuple(names)}


SWAPPED = (*ur5.JOINT_NAMES[:2], ur5.JOINT_NAMES[3], ur5.JOINT_NAMES[2], *ur5.JOINT_NAMES[4:])


@pytest.mark.parametrize("wrong, field, said", [
    ({"env_id": ""}, "env_id", "name the environment"),
    ({"source": "dream"}, "source", "'dream': one of expert, teleoperation, policy, intervention"),
    ({"seed": 1.5}, "seed", "whole number"), ({"seed": -2}, "seed", "whole number"), ({"seed": True}, "seed", "whole"),
    ({"success": 1}, "success", "True or False"), ({"success": np.True_}, "success", "True or False"),
    ({"rate_hz": 0.0}, "rate_hz", "over 0"), ({"rate_hz": float("nan")}, "rate_hz", "over 0"),
    ({"task": 3, }, "task", "a text"),
    ({"joint_names": ur5.JOINT_NAMES[::-1]}, "joint_names", "'wrist_3_joint' at place 0, 'shoulder_pan_joint' is"),
    ({"joint_names": SWAPPED}, "joint_names", "'wrist_1_joint' at place 2, 'elbow_joint' is wanted"),
    ({"joint_names": ("pan", *ur5.JOINT_NAMES[1:])}, "joint_names", "'pan' at place 0"),
    ({"joint_names": ur5.JOINT_NAMES[:5]}, "joint_names", "5 of them, 6 are wanted"),
    ({"joint_names": ()}, "joint_names", "0 of them"),
    ({"joint_names": list(ur5.JOINT_NAMES)}, "joint_names", "a tuple of names"),
    (renamed("action_names", ("dx", "dy", "dz", "dx", "grip")), "action_names", "dx: more than once"),
    (renamed("action_names", ()), "action_names", "nothing to learn from"),
    (renamed("observation_names", policy_io.OBSERVATION_NAMES[:-1]), "observation", r"shape \(12, 14\), \(12, 13\) is"),
    (changed("observation", put(7, 2, value=np.nan)), "observation", "nan at frame 7, target_minus_tool_z .1 in all"),
    (changed("action", put(3, 4, value=-np.inf)), "action", "-inf at frame 3, grip"),
    (changed("reward", put(11, value=np.nan)), "reward", "nan at frame 11"),
    (changed("stamp_s", put(4, value=np.nan)), "stamp_s", "nan at frame 4"),
    ({"action": episode().action.astype(float)}, "action", "float64: float32 is wanted"),
    ({"action": episode().action.tolist()}, "action", "list: float32 is wanted"),
    ({"reward": episode().reward[:, None]}, "reward", r"shape \(12, 1\), \(12,\) is wanted"),
    ({"observation": episode().observation[:-1]}, "observation", r"shape \(11, 14\), \(12, 14\) is wanted"),
    ({"stamp_s": np.array([])}, "stamp_s", "T from 1 to"), ({"stamp_s": 3.0}, "stamp_s", "T from 1 to"),
    ({"images": {"image": np.zeros((12, 8, 10, 3))}}, "images.image", "float64: uint8 is wanted"),
    ({"images": {"image": np.zeros((11, 8, 10, 3), np.uint8)}}, "images.image", r"shape \(11, 8, 10, 3\)"),
    ({"images": {"image": np.zeros((12, 3, 8, 10), np.uint8)}}, "images.image", r"\(12, height, width, 3\) is wanted"),
    ({"images": {"a/b": np.zeros((12, 8, 10, 3), np.uint8)}}, "images", "a name without '/'"),
])  # fmt: skip
def test_a_bad_field_is_named(wrong, field, said):
    with pytest.raises(BadEpisode, match=f"^{field}: .*{said}") as raised:
        episode(**wrong).validate()
    assert raised.value.field == field


@pytest.mark.parametrize("stamp_s, said", [
    (stamps(20.0, 25.0), "frames 0 to .* come at .* Hz, rate_hz = 20"),
    (stamps(20.0, 19.0), "Hz, rate_hz = 20"),
    (stamps(25.0), "come at 25.00 Hz"),
    (stamps(10.0), "1 missing after frame 0: 0.100 s to the next"),
    ({"stamp_s": np.delete(np.arange(13) / 20.0, 5)}, "1 missing after frame 4"),
    ({"stamp_s": np.delete(np.arange(15) / 20.0, [5, 6, 7])}, "3 missing after frame 4"),
    ({"stamp_s": np.repeat(np.arange(6) / 10.0, 2)}, "frame 1 is not after frame 0"),
    ({"stamp_s": np.arange(12)[::-1] / 20.0}, "frame 1 is not after frame 0"),
])  # fmt: skip
def test_missing_frames_and_mixed_rates_are_refused(stamp_s, said):
    with pytest.raises(BadEpisode, match=f"^stamp_s: .*{said}"):
        episode(**stamp_s).validate()


@pytest.mark.parametrize("names", [
    {"observation_names": (*JOINT_ELEMENTS[:2], JOINT_ELEMENTS[3], JOINT_ELEMENTS[2], *JOINT_ELEMENTS[4:])},
    {"observation_names": JOINT_ELEMENTS[::-1]},
    {"action_names": ("d_elbow", "d_shoulder_lift", "dz", "dyaw", "grip")},
])  # fmt: skip
def test_elements_named_after_joints_stand_in_the_robots_order(names):
    (field, order), = names.items()
    values = {"observation" if field == "observation_names" else "action": np.zeros((12, len(order)), np.float32)}
    with pytest.raises(BadEpisode, match=f"^{field}: .* in the order .* is wanted"):
        episode(**names, **values).validate()


def test_the_robots_order_passes_however_often_it_comes():
    names = (*JOINT_ELEMENTS, *(n.replace("q_", "qd_") for n in JOINT_ELEMENTS), "gripper_width")
    episode(observation_names=names, observation=np.zeros((12, 13), np.float32)).validate()


def test_a_vehicle_has_no_joints_and_another_robot_its_own():
    episode(env_id="Steadyhand/AGVDock-v0", joint_names=()).validate()
    episode(env_id="Elsewhere/Other-v0", joint_names=("a", "b")).validate()
    episode(source="teleoperation", seed=UNSEEDED).validate()


def test_one_frame_is_an_episode():
    episode(steps=1).validate()


def test_the_task_is_the_environment_where_there_is_no_other():
    assert episode().task == GRASP and episode(task="grasp the red one").task == "grasp the red one"


@pytest.mark.parametrize("images", [False, True])
def test_bytes_keep_everything(images):
    one = episode(pictures=images, task="pick", success=False)
    content = episode_bytes.encode(one)
    assert same(episode_bytes.decode(content), one)
    assert episode_bytes.identity_of(content) == episode_bytes.identity(one)


@pytest.mark.parametrize("change", [
    {"seed": 2}, {"success": False}, {"task": "pick"}, {"origin": "b"}, {"rate_hz": 21.0},
    {"action": np.float32(episode().action + 1e-6)}, {"images": {"image": np.zeros((12, 8, 10, 3), np.uint8)}},
])  # fmt: skip
def test_the_identity_is_of_everything(change):
    assert episode_bytes.identity(episode(**change)) != episode_bytes.identity(episode())
    assert episode_bytes.identity(episode()) == episode_bytes.identity(episode())


def test_changed_content_has_not_its_identity():
    content = bytearray(episode_bytes.encode(episode()))
    content[-1] ^= 1
    with pytest.raises(BadStore, match="another hash"):
        episode_bytes.decode(bytes(content))


# --- the store ---


def test_episodes_come_back_in_order_and_each_once(tmp_path):
    some = [episode(seed, pictures=True) for seed in range(4)]
    with DemonstrationStore(tmp_path) as store:
        ids = [store.append(e) for e in some]
        assert store.append(some[2]) == ids[2] and len(store) == 4 and store.ids == tuple(ids)
        before = store.hash()
    with DemonstrationStore(tmp_path) as store:
        assert store.ids == tuple(ids) and store.hash() == before and store.form == some[0].form
        assert all(same(a, b) for a, b in zip(store.episodes(), some, strict=True))
        assert same(store.episode(ids[2]), some[2])
        assert [e.seed for e in store.episodes(lambda e: e.seed % 2)] == [1, 3]
        store.append(episode(9, pictures=True))
        assert store.hash() != before


def test_the_hash_is_of_the_order_too(tmp_path):
    for name, seeds in (("a", (1, 2)), ("b", (2, 1)), ("c", (1, 2))):
        with DemonstrationStore(tmp_path / name) as store:
            store.extend(episode(seed) for seed in seeds)
    ids = {n: [episode_bytes.identity(e) for e in demonstrations.read(tmp_path / n)] for n in "abc"}
    a, b, c = map(demonstrations.hash_of, ids.values())
    assert a == c != b


@pytest.mark.parametrize("other, field", [
    ({"env_id": "Steadyhand/UR5Insert-v0"}, "env_id"),
    ({"rate_hz": 10.0, "stamp_s": np.arange(12) / 10.0}, "rate_hz"),
    ({"action_names": ("dx", "dy", "dz", "droll", "grip")}, "action_names"),
    ({"observation_names": policy_io.OBSERVATION_NAMES[::-1]}, "observation_names"),
    ({"images": {"image": np.zeros((12, 8, 10, 3), np.uint8)}}, "image_shapes"),
])  # fmt: skip
def test_an_episode_of_another_form_is_refused_and_nothing_is_added(tmp_path, other, field):
    with DemonstrationStore(tmp_path) as store:
        store.append(episode())
        with pytest.raises(BadEpisode, match=f"^{field}: ") as raised:
            store.extend([episode(2), episode(3, **other)])
        assert raised.value.field == field and len(store) == 1


def test_a_form_can_be_asked_for(tmp_path):
    wanted = episode(pictures=True).form
    with DemonstrationStore(tmp_path, wanted) as store, pytest.raises(BadEpisode, match="image_shapes"):
        store.append(episode())
    with DemonstrationStore(tmp_path) as store:
        store.append(episode())
    with pytest.raises(BadEpisode, match="image_shapes"):
        DemonstrationStore(tmp_path, episode(pictures=True).form)
    DemonstrationStore(tmp_path).close()


def test_an_invalid_episode_is_not_added(tmp_path):
    with DemonstrationStore(tmp_path) as store:
        with pytest.raises(BadEpisode, match="^source"):
            store.append(episode(source="dream"))
        assert len(store) == 0 and store.form is None


def test_a_damaged_store_is_refused(tmp_path):
    with DemonstrationStore(tmp_path) as store:
        store.extend([episode(1), episode(2)])
    path = segments.paths(tmp_path)[0]
    content = bytearray(path.read_bytes())
    content[len(content) // 4] ^= 1
    path.write_bytes(content)
    with pytest.raises(BadStore, match="records gone"):
        DemonstrationStore(tmp_path)


def test_summary_counts_by_source():
    found = demonstrations.summary([episode(1), episode(2, success=False), episode(3, source="policy")])
    assert found["all"] == {"episodes": 3, "frames": 36, "successes": 2, "seconds": 1.8}
    assert found["expert"]["successes"] == 1 and found["policy"]["episodes"] == 1
