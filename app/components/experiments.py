"""The parts of the Experiments page: the overview of experiments; and the verdict, table and plot of a result."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from blindspot.app import url
from blindspot.app.components.marks import command, methods_note
from blindspot.app.markup import Html, div, join, link, span, tag, term
from blindspot.backend.evaluation.chart_colours import COLOURS
from blindspot.backend.evaluation.report_plots import SYMBOLS
from blindspot.backend.experiments.papers import About, experiments
from blindspot.backend.experiments.tables import count_note, difference, format_value, result_grid
from blindspot.backend.text.number_words import noun_form, quantity

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

SIGNS = {"supported": "✓", "not supported": "✗", "inconclusive": "?", "no finding": "–"}
LINES_IN_WORDS = {
    "other ent": "entities outside the training questions",
    "train ent": "entities of training questions",
    "rand ent": "entities drawn at random",
}
BEST = ("supported", "not supported", "inconclusive", "no finding")


def listed_experiments(results: Sequence[Mapping[str, Any]]) -> dict[str, About]:
    """Every experiment by name, also those that only older versions, or packages that are gone, could run."""
    former = {each["experiment"]: About(each["paper"], each["source"], each["asks"]) for each in results}
    return {name: about for name, about in former.items() if name not in experiments()} | experiments()


def overview_sentence(results: Sequence[Mapping[str, Any]]) -> str:
    """Say how many of the tested claims of the papers hold here, by the newest result of each experiment."""
    listed = listed_experiments(results)
    newest = {result["experiment"]: result for result in reversed(results) if result["verdict"] != "no finding"}
    words = [claim["word"] for result in newest.values() for claim in result["claims"]]
    if not newest:
        papers = len({about.paper for about in listed.values()})
        return (
            f"No claim is tested yet: {quantity(len(listed), 'experiment')} of {papers} papers can run on this study."
        )
    ran = f"{len(newest):,} of {quantity(len(listed), 'experiment')} {noun_form(len(newest), 'has', 'have')} run."
    return f"{quantity(len(words), 'claim')} of the papers tested{_counted_words(words)}; {ran}"


def _counted_words(words: Sequence[str]) -> str:
    """Return how many claims have each verdict, such as ", both inconclusive" or ": 2 supported, 1 inconclusive"."""
    counts = {word: words.count(word) for word in BEST if word in words}
    if len(counts) == 1:
        every = {1: "", 2: "both "}.get(len(words), f"all {len(words):,} ")
        return f", {every}{words[0]}"
    return f": {', '.join(f'{count:,} {word}' for word, count in counts.items())}" if counts else ""


def overview(results: Sequence[Mapping[str, Any]]) -> Html:
    """All experiments by paper, those that ran first: the question of each, and its strongest verdict if it ran."""
    verdicts: dict[str, str] = {}
    for result in results:
        verdicts[result["experiment"]] = min(
            verdicts.get(result["experiment"], result["verdict"]), result["verdict"], key=BEST.index
        )
    panels, listed = [], listed_experiments(results)
    names = sorted(listed, key=lambda name: name not in verdicts)  # experiments that ran come first
    for paper in dict.fromkeys(listed[name].paper for name in names):
        named = [name for name in names if listed[name].paper == paper]
        items = [tag("li", _experiment_link(name, listed[name], verdicts.get(name))) for name in named]
        panels.append(div(tag("h2", paper), tag("ul", *items, cls="asked"), cls="panel"))
    return div(*panels, cls="papers")


def _experiment_link(name: str, about: About, verdict: str | None) -> Html:
    words = span(about.asks, " ", span(f"{name}, {about.source}", cls="soft"))
    return link(join(words, _verdict(verdict) if verdict else ""), url.href(url.EXPERIMENTS, {"experiment": name}))


def _verdict(verdict: str) -> Html:
    return span(f"{SIGNS[verdict]} {verdict}", cls=f"word {verdict.replace(' ', '-')}")


def result_table(result: Mapping[str, Any]) -> Html:
    """Our figures with their intervals in small print, and the paper's figure if there is one."""
    rows, columns, cells = result_grid(result)
    unit = result["unit"]
    head = tag(
        "tr",
        tag("th", "", scope="col"),
        *(tag("th", column, scope="col") for column in columns),
        tag("th", term("n", "Number of questions, and of training seeds if more than one"), scope="col"),
    )
    lines = [
        tag(
            "tr",
            tag("th", row, scope="row"),
            *(tag("td", _figure_cell(cells.get((row, column)), unit)) for column in columns),
            tag("td", count_note(row, cells)),
        )
        for row in rows
    ]
    return div(tag("table", tag("thead", head), tag("tbody", *lines), cls="figures experiment"), cls="panel scrolling")


