"""Relations: accuracy of any number of runs by relation and by subject frequency, as tables and plots."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from blindspot.analysis.flips import flip_table
from blindspot.app import study, url
from blindspot.app.components import jobs, relations_tables
from blindspot.app.components.compare_tables import scrolling
from blindspot.app.components.download_buttons import table_downloads
from blindspot.app.components.empty_page import show_empty_page
from blindspot.app.components.marks import choices_fold, methods_note, notice, relation_label
from blindspot.app.components.next_questions import step_of_cells
from blindspot.app.components.path_bar import lead_to
from blindspot.app.components.plots import plot
from blindspot.app.components.relations_tables import choices, page_address
from blindspot.app.components.stylesheets import style_sheet
from blindspot.app.entry import enter
from blindspot.app.markup import Html, div, link, show, span, tag
from blindspot.app.runs import convention, missing_runs, offered_runs
from blindspot.app.selection import Selection, offered_measures
from blindspot.backend.core.jobs import request
from blindspot.backend.core.result_table import latex_tables
from blindspot.backend.core.study import Study
from blindspot.backend.data.importing.importer import count_frequencies
from blindspot.backend.evaluation import report_plots
from blindspot.backend.evaluation.findings import RunFinding
from blindspot.backend.evaluation.measures import MEASURES, SUCCESS, RankingMeasure
from blindspot.backend.evaluation.pairs import default_pair
from blindspot.backend.evaluation.panel import (
    Curves,
    Cut,
    Panel,
    RelationTable,
    frequency_curves,
    relation_table,
    runs_named,
)
from blindspot.backend.evaluation.panel_report import frequency_figures, frequency_rows, relation_figures, relation_rows
from blindspot.backend.evaluation.panel_words import (
    frequency_finding,
    frequency_sentence,
    named_relation,
    relations_sentence,
)
from blindspot.backend.evaluation.relevance import Kind
from blindspot.backend.evaluation.settings import HEADLINE_K
from blindspot.backend.text.number_words import noun_form, quantity
from blindspot.backend.upkeep.study_path import NextStep

VIEWS = {"relation": "by relation", "frequency": "by frequency"}
CUTS: dict[str, Cut] = {"official": "official", "mentions": "mentions", "cut": "mass"}  # by the address's `buckets`
CUT_NAMES = {"official": "official groups", "mentions": "mentions", "cut": "equal mass"}


def page() -> None:
    opened = study.current()
    known = offered_runs(opened)
    show(style_sheet("analysis.css"))
    if not known:
        about = "This page shows the accuracy of runs by relation and by the frequency of their subjects."
        show_empty_page(opened, "No runs yet", about)
        return
    show(missing_runs(known))
    names = runs_named(url.value("runs"), list(known), list(dict.fromkeys(default_pair(known))))
    head, pickers = st.container(), st.container(key="pickers")
    with pickers:
        left, right = st.columns([8, 3], vertical_alignment="bottom")
        with left:
            url.multiselect("Runs", "runs", list(known), names, help="The first two are compared with each other.")
        with right:
            relevance: Kind = url.select(
                "Relevance",
                "relevance",
                list(kinds := study.relevance_kinds(opened)),
                next(iter(kinds)),
                format_func=kinds.__getitem__,
            )
    panel = study.panel(opened, names, relevance)
    k = url.number("k", min(HEADLINE_K, panel.depth), 1, panel.depth)
    offered = offered_measures(panel.kind)
    measure = MEASURES.get(url.one_of("measure", offered, SUCCESS.name))
    view = url.one_of("view", list(VIEWS), "relation")
    related = bool((panel.relations != "").any())
    below = _below_heading(panel, names, k, measure, view)
    with pickers:
        show(_choosers(panel, k, view, measure))
        curves = _frequency_curves(panel, k, measure) if view == "frequency" else None
    chosen = Selection(names[0], names[1], k, relevance, measure=measure.name) if len(names) > 1 else None
    if curves is not None:
        finding = frequency_finding(panel, curves)
        lead_to(_step_of_group(panel, finding, chosen))
        with head:
            show(tag("h1", frequency_sentence(finding, curves)), *below)
        _frequency(opened, panel, names, k, curves)
    elif related:
        table = relation_table(panel, k, measure=measure)
        lead_to(_step_of_relation(table, chosen))
        with head:
            show(tag("h1", relations_sentence(table, names)), *below)
        _relations(panel, table, names, k, measure)
    else:
        by_frequency = link("Show by frequency", page_address(view="frequency"))
        with head:
            show(tag("h1", "None of these questions has a relation"), *below, notice(by_frequency, "."))


def _below_heading(panel: Panel, names: list[str], k: int, measure: RankingMeasure, view: str) -> tuple[Html, ...]:
    """The unit of the figures, how they are counted, and the line that opens the choices in a narrow window."""
    said = f"{quantity(len(panel), 'question')} measured in {'all runs' if len(names) > 1 else 'the run'}."
    certain = (
        ""
        if view == "frequency"
        else " A difference is certain if its p value, adjusted for all relations (Holm), is at most 0.05."
    )
    about = methods_note(convention(panel.kind, study.rule_of(panel.study, names)), certain)
    return (
        tag("p", f"{said} {measure.title_at(k)}, 95% intervals.", cls="under"),
        about,
        choices_fold(f"{', '.join(names)}, k = {k}, {VIEWS[view]}"),
    )


def _choosers(panel: Panel, k: int, view: str, measure: RankingMeasure) -> Html:
    """The rows of links that choose k, the view and the measure."""
    offered = offered_measures(panel.kind)
    return div(
        choices("k", [(f"{each}", page_address(k=each), each == k) for each in panel.ks(k)]),
        choices("show", [(words, page_address(view=key), key == view) for key, words in VIEWS.items()]),
        choices(
            "measure",
            [(MEASURES.get(name).title_at(k), page_address(measure=name), name == measure.name) for name in offered],
        ),
        cls="choosers",
    )


def _compare_address(names: list[str], k: int, **more: str) -> str:
    """Return the address of Compare for the first two runs; "" for a single run."""
    shared = {"a": names[0], "b": names[1], "k": k, "measure": url.value("measure"), **more}
    return url.href(url.COMPARE, shared) if len(names) > 1 else ""


def _step_of_relation(table: RelationTable, chosen: Selection | None) -> NextStep | None:
    """Return the step to the questions of the relation that the heading names."""
    if chosen is None:
        return None
    name = named_relation(table)
    return step_of_cells(table.differences[name].flips, replace(chosen, relation=name), f" on {relation_label(name)}")


def _step_of_group(panel: Panel, finding: RunFinding | None, chosen: Selection | None) -> NextStep | None:
    """Return the step to the questions of the frequency group in which the heading's run finds least."""
    compared = panel.comparison
    if chosen is None or compared is None or finding is None or not finding.group:
        return None
    rows = compared.groups("bucket")[finding.group]
    counts = flip_table(compared.first_ranks_a[rows], compared.first_ranks_b[rows], chosen.k)
    return step_of_cells(counts, replace(chosen, bucket=finding.group), " of this frequency group")


