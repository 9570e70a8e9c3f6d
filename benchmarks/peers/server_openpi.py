"""openpi's `WebsocketPolicyServer` around the shipped policy.

openpi as a whole is on no package index; its server class is, alone, as `openpi-server` (docs/peers.md). Faults act on
what the policy returns, which that class packs and sends with its own timing added.
"""
from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from openpi_client.base_policy import BasePolicy
from openpi_server import WebsocketPolicyServer

from benchmarks.peers.faults import Injector
from benchmarks.peers.model import OnnxPolicy
from benchmarks.peers.side import end_with_parent


def _with_nan(reply: dict) -> dict:
    return {**reply, "actions": np.full_like(reply["actions"], np.nan)}


class ShippedPolicy(BasePolicy):
    """Sends the observation's stamp back with the chunk."""

    def __init__(self, fault_file: Path | None) -> None:
        self._policy, self._inject = OnnxPolicy(), Injector(fault_file, _with_nan)

    def infer(self, obs: dict) -> dict:
        return dict(self._inject({"actions": self._policy(obs["observation"]), "stamp_s": obs["stamp_s"]}))

    def reset(self) -> None: ...


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--fault-file", type=Path, help="injects what it names; none: nothing is looked at")
    options = parser.parse_args()
    end_with_parent()
    WebsocketPolicyServer(ShippedPolicy(options.fault_file), options.host, options.port).serve_forever()
