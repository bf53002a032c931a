"""Relations: accuracy of any number of runs by relation and by subject frequency, as tables and plots."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from blindspot.app import study, url
from blindspot.app.components import jobs, relations_tables
from blindspot.app.components.compare_tables import scrolling
from blindspot.app.components.download_buttons import table_downloads
from blindspot.app.components.empty_page import show_empty_page
from blindspot.app.components.marks import (
    NOT_SURE,
    choices_fold,
    few,
    methods_note,
    notice,
    pale_note,
    relation_label,
    unbroken,
)
from blindspot.app.components.plots import plot
from blindspot.app.components.relations_tables import choices, page_address
from blindspot.app.components.stylesheets import style_sheet
from blindspot.app.entry import enter
from blindspot.app.markup import Html, div, link, show, tag
from blindspot.app.runs import convention, missing_runs
from blindspot.app.selection import Selection, offered_measures
from blindspot.backend.core.jobs import request
from blindspot.backend.core.result_table import latex_tables
from blindspot.backend.core.study import Study
from blindspot.backend.data.importing.importer import count_frequencies
from blindspot.backend.evaluation import report_plots
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
    clearest_sentence,
    frequency_sentence,
    named_relation,
    relations_sentence,
    small_groups_sentence,
)
from blindspot.backend.evaluation.relevance import Kind
from blindspot.backend.evaluation.settings import HEADLINE_K
from blindspot.backend.text.number_words import quantity

VIEWS = {"relation": "by relation", "frequency": "by frequency"}
CUTS: dict[str, Cut] = {"official": "official", "mentions": "mentions", "cut": "mass"}  # by the address's `buckets`
CUT_NAMES = {"official": "official groups", "mentions": "mentions", "cut": "equal shares of mentions"}
SPLITS = {"": "all subjects", "training": "split by seen in training"}


def page() -> None:
    opened = study.current()
    known = study.runs(opened)
    show(style_sheet("analysis.css"))
    if not known:
        about = "This page shows the accuracy of runs by relation and by the frequency of their subjects."
        show_empty_page(opened, "No runs yet", about)
        return
    show(missing_runs(known))
    names = runs_named(url.value("runs"), list(known), list(dict.fromkeys(default_pair(known))))
    head, pickers = st.container(), st.container(key="pickers")
    with pickers:
        is_frequency = url.value("view") == "frequency"
        columns = st.columns([6, 3, 3] if is_frequency else [4, 2.2, 6.4], vertical_alignment="bottom")
        with columns[0]:
            url.multiselect("Runs", "runs", list(known), names, help="The first two are compared with each other.")
        with columns[1]:
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
    with columns[2]:
        curves = _frequency_curves(panel, k, measure) if view == "frequency" else None
    with columns[2] if curves is None else pickers:
        show(_choosers(panel, k, view, measure, curves))
    chosen = Selection(names[0], names[1], k, relevance, measure=measure.name) if len(names) > 1 else None
    if curves is not None:
        with head:
            small = small_groups_sentence(curves, names)
            show(_title(frequency_sentence(curves, names), names), tag("p", small) if small else "", *below)
        _frequency(opened, panel, names, k, curves)
    elif related:
        table = relation_table(panel, k, measure=measure)
        with head:
            show(_title(relations_sentence(table, names), names), _clearest(table, names, chosen), *below)
        _relations(panel, table, names, k)
    else:
        by_frequency = link("Show by frequency", page_address(view="frequency"))
        with head:
            show(tag("h1", "None of these questions has a relation"), *below, notice(by_frequency, "."))


def _below_heading(panel: Panel, names: list[str], k: int, measure: RankingMeasure, view: str) -> tuple[Html, ...]:
    """The unit of the figures, how they are counted, and the line that opens the choices in a narrow window."""
    said = f"{quantity(len(panel), 'question')} measured in {'all runs' if len(names) > 1 else 'the run'}."
    certain = (
        f" A difference is established if its p value, adjusted for all {'groups' if view == 'frequency' else 'relations'} "
        "(Holm), is at most 0.05; its interval is not adjusted."
    )
    about = methods_note(convention(panel.kind, study.rule_of(panel.study, names)), certain)
    return (
        tag("p", f"{said} {measure.title_at(k)}, 95% intervals.", cls="under"),
        about,
        choices_fold(f"{', '.join(names)}, k = {k}, {VIEWS[view]}"),
    )


def _choosers(panel: Panel, k: int, view: str, measure: RankingMeasure, curves: Curves | None) -> Html:
    """The rows of links that choose k, the view, the measure, and how the view by frequency groups the questions."""
    offered = offered_measures(panel.kind)
    more = []
    if curves is not None:
        official = any(question.bucket is not None for question in panel.questions)
        cuts = [each for each in CUT_NAMES if official or CUTS[each] != "official"]
        if len(cuts) > 1:
            options = [(CUT_NAMES[each], page_address(buckets=each), curves.cut == CUTS[each]) for each in cuts]
            more.append(choices("group by", options))
        if curves.can_split:
            split = url.one_of("split", list(SPLITS), "")
            more.append(
                choices("show", [(said, page_address(split=key), key == split) for key, said in SPLITS.items()])
            )
    return div(
        choices("k", [(f"{each}", page_address(k=each), each == k) for each in panel.ks(k)]),
        choices("view", [(words, page_address(view=key), key == view) for key, words in VIEWS.items()]),
        choices(
            "measure",
            [(MEASURES.get(name).title_at(k), page_address(measure=name), name == measure.name) for name in offered],
        ),
        *more,
        cls="choosers",
    )


def _compare_address(names: list[str], k: int, **more: str) -> str:
    """Return the address of Compare for the first two runs; "" for a single run."""
    shared = {"a": names[0], "b": names[1], "k": k, "measure": url.value("measure"), **more}
    return url.href(url.COMPARE, shared) if len(names) > 1 else ""


def _clearest(table: RelationTable, names: list[str], chosen: Selection | None) -> Html:
    """The line below the heading if no relation is established: the clearest one, and the link to its questions."""
    words = clearest_sentence(table, names)
    if not words or chosen is None:
        return Html("")
    name = named_relation(table)
    there = replace(chosen, relation=name)
    return tag("p", f"{words} ", link(f"Its questions on {relation_label(name)}", there.on_compare()))


def _title(sentence: str, names: list[str]) -> Html:
    return tag("h1", unbroken(sentence, names))


def _relations(panel: Panel, table: RelationTable, names: list[str], k: int) -> None:
    made = relations_tables.relations(
        table, names, lambda name, cell: _compare_address(names, k, relation=name, cell=cell) or page_address()
    )
    show(
        div(
            tag("h2", f"{table.title} by relation, %"),
            scrolling(made, NOT_SURE, few(panel.units.name)),
            cls="panel",
        )
    )
    remarks = [convention(panel.kind, study.rule_of(panel.study, names))]
    table_downloads(
        "relations",
        lambda: latex_tables([relation_rows(table, names)], remarks),
        lambda: relation_figures(table, names).as_csv(),
    )
    if len(names) == 2:  # the table draws the same difference
        with st.expander("Plot of both runs"):
            _plot(panel, table, names)
    else:
        show(tag("h2", f"{table.title} by relation, plot"))
        _plot(panel, table, names)


def _plot(panel: Panel, table: RelationTable, names: list[str]) -> None:
    note = pale_note(few(panel.units.name), looks="Lines: 95% intervals. Hollow")
    plot(report_plots.dumbbell(table, names, relations_tables.order(table)), "relations", note)


def _frequency_curves(panel: Panel, k: int, measure: RankingMeasure) -> Curves:
    """Show the choice of the relation, and return the curves that the address asks for."""
    there = ("", *sorted({relation for relation in panel.relations.tolist() if relation}, key=relation_label))
    relation = url.select(
        "Relation",
        "relation",
        there,
        "",
        format_func=lambda name: relation_label(name) if name else "all relations",
    )
    is_split = url.one_of("split", list(SPLITS), "") == "training"
    cut = CUTS.get(url.value("buckets"))
    return frequency_curves(panel, k, relation, cut, measure, split=is_split, compare=True)


def _frequency(open_study: Study, panel: Panel, names: list[str], k: int, curves: Curves) -> None:
    if not any(points for each in curves.series.values() for points in each.values()):
        show(notice("The subjects of these questions have no frequencies."))
        if open_study.questions.subjects(without_frequency=True):
            jobs.followed_button(
                open_study, request(count_frequencies), "count-frequencies", "Count them in the passages"
            )
        return
    note = pale_note(few(panel.units.name), looks="Vertical bars: 95% intervals. Hollow")
    plot(report_plots.curve_plot(curves, names, "AB" if len(names) > 1 else ""), "frequency", note)
    made = relations_tables.along_frequency(
        curves, names, lambda expression, cell: _compare_address(names, k, slice=expression, cell=cell)
    )
    notes = [f"Source of mentions: {curves.source}."]
    if curves.cut == "official":
        notes.append("The groups are the buckets that come with the question sets: 0 most frequent, 7 rarest.")
    if curves.can_split and curves.training:
        notes.append(f"Seen in training: {curves.training}.")
    if curves.cut == "mass":
        notes.append(
            "Eight groups of about equal cumulative frequency; equal frequencies share a group, and subjects without "
            "mentions have their own."
        )
    show(
        div(
            tag("h2", f"{curves.title} by frequency, %"),
            scrolling(made, NOT_SURE, few(panel.units.name)),
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
