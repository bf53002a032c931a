"""Four named rules that determine whether a passage contains an answer, and the character spans of the answers.

- `dpr` (default): the passage's text and the answer are NFD-normalised, tokenised and lower-cased. The answer's tokens
  must occur consecutively in the text. Titles are not searched.
- `entityquestions`: as `dpr`, but only the answer is normalised, as in EntityQuestions' own script.
- `rocketqa_mining`: full stops at both ends of the answer are dropped. Then both sides are lower-cased, spaces are
  removed, and the answer must be a substring of the title or the text. RocketQA's `data_process` selects passages in
  this way.
- `regex`: the answers are patterns (CuratedTREC) that are searched in the NFD-normalised text. A broken pattern matches
  nothing.

Questions whose `answer_rule` is "regex" always use the `regex` rule. An answer without tokens (only spaces and control
characters) matches no passage here; in the original scripts it matches every passage.
"""

from __future__ import annotations

import logging
import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import regex

from blindspot.backend.text.default_rule import DEFAULT_RULE
from blindspot.backend.text.spans import SPACES, Normalised, merge_spans, token_spans
from blindspot.db.errors import Missing
from blindspot.db.records import Passage, Question

Span = tuple[int, int]

MANY_ANSWERS = 24  # with at least this many answers to look for in one passage, a set of its tokens is faster
PATTERN_SECONDS = 1.0  # time limit; an ordinary pattern takes about a millisecond on a passage
PATTERN_LENGTH = 20_000  # characters
PATTERN_ERRORS = (regex.error, RecursionError, OverflowError, ValueError, MemoryError)
PATTERN_REPEATS = 1_000_000  # counted repeats are unrolled: (a{999}){9999} takes 8 s and 2.8 GB to compile

TOKEN = regex.compile(r"[\p{L}\p{N}\p{M}]+|[^\p{Z}\p{C}]")
ASCII_TOKEN = re.compile(r"[A-Za-z0-9]+|[!-/:-@\[-`{-~]")  # equals TOKEN on ASCII text, at twice the speed

COUNTED_REPEAT = re.compile(r"\{\s*(\d*)\s*,?\s*(\d*)\s*\}")
RECURSION = re.compile(
    r"\(\?(R|[+-]?\d|&|P>)"
)  # no answer pattern needs recursion, and it can fill memory within the time limit

TEXTS_KEPT = 256
"""Number of texts whose tokens are cached: those of about a dozen pages, or 4 MB for passages of 100 words."""

