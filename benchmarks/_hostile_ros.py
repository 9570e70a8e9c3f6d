"""Hostile messages, requests and goals for the running ROS shell, drawn from a seed; each is invalid by construction.

A mutation is a message that an armed guard (or the jog in MANUAL) would take, with one field changed to a value that
must not be taken; also a whole valid command that this mode does not permit. Python refuses to send text that is no
UTF-8 and messages cut short, so those go out as serialised bytes.
"""
from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from action_msgs.srv import CancelGoal
from builtin_interfaces.msg import Time
from geometry_msgs.msg import TwistStamped
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from rcl_interfaces import msg as parameters
from rcl_interfaces import srv as parameter_services
from rclpy.serialization import serialize_message
from sensor_msgs.msg import Image, JointState, Joy
from std_msgs.msg import String
from std_srvs.srv import Trigger
from steadyhand_interfaces import msg, srv
from steadyhand_interfaces.action import ExecuteTask

from benchmarks._hostile import NOT_NUMBERS, pick
from steadyhand import ur5
from steadyhand.guard_protocol import State
from steadyhand.types import JointChunk
from steadyhand_ros import conversions, qos

LONG = ("x" * 300, "é" * 5_000, "x" * 70_000)
MARK = "\x7fMARK\x7f"
NO_TEXT = (b"\xff\xfe\xfd\xfc\xfb\xfa", b"\xed\xa0\x80\xc3\x28A", b"\xf5\x90\x80\x80\x00A")  # as long as the mark
TOPICS: dict[str, tuple[type, Any]] = {
    "joint_chunk": (msg.JointChunk, qos.COMMAND), "gripper_command": (msg.GripperCommand, qos.COMMAND),
    "input_heartbeat": (msg.InputHeartbeat, qos.EVENTS), "operator_stop": (String, qos.COMMAND),
    "jog_twist": (TwistStamped, qos.COMMAND), "jog_joint": (JointState, qos.COMMAND), "joy": (Joy, qos.COMMAND),
    "safety_state": (msg.SafetyState, qos.NEWEST), "state_estimate": (msg.StateEstimate, qos.NEWEST),
    "chunk_verdict": (msg.Verdict, qos.COMMAND), "perception/objects": (msg.ObjectPoses, qos.NEWEST),
    "camera/image_raw": (Image, qos.NEWEST),
}
NODES = ("guard_node", "perception_node", "estimator_node", "agent_node", "teleop_node")
OF_EACH_NODE: dict[str, type] = {
    "change_state": ChangeState, "set_parameters": parameter_services.SetParameters,
    "set_parameters_atomically": parameter_services.SetParametersAtomically,
    "get_parameters": parameter_services.GetParameters, "describe_parameters": parameter_services.DescribeParameters,
    "list_parameters": parameter_services.ListParameters,
}
SERVICES: dict[str, type] = {f"{n}/{s}": kind for n in NODES for s, kind in OF_EACH_NODE.items()} | {
    "stop": Trigger, "rearm": srv.Rearm, "next_step": Trigger, "execute_task/_action/cancel_goal": CancelGoal,
}
ACTION = "execute_task"


@dataclass(frozen=True)
class Input:
    """One input. `stops`: it rightly stops an armed guard. `trace_id`: a verdict on it is owed."""

    kind: str
    sink: str
    content: Any
    mutation: bool = True
    stops: bool = False
    trace_id: str = ""


