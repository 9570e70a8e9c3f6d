"""THE table of injections: what is done to which process or link, and what must come of it. Written before it is tried.

Every process of `launch/ur5.launch.xml` is killed and frozen, every link is cut, delayed, flooded or made to lie.
Limits are those of the requirements: deceleration within 60 ms of the death of a motion-critical process or of a stop
request, 110 ms for the active command source, age plus prediction (0.5 s) for sight. A limit that depends on the arm
moving is judged only where it moved; a fault that strikes at rest must leave it at rest.
"""
from __future__ import annotations

import enum
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field

from steadyhand.errors import ConfigError

PHASES = ("observe", "pick", "grasp", "lift", "place", "release", "home")
MOTION_CRITICAL_S, COMMAND_SOURCE_S = 0.060, 0.110
SIGHT_S = 0.2 + 0.3 + 0.1  # age, prediction, and one period of estimator, shell and guard each
INPUT_S = 0.5 + 0.1  # silence of an input of AUTO, and the period in which it beats
RTDE, SCRIPT, DASHBOARD = 30004, 30002, 29999


class Kind(enum.Enum):
    """What must come of it."""

    STOP = "stop"  # decelerates in time, latches, stays at rest until an operator re-arms
    NO_STOP = "no stop"  # the guard stays armed and the task goes on
    EITHER = "either"  # may stop; whatever it does, no invariant breaks and it can be re-armed


@dataclass(frozen=True)
class Expect:
    """`within_s` from the act to deceleration; `causes`: the guard latches one that begins so."""

    kind: Kind
    within_s: float = MOTION_CRITICAL_S
    causes: tuple[str, ...] = ()
    degraded: str = ""  # what is worse meanwhile, for the reader

    def __post_init__(self) -> None:
        if self.kind is Kind.STOP and not (self.causes and self.within_s > 0):
            raise ConfigError(f"expectation {self}: a stop has causes and a limit")


@dataclass(frozen=True)
class Signal:
    """A signal to a process; `group`: to its children too."""

    process: str
    number: int = signal.SIGKILL
    group: bool = False


@dataclass(frozen=True)
class Freeze:
    """SIGSTOP, and SIGCONT after `seconds`; with `every_s` again and again for `total_s`."""

    process: str
    seconds: float
    every_s: float = 0.0
    total_s: float = 0.0
    group: bool = False


@dataclass(frozen=True)
class Cable:
    """A trouble of the cable between guard and controller (`proxy.Trouble`) for `seconds`; `cut`: connections reset."""

    ports: tuple[int, ...] = (RTDE,)
    way: str = "both"
    trouble: Mapping[str, float | bool] = field(default_factory=dict)
    seconds: float = 0.5
    cut: bool = False


@dataclass(frozen=True)
class AtRobot:
    """Something happens at the robot or in its cell (`steadyhand_sim.faults`), and what ends it after `seconds`.

    `target`: for move_cube, "moved" (by 45 mm) or "taken" (out of sight): the cube nearest to the tool.
    """

    fault: str
    parameters: Mapping[str, float] = field(default_factory=dict)
    undo: tuple[str, ...] = ()
    seconds: float = 0.5
    target: str = ""
    undo_parameters: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Operator:
    """What an operator does: topic, service, stop_channel, disarm, cancel, link_killed, link_frozen, link_ended."""

    how: str


@dataclass(frozen=True)
class Flood:
    """Packets at a rate to one place: command_socket, stop_socket, joint_chunk, input_heartbeat, rtde_port."""

    where: str
    rate_hz: float = 10_000.0
    seconds: float = 1.0


@dataclass(frozen=True)
class Load:
    """As many busy processes as cores."""

    seconds: float = 2.0


Act = Signal | Freeze | Cable | AtRobot | Operator | Flood | Load


@dataclass(frozen=True)
class Injection:
    """One row. `covers`: names of `guard_state.RULES` and `faults.TABLE` that it can lead to.

    `blind`: nothing can be seen at the port meanwhile (the controller itself is gone); times count from its return.
    """

    name: str
    act: Act
    expect: Expect
    covers: tuple[str, ...] = ()
    blind: bool = False


def _stop(*causes: str, within_s: float = MOTION_CRITICAL_S) -> Expect:
    return Expect(Kind.STOP, within_s, causes)


def _goes_on(degraded: str = "") -> Expect:
    return Expect(Kind.NO_STOP, degraded=degraded)


