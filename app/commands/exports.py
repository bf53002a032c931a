"""`blindspot export`: write parts of a study in the formats of other tools."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from blindspot.app.commands.common import Out, Split, StudyOption, Ties, group, open_study
from blindspot.backend.text.number_words import quantity

export_app = group("Export parts of a study in the formats of other tools.")


@export_app.command("run")
def export_run(
    run: Annotated[str, typer.Argument(metavar="NAME", help="Run to export.")],
    format: Annotated[str, typer.Option("--format", metavar="trec|dpr|pyserini|msmarco", help="Format to write.")],
    ties: Ties = "file",
    out: Out = None,
    study: StudyOption = None,
) -> None:
    """Export a run as TREC, DPR, Pyserini or MS MARCO output."""
    from blindspot.backend.data.exporting import export_run as export

    _say_exported(export(open_study(study), run, format, out, ties))


@export_app.command("qrels")
def export_qrels(
    format: Annotated[str, typer.Option("--format", metavar="trec|beir|msmarco", help="Format to write.")],
    split: Split = None,
    out: Out = None,
    study: StudyOption = None,
) -> None:
    """Export the relevance judgements of the questions: gold with its grades, and judged passages of grade 0."""
    from blindspot.backend.data.exporting import export_qrels as export

    _say_exported(export(open_study(study), format, split, out))


@export_app.command("questions")
def export_questions(
    format: Annotated[
        str, typer.Option("--format", metavar="question-jsonl|dpr-csv|beir|msmarco", help="Format to write.")
    ],
    split: Split = None,
    out: Out = None,
    study: StudyOption = None,
) -> None:
    """Export the questions."""
    from blindspot.backend.data.exporting import export_questions as export

    _say_exported(export(open_study(study), format, split, out))


@export_app.command("passages")
def export_passages(
    format: Annotated[str, typer.Option("--format", metavar="psgs|beir|msmarco", help="Format to write.")],
    out: Out = None,
    study: StudyOption = None,
) -> None:
    """Export the passage collection."""
    from blindspot.backend.data.exporting import export_passages as export

    _say_exported(export(open_study(study), format, out))


def _say_exported(written: Any) -> None:
    print(f"Wrote {written.path}: {quantity(written.rows, written.unit)}.")
    for note in written.notes:
        print(note)
