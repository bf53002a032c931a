"""The panel "Why did a run miss this?" of the Question page."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from blindspot.app import study as held
from blindspot.app import url
from blindspot.app.components.hit_lists import passage_excerpt
from blindspot.app.components.marks import gold_badge, letter
from blindspot.app.components.stylesheets import style_sheet
from blindspot.app.markup import Html, div, join, link, span, tag, term
from blindspot.backend.core.study import Study
from blindspot.backend.evaluation.miss_facts import (
    NEIGHBOURS,
    ContentWords,
    GoldRank,
    MissExplanation,
    Neighbour,
    explain_question,
    reason,
    shared_words,
    summary_sentence,
    unchecked_gold_sentence,
)
from blindspot.backend.text.number_words import quantity
from blindspot.db.records import Question

Causes = Callable[[MissExplanation | None, str], Html]
"""Returns what the rules of causes say of the question, with figures if an explanation is given; the second argument is
the run whose miss the sentence before explains."""
MARGIN = "Score of the top passage minus score of the gold passage, in the run's own unit"
COLUMNS = (
    "gold rank",
    "gold score",
    "margin",
    "top passage",
    "contains an answer",
    "question words: top passage",
    "question words: gold",
)
NEAR = (
    "Nearest neighbours of the gold passage among the stored vectors. If many are alike, the encoder cannot "
    "distinguish the gold passage"
)


def _no_causes(_explanation: MissExplanation | None, _told: str) -> Html:
    return Html("")


def why_section(
    study: Study,
    question: Question,
    runs: Sequence[str],
    rule: str = "dpr",
    causes: Causes = _no_causes,
) -> Html:
    """Show the panel if the address has `why=1`. Otherwise show one sentence, the causes, and a link, because reading
    the vectors takes a moment.

    Args:
        causes: what the rules of causes say of the question, shown after the conclusion.
    """
    import streamlit as st

    parameters = st.query_params.to_dict()
    if url.value("why") != "1":
        address = url.href(url.QUESTION, {**parameters, "question": question.id, "why": 1})
        more = link("Why did a run miss this?", address, cls="quiet", data_focus="why")
        explanation = explain_question(study, question, [held.run(study, run) for run in runs], rule, neighbours=0)
        sentence = summary_sentence(explanation)
        return div(tag("p", sentence) if sentence else "", causes(None, reason(explanation)[0]), more, cls="why-short")
    close = link("Close", url.href(url.QUESTION, {**parameters, "why": None}), cls="quiet", data_focus="why")
    explanation = explain_question(study, question, runs, rule, NEIGHBOURS)
    told = reason(explanation)[0]
    head = div(tag("h2", f"Why {told} missed this" if told else "Why did a run miss this?"), close, cls="list-head")
    return join(style_sheet("analysis.css"), div(head, why_panel(explanation, runs, causes, rule), cls="panel why"))


def why_panel(
    explanation: MissExplanation, runs: Sequence[str], causes: Causes = _no_causes, rule: str = "dpr"
) -> Html:
    """The facts for one question: the conclusion, the causes, the evidence, and the gold passage with its neighbours.
    `runs` are A and B, in this order.
    """
    if not explanation.standings:
        return causes(None, "")
    sentence, doubt = summary_sentence(explanation), unchecked_gold_sentence(explanation)
    said = (tag("p", words, cls="conclusion") for words in (doubt, sentence) if words)
    return join(
        div(
            div(*said, causes(explanation, reason(explanation)[0]), _standings(explanation, list(runs))),
            div(_gold_excerpt(explanation, rule), *_neighbours(explanation), _training_fact(explanation)),
            cls="why-body",
        ),
    )


def _standings(explanation: MissExplanation, runs: Sequence[str]) -> Html:
    """The gold passage and the top-ranked passage of each run: one column for each run."""
    columns = [_cells_of_run(explanation, standing) for standing in explanation.standings]
    sides = ["ab"[place] if (place := runs.index(each.run)) < 2 else "" for each in explanation.standings]
    heads = (
        tag("th", letter(side) if side else "", " ", each.run, scope="col", cls="left")
        for side, each in zip(sides, explanation.standings, strict=True)
    )
    lines = [
        tag(
            "tr",
            tag("th", term(name, MARGIN) if name == "margin" else name, scope="row"),
            *(tag("td", column[row], cls="left") for column in columns),
        )
        for row, name in enumerate(COLUMNS)
    ]
    head = tag("thead", tag("tr", tag("th", "", scope="col"), *heads))
    return div(tag("table", head, tag("tbody", *lines), cls="figures why-table"), cls="scrolling")


def _cells_of_run(explanation: MissExplanation, standing: GoldRank) -> tuple[object, ...]:
    gold = standing.gold if standing.gold is not None else _any_gold(explanation)
    winner = "–" if standing.winner is None else explanation.passages[standing.winner].title or "untitled"
    share = 0.0 if standing.winner is None else explanation.namesake.get(standing.winner, 0.0)
    namesake = span(f" another entity, shares {100 * share:.0f}% of the subject's name", cls="soft") if share else ""
    return (
        _rank(explanation, standing),
        _score(standing),
        _margin(standing),
        span(winner, namesake),
        "–" if standing.winner is None else "yes" if explanation.holds_answer[standing.winner] else "no",
        _shared_words(explanation.words.get(standing.winner) if standing.winner is not None else None),
        _shared_words(explanation.words.get(gold) if gold is not None else None),
    )


def _rank(explanation: MissExplanation, standing: GoldRank) -> Html | str:
    """The rank of the run's first gold passage, with its title."""
    if not standing.rank or standing.gold is None:
        return f"not in top {standing.k}"
    return join(f"{standing.rank:,}", span(f" {explanation.passages[standing.gold].title}", cls="soft"))


