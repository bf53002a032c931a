"""The settings of a check of a training file, declared once for the command line, the app and Python."""

from __future__ import annotations

from blindspot.backend.core.declared import Field, settings_class

DRAWS = 300


@settings_class
class CheckSettings:
    """The files with texts and held-out questions, the size of the sample, and the judge."""

    pairs: int = Field(
        default=DRAWS, description="Number of pairs to draw for judging; more continue the sample", ge=1, le=5000
    )
    seed: int = Field(default=0, description="Seed of the draws", ge=0)
    vectors: str | None = Field(
        default=None,
        description="Draw pairs more often that this encoder of the study, such as minilm, finds similar; default words "
        "and the file's scores alone",
        json_schema_extra={"metavar": "ENCODER"},
    )
    judge: str | None = Field(
        default=None,
        description="Let a judge of the study, or a cross-encoder by folder or name, judge the drawn pairs; default people",
        json_schema_extra={"metavar": "NAME"},
    )
    dev: str | None = Field(
        default=None,
        description="Dev or test questions, to find those that leak",
        json_schema_extra={"metavar": "FILE"},
    )
    collection: str | None = Field(
        default=None,
        description="Texts of passage ids, a TSV; default collection.tsv beside FILE",
        json_schema_extra={"metavar": "FILE"},
    )
    queries: str | None = Field(
        default=None,
        description="Texts of question ids, a TSV; default queries.tsv beside FILE",
        json_schema_extra={"metavar": "FILE"},
    )
    drop: bool = Field(default=False, description="Take false negatives out instead of turning them into positives")
    rule: str | None = Field(
        default=None,
        description="Also drop what this rule drops, as in relative_margin=0.08 (with --out)",
        json_schema_extra={"metavar": "NAME=VALUE"},
    )
