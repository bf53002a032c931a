"""Question: the hits of two runs for one question, side by side, or two retrievers' live hits for a typed question."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from functools import partial

import numpy as np
import streamlit as st

from blindspot.app import selection, study, url, who
from blindspot.app.components.empty_page import show_empty_page
from blindspot.app.components.hit_lists import HitList, answers_in_both, rows_to_show, side_by_side
from blindspot.app.components.judge_opinions import JudgeMark, judge_marks
from blindspot.app.components.judging.question_labels import judged, question_labels
from blindspot.app.components.marks import letter, notice, relation_label
from blindspot.app.components.miss_causes import causes_of_question
from blindspot.app.components.question_head import gold_table, question_facts, question_head, set_and_id
from blindspot.app.components.read_answer import read_answer, read_lines
from blindspot.app.components.readings import chosen_reader
from blindspot.app.components.tags import question_tags
from blindspot.app.components.why import why_section
from blindspot.app.entry import enter
from blindspot.app.markup import Html, div, join, link, show, span, tag
from blindspot.app.runs import convention, missing_runs, pair_of_address, retriever_label, runs_like
from blindspot.app.selection import Selection
from blindspot.app.study import Comparison
from blindspot.backend.checking.building import is_of_file
from blindspot.backend.core.made_from import is_check
from blindspot.backend.core.study import Study
from blindspot.backend.evaluation.causes import NAMESAKE_SHARE
from blindspot.backend.evaluation.miss_facts import name_share
from blindspot.backend.evaluation.slice_words import in_words
from blindspot.backend.retrieval import live
from blindspot.backend.retrieval.retriever import kind_of
from blindspot.backend.text.answers import answer_spans, mentions_subject, rule_for
from blindspot.db.errors import BlindspotError
from blindspot.db.people import Person
from blindspot.db.records import Passage, Question

SHOWN, MORE = 10, 10
SIDES = ("a", "b", "c", "d")
SHOWN_AS_OWN = 5  # answers copied to the answer field when a question is reworded
QUESTIONS_CONSIDERED = 50  # questions of the list among which the page looks for a telling one to show first
TRAIL = 30  # questions on either side that the keys can reach before the server answers
CELL_WORDS = {
    "all": "",
    "both": "both find in the top {k}",
    "only_a": "only A finds in the top {k}",
    "only_b": "only B finds in the top {k}",
    "neither": "neither finds in the top {k}",
}


def page() -> None:
    opened = study.current()
    if not opened.has_corpus:
        about = "This page shows the passages that two runs rank first for a question, side by side."
        show_empty_page(opened, "No passages yet", about)
        return
    if url.value("ask").strip():
        _own_question(opened)
    else:
        _listed_question(opened)


def _listed_question(open_study: Study) -> None:
    """Show a question of the study, with its place in the list that the address selects."""
    runs = study.runs(open_study)
    if not runs:
        _ask_box(open_study)
        about = "This page compares the hits of runs for one question. If the study has an index, ask your own question above."
        show_empty_page(open_study, "No runs yet", about)
        return
    show(missing_runs(runs))
    a, b = pair_of_address(runs)
    rule = study.rule_of_runs(open_study, a, b)
    compared = study.comparison(open_study, a, b, url.one_of("relevance", ("answers", "gold"), "answers"), rule)
    chosen = selection.read_selection(a, b, max(compared.depth, 1), rule, compared.run_a.kind)
    rows = selection.rows(compared, chosen)
    asked = url.value("question")
    if not asked and len(rows):
        asked = _clearest_question(open_study, compared, rows)
    if not asked:
        _ask_box(open_study)
        compare = link("Compare", chosen.on_compare())
        show(notice("No question of the study can be measured in both runs. Choose other runs on ", compare, "."))
        return
    show(_list_position(compared, chosen, rows, asked))
    question = open_study.questions.get(asked)
    reader, _ = chosen_reader(open_study, (a, b))
    others = [name for name in chosen.more.split(",") if name in runs_like(runs, a, b)]
    lists = [
        column
        for side, name in zip(SIDES, (a, b, *others), strict=False)
        if (column := _run_list(open_study, side, name, question, reader, chosen.k)) is not None
    ]
    if a == b:
        lists = lists[:1] + lists[2:]
    if not lists:
        _unsearched(open_study, question, list(runs), (a, b), rule)
        return
    person = who.signed_in_person(open_study.labels_path)
    source, with_answers = open_study.questions.frequency_source, study.with_answers(open_study, question)
    show(question_head(question, _finding(open_study, compared, question, rule)))
    gold = list(open_study.corpus.ordinals(question.gold).values())
    with st.container(key="question-facts"):
        show(question_facts(question, source, with_answers))
        _details(open_study, question, person, chosen, lists, rule, gold)
        show(LEGEND_FOLD)
    show(tag("section", _miss_reasons(open_study, compared, question, rule, chosen.k), cls="question-head"))
    marks = judge_marks(open_study, question, [column.name for column in lists])
    question_labels(open_study, question, person)
    _show_lists(open_study, lists, question, rule, gold, marks, _missing_side(compared, question, chosen.k))
    show(div(span(convention(compared.run_a.kind, rule), cls="soft"), cls="foot"))


def _unsearched(open_study: Study, question: Question, runs: Sequence[str], pair: tuple[str, str], rule: str) -> None:
    """Show a question that neither run of the page searched for: what is known of it, and the ways to a list."""
    searched = [name for name in runs if question.id in open_study.run(name).question_ids]
    ways: list[Html] = [
        link(f"See it in {name}", url.href(url.QUESTION, {"question": question.id, "a": name, "b": name}))
        for name in searched[:SHOWN]
    ]
    if not searched and live.answering_retrievers(open_study):
        ways = [link("Search for it now", url.href(url.QUESTION, {"ask": question.text}), cls="button main")]
    none = f"Neither {pair[0]} nor {pair[1]} searched" if pair[0] != pair[1] else f"{pair[0]} did not search"
    words = f"{none} for this {question.split} question. "
    show(question_head(question, notice(words, *(join(" ", way) for way in ways))))
    gold = list(open_study.corpus.ordinals(question.gold).values())
    show(
        question_facts(question, open_study.questions.frequency_source, study.with_answers(open_study, question)),
        set_and_id(question),
        gold_table(question, list(zip(gold, open_study.corpus.passages(gold), strict=True)), [], rule),
    )


def _details(
    open_study: Study,
    question: Question,
    person: Person | None,
    chosen: Selection,
    lists: list[HitList],
    rule: str,
    gold: Sequence[int],
) -> None:
    """Show what a reader rarely needs: ids, gold passages, tags and labels, further lists, and the live question."""
    with st.expander("Details"):
        show(set_and_id(question))
        show(gold_table(question, list(zip(gold, open_study.corpus.passages(gold), strict=True)), lists, rule))
        show(judged(open_study, question, person))
        question_tags(open_study, question)
        if rest := runs_like(study.runs(open_study), chosen.a, chosen.b):
            _more_lists(rest)
        _ask_box(open_study)
        address = url.href(
            url.QUESTION, {"question": question.id, **chosen.parameters(page=1), **_ask_as_own(question)}
        )
        show(link("Reword this question", address, cls="quiet"))


def _missing_side(comparison: Comparison, question: Question, k: int) -> str:
    """Return the side of the run that misses a question in the top k, if exactly one does; else "a"."""
    row = comparison.rows.get(question.id)
    if row is None:
        return "a"
    found_a, found_b = (0 < int(ranks[row]) <= k for ranks in (comparison.first_ranks_a, comparison.first_ranks_b))
    return "b" if found_a and not found_b else "a"


def _finding(open_study: Study, comparison: Comparison, question: Question, rule: str) -> Html:
    """Say at what rank each of the two runs finds the question; empty if it is not measured."""
    row = comparison.rows.get(question.id)
    if row is None:
        return Html("")
    sides = {comparison.run_a.name: comparison.first_ranks_a, comparison.run_b.name: comparison.first_ranks_b}
    depths = {comparison.run_a.name: comparison.run_a.k, comparison.run_b.name: comparison.run_b.k}
    by_gold = comparison.run_a.kind == "gold"
    answer = "the answer" if len(question.answers) == 1 else "an answer"
    noun = "gold passage" if by_gold else f"passage containing {answer}"
    ranked = {name: int(ranks[row]) for name, ranks in sides.items()}
    first_passages = {} if by_gold else _passages_at(open_study, question, ranked)
    said: list[str] = []
    for name, rank in ranked.items():
        if rank:
            about = _about_another(first_passages[name], question, rule) if name in first_passages else ""
            said.append(f"{name} has {'one' if said else f'a {noun}'} at rank {rank:,}{about}")
        else:
            said.append(f"{name} has {'none' if said else f'no {noun}'} in its first {depths[name]:,}")
    return tag("p", "; ".join(said), ".", cls="answer-line")


def _passages_at(open_study: Study, question: Question, ranks: Mapping[str, int]) -> dict[str, Passage]:
    """Return the passage that each run has at its rank; runs without a rank or without the question are left out."""
    hits = {name: study.run_row(open_study, name, question.id) for name, rank in ranks.items() if rank}
    rows = {name: int(each.ordinals[0][ranks[name] - 1]) for name, each in hits.items() if each is not None}
    return dict(zip(rows, open_study.corpus.passages(rows.values()), strict=True))


def _about_another(passage: Passage, question: Question, rule: str) -> str:
    """Say what a passage is about, if its title does not name the question's subject; else ""."""
    if not question.subject:
        return ""
    spans = answer_spans(passage.text, question.answers, rule_for(question, rule))
    if not passage.title or not spans or name_share(question.subject, passage.title) >= NAMESAKE_SHARE:
        return ""
    silent = "" if mentions_subject(passage, question) else f" and it never mentions {question.subject}"
    return f" (it contains “{passage.text[slice(*spans[0])]}”, but its title is {passage.title}{silent})"


