"""The parts of the Experiments page: the overview of experiments; and the verdict, table and plot of a result."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from blindspot.app import url
from blindspot.app.components.compare_tables import scrolling
from blindspot.app.components.marks import command, methods_note
from blindspot.app.markup import Html, div, join, link, row, span, table, table_head, tag, term
from blindspot.backend.core.result_table import signed_number
from blindspot.backend.evaluation.chart_colours import COLOURS
from blindspot.backend.evaluation.report_plots import SYMBOLS
from blindspot.backend.experiments.papers import ExperimentDescription, experiments
from blindspot.backend.experiments.tables import (
    count_note,
    difference,
    difference_and_interval,
    format_value,
    points_words,
    result_grid,
)
from blindspot.backend.text.number_words import duration, noun_form, quantity

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

SIGNS = {"supported": "✓ ", "not supported": "✗ ", "inconclusive": "", "no finding": ""}
BEST = ("supported", "not supported", "inconclusive", "no finding")


def listed_experiments(results: Sequence[Mapping[str, Any]]) -> dict[str, ExperimentDescription]:
    """Every experiment by name, also those that only older versions, or packages that are gone, could run."""
    former = {
        each["experiment"]: ExperimentDescription(each["paper"], each["source"], each["asks"]) for each in results
    }
    return {name: about for name, about in former.items() if name not in experiments()} | experiments()


def overview_sentence(results: Sequence[Mapping[str, Any]]) -> str:
    """Say how many of the tested claims of the papers hold here, by the newest result of each experiment; of a single
    experiment, what it found.
    """
    listed, newest = listed_experiments(results), newest_findings(results)
    words = [claim["word"] for result in newest for claim, _ in _different_claims(result)]
    if not newest:
        papers = len({about.paper for about in listed.values()})
        return f"No claim is tested yet: {quantity(len(listed), 'experiment')} repeat tables of {papers} papers here."
    ran = f"{len(newest):,} of {quantity(len(listed), 'experiment')} {noun_form(len(newest), 'has', 'have')} run."
    if len(newest) == 1 and _deciding_claim(newest[0]):
        return f"{finding(newest[0])[:-1]}; {ran}"
    return f"{quantity(len(words), 'claim')} of the papers tested{_counted_words(words)}; {ran}"


def newest_findings(results: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the newest result of each experiment, without those of small versions, which are no findings."""
    newest = {result["experiment"]: result for result in reversed(results) if result["verdict"] != "no finding"}
    return list(newest.values())[::-1]


def _counted_words(words: Sequence[str]) -> str:
    """Return how many claims have each verdict, such as ", both inconclusive" or ": 2 supported, 1 inconclusive"."""
    counts = {word: words.count(word) for word in BEST if word in words}
    if len(counts) == 1:
        every = {1: "", 2: "both "}.get(len(words), f"all {len(words):,} ")
        return f", {every}{words[0]}"
    return f": {', '.join(f'{count:,} {word}' for word, count in counts.items())}" if counts else ""


def overview(results: Sequence[Mapping[str, Any]]) -> Html:
    """Every claim that was tested with its figure, and below them all experiments. A claim with the figure and the verdict
    of an earlier one stands below that.
    """
    claims = []
    for result in newest_findings(results):
        for claim, same in _different_claims(result):
            about = [*([claim["about"]] if claim.get("about") else []), *same]
            source = _experiment_link(
                result["experiment"], f"{result['paper']}, {result['source']}", title=result["asks"]
            )
            claims.append(
                row(
                    tag("td", source, cls="left"),
                    tag("td", _paper_words(claim, result), data_name="paper"),
                    tag("td", _claimed_figure(claim, result), data_name="here"),
                    tag("td", _verdict_mark(claim["word"]), cls="left", data_name="verdict"),
                    head=join(
                        _experiment_link(result["experiment"], claim["says"]),
                        *(span(words, cls="about") for words in about),
                    ),
                )
            )
    source, verdict = (tag("th", name, scope="col", cls="left") for name in ("source", "verdict"))
    heads = table_head("claim", source, term("paper", "What the paper reports or claims"), "here", verdict)
    return join(
        div(tag("h2", "Tested claims"), table(heads, claims, "figures papers claimed"), cls="panel") if claims else "",
        _experiment_panels(results),
    )


