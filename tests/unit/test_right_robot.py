"""Which robot the runtime is made for."""
import numpy as np
import pytest

from steadyhand import ur5
from steadyhand_firmware_bridge.right_robot import DH_TOLERANCE_M, unfit_arm, unfit_firmware
from steadyhand_sim.ur_controller.config import KINEMATICS


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ((3, 14), ""), ((3, 15), ""), ((5, 6), ""), ((5, 25), ""), ((3, 13), "3.14 or later"), ((5, 5), "5.6 or later"),
        ((1, 8), "PolyScope 3 (CB3) and 5"), ((4, 0), "PolyScope 3"), ((10, 7), "PolyScope 3"), ((0, 0), "PolyScope 3"),
    ],
)  # fmt: skip
def test_firmware(version, said):
    why = unfit_firmware(*version)
    assert said in why and bool(why) is bool(said)


@pytest.mark.parametrize(("name", "said"), [("UR5", ""), ("UR5e", "73 mm"), ("UR10", "187 mm")])
def test_an_arm_is_known_by_its_measures(name, said):
    why = unfit_arm(*KINEMATICS[name])
    assert said in why and bool(why) is bool(said)


def test_a_calibrated_ur5_is_one():
    rng = np.random.default_rng(1)
    moved = rng.uniform(-0.9, 0.9, (2, 6)) * DH_TOLERANCE_M
    assert not unfit_arm(ur5.DH_A_M + moved[0], ur5.DH_D_M + moved[1])
