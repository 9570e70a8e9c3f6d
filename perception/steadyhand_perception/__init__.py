"""Perception: from an image to object poses with an age, an uncertainty and a stability figure.

Law of this folder: imports the core only, inference engines late. No ROS, no simulator. What one camera image shows is
decided by pure functions of that image (`image_checks`, `decoding`); the only state is a session (`TrayPoses`), the
last frames' digests (`FrozenFrames`) and what was seen of a scene at rest (`LiveSsi`).
"""
