"""`blindspot batch`: which questions are judged next, and who judges them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from blindspot.app.commands.common import Buckets, Relations, StudyOption, group, open_study, progress
from blindspot.app.commands.options import takes_settings
from blindspot.backend.core.declared import declared_settings
from blindspot.backend.judging.settings import BatchSettings
from blindspot.backend.text.number_words import noun_form, quantity
from blindspot.db.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Iterable

    from blindspot.backend.core.study import Study
    from blindspot.backend.judging.batches import BatchSummary
    from blindspot.db.queue import Queue

Name = Annotated[str, typer.Argument(metavar="NAME", help="The batch's name.")]

batch_app = group("Create, assign and close batches of questions to judge.")


@batch_app.command("new")
@takes_settings(
    BatchSettings, names=("size", "depth", "candidates", "splits", "people_needed", "seed", "order", "pairs")
)
def batch_new(
    name: Name,
    run: Annotated[list[str], typer.Option("--run", help="Run to pool passages from (repeatable).")],
    *,
    settings: dict[str, Any],
    relation: Relations = None,
    bucket: Buckets = None,
    judge: Annotated[
        str | None, typer.Option(metavar="NAME", help="Judge whose scores order the priority questions.")
    ] = None,
    training_set: Annotated[
        str | None, typer.Option("--training-set", metavar="SET", help="With --judge: the set that is trained on now.")
    ] = None,
    study: StudyOption = None,
) -> None:
    """Create a batch: 75% by priority, 10% random audit, 10% second labels, 5% repeats."""
    from functools import partial

    from blindspot.backend.judging.batches import make_batch
    from blindspot.backend.training_sets.judged_batches import make_batch_by_judge

    if training_set is not None and judge is None:
        raise BadInput("--training-set says how much each pair matters to training; give --judge as well")
    opened = open_study(study)
    if (chosen := _chosen_questions(opened, relation, bucket)) is not None:
        settings["slice"] = tuple(chosen)
    make = make_batch if judge is None else partial(make_batch_by_judge, judge=judge, training_set=training_set)
    with progress() as watch:
        result = make(opened, name, run, **settings, progress=watch)
    _print_summary(result)
    size = settings.get("size", declared_settings(BatchSettings)["size"].default)
    if sum(result.arms.values()) < size:
        print(
            f"{quantity(size, 'question')} {noun_form(size, 'was')} requested; these runs, splits and slices have no more "
            "free questions."
        )


@batch_app.command("list")
def batch_list(study: StudyOption = None) -> None:
    """List the batches with their progress and how many questions nobody active can judge, oldest first."""
    from blindspot.app.terminal_tables import print_rows
    from blindspot.db.queue import Queue

    opened = open_study(study)
    queue = Queue(opened.labels_path)
    batches = queue.batches()
    if not batches:
        print("No batches yet. Create one: blindspot batch new NAME --run RUN")
        return
    rows, notes = [], []
    for batch in batches:
        waiting = queue.unfinished(batch.name) if batch.state == "open" else []
        blocked = sum(each.is_blocked for each in waiting)
        rows.append([batch.name, batch.state, batch.questions, batch.done, blocked, batch.made_by or "command line"])
        if blocked:
            notes.append(
                f"{batch.name}: to move on what nobody active can judge: blindspot batch reassign {batch.name}"
            )
    print_rows(["batch", "state", "questions", "done", "blocked", "made by"], rows, notes)


@batch_app.command("close")
def batch_close(name: Name, study: StudyOption = None) -> None:
    """Close a batch: it hands out no more questions; events for questions already leased are still accepted."""
    _queue(study).set_state(name, "closed")
    print(f"Batch {name} is closed.")


@batch_app.command("open")
def batch_open(name: Name, study: StudyOption = None) -> None:
    """Reopen a closed batch."""
    _queue(study).set_state(name, "open")
    print(f"Batch {name} is open.")


@batch_app.command("people")
def batch_people(
    name: Name,
    people: Annotated[int, typer.Argument(metavar="N", min=1, help="Number of people who judge each question.")],
    study: StudyOption = None,
) -> None:
    """Set how many people judge each question of a batch."""
    count = _queue(study).set_people_needed(name, people)
    print(
        f"Each of the {quantity(count, 'question')} of batch {name} now needs {quantity(people, 'person', 'people')}."
    )


@batch_app.command("assign")
def batch_assign(
    name: Name,
    person: Annotated[str | None, typer.Argument(metavar="PERSON", help="Person who gets the questions.")] = None,
    relation: Relations = None,
    bucket: Buckets = None,
    anybody: Annotated[
        bool, typer.Option("--anybody", help="Remove the assignment, so that anybody gets the questions.")
    ] = False,
    study: StudyOption = None,
) -> None:
    """Assign the questions of a batch, or of a slice of it, to one person."""
    from blindspot.db.queue import Queue

    if anybody == (person is not None):
        raise typer.BadParameter("give a PERSON, or --anybody")
    opened = open_study(study)
    slice = _chosen_questions(opened, relation, bucket)
    count = Queue(opened.labels_path).assign(name, person, slice)
    print(
        f"{quantity(count, 'question')} of batch {name} {noun_form(count, 'is')} now assigned to {person or 'anybody'}."
    )


@batch_app.command("reassign")
def batch_reassign(name: Name, study: StudyOption = None) -> None:
    """Move the questions that wait for paused or simulated people on to the active ones.

    If a question needs more people than can judge it, it then needs only those who can. 'blindspot batch list' counts
    such questions.
    """
    result = _queue(study).reassign(name)
    print(
        f"{quantity(result.moved_count, 'question')} moved to active people, {result.done_count:,} counted as done, "
        f"{result.skipped_count:,} skipped by every active person."
    )


def _chosen_questions(study: Study, relations: list[str] | None, buckets: list[str] | None) -> Iterable[str] | None:
    """Return the ids of the questions that the options choose; None without any of the options."""
    from blindspot.backend.judging.batches import questions_of

    return questions_of(study, relations or (), buckets or ()) if relations or buckets else None


def _print_summary(summaries: BatchSummary) -> None:
    arms = ", ".join(f"{count:,} {arm}" for arm, count in summaries.arms.items())
    print(
        f"Created batch {summaries.name}: {sum(summaries.arms.values()):,} of {quantity(summaries.frame, 'question')} ({arms}), "
        f"{quantity(summaries.passages, 'passage')}."
    )


def _queue(folder: str | None) -> Queue:
    from blindspot.db.queue import Queue

    return Queue(open_study(folder).labels_path)
