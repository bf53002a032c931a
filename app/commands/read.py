"""`blindspot train reader` and `blindspot read`: train an extractive reader, and answer questions from the passages of
a run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from blindspot.app.commands.common import AsJson, StudyOption, Trust, do, open_study, print_json, trust_models
from blindspot.app.commands.options import takes_settings
from blindspot.app.commands.train import Name, run_training, train_app
from blindspot.backend.reader.settings import ReaderSettings, ReadingSettings
from blindspot.backend.text.number_words import noun_form, quantity
from blindspot.backend.training.training_settings import TrainingOptions

if TYPE_CHECKING:
    from blindspot.backend.reader.reading import Reading
    from blindspot.backend.reader.readings import AnswerRow, MeasuredReading, TunedK


@train_app.command("reader")
@takes_settings(ReaderSettings)
@takes_settings(TrainingOptions, "options")
def train_reader(
    name: Name,
    run: Annotated[str, typer.Option(help="Run over training questions; the reader trains on its passages.")],
    *,
    settings: dict[str, Any],
    options: dict[str, Any],
    trust: Trust = False,
    study: StudyOption = None,
) -> None:
    """Train DPR's extractive reader, which selects a passage and extracts the answer span."""
    from blindspot.backend.reader.training import train_reader

    result = run_training(train_reader, study, trust, name=name, run=run, settings=settings, **options)
    if result is None:
        return
    for reason, count in result.left_out.items():
        print(f"Left out {quantity(count, 'question')} of {run}: {reason}.")
    held = (
        ""
        if result.exact_match is None
        else f", exact match {100 * result.exact_match:.1f}% of {quantity(result.held_out, 'held-out question')}"
    )
    print(
        f"Trained {name} on {quantity(result.questions, 'question')}: {quantity(result.steps, 'step')} in "
        f"{result.seconds:,.0f} s, kept step {result.best_step:,}{held}."
    )
    print(f"Next: blindspot read --run RUN --reader {name}")


@takes_settings(ReadingSettings)
def read(
    run: Annotated[str, typer.Option(help="Run whose passages are read.")],
    reader: Annotated[str, typer.Option(help="Trained reader, or a folder or Hugging Face name of a DPRReader.")],
    *,
    settings: dict[str, Any],
    tune_on: Annotated[
        str | None, typer.Option(metavar="RUN", help="Run whose dev questions choose k; it is read first.")
    ] = None,
    by: Annotated[
        str | None, typer.Option(metavar="relation|frequency", help="Add a table by relation or frequency.")
    ] = None,
    trust: Trust = False,
    as_json: AsJson = False,
    study: StudyOption = None,
) -> None:
    """Answer the questions of a run from its passages, and report exact match and F1 at each k. Stored answers are used
    again.
    """
    from blindspot.backend.reader.reading import read as read_run
    from blindspot.backend.reader.readings import measure_reading, tuned_k

    ks = settings.get("ks")
    by = "bucket" if by == "frequency" else by
    if by not in (None, "relation", "bucket"):
        raise typer.BadParameter("--by must be relation or frequency")
    opened = open_study(study)
    if tune_on is not None:
        _check_dev(opened, tune_on)
    if trust:
        trust_models(opened, reader)

    def read_from(source: str) -> Reading:
        return do(read_run, opened, run=source, reader=reader, **settings)

    tuned = tuned_k(measure_reading(opened, read_from(tune_on), ks)) if tune_on is not None else None
    reading = read_from(run)
    result = measure_reading(
        opened, reading, sorted({*(ks or reading.ks), *([tuned.k] if tuned and tuned.k <= reading.depth else [])})
    )
    if as_json:
        print_json(_as_dict(result, tuned, by, reading.manifest))
    else:
        _print(result, tuned, by, reading.manifest)


def _check_dev(study: Any, run: str) -> None:
    """Check before reading starts that there is a dev question to choose k on."""
    from blindspot.db.errors import Refused

    if not any(
        question.split == "dev" and question.answers
        for question in study.questions.with_ids(study.run(run).question_ids)
    ):
        raise Refused(
            f"run {run!r} has no dev question with answers to tune k on; make such a run with 'blindspot retrieve "
            "--split dev'"
        )


def _print(readings: MeasuredReading, tuned: TunedK | None, grouping: Any, manifest: dict) -> None:
    from blindspot.analysis.relations import relation_name
    from blindspot.app.terminal_tables import console
    from blindspot.backend.core.result_table import ResultTable, percent_with_interval, rich_tables
    from blindspot.backend.core.units import count_with_units, generalisation, n_value
    from blindspot.backend.reader.readings import CONVENTION, answer_rows, macro_exact

    (whole,), macro = answer_rows(readings), macro_exact(readings)
    columns = ["k", "exact match", *(["mean of relations"] if macro else []), "F1", "Success@k"]
    rows = [[str(k), whole.exact[k], *([macro[k]] if macro else []), whole.f1[k], whole.found[k]] for k in readings.ks]
    tables = [ResultTable(f"{readings.run}, read by {readings.reader}, %", columns, rows)]
    if grouping is not None:
        groups = [
            [
                relation_name(row.group),
                n_value(row.n, row.exact[readings.ks[0]].units, readings.unit),
                *(row.exact[k] for k in readings.ks),
            ]
            for row in answer_rows(readings, grouping)
        ]
        tables.append(ResultTable("", [grouping, "n", *(f"exact match @{k}" for k in readings.ks)], groups))
    console.print(rich_tables(tables, []))
    print(f"{readings.units.count_words()}; 95% intervals. {generalisation(readings.unit)}")
    print(CONVENTION)
    if readings.left_out:
        print(
            f"{quantity(readings.left_out, 'question')} without answers {noun_form(readings.left_out, 'is')} left out."
        )
    if tuned is not None:
        chosen = (
            "" if tuned.k not in readings.exact else f": exact match here {percent_with_interval(whole.exact[tuned.k])}"
        )
        print(
            f"k = {tuned.k} is best on the dev questions of {tuned.run} ({percent_with_interval(tuned.exact)}, "
            f"{count_with_units(tuned.exact.n, tuned.exact.units, readings.unit)}){chosen}."
        )
    each = manifest["seconds_per_question"]
    if each is not None:
        print(f"Read {manifest['depth']} passages per question in {each:.3f} s on {manifest['device']}.")


def _as_dict(readings: MeasuredReading, tuned: TunedK | None, grouping: Any, manifest: dict) -> dict[str, Any]:
    from dataclasses import asdict

    from blindspot.backend.reader.readings import CONVENTION, answer_rows, macro_exact

    def row(answer_row: AnswerRow) -> dict[str, Any]:
        figures = {"exact_match": answer_row.exact, "f1": answer_row.f1, "success": answer_row.found}
        return {
            "n": answer_row.n,
            "k": {str(k): {name: asdict(values[k]) for name, values in figures.items()} for k in readings.ks},
        }

    groups = (
        {}
        if grouping is None
        else {"by": grouping, "groups": {each.group: row(each) for each in answer_rows(readings, grouping)}}
    )
    return {
        "run": readings.run,
        "reader": readings.reader,
        "convention": CONVENTION,
        **row(answer_rows(readings)[0]),
        "macro_exact_match": {str(k): asdict(each) for k, each in macro_exact(readings).items()},
        "left_out": readings.left_out,
        **groups,
        "tuned": None if tuned is None else asdict(tuned),
        "seconds_per_question": manifest["seconds_per_question"],
        "device": manifest["device"],
        "precision": manifest["precision"],
    }
