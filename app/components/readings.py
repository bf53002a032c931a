"""A reader's accuracy on the Compare page: exact match of both runs at each k, and by relation or frequency."""

from __future__ import annotations

from typing import Literal

import numpy as np
import streamlit as st

from blindspot.analysis.accuracy import Estimate, mean, proportion
from blindspot.analysis.buckets import FEW
from blindspot.app import study as held
from blindspot.app import url
from blindspot.app.components.compare_tables import gain, scrolling
from blindspot.app.components.marks import (
    NOT_SURE,
    few,
    grouping,
    interval,
    letter,
    n_figure,
    pale_note,
    percent,
    percentage,
    relation_label,
)
from blindspot.app.components.stylesheets import style_sheet
from blindspot.app.markup import Html, div, join, link, row, span, table, table_head, tag, term
from blindspot.app.selection import Selection
from blindspot.app.study import Comparison
from blindspot.backend.core.study import Study
from blindspot.backend.core.units import count_with_units
from blindspot.backend.reader.reading import Reading, readings_of
from blindspot.backend.reader.readings import CONVENTION, MeasuredReading, compare_readings, measure_reading
from blindspot.backend.text.number_words import quantity
from blindspot.db.question_table import ids_of, take

F1 = (
    "Word overlap (F1) of the reader's answer with the best-matching known answer: mean over questions, with its "
    "interval"
)
Grouping = Literal["relation", "bucket"]
FOUND = "Success@k: share of questions with an answer in the first k passages, the upper limit for the reader"


def chosen_reader(study: Study, names: tuple[str, ...]) -> tuple[str, list[str]]:
    """Return the chosen reader, and all readers that have answers on one of these runs.

    The chosen reader is the one in the address. Otherwise it is the newest among the readers with answers on the most
    of these runs.
    """
    read_by = [list(readings_of(held.run(study, name))) for name in dict.fromkeys(names)]
    known = list(dict.fromkeys(reader for readers in read_by for reader in readers))
    default = max(
        known, key=lambda reader: (sum(reader in readers for readers in read_by), known.index(reader)), default=""
    )
    return (url.one_of("reader", known, default) if known else ""), known


def cached_reading(study: Study, run: str, reader: str) -> Reading | None:
    """Return the reader's answers on a run; None if it has not read the run."""
    opened = study.run(run)
    manifest = readings_of(opened).get(reader)
    return (
        None
        if manifest is None
        else _cached_reading(study, str(study.folder), run, opened.manifest.get("made"), reader, manifest["made"])
    )


@st.cache_resource(max_entries=32, show_spinner=False)
def _cached_reading(
    _study: Study, folder: str, run: str, run_made: str | None, reader: str, fingerprint: str
) -> Reading:
    return Reading.open(_study, run, reader)


@st.cache_resource(max_entries=32, show_spinner=False)
def _measured_reading(
    _study: Study, _reading: Reading, questions: tuple, name: str, fingerprint: tuple, ks: tuple[int, ...]
) -> MeasuredReading:
    return measure_reading(_study, _reading, ks)


def readings_panel(
    study: Study, comparison: Comparison, selection: Selection, subset: np.ndarray, group_kind: Grouping | None
) -> Html:
    """The panel for runs A and B; empty if no reader has answers on either."""
    reader, known = chosen_reader(study, (selection.a, selection.b))
    readings = {
        side: found
        for side, name in (("a", selection.a), ("b", selection.b))
        if (found := cached_reading(study, name, reader)) is not None
    }
    if not readings:
        return Html("")
    depth = min(reading.depth for reading in readings.values())
    k = min(selection.k, depth)
    ks = tuple(sorted({k for found in readings.values() for k in found.ks if k <= depth} | {k}))
    key = held.questions_key(study)
    made = {
        side: _measured_reading(
            study, found, key, found.name, (found.run.manifest.get("made"), found.manifest["made"]), ks
        )
        for side, found in readings.items()
    }
    ids = set(ids_of(take(comparison.questions, np.flatnonzero(subset))))
    for each in made.values():
        ids &= set(each.row_of)
    if not ids:
        return Html("")
    tables = [scrolling(_by_k(made, ks, k, ids, selection))]
    if group_kind is not None:
        tables.append(
            div(
                _by_group(made, k, ids, group_kind),
                cls="by-group",
                tabindex="0",
                role="region",
                aria_label=f"Exact match by {grouping(group_kind)}",
            )
        )
    absent = [side for side in ("a", "b") if side not in made]
    words = [f"{quantity(len(ids), 'question')}. ", CONVENTION]
    if absent and selection.a != selection.b:
        run = getattr(selection, absent[0])
        words += [
            " ",
            letter(absent[0]),
            " has no answers from this reader yet; run: ",
            tag("code", f"blindspot read --run {run} --reader {reader}"),
        ]
    shown = div(*tables, cls="side-by-side halves") if len(tables) == 2 else tables[0]
    return join(
        style_sheet("readings.css"),
        div(
            _panel_head(reader, known),
            shown,
            pale_note(NOT_SURE, few("question")),
            tag("p", *words, cls="convention"),
            cls="panel readings",
        ),
    )


