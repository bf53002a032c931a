"""Compare: accuracy of two runs, the questions only one of them answers, and the questions behind every number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import streamlit as st

from blindspot.analysis.buckets import UNKNOWN
from blindspot.app import selection, study, url
from blindspot.app.components.compare_tables import (
    accuracy_table,
    cut_offs,
    flip_table,
    headline,
    scrolling,
    significance_line,
)
from blindspot.app.components.download_buttons import table_downloads
from blindspot.app.components.empty_page import show_empty_page
from blindspot.app.components.judged_table import judged_table
from blindspot.app.components.marks import (
    NOT_SURE,
    bucket_name,
    choices_fold,
    letter,
    methods_note,
    notice,
    relation_label,
    term,
    unbroken,
)
from blindspot.app.components.miss_causes import causes_link, causes_panel
from blindspot.app.components.question_list import question_table
from blindspot.app.components.readings import Grouping, readings_panel
from blindspot.app.components.stylesheets import style_sheet
from blindspot.app.components.team.batches import offer_random_questions
from blindspot.app.entry import enter
from blindspot.app.markup import Html, div, join, link, show, span, tag
from blindspot.app.runs import (
    convention,
    cost_label,
    left_out,
    missing_runs,
    pair_of_address,
    retriever_label,
    runs_like,
)
from blindspot.app.selection import Selection, offered_measures
from blindspot.app.study import Comparison, MeasuredRun
from blindspot.backend.core.study import Study
from blindspot.backend.core.units import n_cell
from blindspot.backend.evaluation.comparison_report import ComparisonOptions, ComparisonReport, compare_with
from blindspot.backend.evaluation.comparison_words import limits_sentence, method
from blindspot.backend.evaluation.measures import MEASURES, SUCCESS
from blindspot.backend.evaluation.relevance import Kind
from blindspot.backend.evaluation.slice_finder import join_expressions, write_condition
from blindspot.backend.evaluation.slice_words import in_words
from blindspot.backend.evaluation.slices import Facts
from blindspot.backend.text.number_words import quantity
from blindspot.db.errors import BlindspotError

SAMPLE = 50  # random questions of an offered batch, enough for a rate with an interval
CELL_NAMES = {
    "all": "All questions",
    "both": "Both runs find",
    "only_a": "Only A finds",
    "only_b": "Only B finds",
    "neither": "Neither finds",
}


def page() -> None:
    opened = study.current()
    runs = study.runs(opened)
    names = list(runs)
    if len(names) < 2:
        missing = "two runs" if not names else "a second run"
        show_empty_page(opened, f"Compare needs {missing}", "This page shows what each of two runs finds and misses.")
        return
    show(missing_runs(runs))
    pair = pair_of_address(runs)
    head, pickers = st.container(), st.container(key="pickers")
    with pickers:
        columns = st.columns([3, 3, 2.9, 3.6, 2.2], vertical_alignment="bottom")
        with columns[0]:
            a = url.select("Run A", "a", names, pair[0], forget=("page",))
        with columns[1]:
            b = url.select("Run B", "b", names, pair[1], forget=("page",))
        with columns[2]:
            relevance: Kind = url.select(
                "Relevance",
                "relevance",
                list(kinds := study.relevance_kinds(opened)),
                next(iter(kinds)),
                forget=("page",),
                format_func=kinds.__getitem__,
                help="Passages that count as relevant: those that contain an answer, or the gold passages.",
            )
        rule = study.rule_of_runs(opened, a, b)
        compared = study.comparison(opened, a, b, relevance, rule)
        chosen = selection.read_selection(a, b, max(compared.depth, 1), rule, compared.run_a.kind)
        with columns[3]:
            show(_k_picker(chosen, compared.depth))
    if not len(compared):
        with head:
            show(tag("h1", "Nothing to compare"), *_warnings(compared, chosen))
        return
    show(style_sheet("analysis.css"))
    chosen = _readable_slice(compared, chosen)
    kept = selection.filtered(compared, chosen)
    with head:
        _answer(runs, compared, chosen, kept)
    rest = runs_like(runs, a, b)
    with columns[4]:
        _filters(compared, chosen, rest)
    others = set(chosen.more.split(","))
    beside = [
        each
        for name in rest
        if name in others and (each := study.measured(opened, name, relevance, rule)).kind == compared.run_a.kind
    ]
    by = _grouping(compared)
    _overview(opened, compared, chosen, kept, beside, by)
    _panels(opened, compared, chosen, kept, by)


def _overview(
    open_study: Study,
    comparison: Comparison,
    chosen: Selection,
    subset: np.ndarray,
    beside: Sequence[MeasuredRun],
    by: Grouping | None,
) -> None:
    """Show the two cards: accuracy, with the buttons that save the tables, and who finds what, with the ways on."""
    with st.container(key="overview"):
        left, right = st.columns([1.15, 1])
        with left:
            show(div(scrolling(accuracy_table(comparison, chosen, subset, beside), NOT_SURE), cls="panel"))
            if not chosen.text:  # a slice cannot express the search
                _downloads(open_study, chosen, comparison, by)
        with right:
            show(
                div(
                    flip_table(comparison, chosen, subset),
                    _scope(comparison, chosen, subset),
                    div(causes_link(chosen), *_other_ways(chosen, by), cls="action"),
                    cls="panel",
                )
            )


def _answer(runs: Mapping[str, dict], comparison: Comparison, selection: Selection, subset: np.ndarray) -> None:
    """Show which run is ahead, how sure that is, and what the comparison leaves out."""
    title = headline(comparison, selection, subset, _on_questions(selection, subset))
    show(
        tag("h1", unbroken(title, (selection.a, selection.b))),
        tag("p", significance_line(comparison, selection, subset), cls="under"),
        _methods(runs, comparison, selection),
        *_warnings(comparison, selection),
        choices_fold(f"{selection.a} and {selection.b}, k = {selection.k}"),
    )


def _on_questions(selection: Selection, subset: np.ndarray) -> str:
    """Return the questions that match the filters, for a sentence, such as " on 116 questions that ask for spouse (P26)"; ""
    for all.
    """
    if subset.all():
        return ""
    return f" on {quantity(int(subset.sum()), 'question')} {_filters_in_words(selection)}"


def _filters_in_words(selection: Selection) -> str:
    """Return what the filters keep, such as "that ask for spouse (P26)"; "" without filters."""
    filters, text = _slice(selection), selection.text.strip()
    words = [in_words(filters, selection.k)] * bool(filters) + [f"with “{text}”"] * bool(text)
    return " and ".join(words)


def _panels(
    open_study: Study, comparison: Comparison, chosen: Selection, subset: np.ndarray, by: Grouping | None
) -> None:
    """Show the parts below the accuracy tables: causes, the questions, readers and labels."""
    causes_panel(comparison, chosen, subset)
    rows = selection.rows(comparison, chosen, subset)
    questions = div(
        _questions_head(chosen, len(rows)), question_table(comparison, chosen, rows), cls="panel", id="questions"
    )
    show(questions, readings_panel(open_study, comparison, chosen, subset, by))
    relevance, rule = comparison.run_a.kind, chosen.rule
    show(judged_table(open_study, (chosen.a, chosen.b), chosen.k, relevance, rule))
    sides = list(dict.fromkeys((chosen.a, chosen.b)))
    offer_random_questions(open_study, f"sample-{chosen.a[:24]}-{chosen.b[:24]}", sides, SAMPLE, chosen.k)


def _downloads(open_study: Study, selection: Selection, comparison: Comparison, grouping: Grouping | None) -> None:
    """Buttons that save the page's tables. The figures are those of `blindspot compare`."""

    def full_report() -> ComparisonReport:
        options = ComparisonOptions(
            k=selection.k,
            by=grouping,
            relevance=comparison.run_a.kind,
            rule=selection.rule,
            slice=_slice(selection),
            measure=selection.measure,
        )
        return compare_with(open_study, selection.a, selection.b, options)

    table_downloads(f"{selection.a}-{selection.b}", lambda: full_report().as_latex(), lambda: full_report().as_csv())