def _figure_cell(cell: Mapping[str, Any] | None, unit: str) -> Html:
    if cell is None or cell["value"] is None:
        return Html("–")
    paper = "" if cell["published"] is None else span(f"paper {cell['published']:g}", cls="published")
    value, low, high = (
        format_value(cell[name], unit).replace("-", "\N{MINUS SIGN}") for name in ("value", "low", "high")
    )
    between = " to " if cell["low"] < 0 else "–"
    return join(span(value, span(f"{low}{between}{high}", cls="interval"), cls="figure"), paper)


def verdict_sentence(result: Mapping[str, Any]) -> str:
    """The answer in words: the verdict, and the first claim that it comes from with its figure, interval and n."""
    deciding = next((claim for claim in result["claims"] if claim["word"] == result["verdict"]), None)
    if deciding is None:
        return result["sentence"]
    others = len(result["claims"]) - 1
    more = f"; {quantity(others, 'further claim')} below" if others else ""
    return f"{result['sentence']} {claim_words(deciding['says'])}: {difference(deciding, result['unit'])}{more}."


def claim_words(claim: str) -> str:
    """Return a claim with the names of the figure's lines and buckets in words."""
    for name, words in LINES_IN_WORDS.items():
        claim = claim.replace(name, words)
    claim = re.sub(r"bucket (\d+) less bucket (\d+)", r"more frequent (bucket \1) less rarer (bucket \2)", claim)
    return claim[:1].upper() + claim[1:]


def verdict_panel(result: Mapping[str, Any]) -> Html:
    """The verdict with the size of the experiment, each claim with its figures, and the notes on demand."""
    claims = [
        tag(
            "li",
            _verdict(claim["word"]),
            span(claim_words(claim["says"])),
            span(difference(claim, result["unit"]), cls="soft"),
        )
        for claim in result["claims"]
    ]
    n = max((cell["n"] for cell in result["cells"]), default=0)
    measured = f"{result['plot']['y']}, up" if result["plot"] else "Up"
    return div(
        tag(
            "h2",
            f"{SIGNS[result['verdict']]} {quantity(len(claims), 'claim')}: {result['verdict']} ",
            span(f"{measured} to {n:,} questions a cell.", cls="soft"),
        ),
        tag("ul", *claims, cls="claims"),
        methods_note(" ".join([*result["notes"], result["convention"]])),
        cls="panel verdict",
    )


def commands(name: str) -> Html:
    """The commands that plan and run the full experiment, folded."""
    line = f"blindspot experiment {name}"
    said = tag("p", command(f"{line} --plan"), " estimates the time, ", command(line), " runs it.", cls="convention")
    return tag("details", tag("summary", "By commands"), said, cls="how")


def figure_of(result: Mapping[str, Any]) -> Figure:
    """The paper's plot with our figures and intervals."""
    from plotly.graph_objects import Figure, Scatter

    _, _, cells = result_grid(result)
    made, figure = result["plot"], Figure()
    scale = 100 if result["unit"] == "%" else 1
    for number, (name, points) in enumerate(made["series"].items()):
        held = [
            (x, cells[row, column])
            for x, row, column in points
            if (row, column) in cells and cells[row, column]["value"] is not None
        ]
        values = [scale * cell["value"] for _, cell in held]
        whiskers = {
            "type": "data",
            "symmetric": False,
            "thickness": 1,
            "array": [scale * cell["high"] - value for (_, cell), value in zip(held, values, strict=True)],
            "arrayminus": [value - scale * cell["low"] for (_, cell), value in zip(held, values, strict=True)],
        }
        figure.add_trace(
            Scatter(
                x=[x for x, _ in held],
                y=values,
                name=escape(name),
                mode="lines+markers",
                error_y=whiskers,
                marker={"symbol": SYMBOLS[number % len(SYMBOLS)], "size": 9},
                line={"color": COLOURS[number % len(COLOURS)]},
                customdata=[f"n = {cell['n']:,}" for _, cell in held],
                hovertemplate="%{y:.1f}, %{customdata}<extra>%{fullData.name}</extra>",
            )
        )
    figure.update_layout(
        xaxis={"title": {"text": escape(made["x"])}, "type": "log" if made["logarithmic"] else "linear"},
        yaxis={"title": {"text": escape(made["y"]) + (", %" if result["unit"] == "%" else "")}},
        height=380,
        margin={"l": 10, "r": 10, "t": 40, "b": 50},
        legend={"orientation": "h", "yref": "container", "yanchor": "top", "y": 1.0, "x": 0},
    )
    return figure
