"""Answer matching for a whole run: each distinct passage is read once, each distinct answer prepared once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from backend.progress import Progress
from backend.text.answers.rules import DEFAULT_RULE, RULES, PatternRule, rule_for, rule_named
from db.corpus import Corpus
from db.records import Question

BLOCK = 4096  # passages read at a time: a few megabytes of text
HITS_PER_BLOCK = 1 << 18  # at most, unless one passage has more: 30 MB for questions of two answers
HITS_AT_ONCE = 1 << 23  # sorted by passage at a time: 0.2 GB
HITS_PER_PROCESS = 250_000  # for less a process does not pay: it takes about as long to start


@dataclass(frozen=True, slots=True)
class Block:
    """Some passages and the hits on them. Hits are sorted by passage.

    ordinals: (p,) int32, rising.
    ends: (p,) int32: the hits of passage i end before `ends[i]`.
    rows: (h,) int32: whose hit it is, a row of `Asked`.
    """

    ordinals: np.ndarray
    ends: np.ndarray
    rows: np.ndarray


@dataclass(frozen=True, slots=True)
class Asked:
    """The answers of questions that one rule decides.

    rule: its name.
    answers: the distinct answers.
    starts: (q + 1,) int64: question i has answers[members[starts[i]:starts[i + 1]]].
    members: positions in `answers`, int32.
    """

    rule: str
    answers: list[str]
    starts: np.ndarray
    members: np.ndarray

    @classmethod
    def of(cls, questions: Sequence[Question], rule: str) -> Asked:
        positions: dict[str, int] = {}
        members = [
            [positions.setdefault(answer, len(positions)) for answer in question.answers] for question in questions
        ]
        starts = np.cumsum([0, *map(len, members)], dtype=np.int64)
        return cls(
            rule, list(positions), starts, np.array([position for some in members for position in some], np.int32)
        )


class Matcher:
    """Decides blocks of hits, in this process.

    Args:
        corpus: anything with `passages(ordinals) -> list[Passage]`.
    """

    def __init__(self, corpus, asked: Asked):
        self.corpus, self.rule = corpus, RULES[asked.rule]
        self.needles = list(map(self.rule.needle, asked.answers))
        able = np.array([needle is not None for needle in self.needles], bool)[asked.members]
        self.members = asked.members[able]
        self.starts = np.concatenate([[0], np.cumsum(able)])[asked.starts]

    def match(self, block: Block) -> np.ndarray:
        """(h,) bool: which of the block's hits hold an answer."""
        hits, wanted = self._pairs(block.rows)
        bounds = np.searchsorted(hits, np.append(0, block.ends)).tolist()  # where each passage's pairs begin and end
        wanted, found = wanted.tolist(), []
        asked = [i for i in range(len(block.ordinals)) if bounds[i] < bounds[i + 1]]
        for i, passage in zip(asked, self.corpus.passages(block.ordinals[asked].tolist()), strict=True):
            start, end = bounds[i], bounds[i + 1]
            held = self.rule.held(self.rule.passage(passage.text, passage.title), wanted[start:end], self.needles)
            if held:
                held = frozenset(held)
                found += [at for at in range(start, end) if wanted[at] in held]
        matched = np.zeros(len(block.rows), bool)
        matched[hits[found]] = True
        return matched

    def _pairs(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Each hit with each answer of its question: (hit, position of the answer), sorted by hit."""
        counts = np.diff(self.starts)[rows]
        hits = np.repeat(np.arange(len(rows)), counts)
        nth = np.arange(len(hits)) - np.repeat(np.cumsum(counts) - counts, counts)
        return hits, self.members[self.starts[rows[hits]] + nth]


def match_run(
    corpus,
    questions: Sequence[Question],
    ordinals: np.ndarray,
    rule: str = DEFAULT_RULE,
    progress: Progress | None = None,
    processes: int | None = None,
) -> np.ndarray:
    """Which hits hold an answer.

    Args:
        corpus: anything with `passages(ordinals) -> list[Passage]`. A `db.corpus.Corpus` can be read by several processes.
        questions: q questions, in the run's order.
        ordinals: (q, k) int32; -1 is padding, and False in the result.
        rule: a name in `RULES`.
        progress: called after every block with (hits done, hits in all, what is being done); what it raises ends the work.
        processes: how many read and match. Default: one for each processor that is this process's, and none besides this
            one for a run so small that starting them would take longer, for another kind of corpus, or for patterns.

    Returns: (q, k) bool. Each distinct passage is read and prepared once, in order of ordinals, a block at a time (once for
    every 8 million hits, where there are more).

    Raises:
        Missing: a name that is no rule, an ordinal outside the collection.
        Refused: a process ended before its work was done.
    """
    rule_named(rule)
    ordinals = np.asarray(ordinals)
    if ordinals.ndim != 2 or len(ordinals) != len(questions):
        raise ValueError(f"{len(questions)} questions need ordinals of shape (q, k), not {ordinals.shape}")
    if isinstance(corpus, Corpus) and ordinals.max(initial=-1) >= len(corpus):
        corpus.passage(int(ordinals.max()))  # raises Missing, before any process starts
    held = np.zeros(ordinals.shape, dtype=bool)
    used = np.array([rule_for(question, rule) for question in questions], dtype=object)
    done, total = 0, int((ordinals >= 0).sum())
    for name in sorted(set(used)):
        rows = np.flatnonzero(used == name)
        asked = Asked.of([questions[row] for row in rows], name)
        with _matching(corpus, asked, len(rows) * ordinals.shape[1], processes) as match:
            for hits, matched in match(_blocks(ordinals, rows)):
                held.ravel()[hits[matched]] = True
                done += len(hits)
                if progress:
                    progress(done, total, "matching answers")
    return held


def _blocks(ordinals: np.ndarray, rows: np.ndarray) -> Iterator[tuple[np.ndarray, Block]]:
    """The hits of `rows`, cut into blocks; with each block the positions of its hits in `ordinals.ravel()`."""
    width = max(1, ordinals.shape[1])
    step = max(1, HITS_AT_ONCE // width)
    for first in range(0, len(rows), step):
        some = rows[first : first + step]
        flat = ordinals[some].ravel()
        order = np.argsort(flat, kind="stable")
        order = order[np.searchsorted(flat, 0, sorter=order) :]  # the padding sorts first
        distinct, starts = np.unique(flat[order], return_index=True)
        bounds, low = np.append(starts, len(order)), 0
        while low < len(distinct):
            within_limit = int(np.searchsorted(bounds, bounds[low] + HITS_PER_BLOCK, side="right")) - 1
            high = min(low + BLOCK, max(within_limit, low + 1), len(distinct))
            hits = order[bounds[low] : bounds[high]]
            row, rank = np.divmod(hits, width)
            parts = (distinct[low:high], bounds[low + 1 : high + 1] - bounds[low], first + row)
            yield some[row] * width + rank, Block(*(part.astype(np.int32) for part in parts))
            low = high


@contextmanager
def _matching(corpus, asked: Asked, hits: int, processes: int | None) -> Iterator[Callable[[Iterator], Iterator]]:
    """What turns (positions, block) into (positions, which of them hold an answer), in any order."""
    if processes is None:
        processes = min(processors(), hits // HITS_PER_PROCESS)
    if processes < 2 or not isinstance(corpus, Corpus) or isinstance(RULES[asked.rule], PatternRule):
        matcher = Matcher(corpus, asked)
        yield lambda blocks: ((positions, matcher.match(block)) for positions, block in blocks)
        return
    from backend.text.answers.processes import Processes

    with Processes(corpus.path, asked, processes) as started:
        yield started.match


def processors() -> int:
    """Of this machine, those this process may use, shared with the processes that torchrun started beside it."""
    mine = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, mine // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
