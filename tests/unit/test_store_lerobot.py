"""LeRobot data sets: written as the format says, read back bit by bit, and what is wrong is refused by name."""
import json
from pathlib import Path

import numpy as np
import pytest

from policies.training.store import lerobot_format as fmt
from policies.training.store.demonstrations import DemonstrationStore
from policies.training.store.episode import BadEpisode
from policies.training.store.lerobot_export import export
from policies.training.store.lerobot_format import V21, V30, BadDataset
from policies.training.store.lerobot_import import About, add, load
from steadyhand import ur5
from steadyhand.errors import ConfigError
from tests.unit.test_store_episode import GRASP, episode, same

pa = pytest.importorskip("pyarrow", reason="the training extra")
import pyarrow.parquet as pq  # noqa: E402

pytestmark = pytest.mark.train

VERSIONS = pytest.mark.parametrize("version", [V21, V30])
ABOUT = About(GRASP, joint_names=ur5.JOINT_NAMES)


def some(images=False):
    return [
        episode(1, steps=12, pictures=images, task="pick"), episode(2, steps=7, pictures=images, success=False),
        episode(3, steps=30, pictures=images, source="policy", task="pick", origin="model 4"),
    ]  # fmt: skip


@VERSIONS
@pytest.mark.parametrize("images", [False, True])
def test_it_comes_back_bit_by_bit(tmp_path, version, images):
    episodes = some(images)
    info = export(episodes, tmp_path / "set", version)
    assert (info["codebase_version"], info["total_episodes"], info["total_frames"], info["fps"]) == (version, 3, 49, 20)
    assert all(same(a, b) for a, b in zip(load(tmp_path / "set"), episodes, strict=True))


def test_files_of_format_3(tmp_path):
    export(some(), tmp_path / "set", V30, "ur5", file_mb=1e-6)
    names = sorted(p.relative_to(tmp_path / "set").as_posix() for p in (tmp_path / "set").rglob("*") if p.is_file())
    assert names == [
        *(f"data/chunk-000/file-{k:03d}.parquet" for k in range(3)), "meta/episodes/chunk-000/file-000.parquet",
        "meta/info.json", "meta/stats.json", "meta/steadyhand.json", "meta/tasks.parquet",
    ]  # fmt: skip
    info = json.loads((tmp_path / "set/meta/info.json").read_text())
    assert info["robot_type"] == "ur5" and info["splits"] == {"train": "0:3"} and info["video_path"] is None
    assert info["features"]["action"] == {"dtype": "float32", "shape": [5], "names": ["dx", "dy", "dz", "dyaw", "grip"]}
    assert {"timestamp", "frame_index", "episode_index", "index", "task_index"} < set(info["features"])
    rows = pq.read_table(tmp_path / "set/meta/episodes/chunk-000/file-000.parquet").to_pylist()
    spans = [(r["dataset_from_index"], r["dataset_to_index"], r["length"]) for r in rows]
    assert spans == [(0, 12, 12), (12, 19, 7), (19, 49, 30)]
    assert [r["data/file_index"] for r in rows] == [0, 1, 2] and rows[1]["tasks"] == [GRASP]
    assert rows[0]["stats/action/count"] == [12] and len(rows[0]["stats/observation.state/mean"]) == 14
    tasks = pq.read_table(tmp_path / "set/meta/tasks.parquet")
    assert json.loads(tasks.schema.metadata[b"pandas"])["index_columns"] == ["task"]
    assert tasks.to_pylist() == [{"task_index": 0, "task": "pick"}, {"task_index": 1, "task": GRASP}]


