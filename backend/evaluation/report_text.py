"""Format a report as tables for people and as figures for scripts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

from blindspot.backend.core.result_table import ABSENT, Column, ResultTable, percent, percent_with_interval
from blindspot.backend.core.settings import Unit
from blindspot.backend.core.units import n_value
from blindspot.backend.evaluation.measures import MEASURES
from blindspot.backend.evaluation.report import MRR_DEPTH, By, Group, JudgedShare, MeasureFigures, Report, RunReport
from blindspot.backend.retrieval.cost import Cost

if TYPE_CHECKING:
    from blindspot.analysis.accuracy import Estimate

COLUMNS = ("run", "relevance", "group", "measure", "k", "value", "n", "units", "n_groups", "low", "high", "method")
HEADINGS = {"relation": "Relation", "bucket": "Frequency", "split": "Split", "slice": "Slice"}


def as_dict(report: Report) -> dict:
    """Return the JSON form. Values are between 0 and 1, and null if n is 0. A script reads, for example,
    `runs[NAME].k["1"].success`.
    """
    return {
        "convention": report.convention,
        "notes": report.notes,
        "by": report.grouping,
        "runs": {run.name: _run_dict(run, report.grouping) for run in report.runs},
    }


def _run_dict(run: RunReport, grouping: str | None) -> dict:
    about_run = {
        "retriever": run.retriever,
        "hits": run.k,
        "relevance": run.kind,
        "n": len(run.questions),
        "unit": run_unit(run),
        "units": run.units.count,
        "k": _success(run.success),
        f"mrr@{MRR_DEPTH}": None if run.mrr is None else {"relevance": run.kind, **_mean(run.mrr)},
        "recall": {str(k): {"relevance": "gold", **_mean(estimate)} for k, estimate in run.recall.items()},
        "relations": _group_dicts(run.relations),
        "macro": {
            "k": {
                str(k): {
                    "success": e.value,
                    "n_groups": e.n_groups,
                    "n": e.n,
                    "units": e.n_units,
                    "low": e.low,
                    "high": e.high,
                    "method": e.method,
                }
                for k, e in run.macro.items()
            }
        },
        "cost": asdict(run.cost),
        "notes": run.notes,
    }
    if run.measures:
        about_run["measures"] = {name: _measure_dict(name, figures, grouping) for name, figures in run.measures.items()}
    if run.judged:
        about_run["judged"] = {
            str(k): {**_mean(share.judged), "success_lower": share.lower.value, "success_upper": share.upper.value}
            for k, share in run.judged.items()
        }
    return about_run if grouping is None else about_run | {"groups": _group_dicts(run.groups)}


def _measure_dict(name: str, measure_figures: MeasureFigures, grouping: str | None) -> dict:
    """Return the figures of one measure by cut-off. A measure without a cut-off has the key "all"."""
    has_cut_off = MEASURES.get(name).has_cut_off

    def by_k(estimates: dict[int, Estimate]) -> dict:
        return {str(k) if has_cut_off else "all": _mean(each) for k, each in estimates.items()}

    made = {
        "relevance": measure_figures.kind,
        "k": by_k(measure_figures.at),
        "macro": {
            key: each | {"n_groups": measure_figures.macro[k].n_groups}
            for (key, each), k in zip(by_k(measure_figures.macro).items(), measure_figures.macro, strict=True)
        },
    }
    if grouping is not None:
        made["groups"] = {
            each.key: {"name": each.name, "n": each.n, "k": by_k(each.at)} for each in measure_figures.groups
        }
    return made


def _group_dicts(groups: list[Group]) -> dict:
    return {group.key: {"name": group.name, "n": group.n, "k": _success(group.at)} for group in groups}


def _mean(e: Estimate) -> dict:
    return {"value": e.value, "n": e.n, "units": e.n_units, "low": e.low, "high": e.high, "method": e.method}


def _success(estimates: dict[int, Estimate]) -> dict:
    return {
        str(k): {"success": e.value, "n": e.n, "units": e.n_units, "low": e.low, "high": e.high}
        for k, e in estimates.items()
    }


def report_figures(report: Report) -> ResultTable:
    """Return a table with one figure per row and the columns COLUMNS. The explanation of how the figures were computed
    is only in the JSON form and in the terminal.
    """
    rows = [
        (run.name, kind, group, measure, k, e.value, e.n, e.n_units, e.n_groups, e.low, e.high, e.method)
        for run in report.runs
        for group, measure, kind, k, e in _run_figures(run, report.grouping)
    ]
    return ResultTable("", COLUMNS, rows)


def _run_figures(run: RunReport, grouping: str | None) -> Iterator[tuple[str, str, str, int | None, Estimate]]:
    """Yield (group, measure, relevance, k, estimate) for a run, first for all its questions and then for its groups."""
    yield from (("all", "success", run.kind, k, e) for k, e in run.success.items())
    yield from (("all", "macro success", run.kind, k, e) for k, e in run.macro.items())
    if run.mrr is not None:
        yield "all", "mrr", run.kind, MRR_DEPTH, run.mrr
    yield from (("all", "recall", "gold", k, e) for k, e in run.recall.items())
    yield from (("all", "judged", run.kind, k, share.judged) for k, share in run.judged.items())
    if grouping is not None:
        yield from ((group.name, "success", run.kind, k, e) for group in run.groups for k, e in group.at.items())
    for name, figures in run.measures.items():
        yield from _measure_lines(name, figures, run)


def _measure_lines(
    name: str, measure_figures: MeasureFigures, run: RunReport
) -> Iterator[tuple[str, str, str, int | None, Estimate]]:
    """Yield the rows of a requested measure, without figures that every report already contains."""
    has_cut_off = MEASURES.get(name).has_cut_off
    rows = [("all", name, k, e) for k, e in measure_figures.at.items()]
    rows += [("all", f"macro {name}", k, e) for k, e in measure_figures.macro.items()]
    rows += [(group.name, name, k, e) for group in measure_figures.groups for k, e in group.at.items()]
    for group, measure, k, e in rows:
        listed = (
            name == "success"
            or (measure == "mrr" and group == "all" and k == MRR_DEPTH)
            or (measure == "recall" and group == "all" and measure_figures.kind == "gold")
        )
        if not listed:
            yield group, measure, measure_figures.kind, k if has_cut_off else None, e


def report_tables(report: Report) -> list[ResultTable]:
    judged = [_judged_table(report)] if any(run.judged for run in report.runs) else []
    cost = cost_tables(report)
    if report.measures:
        return measure_tables(report) + judged + cost
    tables = [*overall_tables(report), *judged, *cost]
    if report.grouping is not None:
        tables += [_group_table(report, report.grouping, run) for run in report.runs if run.groups]
    return tables


def overall_tables(report: Report) -> list[ResultTable]:
    """Return the tables of Success@k, MRR and Recall over all questions, and of the averages over relations."""
    macro = [run for run in report.runs if run.macro]
    return [_success_table(report), _ranks_table(report), *([_macro_table(report, macro)] if macro else [])]


def cost_tables(report: Report) -> list[ResultTable]:
    """Return the table of the retrievers' speed and index size; [] if no run records them."""
    return [_cost_table(report)] if any(run.cost.p50_ms is not None for run in report.runs) else []


