"""Parameters of one vehicle and its broker, validated where they enter. YAML (`config/agv.yaml`) only fills them."""
from __future__ import annotations

from dataclasses import dataclass, replace

from steadyhand.config import check_ranges, described
from steadyhand.errors import ConfigError
from steadyhand.vda5050.header import Identity


@dataclass(frozen=True)
class BrokerConfig:
    """Where the broker is. The password is read from a file that only this user may read."""

    host: str = "127.0.0.1"
    port: int = described(1883, "TCP port; 8883 is usual with TLS", "", 1, 65535)
    tls: bool = False
    ca_file: str = ""  # empty: the system's authorities
    cert_file: str = ""
    key_file: str = ""
    user: str = ""
    password_file: str = ""
    keepalive_s: int = described(3, "after twice of it a silent broker is lost", "s", 1, 60)
    connect_timeout_s: float = described(3.0, "for one attempt to connect", "s", 0.1, 30.0)
    retry_s: float = described(0.5, "after the first failed attempt; doubled after each further one", "s", 0.05, 60.0)
    retry_max_s: float = described(10.0, "longest wait between two attempts", "s", 0.05, 600.0)

    def __post_init__(self) -> None:
        check_ranges(self)
        for name in ("ca_file", "cert_file", "key_file", "user", "password_file"):
            if not isinstance(getattr(self, name), str):
                raise ConfigError(f"broker.{name}={getattr(self, name)!r}: give a text, in quotes if it is a number")
        if not isinstance(self.host, str) or not self.host or len(self.host) > 253:
            raise ConfigError(f"broker.host={self.host!r}: give the name or address of the broker")
        if not isinstance(self.tls, bool):
            raise ConfigError(f"broker.tls={self.tls!r}: give true or false")
        if not self.tls and (self.ca_file or self.cert_file or self.key_file):
            raise ConfigError("broker.tls=false with certificates given: set tls: true")
        if self.password_file and not self.user:
            raise ConfigError("broker.password_file without broker.user: give both")

    def at(self, address: str) -> BrokerConfig:
        """The same broker at HOST[:PORT]; raises ConfigError."""
        host, _, port = address.partition(":")
        if port and not port.isdecimal():
            raise ConfigError(f"broker {address!r}: give HOST or HOST:PORT")
        return replace(self, host=host, **({"port": int(port)} if port else {}))


@dataclass(frozen=True)
class MasterConfig:
    """How one vehicle is guided. Limits of standing and moving are the guard's."""

    identity: Identity
    # The standard lets a vehicle that has lost its connection drive on to its last released node. Release only as much
    # as may be driven blind: with 1 it stops at every node until the next is released.
    release_nodes: int = described(1, "nodes released beyond the last one passed", "", 1, 32)
    feedback_timeout_s: float = described(1.0, "silence of an armed vehicle", "s", 0.1, 10.0)
    request_s: float = described(0.4, "silence of an armed vehicle after which a state is requested", "s", 0.05, 5.0)
    idle_timeout_s: float = described(35.0, "silence of a vehicle that is not armed (standard: 30 s)", "s", 1.0, 600.0)
    max_delay_s: float = described(1.0, "longer on its way than the quickest message: stale", "s", 0.1, 10.0)
    acknowledge_s: float = described(1.0, "until an order or action shows, else it is repeated", "s", 0.1, 10.0)
    action_s: float = described(5.0, "until an instant action has ended", "s", 0.5, 60.0)
    stop_repeat_s: float = described(0.3, "a stop that shows no effect is sent again after", "s", 0.05, 2.0)
    arming_s: float = described(5.0, "until an arming is through", "s", 0.5, 30.0)
    foreign_s: float = described(10.0, "after the last sign of another master", "s", 1.0, 600.0)
    start_deviation_m: float = described(1.0, "how far from the first node the vehicle may stand", "m", 0.01, 10.0)
    node_deviation_m: float = described(0.0, "deviation allowed at the other nodes; 0: the vehicle's own", "m", 0.0, 5.0)

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.request_s >= self.feedback_timeout_s:
            raise ConfigError(
                f"request_s={self.request_s}: give less than feedback_timeout_s={self.feedback_timeout_s}"
            )
