"""LeRobot's `RobotClient`, run as its own `async_client` runs it: one thread receives, the main thread controls.

Arm `lerobot_default` has LeRobot's defaults but for the rate; `lerobot` sends an observation in every period
(`chunk_size_threshold` 1.0, as its documentation describes), so that its latency is measured as often as the others'.
The subclass only looks at its watch.
"""
from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import torch
from lerobot.async_inference.configs import RobotClientConfig
from lerobot.async_inference.robot_client import RobotClient

from benchmarks.peers import loop, scene, side
from benchmarks.peers.lerobot_plugin import checkpoint
from benchmarks.peers.lerobot_plugin.config_recorder import RecorderConfig
from benchmarks.peers.lerobot_plugin.configuration_steadyhand import HORIZON, TYPE

ARMS = {"lerobot": {"chunk_size_threshold": 1.0}, "lerobot_default": {}}


class WatchedClient(RobotClient):
    """Times its two halves of a control period, and the arrival of each chunk."""

    log: loop.Log

    def control_loop_action(self, verbose: bool = False):
        self.log.enter()
        try:
            return super().control_loop_action(verbose)
        finally:
            self.log.leave()

    def control_loop_observation(self, task: str, verbose: bool = False):
        self.log.enter()
        try:
            return super().control_loop_observation(task, verbose)
        finally:
            self.log.leave()

    def _aggregate_action_queues(self, incoming_actions, aggregate_fn=None):
        super()._aggregate_action_queues(incoming_actions, aggregate_fn)
        stamp_s = self.log.start_s + float(incoming_actions[0].get_action()[-1])
        self.log.latency_s.append(time.monotonic() - stamp_s)


def prepare(command: side.Command) -> Callable[[loop.Log], None]:
    if command.arm not in ARMS:
        raise ValueError(f"arm {command.arm!r}: give one of {sorted(ARMS)}")
    if command.interrupt_s is not None:
        raise ValueError("interrupt: this client ends at a KeyboardInterrupt; it cannot be asked to go on")
    folder = Path.cwd() / "lerobot"
    config = RobotClientConfig(
        robot=RecorderConfig(id="recorder", calibration_dir=folder / "calibration"),
        policy_type=TYPE,
        pretrained_name_or_path=str(checkpoint.write(folder / "checkpoint")),
        actions_per_chunk=HORIZON,
        server_address=command.url,
        policy_device="cpu",
        fps=round(1 / command.period_s),
        **ARMS[command.arm],
    )
    client = WatchedClient(config)
    if not client.start():
        raise RuntimeError(f"LeRobot's server at {command.url} does not take the policy")
    observations = scene.observations(int(command.seconds / command.period_s) + 1, command.seed)

    def run(log: loop.Log) -> None:
        client.log = log
        client.robot.attach(log, observations)
        threading.Thread(target=client.receive_actions, daemon=True).start()
        end = threading.Timer(command.seconds, client.shutdown_event.set)
        end.daemon = True
        end.start()
        try:
            client.control_loop(task="")
        finally:
            client.stop()

    return run


if __name__ == "__main__":
    torch.set_num_threads(1)
    side.serve(prepare, ("lerobot", "torch", "grpcio", "numpy", "onnxruntime"))
