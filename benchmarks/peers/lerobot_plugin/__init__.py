"""What LeRobot asks of whoever brings a policy and a robot of their own: a registered configuration and a class each,
by its naming conventions (`configuration_x`/`modeling_x`, `config_x`/`x`). Runs in LeRobot's environment only.
"""
