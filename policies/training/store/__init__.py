"""What training learns from, on disk: demonstrations, the samples of a running training, its checkpoints.

Law of this folder: what was acknowledged is there after any kill, and what is damaged is said, never left out. Nothing
here imports torch or gymnasium; numpy and the core suffice (`lerobot*.py` needs pyarrow as well). Data is checked as it
comes in: an episode or a batch with NaN, another shape, rate or joint order is refused by the field's name, never
repaired.

    frames -> log -> demonstrations, samples       one framing, one append-only log, two stores
    episode -> demonstrations, lerobot             one form of an episode
    rollouts, interventions, traces -> episode     where episodes come from
    checkpoints                                    how a killed training goes on
"""