_STOP_WORDS = """
    a an the and or but of in on at by for from to with without as is are was were be been being am do does did done
    has have had having it its this that these those there here he she they them his her their him i me my we our you
    your who whom whose what which when where why how not no nor so than then too very can could will would shall should
    may might must about into over under between after before during through s t
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())
"""English function words and question words, which are not highlighted."""

log = logging.getLogger(__name__)


def nfd(text: str) -> str:
    """Return the canonical decomposition (NFD) of a text. ASCII text is returned unchanged."""
    return text if text.isascii() else unicodedata.normalize("NFD", text)


def tokens(text: str) -> list[str]:
    """Split a text as DPR does: runs of letters, numbers and marks; any other character except separators and
    controls.
    """
    return (ASCII_TOKEN if text.isascii() else TOKEN).findall(text)


def _words_of(text: str, normalise: bool) -> tuple[Normalised, tuple[tuple[str, int, int], ...]]:
    """Return the normalised text and its lower-cased tokens with their spans (start, end) in the normalised text.

    Results for the latest texts are cached, because a page searches each passage for both the answers and the
    question's words.

    Args:
        normalise: decompose the text (NFD) first.
    """
    return _cached_words(text, normalise and not unicodedata.is_normalized("NFD", text))


@lru_cache(maxsize=TEXTS_KEPT)
def _cached_words(text: str, normalise: bool) -> tuple[Normalised, tuple[tuple[str, int, int], ...]]:
    normalised = Normalised.nfd(text) if normalise else Normalised(text)
    pattern = ASCII_TOKEN if normalised.text.isascii() else TOKEN
    return normalised, tuple((m.group().lower(), m.start(), m.end()) for m in pattern.finditer(normalised.text))


def has_tokens(answer: str) -> bool:
    """Return whether the answer has a token. An answer without tokens matches nothing, so importers report it."""
    return TOKEN.search(nfd(answer)) is not None


def spaced_tokens(text: str) -> str:
    """Return the lower-cased tokens with a space around each, so consecutive tokens can be found by substring search.

    The two searches are equivalent because no token contains a space. Lower-casing the joined text equals lower-casing
    each token: sigma is the only letter whose lower case depends on its neighbours, and its context ends at a space.
    """
    return f" {' '.join(tokens(text))} ".lower()


class Rule(ABC):
    """An answer-matching rule. Each rule has its own prepared forms of passages and of answers ("needles")."""

    @abstractmethod
    def passage(self, text: str, title: str = "") -> Any:
        """Prepare a passage for searching."""

    @abstractmethod
    def needle(self, answer: str) -> Any | None:
        """Prepare an answer for searching. None if it cannot match any passage."""

    @abstractmethod
    def matching_positions(self, passage: Any, positions: Sequence[int], needles: Sequence[Any]) -> list[int]:
        """Return the positions in `needles` of the answers that the passage contains."""

    @abstractmethod
    def spans(self, text: str, answers: Iterable[str]) -> list[Span]:
        """Return the occurrences of the answers as sorted, disjoint (start, end) in characters of `text`."""

    def needles(self, answers: Iterable[str]) -> tuple[Any, ...]:
        """Prepare the answers, without those that cannot match any passage."""
        return tuple(needle for needle in map(self.needle, answers) if needle is not None)

    def contains_answer(self, passage: Any, needles: Sequence[Any]) -> bool:
        """Return whether the passage contains at least one of the answers."""
        return bool(self.matching_positions(passage, range(len(needles)), needles))


class Needle(NamedTuple):
    """An answer, prepared for a token rule.

    Attributes:
        folded: Its longest token, case-folded.
        token: Its longest token, lower-cased.
        padded: The result of `spaced_tokens`.
    """

    folded: str
    token: str
    padded: str


class TokenRule(Rule):
    """Match if the answer's tokens occur consecutively in the passage's text.

    Args:
        normalise_text: NFD-normalise the passage's text too (DPR does, EntityQuestions does not).
    """

    def __init__(self, normalise_text: bool):
        self.normalise_text = normalise_text

    def passage(self, text: str, title: str = "") -> str:
        return nfd(text) if self.normalise_text else text

    def needle(self, answer: str) -> Needle | None:
        padded = spaced_tokens(nfd(answer))
        if padded.isspace():
            return None
        token = max(padded.split(" "), key=len)
        return Needle(token.casefold(), token, padded)

    def matching_positions(self, passage: str, positions: Sequence[int], needles: Sequence[Needle]) -> list[int]:
        """Return the positions of the answers that the passage contains.

        Tokenising is the slowest step. With few answers, a passage is tokenised only if a substring search in the
        case-folded text finds an answer's longest token. This search misses nothing, because folding works character by
        character, and tokens that are equal in lower case are equal when folded.
        """
        if len(positions) < MANY_ANSWERS:
            folded = passage.casefold()
            positions = [i for i in positions if needles[i].folded in folded]
            if not positions:
                return []
            padded = spaced_tokens(passage)
        else:
            padded = spaced_tokens(passage)
            words = set(padded.split(" "))
            positions = [i for i in positions if needles[i].token in words]
        return [i for i in positions if needles[i].padded in padded]

    def spans(self, text: str, answers: Iterable[str]) -> list[Span]:
        normalised, words = _words_of(text, self.normalise_text)
        spans: list[Span] = []
        for answer in answers:
            spans += token_spans(words, [token.lower() for token in tokens(nfd(answer))])
        return merge_spans(normalised.original(start, end) for start, end in spans)


class SpacelessRule(Rule):
    """RocketQA's `load_answers` and `has_answer`: a substring of the title or the text, in lower case and without
    spaces.

    Only the white space characters U+0020, tab, LF and CR are removed; RocketQA's tab-separated files cannot contain
    the last three. Texts are not normalised, so accents matter.
    """

    def passage(self, text: str, title: str = "") -> tuple[str, str]:
        return _without_spaces(text), _without_spaces(title)

    def needle(self, answer: str) -> str | None:
        # An answer of full stops and spaces becomes empty. RocketQA finds it in every passage; here it matches none.
        return _without_spaces(answer.strip(".").strip()) or None if has_tokens(answer) else None

    def matching_positions(
        self, passage: tuple[str, str], positions: Sequence[int], needles: Sequence[str]
    ) -> list[int]:
        text, title = passage
        return [i for i in positions if needles[i] in text or needles[i] in title]

    def spans(self, text: str, answers: Iterable[str]) -> list[Span]:
        normalised = Normalised.spaceless(text)
        spans = [
            match.span()
            for needle in self.needles(answers)
            for match in re.finditer(re.escape(needle), normalised.text)
        ]
        return merge_spans(normalised.original(start, end) for start, end in spans)


def _without_spaces(text: str) -> str:
    return text.lower().translate(SPACES)


class Pattern:
    """An answer that is a regular expression. Patterns are user input, so a pattern that exceeds the time limit is
    disabled, and this is logged.
    """

    def __init__(self, source: str):
        self.source = source
        self.compiled = compile_pattern(source)

    def is_found(self, text: str) -> bool:
        return next(self.matches(text), None) is not None

    def matches(self, text: str) -> Iterator[Span]:
        if self.compiled is None:
            return
        try:
            for match in self.compiled.finditer(text, timeout=PATTERN_SECONDS):
                yield match.span()
        except (TimeoutError, MemoryError, RecursionError):
            log.warning("Answer pattern %.80r takes too long to search; it is ignored from now on.", self.source)
            self.compiled = None


def compile_pattern(source: str) -> regex.Pattern | None:
    """Compile a pattern. Returns None if it is empty, invalid or too expensive to search."""
    if _cost_fault(source) or not source.strip():
        return None
    try:
        return regex.compile(nfd(source), regex.IGNORECASE | regex.UNICODE | regex.MULTILINE)
    except PATTERN_ERRORS:
        return None


def pattern_fault(source: str) -> str | None:
    """Return the reason why a pattern cannot be searched, or None if it can. Takes only milliseconds for
    any pattern.
    """
    if reason := _cost_fault(source):
        return reason
    try:
        regex.compile(source)
    except PATTERN_ERRORS as error:
        return str(error) or type(error).__name__
    return None


def _cost_fault(source: str) -> str | None:
    """Return the reason why compiling or searching a pattern would need too much time or memory, or None."""
    if len(source) > PATTERN_LENGTH:
        return f"it has more than {PATTERN_LENGTH:,} characters"
    if RECURSION.search(source):
        return "it is recursive"
    repeats = 1
    for bounds in COUNTED_REPEAT.findall(source):
        repeats *= max([1, *(int(count[:9]) for count in bounds if count)])
        if repeats > PATTERN_REPEATS:
            return f"its counted repeats multiply to more than {PATTERN_REPEATS:,}"
    return None


class PatternRule(Rule):
    """Match if a pattern is found in the NFD-normalised text, ignoring case. An empty pattern matches nothing."""

    def passage(self, text: str, title: str = "") -> str:
        return nfd(text)

    def needle(self, answer: str) -> Pattern | None:
        pattern = Pattern(answer)
        return pattern if pattern.compiled is not None else None

    def matching_positions(self, passage: str, positions: Sequence[int], needles: Sequence[Pattern]) -> list[int]:
        return [i for i in positions if needles[i].is_found(passage)]

    def contains_answer(self, passage: str, needles: Sequence[Pattern]) -> bool:
        return any(pattern.is_found(passage) for pattern in needles)

    def spans(self, text: str, answers: Iterable[str]) -> list[Span]:
        normalised = Normalised.nfd(text)
        spans = [span for pattern in self.needles(answers) for span in pattern.matches(normalised.text)]
        return merge_spans(normalised.original(start, end) for start, end in spans if end > start)


RULES: dict[str, Rule] = {
    "dpr": TokenRule(normalise_text=True),
    "regex": PatternRule(),
    "entityquestions": TokenRule(normalise_text=False),
    "rocketqa_mining": SpacelessRule(),
}
SEARCHES_TITLE = frozenset({"rocketqa_mining"})
REVISIONS = {"rocketqa_mining": 2}
"""Rules whose behaviour has changed. The revision is part of a matrix's file name, so a run's older matrix is not
read.
"""


def matrix_file(rule: str) -> str:
    """Return the file name of a run's answer matrix for this rule."""
    return f"answers.{rule}@{REVISIONS[rule]}.npy" if rule in REVISIONS else f"answers.{rule}.npy"


