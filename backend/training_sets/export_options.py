"""The options of training-set exports. They are in a separate module so that the command line can show them without
loading NumPy.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Literal

from blindspot.backend.core.declared import Field, settings_class
from blindspot.db.errors import Refused

TEMPLATE = "{title} [SEP] {text}"
"""DPR's template. A tokenizer turns [SEP] in the text into its separator token."""


@settings_class
class ExportOptions:
    """The options of an export."""

    negatives: int | None = Field(
        default=None,
        title="Hard negatives",
        description="Maximum hard negatives of a question, mined ones and people's; default the format's",
        ge=1,
    )
    draw: Literal["top", "random"] = Field(
        default="top",
        description="Which hard negatives: top takes the highest-ranked (DPR), random draws them (RocketQA)",
    )
    seed: int = Field(default=0, description="Seed of draw random", ge=0)
    template: str = Field(
        default=TEMPLATE, description="How title and text become one text, for formats with one text a passage"
    )

    rows: int | None = Field(
        default=None,
        title="Rows of a question",
        description=(
            "sentence-transformers: maximum rows of a question; default a row for each positive. With 1, no batch of any "
            "sampler holds a question twice"
        ),
        ge=1,
    )

    def check(self) -> None:
        """Raise Refused for a template with unknown fields."""
        try:
            self.template.format(title="", text="")
        except (KeyError, IndexError, ValueError, AttributeError) as error:
            raise Refused(f"--template {self.template!r} may hold only {{title}} and {{text}}") from error

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)