def _slice(selection: Selection) -> str:
    """Return all filters of the page as one slice."""
    filters = (("relation", selection.relation), ("set", selection.set), ("group", selection.bucket))
    return join_expressions([selection.slice, *(write_condition(name, value) for name, value in filters if value)])


def _readable_slice(comparison: Comparison, selection: Selection) -> Selection:
    """Return the selection. If its slice is invalid, show an error line and return the selection without the slice."""
    try:
        Facts(comparison, selection.k).mask(selection.slice)
    except BlindspotError as error:
        show(
            notice(
                f"{error}. The invalid slice is ignored. ",
                link("Slices", url.href("slices", selection.parameters())),
                " explains the syntax.",
                kind="error",
            )
        )
        return replace(selection, slice="")
    return selection


def _methods(runs: Mapping[str, dict], comparison: Comparison, selection: Selection) -> Html:
    """The number of questions, the relevance rule, the test and its limitations, and the cost of the retrievers."""
    return methods_note(
        f"{comparison.units.count_words()}. {convention(comparison.run_a.kind, selection.rule)} ",
        limits_sentence(comparison.run_a.kind, selection.rule),
        " Statistical test: ",
        method(comparison.units.name, measure=MEASURES.get(selection.measure)),
        _retrievers(runs, selection),
    )


