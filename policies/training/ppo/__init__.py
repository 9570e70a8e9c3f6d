"""Fine-tuning of a cloned actor by PPO. One update: collect fragments, keep them, learn from them, look for alarms, now
and then look at the clean set.

Law of this folder: what decides is pure and small (`alarms`, `exploration`, `validation`), what learns is
stable-baselines3's policy, buffer and update (`learner`), what survives a kill is on disk before anything depends on it
(`state`, the sample store), and `loop` only puts them in order. An update is a function of the run's seed, its number,
the weights before it and its samples: a run that was killed and resumed gives the weights of one that was not.
"""
