"""A double of a mobile base's ROS interface, and of Nav2's action: own process, real DDS, differential drive.

Written from the documentation of diff_drive_controller (cmd_vel as Twist or TwistStamped, a time-out, odometry) and of
Nav2's NavigateToPose. With `--nav2` the base's input is a twist_mux's: the guard's cmd_vel comes before Nav2's, for
half a second. It proves how our side behaves; it proves nothing about a real base or a real Nav2. Acts of people and
faults come in as lines on standard input, each answered by one JSON line (`BaseDouble`).
"""
import argparse
import json
import math
import os
import selectors
import subprocess
import sys
import time

from tests.support import foreign_messages
from tests.support.emulated_controller import ANSWER_LIMIT_S, Controller

MUX_S = 0.5  # a twist_mux's time-out, and the base's own
ACCELERATION, OMEGA_ACCELERATION = 3.0, 6.0  # of the wheels: more than any load's limits
NAV_SPEED_M_S, NAV_DECEL_M_S2 = 0.4, 0.5


class Wheels:
    """Differential drive: follows what it is told within what the wheels can."""

    def __init__(self):
        self.x_m = self.y_m = self.yaw = self.v = self.omega = 0.0

    def step(self, v, omega, dt_s):
        self.v += max(-ACCELERATION * dt_s, min(ACCELERATION * dt_s, v - self.v))
        self.omega += max(-OMEGA_ACCELERATION * dt_s, min(OMEGA_ACCELERATION * dt_s, omega - self.omega))
        self.yaw += self.omega * dt_s
        self.x_m += self.v * math.cos(self.yaw) * dt_s
        self.y_m += self.v * math.sin(self.yaw) * dt_s


