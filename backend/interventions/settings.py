"""The settings for explaining misses, declared once for the command and the job."""

from __future__ import annotations

from blindspot.backend.core.declared import Field, settings_class
from blindspot.backend.evaluation.settings import HEADLINE_K

PLACEBOS = 9  # of a miss


@settings_class
class MissesToExplain:
    """Which misses of a run are explained, and with how many placebos each."""

    k: int = Field(default=HEADLINE_K, description="A miss has no gold passage in the top k", ge=1)
    where: str = Field(
        default="",
        description="Explain only these questions, as in 'relation:P19'",
        json_schema_extra={"option": "--slice", "metavar": "EXPRESSION"},
    )
    found_by: str | None = Field(
        default=None,
        description="Explain only misses for which this run has a gold passage in its top k",
        json_schema_extra={"metavar": "RUN"},
    )
    limit: int = Field(
        default=200,
        description="Maximum number of misses, drawn at random",
        ge=1,
        json_schema_extra={"option": "--misses"},
    )
    minutes: float | None = Field(
        default=None,
        description="Stop after this time; the same command resumes from there, and what was explained until then is "
        "still a random sample; default no limit",
        gt=0,
    )
    seed: int = Field(default=0, description="Seed of the draw", ge=0)
    placebos: int = Field(
        default=PLACEBOS,
        description="Passages without the answer, for each miss, that get the same edits",
        ge=1,
    )
