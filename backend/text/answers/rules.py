"""Does this passage hold an answer? Four named rules, and spans to highlight.

- `dpr` (default): passage body and answer are NFD-normalised, cut into tokens, lower-cased; the answer's tokens must
  stand consecutively in the body. The title is not searched.
- `entityquestions`: the same, except that only the answer is normalised, as EntityQuestions' own script does.
- `rocketqa_mining`: full stops at the ends of the answer are dropped; then both are lower-cased, spaces are taken out, and
  the answer is a plain substring of the title or of the body. So RocketQA's `data_process` chooses passages.
- `regex`: the answers are patterns (CuratedTREC), searched in the NFD body; a broken pattern holds nowhere.

Questions whose `answer_rule` is "regex" use the `regex` rule whichever rule is asked for. An answer without tokens
(only spaces and control characters) holds nowhere; upstream it holds everywhere.
"""

from __future__ import annotations

import logging
import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import regex

from backend.text.spans import SPACES, Normalised, merged, token_spans
from db.errors import Missing
from db.records import Question

Span = tuple[int, int]

DEFAULT_RULE = "dpr"
MANY = 24  # answers looked for in one passage from which it pays to have its tokens as a set
PATTERN_SECONDS = 1.0  # a sound pattern needs about a millisecond on a passage
PATTERN_LENGTH = 20_000  # characters
PATTERN_ERRORS = (regex.error, RecursionError, OverflowError, ValueError, MemoryError)
PATTERN_REPEATS = 1_000_000  # counted repeats are unrolled: (a{999}){9999} takes 8 s and 2.8 GB to compile

TOKEN = regex.compile(r"[\p{L}\p{N}\p{M}]+|[^\p{Z}\p{C}]")
ASCII_TOKEN = re.compile(r"[A-Za-z0-9]+|[!-/:-@\[-`{-~]")  # what TOKEN is on ASCII, at twice the speed

COUNTED_REPEAT = re.compile(r"\{\s*(\d*)\s*,?\s*(\d*)\s*\}")
RECURSION = re.compile(r"\(\?(R|[+-]?\d|&|P>)")  # no answer pattern needs it; it fills memory within the time limit

