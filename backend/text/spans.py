"""Search a normalised text and map the matches back to character spans of the original text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Span = tuple[int, int]

EXCERPT = 250  # characters of an excerpt: about three lines
SUBJECT_WITHIN = 400  # characters of an answer and the subject's name that one excerpt shows
BEFORE = 110  # maximum characters of the excerpt before the first answer

_PIECES = re.compile(r"[\x00-\x7f]+|[^\x00-\x7f]")  # a run of ASCII characters, or one other character
SPACES = dict.fromkeys(map(ord, " \t\n\r"))  # a table for str.translate that deletes these characters


@dataclass(frozen=True, slots=True)
class Normalised:
    """A normalised text, with the position in the original text of each of its characters.

    Attributes:
        text: The normalised text.
        source: For each of its characters, the index in the original. None if the text is unchanged.
    """

    text: str
    source: Sequence[int] | None = None

    @classmethod
    def nfd(cls, text: str) -> Normalised:
        """Decompose character by character (NFD), then put the combining marks in canonical order (UAX #15)."""
        if unicodedata.is_normalized("NFD", text):
            return cls(text)
        parts: list[str] = []
        source: list[int] = []
        marks: list[tuple[str, int]] = []

        def put_marks() -> None:
            for mark, origin in sorted(marks, key=lambda part: unicodedata.combining(part[0])):
                parts.append(mark)
                source.append(origin)
            marks.clear()

        for piece in _PIECES.finditer(text):
            characters, start = piece.group(), piece.start()
            if characters.isascii():  # decomposes to itself and contains no marks
                put_marks()
                parts.append(characters)
                source.extend(range(start, piece.end()))
                continue
            for part in unicodedata.normalize("NFD", characters):
                if unicodedata.combining(part):
                    marks.append((part, start))
                    continue
                put_marks()
                parts.append(part)
                source.append(start)
        put_marks()
        return cls("".join(parts), source)

    @classmethod
    def spaceless(cls, text: str) -> Normalised:
        """Lower-case the text and remove SPACES."""
        lower = text.lower()
        # The lower case of one letter may be two characters (U+0130).
        source = [i for i, char in enumerate(text) for _ in char.lower()]
        positions = [i for i, char in enumerate(lower) if ord(char) not in SPACES]
        return cls("".join(lower[i] for i in positions), [source[i] for i in positions])

    def original(self, start: int, end: int) -> Span:
        """Return the smallest span of the original that covers characters start .. end of `text`; start < end."""
        if self.source is None:
            return start, end
        origins = self.source[start:end]
        return min(origins), max(origins) + 1


def token_spans(word_spans: Sequence[tuple[str, int, int]], phrase: Sequence[str]) -> list[Span]:
    """Return the span of every occurrence of the tokens `phrase` in `word_spans` (token, start, end); spans may overlap."""
    if not phrase:
        return []
    width = len(phrase)
    return [
        (word_spans[i][1], word_spans[i + width - 1][2])
        for i in range(len(word_spans) - width + 1)
        if word_spans[i][0] == phrase[0] and all(word_spans[i + j][0] == phrase[j] for j in range(1, width))
    ]


def merge_spans(spans: Iterable[Span]) -> list[Span]:
    """Sort the spans and join those that overlap."""
    result: list[Span] = []
    for start, end in sorted(set(spans)):
        if result and start < result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((start, end))
    return result


def excerpt_start(text: str, position: int, context_length: int) -> int:
    """Return where an excerpt that leads up to `position` should start.

    It starts at the beginning of the sentence if that is at most `context_length` characters before `position`, and
    otherwise at the beginning of a word.
    """
    earliest = max(position - context_length, 0)
    sentence = max(text.rfind(stop, earliest, position) for stop in (". ", "? ", "! "))
    if sentence >= 0:
        return sentence + 2
    space = text.find(" ", earliest, position)
    return space + 1 if space >= 0 else earliest


def split_at_spans(
    text: str, low: int, high: int, answers: Sequence[Span], word_spans: Sequence[Span], near: Sequence[Span] = ()
) -> list[tuple[str, str]]:
    """Split the text from low to high into (piece, kind), where the kind is "answer", "word", "near" or "". Of spans that
    overlap, the piece is of the first of these kinds.
    """
    kinds = [""] * (high - low)
    for kind, spans in (("near", near), ("word", word_spans), ("answer", answers)):
        for start, end in spans:
            first, last = max(start - low, 0), min(end - low, high - low)
            if first < last:
                kinds[first:last] = [kind] * (last - first)
    cut, start = [], 0
    for end in range(1, high - low + 1):
        if end == high - low or kinds[end] != kinds[start]:
            cut.append((text[low + start : low + end], kinds[start]))
            start = end
    return cut


def excerpt(
    full_text: str, answers: Sequence[Span], word_spans: Sequence[Span] = (), names: Sequence[Span] = ()
) -> Span:
    """Return the span of the excerpt: about EXCERPT characters that begin at or near a sentence start.

    The excerpt contains an answer, with a name of the question's subject (`names`) if one is at most SUBJECT_WITHIN
    characters away; without an answer, it contains as many question words as possible.
    """
    if len(full_text) <= EXCERPT + 60:
        return 0, len(full_text)
    focus = _answer_with_name(answers, names) if answers else _densest_word(word_spans)
    start = excerpt_start(full_text, focus[0], BEFORE) if focus[1] > EXCERPT else 0
    if start > len(full_text) - EXCERPT:
        return min(start, excerpt_start(full_text, len(full_text) - EXCERPT, BEFORE)), len(full_text)
    end = max(start + EXCERPT, focus[1])
    while end < len(full_text) and not full_text[end].isspace():
        end += 1
    return start, len(full_text) if len(full_text) - end < 40 else end


def _answer_with_name(answers: Sequence[Span], names: Sequence[Span]) -> Span:
    """Return the span from an answer to the nearest name, for the pair that is closest; the first answer if none is
    near.
    """
    pairs = [(min(answer[0], name[0]), max(answer[1], name[1])) for answer in answers for name in names]
    closest = min(pairs, key=lambda pair: pair[1] - pair[0], default=answers[0])
    return closest if closest[1] - closest[0] <= SUBJECT_WITHIN else answers[0]


def _densest_word(word_spans: Sequence[Span]) -> Span:
    """Return the first word of the part of the text with the most question words, or (0, 0) if the beginning of the
    text has as many.
    """

    def words_within(start: int, length: int) -> int:
        return sum(start <= low and high <= start + length for low, high in word_spans)

    best = max(word_spans, key=lambda word: words_within(word[0], EXCERPT - BEFORE), default=(0, 0))
    return best if words_within(best[0], EXCERPT - BEFORE) > words_within(0, EXCERPT) else (0, 0)
