"""Which robot the runtime is made for."""
import numpy as np
import pytest

from steadyhand import kinematics, ur5
from steadyhand_firmware_bridge.right_robot import (
    FLANGE_TOLERANCE_M, POSTURES, DhParameters, flange_apart_m, unfit_arm, unfit_firmware,
)
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


def named(name):
    return DhParameters(*KINEMATICS[name], ur5.DH_ALPHA_RAD)


@pytest.mark.parametrize("name", ["UR5e", "UR10"])
def test_an_arm_is_known_by_its_measures(name):
    """A UR5e's as the vendor's own recording of a state package has them (Universal_Robots_Client_Library, tests)."""
    assert "no UR5" in unfit_arm(named(name)) and flange_apart_m(named(name)) > 3 * FLANGE_TOLERANCE_M
    assert not unfit_arm(named("UR5"))


def test_the_flange_is_where_our_kinematics_have_it():
    q = np.array(POSTURES[0])
    wanted = (kinematics.T_BASE_LINK_BASE @ kinematics.link_transforms(q)[-1])[:3, 3]
    assert named("UR5").flange_m(q) == pytest.approx(wanted)


def test_a_calibrated_ur5_is_one():
    """Its d on the parallel axes may be metres, against each other; the flange stays where it was."""
    dh = named("UR5")
    d = np.array(dh.d_m) + [0.0004, 2.6, -2.1, -0.5, -0.0006, 0.0003]
    calibrated = DhParameters(np.array(dh.a_m) + 0.0007, d, dh.alpha_rad, (1e-4, -2e-4, 1e-4, 0.0, 3e-4, 0.0))
    assert not unfit_arm(calibrated)
    assert unfit_arm(DhParameters(dh.a_m, dh.d_m, dh.alpha_rad, (0.0, 0.1, 0.0, 0.0, 0.0, 0.0)))
