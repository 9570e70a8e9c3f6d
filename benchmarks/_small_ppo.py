"""PPO (Schulman et al. 2017) in numpy, small enough to start in a moment: `benchmarks/resume.py` kills and resumes it.

A Gaussian policy and a value function, one hidden layer of tanh each, clipped objective, Adam, generalised advantage
estimation (Schulman et al. 2016). All state is in `parts`, so a resumed learner goes on bit by bit.
"""
from __future__ import annotations

import io
from collections.abc import Mapping

import numpy as np

HIDDEN, EPOCHS, MINIBATCH = 32, 4, 64
GAMMA, LAMBDA, CLIP, RATE, START_LOG_STD = 0.98, 0.95, 0.2, 3e-4, -0.5
_BETA_1, _BETA_2, _TINY = 0.9, 0.999, 1e-8


class SmallPpo:
    """`weights` by name, their Adam moments, and how many updates were made."""

    def __init__(self, observation_dim: int, action_dim: int, seed: int):
        rng = np.random.default_rng(seed)
        self.weights = {"log_std": np.full(action_dim, START_LOG_STD)}
        for net, out, scale in (("pi", action_dim, 0.01), ("v", 1, 1.0)):
            self.weights |= {
                f"{net}_w1": rng.standard_normal((observation_dim, HIDDEN)) / np.sqrt(observation_dim),
                f"{net}_b1": np.zeros(HIDDEN),
                f"{net}_w2": scale * rng.standard_normal((HIDDEN, out)) / np.sqrt(HIDDEN), f"{net}_b2": np.zeros(out),
            }  # fmt: skip
        self.moments = {k: np.zeros((2, *w.shape)) for k, w in self.weights.items()}
        self.steps = 0

    def act(self, observation: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, float, float]:
        """A sampled action (m,), its log-probability, and the value of the observation (n,)."""
        mean = self._net("pi", observation[None])[1][0]
        action = (mean + np.exp(self.weights["log_std"]) * rng.standard_normal(len(mean))).astype(np.float32)
        return action, float(self._log_prob(action[None], mean[None])[0]), float(self.value(observation[None])[0])

    def value(self, observation: np.ndarray) -> np.ndarray:
        """(N,) of observations (N, n)."""
        return self._net("v", observation)[1][:, 0]

    def update(self, batch: Mapping[str, np.ndarray]) -> None:
        """Learn from one rollout in the order in which it was collected (`transition_schema`)."""
        advantage, wanted = self._advantages(batch)
        advantage = (advantage - advantage.mean()) / (advantage.std() + _TINY)
        rng, n = np.random.default_rng(self.steps), len(advantage)
        for _ in range(EPOCHS):
            order = rng.permutation(n)
            for start in range(0, n, MINIBATCH):
                k = order[start : start + MINIBATCH]
                self._step(batch["observation"][k], batch["action"][k], batch["log_prob"][k], advantage[k], wanted[k])

    def parts(self) -> dict[str, bytes]:
        """Everything that the next update depends on."""
        file = io.BytesIO()
        np.savez(
            file, steps=self.steps, **{f"w_{k}": w for k, w in self.weights.items()},
            **{f"m_{k}": m for k, m in self.moments.items()},
        )  # fmt: skip
        return {"learner": file.getvalue()}

    def load(self, parts: Mapping[str, bytes]) -> None:
        """The reverse of `parts`."""
        with np.load(io.BytesIO(parts["learner"])) as file:
            self.steps = int(file["steps"])
            self.weights = {k: file[f"w_{k}"] for k in self.weights}
            self.moments = {k: file[f"m_{k}"] for k in self.moments}

    def _net(self, net: str, observation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        w = self.weights
        hidden = np.tanh(observation @ w[f"{net}_w1"] + w[f"{net}_b1"])
        return hidden, hidden @ w[f"{net}_w2"] + w[f"{net}_b2"]

    def _log_prob(self, action: np.ndarray, mean: np.ndarray) -> np.ndarray:
        log_std = self.weights["log_std"]
        z = (action - mean) / np.exp(log_std)
        return -0.5 * (z**2).sum(axis=1) - log_std.sum() - 0.5 * action.shape[1] * np.log(2 * np.pi)

    def _advantages(self, batch: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Advantage and return (N,). Where the next sample begins an episode, the chain ends: also at the seam that a
        kill left, whose last state is then worth what the value function says of `next_observation`."""
        value, after = self.value(batch["observation"]), self.value(batch["next_observation"])
        delta = batch["reward"] + GAMMA * after * ~batch["terminated"] - value
        ends = np.append(batch["episode_start"][1:], True) | batch["terminated"] | batch["truncated"]
        advantage, running = np.zeros(len(delta)), 0.0
        for k in reversed(range(len(delta))):
            running = delta[k] + (0.0 if ends[k] else GAMMA * LAMBDA * running)
            advantage[k] = running
        return advantage, advantage + value

    def _step(self, observation, action, old_log_prob, advantage, wanted) -> None:
        n, log_std = len(observation), self.weights["log_std"]
        hidden, mean = self._net("pi", observation)
        z = (action - mean) / np.exp(log_std)
        ratio = np.exp(np.clip(self._log_prob(action, mean) - old_log_prob, -20, 20))
        used = np.where(advantage > 0, ratio < 1 + CLIP, ratio > 1 - CLIP)  # else the clipped branch: no gradient
        pull = -(advantage * ratio * used)[:, None] / n
        gradients = {"log_std": (pull * (z**2 - 1)).sum(axis=0)}
        self._back("pi", observation, hidden, pull * z / np.exp(log_std), gradients)
        hidden, value = self._net("v", observation)
        self._back("v", observation, hidden, (value - wanted[:, None]) / n, gradients)
        self.steps += 1
        for name, gradient in gradients.items():
            m = self.moments[name]
            m[0] = _BETA_1 * m[0] + (1 - _BETA_1) * gradient
            m[1] = _BETA_2 * m[1] + (1 - _BETA_2) * gradient**2
            first, second = m[0] / (1 - _BETA_1**self.steps), m[1] / (1 - _BETA_2**self.steps)
            self.weights[name] = self.weights[name] - RATE * first / (np.sqrt(second) + _TINY)

    def _back(self, net: str, observation, hidden, d_out, gradients: dict[str, np.ndarray]) -> None:
        d_hidden = d_out @ self.weights[f"{net}_w2"].T * (1 - hidden**2)
        gradients |= {
            f"{net}_w2": hidden.T @ d_out, f"{net}_b2": d_out.sum(axis=0),
            f"{net}_w1": observation.T @ d_hidden, f"{net}_b1": d_hidden.sum(axis=0),
        }  # fmt: skip
