"""Find problems in a training file that are visible without labels: duplicates, empty or cut texts, leaks, false
in-batch negatives.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from blindspot.backend.checking.building import EMPTY, CheckedStudy, number_of
from blindspot.backend.checking.near_duplicate_candidates import near_duplicate_groups
from blindspot.backend.checking.pairs import PassageOccurrences, contained_in, negative_pairs
from blindspot.backend.data.leaks import words_key
from blindspot.backend.judging.near_duplicates import THRESHOLD

BATCHES = (32, 64, 128, 256, 512, 1024, 2048, 4096)
SHOWN = 5
CUT_SHARE, CUT_LEAST = 0.01, 5
"""Texts count as truncated if at least this share of all passages, and at least this number, have exactly the length of
the longest.
"""


@dataclass(frozen=True)
class FileFinding:
    """A problem, or a possible problem, in a training file.

    Attributes:
        name: For JSON. words: What it is. count, of: So many of so many. unit: What is counted.
        lines: Lines of the first few, in the file.
    """

    name: str
    words: str
    count: int
    of: int
    unit: str
    lines: tuple[int, ...] = ()

    @property
    def share(self) -> str:
        """The share in words, such as 2.5%."""
        share = self.count / self.of if self.of else 0.0
        return "less than 0.1%" if 0 < share < 0.0005 else f"{share:.1%}"


@dataclass(frozen=True)
class BatchSize:
    """The expected false in-batch negatives for one batch size, when each epoch is shuffled.

    Attributes:
        rows: Share of rows with a false negative among the other rows' positives. pairs: False negatives in an epoch.
    """

    size: int
    rows: float
    pairs: float


@dataclass(frozen=True)
class FileFacts:
    """The facts of a training file. batches: None if trainers of this format use no in-batch negatives. doubled: the
    number of rows that share a question or a positive with another row.
    """

    rows: int
    questions: int
    passages: int
    positives: int
    negatives: int
    findings: list[FileFinding] = field(default_factory=list)
    doubled: int = 0
    batches: list[BatchSize] | None = None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def facts(checked_study: CheckedStudy, held_out: Iterable[str] = ()) -> FileFacts:
    """Collect the facts of a checked file.

    Args:
        held_out: Questions of dev and test sets.
    """
    places, study = checked_study.occurrences, checked_study.study
    rows = int(checked_study.manifest["rows"])
    pairs = negative_pairs(places)
    findings = [
        *_known_false_negatives(checked_study),
        *_repeated_rows_and_passages(checked_study, rows),
        *_text_findings(checked_study),
        *_rows_without_passages(checked_study, rows),
    ]
    findings += _leak_findings(checked_study, held_out)
    doubled, batches = 0, None
    if checked_study.manifest["in_batch"] and rows > 1:
        doubled, batches = in_batch_negatives(places, rows, _positive_groups(checked_study))
    return FileFacts(
        rows,
        len(study.questions),
        len(study.corpus),
        len(places.positive_keys),
        len(pairs) + int(len(np.unique(places.keys[places.known_false]))),
        [finding for finding in findings if finding.count],
        doubled,
        batches,
    )


def _known_false_negatives(checked_study: CheckedStudy) -> list[FileFinding]:
    places = checked_study.occurrences
    negative = ~places.positive
    row_keys = places.row.astype(np.int64) << 32 | places.passage
    own = negative & contained_in(row_keys, np.unique(row_keys[places.positive]))
    other = places.known_false & ~own
    near = negative & ~places.known_false & (places.similar >= THRESHOLD)
    total = int(negative.sum())
    return [
        _finding_of_places(
            checked_study, "positive_among_negatives", "negatives that are the row's own positive", own, total
        ),
        _finding_of_places(
            checked_study,
            "positive_elsewhere",
            "negatives that another row calls positive for the question",
            other,
            total,
        ),
        _finding_of_places(
            checked_study, "near_identical", "negatives that are nearly identical to a positive of the row", near, total
        ),
    ]


def _finding_of_places(
    checked_study: CheckedStudy, name: str, words: str, is_found: np.ndarray, total: int
) -> FileFinding:
    return FileFinding(
        name,
        words,
        int(is_found.sum()),
        total,
        "negative",
        _lines(checked_study, checked_study.occurrences.row[is_found]),
    )


def _lines(checked_study: CheckedStudy, rows: np.ndarray) -> tuple[int, ...]:
    return tuple(int(checked_study.lines[row]) for row in np.unique(rows)[:SHOWN])


def _repeated_rows_and_passages(checked_study: CheckedStudy, row_count: int) -> list[FileFinding]:
    """Count rows that repeat an earlier row, and passages that occur twice among the negatives of a row."""
    places = checked_study.occurrences
    mixed = (places.passage.astype(np.uint64) * 2 + places.positive) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(31))) * (places.slot.astype(np.uint64) * 2 + 3)
    whole = np.zeros(row_count, np.uint64)
    np.add.at(whole, places.row, mixed)
    first = np.zeros(row_count, np.uint64)
    first[places.row] = places.question
    _, at = np.unique(whole ^ (first * np.uint64(0xBF58476D1CE4E5B9)), return_index=True)
    again = np.ones(row_count, bool)
    again[at] = False
    keys = places.row.astype(np.int64) << 32 | places.passage
    negative = np.flatnonzero(~places.positive)
    _, kept = np.unique(keys[negative], return_index=True)
    twice = np.ones(len(negative), bool)
    twice[kept] = False
    return [
        FileFinding(
            "doubled_rows",
            "rows that are the same as an earlier row",
            int(again.sum()),
            row_count,
            "row",
            _lines(checked_study, np.flatnonzero(again)),
        ),
        FileFinding(
            "doubled_negatives",
            "negatives that are twice in their row",
            int(twice.sum()),
            len(negative),
            "negative",
            _lines(checked_study, places.row[negative[twice]]),
        ),
    ]


def _text_findings(checked_study: CheckedStudy) -> list[FileFinding]:
    """Count questions and passages without text, and truncated passages."""
    places, corpus = checked_study.occurrences, checked_study.study.corpus
    connection = checked_study.study.questions.connection
    blank = [number_of(id) for (id,) in connection.execute("SELECT id FROM question WHERE text = ?", (EMPTY,))]
    longest, number = corpus.connection.execute(
        "SELECT length(text), count(*) FROM passage GROUP BY 1 ORDER BY 1 DESC LIMIT 1"
    ).fetchone()
    cut = number if number >= max(CUT_LEAST, CUT_SHARE * len(corpus)) and longest > 1 else 0
    dots = corpus.connection.execute(
        "SELECT count(*) FROM passage WHERE text LIKE '%...' OR text LIKE '%…'"
    ).fetchone()[0]
    return [
        FileFinding(
            "empty_questions",
            "questions without text",
            len(blank),
            len(checked_study.study.questions),
            "question",
            _lines(checked_study, places.row[np.isin(places.question, blank)]),
        ),
        FileFinding(
            "empty_texts",
            "passages without a word",
            int(places.empty.sum()),
            len(places),
            "place",
            _lines(checked_study, places.row[places.empty]),
        ),
        FileFinding(
            "cut_texts",
            f"passages of exactly {longest:,} characters, the longest there are: cut",
            int(cut),
            len(corpus),
            "passage",
        ),
        FileFinding("cut_with_dots", "passages that end in an ellipsis", int(dots), len(corpus), "passage"),
    ]


def _rows_without_passages(checked_study: CheckedStudy, row_count: int) -> list[FileFinding]:
    places = checked_study.occurrences
    questions = len(checked_study.study.questions)
    with_negative = np.zeros(questions, bool)
    with_negative[places.question[~places.positive]] = True
    with_positive = np.zeros(questions, bool)
    with_positive[places.question[places.positive]] = True
    none = 0 if not (~places.positive).any() else int((~with_negative).sum())
    return [
        FileFinding("without_negatives", "questions without a negative", none, questions, "question"),
        FileFinding(
            "without_positives", "questions without a positive", int((~with_positive).sum()), questions, "question"
        ),
    ]


def _leak_findings(checked_study: CheckedStudy, held_out: Iterable[str]) -> list[FileFinding]:
    keys = {words_key(text) for text in held_out}
    if not keys:
        return []
    count, leaked = 0, []
    for question in checked_study.study.questions.all():
        if words_key(question.text) in keys:
            count += 1
            leaked.append(number_of(question.id))
    rows = checked_study.occurrences.row[np.isin(checked_study.occurrences.question, leaked)]
    words = "questions that are in the dev or test set as well"
    return [
        FileFinding(
            "leaked_questions",
            words,
            count,
            len(checked_study.study.questions),
            "question",
            _lines(checked_study, rows),
        )
    ]


# In the batch


def _positive_groups(checked_study: CheckedStudy) -> np.ndarray:
    """Return a group number for each passage, (passages,) int64. Near-identical positives have the same number."""
    corpus = checked_study.study.corpus
    groups = np.arange(len(corpus), dtype=np.int64)
    positives = np.unique(checked_study.occurrences.passage[checked_study.occurrences.positive])

    def texts(rows: Sequence[int]) -> list[str]:
        return [passage.text for passage in corpus.passages(positives[np.asarray(rows)].tolist())]

    groups[positives] = positives[near_duplicate_groups(len(positives), texts)]
    return groups


def in_batch_negatives(occurrences: PassageOccurrences, rows: int, groups: np.ndarray) -> tuple[int, list[BatchSize]]:
    """Return how many rows share a question or a positive with another row, and the expected false in-batch negatives
    for each batch size.

    A row's in-batch negatives are the positives of the other rows of its batch. Row A's positive is a false negative
    for row B if any row with B's question has that passage, or a near-identical one, as a positive.

    Args:
        groups: (passages,) a number that near-identical passages share.
    """
    positive = np.flatnonzero(occurrences.positive)
    _, first = np.unique(occurrences.row[positive], return_index=True)
    chosen = positive[first]  # a row trains with its first positive
    owner, group = occurrences.question[chosen], groups[occurrences.passage[chosen]]
    number = len(chosen)
    of_group = np.bincount(group, minlength=len(groups))
    edges = np.unique(occurrences.question[positive].astype(np.int64) << 32 | groups[occurrences.passage[positive]])
    shared = np.bincount(edges >> 32, of_group[edges & 0xFFFFFFFF], minlength=int(owner.max(initial=0)) + 1)
    others = np.maximum(shared[owner] - 1, 0)
    values, counts = np.unique(others, return_counts=True)
    sizes = [size for size in BATCHES if size <= number] or [number]
    return int((others > 0).sum()), [_batch_size_facts(values, counts, number, size) for size in sizes]


def _batch_size_facts(other_pairs: np.ndarray, counts: np.ndarray, row_count: int, size: int) -> BatchSize:
    """Return the expected false negatives for a batch size. A batch is one row and size - 1 other rows, drawn without
    replacement.
    """
    from scipy.special import gammaln

    left = row_count - 1 - other_pairs
    with np.errstate(invalid="ignore"):
        none = np.where(
            left >= size - 1,
            np.exp(gammaln(left + 1) - gammaln(left - size + 2) - gammaln(row_count) + gammaln(row_count - size + 1)),
            0.0,
        )
    return BatchSize(
        size, float(counts @ (1 - none) / row_count), float(counts @ other_pairs * (size - 1) / (row_count - 1))
    )
