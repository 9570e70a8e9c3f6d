"""Calibration: what is fitted once to a real camera or robot and then only read, each in a file with its identity.

Law of this folder: imports the core only, OpenCV late. Reads images and recordings, never a live robot. A result that
its own held-out data do not bear out is refused, not written. The motor model and its comparison with real traces are
`steadyhand_sim.motor_model` and `steadyhand_sim.motor_validation`.
"""
