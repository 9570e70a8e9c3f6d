"""The order of things in fine-tuning: collect, keep, learn, look for alarms, judge, save; and go on after a kill."""
from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import numpy as np

from policies.training.config import RunConfig, identity
from policies.training.curves import Curve, Progress, plot
from policies.training.plants import draw_plant
from policies.training.ppo.alarms import Alarm, Vitals, Watch, alarms
from policies.training.ppo.exploration import entropy_nats, std_ceiling
from policies.training.ppo.learner import Learner, Updated
from policies.training.ppo.state import State
from policies.training.ppo.validation import judge
from policies.training.rollout.actor import Actor
from policies.training.rollout.fragment import SUCCESS_UNKNOWN, Fragment
from policies.training.rollout.hosts import Trial
from policies.training.rollout.pools import Pool
from steadyhand.errors import SteadyhandError

LOG = logging.getLogger("ppo")
_COLUMNS = (
    "update", "steps", "reward", "length", "success", "validation", "kl", "approx_kl", "clip_fraction", "passes",
    "entropy", "std", "spread", "policy_loss", "value_loss", "explained_variance", "rate", "alarms", "rolled_back",
    "steps_per_s",
)
_PANELS = {
    "success": ("success", "validation"), "reward a step": ("reward",), "KL": ("kl",), "std": ("std",),
    "value": ("explained_variance",),
}


class Samples(Protocol):
    """The sample store: what `append` has returned from is there after any kill."""

    def append(self, columns: dict[str, np.ndarray]) -> object: ...

    def read(self) -> Iterable[dict[str, np.ndarray]]: ...


