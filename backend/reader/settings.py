"""The settings of training a reader, and which of them cannot learn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from backend.reader.examples import DEPTH
from backend.reader.inputs import TOKENS
from backend.training.training_settings import check_values
from db.errors import Refused

PASSAGES = {"cuda": 24, "cpu": 8}


@dataclass(frozen=True, slots=True)
class ReaderSettings:
    """Every setting of a training. The defaults are DPR's where it names one (Karpukhin et al. 2020, section 6.1; its code)."""

    layers: int | None = None  # only the first so many of the start model; None: all
    tokens: int = TOKENS  # of question, title and passage together
    depth: int = DEPTH  # ranks of the run that positives and negatives are drawn from
    passages: int | None = (
        None  # of a question in a step: one positive, the rest negatives; None: 24 on a GPU, 8 on a CPU
    )

    batch: int = 4  # questions, in each process: 16 for large sets, 4 for small ones
    epochs: float = 20.0
    steps: int | None = None  # in the place of epochs
    learning_rate: float = 1e-5
    warmup: float = 0.1  # share of the steps
    decay: bool = True
    weight_decay: float = 0.0
    clip: float = 2.0  # of the gradient's norm

    held_out: int = 200  # questions held out to compare checkpoints by, at most a fifth
    read: int = 20  # passages of the run that are read of each of them
    evaluate_every: int | None = None  # steps; None: ten times in all, or as often as half the time of training allows
    patience: int = 0  # comparisons without a better one, or one as good, before training stops; 0: never

    seed: int = 0
    precision: Literal["auto", "float32", "bfloat16"] = "auto"  # auto: bfloat16 on a GPU that has it


def check(settings: ReaderSettings) -> None:
    """Raises Refused for settings that cannot learn."""
    check_values(settings)
    for name, least in (("passages", 2), ("depth", 1), ("read", 1), ("tokens", 16)):
        value = getattr(settings, name)
        if value is not None and value < least:
            raise Refused(f"{name} cannot be {value}; {least} is the least")
