"""Character spans in a text whose normalised form was searched: the way back to the original's offsets."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Span = tuple[int, int]

SPACES = dict.fromkeys(map(ord, " \t\n\r"))  # for str.translate, which then deletes them


@dataclass(frozen=True, slots=True)
class Normalised:
    """A changed text that knows where each of its characters came from.

    text: the changed text.
    source: for each of its characters the index in the original; None where nothing moved.
    """

    text: str
    source: Sequence[int] | None = None

    @classmethod
    def as_is(cls, text: str) -> Normalised:
        return cls(text)

    @classmethod
    def nfd(cls, text: str) -> Normalised:
        """Canonical decomposition, character by character, then the marks put in canonical order (UAX #15)."""
        if unicodedata.is_normalized("NFD", text):
            return cls(text)
        parts = [(part, i) for i, char in enumerate(text) for part in unicodedata.normalize("NFD", char)]
        ordered, run = [], []
        for part, i in parts:
            if unicodedata.combining(part):
                run.append((part, i))
                continue
            ordered += sorted(run, key=_combining_class)
            run = []
            ordered.append((part, i))
        ordered += sorted(run, key=_combining_class)
        return cls("".join(part for part, _ in ordered), [i for _, i in ordered])

    @classmethod
    def spaceless(cls, text: str) -> Normalised:
        """The text in lower case and without SPACES."""
        lower = text.lower()
        # The small form of one letter may be two characters (U+0130).
        source = [i for i, char in enumerate(text) for _ in char.lower()]
        kept = [i for i, char in enumerate(lower) if ord(char) not in SPACES]
        return cls("".join(lower[i] for i in kept), [source[i] for i in kept])

    def original(self, start: int, end: int) -> Span:
        """The smallest span of the original that holds characters start .. end of `text`; start < end."""
        if self.source is None:
            return start, end
        came_from = self.source[start:end]
        return min(came_from), max(came_from) + 1


def _combining_class(part: tuple[str, int]) -> int:
    return unicodedata.combining(part[0])


def token_spans(words: Sequence[tuple[str, int, int]], wanted: Sequence[str]) -> list[Span]:
    """Spans of every run of (token, start, end) in `words` whose tokens are `wanted`, overlapping ones too."""
    if not wanted:
        return []
    width = len(wanted)
    return [
        (words[i][1], words[i + width - 1][2])
        for i in range(len(words) - width + 1)
        if words[i][0] == wanted[0] and all(words[i + j][0] == wanted[j] for j in range(1, width))
    ]


def merged(spans: Iterable[Span]) -> list[Span]:
    """Sorted, overlapping ones made one."""
    result: list[Span] = []
    for start, end in sorted(set(spans)):
        if result and start < result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((start, end))
    return result


def start_near(text: str, at: int, before: int) -> int:
    """Where to begin so that `at` is soon reached: the start of its sentence, or of a word, at most `before` characters earlier."""
    earliest = max(at - before, 0)
    sentence = max(text.rfind(stop, earliest, at) for stop in (". ", "? ", "! "))
    if sentence >= 0:
        return sentence + 2
    space = text.find(" ", earliest, at)
    return space + 1 if space >= 0 else earliest


def pieces(text: str, low: int, high: int, answers: Sequence[Span], words: Sequence[Span]) -> list[tuple[str, str]]:
    """The text from low to high as (piece, kind): "answer", "word" or "". Where the two overlap it is an answer."""
    kinds = [""] * (high - low)
    for kind, spans in (("word", words), ("answer", answers)):
        for start, end in spans:
            first, last = max(start - low, 0), min(end - low, high - low)
            if first < last:
                kinds[first:last] = [kind] * (last - first)
    made, start = [], 0
    for end in range(1, high - low + 1):
        if end == high - low or kinds[end] != kinds[start]:
            made.append((text[low + start : low + end], kinds[start]))
            start = end
    return made
