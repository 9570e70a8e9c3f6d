"""World, controller and camera state together, and what the score socket may ask of them. No socket, no clock."""
from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from steadyhand.errors import ConfigError
from steadyhand_sim import faults
from steadyhand_sim.agv.body_link import VehicleInCell
from steadyhand_sim.impulse_noise import ImpulseNoise, ImpulseNoiseConfig
from steadyhand_sim.snapshot import CAMERA_STATES, Snapshot
from steadyhand_sim.ur_controller.controller import URController
from steadyhand_sim.world import World

MAX_EVENTS = 200


class SimulatedCell:
    """The cell as one thing: snapshots for the camera, faults for the tests, score and state for the summary."""

    def __init__(
        self, world: World, controller: URController, look_seed: int, look_split: str,
        schedule: Sequence[faults.TimedFault] = (),
    ) -> None:
        self.world, self.controller = world, controller
        for due in schedule:  # not only when it is due: an error then would end the simulation in mid-run
            faults.check(due.name, due.parameters, world.n_objects)
        self._look = (look_seed, look_split)
        self._camera, self._frozen = "ok", None
        self._seq = 0
        self._pending = deque(sorted(schedule, key=lambda f: f.time_s))
        self._events: deque[dict] = deque(maxlen=MAX_EVENTS)
        self.feedback = True  # whether the controller's servers send their state packages
        self.stall_s = 0.0  # the loop sleeps this long before its next cycle, then clears it
        self.loop_state: Callable[[], dict] = dict  # set by the process that runs the loop
        self.vehicle: VehicleInCell | None = None  # set by the process: a vehicle's body in this world

    def snapshot(self) -> Snapshot:
        """The scene as the camera gets it: a frozen camera gets the same one again."""
        if self._camera == "frozen":
            if self._frozen is None:
                self._frozen = replace(self._draw(), camera="frozen")
            return self._frozen
        self._frozen = None
        return self._draw()

    def _draw(self) -> Snapshot:
        self._seq += 1
        drawn = self.world.snapshot(self._seq, *self._look, self._camera)
        return drawn if self.vehicle is None else replace(drawn, vehicle_m_rad=self.vehicle.plant.pose())

    def apply_due_faults(self) -> None:
        """Faults of the schedule whose time has come."""
        while self._pending and self._pending[0].time_s <= self.world.time_s:
            due = self._pending.popleft()
            self.inject(due.name, due.parameters)

    def inject(self, name: str, parameters: dict) -> None:
        """Make a fault happen now; raises ConfigError when it is unknown or out of range."""
        checked = faults.check(name, parameters, self.world.n_objects)
        faults.FAULTS[name].apply(self, checked)
        self._events.append({"time_s": self.world.time_s, "fault": name, **checked})

    def set_camera(self, state: str) -> None:
        """One of snapshot.CAMERA_STATES."""
        if state not in CAMERA_STATES:
            raise ConfigError(f"camera {state!r}: give one of {', '.join(CAMERA_STATES)}")
        self._camera, self._frozen = state, None

    def set_feedback(self, on: bool) -> None:
        """Whether the controller's servers send anything."""
        self.feedback = on

    def set_impulses(self, sigmas: float, every_steps: float) -> None:
        """Impulse noise on the encoders from now on, of the scene's seed; 0 sigmas: none."""
        config = ImpulseNoiseConfig(sigmas, every_steps)
        self.controller.plant.impulses = ImpulseNoise.of_joints(self.world.seed, config) if sigmas > 0 else None

    def stall(self, duration_s: float) -> None:
        """The controller's computer misses its cycles for a while."""
        self.stall_s = duration_s

    def handle(self, request: dict) -> dict:
        """Answer one request of the score socket: score, state, fault, faults."""
        if "fault" in request:
            self.inject(request["fault"], request.get("parameters", {}))
            return {"fault": request["fault"]}
        if request.get("get") == "score":
            return {"score": self.world.score().as_dict(), "time_s": self.world.time_s}
        if request.get("get") == "faults":
            return {"faults": {n: sorted(spec.parameters) for n, spec in faults.FAULTS.items()}}
        if request.get("get") == "state":
            return {"state": self._state()}
        raise ConfigError(f"request {str(request)[:200]}: give get=score, get=state, get=faults or fault=NAME")

    def _state(self) -> dict:
        positions, quaternions = self.world.object_poses()
        controller = self.controller
        return {
            "time_s": self.world.time_s, "seed": self.world.seed, "q_rad": self.world.q_rad.tolist(),
            "qd_rad_s": self.world.qd_rad_s.tolist(), "gripper_width_m": self.world.gripper_width,
            "position_m": positions.tolist(), "quaternion_xyzw": quaternions.tolist(), "camera": self._camera,
            "feedback": self.feedback, "events": list(self._events), "loop": self.loop_state(),
            "vehicle": None if self.vehicle is None else self.vehicle.state(positions, self.world.robot),
            "controller": {
                "cycle": controller.cycle, "robot_mode": controller.robot_mode.name,
                "safety_mode": controller.safety_mode.name, "runtime_state": controller.runtime_state.name,
                "program": controller.program_name, "digital_outputs": controller.digital_outputs,
                "counters": controller.counters, "messages": [text for _, text in controller.messages][-20:],
            },
        }
