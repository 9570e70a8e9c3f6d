"""No stop that the controller itself makes is a violation, whatever the arm did before; standstill never is."""
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from steadyhand_sim.ur_controller.controller import ControllerConfig, URController
from steadyhand_sim.ur_controller.kinematic_plant import KinematicPlant
from steadyhand_sim.ur_controller.modes import SafetyMode

# Joints overshoot what is asked for by up to a tenth, and the monitor begins at the safety limit of 191 deg/s (3.34 rad/s).
SPEEDS = st.lists(st.floats(-3.0, 3.0), min_size=6, max_size=6)
STOPS = st.sampled_from(["protective_stop", "safeguard_stop", "emergency_stop"])


@settings(max_examples=25, deadline=None)
@given(speeds=SPEEDS, stop=STOPS, e_series=st.booleans(), acceleration=st.floats(0.5, 15.0), at_s=st.floats(0.05, 0.5))
def test_the_controllers_own_stops_are_kept(speeds, stop, e_series, acceleration, at_s):
    robot = URController(KinematicPlant(np.zeros(6)), ControllerConfig.e_series() if e_series else ControllerConfig.cb3())
    qd = [round(v, 4) for v in speeds]
    robot.start_program(f"def go():\n  while True:\n    speedj({qd}, {acceleration:.3f}, 1.0)\n  end\nend\n")
    for _ in range(round(at_s / robot.config.steptime_s)):
        robot.step()
    getattr(robot, stop)()
    asked = robot.safety_mode
    for _ in range(round(0.8 / robot.config.steptime_s)):
        robot.step()
    assert robot.safety_mode is asked is not SafetyMode.VIOLATION, list(robot.messages)
    assert np.abs(robot.measured.qd_rad_s).max() < 0.05