_STOP_WORDS = """
    a an the and or but of in on at by for from to with without as is are was were be been being am do does did done
    has have had having it its this that these those there here he she they them his her their him i me my we our you
    your who whom whose what which when where why how not no nor so than then too very can could will would shall should
    may might must about into over under between after before during through s t
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())
"""English words that are not highlighted: what carries no content of a question, question words among them."""

log = logging.getLogger(__name__)


def nfd(text: str) -> str:
    """Canonical decomposition; ASCII is its own."""
    return text if text.isascii() else unicodedata.normalize("NFD", text)


def tokens(text: str) -> list[str]:
    """Runs of letters, numbers and marks, and every other character that is neither a separator nor a control."""
    return (ASCII_TOKEN if text.isascii() else TOKEN).findall(text)


def has_tokens(answer: str) -> bool:
    """False for an answer that can match nothing: importers report it."""
    return TOKEN.search(nfd(answer)) is not None


def joined(text: str) -> str:
    """Lower-cased tokens, a space around each, so that consecutive tokens are a substring.

    No token holds a space, so the two are the same. Lower-casing the joined text is lower-casing each token: the one
    letter whose small form depends on its neighbours (sigma) never looks past a space.
    """
    return f" {' '.join(tokens(text))} ".lower()


class Rule(ABC):
    """How a passage and an answer are made ready, and when the one holds the other."""

    @abstractmethod
    def passage(self, text: str, title: str) -> Any:
        """A passage, ready to be searched."""

    @abstractmethod
    def needle(self, answer: str) -> Any | None:
        """An answer, ready to be looked for; None if it can hold nowhere."""

    @abstractmethod
    def held(self, passage: Any, wanted: Sequence[int], needles: Sequence[Any]) -> list[int]:
        """Those of the positions `wanted` in `needles` whose answer the passage holds."""

    @abstractmethod
    def spans(self, text: str, answers: Iterable[str]) -> list[Span]:
        """Where the answers stand: sorted, disjoint (start, end) in characters of `text`."""

    def needles(self, answers: Iterable[str]) -> tuple:
        """Those of the answers that can hold somewhere, ready."""
        return tuple(needle for needle in map(self.needle, answers) if needle is not None)

    def holds(self, passage: Any, needles: Sequence[Any]) -> bool:
        """Does the passage hold one of the answers?"""
        return bool(self.held(passage, range(len(needles)), needles))


class Needle(NamedTuple):
    """An answer as a token rule looks for it.

    folded: its longest token, case-folded.
    token: its longest token, lower-cased.
    padded: `joined` of it.
    """

    folded: str
    token: str
    padded: str


class TokenRule(Rule):
    """The answer's tokens stand consecutively in the body.

    Args:
        normalise_body: NFD-normalise the body too (DPR does, EntityQuestions does not).
    """

    def __init__(self, normalise_body: bool):
        self.normalise_body = normalise_body

    def passage(self, text: str, title: str = "") -> str:
        return nfd(text) if self.normalise_body else text

    def needle(self, answer: str) -> Needle | None:
        padded = joined(nfd(answer))
        if padded.isspace():
            return None
        token = max(padded.split(" "), key=len)
        return Needle(token.casefold(), token, padded)

    def held(self, passage: str, wanted: Sequence[int], needles: Sequence[Needle]) -> list[int]:
        """Cutting the body into tokens takes longest, so it waits until some answer's longest token stands in it at all.

        The case-folded token must stand in the case-folded body if the answer does: folding is character by character,
        and two tokens equal in lower case are equal folded.
        """
        if len(wanted) < MANY:
            folded = passage.casefold()
            wanted = [i for i in wanted if needles[i].folded in folded]
            if not wanted:
                return []
            padded = joined(passage)
        else:
            padded = joined(passage)
            words = set(padded.split(" "))
            wanted = [i for i in wanted if needles[i].token in words]
        return [i for i in wanted if needles[i].padded in padded]

    def spans(self, text: str, answers: Iterable[str]) -> list[Span]:
        normalised = Normalised.nfd(text) if self.normalise_body else Normalised.as_is(text)
        words = [(m.group().lower(), m.start(), m.end()) for m in TOKEN.finditer(normalised.text)]
        found = []
        for answer in answers:
            found += token_spans(words, [token.lower() for token in tokens(nfd(answer))])
        return merged(normalised.original(start, end) for start, end in found)


class SpacelessRule(Rule):
    """RocketQA's `load_answers` and `has_answer`: a substring of the title or of the body, in lower case and without spaces.

    Only U+0020 goes, and with it tab, LF and CR, which RocketQA's tab-separated files cannot hold. Other white space inside a
    text counts as a character. Accents count too: nothing is normalised.
    """

    def passage(self, text: str, title: str = "") -> tuple[str, str]:
        return _spaceless(text), _spaceless(title)

    def needle(self, answer: str) -> str | None:
        # An answer of full stops and spaces is empty here; RocketQA finds it in every passage, we find it in none.
        return _spaceless(answer.strip(".").strip()) or None if has_tokens(answer) else None

    def held(self, passage: tuple[str, str], wanted: Sequence[int], needles: Sequence[str]) -> list[int]:
        body, title = passage
        return [i for i in wanted if needles[i] in body or needles[i] in title]

    def spans(self, text: str, answers: Iterable[str]) -> list[Span]:
        normalised = Normalised.spaceless(text)
        found = [
            match.span()
            for needle in self.needles(answers)
            for match in re.finditer(re.escape(needle), normalised.text)
        ]
        return merged(normalised.original(start, end) for start, end in found)


def _spaceless(text: str) -> str:
    return text.lower().translate(SPACES)


class Pattern:
    """One answer pattern. A pattern is somebody's input: one that runs away is given up, with a line in the log."""

    def __init__(self, source: str):
        self.source = source
        self.compiled = compiled_pattern(source)

    def finds(self, text: str) -> bool:
        return next(self.matches(text), None) is not None

    def matches(self, text: str) -> Iterable[Span]:
        if self.compiled is None:
            return
        try:
            for match in self.compiled.finditer(text, timeout=PATTERN_SECONDS):
                yield match.span()
        except (TimeoutError, MemoryError, RecursionError):
            log.warning("Answer pattern %.80r takes too long to search and is given up.", self.source)
            self.compiled = None


