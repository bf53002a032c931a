"""What an annotator is shown of a question: its answers, its known positives, its candidates, with everything marked.

Cards are plain values that go to the browser as JSON. Texts come in pieces, each with what it is: "answer", "word" (of the
question), or "" for the rest; the browser makes text of them and nothing else.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from backend.text.answers import DEFAULT_RULE, answer_spans, query_spans, rule_for
from backend.text.spans import pieces, start_near
from db.labels import Labels
from db.queue import Candidate, Lease, Queue
from db.records import Passage, Question

if TYPE_CHECKING:
    from backend.core.study import Study

Card = dict[str, Any]

SHOWN_ANSWERS = 8
LINE = 220  # characters of a passage that is folded to a line
BEFORE = 60  # of which so many at most stand before the first answer
_HELD = 500


def key(batch: str | None, question: str) -> str:
    """How the browser names a card."""
    return f"{batch or ''}\n{question}"


class Cards:
    """Makes cards of one study, and holds the last ones: what a question and its passages look like does not change."""

    def __init__(self, study: Study):
        self._study, self._labels, self._queue = study, Labels(study.labels_path), Queue(study.labels_path)
        self._held: OrderedDict[str, Card] = OrderedDict()

    def leased(self, annotator: str, leases: Sequence[Lease]) -> list[Card]:
        """Cards of the batches, in the order of the leases.

        Run, rank and score of a passage, and what was settled of it in practice, are left out until the annotator has labelled it:
        what the browser does not have, nobody can look up there.
        """
        by_batch: dict[str, list[str]] = {}
        practice = {(lease.batch, lease.question) for lease in leases if lease.practice}
        for lease in leases:
            by_batch.setdefault(lease.batch, []).append(lease.question)
        made: dict[str, Card] = {}
        for batch, questions in by_batch.items():
            given = self._labels.labels_by(annotator, questions, batch)
            for card in self._of_batch(batch, questions):
                labels = given.get(card["question"], {})
                settled = None
                if (batch, card["question"]) in practice:
                    settled = {id: one for id, one in self._settled(card["question"]).items() if id in labels}
                candidates = [
                    each if each["passage"] in labels else each | {"where": ""} for each in card["candidates"]
                ]
                made[card["key"]] = card | {"given": labels, "settled": settled, "candidates": candidates}
        return [made[name] for lease in leases if (name := key(lease.batch, lease.question)) in made]

    def disputed(self, questions: Sequence[str]) -> list[Card]:
        """Cards for adjudication: the passages of which people say different things, and how many say what. No names."""
        judged: dict[str, dict[str, Counter]] = {}
        for judgement in self._labels.judgements(questions):
            judged.setdefault(judgement.question, {}).setdefault(judgement.passage, Counter())[judgement.label] += 1
        open_pairs: dict[str, list[str]] = {}
        given: dict[str, dict[str, str]] = {}
        for pair in self._labels.consensus(questions):
            if pair.state == "open" or (
                pair.state == "adjudicated" and len(judged[pair.question].get(pair.passage, ())) > 1
            ):
                open_pairs.setdefault(pair.question, []).append(pair.passage)
            if pair.state == "adjudicated" and pair.label is not None:
                given.setdefault(pair.question, {})[pair.passage] = pair.label
        cards = []
        for question in self._study.questions.some([id for id in questions if id in open_pairs]):
            card = self._card(
                None, question, [Candidate(passage, group) for group, passage in enumerate(open_pairs[question.id])]
            )
            for one in card["candidates"]:
                counts = judged[question.id].get(one["passage"], Counter())
                one["others"] = ", ".join(
                    f"{count} {'says' if count == 1 else 'say'} {label}" for label, count in counts.most_common()
                )
            cards.append(card | {"given": given.get(question.id, {})})
        return cards

    def _of_batch(self, batch: str, questions: Iterable[str]) -> list[Card]:
        questions = list(questions)
        missing = [id for id in questions if key(batch, id) not in self._held]
        if missing:
            items = self._queue.items(batch, missing)
            records = {
                question.id: question for question in self._study.questions.some([item.question for item in items])
            }
            for item in items:
                self._hold(self._card(batch, records[item.question], item.candidates))
        found = [name for id in questions if (name := key(batch, id)) in self._held]
        for name in found:
            self._held.move_to_end(name)
        return [self._held[name] for name in found]

    def _hold(self, card: Card) -> None:
        self._held[card["key"]] = card
        while len(self._held) > _HELD:
            self._held.popitem(last=False)

    def _card(self, batch: str | None, question: Question, candidates: Sequence[Candidate]) -> Card:
        ordinals = self._study.corpus.ordinals([*(each.passage for each in candidates), *question.gold])
        wanted = [id for id in (*(each.passage for each in candidates), *question.gold) if id in ordinals]
        passages = dict(zip(wanted, self._study.corpus.passages([ordinals[id] for id in wanted]), strict=True))
        return {
            "key": key(batch, question.id), "batch": batch, "question": question.id, "text": question.text,
            "answers": list(question.answers[:SHOWN_ANSWERS]), "more_answers": list(question.answers[SHOWN_ANSWERS:]) or None,
            "positives": [_shown(passages[id], question) for id in question.gold if id in passages],
            "candidates": [_candidate(each, passages[each.passage], question, place, candidates)
                           for place, each in enumerate(candidates) if each.passage in passages],
        }  # fmt: skip

    def _settled(self, question: str) -> dict[str, dict[str, str]]:
        """What was settled of a practice question, and what adjudicators wrote about it."""
        why: dict[str, str] = {}
        for event in self._labels.notes(question):
            if event.passage is not None and event.note:
                why[event.passage] = event.note
        return {
            pair.passage: {"label": pair.label, "why": why.get(pair.passage, "")}
            for pair in self._labels.consensus([question])
            if pair.label is not None
        }


def _candidate(
    each: Candidate, passage: Passage, question: Question, place: int, all: Sequence[Candidate]
) -> dict[str, Any]:
    twin = next((other for other in range(place) if all[other].near_duplicates == each.near_duplicates), None)
    where = "" if each.run is None else f"{each.run}, rank {each.rank}, score {each.score:.4g}"
    return {
        "passage": each.passage,
        "where": where,
        "others": "",
        **_shown(passage, question),
        "group": "" if twin is None else f"≈ nearly the same as {twin + 1}",
    }


def _shown(passage: Passage, question: Question) -> dict[str, Any]:
    answers = answer_spans(passage.text, question.answers, rule_for(question, DEFAULT_RULE)) if question.answers else []
    words = query_spans(passage.text, question.text)
    low, high = _line(passage.text, answers)
    return {
        "title": passage.title,
        "pieces": pieces(passage.text, 0, len(passage.text), answers, words),
        "line": pieces(passage.text, low, high, answers, words),
    }


def _line(text: str, answers: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """About LINE characters that begin with the answer's sentence, or with a word shortly before the answer."""
    if not answers or answers[0][1] <= BEFORE:
        return 0, min(LINE, len(text))
    start = start_near(text, answers[0][0], BEFORE)
    return start, min(start + LINE, len(text))
