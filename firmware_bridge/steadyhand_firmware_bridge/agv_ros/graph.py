"""What the ROS graph tells of a vehicle's topics, as troubles that say what to do. Pure."""
from __future__ import annotations

from steadyhand_firmware_bridge.agv_ros.config import RosVehicleConfig
from steadyhand_firmware_bridge.agv_ros.wire import Graph

ODOMETRY = "nav_msgs/msg/Odometry"
LINGERS = "one that was killed is listed for some 20 s more"


def command_type(config: RosVehicleConfig) -> str:
    """Full name of the type that we publish."""
    return f"geometry_msgs/msg/{config.cmd_vel_type}"


def troubles(config: RosVehicleConfig, graph: Graph) -> dict[str, str]:
    """Cause name -> detail; empty when well. Names are those of `guard_state.RULES`."""
    topic, wanted = config.name_of(config.cmd_vel), command_type(config)
    wrong: dict[str, str] = {}
    strangers = sorted(set(graph.others) - set(config.other_publishers))
    if strangers:
        wrong["agv_foreign"] = (
            f"{', '.join(strangers)} also publish{'es' * (len(strangers) == 1)} to {topic}: end it, or give each its "
            f"own input of a twist_mux ({LINGERS})"
        )
    elif graph.foreign_goals:
        wrong["agv_foreign"] = f"{config.name_of(config.action)} has a goal of somebody else: cancel it, or let it end"
    other = [(node, kind) for node, kind in graph.takers if kind != wanted]
    if other:
        node, kind = other[0]
        remedy = kind.rpartition("/")[2]
        wrong["robot_mode:cmd_vel_type"] = (
            f"{node} takes {topic} as {kind}, we send {wanted}: set vehicle.cmd_vel_type: {remedy}, or end it"
        )
    elif not graph.takers:
        wrong["robot_unreachable"] = (
            f"nobody listens to {topic}: does the base run, in this ROS_DOMAIN_ID and namespace?"
        )
    elif not graph.matched:
        wrong["robot_unreachable"] = f"{graph.takers[0][0]} listens to {topic} with another quality of service"
    wrong |= _odometry(config, graph)
    if config.nav2 and not graph.server:
        wrong.setdefault("robot_unreachable", f"no action server {config.name_of(config.action)}: is Nav2 active?")
    return wrong


def _odometry(config: RosVehicleConfig, graph: Graph) -> dict[str, str]:
    topic = config.name_of(config.odom)
    for node, kind in graph.odom:
        if kind != ODOMETRY:
            return {"feedback_lost:odom_type": f"{node} publishes {topic} as {kind}, wanted {ODOMETRY}"}
    if len(graph.odom) > 1:
        nodes = ", ".join(sorted({node for node, _ in graph.odom}))
        count = len(graph.odom)
        return {"feedback_lost:odom_publishers": f"{topic} comes from {count} publishers: {nodes} ({LINGERS})"}
    return {}
