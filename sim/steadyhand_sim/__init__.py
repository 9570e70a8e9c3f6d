"""The simulated cell: PyBullet world, motors, camera, and controllers that speak the vendors' own protocols.

Law of this folder: imports the core only, PyBullet late. Ground truth leaves this folder only through the scoring
socket; the runtime sees camera images and controller ports, as it would on hardware.
"""
