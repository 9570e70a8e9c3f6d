"""Which client, with which server, each arm is."""
from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from benchmarks.peers import arms
from benchmarks.peers.accounting import PERIOD_S
from benchmarks.peers.side import Command

# arm -> what the client is told to be. `lerobot`: an observation every period, and no floor under the server's latency
# (its default: no reply sooner than 33 ms after the call for it); `lerobot_default`: both as LeRobot has them.
LATENCY = {
    "ours_local": "local", "ours_triton": "triton", "openpi": "openpi", "lerobot": "lerobot",
    "lerobot_default": "lerobot_default",
}  # fmt: skip
# arm -> its name in the result
FAULTS = {"shipped": "ours", "no_fallback": "ours_no_fallback", "openpi": "openpi", "lerobot_default": "lerobot"}
INTERRUPTIBLE = {"shipped", "no_fallback", "openpi"}  # LeRobot's program ends at a KeyboardInterrupt
_OURS = {"ours_local", "ours_triton", "shipped", "no_fallback"}
_BY_SIGNAL = {"stall", "dies"}


class Arms(contextlib.AbstractContextManager):
    """Every client and server. With a fault file the servers look at it; without one they are the bare peers."""

    def __init__(self, stack: contextlib.ExitStack, fault_file: Path | None) -> None:
        self._stack = stack
        given = () if fault_file is None else ("--fault-file", str(fault_file))
        openpi, lerobot = arms.interpreter("openpi"), arms.interpreter("lerobot")
        fps = ("--fps", str(round(1 / PERIOD_S)))
        triton = self._open(arms.Triton)
        self._servers = {
            "triton": triton,
            "openpi": self._open(arms.Server, "server_openpi", openpi, arms.port(5), *given),
            "lerobot_default": self._open(arms.Server, "server_lerobot", lerobot, arms.port(6), *fps, *given),
        }
        if fault_file is None:
            bare = (*fps, "--inference-latency", "0")
            self._servers["lerobot"] = self._open(arms.Server, "server_lerobot", lerobot, arms.port(7), *bare)
        else:
            upstream = ("--upstream", triton.url)
            self._servers["proxy"] = self._open(
                arms.Server, "proxy_triton", sys.executable, arms.port(8), *upstream, *given
            )
        self._clients = {
            "ours": self._open(arms.Client, "client_ours", sys.executable),
            "openpi": self._open(arms.Client, "client_openpi", openpi),
            "lerobot": self._open(arms.Client, "client_lerobot", lerobot),
        }

    def run(self, arm: str, command: Command, kind: str = "none", act: Callable = lambda _: None) -> tuple:
        """One run of an arm, and what `act` returned (`arms.Client.run`). A reply can be altered in the proxy only."""
        told = replace(command, arm=LATENCY.get(arm, arm), url=self._url(arm, kind))
        return self._clients[_peer(arm)].run(told, act)

    def server(self, arm: str):
        """The server that a signal is for."""
        return self._servers["triton" if arm in _OURS else arm]

    def versions(self) -> dict[str, str]:
        """`peer package` -> version."""
        return {f"{peer} {k}": v for peer, client in self._clients.items() for k, v in client.versions.items()}

    def __exit__(self, *_) -> None:
        self._stack.close()

    def _url(self, arm: str, kind: str) -> str:
        if arm in _OURS and "proxy" in self._servers and kind not in _BY_SIGNAL:
            return self._servers["proxy"].url
        return self.server(arm).url

    def _open(self, made: type, *arguments: str):
        opened = made(*arguments)
        self._stack.callback(opened.close)
        return opened


def _peer(arm: str) -> str:
    return "ours" if arm in _OURS else arm.removesuffix("_default")
