"""A training on `reach` in a process of its own, to be killed."""
from pathlib import Path

import torch


def train(text: str, folder: Path) -> None:
    """What the command does, without its start-up."""
    from policies.training.config import RunConfig
    from policies.training.run import run
    from policies.training.schema import parse

    torch.set_num_threads(1)
    run(parse(RunConfig, text), folder)
