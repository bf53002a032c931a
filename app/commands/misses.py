"""`blindspot misses`: the causes of a run's misses, counted."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from blindspot.app.commands.common import OutputForm, StudyOption, check_form, open_study, print_report
from blindspot.app.commands.options import takes_settings
from blindspot.backend.evaluation.settings import MissOptions


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
    from dataclasses import replace

    from blindspot.backend.evaluation.miss_report import misses as count_causes
    from blindspot.backend.training_sets.gold_checks import gold_estimates, unchecked_gold_sentence

    check_form(form)
    opened = open_study(study)
    report = count_causes(opened, a, b, MissOptions(**options))
    checked = [each.sentence() for run in filter(None, (a, b)) for each in gold_estimates(opened, run)]
    report = replace(report, notes=[*report.notes, *(checked or filter(None, [unchecked_gold_sentence(opened)]))])
    print_report(report, form)
