"""A double of ur_robot_driver's ROS interface: own process, real DDS, a kinematic arm behind it. Not the driver.

What it says and does is written from the driver's documentation (ur_controllers, controller stopper, operation modes)
and from ros2_control's rules for switching controllers. The robot behind it follows at the share of speed that it is
set to, and lags when set-points run ahead. It proves how our side behaves; it proves nothing about the real driver, the
External Control program on a controller, or their timing. Acts of people and faults come in as lines on standard input,
each answered by one JSON line (`Double`).
"""
import argparse
import collections
import json
import os
import selectors
import subprocess
import sys
import time

import numpy as np

from steadyhand import cell, ur5
from steadyhand_sim.ur_controller.kinematic_plant import KinematicPlant
from steadyhand_sim.ur_controller.plant import PlantCommand
from tests.support import foreign_messages, ur_description
from tests.support.emulated_controller import Controller

STOPJ_RAD_S2 = 4.0  # of the External Control program
STOP_RAD_S2 = 20.0  # of the safety system
BROADCASTERS = ("joint_state_broadcaster", "speed_scaling_state_broadcaster", "io_and_status_controller")


class Arm:
    """Program and safety of the robot behind the driver. `command_rad` is what the driver writes; None: nothing."""

    def __init__(self, period_s: float):
        self.period_s, self.plant = period_s, KinematicPlant(cell.HOME_Q_RAD)
        self.target_rad, self.speed_rad_s = np.array(cell.HOME_Q_RAD), np.zeros(ur5.DOF)
        self.command_rad: np.ndarray | None = None
        self.program, self.safety_mode, self.robot_mode, self.slider, self.outputs = "running", 1, 7, 1.0, 0

    @property
    def scaling(self) -> float:
        return self.slider if self.program == "running" and self.safety_mode == 1 else 0.0

    def step(self):
        if self.program == "running" and self.safety_mode == 1 and self.command_rad is not None:
            most = ur5.QD_MAX_RAD_S * self.period_s
            moved = np.clip(self.scaling * (self.command_rad - self.target_rad), -most, most)
            speed = moved / self.period_s
        else:
            give = (STOPJ_RAD_S2 if self.safety_mode == 1 else STOP_RAD_S2) * self.period_s
            speed = self.speed_rad_s - np.clip(self.speed_rad_s, -give, give)
        acceleration = (speed - self.speed_rad_s) / self.period_s
        self.speed_rad_s = speed
        self.target_rad = self.target_rad + speed * self.period_s
        return self.plant.step(
            PlantCommand(self.target_rad, speed, acceleration, digital_outputs=self.outputs), self.period_s
        )


class Controllers:
    """The controller manager: which controllers are active, and the controller stopper's memory."""

    def __init__(self, trajectory: str):
        self.motion = {trajectory: "position", "forward_position_controller": "position",
                       "forward_velocity_controller": "velocity"}
        self.active = {*BROADCASTERS, trajectory}
        self.trajectory = trajectory
        self.stopped: set[str] = set()

    @property
    def names(self):
        return [*BROADCASTERS, *self.motion]

    def commanding(self) -> str:
        return next((n for n in self.motion if n in self.active), "")

    def claims(self, name: str) -> list[str]:
        kind = self.motion.get(name)
        if not kind or name not in self.active:
            return []
        if name == "passthrough_trajectory_controller":
            return [f"trajectory_passthrough/setpoint_positions_{i}" for i in range(6)]
        return [f"{joint}/{kind}" for joint in ur5.JOINT_NAMES]

    def switch(self, on, off, strict: bool) -> str:
        """What was refused; empty when done. Strict: all or nothing."""
        wrong = [f"{n}: not loaded" for n in (*on, *off) if n not in self.names]
        wrong += [f"{n}: active already" for n in on if n in self.active]
        wrong += [f"{n}: not active" for n in off if n not in self.active]
        after = (self.active - set(off)) | {n for n in on if n in self.names}
        if len([n for n in self.motion if n in after]) > 1:
            wrong.append("two controllers claim the same joints")
            after = self.active - set(off)
        if not (strict and wrong):
            self.active = after
        return "; ".join(wrong)

    def program(self, running: bool):
        """The controller stopper."""
        if not running:
            self.stopped = {n for n in self.motion if n in self.active}
            self.active -= self.stopped
        elif not self.commanding():
            self.active |= self.stopped


