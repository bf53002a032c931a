"""What a training set contains on the Training page, and its differences from another set: counts by kind and reason,
and the pairs of one of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import streamlit as st

from blindspot.app import url
from blindspot.app.components.compare_tables import scrolling
from blindspot.app.components.hit_lists import highlighted_text
from blindspot.app.components.marks import notice
from blindspot.app.components.pager import pager
from blindspot.app.components.stylesheets import style_sheet
from blindspot.app.components.training.tabs import part_name
from blindspot.app.markup import Html, div, join, link, row, show, span, table, table_head, tag
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
SOURCES = {
    "label": "by annotators",
    "gold": "gold",
    "distant": "by distant supervision",
    "cross_encoder": "by a cross-encoder",
    "judge": "by a judge",
    "run": "mined",
    "random": "random",
    "other_gold": "gold of other questions",
}
_PEOPLE = re.compile(r"\bpeople(?= (say|are|disagree|deny)\b)")  # the annotators in the reasons that sets store


class ChosenChange(NamedTuple):
    """The change whose pairs are listed: its kind, one of its reasons or "" for all of them, and its number of pairs."""

    kind: ChangeKind
    reason: str
    total: int


def reason_words(reason: str) -> str:
    """Return a stored reason as the page says it: sets store "people" for the annotators, who may be simulated."""
    return _PEOPLE.sub("annotators", reason)


def contents_panel(open_study: Study, older_set: TrainingSet | None, newer_set: TrainingSet, sees_labels: bool) -> None:
    """Show what a set contains. Beside an older set, also what changed, and pairs of the chosen change: some examples of
    the first kind until somebody chooses one. Without the right to see labels, the numbers alone.
    """
    found = None
    if older_set is not None and sees_labels:
        found = _summary(older_set, newer_set, older_set.manifest["fingerprint"], newer_set.manifest["fingerprint"])
    chosen = None if found is None else _chosen_change(found)
    contents = scrolling(_contents(newer_set, older_set, found, chosen))
    show(style_sheet("training/changes.css"))
    if older_set is None or chosen is None:
        show(contents)
    else:
        pairs = _listed_pairs(open_study, older_set, newer_set, chosen)
        show(div(contents, div(*pairs), cls="changes", id="changes"))
    if found is not None and older_set is not None and not found.changed:
        show(notice(f"{older_set.name} and {newer_set.name} have the same pairs in the same roles."))


def _chosen_change(summary: ChangeSummary) -> ChosenChange | None:
    """Return the change that the address names, else the first kind; None if nothing changed."""
    kinds = {_key(kind): (kind, reasons) for kind, reasons in summary.by_kind().items()}
    if not kinds:
        return None
    kind, reasons = kinds[url.one_of(KIND, list(kinds), next(iter(kinds)))]
    reason = url.one_of(REASON, list(reasons), "")
    return ChosenChange(kind, reason, reasons[reason] if reason else sum(reasons.values()))


def _listed_pairs(
    open_study: Study, older_set: TrainingSet, newer_set: TrainingSet, chosen: ChosenChange
) -> tuple[Html, ...]:
    """Return the heading and the pairs of the chosen change, page by page once somebody chose it."""
    fingerprints = older_set.manifest["fingerprint"], newer_set.manifest["fingerprint"]
    page = url.number(PAGE, 1, 1, -(-chosen.total // PER_PAGE))
    changes = _page(older_set, newer_set, chosen.kind, chosen.reason, page, *fingerprints)
    here = _address(older_set, newer_set) | {KIND: _key(chosen.kind), REASON: chosen.reason}
    words = f"{_title(chosen.kind)}{f', {reason_words(chosen.reason)}' if chosen.reason else ''}: {quantity(chosen.total, 'pair')}"
    if bool(url.value(KIND)) or chosen.total <= EXAMPLES:
        more = pager(chosen.total, page, PER_PAGE, "pair", lambda n: url.href(url.TRAINING, here | {PAGE: n}))
    else:
        changes = _of_several_questions(changes)[:EXAMPLES]
        more = link(f"All {quantity(chosen.total, 'pair')}", url.href(url.TRAINING, here), cls="quiet")
    same = _shared_words(changes)
    said = tag("p", same, cls="soft") if same else Html("")
    pairs = tag("ul", *_pairs(open_study, changes, bool(same)), cls="changed-pairs")
    return tag("h3", words), said, pairs, more


def _shared_words(changes: Sequence[Change]) -> str:
    """Return the roles and the reason of the changes, if all have the same."""
    words = {(_roles(change), reason_words(change.why)) for change in changes}
    return "; ".join(words.pop()) if len(words) == 1 else ""


def _roles(change: Change) -> str:
    was, now = (" by ".join(side) if side else "absent" for side in (change.before, change.after))
    return f"{was} → {now}"


def _of_several_questions(changes: Sequence[Change]) -> list[Change]:
    """Return the changes with the first one of each question at the front."""
    firsts = {change.question: change for change in reversed(changes)}
    return sorted(changes, key=lambda change: firsts[change.question] is not change)


def _address(older_set: TrainingSet, newer_set: TrainingSet) -> dict[str, str]:
    return {"tab": "sets", "set": newer_set.name, "before": older_set.name}


def _contents(
    newer_set: TrainingSet, older_set: TrainingSet | None, summary: ChangeSummary | None, chosen: ChosenChange | None
) -> Html:
    """Return the table of what a set holds, beside an older set, with what came into each role and why."""
    after, before = newer_set.manifest["counts"], None if older_set is None else older_set.manifest["counts"]
    rows = []
    for role, sources in after["sources"].items():
        total = sum(sources.values())
        was = sum(before["sources"].get(role, {}).values()) if before else None
        if not total and not was:
            continue
        words = ", ".join(f"{number:,} {SOURCES.get(source, source)}" for source, number in sources.items())
        name: object = role if role == "dropped" else f"{role}s"
        kind_rows: list[Html] = []
        if summary is not None and older_set is not None:
            links = _ChangeLinks(chosen, _address(older_set, newer_set))
            kinds = _kinds_of(summary, role)
            if role == "dropped" and _all_of(summary, kinds, total - (was or 0)):  # the role's own row says its change
                name = links.of(kinds[0], "", role)
                reasons = summary.by_kind()[kinds[0]]
                kind_rows = [_change_row(count, links.of(kinds[0], why, why), "kind") for why, count in reasons.items()]
            else:
                kind_rows = [each for kind in kinds for each in _kind_rows(summary, kind, links)]
        rows += [_count_row(join(name, span(words, cls="sources")), was, total, "role"), *kind_rows]
    train = [None if counts is None else _training_pairs(counts) for counts in (before, after)]
    rows.append(_count_row("pairs that train", train[0], train[1] or 0))
    rows.append(_count_row("questions", before["questions"] if before else None, after["questions"]))
    names = ("group", newer_set.name) if older_set is None else ("group", older_set.name, newer_set.name, "change")
    return table(table_head(*names), rows, "figures kinds")


def _all_of(summary: ChangeSummary, kinds: Sequence[ChangeKind], change: int) -> bool:
    """Return whether one kind of change with several reasons is all of a role's change."""
    reasons = summary.by_kind()[kinds[0]] if len(kinds) == 1 else {}
    return len(reasons) > 1 and sum(reasons.values()) == change