def test_an_episode_is_a_row_group_and_its_columns_are_as_announced(tmp_path):
    export(some(images=True), tmp_path / "set", V30)
    file = pq.ParquetFile(tmp_path / "set/data/chunk-000/file-000.parquet")
    assert [file.metadata.row_group(k).num_rows for k in range(file.num_row_groups)] == [12, 7, 30]
    table = file.read()
    assert table.schema.field("action").type == pa.list_(pa.float32(), 5)
    assert table.schema.field("next.reward").type == pa.float32() and table.schema.field("stamp_s").type == pa.float64()
    assert table.column("index").to_pylist() == list(range(49))
    assert np.allclose(table.column("timestamp").to_numpy()[12:19], np.arange(7) / 20)
    assert table.column("next.done").to_numpy().nonzero()[0].tolist() == [11, 18, 48]
    assert table.column("next.success").to_numpy().nonzero()[0].tolist() == [11, 48]
    picture = table.column("observation.images.image")[0].as_py()
    assert picture["bytes"][:4] == b"\x89PNG"
    described = json.loads(table.schema.metadata[b"huggingface"])["info"]["features"]
    assert described["observation.images.image"] == {"_type": "Image"} and described["action"]["length"] == 5


def test_files_of_format_21(tmp_path):
    info = export(some(), tmp_path / "set", V21)
    names = sorted(p.relative_to(tmp_path / "set").as_posix() for p in (tmp_path / "set").rglob("*") if p.is_file())
    assert names == [
        *(f"data/chunk-000/episode_{k:06d}.parquet" for k in range(3)), "meta/episodes.jsonl",
        "meta/episodes_stats.jsonl", "meta/info.json", "meta/steadyhand.json", "meta/tasks.jsonl",
    ]  # fmt: skip
    assert info["total_chunks"] == 1 and info["total_videos"] == 0
    lines = [json.loads(line) for line in (tmp_path / "set/meta/episodes.jsonl").read_text().splitlines()]
    assert lines[2] == {"episode_index": 2, "tasks": ["pick"], "length": 30}


def test_statistics_are_those_of_all_frames(tmp_path):
    episodes = some(images=True)
    export(episodes, tmp_path / "set", V30)
    stats = json.loads((tmp_path / "set/meta/stats.json").read_text())
    action = np.concatenate([e.action for e in episodes]).astype(float)
    pixels = np.concatenate([e.images["image"].reshape(-1, 3) for e in episodes]) / 255.0
    for name, values in (("action", action), ("observation.images.image", pixels)):
        for statistic in ("min", "max", "mean", "std"):
            assert np.allclose(np.ravel(stats[name][statistic]), getattr(values, statistic)(axis=0), rtol=1e-9)
    assert np.allclose(stats["action"]["q90"], np.quantile(action, 0.9, axis=0)) and stats["action"]["count"] == [49]
    assert np.shape(stats["observation.images.image"]["mean"]) == (3, 1, 1)


def test_an_observation_of_one_element_or_of_pictures_only(tmp_path):
    one = episode(1, observation_names=("a",), observation=np.ones((12, 1), np.float32))
    none = episode(1, pictures=True, observation_names=(), observation=np.zeros((12, 0), np.float32))
    for name, e in (("one", one), ("none", none)):
        export([e], tmp_path / name)
        assert same(next(load(tmp_path / name)), e)


@pytest.mark.parametrize("episodes, said", [
    ([episode(1), episode(2, env_id="Steadyhand/UR5Insert-v0")], "env_id"),
    ([episode(1), episode(2, rate_hz=10.0, stamp_s=np.arange(12) / 10.0)], "rate_hz"),
    ([episode(1, rate_hz=12.5, stamp_s=np.arange(12) / 12.5)], "rate_hz: 12.5: the format counts whole frames"),
    ([episode(1, source="dream")], "source"), ([], "no episode"),
])  # fmt: skip
def test_what_cannot_be_exported_leaves_nothing_behind(tmp_path, episodes, said):
    with pytest.raises((BadEpisode, BadDataset), match=said):
        export(episodes, tmp_path / "set")
    assert not (tmp_path / "set").exists()


def test_a_data_set_is_not_overwritten(tmp_path):
    export(some(), tmp_path / "set")
    with pytest.raises(BadDataset, match="is there already"):
        export(some(), tmp_path / "set")
    with pytest.raises(BadDataset, match="version = 'v9'"):
        export(some(), tmp_path / "other", "v9")


