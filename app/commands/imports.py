"""`blindspot new`, `copy` and `import`: create a study, copy it, and import data into it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from blindspot.app.commands.common import (
    FileArgument,
    Format,
    Settings,
    SkipBad,
    StudyOption,
    do,
    group,
    open_study,
    progress,
)
from blindspot.app.commands.options import reads, takes_settings
from blindspot.backend.data.importing.settings import QuestionImport, RunImport
from blindspot.backend.text.number_words import quantity

if TYPE_CHECKING:
    from blindspot.backend.core.study import Study

FileOrIr = Annotated[
    Path,
    typer.Argument(
        metavar="FILE|ir:DATASET",
        help="File to read (.gz and .xz are decompressed), or ir: and a dataset id of ir_datasets.",
    ),
]
import_app = group("Import passages, questions, runs, relevance judgements or entity frequencies.")


def new(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new or empty folder.")],
    title: Annotated[str | None, typer.Option("--name", help="Name of the study (default: the folder's name).")] = None,
    results: Annotated[
        list[Path] | None,
        typer.Option("--from-run", metavar="FILE", help="Retriever output to start from (DPR, Pyserini; repeatable)."),
    ] = None,
    questions: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Questions file for --from-run, such as EntityQuestions' own; it adds relations, subjects and frequencies.",
        ),
    ] = None,
    split: Annotated[str, typer.Option(help="Split of the questions from --from-run.")] = "test",
    skip_bad: SkipBad = False,
) -> None:
    """Create an empty study, or a study from retriever output."""
    if questions is not None and not results:
        raise typer.BadParameter(
            "--questions goes with --from-run; otherwise run 'blindspot import questions' afterwards"
        )
    if results:
        from blindspot.app.terminal_tables import print_results_import
        from blindspot.backend.data.importing.from_results import study_from_results

        with progress() as watch:
            made = study_from_results(folder, results, title, split, skip_bad, watch, questions)
        print_results_import(made, str(folder))
        return
    from blindspot.backend.core.study import Study

    study = Study.create(folder, title)
    print(f"Created the study {study.folder}. Next: blindspot import passages FILE --study {folder}")


@import_app.command("passages", cls=reads("passages"))
def import_passages(
    file: FileOrIr,
    study: StudyOption = None,
    format: Format = None,
    skip_bad: SkipBad = False,
    settings: Settings = None,
) -> None:
    """Import the passage collection: psgs_w100.tsv, JSONL, BEIR, MS MARCO, CSV, Parquet, a saved dataset, or
    ir:DATASET of ir_datasets.
    """
    from blindspot.backend.data.importing.importer import import_passages
    from blindspot.backend.data.importing.ir_datasets import is_ir_id

    if is_ir_id(file):
        _import_ir(str(file), study, False, {}, skip_bad)
        return
    given: dict[str, Any] = {"format": format, "skip_bad": skip_bad, "settings": settings or []}
    _import_file(import_passages, _open_or_new(study), file, "passage", **given)


@import_app.command("questions", cls=reads("questions"))
@takes_settings(QuestionImport, "taken")
def import_questions(
    file: FileOrIr,
    study: StudyOption = None,
    format: Format = None,
    *,
    taken: dict[str, Any],
    skip_bad: SkipBad = False,
    settings: Settings = None,
) -> None:
    """Import questions; docs/formats.md lists the formats. With ir:DATASET of ir_datasets, import its questions and
    gold, and its passages if the study has none.
    """
    from blindspot.backend.data.importing.importer import import_questions
    from blindspot.backend.data.importing.ir_datasets import is_ir_id

    if is_ir_id(file):
        _import_ir(str(file), study, True, taken, skip_bad)
        return
    given = {"format": format, "skip_bad": skip_bad, "settings": settings or [], **taken}
    _import_file(import_questions, _open_or_new(study), file, "question", **given)
    opened = open_study(study)
    if opened.has_corpus and opened.questions.subjects(without_frequency=True):
        print(
            "Some subjects have no frequency. Import frequencies ('blindspot import frequencies FILE') or count "
            "them in the passages ('blindspot import frequencies --count')."
        )


@import_app.command("frequencies", cls=reads("frequencies"))
def import_frequencies(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="TSV file with the header line: entity, count.")
    ] = None,
    count: Annotated[
        bool, typer.Option("--count", help="Count the passages that mention each subject; needs no file.")
    ] = False,
    study: StudyOption = None,
    skip_bad: SkipBad = False,
) -> None:
    """Import the frequencies of the questions' subjects from a file, or count them in the passages."""
    from blindspot.backend.data.importing import importer

    if (file is None) == (not count):
        raise typer.BadParameter("give a FILE, or --count to count mentions in the passages")
    if file is not None:
        _import_file(importer.import_frequencies, _open_or_new(study), file, "frequency", skip_bad=skip_bad)
    else:
        _say_imported(do(importer.count_frequencies, _open_or_new(study)), "subject")


