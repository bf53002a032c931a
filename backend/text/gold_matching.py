"""Match gold paragraphs from another segmentation of the articles to passages of the collection (DPR, section 4.2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from blindspot.backend.progress import Progress
from blindspot.backend.text.answers import DEFAULT_RULE, RULES, nfd, spaced_tokens
from blindspot.db.corpus import Corpus

MatchKind = Literal["id", "same text", "overlap", "none"]

SHINGLE = 5  # tokens
STRIDE = 4  # search for every fourth shingle of a paragraph; texts that share 8 consecutive tokens share one of these
THRESHOLD = 0.3
WITH_ANSWER = 0.15  # the threshold if the passage must also contain the answer; docs/formats.md says how it was chosen
CANDIDATES = 8  # best passages kept for each paragraph; the match is the first of them that contains an answer
NOTHING_LIKE_IT = "no passage is similar"
NO_ANSWER = "the similar passages contain no answer"
TOO_SHORT = "too short to search for, and no passage is identical"


@dataclass(frozen=True, slots=True)
class GoldParagraph:
    """A gold paragraph to match, from another dump or another segmentation of the articles.

    Attributes:
        answers: The matched passage must contain one of these by `rule`. Empty for a question without answers.
    """

    title: str
    text: str
    answers: tuple[str, ...] = ()
    rule: str = DEFAULT_RULE


@dataclass(frozen=True, slots=True)
class ParagraphMatch:
    """The passage that a paragraph matches, if there is one.

    Attributes:
        ordinal: Row of the passage; None if no passage matches.
        score: Share of the shorter text's 5-token shingles that both texts have; 1 for identical texts. Without a
            match, the best score of any passage.
        reason: Why no passage matches.
    """

    ordinal: int | None
    score: float
    how: MatchKind
    reason: str | None = None


def match_gold(
    corpus: Corpus,
    queries: Sequence[GoldParagraph],
    threshold: float = THRESHOLD,
    threshold_with_answer: float = WITH_ANSWER,
    progress: Progress | None = None,
) -> list[ParagraphMatch]:
    """Find the passage of the collection for each paragraph: an identical text, or the most similar one with an answer.

    DPR (Karpukhin et al. 2020, section 4.1) replaces gold passages from other dumps in a similar way, and drops
    questions for which it finds none; here such questions are kept, with the reason. A passage with identical text is
    preferred. Otherwise the match is the passage with the highest score among those that contain an answer. In a tie, a
    passage with the same title is preferred, and then the one with the lower row.

    Args:
        corpus: The passages; they are read once for any number of paragraphs.
        threshold: Minimum score of a match.
        threshold_with_answer: Minimum score of a match for a question with answers.
    """
    if not queries:
        return []
    paragraphs = _paragraphs(queries)
    exact = {paragraph.spaced_tokens: paragraph for paragraph in paragraphs.values() if paragraph.words}
    paragraphs_by_shingle: dict[tuple[str, ...], list[_Paragraph]] = {}
    for paragraph in paragraphs.values():
        for anchor in dict.fromkeys(list(paragraph.shingles())[::STRIDE]):
            paragraphs_by_shingle.setdefault(anchor, []).append(paragraph)
    ordinal = 0
    for rows in corpus.blocks():
        for _, title, text in rows:
            words = lower_tokens(text)
            same = exact.get(" ".join(words))
            if same is not None:
                same.add_candidate(1.0, title, ordinal, text, same_text=True)
            for paragraph in _paragraphs_sharing(words, paragraphs_by_shingle):
                if paragraph is not same:
                    paragraph.add_candidate(containment(words, paragraph.words), title, ordinal, text)
            ordinal += 1
        if progress:
            progress(ordinal, len(corpus), "searching for gold passages")
    return [
        _best_match(query, paragraphs[query.title, query.text], threshold_with_answer if query.answers else threshold)
        for query in queries
    ]


def lower_tokens(text: str) -> list[str]:
    """Tokenise a text as the `dpr` rule does, in lower case."""
    return spaced_tokens(nfd(text)).split()


def containment(tokens_a: Sequence[str], tokens_b: Sequence[str]) -> float:
    """Return the share of the shorter token list's 5-token shingles that the other list also contains; 0 if one list
    has no shingles.
    """
    ours, theirs = set(shingles(tokens_a)), set(shingles(tokens_b))
    smaller = min(len(ours), len(theirs))
    return len(ours & theirs) / smaller if smaller else 0.0


def shingles(tokens: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Return every sequence of 5 consecutive tokens."""
    return zip(*(tokens[start:] for start in range(SHINGLE)), strict=False)


