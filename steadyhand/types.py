"""Values that pass between stages. Frozen; arrays are read-only by convention. Times are monotonic seconds."""
from __future__ import annotations

import enum
from dataclasses import dataclass, field

import numpy as np


class Mode(str, enum.Enum):
    """What the guard allows. Only the guard changes it."""

    STOPPED = "STOPPED"  # latched; refuses every motion command
    RECOVERING = "RECOVERING"  # slow moves that reduce no violated margin
    ARMED_AUTO = "ARMED_AUTO"
    ARMED_MANUAL = "ARMED_MANUAL"
    REST_UNKNOWN = "REST_UNKNOWN"  # stopped, but rest could not be measured


class Skill(str, enum.Enum):
    """What the policy is asked to do."""

    PICK = "pick"
    PLACE = "place"


@dataclass(frozen=True)
class ObjectEstimate:
    """One object in the tray, in `base_link`."""

    object_id: int
    position_m: np.ndarray  # (3,) centre
    yaw_rad: float  # in (-pi/4, pi/4]: a cube is the same after a quarter turn
    presence: float  # probability
    position_std_m: float
    age_s: float  # since the last measurement of this object
    in_box: bool = False  # lies in the box rather than in the tray


@dataclass(frozen=True)
class Detection:
    """One object as one image shows it, in `base_link`."""

    position_m: np.ndarray  # (3,) centre
    yaw_rad: float  # modulo a quarter turn
    presence: float  # probability
    position_std_m: float
    defect: float | None = None  # probability of a scratched surface; None: the model does not say


@dataclass(frozen=True)
class Detections:
    """Everything that perception sees in one image. Empty `objects` is a valid sight of an empty tray."""

    stamp_s: float  # capture time on the clock of the sender's image stamps
    image_seq: int
    observation_id: str
    objects: tuple[Detection, ...]


class EstimateMode(enum.IntEnum):
    """How far the estimate may be trusted (values of StateEstimate.msg)."""

    NOMINAL = 0
    DEGRADED = 1  # predicting without measurement, within bounds
    LOST = 2  # bounds exceeded: nothing may move on this estimate


@dataclass(frozen=True)
class Estimate:
    """Tracked objects and the trust in them. The object in the gripper is not among them."""

    stamp_s: float  # of the newest image used
    mode: EstimateMode
    reason: str  # empty when NOMINAL
    observation_id: str
    image_age_s: float  # since the newest image arrived, monotonic
    objects: tuple[ObjectEstimate, ...]


@dataclass(frozen=True)
class RobotState:
    """What the guard publishes: measured and commanded state, stamped with the guard's own clock and sequence."""

    stamp_s: float
    seq: int
    token: int
    mode: Mode
    q_rad: np.ndarray  # (6,) measured
    qd_rad_s: np.ndarray  # (6,) measured
    q_commanded_rad: np.ndarray  # (6,) last set-point sent
    qd_commanded_rad_s: np.ndarray  # (6,)
    gripper_width_m: float
    gripper_commanded_m: float
    at_rest: bool
    causes: tuple[str, ...] = ()
    payload_due: bool = False  # the guard is about to switch the payload: stand still until it has


@dataclass(frozen=True)
class JointChunk:
    """Joint way-points proposed by a command source.

    `q_rad[k]` is wanted at guard time `state_stamp_s + (k + 1) * period_s`, where the stamp and `state_seq` are those
    of the RobotState that the action answers, and `token` is that state's arming token.
    """

    token: int
    state_seq: int
    state_stamp_s: float
    trace_id: str
    source: str  # "policy", "planner", "manual"
    joint_names: tuple[str, ...]
    period_s: float
    q_rad: np.ndarray  # (N, 6)


@dataclass(frozen=True)
class Verdict:
    """The guard's answer to a command. `reason` is a `Reason` value; field, value and limit name the offender."""

    trace_id: str
    accepted: bool
    reason: str = ""
    detail: str = ""


class Reason(str, enum.Enum):
    """Why a command was refused."""

    MALFORMED = "malformed"
    NOT_FINITE = "not_finite"
    SHAPE = "shape"
    JOINT_ORDER = "joint_order"
    NOT_ARMED = "not_armed"
    FOREIGN_TOKEN = "foreign_token"
    EXPIRED = "expired"
    FROM_FUTURE = "from_future"
    OUT_OF_ORDER = "out_of_order"
    WRONG_OBSERVATION = "wrong_observation"
    SECOND_COMMANDER = "second_commander"
    FLOOD = "flood"
    POSITION = "position"
    VELOCITY = "velocity"
    ACCELERATION = "acceleration"
    JERK = "jerk"
    CONTINUITY = "continuity"
    TRACKING = "tracking"
    WORKSPACE = "workspace"
    SELF_COLLISION = "self_collision"
    STOP_INADMISSIBLE = "stop_inadmissible"
    PAYLOAD = "payload"


@dataclass(frozen=True)
class ActionChunk:
    """A policy's reply: `actions` (H, A) in the units of its contract, for the observation it names."""

    observation_id: str
    actions: np.ndarray
    served_by: str  # "triton", "local"
    latency_s: float


@dataclass(frozen=True)
class Fault:
    """A detected fault. Its reaction is looked up in the one table (`steadyhand.faults`), never decided here."""

    name: str
    stamp_s: float
    detector: str
    detail: str = ""
    evidence: dict = field(default_factory=dict)