def _miss_reasons(open_study: Study, comparison: Comparison, question: Question, rule: str, k: int) -> Html:
    runs = [comparison.run_a.name, comparison.run_b.name]
    if all(is_of_file(study.runs(open_study)[name]) for name in runs):  # no retriever missed anything
        return Html("")
    causes = partial(causes_of_question, comparison, question.id, k)
    return why_section(open_study, question, runs, rule, causes)


def _ask_as_own(question: Question) -> dict[str, str]:
    """Return the query parameters that start a live question from a question of the study."""
    answers = " | ".join(question.answers[:SHOWN_AS_OWN]) if question.answer_rule == "string" else ""
    return {"ask": question.text[: live.MAX_QUESTION], "expect": answers}


def _clearest_question(open_study: Study, comparison: Comparison, rows: np.ndarray) -> str:
    """Return the first question of the list whose first relevant passage mentions the question's subject, so that the
    answer in it is probably not there by chance.
    """
    for row in rows[:QUESTIONS_CONSIDERED].tolist():
        question, a, b = (
            comparison.questions[row],
            int(comparison.first_ranks_a[row]),
            int(comparison.first_ranks_b[row]),
        )
        if not a and not b:
            continue
        name, rank = (comparison.run_a.name, a) if a and (not b or a <= b) else (comparison.run_b.name, b)
        hits = study.run_row(open_study, name, question.id)
        if hits is None:
            continue
        (passage,) = open_study.corpus.passages([int(hits.ordinals[0][rank - 1])])
        if mentions_subject(passage, question):
            return question.id
    return comparison.questions[int(rows[0])].id