class _Candidate(NamedTuple):
    """A passage that shares shingles with a paragraph. Its title is case-folded."""

    same_text: bool
    score: float
    title: str
    ordinal: int
    text: str

    def sort_key(self, titles: set[str]) -> tuple[bool, float, bool, int]:
        """Return a sort key, best first: identical text, higher score, one of these titles, lower row."""
        return not self.same_text, -self.score, self.title not in titles, self.ordinal


@dataclass(slots=True, eq=False)
class _Paragraph:
    words: list[str]
    spaced_tokens: str
    titles: set[str] = field(default_factory=set)  # case-folded
    best: list[_Candidate] = field(default_factory=list)

    def shingles(self) -> Iterator[tuple[str, ...]]:
        return shingles(self.words)

    def add_candidate(self, score: float, title: str, ordinal: int, text: str, same_text: bool = False) -> None:
        """Record a candidate passage if it is among the best so far."""
        self.best.append(_Candidate(same_text, score, title.casefold(), ordinal, text))
        if len(self.best) > CANDIDATES:
            self.best.sort(key=lambda candidate: candidate.sort_key(self.titles))
            del self.best[CANDIDATES:]


def _paragraphs(queries: Sequence[GoldParagraph]) -> dict[tuple[str, str], _Paragraph]:
    """Return each distinct paragraph once, by (title, text). Paragraphs that differ only in title share their
    candidates.
    """
    paragraphs: dict[tuple[str, str], _Paragraph] = {}
    by_text: dict[str, _Paragraph] = {}
    for query in queries:
        key = query.title, query.text
        if key not in paragraphs:
            words = lower_tokens(query.text)
            text = " ".join(words)
            paragraphs[key] = by_text.setdefault(text, _Paragraph(words, text))
            paragraphs[key].titles.add(query.title.casefold())
    return paragraphs


def _paragraphs_sharing(tokens: Sequence[str], anchors: dict[tuple[str, ...], list[_Paragraph]]) -> list[_Paragraph]:
    """Return the distinct paragraphs that share an anchor (an indexed shingle) with a passage's tokens."""
    sharing = {
        id(paragraph): paragraph
        for anchor in filter(anchors.__contains__, shingles(tokens))
        for paragraph in anchors[anchor]
    }
    return list(sharing.values())


def _best_match(query: GoldParagraph, paragraph: _Paragraph, threshold: float) -> ParagraphMatch:
    ranked = sorted(paragraph.best, key=lambda candidate: candidate.sort_key({query.title.casefold()}))
    top = max((candidate.score for candidate in ranked), default=0.0)
    if ranked and ranked[0].same_text:
        return ParagraphMatch(ranked[0].ordinal, 1.0, "same text")
    close = [candidate for candidate in ranked if candidate.score >= threshold]
    if not close:
        short = len(paragraph.words) < SHINGLE
        return ParagraphMatch(None, top, "none", TOO_SHORT if short else NOTHING_LIKE_IT)
    rule = RULES[query.rule]
    needles = rule.needles(query.answers) if query.answers else ()
    for candidate in close:
        if not query.answers or rule.contains_answer(rule.passage(candidate.text), needles):
            return ParagraphMatch(candidate.ordinal, candidate.score, "overlap")
    return ParagraphMatch(None, top, "none", NO_ANSWER)