EITHER = Expect(Kind.EITHER)
_SIGHT = _stop("input:estimator", within_s=SIGHT_S)
_NODE_OF_SIGHT = _stop("input:estimator", "input:perception", within_s=SIGHT_S)  # whichever limit comes first
_SIGHT_COVERS = ("input", "estimate_degraded", "perception_lost")
_LOST = ("feedback_lost", "robot_unreachable", "link_lost", "program_lost")
_SOURCE = ("command_source_silent", "input:agent")

_ROWS = (
    # ---- processes ------------------------------------------------------------------------------------------------
    Injection("guard_killed", Signal("guard"), _stop("started"), ("started", "guard_silent")),
    Injection("guard_terminated", Signal("guard", signal.SIGTERM), _stop("started", "shutdown"), ("shutdown",)),
    Injection("guard_frozen", Freeze("guard", 0.5), _stop("loop_late", *_LOST), ("loop_late",)),
    Injection("guard_hiccups", Freeze("guard", 0.012, 0.1, 1.5), _goes_on("some set-points late")),
    Injection("guard_node_killed", Signal("guard_node"), _stop("shell_lost"), ("shell_lost", "disarmed")),
    Injection("guard_node_frozen", Freeze("guard_node", 1.0), _stop("shell_lost", "input"),
              ("shell_lost", "guard_silent")),
    Injection("guard_node_hiccups", Freeze("guard_node", 0.015, 0.1, 1.5), _goes_on("states and chunks a little late")),
    Injection("agent_killed", Signal("agent_node"), _stop(*_SOURCE, within_s=COMMAND_SOURCE_S),
              ("command_source_silent", "input")),
    Injection("agent_frozen", Freeze("agent_node", 1.0), _stop(*_SOURCE, within_s=COMMAND_SOURCE_S),
              ("command_source_silent", "input")),
    Injection("agent_hiccups", Freeze("agent_node", 0.03, 0.15, 1.5), _goes_on("chunks late by less than a period")),
    Injection("estimator_killed", Signal("estimator_node"), _stop("input:estimator", within_s=INPUT_S), ("input",)),
    Injection("estimator_frozen", Freeze("estimator_node", 1.5), _stop("input:estimator", within_s=INPUT_S),
              ("input",)),
    Injection("perception_killed", Signal("perception_node"), _NODE_OF_SIGHT, _SIGHT_COVERS),
    Injection("perception_frozen", Freeze("perception_node", 1.5), _NODE_OF_SIGHT, _SIGHT_COVERS),
    Injection("perception_hiccups", Freeze("perception_node", 0.1, 0.3, 1.5), _goes_on("older images")),
    Injection("camera_killed", Signal("sim_camera_node"), _SIGHT, _SIGHT_COVERS),
    Injection("camera_frozen", Freeze("sim_camera_node", 1.5), _SIGHT, _SIGHT_COVERS),
    Injection("triton_killed", Signal("triton", group=True), _goes_on("policy served in the agent's process")),
    Injection("triton_frozen", Freeze("triton", 2.0, group=True), _goes_on("policy served in the agent's process")),
    Injection("triton_hiccups", Freeze("triton", 0.05, 0.2, 2.0, group=True), _goes_on("single calls served locally")),
    Injection("lifecycle_manager_killed", Signal("lifecycle_manager_node"), _goes_on("nobody brings nodes up")),
    Injection("lifecycle_manager_frozen", Freeze("lifecycle_manager_node", 2.0), _goes_on("nobody brings nodes up")),
    Injection("controller_killed", Signal("sim"), _stop(*_LOST), ("robot_unreachable", "rest_unknown"), blind=True),
    Injection("controller_frozen", Freeze("sim", 0.5), _stop(*_LOST), ("feedback_lost",), blind=True),
    # ---- cable between guard and controller -----------------------------------------------------------------------
    Injection("cable_cut", Cable(cut=True), _stop(*_LOST), ("robot_unreachable",)),
    Injection("cable_pulled", Cable((RTDE, SCRIPT, DASHBOARD), trouble={"drop": True}, seconds=1.5), _stop(*_LOST),
              ("feedback_lost",)),
    Injection("feedback_dropped", Cable(way="to_guard", trouble={"drop": True}), _stop(*_LOST), ("feedback_lost",)),
    Injection("setpoints_dropped", Cable(way="to_robot", trouble={"drop": True}), _stop(*_LOST), ("program_lost",)),
    Injection("cable_held_then_burst", Cable(trouble={"hold": True}), _stop(*_LOST), ("feedback_lost", "program_lost")),
    Injection("setpoints_held_then_burst", Cable(way="to_robot", trouble={"hold": True}), _stop(*_LOST),
              ("program_lost",)),
    Injection("cable_5_ms_late", Cable(trouble={"delay_s": 0.005}, seconds=1.5), _goes_on("10 ms more lag")),
    Injection("cable_100_ms_late", Cable(trouble={"delay_s": 0.1}, seconds=1.0), _stop(*_LOST, "tracking"),
              ("feedback_lost",)),
    Injection("feedback_truncated", Cable(way="to_guard", trouble={"truncate_bytes": 7}), _stop(*_LOST),
              ("robot_unreachable",)),
    Injection("setpoint_truncated", Cable(way="to_robot", trouble={"truncate_bytes": 7}), _stop(*_LOST),
              ("robot_unreachable",)),
    Injection("feedback_corrupted", Cable(way="to_guard", trouble={"corrupt": 5}, seconds=1.0), EITHER, ("tracking",)),
    Injection("setpoints_corrupted", Cable(way="to_robot", trouble={"corrupt": 5}, seconds=1.0), EITHER,
              ("program_lost",)),
    Injection("dashboard_dropped", Cable((DASHBOARD,), trouble={"drop": True}, seconds=1.5),
              _goes_on("no second way to stop the program")),
    Injection("script_port_cut", Cable((SCRIPT,), cut=True), _goes_on()),
    # ---- at the robot ---------------------------------------------------------------------------------------------
    Injection("protective_stop", AtRobot("protective_stop", undo=("unlock_protective_stop",), seconds=5.5),
              _stop("robot_safety:protective_stop", "program_lost"), ("robot_safety",)),
    Injection("safeguard_stop", AtRobot("safeguard_stop", undo=("release_safeguard",), seconds=1.0),
              _stop("robot_safety:safeguard_stop", "program_lost"), ("robot_safety",)),
    Injection("emergency_stop",
              AtRobot("emergency_stop", undo=("release_emergency_stop", "power_on", "brake_release"), seconds=1.5),
              _stop("robot_safety", "robot_mode", "program_lost"), ("robot_safety", "robot_mode")),
    Injection("power_off", AtRobot("power_off", undo=("power_on", "brake_release"), seconds=1.5),
              _stop("robot_mode", "program_lost"), ("robot_mode",)),
    Injection("reduced_mode", AtRobot("reduced_mode", undo=("normal_mode",), seconds=1.0), _stop("robot_reduced"),
              ("robot_reduced",)),
    Injection("freedrive_pressed", AtRobot("press_freedrive", undo=("release_freedrive",), seconds=1.0),
              _stop("robot_mode:freedrive"), ("robot_mode",)),
    Injection("paused_at_the_pendant", AtRobot("pause", undo=("play",), seconds=1.0), _stop(*_LOST), ("program_lost",)),
    Injection("stopped_at_the_pendant", AtRobot("stop_program"), _stop(*_LOST), ("program_lost",)),
    # A shove, as hard as a person may be pressed by ISO/TS 15066; much more turns a wrist of 28 Nm round.
    Injection("arm_pushed", AtRobot("push", {"fy_n": 140.0, "duration_s": 0.15}), EITHER, ("tracking",)),
    Injection("camera_off", AtRobot("camera_off", undo=("camera_ok",), seconds=1.5), _SIGHT, _SIGHT_COVERS),
    Injection("camera_blank", AtRobot("camera_blank", undo=("camera_ok",), seconds=1.5), _SIGHT,
              (*_SIGHT_COVERS, "image_fault")),
    Injection("camera_repeats", AtRobot("camera_freeze", undo=("camera_ok",), seconds=1.5),
              _stop("input:estimator", within_s=SIGHT_S + 0.1), (*_SIGHT_COVERS, "camera_frozen")),
    Injection("object_moved", AtRobot("move_cube", target="moved"), _goes_on("looks again"),
              ("target_moved", "step_deadline")),
    Injection("object_taken", AtRobot("move_cube", target="taken"), _goes_on("looks again"),
              ("target_lost", "grasp_empty", "step_deadline")),
    Injection("slippery_fingers", AtRobot("finger_friction", {"value": 0.0},
              ("finger_friction",), 2.0, "", {"value": 1.2}),
              _goes_on("tries again"),
              ("grasp_empty", "grasp_lost", "repeated_failure")),
    # ---- operator -------------------------------------------------------------------------------------------------
    Injection("stop_by_topic", Operator("topic"), _stop("stop_requested: topic"), ("stop_requested", "disarmed")),
    Injection("stop_by_service", Operator("service"), _stop("stop_requested: service"), ("stop_requested",)),
    Injection("stop_by_stop_channel", Operator("stop_channel"), _stop("stop_requested"), ("stop_requested",)),
    Injection("disarmed", Operator("disarm"), _stop("disarmed"), ("disarmed",)),
    Injection("goal_cancelled", Operator("cancel"), _goes_on("the arm brakes; the guard stays armed")),
    Injection("operator_killed", Operator("link_killed"), _stop("operator_link"), ("operator_link",)),
    Injection("operator_frozen", Operator("link_frozen"), _stop("operator_link", within_s=0.5 + 0.1),
              ("operator_link",)),
    Injection("operator_left", Operator("link_ended"), _goes_on()),
    # ---- floods and load ------------------------------------------------------------------------------------------
    Injection("flood_of_commands", Flood("command_socket"), _goes_on("the flooder waits")),
    Injection("flood_of_stops", Flood("stop_socket"), _stop("stop_requested"), ("stop_requested",)),
    Injection("flood_of_foreign_chunks", Flood("joint_chunk", 500.0), EITHER, ("chunks_refused",)),
    Injection("flood_of_heartbeats", Flood("input_heartbeat", 1000.0), EITHER),
    Injection("flood_of_connections", Flood("rtde_port", 200.0), _goes_on()),
    Injection("all_cores_busy", Load(), EITHER),
)
TABLE: dict[str, Injection] = {row.name: row for row in _ROWS}