def _panel_head(reader: str, readers: list[str]) -> Html:
    parameters = st.query_params.to_dict()
    links = [
        link(
            each,
            url.href(url.COMPARE, {**parameters, "reader": each}),
            cls="here" if each == reader else None,
            data_focus=f"reader-{each}",
            aria_current="true" if each == reader else None,
        )
        for each in readers
    ]
    choice = span(*links, cls="choices") if len(readers) > 1 else span(reader, cls="soft")
    return div(tag("h2", "Reader accuracy"), span("reader ", choice), cls="list-head")


def _by_k(
    readings: dict[str, MeasuredReading], ks: tuple[int, ...], k: int, ids: set[str], selection: Selection
) -> Html:
    rows = {side: np.array([each.row_of[id] for id in each.row_of if id in ids]) for side, each in readings.items()}

    def best_k_class(cutoff: int) -> str | None:
        return "chosen" if cutoff == k else None

    def table_row(name: object, cells: list[Html], cls: str | None = None) -> Html:
        shown = [tag("td", cell, cls=best_k_class(at)) for at, cell in zip(ks, cells, strict=True)]
        return tag("tr", tag("th", name, scope="row"), *shown, cls=cls)

    units = {side: each.units.codes[rows[side]] for side, each in readings.items()}
    lines = [
        table_row(
            join(letter(side), " ", each.run),
            [percentage(proportion(each.exact[at][rows[side]], units[side]), inline=True) for at in ks],
        )
        for side, each in readings.items()
    ]
    if len(readings) == 2:
        lines.append(
            table_row(
                "ahead",
                [gain(compare_readings(readings["a"], readings["b"], at, kept_ids=ids)["all"].difference) for at in ks],
                "sum",
            )
        )
    lines += [
        table_row(
            join(letter(side), " ", term("F1", F1)),
            [_mean(mean(each.f1[at][rows[side]], units[side])) for at in ks],
            "second",
        )
        for side, each in readings.items()
    ]
    measured = {
        side: [percentage(proportion(each.successes[at][rows[side]], units[side])) for at in ks]
        for side, each in readings.items()
    }
    lines += [
        table_row(join(letter(side), " ", term("answer in top k", FOUND)), cells, "second")
        for side, cells in measured.items()
    ]
    columns = [
        tag(
            "th",
            link(f"@{at}", selection.on_compare(k=at), data_focus=f"read-k{at}"),
            scope="col",
            cls=best_k_class(at),
        )
        for at in ks
    ]
    return table(table_head(term("Exact match, %", CONVENTION), *columns), lines, "figures accuracy")


def _mean(estimate: Estimate) -> Html:
    message = f"{percent(estimate.value)}, {interval(estimate)} ({estimate.method}), {count_with_units(estimate.n, estimate.units)}"
    return tag("span", percent(estimate.value), title=message, cls="figure")


def _by_group(readings: dict[str, MeasuredReading], k: int, ids: set[str], group_kind: Grouping) -> Html:
    sides = list(readings)
    names = ["n", *(join(letter(side), f" @{k}") for side in sides)]
    lines = []
    if len(sides) == 2:
        names += ["ahead", term("p", "p value of the paired sign-flip test, Holm-adjusted")]
        for name, both in compare_readings(readings["a"], readings["b"], k, group_kind, ids).items():
            p = both.difference.p_adjusted
            cells = [
                n_figure(both.n, both.difference.units, readings["a"].unit),
                percentage(both.estimate_a),
                percentage(both.estimate_b),
                gain(both.difference),
                "–" if p is None else "<0.001" if p < 0.001 else f"{p:.3f}",
            ]
            lines.append(_group_row(name, group_kind, both.n, cells))
    else:
        (one,) = readings.values()
        for name, group in one.groups(group_kind).items():
            rows = np.array([place for place in group.tolist() if one.questions[place].id in ids], np.int64)
            if len(rows):
                lines.append(
                    _group_row(
                        name,
                        group_kind,
                        len(rows),
                        [
                            n_figure(len(rows), one.units.units_of_rows(rows).count, one.unit),
                            percentage(proportion(one.exact[k][rows], one.units.codes[rows]), inline=True),
                        ],
                    )
                )
    return table(table_head(grouping(group_kind), *names), lines, "figures groups")


def _group_row(name: str, grouping: str, n: int, cells: list) -> Html:
    label = relation_label(name) if grouping == "relation" else name
    return row(*cells, head=label, cls="few" if n < FEW else None)
