"""The table of a study's runs with their accuracy, and the choice of two runs to compare."""

from __future__ import annotations

from app import study, url
from app.components.marks import SUCCESS, WILSON, letter
from app.components.parts import described, descriptions
from app.components.tables import run_figures, success_heads
from app.markup import Html, div, join, link, span, tag, term
from app.runs import convention, left_out, retriever_label, short_time
from backend.core.study import Study
from backend.evaluation.findings import default_pair


def run_table(opened: Study, runs: dict[str, dict]) -> Html:
    """Every run with its Success@k, newest first; two runs are marked as A and B."""
    first, second = default_pair(runs)
    a, b = url.one_of("a", list(runs), first), url.one_of("b", list(runs), second)
    found = {name: study.measured(opened, name, "answers", runs[name].get("rule", "dpr")) for name in runs}
    head = tag(
        "tr",
        tag("th", "run", scope="col", cls="left"),
        tag("th", "retriever", scope="col", cls="left"),
        tag("th", "questions", scope="col", cls="left"),
        tag("th", term("n", "Measured questions: those with answers or gold passages"), scope="col"),
        *success_heads(),
        tag("th", "created (UTC)", scope="col"),
        tag("th", "compare as", scope="col"),
    )
    lines, about = [], descriptions(opened, "run")
    for name, manifest in reversed(runs.items()):
        got = found[name]
        missing = left_out(got)
        picks = [_pick(side, name, a, b) for side in ("a", "b")]
        lines.append(
            tag(
                "tr",
                tag("th", described(name, about.get(name)), scope="row"),
                tag("td", retriever_label(manifest), cls="left"),
                tag("td", manifest.get("split") or "all", cls="left"),
                tag(
                    "td",
                    f"{len(got.questions):,}",
                    span("*", title=missing) if missing else "",
                    span(
                        " gold",
                        cls="soft",
                        title="measured by gold passages, because no question of this run has answers",
                    )
                    if got.kind == "gold"
                    else "",
                ),
                *run_figures(got.first, got.k),
                tag("td", short_time(manifest.get("made")), cls="soft"),
                tag("td", *picks, cls="picks"),
            )
        )
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
        div(tag("table", tag("thead", head), tag("tbody", *lines), cls="figures runs"), cls="scrolling"),
        tag(
            "p",
            message,
            " ",
            term("Success@k", SUCCESS),
            " in percent, with the ",
            term("95% interval", WILSON),
            ".",
            cls="convention",
        ),
        cls="panel",
    )


def _pick(side: str, name: str, a: str, b: str) -> Html:
    """The link that makes this run A or B. If the run is already the other side, the two sides swap."""
    chosen = name == (a if side == "a" else b)
    pair = {"a": name, "b": a if name == b else b} if side == "a" else {"a": b if name == a else a, "b": name}
    return link(
        letter(side),
        url.href(url.HOME, pair),
        cls="pick" + (" chosen" if chosen else ""),
        data_focus=f"pick-{side}-{name}",
        aria_current="true" if chosen else None,
        title=f"{name} is {side.upper()}" if chosen else f"Compare {name} as {side.upper()}",
    )