# What no injection here leads to, and where it is proved instead.
UNREACHED: dict[str, str] = {
    # rules of the guard
    "margin": "the gate lets nobody get there: tests/unit/test_guard_operator.py",
    "peer": "two guards: tests/process/test_guard_stop_sources.py",
    "interlock": "of an arm and a vehicle: tests/unit/test_agv_guard.py",
    "agv_foreign": "of a vehicle, the cell is an arm's: tests/vehicle/test_agv_broker.py",
    "script_error": "our program has none: tests/process/test_guard_programs.py",
    "foreign_program": "while disarmed, no phase of the task: tests/process/test_guard_programs.py",
    "payload": "switched where it is configured: tests/unit/test_guard_payload.py",
    "gripper": "of a Robotiq, the cell's is on the outputs: tests/process/test_guard_robotiq.py",
    "robot_local": "e-Series only, the cell is a CB3: tests/process/test_guard_stop_sources.py",
    "robot_speed": "of ur_robot_driver, the cell is driven directly: tests/unit/test_ur_driver.py",
    "robot_shared": "of ur_robot_driver, the cell is driven directly: tests/unit/test_ur_driver.py",
    "internal_error": "an exception of ours, not of a part: tests/scenario/test_agent.py",
    "arming_failed": "strikes while arming, not in a phase of the task: tests/unit/test_guard_core.py",
    "link_lost": "the loss of the session is noticed first: tests/unit/test_guard_core.py",
    # faults of the task
    "release_unverified": "the simulated gripper always opens: tests/scenario/test_clear_tray.py",
    "policy_unavailable": "the local model is in the agent's own process: tests/scenario/test_agent.py",
    "path_infeasible": "the cell has no such place: tests/scenario/test_agent.py",
    "policy_timeout": "the local model answers within the call's deadline: tests/scenario/test_agent.py",
    "policy_reply_foreign": "needs a hostile server: tests/scenario/test_agent.py",
    "policy_output_invalid": "needs a wrong model: tests/scenario/test_agent.py",
    "state_invalid": "needs a lying shell: tests/scenario/test_agent.py",
    "detection_invalid": "needs a lying perception: tests/unit/test_estimator.py",
    "detection_out_of_order": "needs a reordering transport: tests/unit/test_estimator.py",
}


def process_of(act: Act) -> str:
    """The process that an act may take down, empty for none: its id may change, every other one's may not."""
    return act.process if isinstance(act, (Signal, Freeze)) else ""
