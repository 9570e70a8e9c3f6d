"""Perception: from an image to object poses with an age, an uncertainty and a stability figure.

Law of this folder: imports the core only, inference engines late. No ROS, no simulator. What one camera image shows is
decided by pure functions of that image (`image_checks`, `maps`); the only state is a session (`TrayPoses`, with a
server `TritonPoses`), what the last frames showed (`FrozenFrames`, `ArmWitness`) and what was seen of a scene at rest
(`LiveSsi`).
"""
