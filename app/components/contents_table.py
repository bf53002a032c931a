"""What a study contains: passages, questions, frequencies and indexes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from blindspot.app.markup import Html, div, join, row, span, table, table_head, tag, term
from blindspot.app.study import set_label
from blindspot.backend.retrieval.dense import KIND as DENSE_INDEX
from blindspot.backend.retrieval.opened import KIND as OPENED_INDEX
from blindspot.backend.retrieval.opened import describe_index


def contents_table(contents: dict[str, Any], as_text: bool = False) -> Html:
    """Passages, questions, frequencies and indexes, as a table.

    Args:
        as_text: leave out answers, frequencies and indexes where the study has none.
    """
    passages = contents["passages"]
    rows = [
        _fact(
            "passages",
            join(f"{passages['count']:,}", span(passages["source"], cls="soft after"))
            if passages
            else span("none yet", cls="soft"),
        ),
        _fact("questions", _questions(contents["questions"], as_text)),
    ]
    source = contents["frequency_source"]
    if source or not as_text:
        about = "How often the corpus mentions each question's subject; distinguishes rare entities from frequent ones"
        rows.append(_fact(term("frequencies", about), source or span("none yet", cls="soft")))
    if contents["indexes"] or not as_text:
        rows.append(_fact("indexes", _indexes(contents["indexes"])))
    return div(
        tag("h2", "Study contents"),
        tag("dl", *rows),
        tag("p", contents["folder"], cls="soft path"),
        cls="panel holdings",
    )


def _fact(name: object, value: object) -> Html:
    return div(tag("dt", name), tag("dd", value))


def _questions(counts: list[dict[str, Any]], as_text: bool) -> object:
    if not counts:
        return span("none yet", cls="soft")
    head = table_head(
        "set",
        "questions",
        *(() if as_text else ("with answers",)),
        term("with gold", "Questions with at least one passage labelled as answering them"),
    )
    keys = ("questions", "with_gold") if as_text else ("questions", "with_answers", "with_gold")
    lines = [row(*(f"{c[key]:,}" for key in keys), head=set_label(c["dataset"], c["split"])) for c in counts]
    if len(counts) > 1:
        lines.append(row(*(f"{sum(c[key] for c in counts):,}" for key in keys), head="all", cls="sum"))
    return div(table(head, lines, "figures small"), cls="scrolling")


def _indexes(indexes: dict[str, dict]) -> object:
    if not indexes:
        return span("none yet", cls="soft")
    lines = []
    for name, manifest in indexes.items():
        lines.append(div(span(name), span(_description(manifest), cls="soft after")))
    return join(*lines)


def _description(manifest: Mapping[str, Any]) -> str:
    """Return what an index is, from the kind in its manifest."""
    if manifest.get("kind") == OPENED_INDEX:
        return describe_index(manifest)
    if manifest.get("kind") == DENSE_INDEX:
        return f"dense, {manifest.get('dimension', '?')} dimensions, {manifest.get('similarity', '')}"
    return "Lucene"