def _run_list(open_study: Study, run_side: str, name: str, question: Question, reader: str, k: int) -> HitList | None:
    hits = study.run_row(open_study, name, question.id)
    if hits is None:
        return None
    note = retriever_label(study.runs(open_study)[name])
    return HitList.from_hits(run_side, name, hits, note, read_answer(open_study, name, question, reader, k))


def _show_lists(
    open_study: Study,
    lists: list[HitList],
    question: Question,
    rule: str,
    gold: Sequence[int],
    judged_by_machine: Mapping[int, JudgeMark] | None = None,
    opened_side: str = "a",
) -> None:
    """Show the legend, both lists, and a link to more hits.

    Args:
        opened_side: the list that a narrow window shows first.
    """
    deepest = max(column.depth for column in lists)
    shown = url.number("show", SHOWN, 1, max(deepest, 1))
    ordinals = rows_to_show(lists, gold, shown)
    passages = dict(zip(ordinals, open_study.corpus.passages(ordinals), strict=True))
    more = []
    if shown < deepest:
        here = {key: st.query_params[key] for key in st.query_params}
        more = [
            link(
                f"Show {min(MORE, deepest - shown)} more",
                url.href(url.QUESTION, here | {"show": shown + MORE}),
                cls="button",
                data_focus="more",
                data_key="m",
                title="Key: m",
            )
        ]
    columns = side_by_side(lists, question, passages, gold, shown, rule, judged_by_machine, opened_side)
    show(
        read_lines(open_study, question, lists, passages),
        _legend(
            len(lists),
            bool(question.answers) or study.with_answers(open_study),
            columns,
            answers_in_both(lists, question, passages, gold, shown, rule) if len(lists) == 2 else set(),
        ),
        columns,
        div(*more, cls="foot more-hits"),
    )