def compiled_pattern(source: str) -> regex.Pattern | None:
    """Return the pattern, or None for one that is empty, broken, or too costly."""
    if _too_costly(source) or not source.strip():
        return None
    try:
        return regex.compile(nfd(source), regex.IGNORECASE | regex.UNICODE | regex.MULTILINE)
    except PATTERN_ERRORS:
        return None


def wrong_with_pattern(source: str) -> str | None:
    """Return why a pattern cannot be searched, or None. Takes milliseconds for any pattern."""
    if reason := _too_costly(source):
        return reason
    try:
        regex.compile(source)
    except PATTERN_ERRORS as error:
        return str(error) or type(error).__name__
    return None


def _too_costly(source: str) -> str | None:
    """Why a pattern would take too long or too much memory, to compile or to search."""
    if len(source) > PATTERN_LENGTH:
        return f"it has more than {PATTERN_LENGTH:,} characters"
    if RECURSION.search(source):
        return "it calls itself"
    repeats = 1
    for found in COUNTED_REPEAT.findall(source):
        repeats *= max([1, *(int(count[:9]) for count in found if count)])
        if repeats > PATTERN_REPEATS:
            return f"its counted repeats multiply to more than {PATTERN_REPEATS:,}"
    return None


class PatternRule(Rule):
    """Some pattern is found in the NFD body, whatever the case. An empty pattern is found nowhere."""

    def passage(self, text: str, title: str = "") -> str:
        return nfd(text)

    def needle(self, answer: str) -> Pattern | None:
        pattern = Pattern(answer)
        return pattern if pattern.compiled is not None else None

    def held(self, passage: str, wanted: Sequence[int], needles: Sequence[Pattern]) -> list[int]:
        return [i for i in wanted if needles[i].finds(passage)]

    def holds(self, passage: str, needles: Sequence[Pattern]) -> bool:
        return any(pattern.finds(passage) for pattern in needles)

    def spans(self, text: str, answers: Iterable[str]) -> list[Span]:
        normalised = Normalised.nfd(text)
        found = [span for pattern in self.needles(answers) for span in pattern.matches(normalised.text)]
        return merged(normalised.original(start, end) for start, end in found if end > start)


RULES: dict[str, Rule] = {
    "dpr": TokenRule(normalise_body=True),
    "regex": PatternRule(),
    "entityquestions": TokenRule(normalise_body=False),
    "rocketqa_mining": SpacelessRule(),
}
SEARCHES_TITLE = frozenset({"rocketqa_mining"})
REVISIONS = {"rocketqa_mining": 2}
"""Rules that once decided otherwise. A matrix that a run keeps from before has another file name, and is not read."""


def matrix_file(rule: str) -> str:
    """The name of the file in which a run keeps what this rule decided."""
    return f"answers.{rule}@{REVISIONS[rule]}.npy" if rule in REVISIONS else f"answers.{rule}.npy"


def rule_named(name: str) -> Rule:
    """Raises: Missing for a name that is no rule."""
    if name not in RULES:
        raise Missing(f"there is no matching rule {name!r}; the rules are {', '.join(RULES)}")
    return RULES[name]


def rule_for(question: Question, rule: str = DEFAULT_RULE) -> str:
    """The name of the rule that decides this question when `rule` is asked for."""
    return "regex" if question.answer_rule == "regex" else rule


def has_answer(text: str, answers: Iterable[str], rule: str = DEFAULT_RULE, title: str = "") -> bool:
    """Does one passage hold one of the answers? `match_run` gives the same for a whole run, faster."""
    matcher = rule_named(rule)
    return matcher.holds(matcher.passage(text, title), matcher.needles(answers))


def answer_spans(text: str, answers: Iterable[str], rule: str = DEFAULT_RULE) -> list[Span]:
    """Where the answers stand: sorted, disjoint (start, end) in characters of `text` itself. [] if nowhere."""
    return rule_named(rule).spans(text, answers)


def query_spans(text: str, question: str) -> list[Span]:
    """Where words of the question stand in `text`, as `answer_spans`. Stop words and punctuation are left out."""
    wanted = {token for token in joined(nfd(question)).split() if token not in STOP_WORDS and token[0].isalnum()}
    normalised = Normalised.nfd(text)
    found = [m.span() for m in TOKEN.finditer(normalised.text) if m.group().lower() in wanted]
    return merged(normalised.original(start, end) for start, end in found)
