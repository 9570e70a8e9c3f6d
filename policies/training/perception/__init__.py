"""Training of the perception model: rendered images with labels, network, training, export, evaluation.

Law of this folder: may import anything (torch, the simulator); only benchmarks and tests import it. Run from the
project's root with the training environment: `python -m policies.training.perception.train` (docs/perception.md).
Everything follows from `config.toml`, `splits.toml` and their seeds; test images are read by the benchmarks and
`samples` only. Every step can be interrupted at any moment: the same command continues.
"""
