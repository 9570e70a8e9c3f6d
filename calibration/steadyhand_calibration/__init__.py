"""Calibration: the place of what fits the model of the robot to recordings of a real one. Nothing is here yet: the motor
model and its comparison with real traces are `steadyhand_sim.motor_model` and `steadyhand_sim.motor_validation`.

Law of this folder: imports the core only. Reads recordings, never a live robot.
"""
