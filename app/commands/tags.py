"""`blindspot tags`: tags of people on questions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from blindspot.app.commands.common import AsJson, StudyOption, group, open_study, print_json
from blindspot.backend.text.number_words import quantity
from blindspot.db.errors import BadInput

if TYPE_CHECKING:
    from blindspot.db.tags import Tags

Tag = Annotated[str, typer.Argument(metavar="TAG", help="The tag: one word or a few words.")]
QuestionIds = Annotated[list[str], typer.Argument(metavar="QUESTION...", help="Ids of the questions.")]
AboutRun = Annotated[
    str | None, typer.Option("--run", help="Run that the tag is about (default: the question itself).")
]
Who = Annotated[str | None, typer.Option("--by", metavar="NAME", help="Person who tags (default: no name is stored).")]

tags_app = group("Tag questions with your own words, and list, rename, merge, remove and export the tags.")


@tags_app.command("list")
def tags_list(as_json: AsJson = False, study: StudyOption = None) -> None:
    """List the tags with the number of their questions, the most frequent first."""
    from dataclasses import asdict

    from blindspot.app.terminal_tables import print_rows

    counts = _store(study).counts()
    if as_json:
        print_json([asdict(each) for each in counts])
        return
    if not counts:
        print("No tags yet. Tag a question on the Question page, or: blindspot tags add TAG QUESTION")
        return
    print_rows(["tag", "questions", "people"], [[each.tag, each.questions, each.people] for each in counts])


@tags_app.command("add")
def tags_add(tag: Tag, questions: QuestionIds, run: AboutRun = None, by: Who = None, study: StudyOption = None) -> None:
    """Tag questions. An existing tag keeps its spelling."""
    opened = open_study(study)
    if run is not None:
        opened.run(run)  # raises Missing for an unknown run
    from blindspot.db.tags import Tags

    name = Tags(opened.labels_path).add(tag, questions, run, by)
    print(f"{quantity(len(set(questions)), 'question')} tagged {name!r}. As a slice: {_condition(name, run)}")


@tags_app.command("remove")
def tags_remove(
    tag: Tag,
    questions: Annotated[
        list[str] | None, typer.Argument(metavar="[QUESTION...]", help="Ids of the questions (default: all).")
    ] = None,
    run: AboutRun = None,
    study: StudyOption = None,
) -> None:
    """Take a tag back from questions, or from every question. The record of who gave it stays."""
    store = _store(study)
    if not questions:
        if run is not None:
            raise BadInput("--run says which tags of a question to take back; name the questions")
        print(f"Removed {tag!r} from {quantity(store.delete(tag), 'question')}.")
        return
    gone = sum(store.remove(tag, question, run) for question in questions)
    print(f"Removed {quantity(gone, 'tag')} {tag!r} from {quantity(len(questions), 'question')}.")


@tags_app.command("rename")
def tags_rename(
    old: Tag, new: Annotated[str, typer.Argument(metavar="NEW", help="The new name.")], study: StudyOption = None
) -> None:
    """Rename a tag on every question."""
    _store(study).rename(old, new)
    print(f"Renamed {old!r} to {new!r}.")


@tags_app.command("merge")
def tags_merge(
    tags: Annotated[list[str], typer.Argument(metavar="TAG...", help="Tags to replace.")],
    into: Annotated[str, typer.Option("--into", metavar="TAG", help="Tag that replaces them, new or existing.")],
    study: StudyOption = None,
) -> None:
    """Give the questions of several tags one tag."""
    store = _store(study)
    count = store.merge(tags, into)
    print(f"Merged {quantity(count, 'tag')} into {into!r}: {quantity(len(store.questions(into)), 'question')}.")


@tags_app.command("export")
def tags_export(
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="File to write (default: print).")] = None,
    as_json: AsJson = False,
    study: StudyOption = None,
) -> None:
    """Write every tag of every question with its run, person and time, as CSV or JSON."""
    from blindspot.app.terminal import clean_json
    from blindspot.backend.core.manifest import write_text
    from blindspot.backend.evaluation.tag_export import tags_as_csv, tags_as_json

    opened = open_study(study)
    text = tags_as_json(opened) + "\n" if as_json else tags_as_csv(opened)
    if out is None:
        print((clean_json(text) if as_json else text).rstrip("\n"))
        return
    write_text(out, text)
    print(f"Wrote {out}.")


def _store(study: str | None) -> Tags:
    from blindspot.db.tags import Tags

    return Tags(open_study(study).labels_path)


def _condition(tag: str, run: str | None) -> str:
    from blindspot.analysis.expressions import Condition

    return str(Condition("tag", run, ":", tag))
