"""LeRobot's own `PolicyServer`, started by its own `serve`, with the shipped policy registered as a plug-in.

With `--fault-file` the server is a subclass whose `GetActions` passes the finished reply through the injector; without
it the class is LeRobot's.
"""
from __future__ import annotations

import argparse
import pickle
from pathlib import Path

import torch
from lerobot.async_inference import constants, policy_server
from lerobot.async_inference.configs import PolicyServerConfig
from lerobot.transport import services_pb2

from benchmarks.peers.faults import Injector
from benchmarks.peers.lerobot_plugin.configuration_steadyhand import TYPE
from benchmarks.peers.side import end_with_parent

constants.SUPPORTED_POLICIES.append(TYPE)  # LeRobot's list of built-in policies; it has no other way to admit one


def _with_nan(reply: services_pb2.Actions) -> services_pb2.Actions:
    actions = pickle.loads(reply.data)
    for timed in actions:
        timed.action = torch.cat([torch.full_like(timed.action[:-1], torch.nan), timed.action[-1:]])
    return services_pb2.Actions(data=pickle.dumps(actions))


def _relabel(content: services_pb2.Actions, label: services_pb2.Actions) -> services_pb2.Actions:
    actions, labels = pickle.loads(content.data), pickle.loads(label.data)
    for timed, wanted in zip(actions, labels):
        timed.timestep, timed.timestamp = wanted.timestep, wanted.timestamp
    return services_pb2.Actions(data=pickle.dumps(actions))


def faulty(fault_file: Path) -> type[policy_server.PolicyServer]:
    """LeRobot's server with an injector behind it."""

    class FaultyServer(policy_server.PolicyServer):
        _inject = Injector(fault_file, _with_nan, _relabel)

        def GetActions(self, request, context):  # noqa: N802 (gRPC's name)
            reply = super().GetActions(request, context)
            if not getattr(reply, "data", b""):
                return reply  # an empty one says "nothing yet"
            return self._inject(reply)

    return FaultyServer


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--fps", type=int, required=True)
    parser.add_argument("--inference-latency", type=float, help="seconds; LeRobot's default when not given")
    parser.add_argument("--fault-file", type=Path)
    options = parser.parse_args()
    end_with_parent()
    torch.set_num_threads(1)
    if options.fault_file is not None:
        policy_server.PolicyServer = faulty(options.fault_file)
    given = {} if options.inference_latency is None else {"inference_latency": options.inference_latency}
    policy_server.serve(PolicyServerConfig(host=options.host, port=options.port, fps=options.fps, **given))