def _training_pairs(counts: Mapping[str, Any]) -> int:
    """Return the number of pairs that train: all but the dropped ones."""
    return counts["pairs"] - sum(counts["sources"].get("dropped", {}).values())


def _count_row(name: object, before: int | None, after: int, cls: str | None = None) -> Html:
    cells = (f"{after:,}",) if before is None else (f"{before:,}", f"{after:,}", _signed(after - before))
    return row(*cells, head=name, cls=cls)


def _signed(number: int) -> str:
    return f"{number:+,}".replace("-", "\N{MINUS SIGN}") if number else "0"


def _kinds_of(summary: ChangeSummary, role: str) -> list[ChangeKind]:
    """Return the kinds of change that bring pairs into a role, or take them from it out of the set."""
    return [kind for kind in summary.by_kind() if (kind[1] or kind[0]) == role]


def change_words(older_set: TrainingSet, newer_set: TrainingSet) -> Html:
    """Say how many negatives of the older set the newer one removes: how many become positives, and how many it drops."""
    found = _summary(older_set, newer_set, older_set.manifest["fingerprint"], newer_set.manifest["fingerprint"])
    kinds = {kind: sum(reasons.values()) for kind, reasons in found.by_kind().items()}
    turned, dropped = kinds.get(("negative", "positive"), 0), kinds.get(("negative", "dropped"), 0)
    dropped += kinds.get(("negative", None), 0)
    newer, older = part_name(newer_set.name), part_name(older_set.name)
    if not turned and not dropped:
        more, also = (
            sum(count for (was, now), count in kinds.items() if now == role and was != now)
            for role in ("positive", "negative")
        )
        if more or also:
            added = [quantity(n, role) for n, role in ((more, "positive"), (also, "negative")) if n]
            return join(newer, f" adds {' and '.join(added)} to ", older, " and drops no negative.")
        others = f"; {quantity(found.changed, 'other pair')} {noun_form(found.changed, 'differs', 'differ')}"
        return join(newer, " keeps the negatives of ", older, others if found.changed else "", ".")
    negatives = sum(older_set.manifest["counts"]["sources"]["negative"].values())
    share = f"{100 * (turned + dropped) / negatives:.1f}%"
    fates = []
    if turned:
        fates.append(f"{turned:,} {noun_form(turned, 'becomes a positive', 'become positives')}")
    if dropped:
        fates.append(f"{dropped:,} {noun_form(dropped, 'is', 'are')} dropped")
    removed = f" removes {turned + dropped:,} of the {quantity(negatives, 'negative')} of "
    return join(newer, removed, older, f" ({share}): {', '.join(fates)}.")


