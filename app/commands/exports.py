"""`blindspot export`: parts of a study in the form that other tools read."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from app.commands.common import Out, Split, StudyOption, Ties, group, open_study

export_app = group("Write parts of a study in the form that other tools read.")


@export_app.command("run")
def export_run(
    run: Annotated[str, typer.Argument(metavar="NAME", help="The run.")],
    format: Annotated[
        str, typer.Option("--format", metavar="trec|dpr|pyserini|msmarco", help="The form to write it in.")
    ],
    ties: Ties = "file",
    out: Out = None,
    study: StudyOption = None,
) -> None:
    """Write a run for other tools: TREC, DPR's or Pyserini's output, MS MARCO."""
    from backend.data.exporting import export_run as export

    _say_exported(export(open_study(study), run, format, out, ties))


@export_app.command("qrels")
def export_qrels(
    format: Annotated[str, typer.Option("--format", metavar="trec|beir|msmarco", help="The form to write them in.")],
    split: Split = None,
    out: Out = None,
    study: StudyOption = None,
) -> None:
    """Write the gold of the questions as relevance judgements."""
    from backend.data.exporting import export_qrels as export

    _say_exported(export(open_study(study), format, split, out))


@export_app.command("questions")
def export_questions(
    format: Annotated[
        str, typer.Option("--format", metavar="question-jsonl|dpr-csv|beir|msmarco", help="The form to write them in.")
    ],
    split: Split = None,
    out: Out = None,
    study: StudyOption = None,
) -> None:
    """Write the questions."""
    from backend.data.exporting import export_questions as export

    _say_exported(export(open_study(study), format, split, out))


@export_app.command("passages")
def export_passages(
    format: Annotated[str, typer.Option("--format", metavar="psgs|beir|msmarco", help="The form to write them in.")],
    out: Out = None,
    study: StudyOption = None,
) -> None:
    """Write the passage collection."""
    from backend.data.exporting import export_passages as export

    _say_exported(export(open_study(study), format, out))


def _say_exported(written: Any) -> None:
    from backend.text.counting import counted

    print(f"Wrote {written.path}: {counted(written.rows, written.unit)}.")
    for note in written.notes:
        print(note)