# --- import: what is refused ---


def table_path(folder, version, number=0):
    name = f"episode_{number:06d}" if version == V21 else "file-000"
    return folder / f"data/chunk-000/{name}.parquet"


def replaced(column, change):
    """A spoiler that changes one column of the first data file, as a list of its values."""

    def spoil(folder, version):
        path = table_path(folder, version)
        table = pq.read_table(path)
        values = table.column(column).to_pylist()
        change(values)
        place = table.schema.get_field_index(column)
        field = table.schema.field(column)
        pq.write_table(table.set_column(place, field, pa.array(values, field.type)), path)

    return spoil


def in_json(name, change):
    def spoil(folder, version):
        content = json.loads((folder / name).read_text())
        change(content)
        (folder / name).write_text(json.dumps(content))

    return spoil


def cell(k, i, value):
    def change(values):
        values[k] = [*values[k][:i], value, *values[k][i + 1 :]]

    return change


def put(k, value):
    return lambda values: values.__setitem__(k, value)


def dropped_row(folder, version):
    path = table_path(folder, version)
    table = pq.read_table(path)
    pq.write_table(pa.concat_tables([table.slice(0, 5), table.slice(6)]), path)


def without_column(folder, version):
    path = table_path(folder, version)
    pq.write_table(pq.read_table(path).drop_columns(["action"]), path)


def narrower(folder, version):
    path = table_path(folder, version)
    table = pq.read_table(path)
    values = pa.array([v[:4] for v in table.column("action").to_pylist()], pa.list_(pa.float32()))
    pq.write_table(table.set_column(table.schema.get_field_index("action"), "action", values), path)


def cut_short(folder, version):
    path = table_path(folder, version)
    path.write_bytes(path.read_bytes()[:-20])


def at_another_rate(values):
    values[6:12] = [v * 1.3 for v in values[6:12]]


def info(change):
    return in_json("meta/info.json", change)


WRONG = {
    "nan": (replaced("action", cell(3, 4, float("nan"))), "episode 0: action: nan at frame 3, grip"),
    "inf": (replaced("observation.state", cell(9, 0, float("inf"))), "episode 0: observation: inf at frame 9"),
    "null": (replaced("next.reward", put(2, None)), "episode 0: next.reward: 1 values are missing"),
    "null row": (replaced("action", put(2, None)), "episode 0: action: 1 values are missing"),
    "null element": (replaced("action", cell(3, 1, None)), "episode 0: action: 1 values are missing"),
    "changed": (replaced("next.reward", put(2, 0.25)), "episode 0: its content is not what was exported"),
    "frame missing": (dropped_row, "episode 0: 11 frames, 12 were announced: frames are missing"),
    "frame twice": (replaced("frame_index", put(5, 4)), "episode 0: frame_index: 4 in row 5, 5 is wanted"),
    "index": (replaced("index", put(5, 9)), "episode 0: index: 9 in row 5"),
    "mixed rates": (replaced("timestamp", at_another_rate), "episode 0: timestamp: stamp_s: .*(Hz, rate_hz|missing)"),
    "own stamps": (replaced("stamp_s", put(4, 0.0)), "episode 0: stamp_s: frame 4 is not after frame 3"),
    "task": (replaced("task_index", put(3, 7)), r"episode 0: task_index: \[0, 7\], one of \[0, 1\] is wanted"),
    "other task": (replaced("task_index", lambda values: values.__setitem__(slice(12), [1] * 12)),
                   f"episode 0: task_index: '{GRASP}' is none of its tasks"),
    "no column": (without_column, "episode 0: column action is missing"),
    "width": (narrower, r"episode 0: action: rows of \[4\] elements, 5 are wanted"),
    "cut short": (cut_short, "data/chunk-000/"),
    "no info": (lambda f, v: (f / "meta/info.json").unlink(), "meta/info.json: "),
    "no json": (lambda f, v: (f / "meta/info.json").write_text("{"), "meta/info.json: "),
    "version": (info(lambda i: i.update(codebase_version="v1.6")), "codebase_version = 'v1.6', v2.1 or v3.0 is wanted"),
    "fps": (info(lambda i: i.update(fps=0)), "meta/info.json: fps = 0"),
    "frames": (info(lambda i: i.update(total_frames=50)), "total_frames = 50, 49 are there"),
    "episodes": (info(lambda i: i.update(total_episodes=4)), "meta/steadyhand.json: not of this data set"),
    "paths": (info(lambda i: i.update(data_path="../../{episode_index}")), "data_path = '../../{episode_index}'"),
    "features": (info(lambda i: i["features"].pop("action")), "features lack 'action'"),
    "names": (info(lambda i: i["features"]["action"].update(names=["a"])), "action: 1 names for 5 elements"),
    "shape": (info(lambda i: i["features"]["action"].update(shape=[4])), "4"),
    "dtype": (info(lambda i: i["features"]["action"].update(dtype="string")), "action: dtype = 'string'"),
    "other dtype": (info(lambda i: i["features"]["action"].update(dtype="float64")), "float32, float64 was announced"),
    "video": (info(lambda i: i["features"].update({"observation.images.a": {"dtype": "video", "shape": [3, 4, 5]}})),
              "observation.images.a is a video"),
    "joint order": (in_json("meta/steadyhand.json", lambda o: o["joint_names"].reverse()), "episode 0: joint_names"),
    "renamed": (info(lambda i: i["features"]["action"]["names"].reverse()), "episode 0: its content is not what was"),
    "seed": (in_json("meta/steadyhand.json", lambda o: o["episodes"][1].update(seed=9)), "episode 1: its content is"),
}  # fmt: skip


