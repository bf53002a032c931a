"""The panel of Compare that counts the causes of misses, and the causes of one question on Question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import streamlit as st

from blindspot.analysis.accuracy import Estimate
from blindspot.analysis.significance import Difference
from blindspot.app.components.compare_tables import scrolling
from blindspot.app.components.download_buttons import table_downloads
from blindspot.app.components.marks import letter, methods_note, notice, percentage
from blindspot.app.components.plots import plot
from blindspot.app.markup import Html, div, join, link, show, span, tag, term
from blindspot.app.selection import Selection
from blindspot.app.study import Comparison
from blindspot.backend.core.result_table import signed_ends, signed_number
from blindspot.backend.core.units import count_with_units
from blindspot.backend.evaluation.cause_figures import cause_figures
from blindspot.backend.evaluation.cause_rules import ORDER, RunCauses, Side, run_causes
from blindspot.backend.evaluation.causes import CAUSES, Cause
from blindspot.backend.evaluation.comparison import SURE
from blindspot.backend.evaluation.comparison_words import p_words
from blindspot.backend.evaluation.miss_facts import MissExplanation
from blindspot.backend.evaluation.miss_report import MissReport
from blindspot.backend.evaluation.miss_table import NONE, CauseLine, MissTable, RunMisses, miss_table
from blindspot.backend.evaluation.report_plots import cause_plot
from blindspot.backend.evaluation.slice_finder import join_expressions, write_condition
from blindspot.backend.evaluation.slices import by_results
from blindspot.backend.text.number_words import quantity

FOUND = "Share among the questions for which the run finds a relevant passage. A circumstance that is as common there is no evidence of a cause"
NOTE = "Click a count to list its questions. Gold counts as it was imported."
DIFFERENCE = "Share of the misses minus share of the found questions, with Newcombe's 95% interval"
PAIRED = "Questions missed with the cause, A − B, in % of all questions, with the p value of a sign-flip test (Holm)"


def causes_panel(comparison: Comparison, selection: Selection, subset: np.ndarray) -> None:
    """Show the panel if the address asks for it. `subset` holds the questions that pass the filters, (q,) bool."""
    if not selection.causes or _is_of_a_cause(selection):
        return
    rows = np.flatnonzero(subset)
    sides: tuple[Side, ...] = ("a",) if selection.a == selection.b else ("a", "b")
    table = miss_table(comparison, selection.k, rows, sides, not by_results(selection.slice))
    close = link("Close", selection.on_compare(causes=""), cls="quiet", data_focus="causes")
    head = div(tag("h2", f"Why are questions missed in the top {selection.k}?"), close, cls="list-head")
    if not any(run.misses for run in table.runs):
        show(
            div(head, notice("The runs find a relevant passage for each of these questions."), cls="panel", id="causes")
        )
        return
    answers = [tag("p", each) for each in table.sentences]
    note = join(tag("p", NOTE, cls="convention"), methods_note(table.method))
    with st.container(key="causes"):
        show(
            div(
                head,
                *answers,
                scrolling(_table(table, selection), "the interval includes 0"),
                _without_a_row(table),
                note,
                id="causes",
            )
        )
        plot(cause_plot(table), f"causes-{selection.a}-{selection.b}")
        if not selection.text:  # a slice cannot express the search
            report = MissReport(table, comparison.run_a.kind, selection.slice, [])
            table_downloads(f"causes-{selection.a}-{selection.b}", report.as_latex, report.as_csv)


def _is_of_a_cause(selection: Selection) -> bool:
    """Whether the questions were selected by a cause; counting causes among them would be circular."""
    return "cause(" in selection.slice


def causes_link(selection: Selection) -> Html:
    """The link that opens the panel; nothing while it is open."""
    if selection.causes or _is_of_a_cause(selection):
        return Html("")
    return link("Why are questions missed?", selection.on_compare(causes="1") + "#causes", data_focus="causes")


def _table(table: MissTable, selection: Selection) -> Html:
    over = [tag("th", "", scope="col")]
    under = [tag("th", "cause", scope="col", cls="left")]
    for run in table.runs:
        words = join(
            letter(run.side),
            f" {run.run}: {quantity(run.misses, 'miss', 'misses')} of {count_with_units(run.questions, run.units, table.unit)}",
        )
        over.append(tag("th", words, colspan=4, scope="colgroup", cls="over"))
        under += [
            tag("th", letter(run.side), " misses", scope="col", cls="first"),
            tag("th", "% of misses", scope="col", cls="wide"),
            tag("th", term("% of found", FOUND), scope="col", cls="wide"),
            tag("th", term("difference", DIFFERENCE), scope="col"),
        ]
    if table.paired:
        over.append(tag("th", "", scope="col"))
        under.append(tag("th", term("A − B, % of all", PAIRED), scope="col", cls="first wide"))
    lines = [_cause_row(table, name, selection) for name in table.counted]
    head = tag("thead", tag("tr", *over, cls="wide"), tag("tr", *under))
    return tag("table", head, tag("tbody", *lines), cls="figures groups panel-table causes-table")


def _without_a_row(table: MissTable) -> Html:
    """Name the causes that no miss has, and those that could not be measured."""
    absent = [[run.cause_line(name) for run in table.runs] for name in table.order if name not in table.counted]
    unmeasured = [lines[0] for lines in absent if not any(line.is_measured for line in lines) and lines[0].name != NONE]
    none = [lines[0] for lines in absent if any(line.is_measured for line in lines) and lines[0].name != NONE]
    counted = [[(run, run.cause_line(name)) for run in table.runs] for name in table.counted]
    uncontrolled = [
        lines[0][1]
        for lines in counted
        if any(line.count and not line.found.n and run.misses < run.questions for run, line in lines)
    ]
    said = [
        join(
            f"{words}: ",
            *(
                join(", " if number else "", term(_in_sentence(line.title), line.rule))
                for number, line in enumerate(lines)
            ),
            ". ",
        )
        for words, lines in (
            ("No miss has", none),
            ("Not measured, for lack of the facts", unmeasured),
            ("Without a control, since the rule can be applied to no question that a run finds", uncontrolled),
        )
        if lines
    ]
    return tag("p", *said, cls="convention") if said else Html("")


def _cause_row(table: MissTable, name: str, selection: Selection) -> Html:
    first = table.runs[0].cause_line(name)
    cells = [tag("th", term(first.title, first.rule), scope="row")]
    for run in table.runs:
        cells += _cells(run, run.cause_line(name), selection)
    if table.paired:
        paired = table.paired.get(name)
        cells.append(tag("td", _paired(paired.difference) if paired else "–", cls="first wide"))
    return tag("tr", *cells)


def _cells(run: RunMisses, line: CauseLine, selection: Selection) -> list[Html]:
    if not line.is_measured:
        why = "The facts that the rule needs are unknown for every miss"
        words = join("not measured") if run.misses else join("no miss")
        unmeasured = tag("td", words, title=why if run.misses else "", cls="first soft")
        return [unmeasured, tag("td", cls="wide"), tag("td", cls="wide"), tag("td")]
    count: object = f"{line.count:,}"
    if line.count:
        condition = write_condition("cause", line.name, run.run)
        slice = join_expressions([selection.slice, condition])
        address = selection.on_compare(slice=slice, cell="all", causes="")
        count = link(count, address + "#questions", data_focus=f"cause-{run.side}-{line.name}")
    known = "" if line.share.n == run.misses else span(f" of {line.share.n:,}", cls="soft")
    return [
        tag("td", count, known, cls="first flip"),
        tag("td", percentage(line.share, inline=True), cls="wide"),
        tag("td", _found_share(run, line), cls="wide"),
        tag("td", _difference(line.difference)),
    ]


def _found_share(run: RunMisses, line: CauseLine) -> Html:
    """The share among the found questions, and of how many of them where the rule leaves some out."""
    if not line.found.n:
        return span("–", title="The rule can be applied to no found question, so there is no control")
    of = "" if line.found.n == run.questions - run.misses else span(f" of {line.found.n:,}", cls="soft")
    return join(percentage(line.found), of)


def _difference(estimate: Estimate) -> Html:
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return Html("–")
    sure = estimate.low > 0 or estimate.high < 0
    interval = span(signed_ends(100 * estimate.low, 100 * estimate.high), cls="interval")
    return span(signed_number(100 * estimate.value), interval, cls="figure difference" + ("" if sure else " unsure"))


def _paired(difference: Difference) -> Html:
    shown = _difference(difference.estimate)
    p = difference.p_shown
    return span(shown, title=f"{p_words(p)} (Holm-adjusted)", cls="" if p <= SURE else "soft")


def causes_of_question(
    comparison: Comparison, question_id: str, k: int, explanation: MissExplanation | None = None, told: str = ""
) -> Html:
    """The causes for each run that misses a question at k, one line per run; empty if both runs find a relevant
    passage.

    Args:
        explanation: the facts of the question; each cause then has a line, with the figures that decided it.
        told: the run whose miss the sentence before the causes explains.
    """
    row = comparison.rows.get(question_id)
    if row is None:
        return Html("")
    sides: Sequence[Side] = ("a",) if comparison.run_a.name == comparison.run_b.name else ("a", "b")
    lines = []
    for side, name in zip(sides, (comparison.run_a.name, comparison.run_b.name), strict=False):
        causes = run_causes(comparison, side, k, np.array([row]))
        figures = None if explanation is None else cause_figures(explanation, name)
        lines.append(_run_sentence(side, name, causes, figures, name == told))
    return join(*filter(None, lines))


def _in_sentence(title: str) -> str:
    return title[:1].lower() + title[1:]


def _run_sentence(side: Side, name: str, causes: RunCauses, figures: Mapping[Cause, str] | None, is_told: bool) -> Html:
    """The causes of a run's miss: in one line, or with their figures one below the other. is_told: a sentence before has
    given a reason; if it is a namesake, it is not given again.
    """
    present = [cause for cause in ORDER if causes.has_cause(cause)[0]]
    is_named = is_told and Cause.NEAR_NAMESAKE in present
    if is_named:
        present.remove(Cause.NEAR_NAMESAKE)
    if not causes.missed[0] or (is_named and not present):
        return Html("")
    terms = [term(_in_sentence(CAUSES[cause].title), CAUSES[cause].rule) for cause in present]
    also = ", also" if is_told and present else ""
    missed = span(f"misses it in the top {causes.k}{also}: ", cls="soft")
    head = (letter(side), " ", name, " ", missed)
    if figures is None or not present:
        parts: list[object] = [*(join(each, " · ") for each in terms[:-1]), *terms[-1:]]
        return tag("p", *head, *(parts or ["no cause was measured"]), cls="causes")
    lines = [
        tag("li", each, join(" ", span(figures[cause])) if cause in figures else "")
        for cause, each in zip(present, terms, strict=True)
    ]
    return join(tag("p", *head, cls="causes"), tag("ul", *lines, cls="causes-list"))
