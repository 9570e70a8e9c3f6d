"""An emulated Robotiq 2F-85 behind the socket of its URCap, on the emulated controller's address (port 63352).

Law of this folder: the device is pure (registers, one `step` a cycle over the cell's own fingers), the server only turns
lines into reads and writes of registers. It is not a gripper: what is assumed is said in docs/gripper.md.
"""
