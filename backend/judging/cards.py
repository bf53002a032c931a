"""Cards: the data that the annotator's browser shows for a question, with its answers, known positives and candidate
passages.

Cards are sent to the browser as JSON. Texts are split into pieces, each with a kind for highlighting: "answer", "word"
(a word of the question), or "" for the rest. The browser renders pieces as text, never as HTML.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any

from blindspot.backend.core.study import Study
from blindspot.backend.text.answers import DEFAULT_RULE, answer_spans, query_spans, rule_for
from blindspot.backend.text.spans import excerpt_start, split_at_spans
from blindspot.db.labels import Labels
from blindspot.db.queue import Candidate, Lease, Queue
from blindspot.db.records import Passage, Question

Card = dict[str, Any]

SHOWN_ANSWERS = 8
LINE = 220  # length of the one-line excerpt of a folded passage, in characters
BEFORE = 60  # maximum characters of the excerpt before the first answer
_CACHE_SIZE = 500


def card_key(batch: str | None, question: str) -> str:
    """Return the key by which the browser identifies a card."""
    return f"{batch or ''}\n{question}"


class Cards:
    """Makes the cards of one study, and caches recent cards, because questions and passages do not change."""

    def __init__(self, study: Study):
        self._study, self._labels, self._queue = study, Labels(study.labels_path), Queue(study.labels_path)
        self._cache: OrderedDict[str, Card] = OrderedDict()

    def cards_of_leases(self, annotator: str, leases: Sequence[Lease]) -> list[Card]:
        """Return the cards for an annotator's leases, in the order of the leases.

        A passage's run, rank and score are not sent to the browser until the annotator has labelled the passage, so
        annotators cannot look them up.
        """
        by_batch: dict[str, list[str]] = {}
        for lease in leases:
            by_batch.setdefault(lease.batch, []).append(lease.question)
        cards: dict[str, Card] = {}
        for batch, questions in by_batch.items():
            own_labels = self._labels.labels_by(annotator, questions, batch)
            for card in self._cards_of_batch(batch, questions):
                labels = own_labels.get(card["question"], {})
                candidates = [
                    shown if shown["passage"] in labels else shown | {"where": ""} for shown in card["candidates"]
                ]
                cards[card["key"]] = card | {"given": labels, "candidates": candidates}
        return [cards[name] for lease in leases if (name := card_key(lease.batch, lease.question)) in cards]

    def adjudication_cards(self, questions: Sequence[str]) -> list[Card]:
        """Return cards for adjudication: the disputed passages and the number of annotators for each label, without
        names.
        """
        judged: dict[str, dict[str, Counter[str]]] = {}
        for judgement in self._labels.judgements(questions):
            judged.setdefault(judgement.question, {}).setdefault(judgement.passage, Counter())[judgement.label] += 1
        open_pairs: dict[str, list[str]] = {}
        votes: dict[str, dict[str, str]] = {}
        for pair in self._labels.consensus(questions):
            if pair.state == "open" or (
                pair.state == "adjudicated" and len(judged[pair.question].get(pair.passage, ())) > 1
            ):
                open_pairs.setdefault(pair.question, []).append(pair.passage)
            if pair.state == "adjudicated" and pair.label is not None:
                votes.setdefault(pair.question, {})[pair.passage] = pair.label
        cards = []
        for question in self._study.questions.with_ids([id for id in questions if id in open_pairs]):
            card = self._make_card(
                None, question, [Candidate(passage, group) for group, passage in enumerate(open_pairs[question.id])]
            )
            for shown in card["candidates"]:
                counts = judged[question.id].get(shown["passage"], Counter())
                shown["others"] = ", ".join(
                    f"{count} {'says' if count == 1 else 'say'} {label}" for label, count in counts.most_common()
                )
            cards.append(card | {"given": votes.get(question.id, {})})
        return cards

    def _cards_of_batch(self, batch: str, questions: Iterable[str]) -> list[Card]:
        questions = list(questions)
        missing = [id for id in questions if card_key(batch, id) not in self._cache]
        if missing:
            items = self._queue.items(batch, missing)
            records = {
                question.id: question for question in self._study.questions.with_ids([item.question for item in items])
            }
            for item in items:
                self._cache_card(self._make_card(batch, records[item.question], item.candidates))
        names = [name for id in questions if (name := card_key(batch, id)) in self._cache]
        for name in names:
            self._cache.move_to_end(name)
        return [self._cache[name] for name in names]

    def _cache_card(self, card: Card) -> None:
        self._cache[card["key"]] = card
        while len(self._cache) > _CACHE_SIZE:
            self._cache.popitem(last=False)

    def _make_card(self, batch: str | None, question: Question, candidates: Sequence[Candidate]) -> Card:
        asked = {candidate.passage for candidate in candidates}
        passages = self._study.corpus.by_id([*asked, *question.gold])
        return {
            "key": card_key(batch, question.id),
            "batch": batch,
            "question": question.id,
            "text": question.text,
            "answers": list(question.answers[:SHOWN_ANSWERS]),
            "more_answers": list(question.answers[SHOWN_ANSWERS:]) or None,
            # A passage that is to be judged is not shown as a known positive.
            "positives": [
                _passage_dict(passages[id], question) for id in question.gold if id in passages and id not in asked
            ],
            "candidates": [
                _candidate_dict(candidate, passages[candidate.passage], question, place, candidates)
                for place, candidate in enumerate(candidates)
                if candidate.passage in passages
            ],
        }


def _candidate_dict(
    candidate: Candidate, passage: Passage, question: Question, position: int, candidates: Sequence[Candidate]
) -> dict[str, Any]:
    group = candidate.near_duplicates
    twin = next((other for other in range(position) if candidates[other].near_duplicates == group), None)
    where = "" if candidate.run is None else f"{candidate.run}, rank {candidate.rank}, score {candidate.score:.4g}"
    return {
        "passage": candidate.passage,
        "where": where,
        "others": "",
        **_passage_dict(passage, question),
        "group": "" if twin is None else f"≈ nearly the same as {twin + 1}",
    }


def _passage_dict(passage: Passage, question: Question) -> dict[str, Any]:
    answers = answer_spans(passage.text, question.answers, rule_for(question, DEFAULT_RULE)) if question.answers else []
    words = query_spans(passage.text, question.text)
    low, high = _excerpt_span(passage.text, answers)
    return {
        "title": passage.title,
        "pieces": split_at_spans(passage.text, 0, len(passage.text), answers, words),
        "line": split_at_spans(passage.text, low, high, answers, words),
    }


def _excerpt_span(text: str, answers: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Return the span of a one-line excerpt: about LINE characters from the start of the answer's sentence, or from a
    word shortly before the answer.
    """
    if not answers or answers[0][1] <= BEFORE:
        return 0, min(LINE, len(text))
    start = excerpt_start(text, answers[0][0], BEFORE)
    return start, min(start + LINE, len(text))