class Driver:
    """Node, loop and pendant."""

    def __init__(self, arguments):
        foreign_messages.use()
        import rclpy
        from control_msgs.action import FollowJointTrajectory
        from controller_manager_msgs.srv import ListControllers, SwitchController
        from rclpy.action import ActionServer, CancelResponse, GoalResponse
        from rclpy.experimental import EventsExecutor
        from rclpy.qos import DurabilityPolicy, QoSProfile
        from sensor_msgs.msg import JointState
        from std_msgs.msg import Bool, Float64, Float64MultiArray, String
        from std_srvs.srv import Trigger
        from ur_dashboard_msgs.msg import RobotMode, SafetyMode
        from ur_msgs.msg import Analog, Digital, IOStates
        from ur_msgs.srv import SetIO

        self.arguments, self.period_s = arguments, 1.0 / arguments.hz
        self.arm, self.controllers = Arm(self.period_s), Controllers(arguments.trajectory_controller)
        self.order, self.fault, self.late_s, self.quiet = list(range(6)), "", 0.0, False
        self.domain = 1  # of analog input 0: voltage
        if arguments.pendant_mode:
            self.arm.program = "stopped"  # nobody has pressed play since the driver came up
        self.commands = 0
        self.held = collections.deque()
        self.goal, self.path, self.path_s = None, None, 0.0
        self.shown = [None, None, Bool()]  # as the driver: said when it changes, "not running" being where it begins
        rclpy.init(args=[])
        self.node = node = rclpy.create_node("ur_driver_double")
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        ns, status = arguments.namespace, f"{arguments.namespace}/io_and_status_controller"
        topic = node.create_publisher
        self.joint_topic = topic(JointState, f"{ns}/joint_states", 10)
        self.scaling_topic = topic(Float64, f"{ns}/speed_scaling_state_broadcaster/speed_scaling", 10)
        self.io_topic = topic(IOStates, f"{status}/io_states", 10)
        self.latched = [
            (topic(RobotMode, f"{status}/robot_mode", latched), lambda: RobotMode(mode=self.arm.robot_mode)),
            (topic(SafetyMode, f"{status}/safety_mode", latched), lambda: SafetyMode(mode=self.arm.safety_mode)),
            (topic(Bool, f"{status}/robot_program_running", latched), lambda: Bool(data=self.arm.program != "stopped")),
        ]
        self.description_topic = topic(String, f"{ns}/robot_description", latched)
        self.description_topic.publish(String(data=ur_description.urdf(arguments.arm)))
        node.create_subscription(Float64MultiArray, f"{ns}/forward_position_controller/commands", self.on_command, 10)
        self.types = JointState, Float64, IOStates, Digital, Analog

        def trigger(name, act):
            def answer(_request, response):
                response.success, response.message = act()
                return response

            node.create_service(Trigger, f"{ns}/{name}", answer)

        if not arguments.no_dashboard:
            for name in ("play", "stop", "unlock_protective_stop"):
                trigger(f"dashboard_client/{name}", lambda name=name: self.dashboard(name))
        trigger("io_and_status_controller/resend_robot_program", self.resend)
        node.create_service(ListControllers, f"{ns}/controller_manager/list_controllers", self.on_list)
        node.create_service(SwitchController, f"{ns}/controller_manager/switch_controller", self.on_switch)
        node.create_service(SetIO, f"{status}/set_io", self.on_io)
        self.result_type = FollowJointTrajectory.Result
        self.action = ActionServer(
            node, FollowJointTrajectory, f"{ns}/{self.controllers.trajectory}/follow_joint_trajectory",
            execute_callback=self.on_end,
            goal_callback=lambda _: GoalResponse.ACCEPT if self.may_follow() else GoalResponse.REJECT,
            handle_accepted_callback=self.on_goal, cancel_callback=lambda _: CancelResponse.ACCEPT,
        )  # fmt: skip
        self.executor = EventsExecutor()
        self.executor.add_node(node)

    # --- controllers ---

    def on_command(self, message):
        self.commands += 1
        q_rad = np.array(message.data)
        active = "forward_position_controller" in self.controllers.active
        if active and q_rad.shape == (6,) and np.isfinite(q_rad).all():
            self.arm.command_rad = q_rad

    def on_list(self, _request, response):
        from controller_manager_msgs.msg import ControllerState

        for name in self.controllers.names:
            state = "active" if name in self.controllers.active else "inactive"
            claims = self.controllers.claims(name)
            response.controller.append(ControllerState(name=name, state=state, claimed_interfaces=claims))
        return response

    def on_switch(self, request, response):
        before = self.controllers.commanding()
        strict = request.strictness == request.STRICT
        response.message = self.controllers.switch(request.activate_controllers, request.deactivate_controllers, strict)
        response.ok = not response.message
        if self.controllers.commanding() != before:
            self.arm.command_rad = None  # a controller begins without a command
        return response

    def may_follow(self):
        return self.controllers.commanding() == self.controllers.trajectory and self.arm.program == "running"

    def on_goal(self, handle):
        points = handle.request.trajectory.points
        order = [handle.request.trajectory.joint_names.index(n) for n in ur5.JOINT_NAMES]
        times = [0.0] + [p.time_from_start.sec + 1e-9 * p.time_from_start.nanosec for p in points]
        q_rad = [self.arm.target_rad.copy()] + [np.array([p.positions[i] for i in order]) for p in points]
        self.goal, self.path, self.path_s = handle, (np.array(times), np.array(q_rad)), 0.0

    def on_end(self, handle):
        """Runs when a goal has ended, by whatever."""
        done = self.path_s >= self.path[0][-1]
        if handle.is_cancel_requested:
            handle.canceled()
        elif done:
            handle.succeed()
        else:
            handle.abort()
        return self.result_type(error_code=0 if done else self.result_type.PATH_TOLERANCE_VIOLATED)

    def follow(self):
        """The trajectory controller's cycle: time goes on by the share of speed."""
        if self.goal is None:
            return
        self.path_s += self.period_s * self.arm.scaling
        if self.path_s >= self.path[0][-1] or self.goal.is_cancel_requested or not self.may_follow():
            handle, self.goal = self.goal, None
            handle.execute()
        if self.may_follow():
            self.arm.command_rad = np.array([np.interp(self.path_s, self.path[0], q) for q in self.path[1].T])

    # --- robot ---

    def set_program(self, state: str):
        running_before = self.arm.program != "stopped"
        self.arm.program = state
        if (state != "stopped") != running_before:
            self.arm.command_rad = None
            self.controllers.program(state != "stopped")

    def dashboard(self, name: str):
        if name == "stop":
            self.set_program("stopped")
        elif name == "play" and self.arm.safety_mode == 1:
            self.set_program("running")  # a paused one goes on with what it was told last
        elif name == "unlock_protective_stop":
            self.arm.safety_mode = 1
        return True, name

    def resend(self):
        if self.arguments.pendant_mode:
            return False, "Robot program cannot be sent: the driver is not in headless mode"
        if self.arm.safety_mode != 1 or self.arm.robot_mode != 7:
            return False, "the robot does not take a program now"
        self.set_program("stopped")
        self.set_program("running")
        return True, "sent"

    def on_io(self, request, response):
        bit = 1 << request.pin
        self.arm.outputs = self.arm.outputs | bit if request.state else self.arm.outputs & ~bit
        response.success = True
        return response

    # --- what is published ---

    def publish(self, state):
        joint_state, number, io, digital, analog = self.types
        message = joint_state()
        now_s = time.time()
        message.header.stamp.sec, message.header.stamp.nanosec = int(now_s), int(now_s % 1 * 1e9)
        message.name = [ur5.JOINT_NAMES[i] for i in self.order]
        message.position = [float(state.q_rad[i]) for i in self.order]
        message.velocity = [float(state.qd_rad_s[i]) for i in self.order]
        if self.fault == "missing":
            message.name, message.position, message.velocity = (
                x[1:] for x in (message.name, message.position, message.velocity)
            )
        elif self.fault == "nan":
            message.position[2] = float("nan")
        elif self.fault == "repeated":
            message.name, message.position, message.velocity = (
                [*x, x[0]] for x in (message.name, message.position, message.velocity)
            )
        self.held.append((time.monotonic() + self.late_s, message))
        while self.held and self.held[0][0] <= time.monotonic():
            due = self.held.popleft()[1]
            if not self.quiet:
                self.joint_topic.publish(due)
        self.scaling_topic.publish(number(data=100.0 * self.arm.scaling))
        outputs = [digital(pin=i, state=bool(self.arm.outputs >> i & 1)) for i in range(8)]
        inputs = [analog(pin=0, domain=self.domain, state=float(state.analog_inputs_v[0])), analog(pin=1, domain=1)]
        self.io_topic.publish(io(digital_out_states=outputs, analog_in_states=inputs))
        said = [make() for _, make in self.latched]
        for (publisher, _), one, before in zip(self.latched, said, self.shown):
            if one != before:
                publisher.publish(one)
        self.shown = said

    # --- people and faults ---

    def act(self, line: str) -> dict:
        word, *rest = line.split()
        arm = self.arm
        if word == "protective_stop":
            arm.safety_mode = 3
            arm.program = "paused" if arm.program == "running" else arm.program
        elif word == "unlock":
            arm.safety_mode = 1
        elif word == "power_off":
            arm.robot_mode = 3
            self.set_program("stopped")
        elif word == "pause":
            arm.program = "paused"
        elif word in ("play", "stop"):
            self.dashboard(word)
        elif word == "slider":
            arm.slider = float(rest[0])
        elif word == "order":
            self.order = [int(i) for i in rest[0]]
        elif word == "fault":
            self.fault = rest[0] if rest else ""
        elif word == "domain":
            self.domain = int(rest[0])
        elif word == "late":
            self.late_s = float(rest[0])
        elif word == "quiet":
            self.quiet = rest == ["on"]
        elif word == "switch":
            self.controllers.switch(rest[:1], [self.controllers.commanding()], strict=False)
        elif word != "state":
            return {"error": f"{word!r} is no act"}
        return {
            "q_rad": arm.plant.q_rad.tolist(), "target_rad": arm.target_rad.tolist(), "program": arm.program,
            "speed_rad_s": float(np.abs(arm.speed_rad_s).max()), "active": sorted(self.controllers.active),
            "commands": self.commands, "outputs": arm.outputs, "scaling": arm.scaling,
        }  # fmt: skip

    def run(self):
        os.set_blocking(0, False)
        selector = selectors.DefaultSelector()
        selector.register(0, selectors.EVENT_READ)
        print("ready", flush=True)
        due_s, text = time.monotonic(), ""
        while True:
            due_s = max(due_s + self.period_s, time.monotonic() - self.period_s)
            self.follow()
            self.publish(self.arm.step())
            if selector.select(0):
                read = os.read(0, 4096).decode()
                if not read:
                    return
                text += read
                while "\n" in text:
                    line, text = text.split("\n", 1)
                    print(json.dumps(self.act(line)), flush=True)
            while (left_s := due_s - time.monotonic()) > 0:
                self.executor.spin_once(timeout_sec=left_s)


class Double(Controller):
    """The process of a `Driver`, handled like the emulated controller: `pendant(line)`, `end()`."""

    def __init__(self, *arguments: str):
        foreign_messages.use()  # built before the process waits for it
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.ur_driver_double", *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip
        line = self._line()
        if "ready" not in line:
            self.end()
            raise AssertionError(f"the driver's double did not start: {line!r}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hz", type=float, default=125.0)
    parser.add_argument("--namespace", default="")
    parser.add_argument("--trajectory-controller", default="scaled_joint_trajectory_controller")
    parser.add_argument("--pendant-mode", action="store_true", help="no headless_mode: resend_robot_program is refused")
    parser.add_argument("--arm", default="ur5", choices=ur_description.ARMS, help="of the robot description")
    parser.add_argument("--no-dashboard", action="store_true")
    Driver(parser.parse_args()).run()


if __name__ == "__main__":
    main()