def _other_ways(selection: Selection, by: Grouping | None) -> list[Html]:
    """Links to the same runs in slices, and by relation or by the frequency of the subject."""
    slices = link("Which slices explain the difference?", url.href(url.SLICES, selection.parameters(page=1)))
    if by is None or selection.slice or selection.text:  # Relations has no slices
        return [slices]
    measure = "" if selection.measure == SUCCESS.name else selection.measure
    runs = {"runs": f"{selection.a},{selection.b}", "k": selection.k, "measure": measure}
    view = {} if by == "relation" else {"view": "frequency"}
    words = "On which relations?" if by == "relation" else "At which frequencies?"
    return [slices, link(words, url.href(url.RELATIONS, runs | view))]


def _grouping(comparison: Comparison) -> Grouping | None:
    """Return how the saved tables and the reader's accuracy group the questions; None if they have neither relations nor
    frequencies.
    """
    if np.any(comparison.relations != ""):
        return "relation"
    return "bucket" if np.any(comparison.buckets != UNKNOWN) else None


def _k_picker(selection: Selection, depth: int):
    """A row of links that choose the cut-off k."""
    links = [
        link(
            f"{k}",
            selection.on_compare(k=k),
            cls="here" if k == selection.k else None,
            data_focus=f"pick-k{k}",
            aria_current="true" if k == selection.k else None,
        )
        for k in cut_offs(depth, selection.k)
    ]
    swap = link(
        "Swap A and B",
        selection.on_compare(a=selection.b, b=selection.a, cell=SWAPPED.get(selection.cell, selection.cell)),
        cls="quiet",
        data_focus="swap",
    )
    return div(
        span(term("k", "A run finds a question if a relevant passage is among the first k"), cls="label"),
        span(*links, cls="choices"),
        swap,
        cls="k-picker",
    )


SWAPPED = {"only_a": "only_b", "only_b": "only_a"}


