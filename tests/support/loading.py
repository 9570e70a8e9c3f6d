"""Where the arm goes when it loads the docked vehicle: from the tray, over the deck, down to it."""
import numpy as np

from steadyhand import cell, kinematics

DOCK_M = (-0.66, 0.0)


def over(x_m, y_m, z_m, seed):
    """Joint angles with the tool pointing down there, fingers turned as at `seed`."""
    pose = kinematics.pose_base_link_tool(seed)
    return kinematics.ik_near(kinematics.tool_down(x_m, y_m, z_m, np.arctan2(pose[1, 0], pose[0, 0])), seed)


def pick(position_m, yaw_rad):
    """Above a cube in the tray, and at it."""
    x, y = position_m[:2]
    above = kinematics.ik_near(kinematics.tool_down(x, y, 0.15, yaw_rad), cell.HOME_Q_RAD)
    return above, kinematics.ik_near(kinematics.tool_down(x, y, 0.02, yaw_rad), above)


# Home, turned about the vertical until the tool is before the deck's edge, and higher than the interlock's zone.
BEHIND = cell.HOME_Q_RAD + np.array([np.pi - np.arctan2(0.2, 0.34), 0, 0, 0, 0, 0])
OVER = over(-0.62, 0.0, 0.12, BEHIND)
LOW = over(-0.62, 0.0, 0.03, OVER)
