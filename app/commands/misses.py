"""`blindspot misses`: the causes of a run's misses, counted."""

from __future__ import annotations

from typing import Annotated

import typer

from blindspot.app.commands.common import AsCsv, AsJson, AsLatex, RelevanceOption, StudyOption, print_report


def misses(
    a: Annotated[str, typer.Argument(metavar="A", help="Run whose misses are explained.")],
    b: Annotated[str | None, typer.Argument(metavar="[B]", help="Second run, over the same questions.")] = None,
    k: Annotated[int | None, typer.Option("--k", min=1, help="Cut-off of a miss (default: 5).")] = None,
    slice: Annotated[
        str,
        typer.Option(metavar="EXPRESSION", help="Count only these questions, as in 'first(bm25-dev)<=20'."),
    ] = "",
    relevance: RelevanceOption = "answers",
    rule: Annotated[str, typer.Option(help="Answer matching rule.")] = "dpr",
    json: AsJson = False,
    csv: AsCsv = False,
    latex: AsLatex = False,
    study: StudyOption = None,
) -> None:
    """Count the causes of one run's misses, or of two runs': near-namesakes, other words, rare subjects and others."""
    from dataclasses import replace

    from blindspot.backend.core.study import Study
    from blindspot.backend.evaluation.miss_report import MissOptions
    from blindspot.backend.evaluation.miss_report import misses as count_causes
    from blindspot.backend.training_sets.gold_checks import gold_estimates, unchecked_gold

    if json + csv + latex > 1:
        raise typer.BadParameter("give one of --json, --csv, --latex")
    opened = Study.open(study)
    report = count_causes(opened, a, b, MissOptions(k, relevance, rule, slice))
    checked = [each.sentence() for run in filter(None, (a, b)) for each in gold_estimates(opened, run)]
    report = replace(report, notes=[*report.notes, *(checked or filter(None, [unchecked_gold(opened)]))])
    print_report(report, json, csv, latex)