def rule_named(name: str) -> Rule:
    """Return the rule of this name. Raises Missing for an unknown name."""
    if name not in RULES:
        raise Missing(f"there is no matching rule {name!r}; the rules are {', '.join(RULES)}")
    return RULES[name]


def rule_for(question: Question, rule: str = DEFAULT_RULE) -> str:
    """Return the name of the rule for this question: "regex" for a question with patterns, else `rule`."""
    return "regex" if question.answer_rule == "regex" else rule


def has_answer(text: str, answers: Iterable[str], rule: str = DEFAULT_RULE, title: str = "") -> bool:
    """Return whether a passage contains at least one of the answers. For a whole run, `match_run` is faster."""
    matcher = rule_named(rule)
    return matcher.contains_answer(matcher.passage(text, title), matcher.needles(answers))


def answer_spans(text: str, answers: Iterable[str], rule: str = DEFAULT_RULE) -> list[Span]:
    """Return the occurrences of the answers as sorted, disjoint (start, end) in characters of the original `text`."""
    return rule_named(rule).spans(text, answers)


def mentions_subject(passage: Passage, question: Question) -> bool:
    """Return whether the passage's title or text mentions the question's subject; True if the question has none."""
    return not question.subject or has_answer(f"{passage.title}\n{passage.text}", [question.subject])


def query_spans(text: str, question: str) -> list[Span]:
    """Return the occurrences of the question's words, as `answer_spans` does. Stop words and punctuation are
    skipped.
    """
    words = {token for token in spaced_tokens(nfd(question)).split() if token not in STOP_WORDS and token[0].isalnum()}
    normalised, found = _words_of(text, normalise=True)
    spans = [(start, end) for word, start, end in found if word in words]
    return merge_spans(normalised.original(start, end) for start, end in spans)
