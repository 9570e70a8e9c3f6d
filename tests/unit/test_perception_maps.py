"""Maps of objects: encoding and decoding are inverse, peaks are separated, hostile maps give nothing."""
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steadyhand import cell
from steadyhand.errors import ConfigError
from steadyhand_perception.geometry import PinholeCamera
from steadyhand_perception.maps import MAPS, MAX_STD_M, DecodeConfig, Grid, decode, encode, wrap_yaw

PLANE_Z_M = 0.02


def looking_down(height_m: float = 1.0, size_px: int = 160, focal_px: float = 370.0) -> PinholeCamera:
    """A camera above the tray, tilted by 0.6 rad towards the robot."""
    x, y = cell.TRAY.centre_m
    s, c = np.sin(0.6), np.cos(0.6)
    forward = np.array([-s, 0, -c])
    right = np.array([0.0, 1.0, 0.0])
    rotation = np.stack([right, np.cross(forward, right), forward], axis=1)
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = rotation, [x + np.tan(0.6) * height_m, y, height_m]
    middle = (size_px - 1) / 2
    return PinholeCamera(size_px, size_px, focal_px, focal_px, middle, middle, tuple(map(tuple, pose.tolist())))


GRID = Grid(looking_down(), 4, PLANE_Z_M)


def maps_of(objects: np.ndarray, log_std: float = -2.0) -> np.ndarray:
    """What a perfect network would say of objects (N, 3)."""
    target, _ = encode(GRID, objects)
    heat = np.clip(target[0], 1e-4, 1 - 1e-4)
    target[0] = np.log(heat / (1 - heat))
    target[5] = log_std
    return target


def scattered(seed: int, n: int) -> np.ndarray:
    rng, found = np.random.default_rng(seed), []
    while len(found) < n:
        xy = rng.uniform([0.40, -0.24], [0.64, 0.06])
        if all(np.hypot(*(xy - f[:2])) > cell.MIN_CUBE_SPACING_M - 0.01 for f in found):
            found.append(np.array([*xy, rng.uniform(-np.pi / 4 + 1e-6, np.pi / 4)]))
    return np.array(found).reshape(-1, 3)


def test_projection_and_unprojection_are_inverse():
    xy = np.random.default_rng(0).uniform([0.3, -0.3], [0.7, 0.3], (200, 2))
    pixels = GRID.camera.project(np.column_stack([xy, np.full(200, PLANE_Z_M)]))
    np.testing.assert_allclose(GRID.camera.unproject(pixels, PLANE_Z_M), xy, atol=1e-12)


def test_rays_above_the_horizon_and_points_behind_are_nan():
    assert np.isnan(GRID.camera.unproject(np.array([[80.0, -5000.0]]), PLANE_Z_M)).all()
    behind = GRID.camera.pose[:3, 3] - GRID.camera.pose[:3, 2]
    assert np.isnan(GRID.camera.project(behind)).all()


def test_cells_are_where_their_anchors_are():
    anchors = GRID.anchors_m()
    np.testing.assert_allclose(GRID.cells(anchors[7, 31][None]), [[7, 31]], atol=1e-9)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 6))
def test_decoding_a_perfect_map_is_exact(seed, n):
    objects = scattered(seed, n)
    found = decode(GRID, maps_of(objects), DecodeConfig(presence_min=0.4))
    assert len(found.xy_m) == n
    for x, y, yaw in objects:
        nearest = np.argmin(np.hypot(*(found.xy_m - [x, y]).T))
        np.testing.assert_allclose(found.xy_m[nearest], [x, y], atol=1e-6)
        assert abs(wrap_yaw(found.yaw_rad[nearest] - yaw)) < 1e-5
        assert found.presence[nearest] > 0.99
        assert found.std_m[nearest] == pytest.approx(0.01 * np.exp(-2.0))


