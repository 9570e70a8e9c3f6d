"""A moved arm changes the picture: if it does not, the picture is old, whatever its noise and stamps say."""
import numpy as np
import pytest

from steadyhand import kinematics
from steadyhand_perception.arm_witness import ArmWitness, WitnessConfig
from steadyhand_perception.geometry import PinholeCamera

pytest.importorskip("pybullet")
from steadyhand_sim.camera import CameraConfig, Renderer, sensor_noise
from steadyhand_sim.look import sample_look
from steadyhand_sim.snapshot import Snapshot

pytestmark = pytest.mark.sim
SIM = CameraConfig()
K = SIM.camera_matrix
CAMERA = PinholeCamera(
    SIM.width, SIM.height, K[0, 0], K[1, 1], K[0, 2], K[1, 2], tuple(map(tuple, SIM.pose_base_link_camera))
)
START = kinematics.ik_near(kinematics.tool_down(0.42, -0.2, 0.15, 0.0), np.array([0, -1.6, 1.8, -1.8, -1.57, 0]))


def path(k: int) -> np.ndarray:
    """The tool over the tray, at 0.2 m/s in frames of 15 Hz, and back."""
    along = 0.013 * (k if k < 20 else 40 - k)
    return kinematics.ik_near(kinematics.tool_down(0.42 + 0.3 * along, -0.2 + along, 0.15, 0.0), START)


@pytest.fixture(scope="module")
def renderer():
    renderer = Renderer()
    yield renderer
    renderer.close()


def drawn(renderer, q_rad) -> np.ndarray:
    nothing = np.zeros((0, 3)), np.zeros((0, 4))
    return renderer.draw_clean(Snapshot(0, 0.0, q_rad, 0.05, *nothing))


@pytest.mark.parametrize("seed", range(4))
def test_a_live_picture_of_a_moving_arm_is_no_alarm_and_a_frozen_one_is(renderer, seed):
    renderer.set_look(sample_look(seed, "test"))
    rng, witness, first = np.random.default_rng(seed), ArmWitness(CAMERA), None
    for k in range(40):
        image = drawn(renderer, path(k))
        first = image if first is None else first
        assert witness.check(sensor_noise(image, renderer.look, rng), path(k)) == ()
    frozen = ArmWitness(CAMERA)  # frozen before it was first seen, fresh noise on every frame
    said = [bool(frozen.check(sensor_noise(first, renderer.look, rng), path(k))) for k in range(20)]
    tool_px = [CAMERA.project(kinematics.pose_base_link_tool(path(k))[:3, 3]) for k in range(20)]
    far = [np.linalg.norm(pixel - tool_px[0]) >= WitnessConfig().moved_px for pixel in tool_px]
    assert said == far and any(far)


def test_a_resting_arm_says_nothing(renderer):
    rng, witness, image = np.random.default_rng(0), ArmWitness(CAMERA), drawn(renderer, START)
    assert all(witness.check(sensor_noise(image, renderer.look, rng), START) == () for _ in range(50))


def test_unknown_joints_and_an_arm_out_of_sight_say_nothing(renderer):
    rng, witness, image = np.random.default_rng(0), ArmWitness(CAMERA), drawn(renderer, START)
    away = START + [2.5, 0, 0, 0, 0, 0]  # turned to the other side
    for q in (None, away, away + 0.1, None, away - 0.1, None):
        assert witness.check(sensor_noise(image, renderer.look, rng), q) == ()


def test_a_change_seen_while_the_joints_were_unknown_and_an_arm_that_comes_into_sight_are_no_alarm(renderer):
    image, moved = drawn(renderer, START), path(19)
    witness = ArmWitness(CAMERA)
    assert all(witness.check(*seen) == () for seen in ((image, START), (image // 2, None), (image, moved)))
    witness, outside = ArmWitness(CAMERA), START + [1.2, 0, 0, 0, 0, 0]
    assert np.isfinite(CAMERA.project(kinematics.pose_base_link_tool(outside)[:3, 3])).all()
    assert witness.check(image, outside) == () == witness.check(image, START)
