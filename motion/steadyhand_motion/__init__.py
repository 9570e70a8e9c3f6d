"""Motion: inverse kinematics over all branches, path planning and time laws.

Law of this folder: imports the core only, SDKs (ur-analytic-ik, ompl) late.
"""
