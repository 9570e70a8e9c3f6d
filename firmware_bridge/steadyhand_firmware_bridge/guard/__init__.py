"""The guard process: nothing else reaches the robot.

Law of this folder: one thread, no rclpy. `core` decides (time is an argument), `server` moves packets, `loop` owns the
clock. Nothing waits without a limit; a client can cost the loop a bounded share of one cycle and no more.
"""
