"""`blindspot labels`: back up, restore, check, export and import labels."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from blindspot.app.commands.common import (
    AsJson,
    SkipBad,
    StudyOption,
    group,
    open_study,
    print_json,
    unopened_study,
)
from blindspot.backend.text.number_words import quantity
from blindspot.db.errors import BlindspotError, Missing, Refused

labels_app = group("Back up, restore, check, export or import labels.")


@labels_app.command("backup")
def labels_backup(
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File to write (default: a new file in the study's backups folder)."),
    ] = None,
    study: StudyOption = None,
) -> None:
    """Back up labels.db, even while it is in use, and check the backup."""
    from blindspot.db.backup import check, checked_backup

    target = checked_backup(unopened_study(study).labels_path, out)
    state = check(target)
    print(
        f"Wrote {target}: {quantity(state.events, 'label event')}, the last is {state.last_event}; "
        f"{quantity(state.questions, 'question')}."
    )


@labels_app.command("restore")
def labels_restore(
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="Backup to restore.")] = None,
    drop_newer: Annotated[
        bool, typer.Option("--drop-newer", help="Restore even if the study has labels that are missing in the backup.")
    ] = False,
    empty: Annotated[
        bool, typer.Option("--empty", help="Create an empty labels.db if it is missing and there is no backup.")
    ] = False,
    study: StudyOption = None,
) -> None:
    """Replace labels.db with a backup and keep the former file."""
    from blindspot.db.backup import check, restore
    from blindspot.db.schema import prepare

    path = unopened_study(study).labels_path
    if (file is None) != empty:
        raise BlindspotError("give either a backup, as in 'blindspot labels restore FILE', or --empty")
    if file is None:
        if path.exists() and path.stat().st_size:
            raise Refused(f"{path} contains data; --empty is for a study whose labels.db is missing or empty")
        prepare(path)
        print(f"Created an empty {path}. Import the questions again.")
        return
    safety_copy = restore(file, path, drop_newer)
    prepare(path)
    print(
        f"Restored {file}: {quantity(check(path).events, 'label event')}."
        + (f" The former file is {safety_copy}." if safety_copy else "")
    )
    print("A backup brings no rights and no links: see 'blindspot people list', 'people role' and 'people invite'.")


@labels_app.command("check")
def labels_check(study: StudyOption = None) -> None:
    """Look for damage in labels.db. Exit code 1 if there is any."""
    from blindspot.db.backup import check, refuse_lost_labels

    path = unopened_study(study).labels_path
    if path.is_file() and not path.stat().st_size:
        refuse_lost_labels(path)
        print(f"{path}: is empty, and the study holds nothing else. Import passages and questions.")
        return
    state = check(path)
    problems = [*state.problems, *(_passage_problems(path) if not state.problems else ())]
    for problem in problems:
        print(problem)
    if problems:
        raise BlindspotError(f"{path} is damaged; restore a backup with 'blindspot labels restore FILE'")
    print(
        f"{path}: sound. {quantity(state.events, 'label event')} of {quantity(state.people, 'person', 'people')}, the "
        f"last is {state.last_event}; {quantity(state.questions, 'question')}."
    )


@labels_app.command("audit")
def labels_audit(
    batch: Annotated[
        str | None, typer.Option(metavar="NAME", help="Use the audit of this batch (default: all).")
    ] = None,
    json: AsJson = False,
    study: StudyOption = None,
) -> None:
    """Estimate from random draws the share of false negatives among unlabelled passages."""
    from dataclasses import asdict

    from blindspot.app.audit_words import print_audit
    from blindspot.backend.judging.audits import audit

    found = audit(open_study(study), batch)
    if json:
        print_json({"labels": asdict(found)})
        return
    if found.overall is None:
        raise Missing(
            "no question of a random audit is judged completely yet; make a batch (blindspot batch new) and judge it"
        )
    print_audit(found)


@labels_app.command("export")
def labels_export(
    format: Annotated[
        str,
        typer.Option(
            "--format", metavar="jsonl|csv|qrels", help="Format: all events (jsonl, csv) or the consensus (qrels)."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="File to write (default: labels-<last event>.<format> in the current folder)."
        ),
    ] = None,
    until: Annotated[
        int | None, typer.Option(min=1, help="Last event to write; with it an earlier export can be reproduced.")
    ] = None,
    study: StudyOption = None,
) -> None:
    """Export the labels and print the last event of the export."""
    from blindspot.backend.judging.labels_io import export_labels

    written = export_labels(open_study(study), format, out, until)
    print(
        f"Wrote {written.path}: {quantity(written.rows, 'row')}, up to event {written.last_event} (--until "
        f"{written.last_event} reproduces this file)."
    )
    for note in written.notes:
        print(note)


@labels_app.command("import")
def labels_import(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Label export or qrels file.")],
    format: Annotated[
        str | None,
        typer.Option("--format", metavar="jsonl|csv|qrels", help="Format of the file (default: from its extension)."),
    ] = None,
    annotator: Annotated[str | None, typer.Option(help="Annotator to record for the labels of a qrels file.")] = None,
    by_person: Annotated[
        bool,
        typer.Option(
            "--by-person",
            help=(
                "The labels of the qrels file are a person's; without this option they are a machine's and count for no consensus."
            ),
        ),
    ] = False,
    skip_bad: SkipBad = False,
    study: StudyOption = None,
) -> None:
    """Import labels. Events that are already in the study are skipped."""
    from blindspot.backend.judging.labels_io import import_labels
    from blindspot.db.labels import Labels

    opened = open_study(study)
    done = import_labels(opened, file, format, annotator, skip_bad, by_person)
    print(f"Imported {quantity(done.stored, 'label event')} from {file}; {done.known:,} were already in the study.")
    if done.left_out:
        print(f"Left out {quantity(done.left_out, 'line')}; they are listed in {done.file}")
    if annotator and not by_person and annotator in Labels(opened.labels_path).machine_label_counts():
        print(
            f"{annotator} is a machine: these labels count for no consensus and no agreement. If a person gave them, "
            "give --by-person."
        )


def _passage_problems(path: Path) -> list[str]:
    """Describe the judged passages that are missing in the study's collection."""
    from blindspot.db.corpus import Corpus
    from blindspot.db.labels import Labels

    if not (path.parent / "corpus.db").is_file():
        return []
    store = Labels(path, read_only=True)
    judged = {row.passage for row in store.events() if row.passage is not None}
    missing = sorted(judged - set(Corpus(path.parent / "corpus.db").ordinals(judged)))
    return [f"passage {id!r} was judged but is not in the collection" for id in missing[:10]]