def measure_tables(report: Report) -> list[ResultTable]:
    """Return the tables of the requested measures, overall and by the report's grouping."""
    return [table for name in report.measures for table in _measure_tables(report, name)]


def _success_table(report: Report) -> ResultTable:
    rows = [[run.name, run_n(run), *(run.success.get(k) for k in report.ks)] for run in report.runs]
    return ResultTable("Success@k, %", ["Run", "n", *_cutoff_headings(report)], rows)


def _ranks_table(report: Report) -> ResultTable:
    kinds = sorted({run.kind for run in report.runs})
    mixed = len(kinds) > 1
    rows = []
    for run in report.runs:
        mrr = percent_with_interval(run.mrr) + (f" {run.kind}" if mixed and run.mrr is not None else "")
        rows.append([run.name, mrr, _n_text(run.recall, run_unit(run)), *(run.recall.get(k) for k in report.ks)])
    caption = f"MRR@{MRR_DEPTH} over {' or '.join(kinds)}; Recall@k over gold, % (n: questions with gold)"
    mrr = f"MRR@{MRR_DEPTH}" + ("" if mixed else f" ({kinds[0]})")
    return ResultTable(caption, ["Run", mrr, "n", *(f"R{k} (gold)" for k in _cutoff_headings(report))], rows)


def _macro_table(report: Report, runs: list[RunReport]) -> ResultTable:
    firsts = [next(iter(run.macro.values())) for run in runs]
    rows = [
        [run.name, first.n_groups, n_value(first.n, first.units, run_unit(run)), *(run.macro.get(k) for k in report.ks)]
        for run, first in zip(runs, firsts, strict=True)
    ]
    return ResultTable(
        "Success@k averaged over relations, %", ["Run", "Relations", "n", *_cutoff_headings(report)], rows
    )


