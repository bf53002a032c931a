"""`blindspot status`, `retrieve` and `report`: the state of a study, its runs and their accuracy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from blindspot.app.commands.common import (
    MEASURE_HELP,
    AsCsv,
    AsJson,
    Device,
    RelevanceOption,
    Split,
    StudyOption,
    WithoutOwn,
    do,
    open_study,
    print_report,
    whole_numbers,
)
from blindspot.app.commands.options import LateCommand, takes_options
from blindspot.backend.text.counting import counted

if TYPE_CHECKING:
    from blindspot.backend.core.declared import Declared
    from blindspot.backend.core.runs import Run
    from blindspot.backend.retrieval.retriever import RetrieverKind


def status(study: StudyOption = None, json: AsJson = False) -> None:
    """Show what the study contains and the one next command."""
    from blindspot.app.terminal_tables import print_json, print_status
    from blindspot.backend.core.summary import summary
    from blindspot.backend.upkeep.path import next_command

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

    from blindspot.backend.core.declared import declared
    from blindspot.backend.retrieval.retriever import RETRIEVERS

    settings: dict[str, Declared] = {}
    for kind in RETRIEVERS:
        for setting in declared(kind.options).values():
            takers = ", ".join(other.title for other in RETRIEVERS if setting.name in declared(other.options))
            settings.setdefault(setting.name, changed(setting, help=f"{takers[0].upper()}{takers[1:]}: {setting.help}"))
    about = "; ".join(f"{kind.name}: {kind.help}{_unavailable(kind)}" for kind in RETRIEVERS)
    with_option = typer.Option("--with", metavar="|".join(RETRIEVERS.names()), help=f"Retriever to use. {about}.")

    def command(
        *,
        retriever: str,
        k: Annotated[
            int | None, typer.Option("--k", min=1, help="Hits per question (default: from study.toml, 100).")
        ] = None,
        split: Split = None,
        name: Annotated[str | None, typer.Option(help="Name of the run (default: as in bm25-dev).")] = None,
        options: dict[str, Any],
        rule: Annotated[
            str, typer.Option(help="Answer matching rule: dpr, regex, entityquestions or rocketqa_mining.")
        ] = "dpr",
        replace: Annotated[bool, typer.Option("--replace", help="Replace the run of this name if it exists.")] = False,
        without_own: WithoutOwn = False,
        device: Device = None,
        study: StudyOption = None,
    ) -> None:
        RETRIEVERS.get(retriever)
        opened = open_study(study)
        from blindspot.backend.retrieval.retrieve import retrieve

        result = do(
            retrieve,
            opened,
            kind=retriever,
            k=k,
            split=split,
            name=name,
            rule=rule,
            replace=replace,
            device=device,
            without_own_passage=without_own,
            **options,
        )
        _print_run(result)

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
        f"Run {run.name}: {counted(count, 'question')}, k={run.hits.k}, {seconds} s "
        f"({cost.per_second:,.0f} questions/s{live}{size})."
    )
    if tuned := run.manifest.get("tuned"):
        weight = run.manifest.get("weight") or ", ".join(f"{w:g} x {n}" for n, w in run.manifest["weights"].items())
        print(f"Weight {weight} gave the best {tuned['measure']} on {tuned['on']} (n={tuned['n']}).")


def report(
    run: Annotated[list[str] | None, typer.Option("--run", help="Run to report (repeatable; default: all).")] = None,
    by: Annotated[
        Literal["relation", "frequency", "bucket", "split", "slice"] | None,
        typer.Option(metavar="relation|frequency|split|slice", help="Add a table by this grouping."),
    ] = None,
    measure: Annotated[
        list[str] | None,
        typer.Option("--measure", metavar="MEASURE", help=f"Measure to report instead (repeatable): {MEASURE_HELP}"),
    ] = None,
    relevance: RelevanceOption = "answers",
    rule: Annotated[str, typer.Option(help="Answer matching rule.")] = "dpr",
    k: Annotated[str, typer.Option("--k", metavar="K,K,...", help="Cut-offs.")] = "1,5,20,100",
    json: AsJson = False,
    csv: AsCsv = False,
    latex: Annotated[bool, typer.Option("--latex", help="Print a LaTeX table (booktabs).")] = False,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Write one HTML file: conclusions, examples, tables and plots."),
    ] = None,
    beside: Annotated[
        list[Path] | None,
        typer.Option("--beside", metavar="FILE", help="MTEB result file to print beside the report (repeatable)."),
    ] = None,
    study: StudyOption = None,
) -> None:
    """Report the accuracy of runs, with n and intervals."""
    from blindspot.backend.evaluation.report import report as make

    if json + csv + latex + (html is not None) > 1:
        raise typer.BadParameter("give one of --json, --csv, --latex, --html")
    if html is not None:
        from blindspot.backend.reports.html_report import write_html_report

        size = write_html_report(open_study(study), html, run or None, relevance, rule, measure or ())
        print(f"Wrote {html}: {size / 1e6:.1f} MB.")
        return
    cut_offs = whole_numbers(k, "--k", "10,50,1000")
    grouping = "bucket" if by == "frequency" else by
    result = make(open_study(study), run or None, grouping, relevance, rule, cut_offs, measures=measure or ())
    print_report(result, json, csv, latex)
    if beside and not (json or csv or latex):
        _print_beside(beside, measure or ["ndcg"], cut_offs)


def _print_beside(files: list[Path], measures: list[str], cut_offs: list[int]) -> None:
    """Print the figures of MTEB result files: the same measures and cut-offs, measured elsewhere."""
    from blindspot.app.console import Terminal
    from blindspot.backend.core.result_table import ResultTable
    from blindspot.backend.evaluation.results_files import NAMES, read_mteb

    keys = [NAMES[name][0].format(k) for name in measures if name in NAMES for k in cut_offs]
    entries = [entry for file in files for entry in read_mteb(file)]
    keys = [key for key in dict.fromkeys(keys) if any(key in entry.figures for entry in entries)]
    rows = [
        [
            each.name,
            each.task,
            each.split,
            *(f"{100 * each.figures[key]:.1f}" if key in each.figures else "" for key in keys),
        ]
        for each in entries
    ]
    Terminal().print(ResultTable("Measured elsewhere (MTEB), %", ["", "task", "split", *keys], rows).as_rich())
