"""Compare: two runs, where each finds what the other misses, and the questions behind every number."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import streamlit as st

from analysis.buckets import FEW, UNKNOWN
from app import selection, study, url
from app.components.analysis import analysis_style
from app.components.judged_table import judged_table
from app.components.marks import count, empty, notice, relation_label, term
from app.components.question_list import question_table
from app.components.readings import readings_panel
from app.components.tables import accuracy_table, concluded, flip_table, group_table, scrolling
from app.entry import enter
from app.markup import div, join, link, show, span, tag
from app.runs import convention, default_pair, left_out, retrieve_command
from app.selection import Selection
from app.study import Comparison
from backend.evaluation.comparison import method, reservation
from backend.evaluation.slices import Facts
from db.errors import BlindspotError

CELL_NAMES = {
    "all": "All questions",
    "both": "Both find it",
    "only_a": "Only A finds it",
    "only_b": "Only B finds it",
    "neither": "Neither finds it",
}


def page() -> None:
    opened = study.current()
    names = list(study.runs(opened))
    if len(names) < 2:
        missing = "two runs" if not names else "a second run"
        show(
            empty(
                f"Compare needs {missing}",
                join(
                    "Make one on ",
                    link("Home", url.HOME),
                    ", or with ",
                    tag("code", retrieve_command()),
                    ".",
                ),
            )
        )
        return
    pair = default_pair(study.runs(opened))
    with st.container(key="pickers"):
        columns = st.columns([4, 4, 2.6, 3.4], vertical_alignment="bottom")
        with columns[0]:
            a = url.select("Run A", "a", names, pair[0], forget=("page",))
        with columns[1]:
            b = url.select("Run B", "b", names, pair[1], forget=("page",))
        with columns[2]:
            relevance = url.select(
                "Relevance",
                "relevance",
                ("answers", "gold"),
                "answers",
                forget=("page",),
                format_func={"answers": "holds an answer", "gold": "gold passages"}.get,
                help="What counts as relevant: a passage that holds an answer string, or one that the question's gold names.",
            )
        rule = study.rule(opened, a, b)
        compared = study.comparison(opened, a, b, relevance, rule)
        chosen = selection.read(a, b, max(compared.depth, 1), rule)
        with columns[3]:
            show(_k_picker(chosen, compared.depth))
    show(_said(compared, chosen))
    if not len(compared):
        return
    analysis_style()
    chosen = _readable(compared, chosen)
    _filters(compared)
    kept = selection.filtered(compared, chosen)
    wider = selection.filtered(compared, replace(chosen, relation="", bucket=""))
    show(
        div(
            div(scrolling(accuracy_table(compared, chosen, kept)), _concluded(compared, chosen, kept), cls="panel"),
            div(flip_table(compared, chosen, kept), _scope(compared, chosen, kept), cls="panel"),
            cls="side-by-side overview",
        )
    )
    show(judged_table(opened, (a, b), chosen.k, compared.a.kind, rule))
    show(readings_panel(opened, compared, chosen, kept, _grouping(compared)))
    rows = selection.rows(compared, chosen, kept)
    questions = div(
        _questions_head(chosen, len(rows)), question_table(compared, chosen, rows), cls="panel", id="questions"
    )
    by = _grouping(compared)
    if by is None:
        show(questions)
        return
    groups = div(
        _groups_head(compared, chosen, by), scrolling(group_table(compared, chosen, wider, by)), _small(by), cls="panel"
    )
    show(div(groups, questions, cls="side-by-side halves"))


def _readable(compared: Comparison, chosen: Selection) -> Selection:
    """The selection, without its slice where that cannot be read; then a line says why."""
    try:
        Facts(compared, chosen.k).mask(chosen.slice)
    except BlindspotError as error:
        show(notice(f"{error}. It is left out here. ", link("Slices", url.href("slices", chosen.parameters())), " says how one is written.",
                    kind="error"))  # fmt: skip
        return replace(chosen, slice="")
    return chosen


def _concluded(compared: Comparison, chosen: Selection, kept: np.ndarray):
    """What may be concluded, and what may not."""
    said = concluded(compared, chosen, kept)
    return div(
        tag("p", said, cls="conclusion"),
        tag(
            "p",
            reservation(compared.a.kind, chosen.rule),
            " ",
            term("How it is tested", method()),
            " · ",
            link(
                "Which slices explain it?", url.href("slices", chosen.parameters(page=1) | {"find": "westfall-young"})
            ),
            cls="convention",
        ),
    )


def _grouping(compared: Comparison) -> str | None:
    """What the table of groups is by; None where there is nothing to group by."""
    related, known = bool(np.any(compared.relations != "")), bool(np.any(compared.buckets != UNKNOWN))
    options = [by for by, there in (("relation", related), ("bucket", known)) if there]
    return url.one_of("groups", options, options[0]) if options else None


def _groups_head(compared: Comparison, chosen: Selection, by: str):
    links = [
        link(f"By {each}", url.href(url.COMPARE, chosen.parameters(page=1) | {"groups": "" if each == "relation" else each}),
             cls="here" if each == by else None, data_focus=f"groups-{each}", aria_current="true" if each == by else None)
        for each in ("relation", "bucket")
    ]  # fmt: skip
    runs = url.href(
        "relations", {"runs": f"{chosen.a},{chosen.b}", "k": chosen.k, "view": "frequency" if by == "bucket" else ""}
    )
    return div(span(*links, cls="choices"), link("as a plot, with more runs", runs, cls="quiet"), cls="list-head")


def _small(by: str):
    words = f"p is adjusted by Holm's method for the rows. Rows of fewer than {FEW} questions are pale."
    if by == "bucket":
        source = study.current().questions.frequency_source or "nothing: no frequencies are known"
        words += f" Buckets: official ones (0 most frequent, 7 rarest) where a question has one, else mentions of its subject, by {source}."
    return tag("p", words, cls="convention")


def _k_picker(chosen: Selection, depth: int):
    """The cut-off k as a row of links."""
    from app.components.tables import cut_offs

    links = [
        link(
            f"{k}",
            chosen.on_compare(k=k),
            cls="here" if k == chosen.k else None,
            data_focus=f"pick-k{k}",
            aria_current="true" if k == chosen.k else None,
        )
        for k in cut_offs(depth, chosen.k)
    ]
    swap = link(
        "swap A and B",
        chosen.on_compare(a=chosen.b, b=chosen.a, cell=SWAPPED.get(chosen.cell, chosen.cell)),
        cls="quiet",
        data_focus="swap",
    )
    return div(
        span(term("k", "A question counts as found when a relevant passage stands among the first k"), cls="label"),
        span(*links, cls="choices"),
        swap,
        cls="k-picker",
    )


SWAPPED = {"only_a": "only_b", "only_b": "only_a"}


def _said(compared: Comparison, chosen: Selection):
    """How many questions are compared, by which convention, and what was left out."""
    a, b = compared.a, compared.b
    if a.kind != b.kind:
        return notice(
            f"{a.name} can only be measured by {a.kind} and {b.name} only by {b.kind}: choose gold for both, or other runs.",
            kind="warning",
        )
    if not len(compared):
        return notice(
            f"{a.name} and {b.name} share no question that can be measured by {a.kind}. "
            f"({a.name}: {count(len(a.questions), 'question')}; {b.name}: {count(len(b.questions), 'question')}.)",
            kind="warning",
        )
    said = [f"{count(len(compared), 'question')}. ", convention(a.kind, chosen.rule)]
    warnings = []
    if not len(compared) == len(a.questions) == len(b.questions):
        warnings.append(
            f"The runs cover different questions ({a.name} {len(a.questions):,}, {b.name} {len(b.questions):,}): "
            f"compared on the {len(compared):,} they share."
        )
    if a.k != b.k:
        warnings.append(f"{a.name} keeps {a.k} hits, {b.name} {b.k}: k goes up to {compared.depth}.")
    if chosen.relevance != a.kind:
        warnings.append("No question of these runs has answers, so relevance is gold.")
    warnings += [f"{name}: {line}" for name, line in ((m.name, left_out(m)) for m in (a, b)) if line]
    return join(tag("p", *said, cls="convention"), *(notice(line, kind="warning") for line in warnings))


def _filters(compared: Comparison) -> None:
    with st.container(key="filters"):
        columns = st.columns([4, 4, 6])
        relations = sorted({relation for relation in compared.relations.tolist() if relation}, key=relation_label)
        sets = sorted(set(compared.sets.tolist()))
        with columns[0]:
            url.select(
                "Relation",
                "relation",
                ("", *relations),
                "",
                forget=("page",),
                format_func=lambda relation: relation_label(relation) if relation else "every relation",
            )
        with columns[1]:
            url.select(
                "Set",
                "set",
                ("", *sets),
                "",
                forget=("page",),
                format_func=lambda name: name or "every set",
                help="The split, and the name of the question set where it has one.",
            )
        with columns[2]:
            url.text_box(
                "Find", "text", forget=("page",), placeholder="words in the question, its answers, subject or id"
            )


def _scope(compared: Comparison, chosen: Selection, kept: np.ndarray):
    if kept.all():
        return ""
    return tag(
        "p",
        f"These figures are over the {int(kept.sum()):,} of {len(compared):,} questions that the filters leave. ",
        join("Slice: ", tag("code", chosen.slice), " ") if chosen.slice else "",
        f"Bucket: {chosen.bucket}. " if chosen.bucket else "",
        link("Clear the filters", chosen.on_compare(relation="", set="", bucket="", slice="", text="")),
        cls="convention",
    )


def _questions_head(chosen: Selection, total: int):
    parts = [tag("h2", CELL_NAMES[chosen.cell], span(f" at {chosen.k}" if chosen.cell != "all" else "", cls="soft"))]
    if chosen.cell != "all":
        parts.append(link("all cells", chosen.on_compare(cell="all", sort=""), cls="quiet", data_focus="all-cells"))
    return div(*parts, cls="list-head")


enter(page)
