"""Answer matching for a whole run. Each distinct passage is read once and each distinct answer is prepared once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from blindspot.backend.progress import Progress
from blindspot.backend.text.answers.rules import RULES, PatternRule, rule_for, rule_named
from blindspot.backend.text.default_rule import DEFAULT_RULE
from blindspot.db.corpus import Corpus
from blindspot.db.records import Passage, Question

BLOCK = 4096  # passages read at a time: a few megabytes of text
HITS_PER_BLOCK = 1 << 18  # limit, unless a single passage has more: 30 MB for questions with two answers
HITS_AT_ONCE = 1 << 23  # hits sorted by passage in one step: 0.2 GB
HITS_PER_PROCESS = 250_000  # matching fewer takes no longer than starting a process


class PassageStore(Protocol):
    """A collection whose passages can be read by row, such as `blindspot.db.corpus.Corpus`."""

    def passages(self, ordinals: list[int]) -> Iterable[Passage]:
        """Return the passages of these rows, in the given order. Raises Missing for a row outside the collection."""


@dataclass(frozen=True, slots=True)
class HitBlock:
    """A block of p passages and the h hits that refer to them, sorted by passage.

    Attributes:
        ordinals: (p,) int32 rows of the collection, ascending.
        ends: (p,) int32; the hits of passage i end before `ends[i]`.
        rows: (h,) int32; the question of each hit, as a row of `AnswerTable`.
    """

    ordinals: np.ndarray
    ends: np.ndarray
    rows: np.ndarray


PlacedBlock = tuple[np.ndarray, HitBlock]
"""A block of hits, preceded by their positions in the run's flattened matrix."""


@dataclass(frozen=True, slots=True)
class AnswerTable:
    """The answers of q questions that share a matching rule.

    Attributes:
        rule: Name of the rule.
        answers: The distinct answers.
        starts: (q + 1,) int64; question i has answers[members[starts[i]:starts[i + 1]]].
        members: int32 positions in `answers`.
    """

    rule: str
    answers: list[str]
    starts: np.ndarray
    members: np.ndarray

    @classmethod
    def of_questions(cls, questions: Sequence[Question], rule: str) -> AnswerTable:
        positions: dict[str, int] = {}
        members = [
            [positions.setdefault(answer, len(positions)) for answer in question.answers] for question in questions
        ]
        starts = np.cumsum([0, *map(len, members)], dtype=np.int64)
        return cls(
            rule, list(positions), starts, np.array([position for group in members for position in group], np.int32)
        )


