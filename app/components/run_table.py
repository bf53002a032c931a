"""The table of a study's runs with their accuracy, and the choice of two runs to compare."""

from __future__ import annotations

from blindspot.app import study, url
from blindspot.app.components.marks import INTERVAL, letter
from blindspot.app.components.marks import SUCCESS as SUCCESS_HELP
from blindspot.app.components.panel_tables import choices
from blindspot.app.components.parts import described, descriptions
from blindspot.app.components.tables import measure_heads, run_figures
from blindspot.app.markup import Html, div, join, link, span, tag, term
from blindspot.app.runs import convention, left_out, retriever_label, short_time
from blindspot.app.study import Measured
from blindspot.backend.core.study import Study
from blindspot.backend.evaluation.findings import default_pair
from blindspot.backend.evaluation.measures import MEASURES, SUCCESS, RankingMeasure
from blindspot.backend.evaluation.relevance import Kind
from blindspot.backend.evaluation.report_text import index_size, per_second
from blindspot.backend.retrieval.cost import Cost, cost_of

COST = (
    "Median time of one question asked alone. Small print: questions per second searched together, and the size of the "
    "index without models. Measured when the run was made."
)


def run_table(opened: Study, runs: dict[str, dict]) -> Html:
    """Every run with the chosen measure and its cost, newest first; two runs are marked as A and B.

    A measure that needs all relevant passages counts gold passages, as `blindspot report --measure` does.
    """
    first, second = default_pair(runs)
    a, b = url.one_of("a", list(runs), first), url.one_of("b", list(runs), second)
    measure = MEASURES.get(url.one_of("measure", MEASURES.names(), SUCCESS.name))
    relevance: Kind = "gold" if measure.needs_all else "answers"
    found = {name: study.measured(opened, name, relevance, runs[name].get("rule", "dpr")) for name in runs}
    head = tag(
        "tr",
        tag("th", "run", scope="col", cls="left"),
        tag("th", "retriever", scope="col", cls="left"),
        tag("th", "questions", scope="col", cls="left"),
        tag("th", term("n", "Measured questions: those with answers or gold passages"), scope="col"),
        *measure_heads(measure),
        tag("th", term("cost", COST), scope="col"),
        tag("th", "created (UTC)", scope="col", cls="made"),
        tag("th", "compare as", scope="col"),
    )
    about = descriptions(opened, "run")
    lines = []
    for name, manifest in reversed(runs.items()):
        picks = [_pick(side, name, a, b) for side in ("a", "b")]
        row_head = tag("th", described(name, about.get(name)), scope="row")
        lines.append(tag("tr", row_head, *_cells(manifest, found[name], measure), tag("td", *picks, cls="picks")))
    rules = sorted({runs[name].get("rule", "dpr") for name in runs})
    kinds = sorted({got.kind for got in found.values()})
    message = " ".join(dict.fromkeys(convention(kind, rule) for kind in kinds for rule in rules))
    compare = (
        link(
            join("Compare ", letter("a"), f" {a} with ", letter("b"), f" {b}"),
            url.href(url.COMPARE, {"a": a, "b": b}),
            cls="button",
        )
        if len(runs) > 1
        else span("Add a second run to compare.", cls="soft")
    )
    return div(
        div(tag("h2", "Runs"), compare, cls="list-head"),
        choices(
            "measure",
            [
                (each.at("k"), url.href(url.HOME, {"a": a, "b": b, "measure": each.name}), each is measure)
                for each in MEASURES
            ],
        ),
        div(tag("table", tag("thead", head), tag("tbody", *lines), cls="figures runs"), cls="scrolling"),
        tag(
            "p",
            message,
            " ",
            term(measure.at("k"), SUCCESS_HELP if measure is SUCCESS else measure.help),
            " in percent, with the ",
            term("95% interval", INTERVAL),
            ".",
            cls="convention",
        ),
        cls="panel",
    )


def _cells(manifest: dict, measured: Measured, measure: RankingMeasure) -> list[Html]:
    """The cells of one run between its name and the letters A and B."""
    missing = left_out(measured)
    by_gold = span(" gold", cls="soft", title="measured by gold passages, because no question of this run has answers")
    return [
        tag("td", retriever_label(manifest), cls="left"),
        tag("td", manifest.get("split") or "all", cls="left"),
        tag(
            "td",
            f"{len(measured.questions):,}",
            span("*", title=missing) if missing else "",
            by_gold if measured.kind == "gold" and not measure.needs_all else "",
        ),
        *run_figures(measured, measure),
        tag("td", _cost(cost_of(manifest)), cls="cost"),
        tag("td", short_time(manifest.get("made")), cls="soft made"),
    ]


def _cost(cost: Cost) -> Html | str:
    """Milliseconds of one question; below it questions per second and the size of the index."""
    if cost.per_second is None:
        return "–"
    size = "" if cost.index_bytes is None else f", {index_size(cost)} MB"
    time = "–" if cost.p50_ms is None else f"{cost.p50_ms:,.3g} ms"
    return tag("span", time, span(f"{per_second(cost)}/s{size}", cls="interval"), cls="figure")


def _pick(side: str, name: str, a: str, b: str) -> Html:
    """The link that makes this run A or B. If the run is already the other side, the two sides swap."""
    chosen = name == (a if side == "a" else b)
    pair = {"a": name, "b": a if name == b else b} if side == "a" else {"a": b if name == a else a, "b": name}
    pair["measure"] = url.value("measure")
    return link(
        letter(side),
        url.href(url.HOME, pair),
        cls="pick" + (" chosen" if chosen else ""),
        data_focus=f"pick-{side}-{name}",
        aria_current="true" if chosen else None,
        title=f"{name} is {side.upper()}" if chosen else f"Compare {name} as {side.upper()}",
    )
