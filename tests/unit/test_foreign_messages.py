"""The driver's definitions, read a second time: those that the doubles are built from agree, so that a slip shows.

Read from docs.ros.org (Jazzy: ur_msgs 2.3.0, ur_dashboard_msgs 3.x) and from the packages' repositories
(ros-industrial/ur_msgs, UniversalRobots/Universal_Robots_ROS2_Driver, ros-controls/ros2_control and control_msgs).
"""
import pytest

from tests.support.foreign_messages import SOURCES

# what our link and the double use, in the order of the wire; constants too, since they are compared with
DEFINITIONS = {
    "ur_msgs/msg/Analog": "uint8 CURRENT=0|uint8 VOLTAGE=1|uint8 pin|uint8 domain|float32 state",
    "ur_msgs/msg/Digital": "uint8 pin|bool state",
    "ur_msgs/msg/IOStates": "Digital[] digital_in_states|Digital[] digital_out_states|Digital[] flag_states|"
    "Analog[] analog_in_states|Analog[] analog_out_states",
    "ur_msgs/srv/SetIO": "int8 FUN_SET_DIGITAL_OUT=1|int8 FUN_SET_FLAG=2|int8 FUN_SET_ANALOG_OUT=3|"
    "int8 FUN_SET_TOOL_VOLTAGE=4|int8 STATE_OFF=0|int8 STATE_ON=1|int8 STATE_TOOL_VOLTAGE_0V=0|"
    "int8 STATE_TOOL_VOLTAGE_12V=12|int8 STATE_TOOL_VOLTAGE_24V=24|int8 fun|int8 pin|float32 state|---|bool success",
    "ur_dashboard_msgs/msg/RobotMode": "int8 NO_CONTROLLER=-1|int8 DISCONNECTED=0|int8 CONFIRM_SAFETY=1|int8 BOOTING=2|"
    "int8 POWER_OFF=3|int8 POWER_ON=4|int8 IDLE=5|int8 BACKDRIVE=6|int8 RUNNING=7|int8 UPDATING_FIRMWARE=8|int8 mode",
    "ur_dashboard_msgs/msg/SafetyMode": "uint8 NORMAL=1|uint8 REDUCED=2|uint8 PROTECTIVE_STOP=3|uint8 RECOVERY=4|"
    "uint8 SAFEGUARD_STOP=5|uint8 SYSTEM_EMERGENCY_STOP=6|uint8 ROBOT_EMERGENCY_STOP=7|uint8 VIOLATION=8|uint8 FAULT=9|"
    "uint8 VALIDATE_JOINT_ID=10|uint8 UNDEFINED_SAFETY_MODE=11|uint8 AUTOMATIC_MODE_SAFEGUARD_STOP=12|"
    "uint8 SYSTEM_THREE_POSITION_ENABLING_STOP=13|uint8 mode",
    "controller_manager_msgs/srv/ListControllers": "---|ControllerState[] controller",
    "controller_manager_msgs/msg/ControllerState": "string name|string state|string type|string[] claimed_interfaces|"
    "string[] required_command_interfaces|string[] required_state_interfaces|bool is_chainable|bool is_chained|"
    "string[] reference_interfaces|ChainConnection[] chain_connections",
    "controller_manager_msgs/srv/SwitchController": "string[] activate_controllers|string[] deactivate_controllers|"
    "int32 strictness|int32 BEST_EFFORT=1|int32 STRICT=2|int32 AUTO=3|int32 FORCE_AUTO=4|bool activate_asap|"
    "builtin_interfaces/Duration timeout|---|bool ok|string message",
    "control_msgs/msg/JointTolerance": "string name|float64 position|float64 velocity|float64 acceleration",
}


@pytest.mark.parametrize("name", DEFINITIONS)
def test_a_definition_is_the_vendors(name):
    file = next(SOURCES.glob(f"{name}.*"))
    assert "|".join(file.read_text().split("\n")).strip("|") == DEFINITIONS[name]
