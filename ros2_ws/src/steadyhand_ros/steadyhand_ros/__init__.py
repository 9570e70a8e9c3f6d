"""ROS 2 shells of Steadyhand: convert, call the core, publish.

Law of this folder: the only place that imports rclpy and messages. A node holds no rule of its own; `conversions` is
the only module that knows both sides. Callbacks store or forward and return; nothing waits without a limit.
"""
