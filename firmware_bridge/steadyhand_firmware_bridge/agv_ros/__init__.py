"""A vehicle driven over ROS 2: velocities to its base (`cmd_vel`), or goals to its Nav2, for the AGV's guard.

Law of this folder: nothing here imports ROS, and the guard's process never does. ROS lives in a link process of its own
(`steadyhand_ros.agv_link`), the guard's child at the other end of a socket (`wire`). What that process decides is
`link_core`; what the guard's side decides is `agv`; both are pure, time is an argument. The link outlives a guard that
dies for as long as it takes to brake the vehicle to zero.
"""
