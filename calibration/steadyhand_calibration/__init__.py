"""Calibration: traces of real motion, what they tell of the robot, and the files that carry the result.

Law of this folder: imports the core only. Reads recordings, never a live robot.
"""
