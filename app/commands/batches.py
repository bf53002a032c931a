"""`blindspot batch`: what is judged next, by how many, by whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from app.commands.common import StudyOption, group, open_study
from backend.text.counting import counted, noun
from db.errors import BadInput

if TYPE_CHECKING:
    from backend.judging.batches import BatchSummary
    from db.queue import Queue

Name = Annotated[str, typer.Argument(metavar="NAME", help="The batch's name.")]

batch_app = group("Batches of questions to judge: make, assign, close.")


@batch_app.command("new")
def batch_new(
    name: Name,
    run: Annotated[list[str], typer.Option("--run", help="A run to pool from; may be given several times.")],
    size: Annotated[int, typer.Option(min=1, help="Questions.")] = 100,
    depth: Annotated[int, typer.Option(min=1, help="Ranks of each run that are pooled.")] = 20,
    candidates: Annotated[int, typer.Option(min=1, help="Passages shown of a question, at most.")] = 8,
    split: Annotated[
        list[str] | None, typer.Option(help="train, dev, test or unlabelled; may be given again; default all.")
    ] = None,
    relation: Annotated[
        list[str] | None, typer.Option(help="Only questions of this relation; may be given several times.")
    ] = None,
    bucket: Annotated[
        list[str] | None, typer.Option(help="Only this bucket, as in a report: 'bucket 3', '2-3 mentions'.")
    ] = None,
    people: Annotated[
        int, typer.Option(min=1, help="People that judge each question of the priority and audit arms.")
    ] = 1,
    seed: Annotated[int, typer.Option(min=0, help="The seed of what is drawn.")] = 0,
    judge: Annotated[
        str | None, typer.Option(metavar="NAME", help="Judge whose scores order the priority questions.")
    ] = None,
    training_set: Annotated[
        str | None, typer.Option("--training-set", metavar="SET", help="With --judge: set whose negatives count more.")
    ] = None,
    study: StudyOption = None,
) -> None:
    """Make a batch: 75% by priority, 10% random audit, 10% second labels, 5% repeats."""
    from functools import partial

    from app.progress import terminal_progress
    from backend.judging.batches import make_batch, questions_of
    from backend.training_sets.judged_batches import make_batch_by_judge

    opened = open_study(study)
    slice = questions_of(opened, relation or (), bucket or ()) if relation or bucket else None
    if training_set is not None and judge is None:
        raise BadInput("--training-set says how much each pair matters to training; give --judge as well")
    make = make_batch if judge is None else partial(make_batch_by_judge, judge=judge, training_set=training_set)
    with terminal_progress() as watch:
        made = make(
            opened,
            name,
            run,
            size=size,
            depth=depth,
            candidates=candidates,
            splits=split,
            slice=slice,
            people_needed=people,
            seed=seed,
            progress=watch,
        )
    _say(made)
    if sum(made.arms.values()) < size:
        print(
            f"{counted(size, 'question')} {noun(size, 'was')} asked for; no more are free in these runs, splits and slices."
        )


@batch_app.command("list")
def batch_list(study: StudyOption = None) -> None:
    """List the batches, oldest first, and how far they are."""
    from rich.markup import escape
    from rich.table import Table

    from app.console import Terminal

    batches = _queue(study).batches()
    if not batches:
        print("No batches yet: 'blindspot batch new NAME --run RUN'.")
        return
    table = Table("batch", "state", "questions", "done", "made by")
    for batch in batches:
        state = f"{batch.state}, practice" if batch.practice else batch.state
        table.add_row(
            escape(batch.name),
            state,
            f"{batch.questions:,}",
            "" if batch.practice else f"{batch.done:,}",
            escape(batch.made_by or "command line"),
        )
    Terminal().print(table)


@batch_app.command("practice")
def batch_practice(
    name: Name,
    size: Annotated[int, typer.Option(min=1, help="Questions.")] = 20,
    study: StudyOption = None,
) -> None:
    """Make practice for newcomers of questions with settled labels."""
    from backend.judging.practice import make_practice

    made = make_practice(open_study(study), name, size)
    _say(made.batch)
    print(f"{made.adjudicated:,} were adjudicated; {made.single_annotator:,} rest on one person's labels.")


@batch_app.command("strata")
def batch_strata(
    name: Name,
    training_set: Annotated[str, typer.Option("--set", metavar="SET", help="A training set.")],
    size: Annotated[int, typer.Option(min=1, help="Pairs of each stratum.")] = 30,
    seed: Annotated[int, typer.Option(min=0, help="The seed of what is drawn.")] = 0,
    study: StudyOption = None,
) -> None:
    """Check a training set: pairs of those a machine kept, removed and proposed, drawn at random."""
    from backend.training_sets.stratified_sample import queue_stratified_sample

    _say(queue_stratified_sample(open_study(study), name, training_set, size, seed))


@batch_app.command("close")
def batch_close(name: Name, study: StudyOption = None) -> None:
    """Hand out no more of a batch; what is out is still taken."""
    _queue(study).set_state(name, "closed")
    print(f"Batch {name} is closed.")


@batch_app.command("open")
def batch_open(name: Name, study: StudyOption = None) -> None:
    """Hand out a closed batch again."""
    _queue(study).set_state(name, "open")
    print(f"Batch {name} is open.")


@batch_app.command("people")
def batch_people(
    name: Name,
    people: Annotated[int, typer.Argument(metavar="N", min=1, help="People that judge each question.")],
    study: StudyOption = None,
) -> None:
    """Set how many people judge each question of a batch."""
    count = _queue(study).set_people_needed(name, people)
    print(f"Each of the {counted(count, 'question')} of batch {name} needs {counted(people, 'person', 'people')} now.")


@batch_app.command("assign")
def batch_assign(
    name: Name,
    person: Annotated[str | None, typer.Argument(metavar="PERSON", help="Who gets its questions.")] = None,
    relation: Annotated[
        list[str] | None, typer.Option(help="Only questions of this relation; may be given several times.")
    ] = None,
    bucket: Annotated[
        list[str] | None, typer.Option(help="Only this bucket, as in a report: 'bucket 3', '2-3 mentions'.")
    ] = None,
    anybody: Annotated[bool, typer.Option("--anybody", help="Take the assignment away.")] = False,
    study: StudyOption = None,
) -> None:
    """Keep the questions of a batch, or of a slice of it, for one person."""
    from backend.judging.batches import questions_of
    from db.queue import Queue

    if anybody == (person is not None):
        raise typer.BadParameter("give a PERSON, or --anybody")
    opened = open_study(study)
    slice = questions_of(opened, relation or (), bucket or ()) if relation or bucket else None
    count = Queue(opened.labels_path).assign(name, person, slice)
    print(f"{counted(count, 'question')} of batch {name} {noun(count, 'is')} for {person or 'anybody'} now.")


def _say(made: BatchSummary) -> None:
    arms = ", ".join(f"{count:,} {arm}" for arm, count in made.arms.items())
    print(
        f"Made batch {made.name}: {sum(made.arms.values()):,} of {counted(made.frame, 'question')} ({arms}), {counted(made.passages, 'passage')}."
    )


def _queue(folder: str | None) -> Queue:
    from db.queue import Queue

    return Queue(open_study(folder).labels_path)
