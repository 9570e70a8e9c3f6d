"""openpi's client, as its `docs/remote_inference.md` shows it: `WebsocketClientPolicy.infer` once a step.

The observation carries its stamp and the reply brings it back, so that an executed action tells what it answers. The
program around it is a forgiving one: what `infer` raises is caught and the same client is asked again.
"""
from __future__ import annotations

from collections.abc import Callable

import numpy as np
from openpi_client.websocket_client_policy import WebsocketClientPolicy

from benchmarks.peers import loop, scene, side


def prepare(command: side.Command) -> Callable[[loop.Log], None]:
    host, _, port = command.url.rpartition(":")
    client = WebsocketClientPolicy(host=host, port=int(port))
    observations = scene.observations(int(command.seconds / command.period_s) + 1, command.seed)

    def ask(k: int, observation: np.ndarray, stamp_s: float):
        reply = client.infer({"observation": observation, "stamp_s": stamp_s})
        return reply["actions"][0], reply["stamp_s"]

    def run(log: loop.Log) -> None:
        try:
            loop.drive(ask, observations, log, command.seconds, command.period_s, command.interrupt_s)
        finally:
            client._ws.close()  # the library has no way to close a client; without this each would leave its thread

    return run


if __name__ == "__main__":
    side.serve(prepare, ("openpi-client", "openpi-server", "websockets", "msgpack", "numpy", "onnxruntime"))
