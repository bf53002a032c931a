"""`blindspot compare`: the difference between two runs, with its interval and p value."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from blindspot.app.commands.common import (
    AsCsv,
    AsJson,
    AsLatex,
    MeasureOption,
    RelevanceOption,
    StudyOption,
    print_report,
)


def compare(
    a: Annotated[str, typer.Argument(metavar="A", help="First run.")],
    b: Annotated[str, typer.Argument(metavar="B", help="Run to compare it with.")],
    k: Annotated[
        int | None,
        typer.Option(
            "--k",
            min=1,
            help="Cut-off of the groups and of the conclusion (default: 5; 10 for measures other than success).",
        ),
    ] = None,
    by: Annotated[
        Literal["relation", "frequency", "bucket", "slice"] | None,
        typer.Option(metavar="relation|frequency|slice", help="Add a table by this grouping."),
    ] = None,
    slice: Annotated[
        str,
        typer.Option(metavar="EXPRESSION", help="Compare only these questions, as in 'relation:P19 and not bucket:0'."),
    ] = "",
    find: Annotated[
        bool, typer.Option("--find-slices", help="List the slices that explain most of the difference.")
    ] = False,
    measure: MeasureOption = "success",
    relevance: RelevanceOption = "answers",
    rule: Annotated[str, typer.Option(help="Answer matching rule.")] = "dpr",
    json: AsJson = False,
    csv: AsCsv = False,
    latex: AsLatex = False,
    study: StudyOption = None,
) -> None:
    """Compare two runs: the difference with its interval and p value, and the questions that only one of them
    answers.
    """
    from blindspot.backend.core.study import Study
    from blindspot.backend.evaluation.comparison_report import ComparisonOptions, compare_with
    from blindspot.backend.evaluation.slice_report import find_in_runs

    if json + csv + latex > 1:
        raise typer.BadParameter("give one of --json, --csv, --latex")
    if find and measure != "success":
        raise typer.BadParameter("--find-slices tests Success@k only; for other measures use --by slice or --slice")
    opened = Study.open(study)
    report = (
        find_in_runs(opened, a, b, k, relevance, rule, slice)
        if find
        else compare_with(
            opened, a, b, ComparisonOptions(k, "bucket" if by == "frequency" else by, relevance, rule, slice, measure)
        )
    )
    print_report(report, json, csv, latex)


def oracle(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Two or more runs.")],
    k: Annotated[
        int | None, typer.Option("--k", min=1, help="Cut-off (default: 5; 10 for measures other than success).")
    ] = None,
    measure: MeasureOption = "success",
    relevance: RelevanceOption = "answers",
    rule: Annotated[str, typer.Option(help="Answer matching rule.")] = "dpr",
    json: AsJson = False,
    study: StudyOption = None,
) -> None:
    """Show what an oracle reaches that chooses the best of several runs for each question, and how often it chooses
    each.
    """
    from blindspot.backend.core.study import Study
    from blindspot.backend.evaluation.oracle import oracle as choose

    found = choose(Study.open(study), runs, k, measure, relevance, rule)
    if json:
        from blindspot.app.terminal_tables import print_json

        print_json(found.as_json())
    else:
        from blindspot.app.terminal_tables import print_oracle

        print_oracle(found)