LEGEND_FOLD = tag("details", tag("summary", "Marks"), cls="legend-fold")


def _legend(columns: int, with_answers: bool, shown: Html, in_both: Collection[bool]) -> Html:
    """The marks that occur in the shown lists; a narrow window shows them when LEGEND_FOLD is open.

    Args:
        in_both: of the passages in both of two lists, whether they contain an answer.
    """
    marks = {"answer": "answer", "word": "word of the question", "near": "similar name"}
    parts = [tag("mark", words, cls=cls) for cls, words in marks.items() if f'<mark class="{cls}"' in shown]
    if columns > 1:
        example = span(letter("b"), "23", cls="badge other")
        parts.append(span(example, " rank in the other list, – for none" if columns == 2 else " rank in another list"))
    words = {True: ", contains an answer", False: ", no answer" if with_answers else ""}
    parts += [
        span(span(cls="line answers" if each else "line"), f"passage in both lists{words[each]}", cls="of-lines")
        for each in (True, False)
        if each in in_both
    ]
    return div(*parts, cls="legend") if parts else Html("")


def _list_position(comparison: Comparison, chosen: Selection, rows: np.ndarray, question_id: str) -> Html:
    """The position in the list ("12 of 505"), links to the neighbours, and a link back to the list."""
    words = [
        CELL_WORDS[chosen.cell].format(k=chosen.k),
        in_words(chosen.slice) if chosen.slice else "",
        relation_label(chosen.relation) if chosen.relation else "",
        chosen.set,
        f"“{chosen.text}”" if chosen.text else "",
    ]
    described = ", ".join(filter(None, words)) or "all questions"
    places = np.flatnonzero(rows == comparison.rows.get(question_id, -1))
    page = int(places[0]) // selection.PER_PAGE + 1 if len(places) else 1
    address = f"{chosen.on_compare(page=page)}#row-{question_id}"
    back = link(described, address, cls="back", title="Back to the list", data_key="u")
    if not len(places):
        first = link("first question", chosen.on_question(comparison.questions[rows[0]].id)) if len(rows) else ""
        return tag("nav", span("not in the list ", cls="soft"), back, " ", first, cls="trail", aria_label="Questions")
    at = int(places[0])
    start = max(at - TRAIL, 0)
    around = [comparison.questions[row].id for row in rows[start : at + TRAIL + 1]]

    def step(to: int, words: str, key: str) -> Html:
        if not 0 <= to < len(rows):
            return span(words, cls="step off")
        return link(
            join(words, " ", tag("kbd", key)),
            chosen.on_question(around[to - start]),
            cls="step",
            data_focus=key,
            title=f"Key: {key} or an arrow",
        )

    return tag(
        "nav",
        step(at - 1, "‹ previous", "p"),
        span(tag("b", f"{at + 1:,}"), f" of {len(rows):,}", cls="position"),
        step(at + 1, "next ›", "n"),
        back,
        cls="trail",
        data_trail=json.dumps(around),
        data_here=question_id,
        aria_label="Questions",
    )


