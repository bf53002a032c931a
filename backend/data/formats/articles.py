"""Articles as JSON lines, `{"title", "text"}`, which are split into passages.

`unit=words`: blocks of `length` words (100), as in DPR. `unit=pieces`: blocks of up to `length` word pieces (288), as
in REALM; words are never split. `tokenizer` is a folder or a Hugging Face name (default: the packaged MiniLM's uncased
vocabulary). Blocks do not overlap, and the last block of an article may be shorter. White space within a block becomes
one space. A passage's id is the article's `id` (or its line number) and the number of the block from 0, such as "12-0".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from blindspot.backend.data.formats import fields
from blindspot.backend.data.formats.base import NO_OPTIONS, Format, Head, Options, PassageBatch, Row
from blindspot.backend.data.formats.passage_lines import read_passage_lines
from blindspot.backend.data.formats.streams import has_invalid_utf8
from blindspot.db.errors import Missing, Refused

SETTINGS = {"unit": "words", "length": 0, "tokenizer": "minilm"}
LENGTHS = {"words": 100, "pieces": 288}
Cut = Callable[[str], Iterator[str]]


def recognise(file_head: Head) -> bool:
    record = set(file_head.record)
    if not record:
        named = any(name in file_head.text for name in ('"id"', '"_id"', '"question"'))
        return file_head.is_cut_short and file_head.text.startswith(('{"title"', '{"text"')) and not named
    return {"title", "text"} <= record and not {"id", "_id", "question", "answers", "gold", "split"} & record


def read(path: Path, options: Options = NO_OPTIONS) -> Iterator[PassageBatch]:
    cut = block_splitter({**SETTINGS, **options.settings})

    def blocks(line: int, text: str) -> list[Row]:
        record = fields.parse_object(text)
        id = fields.identifier(record, "id", "_id", required=False) or str(line)
        title, body = fields.text(record, "title", ""), fields.required_text(record, "text")
        if has_invalid_utf8(body) or has_invalid_utf8(title):
            raise fields.FieldError("the title or text contains half a surrogate pair")
        rows = [(f"{id}-{number}", title, block) for number, block in enumerate(cut(body))]
        if not rows:
            raise fields.FieldError("the text is empty")
        return rows

    yield from read_passage_lines(path, blocks)


def block_splitter(settings: dict[str, Any]) -> Cut:
    """Return a function that splits a text into blocks according to the settings. Raises Refused for an unknown unit or
    tokenizer.
    """
    unit = settings["unit"]
    if unit not in LENGTHS:
        raise Refused(f"--set unit={unit}: the unit is one of {', '.join(LENGTHS)}")
    length = settings["length"] or LENGTHS[unit]
    return (
        (lambda text: word_blocks(text, length))
        if unit == "words"
        else word_piece_splitter(settings["tokenizer"], length)
    )


def word_blocks(text: str, length: int) -> Iterator[str]:
    """Split a text into blocks of `length` words."""
    words = text.split()
    for start in range(0, len(words), length):
        yield " ".join(words[start : start + length])


def word_piece_splitter(tokenizer: str, length: int) -> Cut:
    """Return a function that splits a text into blocks of at most `length` word pieces. A word with more pieces is a
    block of its own.
    """
    from transformers import AutoTokenizer

    from blindspot.backend.core.model_files import open_model, readable_model

    try:
        folder = open_model(tokenizer, weights=False)
        with readable_model(folder.path, "the tokenizer"):
            model = AutoTokenizer.from_pretrained(folder.path, trust_remote_code=folder.trusted)
    except Missing as error:
        raise Refused(f"--set tokenizer={tokenizer}: {error}") from error

    def cut_text(text: str) -> Iterator[str]:
        words = text.split()
        counts = [len(ids) for ids in model(words, add_special_tokens=False)["input_ids"]] if words else []
        block: list[str] = []
        have = 0
        for word, count in zip(words, counts, strict=True):
            if block and have + count > length:
                yield " ".join(block)
                block, have = [], 0
            block.append(word)
            have += count
        if block:
            yield " ".join(block)

    return cut_text


FORMATS = [
    Format(
        "articles",
        "passages",
        "JSON lines of articles (title, text), cut into blocks",
        recognise,
        read,
        settings=SETTINGS,
    )
]
