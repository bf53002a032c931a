"""PAQ with its metadata (Lewis et al. 2021), one JSON object a line: `{"question", "answer", "answers": [{"passage_id",
...}]}`.

Only a sample of the 65 million questions is imported, as in appendix B of the EntityQuestions paper: 100,000 random
passages among those with at least 3 questions, and one question for each. 70% are train, 15% dev and 15% test. The
question's gold passage is that passage. The file is read twice. `seed` makes the sample reproducible and is stored with
the import.

PAQ's other file has no passages. It has NQ-open's format and is read with that format.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from blindspot.backend.data.formats import fields
from blindspot.backend.data.formats.base import (
    NO_OPTIONS,
    Format,
    Head,
    ImportedQuestion,
    Options,
    id_fault,
    question_fault,
)
from blindspot.backend.data.formats.streams import ByteSource, numbered_lines
from blindspot.db.errors import BadInput
from blindspot.db.records import Question

SETTINGS = {"sample": 100_000, "least": 3, "seed": 0}
SHARES = (("train", 0.70), ("dev", 0.85), ("test", 1.0))


def recognise(file_head: Head) -> bool:
    record = file_head.record
    answers = record.get("answers")
    return (
        "question" in record
        and isinstance(answers, list)
        and isinstance(next(iter(answers), None), dict)
        and "passage_id" in answers[0]
    )


def read(path: Path, options: Options = NO_OPTIONS) -> Iterator[ImportedQuestion | BadInput]:
    settings = {**SETTINGS, **options.settings}
    questions_per_passage: Counter[str] = Counter()
    empty = True
    for _, record in _records(path):
        empty = False
        if isinstance(record, BadInput):
            yield record
        else:
            questions_per_passage.update(_passage_ids(record))
    if empty:
        raise BadInput("the file is empty", path)
    chosen = sorted(passage for passage, count in questions_per_passage.items() if count >= settings["least"])
    del questions_per_passage
    draw = random.Random(settings["seed"])
    if len(chosen) > settings["sample"]:
        chosen = sorted(draw.sample(chosen, settings["sample"]))
    yield from _draw_questions(path, chosen, draw, options)


def _draw_questions(
    path: Path, passage_ids: list[str], draw: random.Random, options: Options
) -> Iterator[ImportedQuestion]:
    """Draw one question of each chosen passage uniformly at random, without repeating a text."""
    seen: Counter[str] = Counter()
    sampled: dict[str, tuple[int, str, tuple[str, ...]] | None] = dict.fromkeys(passage_ids)
    for line, record in _records(path):
        if isinstance(record, BadInput):
            continue
        for passage in _passage_ids(record):
            if passage in sampled:
                seen[passage] += 1
                if draw.random() * seen[passage] < 1:
                    sampled[passage] = line, record["question"], _answers(record)
    order = list(sampled)
    draw.shuffle(order)
    dataset = options.dataset or "paq"
    texts: set[str] = set()
    for number, passage in enumerate(order):
        question = sampled[passage]
        if question is None or question[1] in texts:
            continue  # the same text in two splits would leak
        line, text, answers = question
        texts.add(text)
        split: Any = next(name for name, share in SHARES if number < share * len(order))
        if options.split in (None, split):
            id = f"{'-'.join(dataset.split())}.{passage}"
            yield ImportedQuestion(
                Question(id, text, answers, dataset=dataset, split=split, gold=(passage,)), str(path), line
            )


def _records(path: Path) -> Iterator[tuple[int, dict[str, Any] | BadInput]]:
    for line, text in numbered_lines(ByteSource(path)):
        try:
            record = fields.parse_object(text)
            question = Question("x", fields.required_text(record, "question"), _answers(record))
            if message := question_fault(question) or next(filter(None, map(id_fault, _passage_ids(record))), None):
                raise fields.FieldError(message)
            yield line, record
        except fields.FieldError as error:
            yield line, BadInput(str(error), path, line)


def _passage_ids(record: dict[str, Any]) -> tuple[str, ...]:
    values = record.get("answers")
    if not isinstance(values, list):
        raise fields.FieldError("there is no list 'answers'; this needs PAQ's file with metadata")
    if not all(isinstance(value, dict) for value in values):
        raise fields.FieldError("'answers' must be a list of objects with passage_id")
    return tuple(dict.fromkeys(fields.identifier(value, "passage_id") for value in values))


def _answers(record: dict[str, Any]) -> tuple[str, ...]:
    value = record.get("answer", record.get("canonical_answer"))
    return fields.texts({"answer": [value] if isinstance(value, str) else value}, "answer")


FORMATS = [
    Format(
        "paq", "questions", "PAQ with metadata, sampled (answers with passage_id)", recognise, read, settings=SETTINGS
    )
]