@VERSIONS
@pytest.mark.parametrize("name", WRONG)
def test_a_data_set_that_is_wrong_is_refused_by_name_and_nothing_is_added(tmp_path, version, name):
    export(some(), tmp_path / "set", version)
    spoil, said = WRONG[name]
    spoil(tmp_path / "set", version)
    with DemonstrationStore(tmp_path / "store") as store:
        with pytest.raises(BadDataset, match=said):
            add(tmp_path / "set", store)
        assert len(store) == 0


def stale_30(stats):
    stats["action"]["mean"][2] = 0.7


def test_statistics_of_other_data_are_refused(tmp_path):
    export(some(), tmp_path / "v3", V30)
    in_json("meta/stats.json", stale_30)(tmp_path / "v3", V30)
    with pytest.raises(BadDataset, match=r"statistics: action.mean, dz: 0.7, the data give -?0\.\d"):
        list(load(tmp_path / "v3"))
    export(some(), tmp_path / "v2", V21)
    path = tmp_path / "v2" / fmt.EPISODES_STATS_21
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[1]["stats"]["action"]["max"][0] = 5.0
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(BadDataset, match="statistics: action.max, dx: 5"):
        list(load(tmp_path / "v2"))


def test_a_picture_that_is_none_is_refused(tmp_path):
    export(some(images=True), tmp_path / "set")
    for content, said in ((b"no picture", ""), (fmt.png(np.zeros((3, 5, 3), np.uint8)), r"uint8 \(3, 5, 3\), uint8")):
        replaced("observation.images.image", put(4, {"bytes": content, "path": "x"}))(tmp_path / "set", V30)
        with pytest.raises(BadDataset, match=f"episode 0: observation.images.image: frame 4: {said}"):
            list(load(tmp_path / "set"))


# --- foreign data sets ---


def foreign(folder, version, names=None):
    """As another program would have written it: without our file, names under a word."""
    export(some(), folder, version)
    (folder / fmt.OWN).unlink()
    content = json.loads((folder / fmt.INFO).read_text())
    action = content["features"]["action"]
    action["names"] = {"motors": names or action["names"]}
    for name in ("stamp_s", "next.success"):
        content["features"].pop(name)
    content["features"]["note"] = {"dtype": "string", "shape": [1], "names": None}
    (folder / fmt.INFO).write_text(json.dumps(content))


