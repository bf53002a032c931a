"""The hyper-parameters of training a reader, each declared once.

The defaults are DPR's (Karpukhin et al. 2020, section 6.1).
"""

from __future__ import annotations

from blindspot.backend.core.declared import Field, settings_class
from blindspot.backend.training.training_settings import Precision, TrainingSettings

DEPTH = 100
"""Number of top ranks that positives and negatives are sampled from; RocketQA trains its reader on 50."""
TOKENS = 350
PASSAGES = {"cuda": 24, "cpu": 8}


@settings_class
class ReaderSettings(TrainingSettings):
    """Every setting of a reader's training."""

    tokens: int = Field(
        default=TOKENS, title="Tokens", description="Maximum tokens of question + title + passage", ge=16
    )
    depth: int = Field(
        default=DEPTH,
        title="Depth",
        description="Number of top ranks of the run that positives and negatives are sampled from",
        ge=1,
    )
    passages: int | None = Field(
        default=None,
        title="Passages",
        description="Passages per question in a step, including one positive (default: 24 on a GPU, 8 on a CPU)",
        ge=2,
    )
    batch: int = Field(
        default=4,
        title="Batch",
        description="Questions in a batch, in each process (DPR: 16 for large sets, 4 for small ones)",
        ge=1,
    )
    epochs: float = Field(default=20.0, title="Epochs", description="Passes over the questions", gt=0)
    learning_rate: float = Field(
        default=1e-5,
        title="Learning rate",
        description="Peak learning rate, after a linear warm-up and before a linear decay",
        gt=0,
    )
    read: int = Field(default=20, title="Read", description="Number of passages read for a held-out question", ge=1)

    def passages_on(self, device: str) -> int:
        """Return the number of passages per question in a training step on "cuda" or "cpu"."""
        return self.passages or PASSAGES[device]


@settings_class
class ReadingSettings:
    """The settings for reading the passages of a run."""

    ks: tuple[int, ...] | None = Field(
        default=None,
        description="Numbers of passages read for each question; default 1,5,10,20,50,100, up to the depth of the run",
        json_schema_extra={"option": "--k"},
    )
    name: str | None = Field(default=None, description="Name of the reader in the study; default its folder's name")
    batch: int | None = Field(default=None, description="Passages in a batch; default 128 on a GPU, 16 on a CPU", ge=1)
    precision: Precision = Field(default="auto", description="Precision; auto is bfloat16 on a GPU that supports it")
    device: str | None = Field(default=None, description="Device: cpu or cuda; default a GPU if there is one")
