"""Relations: any number of runs by relation and along the frequency of the subject, as tables and as plots."""

from __future__ import annotations

import streamlit as st

from app import study, url
from app.components import panel_tables
from app.components.analysis import analysis_style
from app.components.marks import count, empty, notice, relation_label
from app.components.panel_tables import choices, page_address
from app.components.plots import plot
from app.components.tables import scrolling
from app.entry import enter
from app.markup import div, join, link, show, span, tag
from app.runs import convention, default_pair, retrieve_command
from backend.evaluation import report_plots
from backend.evaluation.panel import Panel, frequency_curves, relation_table, runs_named

VIEWS = {"relation": "by relation", "frequency": "by frequency"}
IMAGES = ("svg", "png")


def page() -> None:
    opened = study.current()
    known = study.runs(opened)
    analysis_style()
    if not known:
        show(
            empty(
                "No run to measure yet",
                join(
                    "Retrieve on ",
                    link("Home", url.HOME),
                    ", or with ",
                    tag("code", retrieve_command()),
                    ".",
                ),
            )
        )
        return
    names = runs_named(url.value("runs"), list(known), dict.fromkeys(default_pair(known)))
    with st.container(key="pickers"):
        left, right = st.columns([8, 3], vertical_alignment="bottom")
        with left:
            _pick_runs(names, list(known))
        with right:
            relevance = url.select("Relevance", "relevance", ("answers", "gold"), "answers",
                                   format_func={"answers": "holds an answer", "gold": "gold passages"}.get)  # fmt: skip
    panel = study.panel(opened, names, relevance)
    k = url.number("k", min(20, panel.depth), 1, panel.depth)
    view = url.one_of("view", list(VIEWS), "relation")
    related = bool((panel.relations != "").any())
    form = url.one_of("image", IMAGES, IMAGES[0])
    pickers = (
        choices("k", [(f"{each}", page_address(k=each), each == k) for each in panel.ks(k)]),
        choices("show", [(words, page_address(view=key), key == view) for key, words in VIEWS.items()]),
        choices("save plots as", [(each.upper(), page_address(image=each), each == form) for each in IMAGES]),
    )
    show(div(*pickers, cls="choosers"))
    show(tag("p", f"{count(len(panel), 'question')} that {'all the runs' if len(names) > 1 else 'the run'} measured. ",
             convention(panel.kind, study.rule_of(opened, names)), cls="convention"))  # fmt: skip
    if view == "frequency":
        _frequency(panel, names, k)
    elif related:
        _relations(panel, names, k)
    else:
        show(
            notice(
                "None of these questions has a relation. ",
                link("See them by frequency", page_address(view="frequency")),
                ".",
            )
        )


def _pick_runs(names: list[str], known: list[str]) -> None:
    name = "url-runs"
    if st.session_state.get(name) != names:
        st.session_state[name] = names
    st.multiselect("Runs", known, key=name, on_change=lambda: url.write("runs", ",".join(st.session_state[name])),
                   help="The first two are compared with each other.")  # fmt: skip


def _opened(names: list[str], k: int, **more: str) -> str:
    """Compare, on the first two runs; one run has nothing to compare with."""
    return url.href(url.COMPARE, {"a": names[0], "b": names[1], "k": k, **more}) if len(names) > 1 else ""


def _relations(panel: Panel, names: list[str], k: int) -> None:
    table = relation_table(panel, k)
    sort = url.value("sort", "difference" if table.differences else f"{names[0]}@{k}")
    order = panel_tables.order(table, names, sort)
    made = panel_tables.relations(
        table, names, sort, page_address, lambda name: _opened(names, k, relation=name) or page_address()
    )
    note = f"Pale: fewer than {report_plots.FEW} questions. The interval of a share is Wilson's; point at a figure to read it."
    show(div(tag("h2", "Success@k by relation, %"), scrolling(made), tag("p", note, cls="convention"), cls="panel"))
    said = span(f"whiskers: 95% intervals; grey: fewer than {report_plots.FEW} questions", cls="soft")
    show(div(tag("h2", f"Success@{k} by relation"), said, cls="list-head"))
    plot(report_plots.dumbbell(table, names, order), "relations")
    beside = panel_tables.beside_published(table, names, panel)
    if beside:
        show(div(tag("h2", "Beside the published figures"), beside, cls="panel"))


def _frequency(panel: Panel, names: list[str], k: int) -> None:
    there = sorted({relation for relation in panel.relations.tolist() if relation}, key=relation_label)
    left, right = st.columns([4, 8], vertical_alignment="bottom")
    with left:
        relation = url.select(
            "Relation",
            "relation",
            ("", *there),
            "",
            format_func=lambda name: relation_label(name) if name else "every relation",
        )
    official = {"official": True, "cut": False}.get(url.value("buckets"))
    curves = frequency_curves(panel, k, relation, official)
    with right:
        if any(question.bucket is not None for question in panel.questions):
            show(choices("buckets", [("official", page_address(buckets="official"), curves.official),
                                     ("cut here", page_address(buckets="cut"), not curves.official)]))  # fmt: skip
    if not any(points for each in curves.series.values() for points in each.values()):
        show(
            notice(
                "No frequency is known of these questions' subjects: ",
                tag("code", "blindspot import frequencies --count"),
                " counts their mentions.",
            )
        )
        return
    plot(report_plots.curve_plot(curves, names), "frequency")
    made = panel_tables.along_frequency(curves, names, lambda expression: _opened(names, k, slice=expression))
    said = [f"Mentions by {curves.source}."]
    if curves.official:
        said.append("Buckets are the question sets' own, used as they are.")
    if curves.training:
        said.append(f"Seen in training: {curves.training}.")
    if not curves.official:
        said.append(
            "8 buckets of about equal cumulative frequency, equal frequencies together; subjects never mentioned stand by themselves."
        )
    said.append(f"Pale, and grey in the plot: fewer than {report_plots.FEW} questions. Intervals are Wilson's.")
    show(
        div(
            tag("h2", f"Success@{k} along frequency, %"),
            scrolling(made),
            tag("p", " ".join(said), cls="convention"),
            cls="panel",
        )
    )


enter(page)
