"""Questions as JSON lines with Blindspot's own fields: id, question (or text), answers, relation, subject, template,
frequency, bucket, dataset, split, gold, grades, answer_rule. Only the question is required.

`grades` maps passage ids to grades, including 0. Passages with a grade above 0 are gold. A field `set` may replace
dataset and split. Its values "train" and "dev" are splits of EntityQuestions unless `--dataset` names another data set;
"test" and "unlabelled" are splits; any other value is the name of a separate data set (a bucket set) in the split test.
`subject_mentions` may replace frequency. A question without an id gets its data set and line number as its id.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from blindspot.backend.data.formats import fields
from blindspot.backend.data.formats.base import (
    NO_OPTIONS,
    Format,
    Head,
    ImportedQuestion,
    Options,
    Qrel,
    WriteResult,
    gold_and_judgements,
)
from blindspot.backend.data.formats.files import write_json_lines
from blindspot.backend.data.formats.question_lines import read_question_lines
from blindspot.backend.data.formats.streams import ByteSource, numbered_lines
from blindspot.db.errors import BadInput
from blindspot.db.records import SPLITS, AnswerRule, Question

MAIN = "entityquestions"
_RULES: dict[str, AnswerRule] = {"string": "string", "regex": "regex"}
_QUESTION_FIELDS = {"answers", "gold", "grades", "relation", "split", "set", "subject"}


def recognise(file_head: Head) -> bool:
    record = file_head.record
    if not record:
        return file_head.is_cut_short and file_head.text.startswith('{"') and '"question"' in file_head.text
    if "answer" in record and "answers" not in record:
        return False  # NQ-open's
    return "question" in record or ("text" in record and bool(_QUESTION_FIELDS & set(record)))


def read(path: Path, options: Options = NO_OPTIONS) -> Iterator[ImportedQuestion | BadInput]:
    def question_of(line: int, text: str) -> ImportedQuestion:
        return question_of_record(fields.parse_object(text), path, line, options)

    for each in read_question_lines(path, numbered_lines(ByteSource(path)), question_of):
        if isinstance(each, BadInput) or options.includes(each.question):
            yield each


def question_of_record(record: dict[str, Any], path: Path, line: int, options: Options) -> ImportedQuestion:
    """Return the question of an object with the fields of this format. Raises FieldError for an invalid field."""
    text = fields.required_text(record, "question", "text")
    split, dataset = _split_and_dataset(record, options)
    id = fields.identifier(record, "id", "_id", required=False)
    rule = fields.text(record, "answer_rule", "string")
    if rule not in _RULES:
        raise fields.FieldError(f"'answer_rule' is {rule!r}; it must be string or regex")
    id = f"{dataset or file_stem(path)}.{line}" if id is None else id
    gold, judgements = _parse_gold(record, id, path, line, options.gold)
    question = Question(
        id=id,
        text=text,
        answers=fields.texts(record, "answers"),
        relation=fields.text(record, "relation"),
        subject=fields.text(record, "subject"),
        template=fields.text(record, "template"),
        frequency=fields.integer(record, "frequency", "subject_mentions"),
        bucket=fields.integer(record, "bucket"),
        dataset=dataset,
        split=split,
        gold=gold,
        answer_rule=_RULES[rule],
    )
    return ImportedQuestion(question, str(path), line, judgements=judgements)


def _split_and_dataset(record: dict[str, Any], options: Options) -> tuple[Any, str]:
    split, dataset, name = (fields.text(record, field) for field in ("split", "dataset", "set"))
    if name in SPLITS:
        # EntityQuestions' own train and dev; a file that says "test" names no data set.
        split, dataset = split or name, dataset or options.dataset or (MAIN if name in ("train", "dev") else "")
    elif name is not None:
        split, dataset = split or "test", dataset or name
    split = split or options.split
    if split is None:
        raise fields.FieldError("there is no 'split'; add it, or use --split train, dev, test or unlabelled")
    if split not in SPLITS:
        raise fields.FieldError(f"'split' is {split!r}; it must be one of {', '.join(SPLITS)}")
    return split, dataset or options.dataset or ""


def _parse_gold(
    record: dict[str, Any], question_id: str, path: Path, line: int, grades_to_keep: str
) -> tuple[tuple[str, ...], tuple[Qrel, ...]]:
    """Return the gold passages and the judgements. If a single gold passage is wanted, it is the first one of the
    subject's own article, else the first one that mentions the subject, else the first one with the best grade.
    """
    named, grades = _parse_ids(record, "gold"), fields.integers(record, "grades")
    if contradiction := next((id for id in named if grades.get(id, 1) <= 0), None):
        raise fields.FieldError(
            f"the passage {contradiction!r} is in 'gold' and has a grade of {grades[contradiction]}"
        )
    preferred = _parse_ids(record, "gold_own_article") or _parse_ids(record, "gold_comention")
    judgements = [Qrel(question_id, passage, grade, str(path), line) for passage, grade in grades.items()]
    return gold_and_judgements(judgements, grades_to_keep, named, preferred)


def _parse_ids(record: dict[str, Any], name: str) -> tuple[str, ...]:
    value = record.get(name)
    if isinstance(value, list):
        record = {name: [str(v) if isinstance(v, int) and not isinstance(v, bool) else v for v in value]}
    return tuple(dict.fromkeys(fields.texts(record, name)))


def file_stem(path: Path) -> str:
    """Return the file name without its endings, as a prefix of ids."""
    return "-".join(path.name.split(".")[0].split()) or "question"


def write(
    path: Path, questions: Iterable[Question], grades: Mapping[str, Mapping[str, int]] | None = None
) -> WriteResult:
    """Write all fields of each question except empty ones, and its grades."""
    return WriteResult(write_json_lines(path, (_written_record(question, grades or {}) for question in questions)))


def _written_record(question: Question, grades: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
    known = {name: value for name, value in asdict(question).items() if value not in (None, ())}
    if question.id in grades:
        known["grades"] = dict(grades[question.id])
    return {"id": known.pop("id"), "question": known.pop("text"), **known}


FORMATS = [
    Format(
        "question-jsonl",
        "questions",
        "JSON lines with question, answers, ...",
        recognise,
        read,
        write,
        ".jsonl",
        graded=True,
    )
]
