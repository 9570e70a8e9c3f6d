"""Perception: from an image to object poses with an age, an uncertainty and a stability figure.

Law of this folder: imports the core only, inference engines late. No ROS, no simulator.
"""