def _any_gold(explanation: MissExplanation) -> int | None:
    ranked = [standing.gold for standing in explanation.standings if standing.gold is not None]
    winners = {standing.winner for standing in explanation.standings}
    return ranked[0] if ranked else next((ordinal for ordinal in explanation.words if ordinal not in winners), None)


def _score(standing: GoldRank) -> str:
    """The gold passage's score, or what is known of it from the last score of the list."""
    if standing.last is None:
        return _number(standing.score)
    rank, score = standing.last
    return f"at most {_number(score)}, that of rank {rank:,}"


def _margin(standing: GoldRank) -> str:
    if standing.rank == 1:
        return "none, it is first"
    if standing.last is None or standing.top is None:
        return _number(standing.margin)
    return f"at least {_number(standing.top - standing.last[1])}"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.3f}" if abs(value) < 10 else f"{value:,.1f}"


def _shared_words(shared_words: ContentWords | None) -> Html:
    if shared_words is None:
        return Html("–")
    missing = span("; lacks: ", ", ".join(shared_words.missing), cls="soft") if shared_words.missing else ""
    return join(", ".join(shared_words.shared) or "nothing", missing)


def _training_fact(explanation: MissExplanation) -> Html:
    """How many training questions are like this one."""
    if explanation.trained is None:
        said = "the study has no training questions"
    else:
        seen = explanation.trained
        said = (
            f"{quantity(seen.total, 'training question')}: {seen.relation:,} with this relation, {seen.template:,} with "
            f"this wording, {seen.subject:,} about this subject"
        )
    return tag("dl", div(tag("dt", "training"), tag("dd", said)), cls="why-facts")


def _gold_excerpt(explanation: MissExplanation, rule: str) -> Html:
    """The gold passage that the table speaks of, at its answer."""
    ordinal = _any_gold(explanation)
    if ordinal is None:
        return Html("")
    passage = explanation.passages[ordinal]
    title = tag("h3", gold_badge(), " ", passage.title or "untitled")
    return div(title, passage_excerpt(passage, explanation.question, rule), cls="why-gold")


def _neighbours(explanation: MissExplanation) -> list[Html]:
    lists = []
    for encoder, near in explanation.neighbours.items():
        lines = [
            tag(
                "li",
                explanation.passages[each.ordinal].title or "untitled",
                " ",
                span(_number(each.similarity), cls="soft"),
                join(" ", gold_badge()) if each.is_gold else "",
            )
            for each in near
        ]
        summary = tag("summary", f"Neighbours of the gold passage ({encoder})", title=NEAR)
        folded = tag("details", summary, tag("ol", *lines), cls="how")
        lists.append(div(_without_words(explanation, near), folded, cls="near"))
    return lists


def _without_words(explanation: MissExplanation, near: Sequence[Neighbour]) -> Html:
    """Say how many neighbours have no word of the question, if most of them have none."""
    text = explanation.question.text
    without = sum(not shared_words(text, explanation.passages[each.ordinal]).shared for each in near)
    if 2 * without <= len(near):
        return Html("")
    return tag("p", f"{without:,} of its {len(near):,} nearest neighbours have no word of the question.")
