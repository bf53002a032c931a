"""How a score is composed, on Question: term weights for learned sparse retrieval, token matches for late interaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np
import streamlit as st

from blindspot.app import study, url
from blindspot.app.components.compare_tables import scrolling
from blindspot.app.components.hit_lists import HitList
from blindspot.app.components.marks import notice
from blindspot.app.components.plots import plot
from blindspot.app.markup import Html, div, join, row, show, span, table, table_head, tag, text
from blindspot.backend.core.study import Study
from blindspot.backend.evaluation.chart_colours import VERMILION
from blindspot.backend.retrieval import live
from blindspot.backend.retrieval.explanation import TermWeights, TokenMatches
from blindspot.backend.retrieval.retriever import kind_of_run
from blindspot.db.errors import BlindspotError
from blindspot.db.records import Passage, Question

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

TERMS = 25  # shared terms, and other terms of the question and the passage, to show
PIXELS = 22  # height of a row of the heat map
STRONGEST = 0.55  # opacity behind the word that adds most to the score


def explanation_section(
    open_study: Study, lists: Sequence[HitList], question: Question, passages: Mapping[int, Passage], shown_count: int
) -> None:
    """Let the reader choose a passage of a list whose retriever can explain its scores, and show how the score is
    composed.

    Args:
        shown_count: number of hits that the page shows of each list.
    """
    retrievers = {column.run_side: name for column in lists if (name := _retriever(open_study, column))}
    offered = {
        f"{column.run_side}-{rank}": (column, rank)
        for column in lists
        if column.run_side in retrievers
        for rank in range(1, min(shown_count, column.depth) + 1)
    }
    if not offered:
        return

    def passage_label(place: str) -> str:
        if not place:
            return "choose a passage"
        column, rank = offered[place]
        title = passages[int(column.ordinals[rank - 1])].title or "untitled"
        return f"{column.run_side.upper()}, rank {rank}: {title[:80]}"

    chosen = url.select("What a score is made of", "explain", ("", *offered), "", format_func=passage_label)
    if not chosen:
        return
    column, rank = offered[chosen]
    row = int(column.ordinals[rank - 1])
    try:
        with st.spinner("Loading the encoder …"):
            found = study.explain_score(open_study, retrievers[column.run_side], question.text, row)
    except BlindspotError as error:
        show(notice(str(error), kind="error"))
        return
    if isinstance(found, TermWeights):
        show(term_weights(found))
    else:
        show(token_matches(found, passages[row]))
        plot(heat_map(found), "token-matches")


def _retriever(open_study: Study, column: HitList) -> str:
    """Return the name of the loaded retriever behind a list if it can explain its scores; otherwise ""."""
    manifest = study.runs(open_study).get(column.name)
    kind = None if manifest is None else kind_of_run(manifest)
    name = column.name if manifest is None or kind is None else kind.retriever_of(manifest)
    return name if live.can_explain(open_study, name) else ""


def term_weights(weights: TermWeights) -> Html:
    """The shared terms with their weights and products, and the terms with the largest weights among the others."""
    rows = [
        row(
            f"{match.question:.3f}",
            f"{match.passage:.3f}",
            f"{match.product:.3f}",
            f"{100 * match.product / weights.score:.0f}" if weights.score else "–",
            head=match.term,
        )
        for match in weights.shared_terms[:TERMS]
    ]
    head = table_head("term", "in the question", "in the passage", "product", "% of the score")
    shared = {match.term for match in weights.shared_terms}
    return div(
        tag("h2", f"Score {weights.score:.4g}: terms that question and passage share"),
        scrolling(table(head, rows, "figures small"))
        if rows
        else tag("p", "The question and the passage share no term."),
        tag("p", f"and {len(weights.shared_terms) - TERMS:,} more shared terms", cls="soft")
        if len(weights.shared_terms) > TERMS
        else "",
        _other_words("Only in the question", weights.question, shared),
        _other_words("Only in the passage", weights.passage, shared),
        cls="panel explanation",
    )


def _other_words(title: str, weights: Sequence[tuple[str, float]], shared_words: set[str]) -> Html:
    rest = [(term, weight) for term, weight in weights if term not in shared_words]
    if not rest:
        return Html("")
    words = [join(term, span(f" {weight:.2f}", cls="soft"), "  ") for term, weight in rest[:TERMS]]
    more = f"and {len(rest) - TERMS:,} more" if len(rest) > TERMS else ""
    return tag("p", tag("b", f"{title}: "), *words, span(more, cls="soft"))


def token_matches(matches: TokenMatches, passage: Passage) -> Html:
    """The passage with its words highlighted by how much each adds to the score."""
    return div(
        tag("h2", f"Score {matches.score:.4g}: words of the passage that question tokens match best"),
        tag("p", marked_passage(matches, passage.text)),
        tag(
            "p",
            "The darker a word, the more it adds to the score. Below: the product of every question token with every passage token; the largest product of each row is added to the score.",
            cls="convention",
        ),
        cls="panel explanation",
    )


def marked_passage(matches: TokenMatches, whole: str) -> Html:
    """The passage's text; the more a matched word adds to the score, the stronger the colour behind it."""
    added = matches.contributions
    largest = float(added.max(initial=0.0))
    parts: list[Html] = []
    end = 0
    for span_, weight in sorted((s, float(w)) for s, w in zip(matches.spans, added, strict=True) if s is not None):
        if weight <= 0 or span_[0] < end:
            continue
        style = f"background:rgba(0,114,178,{STRONGEST * weight / largest:.2f});color:inherit"
        parts += [text(whole[end : span_[0]]), tag("mark", whole[slice(*span_)], style=style, title=f"{weight:.3f}")]
        end = span_[1]
    return join(*parts, whole[end:])


def heat_map(matches: TokenMatches) -> Figure:
    """Question tokens (rows) by passage tokens (columns). A ring marks the largest product of each row."""
    from plotly.graph_objects import Figure, Heatmap, Scatter

    rows, columns = ([escape(word) for word in words] for words in (matches.question, matches.passage))
    best = matches.products.argmax(axis=1)
    hover = "%{customdata[0]} · %{customdata[1]}: %{z:.3f}<extra></extra>"
    pairs = np.array([[(row, column) for column in columns] for row in rows], dtype=object)
    figure = Figure(
        [
            Heatmap(z=matches.products, customdata=pairs, hovertemplate=hover, colorscale="Blues", showscale=True),
            Scatter(
                x=best,
                y=np.arange(len(rows)),
                mode="markers",
                marker={"symbol": "circle-open", "color": VERMILION, "size": 11},
                hoverinfo="skip",
                showlegend=False,
            ),
        ]
    )
    figure.update_layout(
        height=160 + PIXELS * len(rows),
        margin={"l": 10, "r": 10, "t": 10, "b": 10},
        xaxis={"tickvals": list(range(len(columns))), "ticktext": columns, "tickangle": -60, "automargin": True},
        yaxis={"tickvals": list(range(len(rows))), "ticktext": rows, "autorange": "reversed", "automargin": True},
    )
    return figure