@import_app.command("qrels", cls=reads("qrels"))
def import_qrels(
    file: FileArgument,
    study: StudyOption = None,
    format: Format = None,
    skip_bad: SkipBad = False,
    settings: Settings = None,
) -> None:
    """Import relevance judgements (TREC, BEIR, MS MARCO, or a table): relevant passages become gold."""
    from blindspot.backend.data.importing.qrels import import_qrels

    given: dict[str, Any] = {"format": format, "skip_bad": skip_bad, "settings": settings or []}
    _import_file(import_qrels, open_study(study), file, "line of qrels", "lines of qrels", **given)


@import_app.command("run", cls=reads("runs"))
@takes_settings(RunImport)
def import_run(
    file: FileArgument,
    name: Annotated[
        str | None, typer.Option("--name", help="Name of the run in the study (default: from the file's name).")
    ] = None,
    study: StudyOption = None,
    format: Format = None,
    *,
    settings: dict[str, Any],
) -> None:
    """Import a run of another tool: TREC, DPR, Pyserini or MS MARCO output."""
    from blindspot.backend.core.runs import run_name_of
    from blindspot.backend.data.importing.runs import import_run

    given = {"name": name or run_name_of(file), "format": format, **settings}
    _import_file(import_run, open_study(study), file, "question of a run", "questions of a run", **given)


def _import_ir(source: str, folder: str | None, questions: bool, taken: dict[str, Any], skip_bad: bool) -> None:
    """Import a dataset by its ir_datasets id."""
    from blindspot.backend.data.importing.importer import import_passages, import_questions
    from blindspot.backend.data.importing.ir_datasets import ir_dataset_folder

    study = _open_or_new(folder)
    passages = not study.has_corpus or not questions
    with (
        progress() as watch,
        ir_dataset_folder(source, study.folder, passages, questions, taken.get("split"), watch) as beir,
    ):
        if passages:
            _say_imported(do(import_passages, study, path=str(beir), format="beir", skip_bad=skip_bad), "passage")
        if questions:
            named = {"dataset": beir.name, **taken, "split": None}
            result = do(import_questions, study, path=str(beir), format="beir", skip_bad=skip_bad, **named)
            _say_imported(result, "question")


def _open_or_new(folder: str | None) -> Study:
    """Open the study. The first import into an empty folder creates it."""
    import os

    from blindspot.backend.core.study import ENVIRONMENT_VARIABLE, Study

    place = Path(folder or os.environ.get(ENVIRONMENT_VARIABLE) or ".")
    if place.is_dir() and not any(place.iterdir()):
        return Study.create(place)
    return Study.open(place)


def _import_file(job: Any, study: Study, file: Path, noun: str, plural: str | None = None, **given: Any) -> None:
    _say_imported(do(job, study, path=str(file.absolute()), **given), noun, plural)


def _say_imported(result: Any, noun: str, plural: str | None = None) -> None:
    if not result.unchanged:
        rate = f" ({result.rows / result.seconds:,.0f} rows/s)" if result.seconds >= 1 else ""
        print(f"Imported {quantity(result.rows, noun, plural)} in {result.seconds:.1f} s{rate}.")
    if result.left_out:
        print(f"Left out {quantity(result.left_out, 'bad row')}: see {result.left_out_file}")
    for note in result.notes:
        print(note)