@VERSIONS
def test_a_foreign_data_set_needs_to_be_told_what_it_is(tmp_path, version):
    foreign(tmp_path / "set", version)
    with pytest.raises(ConfigError, match="about: not written by Steadyhand"):
        list(load(tmp_path / "set"))
    with DemonstrationStore(tmp_path / "store") as store:
        add(tmp_path / "set", store, ABOUT)
        found = list(store.episodes())
    for read, written in zip(found, some(), strict=True):
        assert np.array_equal(read.action, written.action) and np.array_equal(read.observation, written.observation)
        assert (read.source, read.success, read.seed, read.task) == ("teleoperation", True, -1, written.task)
        assert np.allclose(np.diff(read.stamp_s), 0.05) and read.action_names == written.action_names


@VERSIONS
def test_a_foreign_data_set_that_lacks_an_episode_is_refused(tmp_path, version):
    foreign(tmp_path / "set", version)
    in_json(fmt.INFO, lambda i: i.update(total_episodes=4))(tmp_path / "set", version)
    with pytest.raises(BadDataset, match=r"3 episodes, 4 were announced; missing: \[3\]"):
        list(load(tmp_path / "set", ABOUT))


def test_a_foreign_data_set_with_joints_in_another_order_is_refused(tmp_path):
    foreign(tmp_path / "set", V30, ["d_elbow", "d_shoulder_lift", "d_shoulder_pan", "d_wrist_1", "grip"])
    with pytest.raises(BadDataset, match="episode 0: action_names: d_. in the order elbow, shoulder_lift"):
        list(load(tmp_path / "set", ABOUT))
    with pytest.raises(BadDataset, match="episode 0: joint_names: 'wrist_3_joint' at place 0"):
        list(load(tmp_path / "set", About(GRASP, joint_names=ur5.JOINT_NAMES[::-1])))


def test_a_data_set_of_another_form_than_the_store_is_refused(tmp_path):
    export(some(), tmp_path / "set")
    with DemonstrationStore(tmp_path / "store") as store:
        store.append(episode(5, action_names=("a", "b", "c", "d", "e")))
        with pytest.raises(BadDataset, match="episode 0: action_names: 'dx' at place 0, 'a' is wanted"):
            add(tmp_path / "set", store)
        assert len(store) == 1


def test_columns_can_be_left_out_by_name(tmp_path):
    export(some(images=True), tmp_path / "set")
    (tmp_path / "set" / fmt.OWN).unlink()
    found = list(load(tmp_path / "set", ABOUT, skip=("observation.images.image",)))
    assert len(found) == 3 and found[0].images == {}
    with pytest.raises(BadDataset, match="skip names 'observation.images.front', which is no feature"):
        list(load(tmp_path / "set", ABOUT, skip=("observation.images.front",)))


def test_a_data_set_that_lerobot_wrote_is_read_as_it_was_meant():
    folder = Path(__file__).parents[1] / "data" / "lerobot_written"
    rng, rows = np.random.default_rng(0), []
    for length in (10, 11, 12):
        for _ in range(length):
            numbers = [rng.standard_normal(n).astype(np.float32) for n in (6, 7)]
            rows.append((*numbers, rng.integers(0, 256, (12, 16, 3), dtype=np.uint8)))
    found = list(load(folder, ABOUT))
    said = [(len(e), e.task, e.rate_hz) for e in found]
    assert said == [(10, "place it", 20), (11, "pick it", 20), (12, "pick it", 20)]
    parts = [np.concatenate(p) for p in zip(*((e.action, e.observation, e.images["top"]) for e in found))]
    assert all(np.array_equal(part, np.array(expected)) for part, expected in zip(parts, zip(*rows)))
    assert found[0].action_names == tuple(f"d_{j.removesuffix('_joint')}" for j in ur5.JOINT_NAMES)
    assert found[0].observation_names[-1] == "gripper"
    with pytest.raises(BadDataset, match="joint_names"):
        list(load(folder, About(GRASP, joint_names=ur5.JOINT_NAMES[::-1])))