class Base:
    """Node, loop and people."""

    def __init__(self, arguments):
        import rclpy
        from geometry_msgs.msg import Twist, TwistStamped
        from nav_msgs.msg import Odometry
        from rclpy.experimental import EventsExecutor

        self.arguments, self.period_s = arguments, 1.0 / arguments.hz
        self.wheels, self.told, self.told_s = Wheels(), (0.0, 0.0), -math.inf
        self.commands = 0
        self.fault, self.quiet, self.shift_s, self.shift_m = "", False, 0.0, 0.0
        self.largest_drop = 0.0  # from one message to the next
        self.kinds = {"Twist": Twist, "TwistStamped": TwistStamped}
        self.nav_v, self.goal = 0.0, None
        self.ignore_cancel = False
        rclpy.init(args=[])
        self.node = rclpy.create_node("base_double")
        self.odometry = Odometry
        self.odom = self.node.create_publisher(Odometry, arguments.odom, 10)
        stamped = arguments.type == "TwistStamped"
        take = (lambda m: self.on_command(m.twist)) if stamped else self.on_command
        self.node.create_subscription(self.kinds[arguments.type], arguments.cmd_vel, take, 10)
        self.executor = EventsExecutor()
        self.executor.add_node(self.node)
        if arguments.nav2:
            self.serve()

    def serve(self):
        from nav2_msgs.action import NavigateToPose
        from rclpy.action import ActionServer, CancelResponse

        self.result_type = NavigateToPose.Result
        self.action = ActionServer(
            self.node, NavigateToPose, "/navigate_to_pose", execute_callback=self.on_end,
            handle_accepted_callback=self.on_goal,
            cancel_callback=lambda _: CancelResponse.REJECT if self.ignore_cancel else CancelResponse.ACCEPT,
        )  # fmt: skip

    def on_command(self, twist):
        self.commands += 1
        self.largest_drop = max(self.largest_drop, self.told[0] - twist.linear.x)
        self.told, self.told_s = (twist.linear.x, twist.angular.z), time.monotonic()

    # --- Nav2 ---

    def on_goal(self, handle):
        if self.goal is not None:
            old, self.goal = self.goal, None
            old.execute()
        self.goal, self.done = handle, False

    def on_end(self, handle):
        """Runs when a goal has ended, by whatever."""
        if handle.is_cancel_requested:
            handle.canceled()
        elif self.done:
            handle.succeed()
        else:
            handle.abort()
        return self.result_type(error_msg="" if self.done else "ended by the double")

    def navigate(self):
        """Along a straight line; after a cancellation the controller brakes by itself."""
        if self.goal is None:
            self.nav_v = max(0.0, self.nav_v - NAV_DECEL_M_S2 * self.period_s)
            return
        at = self.goal.request.pose.pose.position
        left_m = math.hypot(at.x - self.wheels.x_m, at.y - self.wheels.y_m)
        fastest = math.sqrt(2.0 * NAV_DECEL_M_S2 * left_m) + 0.01
        self.nav_v = min(NAV_SPEED_M_S, self.nav_v + NAV_DECEL_M_S2 * self.period_s, fastest)
        self.done = left_m < 0.05
        if self.done or self.goal.is_cancel_requested:
            self.nav_v = 0.0 if self.done else self.nav_v
            handle, self.goal = self.goal, None
            handle.execute()

    # --- base ---

    def cycle(self):
        v, omega = self.told if time.monotonic() - self.told_s <= MUX_S else (self.nav_v, 0.0)
        self.wheels.step(v, omega, self.period_s)
        if self.arguments.nav2:
            self.navigate()
        if not self.quiet:
            self.publish()

    def publish(self):
        m, w = self.odometry(), self.wheels
        now_s = time.time() + self.shift_s
        m.header.stamp.sec, m.header.stamp.nanosec = int(now_s), int(now_s % 1 * 1e9)
        m.header.frame_id = "odom"
        m.child_frame_id = "base_footprint" if self.fault == "child_frame" else "base_link"
        m.pose.pose.position.x = math.nan if self.fault == "nan" else w.x_m + self.shift_m
        m.pose.pose.position.y = w.y_m
        m.pose.pose.orientation.z, m.pose.pose.orientation.w = math.sin(w.yaw / 2), math.cos(w.yaw / 2)
        m.twist.twist.linear.x, m.twist.twist.angular.z = w.v, w.omega
        self.odom.publish(m)

    # --- people and faults ---

    def act(self, line: str) -> dict:
        word, *rest = line.split()
        if word == "fault":
            self.fault = rest[0] if rest else ""
        elif word == "quiet":
            self.quiet = rest == ["on"]
        elif word == "clock":  # is set by so many seconds
            self.shift_s += float(rest[0])
        elif word == "jump":
            self.shift_m += float(rest[0])
        elif word == "joystick":
            self.joystick()
        elif word == "ignore_cancel":
            self.ignore_cancel = rest == ["on"]
        elif word == "forget":
            self.largest_drop = 0.0
        elif word != "state":
            return {"error": f"{word!r} is no act"}
        w = self.wheels
        return {
            "pose": [w.x_m, w.y_m, w.yaw], "v": w.v, "omega": w.omega, "commands": self.commands, "told": self.told,
            "largest_drop": self.largest_drop, "goal": self.goal is not None,
        }  # fmt: skip

    def joystick(self):
        """A node of somebody that publishes to cmd_vel."""
        import rclpy

        node = rclpy.create_node("somebody")
        self.executor.add_node(node)
        node.create_publisher(self.kinds[self.arguments.type], self.arguments.cmd_vel, 10)

    def close(self):
        """Leave the graph at once."""
        import rclpy

        self.executor.remove_node(self.node)
        self.executor.shutdown()
        self.node.destroy_node()
        rclpy.shutdown()

    def run(self):
        os.set_blocking(0, False)
        selector = selectors.DefaultSelector()
        selector.register(0, selectors.EVENT_READ)
        print("ready", flush=True)
        due_s, text = time.monotonic(), ""
        while True:
            due_s = max(due_s + self.period_s, time.monotonic() - self.period_s)
            self.cycle()
            if selector.select(0):
                read = os.read(0, 4096).decode()
                if not read or read == "quit\n":
                    return self.close()
                text += read
                while "\n" in text:
                    line, text = text.split("\n", 1)
                    print(json.dumps(self.act(line)), flush=True)
            while (left_s := due_s - time.monotonic()) > 0:
                self.executor.spin_once(timeout_sec=left_s)


class BaseDouble(Controller):
    """The process of a `Base`, handled like the emulated controller: `pendant(line)`, `end()`."""

    def __init__(self, *arguments: str):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.agv_base_double", *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=foreign_messages.environment(),
        )  # fmt: skip
        line = self._line()
        if "ready" not in line:
            self.end()
            raise AssertionError(f"the base's double did not start: {line!r}")

    def quit(self):
        """Its orderly end: it is not listed any more at once."""
        self.process.stdin.write("quit\n")
        self.process.stdin.flush()
        self.process.wait(ANSWER_LIMIT_S)
        self.end()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hz", type=float, default=50.0)
    parser.add_argument("--type", choices=("Twist", "TwistStamped"), default="TwistStamped")
    parser.add_argument("--cmd-vel", default="/cmd_vel")
    parser.add_argument("--odom", default="/odom")
    parser.add_argument("--nav2", action="store_true")
    Base(parser.parse_args()).run()


if __name__ == "__main__":
    main()
