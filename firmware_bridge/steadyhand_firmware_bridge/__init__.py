"""Firmware bridges: the guard process and the drivers by which it reaches real controllers.

Law of this folder: imports the core only; SDKs are imported late. No rclpy: what moves the robot must not wait for a
middleware. Nothing but the guard reaches a robot.
"""
