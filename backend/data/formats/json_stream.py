"""Read JSON of any size, one value at a time: an element of an array or object is decoded only when it is requested.

The package ijson is not used for two reasons. It does not report line numbers, but Blindspot's messages about an
invalid row name the file and the line. And it is not safe for hostile files: it keeps one object for each open bracket,
and three million brackets took more than 20 GB. Speed is similar: for 119 MB of DPR results ijson takes 0.3 s of
processor time, and this module 0.5 s.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from blindspot.backend.data.formats import fields
from blindspot.backend.data.formats.streams import ByteSource, without_byte_order_mark
from blindspot.db.errors import BadInput

MAX_VALUE = 256 << 20  # characters of one value; anything longer is not a list of questions
_SPACE = re.compile(r"[ \t\r\n]*")
_LONGEST_WORD = (
    12  # characters: -Infinity, \uXXXX\uXXXX; an error nearer to the end may only mean that the rest is to come
)


class JsonStream:
    """Reads a JSON text from chunks.

    `array` and `object` iterate over one level. When iterating over an object, read each member (with `value`, `array`
    or `object`) before going on to the next.

    Args:
        chunks: The text, in pieces of any length.
        place: The name of the file in messages.
    """

    def __init__(self, chunks: Iterable[str], location: str | Path):
        self._chunks, self.place = iter(chunks), location
        self._decoder = json.JSONDecoder()
        self._text, self._at = "", 0
        self._line, self._counted = 1, 0
        self._span = (0, 0)

    def peek(self) -> str:
        """Return the next character that is not white space; empty at the end."""
        while True:
            self._at = _end_of_space(self._text, self._at)
            if self._at < len(self._text) or not self._read_more():
                return self._text[self._at : self._at + 1]

    def current_line(self) -> int:
        """Return the number of the current line, counted from 1."""
        self._line += self._text.count("\n", self._counted, self._at)
        self._counted = self._at
        return self._line

    def array(self) -> Iterator[tuple[int, Any]]:
        """Yield the elements of the array that starts here, each with its line."""
        for _ in self._members("[", "]", "a JSON array"):
            line = self.current_line()
            yield line, self.value()

    def object(self) -> Iterator[tuple[int, str]]:
        """Yield the keys of the object that starts here, each with its line."""
        for _ in self._members("{", "}", "a JSON object"):
            line = self.current_line()
            if self.peek() != '"':
                raise self._error_here("a key must be text")
            key = self.value()
            self._expect(":", "a colon is missing; is the file cut short?")
            self.peek()
            yield line, key

    def value(self) -> Any:
        """Decode the complete value that starts here."""
        self.peek()
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except RecursionError:
                raise self._error_here("this is not JSON (nested too deeply)") from None
            except ValueError as error:
                if self._is_incomplete_value(error) and self._read_block():
                    continue
                raise self._broken_json(error) from None
            # A number at the end of the text may continue in the next chunk.
            if end == len(self._text) and self._text[end - 1] not in '"]}' and self._read_block():
                continue
            self.current_line()
            self._span, self._at = (self._at, end), end
            return value

    def raw_text(self) -> str:
        """Return the text of the value that was read last. Call it before anything else is read."""
        return self._text[slice(*self._span)]

    def end(self) -> None:
        """Raise BadInput unless only white space is left."""
        if self.peek():
            raise BadInput("there is more after the end of the JSON", self.place, self.current_line())

    def _members(self, opening: str, closing: str, noun: str) -> Iterator[None]:
        if self.peek() != opening:
            raise self._error_here(f"this is not {noun}")
        self._at += 1
        if self.peek() != closing:
            while True:
                self.peek()
                yield
                if self.peek() != ",":
                    break
                self._at += 1
        self._expect(closing, "a comma or the end is missing; is the file cut short?")

    def _expect(self, character: str, message: str) -> None:
        if self.peek() != character:
            raise self._error_here(message)
        self._at += 1

    def _read_more(self) -> bool:
        piece = next(self._chunks, None)
        if piece is None:
            return False
        self.current_line()
        self._text, self._at, self._counted = self._text[self._at :] + piece, 0, 0
        return True

    def _read_block(self) -> bool:
        """Read until the buffered text is twice as long. Then a long value is not decoded again after every chunk."""
        have = len(self._text) - self._at
        if have > MAX_VALUE:
            raise self._error_here(f"a single value of more than {MAX_VALUE >> 20} MB; is this the right file?")
        grown = False
        while len(self._text) - self._at < 2 * have + 1 and self._read_more():
            grown = True
        return grown

    def _is_incomplete_value(self, error: ValueError) -> bool:
        if not isinstance(error, json.JSONDecodeError):
            return False
        return error.msg.startswith("Unterminated string") or error.pos >= len(self._text) - _LONGEST_WORD

    def _broken_json(self, error: ValueError) -> BadInput:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error).partition(";")[0]
        line = self.current_line() + (
            self._text.count("\n", self._at, error.pos) if isinstance(error, json.JSONDecodeError) else 0
        )
        return BadInput(f"this is not JSON ({reason}); is the file cut short?", self.place, line)

    def _error_here(self, message: str) -> BadInput:
        return BadInput(message, self.place, self.current_line())


def _end_of_space(text: str, start: int) -> int:
    """Return the position of the first character from `start` that is not white space."""
    match = _SPACE.match(text, start)
    return start if match is None else match.end()


def open_json(source: ByteSource) -> JsonStream:
    """Open a file as JSON. Raises BadInput, now or while reading, for bytes that are not UTF-8."""
    return JsonStream(_decoded_chunks(source), source.path)


def array_objects(stream: JsonStream) -> Iterator[tuple[int, dict[str, Any] | BadInput]]:
    """Yield the objects of an array, each with its line; BadInput in place of an element that is not an object."""
    for line, value in stream.array():
        if isinstance(value, dict):
            yield line, value
        else:
            yield line, BadInput(f"this is {fields.type_in_words(value)}, not an object", stream.place, line)
    stream.end()


def _decoded_chunks(source: ByteSource) -> Iterator[str]:
    decoder, line = codecs.getincrementaldecoder("utf-8")(), 1
    for number, block in enumerate(source):
        block = without_byte_order_mark(block, source.path) if number == 0 else block
        try:
            yield decoder.decode(block)
        except UnicodeDecodeError as error:
            line += error.object.count(b"\n", 0, error.start)
            raise BadInput("bytes that are not UTF-8", source.path, line) from None
        line += block.count(b"\n")
    if decoder.getstate()[0]:
        raise BadInput("the file ends within a character; is it cut short?", source.path, line)
