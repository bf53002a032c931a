"""Read files with one question on each line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from blindspot.backend.data.formats.base import ImportedQuestion, question_fault
from blindspot.backend.data.formats.fields import FieldError
from blindspot.db.errors import BadInput
from blindspot.db.records import Question


def read_question_lines(
    path: Path,
    lines: Iterable[tuple[int, str]],
    question_of: Callable[[int, str], Question | ImportedQuestion],
    without_lines: str = "the file is empty",
) -> Iterator[ImportedQuestion | BadInput]:
    """Yield the question of each line, or BadInput for an invalid line.

    Args:
        lines: (line number, text), as `numbered_lines` yields them.
        question_of: returns the question of a line, given its number and text; raises FieldError for a wrong line.
        without_lines: the message if there is no line.

    Raises BadInput if there is no line.
    """
    empty = True
    for line, text in lines:
        empty = False
        try:
            made = question_of(line, text)
            item = made if isinstance(made, ImportedQuestion) else ImportedQuestion(made, str(path), line)
            if message := question_fault(item.question):
                raise FieldError(message)
        except FieldError as error:
            yield BadInput(str(error), path, line)
        else:
            yield item
    if empty:
        raise BadInput(without_lines, path)
