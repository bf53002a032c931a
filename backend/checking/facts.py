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
    pairs, found = negative_pairs(places), _Findings(checked_study, rows)
    found.add_known_false_negatives()
    found.add_repetitions()
    found.add_texts()
    found.add_incomplete_questions()
    found.add_leaks(held_out)
    doubled, batches = 0, None
    if checked_study.manifest["in_batch"] and rows > 1:
        doubled, batches = in_batch_negatives(places, rows, _positive_groups(checked_study))
    return FileFacts(
        rows,
        len(study.questions),
        len(study.corpus),
        len(places.positive_keys),
        len(pairs) + int(len(np.unique(places.keys[places.known_false]))),
        found.findings,
        doubled,
        batches,
    )


@dataclass(frozen=True)
class _Findings:
    """Collects the findings of one file."""

    checked_study: CheckedStudy
    rows: int
    findings: list[FileFinding] = field(default_factory=list)

    def add(self, name: str, words: str, unit: str, count: int, total: int, rows: np.ndarray | None = None) -> None:
        """Add a finding unless its count is 0. rows: of the file, whose first lines are shown."""
        lines = () if rows is None else self.checked_study.lines[np.unique(rows)[:SHOWN]].tolist()
        if count:
            self.findings.append(FileFinding(name, words, count, total, unit, tuple(lines)))

    def add_negatives(self, name: str, words: str, rows: np.ndarray) -> None:
        """Add a finding about negatives. rows: the row of each."""
        total = int((~self.checked_study.occurrences.positive).sum())
        self.add(name, words, "negative", len(rows), total, rows)

    def add_known_false_negatives(self) -> None:
        places = self.checked_study.occurrences
        negative = ~places.positive
        row_keys = places.row.astype(np.int64) << 32 | places.passage
        own = negative & contained_in(row_keys, np.unique(row_keys[places.positive]))
        other = places.known_false & ~own
        near = negative & ~places.known_false & (places.similar >= THRESHOLD)
        for name, words, is_found in (
            ("positive_among_negatives", "negatives that are the row's own positive", own),
            ("positive_elsewhere", "negatives that another row calls positive for the question", other),
            ("near_identical", "negatives that are nearly identical to a positive of the row", near),
        ):
            self.add_negatives(name, words, places.row[is_found])

    def add_repetitions(self) -> None:
        """Count rows that repeat an earlier row, and passages that occur twice among the negatives of a row."""
        places = self.checked_study.occurrences
        # A hash of each row: of its question, and of its passages with their places.
        mixed = (places.passage.astype(np.uint64) * 2 + places.positive) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(31))) * (places.slot.astype(np.uint64) * 2 + 3)
        whole = np.zeros(self.rows, np.uint64)
        np.add.at(whole, places.row, mixed)
        first = np.zeros(self.rows, np.uint64)
        first[places.row] = places.question
        again = _repeated(whole ^ (first * np.uint64(0xBF58476D1CE4E5B9)))
        self.add("doubled_rows", "rows that are the same as an earlier row", "row", len(again), self.rows, again)
        keys = places.row.astype(np.int64) << 32 | places.passage
        negative = np.flatnonzero(~places.positive)
        twice = negative[_repeated(keys[negative])]
        self.add_negatives("doubled_negatives", "negatives that are twice in their row", places.row[twice])

    def add_texts(self) -> None:
        """Count questions and passages without text, and truncated passages."""
        study, places = self.checked_study.study, self.checked_study.occurrences
        connection, passages, questions = study.corpus.connection, len(study.corpus), len(study.questions)
        found = study.questions.connection.execute("SELECT id FROM question WHERE text = ?", (EMPTY,))
        blank = [number_of(id) for (id,) in found]
        self.add(
            "empty_questions",
            "questions without text",
            "question",
            len(blank),
            questions,
            places.row[np.isin(places.question, blank)],
        )
        empty = places.row[places.empty]
        self.add("empty_texts", "passages without a word", "place", len(empty), len(places), empty)
        longest, number = connection.execute(
            "SELECT length(text), count(*) FROM passage GROUP BY 1 ORDER BY 1 DESC LIMIT 1"
        ).fetchone()
        cut = number if number >= max(CUT_LEAST, CUT_SHARE * passages) and longest > 1 else 0
        words = f"passages of exactly {longest:,} characters, the longest there are: cut"
        self.add("cut_texts", words, "passage", int(cut), passages)
        (dots,) = connection.execute("SELECT count(*) FROM passage WHERE text LIKE '%...' OR text LIKE '%…'").fetchone()
        self.add("cut_with_dots", "passages that end in an ellipsis", "passage", int(dots), passages)

    def add_incomplete_questions(self) -> None:
        places, questions = self.checked_study.occurrences, len(self.checked_study.study.questions)
        for name, words, is_wanted in (
            ("without_negatives", "questions without a negative", ~places.positive),
            ("without_positives", "questions without a positive", places.positive),
        ):
            lacking = questions - len(np.unique(places.question[is_wanted]))
            # A file without any negative is no fault: its trainer takes other questions' passages.
            if name == "without_positives" or is_wanted.any():
                self.add(name, words, "question", lacking, questions)

    def add_leaks(self, held_out: Iterable[str]) -> None:
        """Count the questions that are in the dev or test set. held_out: the questions of these."""
        keys = {words_key(text) for text in held_out}
        if not keys:
            return
        questions, places = self.checked_study.study.questions, self.checked_study.occurrences
        leaked = [number_of(question.id) for question in questions.all() if words_key(question.text) in keys]
        self.add(
            "leaked_questions",
            "questions that are in the dev or test set as well",
            "question",
            len(leaked),
            len(questions),
            places.row[np.isin(places.question, leaked)],
        )


def _repeated(keys: np.ndarray) -> np.ndarray:
    """Return the indexes of the keys that repeat an earlier one, ascending."""
    _, first = np.unique(keys, return_index=True)
    return np.setdiff1d(np.arange(len(keys)), first)


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
