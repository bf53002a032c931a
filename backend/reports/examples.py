"""The report's examples: questions that only one of two runs finds, with both lists side by side and reasons for the
miss.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

import numpy as np

from blindspot.analysis.accuracy import success_from_ranks
from blindspot.backend.core.study import Study
from blindspot.backend.evaluation.comparison import Comparison, MeasuredRun
from blindspot.backend.evaluation.miss_facts import MissExplanation, explain_question, namesake_sentence
from blindspot.backend.reports.markup import heading, remark
from blindspot.backend.text.answers import answer_spans, has_answer, query_spans, rule_for
from blindspot.backend.text.number_words import quantity
from blindspot.backend.text.spans import excerpt, split_at_spans
from blindspot.db.records import Passage, Question

EXAMPLES, SHOWN, SEED = 20, 3, 0
ANCHOR = "examples"


def example_parts(study: Study, comparison: Comparison, k: int) -> Iterator[str]:
    """Yield the HTML of the section; nothing if both runs find the same questions."""
    found_a, found_b = success_from_ranks(comparison.first_ranks_a, k), success_from_ranks(comparison.first_ranks_b, k)
    only = [np.flatnonzero(found_a & ~found_b), np.flatnonzero(found_b & ~found_a)]
    drawn = _draw_rows(only)
    if not any(len(rows) for rows in drawn):
        return
    yield heading(f"{quantity(sum(map(len, drawn)), 'example')} side by side", ANCHOR)
    names = comparison.run_a.name, comparison.run_b.name
    of = [
        f"{len(rows):,} of the {quantity(len(all_rows), 'question')} that only {name} answers in its first {k}"
        for name, rows, all_rows in zip(names, drawn, only, strict=True)
    ]
    yield remark(f"Drawn at random (seed {SEED}): {' and '.join(of)}. The rarest subjects come first.")
    number = 0
    for winner, rows in zip(names, drawn, strict=True):
        for row in sorted(
            rows.tolist(), key=lambda row: (int(comparison.frequency[row]), comparison.questions[row].id)
        ):
            number += 1
            yield _example(study, comparison, row, number, winner, k)


def _draw_rows(rows_by_side: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Draw up to EXAMPLES rows, half from each side. If one side has fewer rows, more are drawn from the other."""
    half = EXAMPLES // 2
    first = min(len(rows_by_side[0]), max(half, EXAMPLES - len(rows_by_side[1])))
    counts = first, min(len(rows_by_side[1]), EXAMPLES - first)
    random = np.random.default_rng(SEED)
    return [random.permutation(rows)[:count] for rows, count in zip(rows_by_side, counts, strict=True)]


def _example(study: Study, comparison: Comparison, row: int, number: int, winner: str, k: int) -> str:
    question = comparison.questions[row]
    facts = [f"Answer: {'; '.join(question.answers[:4])}"] if question.answers else []
    if question.frequency is not None:
        facts.append(f"subject mentioned {quantity(question.frequency, 'time')}")
    facts.append(f"only {winner} answers it in its first {k}")
    sides = (
        (comparison.run_a, comparison.rows_a, comparison.first_ranks_a),
        (comparison.run_b, comparison.rows_b, comparison.first_ranks_b),
    )
    lists = "".join(_hit_list(study, side, int(rows[row]), int(first[row]), question, k) for side, rows, first in sides)
    explained = explain_question(
        study, question, [comparison.run_a.name, comparison.run_b.name], comparison.run_a.rule, neighbours=0
    )
    missed = next(name for name in (comparison.run_a.name, comparison.run_b.name) if name != winner)
    return (
        f'<article class="example"><h3>{number}. {escape(question.text)}</h3>{remark(". ".join(facts) + ".")}'
        f'<div class="lists">{lists}</div><p><strong>Why {escape(missed)} missed it:</strong> '
        f"{escape(' '.join(reasons(explained, missed)))}</p></article>"
    )


def reasons(explanation: MissExplanation, run_name: str) -> list[str]:
    """Describe a miss in sentences: the most informative fact, the rank of the gold passage, and the shared words."""
    standing = next((each for each in explanation.standings if each.run == run_name), None)
    if standing is None:
        return []
    sentences = [sentence] if (sentence := namesake_sentence(explanation, standing)) else []
    if standing.rank is not None:
        sentences.append(f"It ranks a gold passage at {standing.rank}.")
    elif explanation.question.gold:
        sentences.append(f"It has no gold passage in its first {standing.k}.")
    top = None if standing.winner is None else explanation.words.get(standing.winner)
    if top is not None and standing.rank != 1:
        shared = ", ".join(f"“{word}”" for word in top.shared) or "none"
        missing = f", and lacks {', '.join(f'“{word}”' for word in top.missing)}" if top.missing else ""
        sentences.append(f"Question words in its top passage: {shared}{missing}.")
    if explanation.trained is not None:
        seen = explanation.trained
        sentences.append(
            f"Of {quantity(seen.total, 'training question')}, {seen.relation:,} ask this relation and "
            f"{seen.subject:,} name this subject."
        )
    return sentences


def _hit_list(study: Study, measured_run: MeasuredRun, row: int, first_rank: int, question: Question, k: int) -> str:
    """Return the top hits of a run as HTML, and also its first relevant hit if that is within the top k."""
    ordinals = np.asarray(measured_run.run.hits.ordinals[row])[:k]
    ranks = [rank for rank in range(1, min(SHOWN, len(ordinals)) + 1) if ordinals[rank - 1] >= 0]
    if SHOWN < first_rank <= len(ordinals):
        ranks.append(first_rank)
    passages = study.corpus.passages([int(ordinals[rank - 1]) for rank in ranks])
    hits = "".join(
        _hit_html(rank, passage, question, measured_run.rule) for rank, passage in zip(ranks, passages, strict=True)
    )
    where = (
        f"first relevant passage at rank {first_rank}"
        if first_rank
        else f"no relevant passage in its first {measured_run.k}"
    )
    return f"<div><h4>{escape(measured_run.name)}: {where}</h4><ol>{hits}</ol></div>"


def _hit_html(rank: int, passage: Passage, question: Question, rule: str) -> str:
    matching = rule_for(question, rule)
    answers = answer_spans(passage.text, question.answers, matching) if question.answers else []
    words = query_spans(passage.text, question.text)
    low, high = excerpt(passage.text, answers, words)
    shown = "".join(
        f'<mark class="{kind}">{escape(piece)}</mark>' if kind else escape(piece)
        for piece, kind in split_at_spans(passage.text, low, high, answers, words)
    )
    holds = bool(question.answers) and has_answer(passage.text, question.answers, matching, passage.title)
    badges = '<span class="badge">✓ answer</span> ' if holds else ""
    badges += '<span class="badge">★ gold</span> ' if passage.id in question.gold else ""
    dots = ("… " if low else ""), (" …" if high < len(passage.text) else "")
    return (
        f'<li><span class="rank">{rank}</span><strong>{escape(passage.title or "untitled")}</strong> {badges}<br>'
        f"{dots[0]}{shown}{dots[1]}</li>"
    )
