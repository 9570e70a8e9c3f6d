"""Which arm is behind the stock driver, by its robot description."""
import numpy as np
import pytest

from steadyhand import ur5
from steadyhand_firmware_bridge.right_robot import POSTURES, UR5_DH
from steadyhand_firmware_bridge.urdf_arm import _flange_m, _joints, unfit_description
from tests.support.ur_description import urdf


def test_the_description_of_a_ur5_puts_the_flange_where_the_dh_parameters_do():
    joints = _joints(urdf(), ur5.JOINT_NAMES)
    for q in POSTURES:
        assert np.linalg.norm(_flange_m(joints, np.array(q)) - UR5_DH.flange_m(np.array(q))) < 1e-6


@pytest.mark.parametrize("prefix", ["", "left_"])
def test_only_a_ur5_is_fit(prefix):
    assert not unfit_description(urdf("ur5", prefix), prefix)
    for arm in ("ur5e", "ur3"):
        assert "no UR5" in unfit_description(urdf(arm, prefix), prefix)
    assert not unfit_description("", prefix)  # nothing was told


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<robot", "cannot be read"), ("<robot/>", "no joint 'shoulder_pan_joint'"), ("x" * 5_000_000, "no description"),
        ('<!DOCTYPE r [<!ENTITY a "b">]><robot/>', "entities"), (urdf(prefix="left_"), "no joint"),
        (urdf().replace("0.089159", "nan"), "finite"), (urdf().replace("0.089159", ""), "three"),
        (urdf().replace("0.089159", "high"), "could not convert"), (urdf().replace('axis xyz="0 0 1"', 'axis xyz="0 0 0"'), "axis"),
        (urdf().replace('parent link="forearm_link"', 'parent link="world"'), "does not follow"),
        (urdf().replace('<parent link="forearm_link"/>', "<parent/>"), "does not follow"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_named(text, said):
    assert said in unfit_description(text)
