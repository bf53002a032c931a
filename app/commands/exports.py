"""`blindspot export`: write parts of a study in the formats of other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from blindspot.app.commands.common import Out, Split, StudyOption, Ties, WithoutOwn, group, open_study
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


@export_app.command("results")
def export_results(
    run: Annotated[str, typer.Argument(metavar="NAME", help="Run to export the figures of.")],
    format: Annotated[str, typer.Option("--format", metavar="mteb|beir", help="Form of the results.")],
    task: Annotated[str | None, typer.Option("--task", help="Name of the task (default: the study's name).")] = None,
    out: Out = None,
    study: StudyOption = None,
) -> None:
    """Export a run's figures by gold as an MTEB result file, or as BEIR's evaluation returns them."""
    from blindspot.backend.evaluation.results_files import MAIN, NAMES, export_results

    path, figures = export_results(open_study(study), run, format, task, out)
    main = MAIN if format == "mteb" else NAMES["ndcg"][1].format(10)
    print(f"Wrote {path}: {main} {figures[main]:.4f}.")


@export_app.command("task")
def export_task(
    folder: Annotated[Path | None, typer.Argument(metavar="[DIR]", help="New folder to write.")] = None,
    split: Annotated[str, typer.Option(help="Questions: train, dev or test.")] = "test",
    without_own: WithoutOwn = False,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="New folder to write, instead of DIR.")] = None,
    study: StudyOption = None,
) -> None:
    """Export passages, questions and gold as a retrieval task: BEIR's folder, which MTEB loads by its task.py."""
    from blindspot.backend.data.task_folder import export_task as export

    target = folder or out
    if target is None or (folder is not None and out is not None):
        raise typer.BadParameter("name one new folder: DIR, or --out DIR")
    made = export(open_study(study), target, split, without_own)
    print(
        f"Wrote {made.folder}: {quantity(made.passages, 'passage')}, {quantity(made.questions, 'question')}, "
        f"{quantity(made.judgements, 'judgement')}."
    )


def _say_exported(written: Any) -> None:
    print(f"Wrote {written.path}: {quantity(written.rows, written.unit)}.")
    for note in written.notes:
        print(note)
