"""Plain questions, one per line, without answers. Their split is always "unlabelled"."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from blindspot.backend.data.formats.base import NO_OPTIONS, Format, Head, ImportedQuestion, Options
from blindspot.backend.data.formats.question_jsonl import file_stem
from blindspot.backend.data.formats.question_lines import read_question_lines
from blindspot.backend.data.formats.streams import ByteSource, numbered_lines
from blindspot.db.errors import BadInput
from blindspot.db.records import Question


def recognise(file_head: Head) -> bool:
    """Recognise any text file. Other formats are tried first, because any text could be a list of questions."""
    start = file_head.text.lstrip()[:1]
    return (
        not file_head.folder
        and not file_head.tar
        and bool(start)
        and start not in "{[<"
        and "\t" not in file_head.first_line
    )


def read(path: Path, options: Options = NO_OPTIONS) -> Iterator[ImportedQuestion | BadInput]:
    """Read the questions. Raises BadInput unless the split in the options is "unlabelled"."""
    if options.split != "unlabelled":
        raise BadInput("plain questions have no answers; use --split unlabelled, or use JSON lines with answers", path)
    dataset = options.dataset or file_stem(path)
    prefix = "-".join(dataset.split())

    def question_of(line: int, text: str) -> Question:
        return Question(f"{prefix}.{line}", text.strip(), dataset=dataset, split="unlabelled")

    yield from read_question_lines(path, numbered_lines(ByteSource(path)), question_of)


FORMATS = [Format("plain", "questions", "plain text, one question a line (with --split unlabelled)", recognise, read)]
