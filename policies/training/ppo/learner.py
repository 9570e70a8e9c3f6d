"""PPO's update as in stable-baselines3, fed with fragments instead of an environment.

Its policy, its rollout buffer (advantages) and its `train` are used as they are; collecting is not: an environment that
is stepped from within could not be put back after a kill.
"""
from __future__ import annotations

import copy
import math
from dataclasses import dataclass, replace

import gymnasium
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.utils import set_random_seed

from policies.training.config import PpoConfig
from policies.training.ppo.exploration import entropy_nats
from policies.training.rollout.actor import Actor
from policies.training.rollout.fragment import Fragment
from steadyhand.errors import ConfigError


class Normalise(BaseFeaturesExtractor):
    """Observations as the actor sees them: normalised with the demonstrations' statistics, and clipped."""

    def __init__(self, space: gymnasium.spaces.Box, mean: np.ndarray, std: np.ndarray, clip: float) -> None:
        super().__init__(space, len(mean))
        self.register_buffer("mean", torch.as_tensor(mean))
        self.register_buffer("std", torch.as_tensor(std))
        self.clip = clip

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        return ((observation - self.mean) / self.std).clamp(-self.clip, self.clip)


@dataclass(frozen=True)
class Updated:
    """What an update did. `kl`: mean exact divergence of the new policy from the old one on the samples; `passes`:
    over the sample, before the early stop; `spread`: mean std of the mean action over the samples' states."""

    kl: float
    approx_kl: float
    clip_fraction: float
    passes: int
    policy_loss: float
    value_loss: float
    explained_variance: float
    entropy: float
    std: float
    spread: float
    finite: bool