def _title(kind: ChangeKind) -> str:
    """Return a kind of change in words, such as "relabelled: negative → positive" or "dropped negatives"."""
    was, now = kind
    if was is None or now is None:
        return KINDS[kind]
    return f"dropped {was}s" if now == "dropped" else f"relabelled: {KINDS[kind]}"


def _key(kind: ChangeKind) -> str:
    return "-".join(role or "absent" for role in kind)


class _ChangeLinks(NamedTuple):
    """The links to the pairs of each kind of change: the chosen one, and the parameters of the address."""

    chosen: ChosenChange | None
    here: dict[str, str]

    def of(self, kind: ChangeKind, reason: str, label: str) -> Html:
        """Return the link to the pairs of a kind, or of one of its reasons."""
        is_open = self.chosen is not None and (self.chosen.kind, self.chosen.reason) == (kind, reason)
        address = url.href(url.TRAINING, self.here | {KIND: _key(kind), REASON: reason})
        shown = reason_words(label)
        return link(shown, address, cls="chosen" if is_open else None, aria_current="true" if is_open else None)


def _kind_rows(summary: ChangeSummary, kind: ChangeKind, links: _ChangeLinks) -> list[Html]:
    """Return a row for the kind with its only reason, or one for the kind and one for each of its reasons."""
    reasons = summary.by_kind()[kind]
    sign = 1 if kind[1] else -1
    name = links.of(kind, "", _title(kind))
    if len(reasons) == 1:
        ((why, count),) = reasons.items()
        return [_change_row(sign * count, join(name, span(reason_words(why), cls="sources")), "kind")]
    of_reasons = [_change_row(sign * count, links.of(kind, why, why), "reason") for why, count in reasons.items()]
    return [_change_row(sign * sum(reasons.values()), name, "kind"), *of_reasons]


def _change_row(change: int, name: Html, cls: str) -> Html:
    """Return a row of a change, whose name covers the columns of the two sets."""
    return row(_signed(change), head=tag("th", name, scope="row", colspan="3"), cls=cls)


def _pairs(open_study: Study, changes: Sequence[Change], are_alike: bool) -> list[Html]:
    """Return an entry for each pair, without its roles if all pairs are alike."""
    questions = {
        each.id: each for each in open_study.questions.with_ids(sorted({change.question for change in changes}))
    }
    passages = open_study.corpus.by_id(change.passage for change in changes)
    return [_pair(change, questions[change.question], passages.get(change.passage), are_alike) for change in changes]


def _pair(change: Change, question: Question, passage: Passage | None, are_alike: bool) -> Html:
    roles = [] if are_alike else [span(_roles(change), cls="roles"), span(reason_words(change.why), cls="soft")]
    return tag(
        "li",
        div(
            link(question.text, url.href(url.QUESTION, {"question": question.id})),
            *roles,
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
