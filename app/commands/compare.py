"""`blindspot compare`: the difference between two runs, with its interval and p value."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from blindspot.app.commands.common import (
    AsJson,
    OutputForm,
    StudyOption,
    by_bucket,
    check_form,
    open_study,
    print_report,
)
from blindspot.app.commands.options import takes_settings
from blindspot.backend.evaluation.settings import COMPARED, ComparisonOptions, OracleOptions


@takes_settings(ComparisonOptions, "options", COMPARED)
@takes_settings(OutputForm, "form")
def compare(
    a: Annotated[str, typer.Argument(metavar="A", help="First run.")],
    b: Annotated[str, typer.Argument(metavar="B", help="Run to compare it with.")],
    *,
    options: dict[str, Any],
    find: Annotated[
        bool, typer.Option("--find-slices", help="List the slices that explain most of the difference.")
    ] = False,
    form: dict[str, bool],
    study: StudyOption = None,
) -> None:
    """Compare two runs: the difference with its interval and p value, and the questions that only one of them
    answers.
    """
    from blindspot.backend.evaluation.comparison_report import compare_with
    from blindspot.backend.evaluation.slice_report import find_in_runs

    check_form(form)
    chosen = ComparisonOptions(**by_bucket(options))
    if find and chosen.measure != "success":
        raise typer.BadParameter("--find-slices tests Success@k only; for other measures use --by slice or --slice")
    opened = open_study(study)
    report = (
        find_in_runs(opened, (a, b), chosen.k, chosen.relevance, chosen.rule, chosen.slice)
        if find
        else compare_with(opened, a, b, chosen)
    )
    print_report(report, form)


@takes_settings(OracleOptions, "options")
def oracle(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Two or more runs.")],
    *,
    options: dict[str, Any],
    json: AsJson = False,
    study: StudyOption = None,
) -> None:
    """Show what an oracle reaches that chooses the best of several runs for each question, and how often it chooses
    each.
    """
    from blindspot.backend.evaluation.oracle import oracle as choose

    found = choose(open_study(study), runs, **options)
    if json:
        from blindspot.app.terminal_tables import print_json

        print_json(found.as_json())
    else:
        from blindspot.app.terminal_tables import print_oracle

        print_oracle(found)