def _more_lists(offered_lists: list[str]) -> list[str]:
    """Show the field that adds further lists beside A and B, and return the chosen ones."""
    most = len(SIDES) - 2
    return url.multiselect(
        "Further lists",
        "more",
        offered_lists,
        max_selections=most,
        placeholder="Add a list",
        label_visibility="collapsed",
    )


def _ask_box(open_study: Study) -> None:
    """Show the field for a live question, or a note if the study has no index yet."""
    if not live.can_answer(open_study):
        if not is_check(open_study):
            show(notice("To ask your own question, build an index on ", link("Home", url.HOME), "."))
        return
    url.text_box(
        "Ask your own question",
        "ask",
        forget=("show",),
        placeholder="Ask your own question",
        label_visibility="collapsed",
        max_chars=live.MAX_QUESTION,
    )


def _way_back() -> Html:
    """The link from a live question back to the study's questions."""
    own = ("ask", "expect", "left", "right", "show", "more")
    here = {key: st.query_params[key] for key in st.query_params if key not in own}
    back = link("‹ the study's questions", url.href(url.QUESTION, here), data_focus="back")
    return tag("nav", back, span("Your own question, answered live", cls="soft"), cls="trail", aria_label="Questions")


def _own_question(open_study: Study) -> None:
    """Show the live hits of two or more retrievers for a typed question."""
    retrievers = live.answering_retrievers(open_study)
    if not retrievers:
        show_empty_page(open_study, "No index yet", "Retrievers need an index to answer your own questions.")
        return
    others = [name for name in retrievers if name != retrievers[0]]
    second = next((name for name in others if (kind := kind_of(name)) is None or not kind.lexical), retrievers[0])
    show(_way_back(), tag("h1", url.value("ask").strip()))
    head = st.container()
    with st.container(key="own"):
        columns = st.columns([6, 4, 2, 2], vertical_alignment="bottom")
        with columns[0]:
            asked = url.text_box("Your question", "ask", forget=("show",), max_chars=live.MAX_QUESTION).strip()
        with columns[1]:
            expected = url.text_box(
                "Known answers (optional)",
                "expect",
                placeholder="Oslo | Christiania",
                help="Answers to highlight in the passages, separated by |",
            )
        with columns[2]:
            left = url.select("Retriever A", "left", retrievers, retrievers[0], forget=("show",))
        with columns[3]:
            right = url.select("Retriever B", "right", retrievers, second, forget=("show",))
    answers = tuple(part for piece in expected.split("|") if (part := piece.strip()))
    question = Question(id="", text=asked, answers=answers)
    k = min(open_study.settings.k, len(open_study.corpus))
    others = [name for name in retrievers if name not in (left, right)]
    others = _more_lists(others) if others else []
    lists = []
    for side, name in zip(SIDES, dict.fromkeys((left, right, *others)), strict=False):
        try:
            with st.spinner(f"Searching with {name} (the first search also loads the index) …"):
                lists.append(HitList.from_hits(side, name, study.live_hits(open_study, name, asked, k), "live"))
        except BlindspotError as error:
            show(notice(letter(side), f" {name}: {error}", kind="error"))
    if lists:
        with head:
            show(_shared(lists))
        show(LEGEND_FOLD)
        _show_lists(open_study, lists, question, "dpr", list(open_study.corpus.ordinals(question.gold).values()))


def _shared(lists: list[HitList]) -> Html:
    """Say how many of their first passages the first two lists have in common."""
    if len(lists) < 2:
        return Html("")
    tops = [set(column.ordinals[:SHOWN].tolist()) for column in lists[:2]]
    number = len(tops[0] & tops[1]) or "none"
    return tag("p", f"{lists[0].name} and {lists[1].name} share {number} of their first {SHOWN} passages.")


enter(page)