def _warnings(comparison: Comparison, selection: Selection) -> list[Html]:
    """What the comparison leaves out, or why it has no questions."""
    a, b = comparison.run_a, comparison.run_b
    if a.kind != b.kind:
        words = f"{a.name} can be measured only by {a.kind}, {b.name} only by {b.kind}. Choose relevance by gold passages, or choose other runs."
        return [notice(words, kind="warning")]
    if not len(comparison):
        counts = (
            f"{a.name}: {quantity(len(a.questions), 'question')}; {b.name}: {quantity(len(b.questions), 'question')}"
        )
        words = f"No question of both {a.name} and {b.name} can be measured by {a.kind} ({counts})."
        return [notice(words, kind="warning")]
    warnings = []
    if not len(comparison) == len(a.questions) == len(b.questions):
        warnings.append(
            f"The runs cover different questions ({a.name} {len(a.questions):,}, {b.name} {len(b.questions):,}): "
            f"the comparison uses the {len(comparison):,} they share."
        )
    if a.k != b.k:
        warnings.append(
            f"{a.name} has {a.k} hits per question, {b.name} has {b.k}: the maximum k is {comparison.depth}."
        )
    if selection.relevance != a.kind:
        warnings.append("No question of these runs has known answers, so gold passages count as relevant.")
    warnings += [f"{name}: {line}" for name, line in ((m.name, left_out(m)) for m in (a, b)) if line]
    return [notice(line, kind="warning") for line in warnings]


def _retrievers(runs: Mapping[str, dict], selection: Selection) -> Html:
    """The retrievers of both runs, with the cost of one question and of the index."""
    sentences: list[Html | str] = []
    for side, name in (("a", selection.a), ("b", selection.b)):
        about = filter(None, (retriever_label(runs[name]), cost_label(runs[name])))
        sentences += [" " if sentences else "", letter(side), f" {', '.join(about)}."]
    return tag("p", *sentences, cls="convention")


def _filters(comparison: Comparison, selection: Selection, further_runs: list[str]) -> None:
    """Show the choices that are rarely needed behind a button, which names those that are set."""
    set_ones = {
        "beside": selection.more,
        "relation": selection.relation,
        "set": selection.set,
        "search": selection.text,
        "measure": selection.measure != SUCCESS.name,
    }
    named = ", ".join(name for name, is_set in set_ones.items() if is_set)
    with st.popover(f"More: {named}" if named else "Runs, filters", key="more-filters", width="stretch"):
        if further_runs:
            url.multiselect("Beside", "more", further_runs, placeholder="further runs")
        url.select(
            "Relation",
            "relation",
            ("", *sorted({relation for relation in comparison.relations.tolist() if relation}, key=relation_label)),
            "",
            forget=("page",),
            format_func=lambda relation: relation_label(relation) if relation else "all relations",
        )
        url.select(
            "Set",
            "set",
            ("", *sorted(set(comparison.sets.tolist()))),
            "",
            forget=("page",),
            format_func=lambda name: name or "all sets",
            help="Split, with the name of the question set if it has one.",
        )
        url.text_box("Search", "text", forget=("page",), placeholder="question, answer, subject, id")
        url.select(
            "Measure",
            "measure",
            offered_measures(comparison.run_a.kind),
            SUCCESS.name,
            format_func=lambda name: MEASURES.get(name).title_at(selection.k),
            help="Measure of the tables and of the test. nDCG, MAP, Recall and R-precision need relevance by gold.",
        )


def _scope(comparison: Comparison, selection: Selection, subset: np.ndarray):
    if subset.all():
        return ""
    some = comparison.units.units_of_rows(subset)
    return tag(
        "p",
        f"These figures cover the {n_cell(len(some), some.count, some.name)} of {comparison.units.count_words()} that match the filters. ",
        join(term("The slice as an expression", selection.slice), ". ") if selection.slice else "",
        f"Frequency group: {bucket_name(selection.bucket)}. " if selection.bucket else "",
        link("Clear filters", selection.on_compare(relation="", set="", bucket="", slice="", text="")),
        cls="convention",
    )


def _questions_head(selection: Selection, count: int) -> Html:
    words = _filters_in_words(selection)
    every = f"The {quantity(count, 'question')} {words}" if words else CELL_NAMES["all"]
    parts = [
        tag(
            "h2",
            every if selection.cell == "all" else CELL_NAMES[selection.cell],
            span(f" in the top {selection.k}" if selection.cell != "all" else "", cls="soft"),
        )
    ]
    if selection.cell != "all":
        parts.append(
            link("Show all questions", selection.on_compare(cell="all", sort=""), cls="quiet", data_focus="all-cells")
        )
    return div(*parts, cls="list-head")


enter(page)
