"""Which passage of the collection is a gold paragraph that comes from another cut of the texts (DPR, section 4.2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from backend.progress import Progress
from backend.text.answers import DEFAULT_RULE, RULES, joined, nfd

How = Literal["id", "same text", "overlap", "none"]

SHINGLE = 5  # tokens
EVERY = 4  # every so many shingles of a paragraph are looked for; whatever shares 8 tokens in a row shares one of them
THRESHOLD = 0.3
WITH_ANSWER = 0.15  # enough where the passage must hold the answer besides; how it was chosen stands in docs/formats.md
KEPT = 8  # best passages of a paragraph, among which one with the answer is chosen
NOTHING_LIKE_IT = "no passage is like it"
NO_ANSWER = "the passages like it hold no answer"
TOO_SHORT = "too short to be looked for, and no passage is the same"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A gold paragraph that is to be found: from another dump, or cut at other places than the collection's passages.

    answers: what the passage must hold, by `rule`; none for a question without answers.
    """

    title: str
    text: str
    answers: tuple[str, ...] = ()
    rule: str = DEFAULT_RULE


@dataclass(frozen=True, slots=True)
class Found:
    """The passage that fits. `ordinal` is None and `reason` says why where none does; `score` is then the best one seen.

    score: share of 5-token shingles that are the same, of the shorter of the two texts; 1 for the same text.
    """

    ordinal: int | None
    score: float
    how: How
    reason: str | None = None


def match_gold(
    corpus,
    wanted: Sequence[Wanted],
    threshold: float = THRESHOLD,
    with_answer: float = WITH_ANSWER,
    progress: Progress | None = None,
) -> list[Found]:
    """The passage of the collection that each paragraph is, or that holds its answer in the words they share.

    DPR (Karpukhin et al. 2020, section 4.1) does the like: gold passages from other dumps are replaced by those of the
    collection, and questions where that fails are dropped; here they stay, with the reason. The same text wins; else the
    passage that shares most, among those that hold an answer; of equals the one with the same title, then the first.

    Args:
        corpus: anything with `blocks() -> Iterator[list[(id, title, text)]]` and `len`; read once, whatever is wanted.
        threshold: the least score of a match; `with_answer` that of one for a question with answers.
    """
    if not wanted:
        return []
    paragraphs = _paragraphs(wanted)
    exact = {paragraph.joined: paragraph for paragraph in paragraphs.values() if paragraph.words}
    anchors: dict[tuple[str, ...], list[_Paragraph]] = {}
    for paragraph in paragraphs.values():
        for anchor in dict.fromkeys(list(paragraph.shingles())[::EVERY]):
            anchors.setdefault(anchor, []).append(paragraph)
    ordinal = 0
    for rows in corpus.blocks():
        for _, title, text in rows:
            words = lower_tokens(text)
            same = exact.get(" ".join(words))
            if same is not None:
                same.note(1.0, title, ordinal, text, same_text=True)
            for paragraph in _sharing(words, anchors):
                if paragraph is not same:
                    paragraph.note(containment(words, paragraph.words), title, ordinal, text)
            ordinal += 1
        if progress:
            progress(ordinal, len(corpus), "looking for gold passages")
    return [_chosen(one, paragraphs[one.title, one.text], with_answer if one.answers else threshold) for one in wanted]


def lower_tokens(text: str) -> list[str]:
    """The tokens of DPR's rule, in lower case."""
    return joined(nfd(text)).split()


def containment(a: Sequence[str], b: Sequence[str]) -> float:
    """The share of 5-token shingles that two token lists have in common, of the shorter one's; 0 where one has none."""
    ours, theirs = set(_shingles(a)), set(_shingles(b))
    least = min(len(ours), len(theirs))
    return len(ours & theirs) / least if least else 0.0


def _shingles(words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    return zip(*(words[start:] for start in range(SHINGLE)), strict=False)


class _Near(NamedTuple):
    """A passage that shares something with a paragraph."""

    same_text: bool
    score: float
    title: str
    ordinal: int
    text: str

    def order(self, titles: set[str]) -> tuple:
        """Best first: the same text, the higher score, one of these titles, the lower row."""
        return not self.same_text, -self.score, self.title not in titles, self.ordinal


@dataclass(slots=True, eq=False)
class _Paragraph:
    words: list[str]
    joined: str
    titles: set[str] = field(default_factory=set)  # case-folded
    best: list[_Near] = field(default_factory=list)

    def shingles(self) -> Iterator[tuple[str, ...]]:
        return _shingles(self.words)

    def note(self, score: float, title: str, ordinal: int, text: str, same_text: bool = False) -> None:
        """Keep a passage if it is among the best."""
        self.best.append(_Near(same_text, score, title.casefold(), ordinal, text))
        if len(self.best) > KEPT:
            self.best.sort(key=lambda near: near.order(self.titles))
            del self.best[KEPT:]


def _paragraphs(wanted: Sequence[Wanted]) -> dict[tuple[str, str], _Paragraph]:
    """Each different paragraph once. Those that differ in their title alone share what is found."""
    made: dict[tuple[str, str], _Paragraph] = {}
    by_text: dict[str, _Paragraph] = {}
    for one in wanted:
        if (one.title, one.text) not in made:
            words = lower_tokens(one.text)
            joined = " ".join(words)
            made[one.title, one.text] = by_text.setdefault(joined, _Paragraph(words, joined))
            made[one.title, one.text].titles.add(one.title.casefold())
    return made


def _sharing(words: Sequence[str], anchors: dict[tuple[str, ...], list[_Paragraph]]) -> list[_Paragraph]:
    found = {
        id(paragraph): paragraph
        for anchor in filter(anchors.__contains__, _shingles(words))
        for paragraph in anchors[anchor]
    }
    return list(found.values())


def _chosen(wanted: Wanted, paragraph: _Paragraph, threshold: float) -> Found:
    ranked = sorted(paragraph.best, key=lambda near: near.order({wanted.title.casefold()}))
    top = max((near.score for near in ranked), default=0.0)
    if ranked and ranked[0].same_text:
        return Found(ranked[0].ordinal, 1.0, "same text")
    close = [near for near in ranked if near.score >= threshold]
    if not close:
        short = len(paragraph.words) < SHINGLE
        return Found(None, top, "none", TOO_SHORT if short else NOTHING_LIKE_IT)
    rule = RULES[wanted.rule]
    needles = rule.needles(wanted.answers) if wanted.answers else ()
    for near in close:
        if not wanted.answers or rule.holds(rule.passage(near.text), needles):
            return Found(near.ordinal, near.score, "overlap")
    return Found(None, top, "none", NO_ANSWER)