class FineTuning:
    """One run. `folder` holds `state.pt`, `best.npz`, `ppo.csv`, `ppo.png`."""

    def __init__(self, config: RunConfig, cloned: Actor, pool: Pool, samples: Samples, folder: Path) -> None:
        self.config, self._pool, self._samples, self._folder = config, pool, samples, folder
        start = replace(cloned, action_std=np.full_like(cloned.action_std, config.exploration.std_start))
        self.learner = Learner(config.ppo, start, config.seed)
        self.state = State(identity(config))
        self.curve = Curve(folder / "ppo.csv", _COLUMNS)
        self._per_update = config.ppo.environments * config.ppo.fragment_steps
        self._updates = -(-config.ppo.steps // self._per_update)
        self._kept: dict[int, Fragment] = {}  # of the update under way, read back from the store

    def run(self, stop: Callable[[], bool] = lambda: False) -> Actor:
        """Go on until the steps are done, the roll-backs are used up, or `stop` says so. The best actor so far."""
        self._resume()
        if self.state.updates == 0 and not self.state.best:
            self._judge()
        bar = Progress(self.config.name, self._updates, self.state.updates)
        while not self.state.outcome and not stop():
            note = self._update()
            bar.add(1, note)
        return Actor.load(self._folder / "best.npz")

    def _resume(self) -> None:
        path = self._folder / "state.pt"
        if path.exists():
            self.state = State.load(path, self.state.run)
            self.learner.load(self.state.learner)
        if self.state.outcome:
            return
        done = self.state.updates
        self.curve.resume(lambda row: int(row["update"]) < done)
        last: dict[int, Fragment] = {}
        for columns in self._samples.read():
            fragment = Fragment.of(columns)
            if fragment.iteration > done:
                raise SteadyhandError(f"samples of update {fragment.iteration}, but the state is that of {done}")
            self._pool.note(fragment)
            last[fragment.environment] = fragment
        lacking = [e for e in range(self.config.ppo.environments) if e not in last or last[e].iteration < done - 1]
        if done and lacking:
            raise SteadyhandError(f"samples of environments {lacking} are missing before update {done}")
        self._kept = {e: f for e, f in last.items() if f.iteration == done}
        for number, observed in self._pool.restore().items():
            f = last[number]
            if not f.over() and not np.array_equal(observed, f.next_observation[-1]):
                raise SteadyhandError(f"environment {number}: its replay does not end where the samples do; it is not "
                                      "bit-exact, or its code has changed since they were taken")
        if done or self._kept:
            LOG.info("resumed after %d updates, %d fragments of the next one kept", done, len(self._kept))

    def _update(self) -> str:
        c, s, start_s = self.config, self.state, time.monotonic()
        done = s.updates * self._per_update
        ceiling = std_ceiling(c.exploration, done / c.ppo.steps)
        self.learner.limit_std(ceiling)
        fragments = self._collect()
        frozen = done < c.ppo.warm_up_steps
        updated = self.learner.update(fragments, s.updates, frozen)
        s.spread = s.spread or max(updated.spread, 1e-6)
        found = alarms(Vitals(updated.entropy, entropy_nats(np.log(ceiling)), updated.kl, updated.spread / s.spread,
                              updated.finite), c.alarms)
        watch = Watch(tuple(map(tuple, s.standing))).after(found)
        s.standing = [list(x) for x in watch.standing]
        number, s.updates = s.updates, s.updates + 1
        last = s.updates >= self._updates
        cause, validation = watch.due(c.alarms.patience), ""
        if not cause and not frozen and (s.updates % c.validation.every_updates == 0 or last):
            validation, worse = self._judge()
            cause = "validation" if worse else ""
        if cause:
            self._roll_back(cause)
        if last and not s.outcome:
            s.outcome = "done"
        self._tell(number, fragments, updated, found, validation, cause, time.monotonic() - start_s)
        s.learner = self.learner.state()
        s.save(self._folder / "state.pt")
        if validation != "" or s.outcome:
            self.plot()
        return f"success {self.curve.rows[-1]['success']}, best {np.mean(s.best_success):.3f}"

    def _collect(self) -> list[Fragment]:
        """One fragment of each environment, all on disk; those that were there already are not run again."""
        c, kept, self._kept = self.config.ppo, self._kept, {}
        missing = tuple(e for e in range(c.environments) if e not in kept)
        fresh = []
        if missing:
            fresh = self._pool.collect(self.learner.actor(), self.state.updates, c.fragment_steps, missing)
        for fragment in fresh:
            self._samples.append(fragment.columns())
        return sorted([*kept.values(), *fresh], key=lambda f: f.environment)

    def _judge(self) -> tuple[float, bool]:
        """Success on the clean set, and whether it is worse than the best's; a better one is the best from now on."""
        c, actor = self.config.validation, self.learner.actor()
        now = [o.success for o in self._pool.evaluate(actor, self._clean())]
        best = np.array(self.state.best_success) if self.state.best else None
        verdict = judge(best, np.array(now), c.p_value)
        if verdict.better:
            about = {"update": self.state.updates, "validation": [int(np.sum(now)), len(now)]}
            actor.described(**about).save(self._folder / "best.npz")
            self.state.best, self.state.best_success = self.learner.state(), now
            self.state.best_update = self.state.updates
        return verdict.success, verdict.worse

    def _clean(self) -> list[Trial]:
        """The same trials every time. With randomised plants in training: fixed plants of that distribution."""
        c, random = self.config.validation, self.config.randomisation
        seeds = range(c.first_seed, c.first_seed + c.episodes)
        plant = lambda seed: None if random is None else draw_plant(random, np.random.default_rng([seed, 19]))
        return [Trial(seed, plant(seed)) for seed in seeds]

    def _roll_back(self, cause: str) -> None:
        s, c = self.state, self.config
        s.rollbacks, s.standing = s.rollbacks + 1, []
        rate, entropy_coefficient = self.learner.rate, self.learner.entropy_coefficient
        LOG.warning("%s: back to update %d; roll-back %d", cause, s.best_update, s.rollbacks)
        self.learner.load(s.best)
        self.learner.rate = rate * c.validation.rate_factor
        boost = c.alarms.entropy_boost if cause == "entropy" else 0.0
        self.learner.entropy_coefficient = entropy_coefficient + boost
        if s.rollbacks > c.validation.rollbacks_max:
            s.outcome = f"given up after {s.rollbacks} roll-backs, the last for {cause}"

    def _tell(self, number: int, fragments: list[Fragment], u: Updated, found: list[Alarm], validation, cause: str,
              wall_s: float) -> None:
        ended = np.concatenate([f.success for f in fragments])
        ended = ended[ended != SUCCESS_UNKNOWN]
        starts = sum(int(f.starts.sum()) for f in fragments)
        self.curve.add(
            update=number, steps=(number + 1) * self._per_update,
            reward=float(np.mean([f.reward.mean() for f in fragments])),
            length=self._per_update / starts if starts else "",
            success=round(float(ended.mean()), 4) if len(ended) else "", validation=validation, kl=u.kl,
            approx_kl=u.approx_kl, clip_fraction=u.clip_fraction, passes=u.passes, entropy=u.entropy, std=u.std,
            spread=u.spread, policy_loss=u.policy_loss, value_loss=u.value_loss,
            explained_variance=u.explained_variance, rate=self.learner.rate, alarms="; ".join(map(str, found)),
            rolled_back=cause, steps_per_s=round(self._per_update / max(wall_s, 1e-9), 1),
        )
        for alarm in found:
            LOG.warning("update %d: alarm %s", number, alarm)

    def plot(self) -> None:
        """The learning curve as a picture."""
        marks = {float(r["steps"]): f"back: {r['rolled_back']}" for r in self.curve.rows if r.get("rolled_back")}
        plot(self.curve, self._folder / "ppo.png", "steps", _PANELS, self.config.name, marks)
