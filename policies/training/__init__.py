"""Training of the manipulation policy: demonstrations, behaviour cloning, DAgger, evaluation, export.

Law of this folder: may import anything (torch, the simulator); only benchmarks and tests import it. Run from the
project's root with the training environment: `python -m policies.training.train` (docs/policies.md). Everything follows
from one YAML file and its seed; held-out seeds are read by the final evaluation only.
"""