class Matcher:
    """Matches blocks of hits in this process."""

    def __init__(self, corpus: PassageStore, table: AnswerTable):
        self.corpus, self.rule = corpus, RULES[table.rule]
        self.needles = list(map(self.rule.needle, table.answers))
        usable = np.array([needle is not None for needle in self.needles], bool)[table.members]
        self.members = table.members[usable]
        self.starts = np.concatenate([[0], np.cumsum(usable)])[table.starts]

    def match(self, block: HitBlock) -> np.ndarray:
        """Return (h,) bool: which of the block's hits contain an answer."""
        hits, members = self._pairs(block.rows)
        bounds = np.searchsorted(hits, np.append(0, block.ends)).tolist()  # where each passage's pairs begin and end
        answers: list[int] = members.tolist()
        matched_pairs: list[int] = []
        searched = [i for i in range(len(block.ordinals)) if bounds[i] < bounds[i + 1]]
        for i, passage in zip(searched, self.corpus.passages(block.ordinals[searched].tolist()), strict=True):
            start, end = bounds[i], bounds[i + 1]
            prepared = self.rule.passage(passage.text, passage.title)
            contained = frozenset(self.rule.matching_positions(prepared, answers[start:end], self.needles))
            if contained:
                matched_pairs += [pair for pair in range(start, end) if answers[pair] in contained]
        matched = np.zeros(len(block.rows), bool)
        matched[hits[matched_pairs]] = True
        return matched

    def _pairs(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Pair each hit with each answer of its question: (hits, positions of the answers), sorted by hit."""
        counts = np.diff(self.starts)[rows]
        hits = np.repeat(np.arange(len(rows)), counts)
        nth = np.arange(len(hits)) - np.repeat(np.cumsum(counts) - counts, counts)
        return hits, self.members[self.starts[rows[hits]] + nth]


def match_run(
    corpus: PassageStore,
    questions: Sequence[Question],
    ordinals: np.ndarray,
    rule: str = DEFAULT_RULE,
    progress: Progress | None = None,
    processes: int | None = None,
) -> np.ndarray:
    """Return which hits contain an answer, as (q, k) bool.

    Passages are read in row order, a block at a time. Each distinct passage is read and prepared once (once for every 8
    million hits in larger runs).

    Args:
        corpus: The passages. Only a `blindspot.db.corpus.Corpus` can be read by several processes.
        questions: q questions, in the run's order.
        ordinals: (q, k) int32 rows of the collection; -1 is padding and gives False.
        rule: A name in `RULES`.
        progress: Called after every block with (hits done, hits in total, activity). An error that it raises stops the
            work.
        processes: Number of worker processes. By default one per available processor; none if the run is too small to
            be worth starting them, if the collection is of another kind, or for patterns.

    Raises:
        Missing: an unknown rule, or a row outside the collection.
        Refused: a worker process died.
    """
    rule_named(rule)
    ordinals = np.asarray(ordinals)
    if ordinals.ndim != 2 or len(ordinals) != len(questions):
        raise ValueError(f"{len(questions)} questions need ordinals of shape (q, k), not {ordinals.shape}")
    if isinstance(corpus, Corpus) and ordinals.max(initial=-1) >= len(corpus):
        corpus.passage(int(ordinals.max()))  # raises Missing before any process starts
    answered = np.zeros(ordinals.shape, dtype=bool)
    rules = np.array([rule_for(question, rule) for question in questions], dtype=object)
    done, total = 0, int((ordinals >= 0).sum())
    for name in sorted(set(rules)):
        rows = np.flatnonzero(rules == name)
        table = AnswerTable.of_questions([questions[row] for row in rows.tolist()], name)
        with _open_matcher(corpus, table, len(rows) * ordinals.shape[1], processes) as match:
            for hits, matched in match(_blocks(ordinals, rows)):
                answered.ravel()[hits[matched]] = True
                done += len(hits)
                if progress:
                    progress(done, total, "matching answers")
    return answered


def _blocks(ordinals: np.ndarray, rows: np.ndarray) -> Iterator[PlacedBlock]:
    """Split the hits of `rows` into blocks. Yield each block with the positions of its hits in `ordinals.ravel()`."""
    width = max(1, ordinals.shape[1])
    step = max(1, HITS_AT_ONCE // width)
    for first in range(0, len(rows), step):
        chunk = rows[first : first + step]
        flat = ordinals[chunk].ravel()
        order = np.argsort(flat, kind="stable")
        order = order[np.searchsorted(flat, 0, sorter=order) :]  # the padding sorts first
        distinct, starts = np.unique(flat[order], return_index=True)
        bounds, low = np.append(starts, len(order)), 0
        while low < len(distinct):
            within_limit = int(np.searchsorted(bounds, bounds[low] + HITS_PER_BLOCK, side="right")) - 1
            high = min(low + BLOCK, max(within_limit, low + 1), len(distinct))
            hits = order[bounds[low] : bounds[high]]
            row, rank = np.divmod(hits, width)
            arrays = (distinct[low:high], bounds[low + 1 : high + 1] - bounds[low], first + row)
            yield chunk[row] * width + rank, HitBlock(*(array.astype(np.int32) for array in arrays))
            low = high


@contextmanager
def _open_matcher(
    corpus: PassageStore, table: AnswerTable, hit_count: int, processes: int | None
) -> Iterator[Callable[[Iterator[PlacedBlock]], Iterator[tuple[np.ndarray, np.ndarray]]]]:
    """Yield a function that maps an iterator of (positions, block) to an iterator of (positions, whether each contains
    an answer), in any order.
    """
    if processes is None:
        processes = min(processors(), hit_count // HITS_PER_PROCESS)
    if processes < 2 or not isinstance(corpus, Corpus) or isinstance(RULES[table.rule], PatternRule):
        matcher = Matcher(corpus, table)
        yield lambda blocks: ((positions, matcher.match(block)) for positions, block in blocks)
        return
    from blindspot.backend.text.answers.processes import MatcherPool

    with MatcherPool(corpus.path, table, processes) as pool:
        yield pool.match


def processors() -> int:
    """Return the number of processors that this process may use. Under torchrun, the processors are divided among the
    local processes.
    """
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, available // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