def _group_table(report: Report, grouping: By, run: RunReport) -> ResultTable:
    rows = [
        [group.name, n_value(group.n, group.units, run_unit(run)), *(group.at.get(k) for k in report.ks)]
        for group in run.groups
    ]
    return ResultTable(
        f"{run.name}: Success@k by {HEADINGS[grouping].lower()}, %",
        [HEADINGS[grouping], "n", *_cutoff_headings(report)],
        rows,
    )


def _measure_tables(report: Report, name: str) -> Iterator[ResultTable]:
    measure = MEASURES.get(name)
    ks = (
        list(report.ks)
        if measure.has_cut_off
        else [max((k for run in report.runs for k in run.measures[name].at), default=1)]
    )
    heads = [f"@{k}" for k in ks] if measure.has_cut_off else [measure.title]

    def cells(estimates: dict[int, Estimate]) -> list[Estimate | None]:
        # A measure without a cut-off has one figure, at whatever depth the run has.
        return [estimates.get(k) for k in ks] if measure.has_cut_off else [next(iter(estimates.values()), None)]

    figures = {run.name: run.measures[name] for run in report.runs}
    over = " or ".join(sorted({each.kind for each in figures.values()}))
    title, unit = measure.title_at("k"), run_unit(report.runs[0])
    rows = [[run, _n_text(each.at, unit), *cells(each.at)] for run, each in figures.items()]
    yield ResultTable(f"{title} over {over}, %", ["Run", "n", *heads], rows)
    averaged = [
        [run, next(iter(each.macro.values())).n_groups, _n_text(each.macro, unit), *cells(each.macro)]
        for run, each in figures.items()
        if each.macro
    ]
    if averaged:
        yield ResultTable(f"{title} averaged over relations, %", ["Run", "Relations", "n", *heads], averaged)
    if report.grouping is None:
        return
    head = HEADINGS[report.grouping]
    for run, each in figures.items():
        if each.groups:
            lines = [[group.name, n_value(group.n, group.units, unit), *cells(group.at)] for group in each.groups]
            yield ResultTable(f"{run}: {title} by {head.lower()}, %", [head, "n", *heads], lines)


def run_unit(run: RunReport) -> Unit:
    """Return the unit of observation of a run's questions."""
    return run.units.name


def run_n(run: RunReport) -> int | str:
    """Return the n for a run's table row."""
    return n_value(len(run.questions), run.units.count, run_unit(run))


def _n_text(estimates: dict[int, Estimate], unit: Unit) -> int | str:
    largest = max(estimates.values(), key=lambda each: each.n, default=None)
    return 0 if largest is None else n_value(largest.n, largest.units, unit)


def _judged_table(report: Report) -> ResultTable:
    def share_cell(share: JudgedShare | None) -> str:
        if share is None:
            return ABSENT
        return f"{percent(share.judged)} [{percent(share.lower)}\N{EN DASH}{percent(share.upper)}]"

    rows = [
        [run.name, run_n(run), *(share_cell(run.judged.get(k)) for k in report.ks)] for run in report.runs if run.judged
    ]
    return ResultTable("Judged@k, % [bounds of Success@k]", ["Run", "n", *_cutoff_headings(report)], rows)


def _cost_table(report: Report) -> ResultTable:
    rows = [
        [run.name, per_second(run.cost), one_question(run.cost), index_size(run.cost)]
        for run in report.runs
        if run.cost.per_second is not None
    ]
    heads = ("Run", "Questions/s", "Median of one question, ms (n)", Column("Index", "MB"))
    return ResultTable("Cost, measured with each run", heads, rows)


def per_second(cost: Cost) -> str:
    """Return the questions per second as text, or a dash for an imported run."""
    return ABSENT if cost.per_second is None else f"{cost.per_second:,.{0 if cost.per_second >= 10 else 1}f}"


def one_question(cost: Cost) -> str:
    """Return the median time per question in milliseconds as text, with the number of timed questions in brackets."""
    return ABSENT if cost.p50_ms is None else f"{cost.p50_ms:,.{0 if cost.p50_ms >= 10 else 1}f} ({cost.n})"


def index_size(cost: Cost) -> str:
    """Return the size of the index in megabytes (10^6 bytes) as text."""
    return ABSENT if cost.index_bytes is None else f"{cost.index_bytes / 1e6:,.1f}"


def _cutoff_headings(report: Report) -> list[str]:
    return [f"@{k}" for k in report.ks]
