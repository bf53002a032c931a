"""`blindspot labels`: back up, restore, check, export and import labels."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from app.commands.common import StudyOption, group, open_study
from backend.text.counting import counted
from db.errors import BlindspotError, Missing, Refused

labels_app = group("Labels: back up, restore, check, export, import.")


@labels_app.command("backup")
def labels_backup(
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The file to write (default: a new one in the study's backups folder)."),
    ] = None,
    study: StudyOption = None,
) -> None:
    """Make a checked backup of labels.db, even while it is in use."""
    from db.backup import back_up, check

    target = back_up(_labels_path(study), out)
    found = check(target)
    print(
        f"Wrote {target}: {counted(found.events, 'label event')}, the last is {found.last_event}; {counted(found.questions, 'question')}."
    )


@labels_app.command("restore")
def labels_restore(
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="A backup.")] = None,
    drop_newer: Annotated[
        bool, typer.Option("--drop-newer", help="Restore even if the study holds labels that the backup lacks.")
    ] = False,
    empty: Annotated[
        bool, typer.Option("--empty", help="Start with an empty labels.db where it is missing and has no backup.")
    ] = False,
    study: StudyOption = None,
) -> None:
    """Put a backup in the place of labels.db and keep the former file."""
    from db.backup import check, restore
    from db.migrations import migrate

    path = _labels_path(study)
    if (file is None) != empty:
        raise BlindspotError("name a backup, as in 'blindspot labels restore FILE', or say --empty, not both")
    if file is None:
        if path.exists() and path.stat().st_size:
            raise Refused(f"{path}: holds data; --empty is for a study whose labels.db is missing or empty")
        migrate(path, new=True)
        print(f"Made an empty {path}. Import the questions again.")
        return
    kept = restore(file, path, drop_newer)
    migrate(path)
    print(
        f"Restored {file}: {counted(check(path).events, 'label event')}."
        + (f" What was there before is in {kept}." if kept else "")
    )


@labels_app.command("check")
def labels_check(study: StudyOption = None) -> None:
    """Look for damage in labels.db. Exit code 1 if there is any."""
    from db.backup import check

    path = _labels_path(study)
    found = check(path)
    problems = [*found.problems, *(_passage_problems(path) if not found.problems else ())]
    for problem in problems:
        print(problem)
    if problems:
        raise BlindspotError(f"{path}: is not sound; restore a backup with 'blindspot labels restore FILE'")
    print(
        f"{path}: sound. {counted(found.events, 'label event')} of {counted(found.people, 'person', 'people')}, the last is {found.last_event}; "
        f"{counted(found.questions, 'question')}."
    )


@labels_app.command("export")
def labels_export(
    format: Annotated[
        str,
        typer.Option("--format", metavar="jsonl|csv|qrels", help="All events (jsonl, csv), or the consensus (qrels)."),
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to; default labels-<last event>.<format>, here.")
    ] = None,
    until: Annotated[
        int | None, typer.Option(min=1, help="The last event to write: makes an earlier export again.")
    ] = None,
    study: StudyOption = None,
) -> None:
    """Export the labels, and name the last event of the export."""
    from backend.judging.labels_io import export_labels

    written = export_labels(open_study(study), format, out, until)
    print(
        f"Wrote {written.path}: {counted(written.rows, 'row')}, up to event {written.last_event} (--until {written.last_event} makes it again)."
    )
    for note in written.notes:
        print(note)


@labels_app.command("import")
def labels_import(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="An export, or qrels.")],
    format: Annotated[
        str | None, typer.Option("--format", metavar="jsonl|csv|qrels", help="Default by the file's ending.")
    ] = None,
    annotator: Annotated[str | None, typer.Option(help="Whose labels qrels are to be.")] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Import the rest when lines are bad; the bad ones go to a file.")
    ] = False,
    study: StudyOption = None,
) -> None:
    """Import labels. Events that the study has already are skipped."""
    from backend.judging.labels_io import import_labels

    done = import_labels(open_study(study), file, format, annotator, skip_bad)
    print(f"Imported {counted(done.stored, 'label event')} from {file}; {done.known:,} were there already.")
    if done.left_out:
        print(f"Left out {counted(done.left_out, 'line')}; they are listed in {done.file}")


def _labels_path(folder: str | None) -> Path:
    """The study's labels.db, without opening it: a damaged one must be restorable."""
    from backend.core.study import ENVIRONMENT_VARIABLE, SETTINGS_FILE, Study

    path = Path(folder or os.environ.get(ENVIRONMENT_VARIABLE) or ".")
    if not (path / SETTINGS_FILE).is_file():
        raise Missing(f"{path} holds no study (no {SETTINGS_FILE}); name one with --study or ${ENVIRONMENT_VARIABLE}")
    return Study(path).labels_path


def _passage_problems(path: Path) -> list[str]:
    """Judged passages that the study's collection does not hold."""
    import sqlite3

    from db.corpus import Corpus
    from db.labels import Labels

    if not (path.parent / "corpus.db").is_file():
        return []
    store = Labels(path, read_only=True)
    try:
        judged = {row.passage for row in store.events() if row.passage is not None}
    except sqlite3.OperationalError as error:
        if "no such table" in str(error):
            return []  # an older labels.db, from before there were labels
        raise
    missing = sorted(judged - set(Corpus(path.parent / "corpus.db").ordinals(judged)))
    return [f"passage {id!r} was judged and is not in the collection" for id in missing[:10]]
