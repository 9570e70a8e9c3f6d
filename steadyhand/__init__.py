"""The core of Steadyhand: what may move, when, and what happens when something breaks.

Law of this folder: no ROS, no I/O, no clock. Modules import numpy, scipy, ruckig, filterpy and one another, never a
domain package. Time is an argument, in monotonic seconds. Functions return decisions as data; shells act on them.
Frames, units and shapes stand in the names: `q_rad` (6,), `pose_base_link_tool` (4, 4), `timeout_s`.
"""