def test_best_first():
    maps = maps_of(np.array([[0.45, -0.2, 0.0], [0.60, 0.0, 0.0]]))
    row, column = np.rint(GRID.cells(np.array([[0.60, 0.0]]))[0]).astype(int)
    maps[0, row, column] -= 4.0
    found = decode(GRID, maps, DecodeConfig(presence_min=0.4))
    assert found.xy_m[0] == pytest.approx([0.45, -0.2], abs=1e-6)
    assert found.presence[0] > found.presence[1]


def test_two_peaks_nearer_than_an_edge_are_one_object():
    objects = np.array([[0.50, -0.10, 0.0], [0.50, -0.06, 0.0]])
    assert len(decode(GRID, maps_of(objects), DecodeConfig(separation_m=0.03)).xy_m) == 2
    assert len(decode(GRID, maps_of(objects), DecodeConfig(separation_m=0.05)).xy_m) == 1


def test_low_heat_is_nothing_and_the_calibration_moves_the_threshold():
    maps = np.zeros((MAPS, *GRID.shape))
    maps[0] = -4.0
    maps[0, 20, 20] = -0.5
    assert len(decode(GRID, maps, DecodeConfig()).xy_m) == 0
    assert len(decode(GRID, maps, DecodeConfig(presence_bias=1.0)).xy_m) == 1


def test_not_finite_cells_are_no_peaks():
    maps = maps_of(np.array([[0.50, -0.10, 0.2]]))
    maps[:, ::2] = np.nan
    maps[0, 1::2] = np.inf
    found = decode(GRID, maps, DecodeConfig())
    assert len(found.xy_m) == 0
    maps = maps_of(np.array([[0.50, -0.10, 0.2]]))
    maps[1, 0, 0] = np.nan
    assert len(decode(GRID, maps, DecodeConfig(presence_min=0.4)).xy_m) == 1
    row, column = np.argwhere(maps[0] == maps[0].max())[0]
    maps[1, row, column] = np.nan  # the peak itself: its neighbours may be heard, their word is whole
    for found in decode(GRID, maps, DecodeConfig(presence_min=0.1)).xy_m:
        assert found == pytest.approx([0.50, -0.10], abs=1e-6)


def test_the_calibration_scales_the_deviation():
    maps = maps_of(np.array([[0.50, -0.10, 0.2]]))
    once, twice = (decode(GRID, maps, DecodeConfig(presence_min=0.4, std_scale=s)).std_m[0] for s in (1.0, 2.0))
    assert twice == pytest.approx(2 * once)


def test_everything_high_gives_a_bounded_number_of_detections():
    maps = np.random.default_rng(0).normal(8, 1, (MAPS, *GRID.shape))
    found = decode(GRID, maps, DecodeConfig())
    assert len(found.xy_m) <= DecodeConfig().max_detections
    assert (found.std_m <= MAX_STD_M).all()


@pytest.mark.parametrize(
    "yaw, wrapped", [(np.pi / 4, np.pi / 4), (-np.pi / 4, np.pi / 4), (np.pi / 2, 0.0), (3.0, 3.0 - np.pi)]
)
def test_yaw_is_wrapped_to_a_quarter_turn(yaw, wrapped):
    assert wrap_yaw(yaw) == pytest.approx(wrapped)


@pytest.mark.parametrize(
    "field, value",
    [
        ("presence_min", 0.0), ("presence_min", np.nan), ("separation_m", -1.0), ("std_scale", np.inf),
        ("presence_bias", np.nan), ("max_detections", 0), ("presence_scale", 0.0),
    ],
)
def test_decode_config_refuses(field, value):
    with pytest.raises(ConfigError, match=field):
        DecodeConfig(**{field: value})


def test_wrong_shapes_are_refused():
    with pytest.raises(ConfigError, match="maps have shape"):
        decode(GRID, np.zeros((MAPS, 3, 3)), DecodeConfig())
    with pytest.raises(ConfigError, match="stride_px=7"):
        Grid(GRID.camera, 7, PLANE_Z_M)
