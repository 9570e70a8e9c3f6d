"""The robot's configuration, and the names of what it senses and accepts."""
import json
from dataclasses import dataclass

from lerobot.robots.config import RobotConfig

from benchmarks.peers.scene import MODEL

_CONTRACT = json.loads((MODEL / "contract.json").read_text())
STATE_NAMES = (*_CONTRACT["observation"]["names"], "stamp_s")
ACTION_NAMES = (*_CONTRACT["action"]["names"], "meant_for_s")
# The policy's metres as millimetres. LeRobot's server leaves out an observation within 1 (norm) of the last one, which
# is meant for joints in degrees; in metres it would leave out nearly all of them.
STATE_SCALE = 1000.0


@RobotConfig.register_subclass("steadyhand_recorder")
@dataclass(kw_only=True)
class RecorderConfig(RobotConfig):
    """No hardware."""
