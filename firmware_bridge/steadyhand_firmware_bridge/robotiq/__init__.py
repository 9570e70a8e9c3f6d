"""A Robotiq two-finger gripper over the socket of its URCap (port 63352), in a process of its own.

Law of this folder: the guard's loop never waits for a gripper. The guard hands a command to a bounded queue and reads
the newest state; a worker process speaks to the gripper, may be slow, may die, and is started again. It writes to the
gripper only what was commanded less than `command_age_s` ago: never at connecting, never because of a stop, never at its
end. Activation moves the fingers, so it is an operator's act.

Sources: Robotiq, "2F-85 & 2F-140 Instruction Manual" (registers ACT to COU, fault codes, 0.4 mm a count);
SDU Robotics ur_rtde, `robotiq_gripper.h` (the socket's text: `SET name value ...` answered `ack`, `GET name` answered
`name value`, and `?` for a value while the robot has taken the gripper's power).
"""
