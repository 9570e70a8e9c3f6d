"""Training of the shipped `pick_place` policy: demonstrator, cloning with DAgger, evaluation of the exported file.

Law of this folder: it knows `Steadyhand/UR5PickPlace-v0` and chunks; what any training needs (export, curves) is one
level up. `python -m policies.training.pick_place.train` (docs/policies.md); everything follows from `config.yaml`.
"""
