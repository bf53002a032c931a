"""The table of a study's runs with their accuracy, by question set, and the links that choose two runs to compare."""

from __future__ import annotations

from collections.abc import Mapping

from blindspot.analysis.accuracy import mean
from blindspot.app import study, url
from blindspot.app.components.compare_tables import measure_heads, run_figures, scrolling
from blindspot.app.components.marks import INTERVAL, letter, methods_note
from blindspot.app.components.marks import SUCCESS as SUCCESS_HELP
from blindspot.app.components.relations_tables import choices
from blindspot.app.markup import Html, div, join, link, row, span, table, table_head, tag, term
from blindspot.app.runs import convention, left_out, retriever_label, short_time
from blindspot.app.study import MeasuredRun
from blindspot.backend.core.study import Study
from blindspot.backend.evaluation.measures import MEASURES, SUCCESS, RankingMeasure
from blindspot.backend.evaluation.pairs import default_pair
from blindspot.backend.evaluation.relevance import Kind
from blindspot.backend.evaluation.report_text import index_size, per_second
from blindspot.backend.evaluation.settings import HEADLINE_K
from blindspot.backend.retrieval.cost import Cost, cost_of

COST = "Median time of one question asked alone. Small print: questions per second when searched together, and the size of the index without models. Both were measured when the run was made."


def run_tables(open_study: Study, runs: Mapping[str, dict]) -> Html:
    """Every run with the chosen measure and its cost, by question set: the set of the compared runs first, then the
    newest. Within a set, those with the highest measure come first.

    A measure that needs to know all relevant passages counts gold passages, as `blindspot report --measure` does.
    """
    first, second = default_pair(runs)
    a, b = url.one_of("a", list(runs), first), url.one_of("b", list(runs), second)
    measure = MEASURES.get(url.one_of("measure", MEASURES.names(), SUCCESS.name))
    relevance: Kind = "gold" if measure.needs_all else "answers"
    shown = {name: runs[name] for name in reversed(list(runs))}
    found = {name: study.measured(open_study, name, relevance, runs[name].get("rule", "dpr")) for name in shown}
    sets: dict[str, list[str]] = {}
    for name in sorted(shown, key=lambda name: name not in (a, b)):
        sets.setdefault(runs[name].get("split") or "all questions", []).append(name)
    order = {name: place for place, name in enumerate(shown)}

    def run_row(name: str) -> Html:
        picks = tag("td", *(_side_link(side, name, a, b) for side in ("a", "b")), cls="picks")
        return row(*_cells(runs[name], found[name], measure), picks, head=name)

    folds = []
    best = {name: _headline_value(found[name], measure) for name in shown}
    for place, (title, names) in enumerate(sets.items()):
        names.sort(key=lambda name: (-best[name], order[name]))
        falls = [best[name] for name in names] == sorted((best[name] for name in names), reverse=True)
        counts = {len(found[name].questions) for name in names}
        head = join(title, span(f" {max(counts):,} questions, {len(names)} run{'s' * (len(names) > 1)}", cls="soft"))
        body = scrolling(table(_headings(measure, falls), map(run_row, names), "figures runs sortable"))
        folds.append(tag("details", tag("summary", head), body, open=not place, cls="run-set"))
    rules = sorted({runs[name].get("rule", "dpr") for name in shown})
    said = " ".join(
        dict.fromkeys(convention(kind, rule) for kind in {f.kind for f in found.values()} for rule in rules)
    )
    compare = (
        link(
            join("Compare ", letter("a"), f" {a} with ", letter("b"), f" {b}"),
            url.href(url.COMPARE, {"a": a, "b": b}),
            cls="button",
        )
        if len(runs) > 1
        else span("Add a second run to compare.", cls="soft")
    )
    options = [
        (each.title_at("k"), url.href(url.HOME, {"a": a, "b": b, "measure": each.name}), each is measure)
        for each in MEASURES
    ]
    meaning = SUCCESS_HELP if measure is SUCCESS else measure.help
    return div(
        div(tag("h2", "Runs"), compare, cls="list-head"),
        choices("measure", options),
        *folds,
        methods_note(f"{said} {measure.title_at('k')}, in percent: {meaning} {INTERVAL}."),
        cls="panel",
    )


def _headline_value(measured_run: MeasuredRun, measure: RankingMeasure) -> float:
    """The measure at the headline's k; -1 where the run has fewer hits or no measured question."""
    k = HEADLINE_K if measure.has_cut_off else measured_run.k
    value = mean(measured_run.values(measure, k)).value if k <= measured_run.k else None
    return -1.0 if value is None else value


def _headings(measure: RankingMeasure, falls: bool) -> Html:
    """falls: whether the rows are sorted by the measure at the headline's k, which its head then says."""
    return table_head(
        "run",
        tag("th", "retriever", scope="col", cls="left wide"),
        tag("th", term("n", "Measured questions: those with answers or gold passages"), scope="col", cls="wide"),
        *measure_heads(measure, HEADLINE_K if falls else None),
        tag("th", term("cost", COST), scope="col", cls="wide"),
        tag("th", "created (UTC)", scope="col", cls="wide"),
        tag("th", "compare as", scope="col", data_unsorted=True),
    )


def _cells(manifest: Mapping, measured_run: MeasuredRun, measure: RankingMeasure) -> list[Html]:
    """The cells of a run between its name and the links A and B."""
    missing = left_out(measured_run)
    by_gold = span(" gold", cls="soft", title="measured by gold passages, because no question of this run has answers")
    return [
        tag("td", retriever_label(manifest), cls="left wide"),
        tag(
            "td",
            f"{len(measured_run.questions):,}",
            span("*", title=missing) if missing else "",
            by_gold if measured_run.kind == "gold" and not measure.needs_all else "",
            cls="wide",
        ),
        *run_figures(measured_run, measure),
        tag("td", _cost(cost_of(manifest)), cls="wide"),
        tag("td", short_time(manifest.get("made")), cls="soft wide"),
    ]


def _rounded(milliseconds: float) -> str:
    """Return a number with three significant digits, and whole milliseconds from 100 on: 78.4, 3,057."""
    return f"{milliseconds:,.0f}" if milliseconds >= 99.95 else f"{milliseconds:.3g}"


def _cost(cost: Cost) -> Html | str:
    """The milliseconds that one question takes; below them, questions per second and the size of the index."""
    if cost.per_second is None:
        return "–"
    size = "" if cost.index_bytes is None else f", {index_size(cost)} MB"
    time = "–" if cost.p50_ms is None else f"{_rounded(cost.p50_ms)} ms"
    return tag("span", time, span(f"{per_second(cost)}/s{size}", cls="interval"), cls="figure")


def _side_link(run_side: str, name: str, run_a: str, run_b: str) -> Html:
    """The link that makes this run A or B. If the run is already on the other side, the two runs swap sides."""
    chosen = name == (run_a if run_side == "a" else run_b)
    pair = (
        {"a": name, "b": run_a if name == run_b else run_b}
        if run_side == "a"
        else {"a": run_b if name == run_a else run_a, "b": name}
    )
    pair["measure"] = url.value("measure")
    return link(
        letter(run_side),
        url.href(url.HOME, pair),
        cls="pick" + (" chosen" if chosen else ""),
        data_focus=f"pick-{run_side}-{name}",
        aria_current="true" if chosen else None,
        title=f"{name} is {run_side.upper()}" if chosen else f"Compare {name} as {run_side.upper()}",
    )
