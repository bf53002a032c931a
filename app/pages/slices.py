"""Slices: where two runs differ most, in sentences with the expression of each slice; people's own slices; saved
slices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from blindspot.app import selection, study, url, who
from blindspot.app.components.compare_tables import accuracy_table, flip_table, headline, scrolling, significance_line
from blindspot.app.components.download_buttons import table_downloads
from blindspot.app.components.empty_page import show_empty_page
from blindspot.app.components.marks import NOT_SURE, choices_fold, few, methods_note, notice, unbroken
from blindspot.app.components.message import show_last_message, try_action
from blindspot.app.components.question_list import question_table
from blindspot.app.components.relations_tables import choices
from blindspot.app.components.slice_tables import (
    condition_help,
    found_table,
    further_runs,
    saved_table,
    spoken_table,
)
from blindspot.app.components.stylesheets import style_sheet
from blindspot.app.components.team.batches import send_to_judging
from blindspot.app.entry import enter
from blindspot.app.markup import Html, div, join, link, show, tag
from blindspot.app.runs import convention, missing_runs, pair_of_address
from blindspot.app.selection import Selection
from blindspot.app.study import Comparison
from blindspot.backend.evaluation import saved_slices
from blindspot.backend.evaluation.comparison import SURE, PairedFigures, by_group
from blindspot.backend.evaluation.comparison_words import limits_sentence
from blindspot.backend.evaluation.measures import MEASURES
from blindspot.backend.evaluation.relevance import Kind
from blindspot.backend.evaluation.slice_finder import FoundSlice, FoundSlices, find_slices, join_expressions
from blindspot.backend.evaluation.slice_report import SliceReport, method_note
from blindspot.backend.evaluation.slice_words import in_words, leads_sentence, merge_nested, slice_sentence
from blindspot.backend.evaluation.slices import Facts, by_results
from blindspot.backend.text.number_words import noun_form, quantity
from blindspot.db.errors import BlindspotError
from blindspot.db.question_table import ids_of, rows_among, take

PAGE, EMPTY = "slices", Html("")
"""Characters of a label that names a slice in words; a longer one counts its questions only."""


def page() -> None:
    opened = study.current()
    runs = study.runs(opened)
    show(style_sheet("analysis.css"))
    if len(runs) < 2:
        missing = "two runs" if not runs else "a second run"
        about = "This page finds the groups of questions where two runs differ most, and saves groups of your own."
        show_empty_page(opened, f"Slices need {missing}", about)
        return
    show(missing_runs(runs))
    pair = pair_of_address(runs)
    head = st.container()
    with st.container(key="pickers"):
        columns = st.columns([4, 4, 6], vertical_alignment="bottom")
        with columns[0]:
            a = url.select("Run A", "a", list(runs), pair[0], forget=("page",))
        with columns[1]:
            b = url.select("Run B", "b", list(runs), pair[1], forget=("page",))
        rule = study.rule_of_runs(opened, a, b)
        relevance: Kind = url.one_of("relevance", ("answers", "gold"), "answers")
        compared = study.comparison(opened, a, b, relevance, rule)
        chosen = selection.read_selection(a, b, max(compared.depth, 1), rule, compared.run_a.kind)
        with columns[2]:
            ks = sorted({k for k in (1, 5, 20, 100) if k <= compared.depth} | {chosen.k})
            show(choices("k", [(f"{k}", address(chosen, k=k), k == chosen.k) for k in ks]))
    if not len(compared):
        words = f"No question of both {a} and {b} can be measured by {compared.run_a.kind}. Choose other runs."
        with head:
            show(tag("h1", "No slices"), notice(words, kind="warning"))
        return
    facts, wrong = Facts(compared, chosen.k), ""
    try:
        kept = facts.mask(chosen.slice)
    except BlindspotError as error:
        wrong, chosen, kept = str(error), replace(chosen, slice=""), np.ones(len(compared), dtype=bool)
    fold = choices_fold(f"{a} and {b}, k = {chosen.k}")
    if chosen.slice:
        _show_slice(opened, compared, chosen, kept, head, fold)
    else:
        _finder(opened, chosen, facts, head, fold)
    with st.container(key="filters"):
        url.text_box(
            "Your own slice",
            "slice",
            forget=("page",),
            placeholder='relation:P19 and group:"<=1 mentions" and overlap>=0.5',
        )
    show(notice(wrong, kind="error") if wrong else "", condition_help(list(runs)))
    _saved(opened, chosen, facts)
    if chosen.slice and kept.any():
        rows = selection.rows(compared, chosen, kept)
        title = tag("h2", "The questions of the slice")
        show(div(title, question_table(compared, chosen, rows), cls="panel", id="questions"))
        _finder(opened, chosen, facts, st.container())


def address(selection: Selection, **changes: object) -> str:
    return url.href(
        PAGE, {**selection.parameters(page=1), **changes, **({"find": url.value("find")} if url.value("find") else {})}
    )


def _show_slice(
    open_study, comparison: Comparison, selection: Selection, subset: np.ndarray, head: DeltaGenerator, fold: Html
) -> None:
    """Show the runs' figures on the current slice.

    Args:
        head: the container of the page's answer. fold: the line below it that opens the choices in a narrow window.
    """
    total = int(subset.sum())
    if not total:
        with head:
            show(tag("h1", "This slice contains no question of these runs"), fold)
        return
    words = f"{quantity(total, 'question')} of {len(comparison):,} {in_words(selection.slice)}"
    links = (
        link("Open in Compare", selection.on_compare(), cls="quiet"),
        link("All slices", address(selection, slice=""), cls="quiet"),
    )
    title = words if by_results(selection.slice) else headline(comparison, selection, subset, f" on {words}")
    about = methods_note(limits_sentence(comparison.run_a.kind, selection.rule))
    with head:
        show(
            tag("h1", unbroken(title, (selection.a, selection.b))),
            tag("p", significance_line(comparison, selection, subset), cls="under"),
            div(tag("code", selection.slice), *links, about, cls="action"),
            fold,
        )
    show(
        div(
            div(scrolling(accuracy_table(comparison, selection, subset), NOT_SURE), cls="panel"),
            div(
                flip_table(comparison, selection, subset),
                further_runs(_runs_on(open_study, comparison, selection, subset)),
                cls="panel",
            ),
            cls="side-by-side overview",
        ),
    )
    with st.container(key="save-slice"):
        columns = st.columns([4, 2, 8], vertical_alignment="bottom")
        if who.may(open_study.labels_path, "save slices"):
            with columns[0]:
                st.text_input("Name of the slice", key="slice-name")
            with columns[1]:
                st.button("Save", key="slice-save", on_click=_save, args=(open_study, selection.slice))
        with columns[2]:
            show_last_message()
            send_to_judging(
                open_study,
                ids_of(take(comparison.questions, np.flatnonzero(subset))),
                (selection.a, selection.b),
                "slice-judge",
            )


def _runs_on(open_study, comparison: Comparison, selection: Selection, subset: np.ndarray):
    """Yield (name, ranks of the first relevant passages, k, units) for every further run that searched questions of the slice."""
    asked = take(comparison.questions, np.flatnonzero(subset))
    for name in (name for name in study.runs(open_study) if name not in (selection.a, selection.b)):
        measured = study.measured(open_study, name, comparison.run_a.kind, selection.rule)
        rows = rows_among(asked, measured.questions)
        rows = rows[rows >= 0]
        if len(rows) and measured.kind == comparison.run_a.kind and selection.k <= measured.k:
            yield name, measured.first_ranks[rows], selection.k, measured.units.units_of_rows(rows)


def _save(open_study, expression: str) -> None:
    def save() -> str:
        name, by = st.session_state.get("slice-name", ""), who.acting_name(open_study.labels_path)
        made = saved_slices.save(open_study, name, expression, by=by)
        st.session_state["slice-name"] = ""
        return f"Saved as “{made.name}”."

    try_action(save)


def _delete(open_study, name: str) -> None:
    def delete() -> str:
        saved_slices.delete(open_study, name, by=who.acting_name(open_study.labels_path))
        return f"Deleted “{name}”."

    try_action(delete)


def _saved(open_study, selection: Selection, facts: Facts) -> None:
    slices = saved_slices.saved_slices(open_study)
    if not slices:
        return
    table = saved_table(slices, facts, selection, lambda expression: address(selection, slice=expression))
    show(
        div(
            tag("h2", f"Saved slices, {MEASURES.get(selection.measure).title_at(selection.k)}, %"),
            scrolling(table, NOT_SURE, few(facts.comparison.units.name)),
            cls="panel",
        )
    )
    if not who.may(open_study.labels_path, "save slices"):
        return
    with st.expander("Delete slices"):
        columns = st.columns([4, 2, 8], vertical_alignment="bottom")
        with columns[0]:
            name = st.selectbox("Saved slice", list(slices), key="slice-delete-name")
        with columns[1]:
            st.button("Delete", key="slice-delete", on_click=_delete, args=(open_study, name))


@st.cache_resource(max_entries=16, show_spinner="Looking for slices …")
def _found_slices(_facts: Facts, slice: str, *key: object) -> FoundSlices:
    return find_slices(_facts, np.flatnonzero(_facts.mask(slice)))


def _finder(open_study, selection: Selection, facts: Facts, head: DeltaGenerator, fold: Html = EMPTY) -> None:
    """Show the slices that explain the difference, largest contribution first; the first one is the page's main
    sentence.

    Args:
        head: the container of the page's answer. fold: the line below it that opens the choices in a narrow window.
    """
    made = tuple(study.runs(open_study)[name].get("made") for name in (selection.a, selection.b))
    key = (
        study.questions_key(open_study),
        selection.a,
        selection.b,
        made,
        selection.k,
        selection.relevance,
        selection.rule,
    )
    found = _found_slices(facts, selection.slice, *key)
    heading = "h2" if selection.slice else "h1"
    about = methods_note(convention(facts.comparison.run_a.kind, selection.rule), " ", method_note(found))
    with head:
        if not found.slices:
            compared = facts.comparison
            asked = tag("p", f"{compared.units.count_words()} in both runs.", cls="under") if heading == "h1" else ""
            words = f"Within the slice: {_nothing_found(found)}" if selection.slice else _nothing_found(found)
            show(tag(heading, words), asked, tag("p", *_instead(found, selection)), about, fold)
            return
        with_nested = merge_nested(found, facts)
        first = with_nested[0][0]
        elsewhere = _elsewhere(facts, selection, with_nested)
        whole = by_group(facts.comparison, selection.k, {"": facts.mask(selection.slice)})[""]
        title = tag("h2", "Within the slice") if selection.slice else _answer(selection, first, elsewhere, whole)
        show(title, about, fold)
    _found_panel(selection, found, with_nested, elsewhere, whole)
    report = SliceReport(selection.a, selection.b, selection.k, found)
    table_downloads(f"slices-{selection.a}-{selection.b}", report.as_latex, report.as_csv)


def _answer(
    selection: Selection, first: FoundSlice, elsewhere: Mapping[str, PairedFigures], whole: PairedFigures
) -> Html:
    """The heading on the first slice, and below it the differences elsewhere and over all questions."""
    names = selection.a, selection.b
    leads = {
        "Elsewhere": elsewhere[first.expression].difference.estimate,
        f"over all {whole.questions}": whole.difference.estimate,
    }
    return join(
        tag("h1", unbroken(slice_sentence(first, names), names)),
        tag("p", leads_sentence(leads, selection.k), cls="under"),
    )


def _elsewhere(
    facts: Facts, selection: Selection, with_nested: Sequence[tuple[FoundSlice, list[FoundSlice]]]
) -> dict[str, PairedFigures]:
    """Return by slice the figures of the other questions of the current slice."""
    whole = facts.mask(selection.slice)
    others = {each.expression: np.flatnonzero(whole & ~facts.mask(each.expression)) for each, _ in with_nested}
    return by_group(facts.comparison, selection.k, others)


def _nothing_found(found_slices: FoundSlices) -> str:
    if found_slices.tried:
        return "No slice differs from the rest."
    return f"No slice has {found_slices.min_questions} {noun_form(2, found_slices.units.name)} inside and outside, so none can be tested."


def _instead(found_slices: FoundSlices, selection: Selection) -> tuple[Html | str, ...]:
    """Return what was tested, if anything was, and what a person can do instead."""
    tested = (
        f"{quantity(found_slices.tried, 'slice')} of at least {found_slices.min_questions} {noun_form(2, found_slices.units.name)} were tested by relation, frequency, words and the "
        "other facts of the questions. This does not prove that the runs differ by the same amount everywhere: a difference in a small slice, or a small difference, cannot be detected. "
    )
    return (
        tested if found_slices.tried else "",
        "Test a group that you suspect as your own slice, choose two runs that differ more, or read single questions on ",
        link("Compare", selection.on_compare()),
        ".",
    )


def _parameters_of(selection: Selection, expression: str) -> dict[str, object]:
    """Return the parameters of the address that opens a found slice, within the current slice if there is one."""
    return selection.parameters(page=1, slice=join_expressions([selection.slice, expression]))


def _found_panel(
    selection: Selection,
    found_slices: FoundSlices,
    with_nested: Sequence[tuple[FoundSlice, list[FoundSlice]]],
    elsewhere: Mapping[str, PairedFigures],
    whole: PairedFigures,
) -> None:
    """Show the found slices with the slices nested in them, and the table of all figures. A narrow window shows the rest
    of a row in that table only.
    """

    def slice_address(expression: str) -> str:
        return url.href(PAGE, _parameters_of(selection, expression))

    made = spoken_table(with_nested, elsewhere, whole, slice_address)
    spoken = scrolling(made, NOT_SURE, few(found_slices.units.name))
    figures = tag(
        "details",
        tag("summary", "All figures"),
        scrolling(found_table(found_slices, slice_address), NOT_SURE),  # without columns that it hides
        cls="more",
    )
    order = tag("h3" if selection.slice else "h2", "Slices where the difference is another than elsewhere")
    marks = (
        f"Of {quantity(found_slices.tried, 'tested slice')}, those that differ from the other questions (p at most "
        f"{SURE}, adjusted for all). Filled: in the slice, with its 95% interval; hollow: elsewhere."
    )
    show(div(order, spoken, tag("p", marks, cls="convention"), figures, cls="panel found", id="found"))


enter(page)