def _different_claims(result: Mapping[str, Any]) -> list[tuple[Mapping[str, Any], list[str]]]:
    """Return the claims of a result, each with what is said of the later ones that have its figure and verdict."""
    found: list[tuple[Mapping[str, Any], list[str]]] = []
    tested = result["claims"]
    for number, claim in enumerate(tested):
        if any(_same_figure_and_verdict(claim, earlier, result["cells"]) for earlier in tested[:number]):
            continue
        same = [
            f"“{each['says']}” has the same figure and verdict: {reason}"
            for each in tested[number + 1 :]
            if (reason := _same_figure_and_verdict(each, claim, result["cells"]))
        ]
        found.append((claim, same))
    return found


def _claimed_figure(claim: Mapping[str, Any], result: Mapping[str, Any]) -> Html | str:
    """The difference of a claim, and below it, in small print, its interval and n."""
    unit = result["unit"]
    if claim["difference"] is None:
        return difference(claim, unit)
    value, interval = difference_and_interval(claim, unit)
    small = span(f" {interval}, {quantity(claim['n'], 'question')}", cls="interval")
    return span(f"{value}{points_words(unit, _measure(result))}", small, cls="figure")


def _measure(result: Mapping[str, Any]) -> str:
    """Return the measure that the result's plot names, such as "Success@20", or else that of its only k; "" if there is
    none.
    """
    name = (result.get("plot") or {}).get("y", "")
    ks: Sequence[int] = result.get("setting", {}).get("ks") or []
    if re.fullmatch(r"\w+@\d+", name):
        return name
    return f"Success@{ks[0]}" if len(ks) == 1 and result.get("convention", "").startswith("Success@k") else ""


