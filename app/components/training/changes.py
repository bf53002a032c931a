"""The differences of two training sets on the Training page: counts by kind and reason, and the pairs of one of
them.
"""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from blindspot.app import hidden_questions, url
from blindspot.app.components.hit_lists import highlighted_text
from blindspot.app.components.marks import notice
from blindspot.app.components.pager import pager
from blindspot.app.components.stylesheets import style_sheet
from blindspot.app.markup import Html, div, join, link, show, span, tag
from blindspot.backend.core.study import Study
from blindspot.backend.text.answers import answer_spans, query_spans, rule_for
from blindspot.backend.text.number_words import noun_form, quantity
from blindspot.backend.text.spans import excerpt
from blindspot.backend.training_sets.differences import (
    KINDS,
    Change,
    ChangeKind,
    ChangeSummary,
    change_summary,
    changes_of_kind,
)
from blindspot.backend.training_sets.training_set import TrainingSet
from blindspot.db.records import Passage, Question

PER_PAGE = 10
EXAMPLES = 3  # pairs that are shown before somebody chooses a kind of change
KIND, REASON, PAGE = "change", "reason", "page"  # parameters of the address
PARAMETERS = (KIND, REASON, PAGE)


def changes_panel(open_study: Study, older_set: TrainingSet, newer_set: TrainingSet) -> None:
    """Show what changed, the most important kinds first, and the pairs of the chosen kind, page by page; some examples of
    the first kind until somebody chooses one.
    """
    found = _summary(older_set, newer_set, older_set.manifest["fingerprint"], newer_set.manifest["fingerprint"])
    if not found.changed:
        show(notice(f"{older_set.name} and {newer_set.name} have the same pairs in the same roles."))
        return
    kinds = {_key(kind): (kind, reasons) for kind, reasons in found.by_kind().items()}
    key = url.one_of(KIND, list(kinds), next(iter(kinds)))
    kind, reasons = kinds[key]
    reason = url.one_of(REASON, list(reasons), "")
    here = {"tab": "set", "set": newer_set.name, "before": older_set.name}
    rows = [row for name, (each, why) in kinds.items() for row in _kind_rows(each, why, here, name == key, reason)]
    total = reasons[reason] if reason else sum(reasons.values())
    pages = -(-total // PER_PAGE)
    page = url.number(PAGE, 1, 1, pages)
    changes = _page(
        older_set, newer_set, kind, reason, page, older_set.manifest["fingerprint"], newer_set.manifest["fingerprint"]
    )
    here |= {KIND: key, REASON: reason}
    is_chosen = bool(url.value(KIND)) or total <= EXAMPLES
    listed = changes if is_chosen else changes[:EXAMPLES]
    pairs = tag("ul", *_pairs(open_study, listed), cls="changed-pairs")
    words = f"{_title(kind)}{f', {reason}' if reason else ''}: {quantity(total, 'pair')}"
    if is_chosen:
        turn = pager(total, page, PER_PAGE, "pair", lambda number: url.href(url.TRAINING, here | {PAGE: number}))
        shown = join(tag("h3", words), pairs, turn)
    else:
        every = link(f"All {quantity(total, 'pair')}", url.href(url.TRAINING, here), cls="quiet")
        summary = tag("summary", f"{len(listed)} examples of {_title(kind)}")
        shown = tag("details", summary, pairs, every, cls="fold")
    show(
        style_sheet("training/changes.css"),
        div(
            tag("h2", f"From {older_set.name} to {newer_set.name}: {quantity(found.changed, 'changed pair')}"),
            tag("table", tag("tbody", *rows, _unchanged_row(found)), cls="small kinds"),
            shown,
            cls="panel",
            id="changes",
        ),
    )


def change_words(older_set: TrainingSet, newer_set: TrainingSet) -> str:
    """Say what the newer set makes of the negatives of the older one: how many are positives in it, and how many it
    drops.
    """
    found = _summary(older_set, newer_set, older_set.manifest["fingerprint"], newer_set.manifest["fingerprint"])
    kinds = {kind: sum(reasons.values()) for kind, reasons in found.by_kind().items()}
    turned, dropped = kinds.get(("negative", "positive"), 0), kinds.get(("negative", "dropped"), 0)
    dropped += kinds.get(("negative", None), 0)
    if not turned and not dropped:
        return f"{newer_set.name} keeps the negatives of {older_set.name}."
    turns = (
        f"turns {quantity(turned, 'negative')} of {older_set.name} into {noun_form(turned, 'a positive', 'positives')}"
    )
    drops = f"drops {dropped:,}" if turned else f"drops {quantity(dropped, 'negative')} of {older_set.name}"
    return f"{newer_set.name} {' and '.join([turns] * bool(turned) + [drops] * bool(dropped))}."


def _unchanged_row(summary: ChangeSummary) -> Html:
    more = span(f", {summary.other_source:,} of them from another source", cls="soft") if summary.other_source else ""
    return tag("tr", tag("td", f"{summary.same:,}"), tag("td", "kept in the same role", more, cls="left"), cls="kind")


def _title(kind: ChangeKind) -> str:
    """Return a kind of change in words, such as "relabelled: negative → positive" or "dropped negatives"."""
    was, now = kind
    if was is None or now is None:
        return KINDS[kind]
    return f"dropped {was}s" if now == "dropped" else f"relabelled: {KINDS[kind]}"


def _key(kind: ChangeKind) -> str:
    return "-".join(role or "absent" for role in kind)


def _kind_rows(
    kind: ChangeKind, reasons: dict[str, int], page_parameters: dict[str, str], is_chosen: bool, reason: str
) -> list[Html]:
    """Return a row for the kind, and one for each of its reasons if there are several."""

    def row(count: int, label: str, parameters: dict[str, str], is_open: bool, cls: str) -> Html:
        address = url.href(url.TRAINING, page_parameters | {KIND: _key(kind)} | parameters)
        name = link(label, address, cls="chosen" if is_open else None, aria_current="true" if is_open else None)
        return tag("tr", tag("td", f"{count:,}"), tag("td", name, cls="left"), cls=cls)

    total = sum(reasons.values())
    rows = [row(total, _title(kind), {}, is_chosen and not reason, "kind")]
    return rows + [
        row(count, why, {REASON: why}, is_chosen and reason == why, "reason") for why, count in reasons.items()
    ]


def _pairs(open_study: Study, changes: Sequence[Change]) -> list[Html]:
    """Return an entry for each pair; pairs of questions that the viewer still has to judge are left out."""
    hidden = hidden_questions.hidden_ids(open_study)
    changes = [change for change in changes if change.question not in hidden]
    questions = {
        each.id: each for each in open_study.questions.with_ids(sorted({change.question for change in changes}))
    }
    passages = open_study.corpus.by_id(change.passage for change in changes)
    return [_pair(change, questions[change.question], passages.get(change.passage)) for change in changes]


def _pair(change: Change, question: Question, passage: Passage | None) -> Html:
    was, now = (" by ".join(side) if side else "absent" for side in (change.before, change.after))
    return tag(
        "li",
        div(
            link(question.text, url.href(url.QUESTION, {"question": question.id})),
            span(f"{was} → {now}", cls="roles"),
            span(change.why, cls="soft"),
            cls="head",
        ),
        div(
            tag("b", passage.title or "untitled") if passage else "",
            " ",
            span(change.passage, cls="soft"),
            cls="title",
        ),
        _text(passage, question) if passage else tag("p", "This passage is no longer in the collection.", cls="soft"),
    )


def _text(passage: Passage, question: Question) -> Html:
    answers = answer_spans(passage.text, question.answers, rule_for(question)) if question.answers else []
    words = query_spans(passage.text, question.text)
    low, high = excerpt(passage.text, answers, words)
    return tag(
        "p",
        "… " if low else "",
        highlighted_text(passage.text, low, high, answers, words),
        " …" if high < len(passage.text) else "",
        cls="text",
    )


@st.cache_data(max_entries=8, show_spinner="Comparing the sets …")
def _summary(
    _before: TrainingSet, _after: TrainingSet, older_fingerprint: str, newer_fingerprint: str
) -> ChangeSummary:
    """Training sets never change, so their fingerprints serve as the cache key."""
    return change_summary(_before, _after)


@st.cache_data(max_entries=32, show_spinner="Reading the pairs …")
def _page(
    _before: TrainingSet,
    _after: TrainingSet,
    kind: ChangeKind,
    reason: str,
    page: int,
    older_fingerprint: str,
    newer_fingerprint: str,
) -> list[Change]:
    return changes_of_kind(_before, _after, kind, reason or None, (page - 1) * PER_PAGE, PER_PAGE)