class Learner:
    """Actor, critic and optimiser. `like` gives the actor's statistics, bounds and first weights."""

    def __init__(self, config: PpoConfig, like: Actor, seed: int) -> None:
        self._config, self._like, self._seed = config, like, seed
        self.rate, self.entropy_coefficient = config.learning_rate, config.entropy_coefficient
        hidden = [w.shape[0] for w in like.weights[:-1]]
        model = PPO(
            "MlpPolicy", None, learning_rate=config.learning_rate, n_steps=config.fragment_steps,
            batch_size=config.batch, n_epochs=config.passes, gamma=config.gamma, gae_lambda=config.gae_lambda,
            clip_range=config.clip, ent_coef=config.entropy_coefficient, vf_coef=config.value_coefficient,
            max_grad_norm=config.gradient_norm, target_kl=config.target_kl, seed=seed, device="cpu", verbose=0,
            policy_kwargs={
                "net_arch": {"pi": hidden, "vf": hidden}, "activation_fn": torch.nn.Tanh,
                "features_extractor_class": Normalise,
                "features_extractor_kwargs": {"mean": like.mean, "std": like.std, "clip": like.clip},
            },
            _init_setup_model=False,
        )
        box = gymnasium.spaces.Box
        model.observation_space = box(-np.inf, np.inf, (len(like.mean),), np.float32)
        model.action_space = box(like.low, like.high, dtype=np.float32)
        model.n_envs = config.environments
        model._setup_model()
        model.set_logger(Logger(None, []))
        self._model, self._policy = model, model.policy
        self._policy.set_training_mode(False)
        with torch.no_grad():
            for mine, theirs in zip(self._actor_tensors(), (*_interleaved(like), np.log(like.action_std))):
                mine.copy_(torch.as_tensor(theirs))

    def actor(self) -> Actor:
        """The actor as it is now."""
        *layers, log_std = (t.detach().numpy().copy() for t in self._actor_tensors())
        like = self._like
        return replace(like, weights=tuple(layers[0::2]), biases=tuple(layers[1::2]), action_std=np.exp(log_std))

    def limit_std(self, ceiling: float) -> None:
        """No action element is tried more widely than `ceiling`."""
        with torch.no_grad():
            self._policy.log_std.clamp_(max=math.log(ceiling))

    def update(self, fragments: list[Fragment], iteration: int, frozen: bool) -> Updated:
        """One PPO update. Of each environment one fragment of equal length, in order; `frozen`: the critic alone."""
        set_random_seed(int(np.random.SeedSequence([self._seed, iteration, 2]).generate_state(1)[0]))
        observation = torch.as_tensor(np.stack([f.observation for f in fragments], axis=1))  # (n, E, D)
        before = self._distribution(observation)
        self._fill(fragments, observation)
        model, n_updates = self._model, self._model._n_updates
        model.ent_coef = self.entropy_coefficient
        model.lr_schedule = lambda _: self.rate
        for tensor in self._actor_tensors():
            tensor.requires_grad_(not frozen)
        model.train()
        self._policy.set_training_mode(False)
        said, model.logger.name_to_value = dict(model.logger.name_to_value), type(model.logger.name_to_value)(float)
        after = self._distribution(observation)
        numbers = [said[f"train/{k}"] for k in ("policy_gradient_loss", "value_loss", "approx_kl")]
        finite = all(np.isfinite(numbers)) and all(bool(torch.isfinite(p).all()) for p in self._policy.parameters())
        log_std = self._policy.log_std.detach()
        return Updated(
            kl=_divergence(before, after), approx_kl=float(said["train/approx_kl"]),
            clip_fraction=float(said["train/clip_fraction"]), passes=model._n_updates - n_updates,
            policy_loss=float(numbers[0]), value_loss=float(numbers[1]),
            explained_variance=float(said["train/explained_variance"]),
            entropy=entropy_nats(float(log_std.mean())), std=float(log_std.exp().mean()),
            spread=float(after[0].clamp(*self._bounds()).std(dim=0).mean()), finite=bool(finite),
        )

    def state(self) -> dict:
        """Everything that the next update depends on."""
        return copy.deepcopy({
            "policy": self._policy.state_dict(), "optimiser": self._policy.optimizer.state_dict(),
            "rate": self.rate, "entropy_coefficient": self.entropy_coefficient, "n_updates": self._model._n_updates,
        })

    def load(self, state: dict) -> None:
        """Be as `state` says."""
        self._policy.load_state_dict(state["policy"])
        self._policy.optimizer.load_state_dict(copy.deepcopy(state["optimiser"]))  # it would share the tensors
        self.rate, self.entropy_coefficient = state["rate"], state["entropy_coefficient"]
        self._model._n_updates = state["n_updates"]

    def _actor_tensors(self) -> list[torch.nn.Parameter]:
        """Weights and biases in turn, the log std last."""
        linear = [m for m in self._policy.mlp_extractor.policy_net if isinstance(m, torch.nn.Linear)]
        return [t for m in (*linear, self._policy.action_net) for t in (m.weight, m.bias)] + [self._policy.log_std]

    def _bounds(self) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.as_tensor(self._like.low), torch.as_tensor(self._like.high)

    def _distribution(self, observation: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Means (N, A) and log std (A,) for observations (n, E, D)."""
        with torch.no_grad():
            gaussian = self._policy.get_distribution(observation.flatten(0, 1)).distribution
            return gaussian.mean.clone(), self._policy.log_std.detach().clone()

    def _fill(self, fragments: list[Fragment], observation: torch.Tensor) -> None:
        c, n = self._config, len(fragments[0].reward)
        if [f.environment for f in fragments] != list(range(c.environments)) or n != c.fragment_steps:
            found = [(f.environment, len(f.reward)) for f in fragments]
            raise ConfigError(f"update: fragments {found}, expected one of {c.fragment_steps} steps of each of "
                              f"{c.environments} environments in order")
        stack = lambda name: np.stack([getattr(f, name) for f in fragments], axis=1)
        action, reward, starts = stack("action"), stack("reward"), stack("starts")
        with torch.no_grad():
            values, log_prob, _ = self._policy.evaluate_actions(
                observation.flatten(0, 1), torch.as_tensor(action).flatten(0, 1)
            )
            values, log_prob = values.reshape(n, -1), log_prob.reshape(n, -1)
            for e, f in enumerate(fragments):
                if f.truncated.any():  # an episode that was cut would have gone on: its value stands for the rest
                    cut = torch.as_tensor(f.next_observation[f.truncated])
                    rest = self._policy.predict_values(cut).numpy().ravel()
                    reward[f.truncated, e] += c.gamma * rest
            after = self._policy.predict_values(torch.as_tensor(np.stack([f.next_observation[-1] for f in fragments])))
        buffer = self._model.rollout_buffer
        buffer.reset()
        for k in range(n):
            begun = starts[k].astype(np.float32)
            buffer.add(observation[k].numpy(), action[k], reward[k], begun, values[k], log_prob[k])
        over = np.array([f.over() for f in fragments])
        buffer.compute_returns_and_advantage(last_values=after, dones=over)


def _interleaved(actor: Actor) -> list[np.ndarray]:
    return [t for pair in zip(actor.weights, actor.biases) for t in pair]


def _divergence(before: tuple[torch.Tensor, torch.Tensor], after: tuple[torch.Tensor, torch.Tensor]) -> float:
    """Mean over states of KL(old || new) of diagonal Gaussians, nats, summed over action elements."""
    (m0, s0), (m1, s1) = before, after
    kl = s1 - s0 + (torch.exp(2 * s0) + (m0 - m1) ** 2) / (2 * torch.exp(2 * s1)) - 0.5
    return float(kl.sum(dim=1).mean())
