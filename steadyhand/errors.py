"""The errors of Steadyhand: one root, one class per cause. A message names the field, the value and what to do."""


class SteadyhandError(Exception):
    """Root of every error raised on purpose."""


class ConfigError(SteadyhandError):
    """A parameter or a file is wrong: names the field, the value and the accepted range."""


class ProtocolError(SteadyhandError):
    """A peer sent something malformed: truncated, oversized, wrong type, wrong version."""


class ContractError(SteadyhandError):
    """A policy, robot, sensor or calibration disagrees with what was declared (I10)."""


class PolicyError(SteadyhandError):
    """A policy call failed; `PolicyTimeout` when its deadline passed."""


class PolicyTimeout(PolicyError):
    """The deadline of a policy call passed; a later reply is discarded."""


class RobotError(SteadyhandError):
    """The robot or its controller refused, is unreachable, or is in a mode that forbids motion."""


class KinematicsError(SteadyhandError):
    """A pose is out of reach or a solver did not converge."""


class DependencyMissing(SteadyhandError):
    """An optional dependency is absent: names it and the command that installs it."""