@dataclass
class Shell:
    """What hostile inputs are made from: the newest state of the armed guard, and tokens of earlier armings."""

    rng: np.random.Generator
    state: State | None = None
    old_tokens: list[int] = field(default_factory=list)
    number: int = 0

    @property
    def manual(self) -> bool:
        """Whether the guard is armed for a person."""
        return self.state.mode == "ARMED_MANUAL"

    def draw(self, free: Callable[[str], bool]) -> Input | None:
        """The next input for a way in that is `free`: usually a mutation of a command, sometimes something for the nodes
        beside it. None when all are busy."""
        jog = 0.15 if self.manual else 0.07
        makers = [
            (weight, make) for weight, make, sink in (
                (0.14, self._chunk, "joint_chunk"), (0.18, self._gripper, "gripper_command"),
                (jog, self._twist, "jog_twist"), (jog, self._joints, "jog_joint"), (jog, self._joy, "joy"),
                (0.06, self._heartbeat, "input_heartbeat"), (0.06, self._state, "safety_state"),
                (0.04, self._estimate, "state_estimate"), (0.05, self._objects, "perception/objects"),
                (0.03, self._verdict, "chunk_verdict"), (0.02, self._image, "camera/image_raw"),
                (0.02, self._goal, ACTION), (0.05, self._service, ""), (0.04, self._noise, ""), (0.0005, self._stop, ""),
            ) if free(sink)
        ]  # fmt: skip
        self.number += 1
        weights = np.cumsum([w for w, _ in makers])
        item = makers[int(np.searchsorted(weights, self.rng.random() * weights[-1], side="right"))][1]()
        return item if free(item.sink) else None

    # -- valid bases --------------------------------------------------------------------------------------------------
    def valid_chunk(self, joint: int, trace_id: str, way_rad: float = 0.03) -> msg.JointChunk:
        """A slow way of one joint with a gentle end, that the guard accepts in this mode."""
        s = self.state
        way = way_rad * (1 - np.cos(np.pi * np.arange(1, 9) / 8)) / 2
        q = np.array(s.q_commanded_rad) + np.outer(way, np.eye(ur5.DOF)[joint])
        source = "manual" if self.manual else "planner"
        chunk = JointChunk(s.token, s.seq, s.stamp_s, trace_id, source, ur5.JOINT_NAMES, 0.05, q)
        return conversions.joint_chunk_msg(chunk)

    def valid_twist(self, z_m_s: float = 0.05) -> TwistStamped:
        """Up or down."""
        m = TwistStamped()
        m.header.frame_id = "base_link"
        m.twist.linear.z = z_m_s
        return self._stamped(m)

    def _valid_joints(self) -> JointState:
        joint = int(self.rng.integers(ur5.DOF))
        return self._stamped(JointState(name=[ur5.JOINT_NAMES[joint]], velocity=[0.2]))

    def _valid_joy(self) -> Joy:
        m = Joy(axes=[0.0] * 8, buttons=[0] * 11)
        m.axes[4], m.buttons[4] = 0.8, 1
        return self._stamped(m)

    @staticmethod
    def _stamped(m: Any, ago_s: float = 0.0) -> Any:
        now = time.time() - ago_s
        m.header.stamp.sec, m.header.stamp.nanosec = int(now // 1), int(now % 1.0 * 1e9)
        return m

    # -- to the guard -------------------------------------------------------------------------------------------------
    def _chunk(self) -> Input:
        rng, trace_id = self.rng, f"h{self.number} "
        m = self.valid_chunk(int(rng.integers(ur5.DOF)), trace_id)
        name = pick(rng, ["token", "seq", "guard_stamp", "trace_id", "source", "joint_names", "period", "q", "length"])
        if name == "token":
            m.token = pick(rng, [0, -1, m.token ^ (1 << int(rng.integers(31))), 2**63 - 1, -(2**63), *self.old_tokens])
        elif name == "seq":
            m.seq = pick(rng, [0, 2**64 - 1, 2**63, m.seq + int(rng.integers(1, 100)), m.seq - 1])
        elif name == "guard_stamp":
            m.guard_stamp = pick(rng, [*NOT_NUMBERS, 0.0, m.guard_stamp + 1e-3, m.guard_stamp - 1.0, 1e300])
        elif name == "trace_id":
            m.trace_id += pick(rng, [LONG[1], LONG[2]])
        elif name == "source":
            wrong = ["", "x", "policy\n", "Planner", *LONG, *(["policy"] if self.manual else [])]
            m.source = pick(rng, wrong)
        elif name == "joint_names":
            names = list(m.joint_names)
            a, b = rng.choice(ur5.DOF, 2, replace=False)
            swapped = list(names)
            swapped[a], swapped[b] = names[b], names[a]
            wrong = [[], names[::-1], swapped, names[:3], names * 8, ["a"] * 6, [names[0]] * 6, ["é" * 900] * 6]
            m.joint_names = pick(rng, wrong)
        elif name == "period":
            m.period = pick(rng, [*NOT_NUMBERS, 0.0, -0.05, 0.5, 1e-300, 0.0199])
        elif name == "q":
            m.q[int(rng.integers(len(m.q)))] = pick(rng, [*NOT_NUMBERS, 1e308, 7.0, -7.0])
        else:
            q = list(m.q)
            m.q = pick(rng, [[], q[:-1], q[:5], q + q[:1], q * 9, q * 100, [0.0] * 60_000])
        return Input(f"chunk.{name}", "joint_chunk", m, trace_id=trace_id)

    def _gripper(self) -> Input:
        rng, trace_id = self.rng, f"h{self.number} "
        m = msg.GripperCommand(token=self.state.token, width=float(rng.uniform(0.0, 0.08)), trace_id=trace_id)
        name = pick(rng, ["token", "token", "width", "width", "trace_id"])
        if name == "token":
            m.token = pick(rng, [0, -1, m.token ^ (1 << int(rng.integers(31))), 2**63 - 1, *self.old_tokens])
        elif name == "width":
            m.width = pick(rng, [*NOT_NUMBERS, -0.001, 0.0851, 1e300, -1e300])
        else:
            m.trace_id += pick(rng, [LONG[1], LONG[2]])
        return Input(f"gripper.{name}", "gripper_command", m, trace_id=trace_id)

    def _heartbeat(self) -> Input:
        """Names that nobody requires; none of them may stand in for one that is."""
        names = ["", "Agent", "agent ", "guard", "shell", "agent\x01", *LONG]
        m = msg.InputHeartbeat(name=pick(self.rng, names), ok=bool(self.rng.integers(2)), detail=pick(self.rng, LONG))
        return Input("heartbeat.name", "input_heartbeat", m)

    def _stop(self) -> Input:
        """Odd stop requests, and a required input that is not well: these stop, rightly, and nothing else."""
        rng = self.rng
        if rng.random() < 0.3:
            m = msg.InputHeartbeat(name="agent", ok=False, detail=pick(rng, LONG))
            return Input("heartbeat.ok", "input_heartbeat", m, stops=not self.manual)
        if rng.random() < 0.3:
            return Input("stop service", "stop", Trigger.Request(), mutation=False, stops=True)
        if rng.random() < 0.3:
            m = self._valid_joy()
            m.buttons[1] = 1
            return Input("joy.stop", "joy", m, mutation=False, stops=True)
        m = String(data=pick(rng, ["", "\x01", *LONG]))
        return Input("stop.data", "operator_stop", m, mutation=False, stops=True)

    # -- to the jog ---------------------------------------------------------------------------------------------------
    def _late(self, m: Any) -> Any:
        """Expired, from the future, or from before 1970."""
        self._stamped(m, pick(self.rng, [0.2, 1.0, 3600.0, -5.0, -3600.0]))
        if self.rng.random() < 0.3:
            m.header.stamp.sec = pick(self.rng, [-1, -(2**31), 2**31 - 1, 1])
        return m

    def _twist(self) -> Input:
        rng, m = self.rng, self.valid_twist()
        names = ["value", "frame", "stamp", *([] if self.manual else ["mode"])]
        name = pick(rng, names)
        if name == "value":
            part = pick(rng, [m.twist.linear, m.twist.angular])
            setattr(part, pick(rng, ["x", "y", "z"]), pick(rng, NOT_NUMBERS))
        elif name == "frame":
            m.header.frame_id = pick(rng, ["", "Base_link", "camera", "tool ", *LONG])
        elif name == "stamp":
            self._late(m)
        return Input(f"twist.{name}", "jog_twist", m)

    def _joints(self) -> Input:
        rng, m = self.rng, self._valid_joints()
        name = pick(rng, ["value", "name", "length", "stamp", *([] if self.manual else ["mode"])])
        if name == "value":
            m.velocity = [pick(rng, NOT_NUMBERS)]
        elif name == "name":
            m.name = pick(rng, [[""], ["elbow"], ["Elbow_joint"], *[[x] for x in LONG]])
        elif name == "length":
            many = list(ur5.JOINT_NAMES)
            m.name = pick(rng, [[], many, many * 200, [many[0]] * 2, many + ["x"]])
            m.velocity = pick(rng, [[], [0.2] * 3, [0.2] * 10_000])
        elif name == "stamp":
            self._late(m)
        return Input(f"jog_joint.{name}", "jog_joint", m)

    def _joy(self) -> Input:
        rng, m = self.rng, self._valid_joy()
        name = pick(rng, ["axis", "axes", "buttons", "dead man", "stamp", *([] if self.manual else ["mode"])])
        if name == "axis":
            m.axes[int(rng.integers(len(m.axes)))] = pick(rng, NOT_NUMBERS)
        elif name == "axes":
            m.axes = pick(rng, [[], [1.0], [1.0] * 4, [1.0] * 65, [1.0] * 10_000])
        elif name == "buttons":
            m.buttons = pick(rng, [[], [0] * 4, [0] * 65, [0] * 10_000])
        elif name == "dead man":
            m.buttons[4] = 0
        elif name == "stamp":
            self._late(m)
        return Input(f"joy.{name}", "joy", m)

    # -- to the nodes beside it ---------------------------------------------------------------------------------------
    def _state(self) -> Input:
        """The guard's state as nobody but its shell may say it."""
        rng, m = self.rng, conversions.safety_state_msg(self.state, Time())
        name = pick(rng, ["mode", "joint_names", "array", "gripper_width", "guard_stamp", "token", "seq", "causes"])
        if name == "mode":
            m.mode = pick(rng, ["", "armed_auto", "ARMED", *LONG, "RECOVERING", "ARMED_MANUAL", "ARMED_AUTO"])
            m.token ^= 1  # a known mode is believed: what is commanded on it must still be refused
        elif name == "joint_names":
            m.joint_names = pick(rng, [[], list(m.joint_names)[::-1], ["a"] * 5_000])
        elif name == "array":
            array = pick(rng, ["q", "qd", "q_commanded", "qd_commanded"])
            values = list(getattr(m, array))
            wrong = [[], values[:-1], values * 200, [float("nan")] * 6, [float("inf")] * 6, [1e308] * 6, [-1e308] * 6]
            setattr(m, array, pick(rng, wrong))
        elif name == "gripper_width":
            m.gripper_width = pick(rng, [*NOT_NUMBERS, 1e308])
        elif name == "guard_stamp":
            m.guard_stamp = pick(rng, [*NOT_NUMBERS, 0.0, 1e308, m.guard_stamp - 5.0, m.guard_stamp + 5.0])
        elif name == "token":
            m.token = pick(rng, [0, -1, -(2**63), *self.old_tokens])
        elif name == "seq":
            m.seq = pick(rng, [0, 2**64 - 1])
        else:
            m.causes = [pick(rng, LONG)] * int(rng.integers(1, 5))
        return Input(f"state.{name}", "safety_state", m)

    def _object(self, whole: bool = False) -> msg.ObjectPose:
        o = msg.ObjectPose(id=1, x=0.5, y=-0.1, z=0.02, yaw=0.1, presence=0.9, position_std=0.002)
        if not whole:
            name = pick(self.rng, ["x", "y", "z", "yaw", "presence", "position_std", "age"])
            setattr(o, name, pick(self.rng, [*NOT_NUMBERS, 1e308, -1e308]))
        return o

    def _estimate(self) -> Input:
        """Never one that could be believed: an unknown mode, LOST, or an object that is not finite."""
        m = msg.StateEstimate(mode=2, observation_id="o1", objects=[self._object()])
        name = pick(self.rng, ["mode", "objects", "many"])
        if name == "mode":
            m.mode = int(self.rng.integers(3, 256))
        elif name == "many":
            m.objects = [self._object(whole=True)] * 500
        return Input(f"estimate.{name}", "state_estimate", m)

    def _objects(self) -> Input:
        rng = self.rng
        m = msg.ObjectPoses(image_seq=self.number, observation_id="o", objects=[self._object(whole=True)])
        self._stamped(m)
        name = pick(rng, ["value", "stamp", "seq", "many"])
        if name == "value":
            m.objects = [self._object() for _ in range(int(rng.integers(1, 4)))]
        elif name == "stamp":
            self._late(m)
        elif name == "seq":
            m.image_seq = 0
        else:
            m.objects = [self._object() for _ in range(int(rng.integers(20, 400)))]
        return Input(f"objects.{name}", "perception/objects", m)

    def _verdict(self) -> Input:
        """A verdict that no guard gave."""
        m = msg.Verdict(
            trace_id=pick(self.rng, ["", "jog-0-1", *LONG]), accepted=bool(self.rng.integers(2)),
            reason=pick(self.rng, ["", "x", *LONG]), detail=pick(self.rng, LONG),
        )
        return Input("verdict", "chunk_verdict", m)

    def _image(self) -> Input:
        rng = self.rng
        m = Image(height=12, width=16, encoding="rgb8", step=48, data=bytes(576))
        name = pick(rng, ["height", "width", "step", "encoding", "data", "content"])
        if name == "data":
            m.data = bytes(pick(rng, [0, 1, 575, 577, 5760]))
        elif name == "encoding":
            m.encoding = pick(rng, ["", "bgr8", "16UC1", *LONG])
        elif name != "content":
            setattr(m, name, pick(rng, [0, 1, 2**32 - 1, 2**31]))
        return Input(f"image.{name}", "camera/image_raw", m)

    # -- services and the action --------------------------------------------------------------------------------------
    def _service(self) -> Input:
        rng = self.rng
        how = pick(rng, ["rearm", "next_step", "cancel", "change_state", "parameters", "parameters"])
        if how == "rearm":
            mode = pick(rng, ["auto", "manual", "recover", "", "AUTO", "free", *LONG])
            secret = pick(rng, ["", "guess", "0" * 64, "\x01", "é" * 64, *LONG])
            return Input("rearm.credential", "rearm", srv.Rearm.Request(mode=mode, credential=secret))
        if how == "next_step":
            return Input("next_step", "next_step", Trigger.Request(), mutation=False)
        if how == "cancel":
            request = CancelGoal.Request()
            request.goal_info.goal_id.uuid = np.frombuffer(pick(rng, [bytes(16), rng.bytes(16)]), np.uint8).copy()
            request.goal_info.stamp.sec = pick(rng, [0, -1, 2**31 - 1])
            return Input("cancel.goal_id", "execute_task/_action/cancel_goal", request)
        node = pick(rng, NODES)
        if how == "change_state":  # transitions that an active node does not have
            label = pick(rng, ["", "activate", "destroy", LONG[0]])
            transition = Transition(id=pick(rng, [0, 1, 2, 3, 8, 10, 60, 99, 255]), label=label)
            return Input("change_state.id", f"{node}/change_state", ChangeState.Request(transition=transition))
        return self._parameters(node)

    def _parameters(self, node: str) -> Input:
        rng = self.rng
        service = pick(rng, [s for s in OF_EACH_NODE if s != "change_state"])
        request, names = OF_EACH_NODE[service].Request(), ["", "no.such", "use_sim_time", "/", "a b", "ä", *LONG]
        if service.startswith("set"):
            value = parameters.ParameterValue(
                type=pick(rng, [0, 1, 2, 3, 9, 10, 200, 255]), double_value=float("nan"), integer_value=-1
            )
            known = ["state_divider", "image_timeout_s", "image_age_max_s", "model", "record"]
            name = pick(rng, [n for n in names if n != "use_sim_time"] + known)
            request.parameters = [parameters.Parameter(name=name, value=value)] * int(rng.integers(1, 4))
        elif service == "list_parameters":
            request.prefixes, request.depth = [pick(rng, names)], pick(rng, [0, 1, 2**64 - 1])
        else:
            request.names = [pick(rng, names) for _ in range(int(rng.integers(0, 5)))]
        return Input(service, f"{node}/{service}", request)

    def _goal(self) -> Input:
        task = pick(self.rng, ["", "clear_tray ", "CLEAR_TRAY", "clear_tray\x01", "rm -rf", "é", *LONG])
        return Input("goal.task", ACTION, ExecuteTask.Goal(task=task, max_objects=pick(self.rng, [0, 1, 2**32 - 1])))

    # -- bytes that are no message ------------------------------------------------------------------------------------
    def _noise(self) -> Input:
        """Serialised messages cut short, with lengths that lie, with other heads, with text that is no text."""
        rng = self.rng
        sink = pick(rng, list(TOPICS.keys() - {"operator_stop", "camera/image_raw"}))
        how = pick(rng, ["cut", "length", "head", "text", "random"])
        base = serialize_message(self._base(sink))
        at = int(rng.integers(4, max(5, len(base))))
        if how == "cut":
            content = base[:at]
        elif how == "length":
            at -= at % 4
            content = base[:at] + pick(rng, [b"\xff" * 4, b"\xff\xff\xff\x7f", b"\x00\x00\x00\x40"]) + base[at + 4:]
        elif how == "head":
            content = rng.bytes(4) + base[4:]
        elif how == "text":
            content = base.replace(MARK.encode(), pick(rng, NO_TEXT))
        else:
            content = base[:4] + rng.bytes(int(rng.integers(0, 400)))
        return Input(f"noise.{how}", sink, bytes(content), mutation=False)

    def _base(self, sink: str) -> Any:
        """A message that is refused for another reason already, whatever a changed byte makes of it."""
        if sink == "joint_chunk":
            m = self.valid_chunk(0, MARK)
            m.token, m.joint_names = 0, [MARK, *m.joint_names[1:]]
            return m
        if sink == "gripper_command":
            return msg.GripperCommand(token=0, width=-1.0, trace_id=MARK)
        if sink == "input_heartbeat":
            return msg.InputHeartbeat(name=MARK, ok=True, detail=MARK)
        if sink == "jog_twist":
            m = self.valid_twist(0.0)
            m.header.frame_id = MARK
            return m
        if sink == "jog_joint":
            return JointState(name=[MARK], velocity=[0.0])
        if sink == "joy":
            return Joy(axes=[0.0] * 3)
        if sink == "chunk_verdict":
            return msg.Verdict(trace_id=MARK, reason=MARK, detail=MARK)
        if sink == "safety_state":
            m = self._state().content
            m.token, m.mode, m.causes = 0, MARK, [MARK]
            return m
        if sink == "state_estimate":
            return msg.StateEstimate(mode=9, reason=MARK, observation_id=MARK, objects=[self._object()])
        return msg.ObjectPoses(observation_id=MARK, provider=MARK, objects=[self._object()])
