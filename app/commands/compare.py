"""`blindspot compare`, `misses` and `oracle`: the difference of two runs, the causes of misses, the best of several runs."""

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
    print_json,
    print_report,
)
from blindspot.app.commands.options import takes_settings
from blindspot.backend.evaluation.settings import ComparisonOptions, MissOptions, OracleOptions


@takes_settings(ComparisonOptions, "options")
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


@takes_settings(MissOptions, "options")
@takes_settings(OutputForm, "form")
def misses(
    a: Annotated[str, typer.Argument(metavar="A", help="Run whose misses are counted.")],
    b: Annotated[str | None, typer.Argument(metavar="[B]", help="Second run, over the same questions.")] = None,
    *,
    options: dict[str, Any],
    form: dict[str, bool],
    study: StudyOption = None,
) -> None:
    """Count the causes of one run's misses, or of two runs': near-namesakes, other words, rare subjects and others."""
    from blindspot.backend.evaluation.miss_report import misses as count_causes

    check_form(form)
    opened = open_study(study)
    print_report(count_causes(opened, a, b, MissOptions(**options)), form)


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
        print_json(found.as_json())
    else:
        from blindspot.app.terminal_tables import print_oracle

        print_oracle(found)
