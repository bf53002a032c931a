"""`blindspot status`, `retrieve` and `report`: the state of a study, its runs and their accuracy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from blindspot.app.commands.common import (
    AsJson,
    OutputForm,
    StudyOption,
    by_bucket,
    check_form,
    do,
    open_study,
    print_json,
    print_report,
)
from blindspot.app.commands.options import LateCommand, takes_options, takes_settings
from blindspot.backend.core.declared import build_settings
from blindspot.backend.evaluation.settings import ReportOptions
from blindspot.backend.text.number_words import quantity

if TYPE_CHECKING:
    from blindspot.backend.core.declared import DeclaredSetting
    from blindspot.backend.core.runs import Run
    from blindspot.backend.retrieval.retriever import RetrieverKind


def status(study: StudyOption = None, json: AsJson = False) -> None:
    """Show what the study contains and the one next command."""
    from blindspot.app.terminal_tables import print_status
    from blindspot.backend.core.summary import summary
    from blindspot.backend.upkeep.next_command import next_command

    opened = open_study(study)
    if json:
        print_json(summary(opened))
    else:
        print_status(summary(opened), next_command(opened))


def retrieve() -> None:
    """Search every question and store the hits as a run."""


def _unavailable(kind: RetrieverKind) -> str:
    from blindspot.backend.core.extras import first_missing

    extra = first_missing(kind.extras)
    return "" if extra is None else f" (not installed: needs the extra {extra})"


def _retrieve_command() -> Callable[..., None]:
    """Build the command with the options of every registered kind of retriever."""
    from dataclasses import replace as changed

    from blindspot.backend.core.declared import declared_settings
    from blindspot.backend.retrieval.retrieve import RunSettings, retrieve
    from blindspot.backend.retrieval.retriever import RETRIEVERS

    settings: dict[str, DeclaredSetting] = dict(declared_settings(RunSettings))
    for kind in RETRIEVERS:
        for setting in declared_settings(kind.options).values():
            takers = ", ".join(other.title for other in RETRIEVERS if setting.name in declared_settings(other.options))
            settings.setdefault(setting.name, changed(setting, help=f"{takers[0].upper()}{takers[1:]}: {setting.help}"))
    about = "; ".join(f"{kind.name}: {kind.help}{_unavailable(kind)}" for kind in RETRIEVERS)
    with_option = typer.Option("--with", metavar="|".join(RETRIEVERS.names()), help=f"Retriever to use. {about}.")

    def command(*, retriever: str, options: dict[str, Any], study: StudyOption = None) -> None:
        RETRIEVERS.get(retriever)
        _print_run(do(retrieve, open_study(study), kind=retriever, **options))

    command.__annotations__["retriever"] = Annotated[str, with_option]
    return takes_options(settings.values(), "options")(command)


class RetrieveCommand(LateCommand):
    build = staticmethod(_retrieve_command)


def _print_run(run: Run) -> None:
    from blindspot.backend.retrieval.cost import cost_of

    cost, seconds, count = cost_of(run.manifest), run.manifest["search_seconds"], run.manifest["questions"]
    live = "" if cost.p50_ms is None else f"; one question: {cost.p50_ms:.3g} ms, median of {cost.n}"
    size = "" if cost.index_bytes is None else f"; index: {cost.index_bytes / 1e6:,.1f} MB"
    print(
        f"Run {run.name}: {quantity(count, 'question')}, k={run.hits.k}, {seconds} s "
        f"({cost.per_second:,.0f} questions/s{live}{size})."
    )
    if tuned := run.manifest.get("tuned"):
        weight = run.manifest.get("weight") or ", ".join(f"{w:g} x {n}" for n, w in run.manifest["weights"].items())
        print(
            f"Weight {weight} gave the best {tuned['measure']} on {tuned['on']} (n = {quantity(tuned['n'], 'question')})."
        )


@takes_settings(ReportOptions, "options")
@takes_settings(OutputForm, "form")
def report(
    *,
    options: dict[str, Any],
    form: dict[str, bool],
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Write one HTML file: conclusions, examples, tables and plots."),
    ] = None,
    study: StudyOption = None,
) -> None:
    """Report the accuracy of runs, with n and intervals."""
    from blindspot.backend.evaluation.report import report as make

    check_form(form, html=html)
    chosen = build_settings(ReportOptions, by_bucket(options))
    if html is not None:
        from blindspot.backend.reports.html_report import write_html_report

        size = write_html_report(open_study(study), html, chosen.runs, chosen.relevance, chosen.rule, chosen.measures)
        print(f"Wrote {html}: {size / 1e6:.1f} MB.")
        return
    print_report(make(open_study(study), **vars(chosen)), form)