def _relations(panel: Panel, table: RelationTable, names: list[str], k: int, measure: RankingMeasure) -> None:
    made = relations_tables.relations(
        table, names, lambda name: _compare_address(names, k, relation=name) or page_address()
    )
    note = f"Pale: fewer than {report_plots.FEW} {noun_form(2, panel.units.name)}. The tooltip of a figure and the saved CSV say its 95% interval. "
    note += "A − B: 95% interval, not adjusted; pale if p (Holm) > 0.05."
    show(
        div(
            tag("h2", f"{measure.title_at('k')} by relation, %"),
            scrolling(made),
            tag("p", note, cls="convention"),
            cls="panel",
        )
    )
    remarks = [convention(panel.kind, study.rule_of(panel.study, names))]
    table_downloads(
        "relations",
        lambda: latex_tables([relation_rows(table, names)], remarks),
        lambda: relation_figures(table, names).as_csv(),
    )
    note = span(
        f"Whiskers: 95% intervals. Hollow: fewer than {report_plots.FEW} {noun_form(2, panel.units.name)}.", cls="soft"
    )
    show(div(tag("h2", f"{table.title} by relation, plot"), note, cls="list-head"))
    plot(report_plots.dumbbell(table, names, relations_tables.order(table)), "relations")


def _frequency_curves(panel: Panel, k: int, measure: RankingMeasure) -> Curves:
    """Show the choices of the view by frequency, and return the curves that they ask for."""
    there = ("", *sorted({relation for relation in panel.relations.tolist() if relation}, key=relation_label))
    curves = frequency_curves(panel, k, url.one_of("relation", there, ""), CUTS.get(url.value("buckets")), measure)
    left, right = st.columns([4, 8], vertical_alignment="bottom")
    with left:
        url.select(
            "Relation",
            "relation",
            there,
            "",
            format_func=lambda name: relation_label(name) if name else "all relations",
        )
    with right:
        official = any(question.bucket is not None for question in panel.questions)
        offered = [each for each in CUT_NAMES if official or CUTS[each] != "official"]
        show(
            choices(
                "group by",
                [(CUT_NAMES[each], page_address(buckets=each), curves.cut == CUTS[each]) for each in offered],
            )
        )
    return curves


def _frequency(open_study: Study, panel: Panel, names: list[str], k: int, curves: Curves) -> None:
    if not any(points for each in curves.series.values() for points in each.values()):
        show(notice("The subjects of these questions have no frequencies."))
        if open_study.questions.subjects(without_frequency=True):
            jobs.followed_button(
                open_study, request(count_frequencies), "count-frequencies", "Count them in the passages"
            )
        return
    plot(report_plots.curve_plot(curves, names), "frequency")
    made = relations_tables.along_frequency(
        curves, names, lambda expression: _compare_address(names, k, slice=expression)
    )
    notes = [f"Source of mentions: {curves.source}."]
    if curves.cut == "official":
        notes.append("The groups are the buckets that come with the question sets: 0 most frequent, 7 rarest.")
    if len(curves.series) > 1 and curves.training:
        notes.append(f"Seen in training: {curves.training}.")
    if curves.cut == "mass":
        notes.append(
            "Eight groups of about equal cumulative frequency; equal frequencies share a group, and subjects without "
            "mentions have their own."
        )
    notes.append(
        f"Pale in the table, hollow in the plot: fewer than {report_plots.FEW} {noun_form(2, panel.units.name)}. Intervals: 95%."
    )
    show(
        div(
            tag("h2", f"{curves.title} by frequency, %"),
            scrolling(made),
            tag("p", " ".join(notes), cls="convention"),
            cls="panel",
        )
    )
    table_downloads(
        "frequency",
        lambda: latex_tables([frequency_rows(curves, names)], notes),
        lambda: frequency_figures(curves, names).as_csv(),
    )


enter(page)
