"""Sample the placebos of a miss: passages that do not answer its question, to which the same edits are applied."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from blindspot.backend.core.sampling import text_key
from blindspot.backend.evaluation.question_facts import content_words
from blindspot.backend.interventions.edits import EDITS, TOGETHER, EditedMiss, MissedQuestion, Placebo, apply
from blindspot.backend.interventions.sentences import answer_sentence, sentences
from blindspot.backend.interventions.settings import PLACEBOS
from blindspot.backend.text.answers import has_answer, mentions_subject, rule_for

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from blindspot.db.corpus import Corpus
    from blindspot.db.records import Passage

JOIN_EDIT = "join_pieces"  # its placebos get the pieces beside the gold passage
DRAWS = 8  # passages drawn for each placebo; those that answer, name the subject or have no words are passed over
"""After the edit, a passage that has words of the question would state the fact about another entity. Such passages are
used as placebos only if there are too few others.
"""


def placebos(
    miss: MissedQuestion,
    corpus: Corpus,
    gold_rows: Collection[int],
    other_answers: Sequence[tuple[str, ...]],
    count: int = PLACEBOS,
    seed: int = 0,
) -> list[Placebo]:
    """Return up to `count` placebos, which depend only on the question's id, the collection and the seed.

    Args:
        other_answers: the answers of other questions.
    """
    question = miss.question
    random = np.random.default_rng(list(text_key(f"placebo\0{seed}\0{question.id}")))
    drawn = random.permutation(len(corpus)) if len(corpus) < 1000 else random.integers(len(corpus), size=DRAWS * count)
    rows = [row for row in dict.fromkeys(drawn.tolist()) if row not in gold_rows][: DRAWS * count]
    rule = rule_for(question, miss.rule)
    place = answer_sentence(sentences(miss.gold.text), miss.plain or question.text, question.answers, rule)
    own = {answer.casefold() for answer in question.answers}
    others = [answers for answers in other_answers if own.isdisjoint(each.casefold() for each in answers)]
    asked = content_words(miss.plain or question.text) - content_words(question.subject or "")
    made: list[Placebo] = []
    wordy: list[Placebo] = []
    for row, passage in zip(rows, corpus.passages(rows), strict=True):
        if len(made) == count:
            break
        if has_answer(f"{passage.title}\n{passage.text}", question.answers, rule) or (
            question.subject and mentions_subject(passage, question)
        ):
            continue
        word = None if place is None else _sentence_word(passage, place)
        if place is not None and word is None:
            continue
        answers = others[int(random.integers(len(others)))] if others else ()
        has_words = not asked.isdisjoint(content_words(f"{passage.title}\n{passage.text}"))
        (wordy if has_words else made).append(Placebo(passage, row, word, answers))
    return (made + wordy)[:count]


def edited_placebos(name: str, miss: MissedQuestion, placebos: Sequence[Placebo]) -> list[EditedMiss | None]:
    """Apply an edit of a miss, or several edits together, to its placebos. The result is None for a placebo in which
    there is nothing to change.
    """
    stand_in = EDITS[JOIN_EDIT if JOIN_EDIT in name else name.split(TOGETHER)[0]].stand_in
    return [apply(name, stand_in(placebo, miss)) for placebo in placebos]


def _sentence_word(passage: Passage, sentence_index: int) -> str | None:
    """Return a word of the passage's sentence number `sentence_index` (or of its last sentence if there are fewer): the
    last name in the sentence, or else its longest word.
    """
    parts = sentences(passage.text)
    found = re.findall(r"[^\W\d_]{3,}", parts[min(sentence_index, len(parts) - 1)]) if parts else []
    names = [word for word in found[1:] if word[0].isupper()]
    return names[-1] if names else max(found, key=len, default=None)
