"""What a person streams to teleop_node: twists, joint velocities, a gamepad."""


class Stream:
    """One of the three command topics, 50 Hz."""

    def __init__(self, graph):
        from geometry_msgs.msg import TwistStamped
        from sensor_msgs.msg import JointState, Joy

        from steadyhand_ros import qos

        self.types = {"twist": TwistStamped, "joint": JointState, "joy": Joy}
        create = graph.session.node.create_publisher
        topics = {"twist": "jog_twist", "joint": "jog_joint", "joy": "joy"}
        self.pubs = {name: create(kind, topics[name], qos.COMMAND) for name, kind in self.types.items()}
        self.clock = graph.session.node.get_clock()
        self.kind, self.fill = "", lambda m: None
        graph.session.node.create_timer(0.02, self.send)

    def send(self):
        if self.kind:
            m = self.types[self.kind]()
            m.header.stamp = self.clock.now().to_msg()
            self.fill(m)
            self.pubs[self.kind].publish(m)

    def say(self, kind, fill):
        self.fill, self.kind = fill, kind


def twist(z=0.0, frame="base_link"):
    def fill(m):
        m.header.frame_id = frame
        m.twist.linear.z = z

    return fill


def joints(name, velocity):
    def fill(m):
        m.name, m.velocity = [name], [velocity]

    return fill


def pad(deflection, held, stop=False):
    def fill(m):
        m.axes = [0.0] * 8
        m.axes[4] = deflection  # up and down
        m.buttons = [0] * 11
        m.buttons[4], m.buttons[1] = int(held), int(stop)

    return fill