def _paper_words(claim: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    """Return the paper's figure for a claim, or else what it claims of the difference."""
    published = {(cell["row"], cell["column"]): cell["published"] for cell in result["cells"]}
    ahead, behind = (tuple(claim.get(name) or ()) for name in ("ahead", "behind"))
    more, less = published.get(ahead), published.get(behind) if behind else 0.0
    if more is not None and less is not None:
        return f"{signed_number(more - less)}{points_words(result['unit'])}"
    scale = 100 if result["unit"] == "%" else 1
    if claim.get("within") is not None:
        return f"within ±{scale * claim['within']:g}"
    return f"above {scale * claim.get('by', 0.0):g}"


def _same_figure_and_verdict(
    claim: Mapping[str, Any], earlier: Mapping[str, Any], cells: Sequence[Mapping[str, Any]]
) -> str | None:
    """Return why an earlier claim has the same figure, if it has and the verdict is the same too."""
    return _same_figure(claim, earlier, cells) if earlier["word"] == claim["word"] else None


def _why_same(
    claim: Mapping[str, Any], earlier_claims: Sequence[Mapping[str, Any]], cells: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Say why a claim has the figure of an earlier one, if it has, in one sentence at most."""
    reasons = (_same_figure(claim, earlier, cells) for earlier in earlier_claims)
    return [f"The same figure as above: {words}" for words in reasons if words][:1]


def _experiment_panels(results: Sequence[Mapping[str, Any]]) -> Html:
    """The experiments whose claims are not in the table above: those that train nothing, and, folded, those that train."""
    listed = listed_experiments(results)
    told = {result["experiment"] for result in newest_findings(results) if result["claims"]}
    free = [name for name, about in listed.items() if name not in told and about.needs.startswith("trains nothing")]
    trains = [name for name in listed if name not in told and name not in free]
    panels = []
    if free:
        title = tag("h2", "More experiments that train nothing" if told else "Experiments that train nothing")
        panels.append(div(title, scrolling(_experiments_table(free, results)), cls="panel"))
    if trains:
        words = f"{quantity(len(trains), 'experiment')} that {noun_form(len(trains), 'trains', 'train')} models"
        listed_below = scrolling(_experiments_table(trains, results))
        panels.append(tag("details", tag("summary", words), listed_below, cls="panel fold"))
    return join(*panels)


def _experiments_table(names: Sequence[str], results: Sequence[Mapping[str, Any]]) -> Html:
    """Experiments by paper: the question, the paper's answer and the table that it is from, the verdict here with the
    deciding figure, and what a run trains and needs.
    """
    listed, rows = listed_experiments(results), []
    for paper in dict.fromkeys(listed[name].paper for name in names):
        rows.append(tag("tr", tag("th", paper, scope="rowgroup", colspan=4, cls="left"), cls="paper"))
        for name in (name for name in names if listed[name].paper == paper):
            about, state = listed[name], _state(name, results)
            asks = _experiment_link(name, about.asks, title=f"blindspot experiment {name}")
            cells = (
                tag("td", join(about.reports or "–", span(about.source, cls="about")), cls="left"),
                tag("td", state, cls="left not-run" if state == "not run" else "left"),
                tag("td", about.needs.removeprefix("trains nothing").removeprefix("; needs ") or "–", cls="left wide"),
            )
            rows.append(row(*cells, head=asks))
    is_free = all(listed[name].needs.startswith("trains nothing") for name in names)
    heads = (("the paper reports", "left"), ("here", "left"), ("needs" if is_free else "trains and needs", "left wide"))
    return table(
        table_head("question", *(tag("th", name, scope="col", cls=cls) for name, cls in heads)),
        rows,
        "figures papers listed",
    )


def _state(name: str, results: Sequence[Mapping[str, Any]]) -> Html | str:
    """Return the best verdict of an experiment with the figure that decides it and the time that it took."""
    of_name = [result for result in results if result["experiment"] == name]
    if not of_name:
        return "not run"
    best = min(of_name, key=lambda result: BEST.index(result["verdict"]))
    if best["verdict"] == "no finding":
        return "small version ran"
    words, deciding = [], _deciding_claim(best)
    if deciding is not None:
        words.append(" ".join(difference_and_interval(deciding, best["unit"])))
    if best.get("seconds"):
        words.append(duration(best["seconds"]))
    return span(_verdict_mark(best["verdict"]), *(f", {each}" for each in words), cls="whole")


def _experiment_link(name: str, words: str, title: str | None = None) -> Html:
    return link(words, url.href(url.EXPERIMENTS, {"experiment": name}), title=title)


def _verdict_mark(verdict: str) -> Html:
    return span(f"{SIGNS[verdict]}{verdict}", cls=f"word {verdict.replace(' ', '-')}")


def result_table(result: Mapping[str, Any]) -> Html:
    """Our figures with their intervals in small print, and the paper's figure if there is one."""
    rows, columns, cells = result_grid(result)
    unit = result["unit"]
    head = tag(
        "tr",
        tag("th", "small print: 95% intervals", scope="col", cls="left soft"),
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
    deciding = _deciding_claim(result)
    if deciding is None:
        return result["sentence"]
    why = f" ({deciding['because']})" if deciding["because"] else ""
    figures = difference(deciding, result["unit"], _measure(result))
    return f"{result['verdict'].capitalize()} here{why}: “{deciding['says']}”: {figures}."


def _deciding_claim(result: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the first claim with the verdict of the result; None if it has no figure."""
    deciding = next((claim for claim in result["claims"] if claim["word"] == result["verdict"]), None)
    return None if deciding is None or deciding["difference"] is None else deciding


def verdict_panel(result: Mapping[str, Any]) -> Html:
    """The size of the experiment, each claim with its verdict and figures, and the notes on demand."""
    claims, shown = [], result["claims"]
    for number, claim in enumerate(shown):
        about = [span(claim["about"], cls="soft")] if claim.get("about") else []
        same = [span(words, cls="soft") for words in _why_same(claim, shown[:number], result["cells"])]
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
    return f"{less['column']} has the same figure for the two."


def commands(name: str) -> Html:
    """The commands that plan and run the full experiment, folded."""
    line = f"blindspot experiment {name}"
    said = tag("p", command(f"{line} --plan"), " estimates the time, ", command(line), " runs it.", cls="convention")
    return tag("details", tag("summary", "Command line"), said, cls="how")


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
    ticks = made.get("ticks") or {}  # its keys are text, as in every JSON object
    named = {"tickvals": [float(x) for x in ticks], "ticktext": list(map(escape, ticks.values()))} if ticks else {}
    figure.update_layout(
        xaxis={"title": {"text": escape(made["x"])}, "type": "log" if made["logarithmic"] else "linear", **named},
        yaxis={"title": {"text": escape(made["y"]) + (", %" if result["unit"] == "%" else "")}},
        height=380,
        margin={"l": 10, "r": 10, "t": 40, "b": 50},
        legend={"orientation": "h", "yref": "container", "yanchor": "top", "y": 1.0, "x": 0},
    )
    return figure
