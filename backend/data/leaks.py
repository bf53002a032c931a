"""Select the questions that may be used for training. Questions whose text or (subject, relation) occurs in a dev or
test split are left out.

Bucket sets and one-off sets count as test. Of a one-off set (EntityQuestions' `no-overlap` and `similar`), only its own
train split may be used for training.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from blindspot.analysis.buckets import subject_key
from blindspot.backend.core.sampling import nested_sample, text_key
from blindspot.backend.text.gold_matching import lower_tokens
from blindspot.db.errors import Missing, Refused

if TYPE_CHECKING:
    from blindspot.backend.core.study import Study

HELD_OUT = ("dev", "test")
TRAINS = ("train", "unlabelled")
TEXT_LEAK = "its text is in dev or test"
FACT_LEAK = "its subject and relation are in dev or test"
BUCKET_LEAK = "it belongs to a bucket set, which counts as test"
BAD = "people call the question bad"


@dataclass(slots=True)
class EligibleQuestions:
    """The questions that may be used for training, by ascending id, and the questions left out, each with its reason.

    digest: hash of everything about the eligible questions that a training set depends on.
    """

    ids: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    digest: str = ""


def eligible_questions(
    study: Study,
    splits: Sequence[str],
    bad_questions: frozenset[str] | set[str] = frozenset(),
    relations: Sequence[str] = (),
    limit: int | None = None,
    seed: int = 0,
) -> EligibleQuestions:
    """Select the questions of some splits that do not occur in a dev or test split.

    Args:
        splits: train, unlabelled, or SET/SPLIT of these splits.
        bad_questions: ids of questions that people call bad.
        relations: only questions about these relations; empty for all.
        limit: maximum number of questions, drawn with `seed`. A larger limit only adds to the draw of a smaller one.

    Raises:
        Refused: a dev or test split. Missing: no such questions.
    """
    conditions = [_split_condition(split) for split in splits]
    texts, facts = _held_out_keys(study)
    result, rows = EligibleQuestions(), {}
    where = " OR ".join(sql for sql, _ in conditions)
    for row in _question_rows(
        study, f"WHERE {where} ORDER BY id", [value for _, values in conditions for value in values]
    ):
        id, text, relation, subject, bucket, *rest = row
        if relations and relation not in relations:
            continue
        if bucket is not None:
            result.left_out[id] = BUCKET_LEAK
        elif words_key(text) in texts:
            result.left_out[id] = TEXT_LEAK
        elif _fact_key(relation, subject) in facts:
            result.left_out[id] = FACT_LEAK
        elif id in bad_questions:
            result.left_out[id] = BAD
        else:
            rows[id] = json.dumps([id, text, relation, subject, *rest])
    if not rows and not result.left_out:
        asking = f" about {', '.join(relations)}" if relations else ""
        raise Missing(f"there are no questions of {', '.join(splits)}{asking}; import some with --split train")
    result.ids = nested_sample(list(rows), limit, seed)
    result.digest = hashlib.sha256("".join(rows[id] for id in result.ids).encode()).hexdigest()
    return result


def _split_condition(name: str) -> tuple[str, list[str]]:
    dataset, slash, split = name.rpartition("/")
    if split in HELD_OUT:
        raise Refused(f"{name} questions never train; give train or unlabelled")
    if split not in TRAINS:
        raise Refused(f"a training set takes train, unlabelled, or SET/train, not {name!r}")
    return ("(split = ? AND dataset = ?)", [split, dataset]) if slash else ("split = ?", [split])


def _held_out_keys(study: Study) -> tuple[set[bytes], set[bytes]]:
    """Return the keys of the texts, and the keys of the facts, of all dev, test and bucket questions."""
    texts: set[bytes] = set()
    facts: set[bytes] = set()
    for _, text, relation, subject, *_ in _question_rows(study, "WHERE split IN ('dev', 'test') OR bucket IS NOT NULL"):
        texts.add(words_key(text))
        if (key := _fact_key(relation, subject)) is not None:
            facts.add(key)
    return texts, facts


def _question_rows(study: Study, condition: str, values: Sequence[str] = ()) -> Iterator[tuple]:
    return study.questions.connection.execute(
        f"SELECT id, text, relation, subject, bucket, answers, answer_rule, gold, frequency FROM question {condition}",
        values,
    )


def words_key(text: str) -> bytes:
    """Return a key of a text that ignores case, punctuation and spaces."""
    words = [token for token in lower_tokens(text) if token[0].isalnum()]
    return text_key(" ".join(words) if words else text)


def _fact_key(relation: str | None, subject: str | None) -> bytes | None:
    return None if relation is None or subject is None else fact_key(relation, subject)


def fact_key(relation: str, subject: str) -> bytes:
    """Return a key of a (subject, relation) pair."""
    return text_key(f"{relation}\0{subject_key(subject)}")
