"""Answer matching for a whole run. Each distinct passage is read once and each distinct answer is prepared once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from blindspot.backend.progress import Progress
from blindspot.backend.text.answers.rules import RULES, rule_for, rule_named
from blindspot.backend.text.default_rule import DEFAULT_RULE
from blindspot.db.corpus import Corpus
from blindspot.db.records import Question

BLOCK = 4096  # passages read at a time: a few megabytes of text
HITS_PER_BLOCK = 1 << 18  # limit, unless a single passage has more: 30 MB for questions with two answers
HITS_AT_ONCE = 1 << 23  # hits sorted by passage in one step: 0.2 GB


def match_run(
    corpus: Corpus,
    questions: Sequence[Question],
    ordinals: np.ndarray,
    rule: str = DEFAULT_RULE,
    progress: Progress | None = None,
) -> np.ndarray:
    """Return which hits contain an answer, as (q, k) bool.

    Passages are read in row order, a block at a time. Each distinct passage is read and prepared once (once for every 8
    million hits in larger runs).

    Args:
        questions: q questions, in the run's order.
        ordinals: (q, k) int32 rows of the collection; -1 is padding and gives False.
        rule: A name in `RULES`.
        progress: Called after every block with (hits done, hits in total, activity). An error that it raises stops the
            work.

    Raises:
        Missing: an unknown rule, or a row outside the collection.
    """
    rule_named(rule)
    ordinals = np.asarray(ordinals)
    if ordinals.ndim != 2 or len(ordinals) != len(questions):
        raise ValueError(f"{len(questions)} questions need ordinals of shape (q, k), not {ordinals.shape}")
    answered = np.zeros(ordinals.shape, dtype=bool)
    rules = np.array([rule_for(question, rule) for question in questions], dtype=object)
    done, total = 0, int((ordinals >= 0).sum())
    for name in sorted(set(rules)):
        rows = np.flatnonzero(rules == name)
        matcher = _Matcher(corpus, [questions[row] for row in rows.tolist()], name)
        for block in _blocks(ordinals, rows):
            answered.ravel()[block.hits[matcher.match(block)]] = True
            done += len(block.hits)
            if progress:
                progress(done, total, "matching answers")
    return answered


class _HitBlock(NamedTuple):
    """A block of p passages and the h hits that refer to them, sorted by passage.

    Attributes:
        passages: (p,) rows of the collection, ascending.
        ends: (p,); the hits of passage i end before `ends[i]`.
        questions: (h,); the question of each hit, as a position in the matcher's questions.
        hits: (h,); the position of each hit in the run's flattened matrix.
    """

    passages: np.ndarray
    ends: np.ndarray
    questions: np.ndarray
    hits: np.ndarray


class _Matcher:
    """Matches blocks of hits of questions that share a rule.

    Question i has the answers at `members[starts[i]:starts[i + 1]]` of `needles`, the prepared distinct answers.
    """

    def __init__(self, corpus: Corpus, questions: Sequence[Question], rule: str):
        self.corpus, self.rule = corpus, RULES[rule]
        places: dict[str, int] = {}
        answers = [[places.setdefault(answer, len(places)) for answer in each.answers] for each in questions]
        members = np.array([place for of_question in answers for place in of_question], np.int32)
        starts = np.cumsum([0, *map(len, answers)], dtype=np.int64)
        self.needles = list(map(self.rule.needle, places))
        # Answers that cannot match any passage are left out.
        usable = np.array([needle is not None for needle in self.needles], bool)[members]
        self.members = members[usable]
        self.starts = np.concatenate([[0], np.cumsum(usable)])[starts]

    def match(self, block: _HitBlock) -> np.ndarray:
        """Return (h,) bool: which of the block's hits contain an answer."""
        hits, members = self._pairs(block.questions)
        bounds = np.searchsorted(hits, np.append(0, block.ends)).tolist()  # where each passage's pairs begin and end
        answers: list[int] = members.tolist()
        matched_pairs: list[int] = []
        searched = [i for i in range(len(block.passages)) if bounds[i] < bounds[i + 1]]
        for i, passage in zip(searched, self.corpus.passages(block.passages[searched].tolist()), strict=True):
            start, end = bounds[i], bounds[i + 1]
            prepared = self.rule.passage(passage.text, passage.title)
            contained = frozenset(self.rule.matching_positions(prepared, answers[start:end], self.needles))
            if contained:
                matched_pairs += [pair for pair in range(start, end) if answers[pair] in contained]
        matched = np.zeros(len(block.hits), bool)
        matched[hits[matched_pairs]] = True
        return matched

    def _pairs(self, questions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Pair each hit with each answer of its question: (hits, positions of the answers), sorted by hit."""
        counts = np.diff(self.starts)[questions]
        hits = np.repeat(np.arange(len(questions)), counts)
        nth = np.arange(len(hits)) - np.repeat(np.cumsum(counts) - counts, counts)
        return hits, self.members[self.starts[questions[hits]] + nth]


def _blocks(ordinals: np.ndarray, rows: np.ndarray) -> Iterator[_HitBlock]:
    """Split the hits of `rows` into blocks."""
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
            row, rank = np.divmod(order[bounds[low] : bounds[high]], width)
            ends = bounds[low + 1 : high + 1] - bounds[low]
            yield _HitBlock(distinct[low:high], ends, first + row, chunk[row] * width + rank)
            low = high
