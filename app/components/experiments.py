"""The parts of the Experiments page: the overview of experiments; and the verdict, table and plot of a result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from blindspot.app import url
from blindspot.app.components.marks import command, methods_note
from blindspot.app.markup import Html, div, join, link, span, tag, term
from blindspot.backend.evaluation.chart_colours import COLOURS
from blindspot.backend.evaluation.report_plots import SYMBOLS
from blindspot.backend.experiments.papers import WITHOUT_TRAINING, ExperimentDescription, experiments
from blindspot.backend.experiments.tables import count_note, difference, format_value, result_grid
from blindspot.backend.text.number_words import noun_form, quantity

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

SIGNS = {"supported": "✓", "not supported": "✗", "inconclusive": "?", "no finding": "–"}
BEST = ("supported", "not supported", "inconclusive", "no finding")


def listed_experiments(results: Sequence[Mapping[str, Any]]) -> dict[str, ExperimentDescription]:
    """Every experiment by name, also those that only older versions, or packages that are gone, could run."""
    former = {
        each["experiment"]: ExperimentDescription(each["paper"], each["source"], each["asks"]) for each in results
    }
    return {name: about for name, about in former.items() if name not in experiments()} | experiments()


def overview_sentence(results: Sequence[Mapping[str, Any]]) -> str:
    """Say how many of the tested claims of the papers hold here, by the newest result of each experiment."""
    listed = listed_experiments(results)
    newest = {result["experiment"]: result for result in reversed(results) if result["verdict"] != "no finding"}
    words = [claim["word"] for result in newest.values() for claim in result["claims"]]
    if not newest:
        papers = len({about.paper for about in listed.values()})
        return f"No claim is tested yet: {quantity(len(listed), 'experiment')} repeat tables of {papers} papers here."
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
    """All experiments: first those that ran, with their finding, then the others by paper, folded."""
    best: dict[str, Mapping[str, Any]] = {}
    for result in results:  # newest first
        name = result["experiment"]
        best[name] = min(best.get(name, result), result, key=lambda each: BEST.index(each["verdict"]))
    listed = listed_experiments(results)
    ran = [
        tag("li", _experiment_link(name, listed[name], _verdict_mark(result["verdict"])), tag("p", finding(result)))
        for name, result in best.items()
    ]
    others = {name: about for name, about in listed.items() if name not in best}
    papers = []
    for paper in dict.fromkeys(about.paper for about in others.values()):
        of_paper = {name: about for name, about in others.items() if about.paper == paper}
        items = [
            tag("li", _experiment_link(name, about, span(about.needs, cls="soft"))) for name, about in of_paper.items()
        ]
        without = sum(name in WITHOUT_TRAINING for name in of_paper)
        more = span(f", {without} without training" if without else "", cls="soft")
        summary = tag("summary", f"{paper}: {quantity(len(items), 'experiment')}", more)
        papers.append(div(tag("details", summary, tag("ul", *items, cls="asked"), cls="fold"), cls="panel"))
    return join(
        div(tag("h2", "Run on this study"), tag("ul", *ran, cls="asked"), cls="panel") if ran else "",
        div(*papers, cls="papers"),
    )


def _experiment_link(name: str, description: ExperimentDescription, more: Html) -> Html:
    words = span(description.asks, " ", span(f"{name}, {description.source}", cls="soft"))
    return link(join(words, more), url.href(url.EXPERIMENTS, {"experiment": name}))


def _verdict_mark(verdict: str) -> Html:
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


def finding(result: Mapping[str, Any]) -> str:
    """The answer in words: the verdict, and the first claim that it comes from with its figure, interval and n."""
    deciding = next((claim for claim in result["claims"] if claim["word"] == result["verdict"]), None)
    if deciding is None or deciding["difference"] is None:
        return result["sentence"]
    why = f" ({deciding['because']})" if deciding["because"] else ""
    return f"{result['verdict'].capitalize()} here{why}: “{deciding['says']}”: {difference(deciding, result['unit'])}."


def verdict_panel(result: Mapping[str, Any]) -> Html:
    """The size of the experiment, each claim with its verdict and figures, and the notes on demand."""
    claims, shown = [], result["claims"]
    for number, claim in enumerate(shown):
        about = [span(claim["about"], cls="soft")] if claim.get("about") else []
        reasons = [_same_figure(claim, earlier, result["cells"]) for earlier in shown[:number]]
        same = [span(words, cls="soft") for words in reasons if words][:1]
        claims.append(
            tag(
                "li",
                _verdict_mark(claim["word"]),
                div(div(claim["says"]), *(div(words) for words in (*about, *same))),
                span(difference(claim, result["unit"]), cls="soft"),
            )
        )
    n = max((cell["n"] for cell in result["cells"]), default=0)
    measured = f"{result['plot']['y']}, up" if result["plot"] else "Up"
    return div(
        tag(
            "h2",
            f"{quantity(len(claims), 'claim')} of {result['paper']} ",
            span(f"{measured} to {n:,} questions a figure.", cls="soft"),
        ),
        tag("ul", *claims, cls="claims"),
        methods_note(" ".join([*result["notes"], result["convention"]])),
        cls="panel verdict",
    )


def _same_figure(claim: Mapping[str, Any], earlier: Mapping[str, Any], cells: Sequence[Mapping[str, Any]]) -> str:
    """Say why a claim has the figure of an earlier one: what it takes off the same cell is 0; else ""."""
    if claim.get("ahead") != earlier.get("ahead") or earlier.get("behind") or not claim.get("behind"):
        return ""
    less = next((cell for cell in cells if [cell["row"], cell["column"]] == claim["behind"]), None)
    if less is None or less["value"] != 0:
        return ""
    return f"The same figure as above: {less['column']}'s own difference, which is taken off it, is 0."


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
