"""EntityQuestions (Sciavolino et al. 2021) in its original layout, as a folder or as a plain or compressed tar archive.

    dataset/{train,dev,test}/P19.dev.json                      -> data set "entityquestions"
    dataset/one-off/common-random-buckets/P19/bucket3.test.json   -> data set "common-random-buckets", bucket 3, "test"
    dataset/one-off/no-overlap/P19/P19_no_overlap.train.json      -> data set "no-overlap", its own splits
    relation_query_templates.json                              -> the templates; built-in ones are used if it is absent

A file is an array of `{question, answers}`. The subject is extracted from the question with the template. The relation
comes from the file name, because P131 and P276 share a template and "similar" uses a second one. `no-overlap` and
`similar` belong to fine-tuning experiments with their own splits of the same facts. If all of them counted as test,
their facts would be removed from every training set. They therefore keep their splits, and each is imported as a data
set of its own.

A question's id consists of the data set (left out for the main one), relation, split or bucket, and index from 0:
"P19.dev.12", "common-random-buckets.P19.3.17", "no-overlap.P19.train.5".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from blindspot.backend.data.formats import fields
from blindspot.backend.data.formats.archive import member_place, read_members
from blindspot.backend.data.formats.base import (
    NO_OPTIONS,
    Format,
    Head,
    ImportedQuestion,
    Options,
    as_split,
    question_fault,
)
from blindspot.backend.data.formats.json_stream import JsonStream
from blindspot.backend.data.formats.question_jsonl import MAIN
from blindspot.db.errors import BadInput
from blindspot.db.records import Question

TEMPLATES_FILE = "relation_query_templates.json"

# The templates of the data set's 24 relations, because its `dataset.zip` does not contain them.
TEMPLATES = {
    "P17": "Which country is [X] located in?", "P19": "Where was [X] born?", "P20": "Where did [X] die?",
    "P26": "Who is [X] married to?", "P36": "What is the capital of [X]?", "P40": "Who is [X]'s child?",
    "P50": "Who is the author of [X]?", "P69": "Where was [X] educated?", "P106": "What kind of work does [X] do?",
    "P112": "Who founded [X]?", "P127": "Who owns [X]?", "P131": "Where is [X] located?",
    "P136": "What type of music does [X] play?", "P159": "Where is the headquarter of [X]?",
    "P170": "Who was [X] created by?", "P175": "Who performed [X]?", "P176": "Which company is [X] produced by?",
    "P264": "What music label is [X] represented by?", "P276": "Where is [X] located?",
    "P407": "Which language was [X] written in?", "P413": "What position does [X] play?",
    "P495": "Which country was [X] created in?", "P740": "Where was [X] founded?", "P800": "What is [X] famous for?",
    "P19_similar": "What is the birthplace of [X]?", "P159_similar": "Where is [X] headquartered?",
    "P170_similar": "Who is the creator of [X]?",
}  # fmt: skip

_FILE = re.compile(
    r"(?:.*/)?(?:"
    r"(?P<folder>train|dev|test)/(?P<main>P\d{1,9})\.(?P<split>train|dev|test)"
    r"|one-off/(?P<bucket_set>[\w-]+)/(?P<bucket_relation>P\d{1,9})/bucket(?P<bucket>\d{1,4})\.test"
    r"|one-off/(?P<one_off>[\w-]+)/(?P<one_off_relation>P\d{1,9})/P\d{1,9}_\w+\.(?P<one_off_split>train|dev|test)"
    r")\.json"
)


@dataclass(frozen=True, slots=True)
class _PathFacts:
    """A file's data set, relation, split and bucket, as its path states them."""

    dataset: str
    relation: str
    split: str
    bucket: int | None = None

    @property
    def prefix(self) -> str:
        own = f"{self.relation}.{self.split if self.bucket is None else self.bucket}"
        return own if self.dataset == MAIN else f"{self.dataset}.{own}"


def recognise(file_head: Head) -> bool:
    return file_head.tar or any(map(is_question_file, file_head.inside))


def is_question_file(name: str) -> bool:
    """Return whether a file inside the folder or archive belongs to the data set."""
    return _FILE.fullmatch(name) is not None or name.split("/")[-1] == TEMPLATES_FILE


def read(path: Path, options: Options = NO_OPTIONS) -> Iterator[ImportedQuestion | BadInput]:
    """Read the questions. Raises BadInput for a broken archive, a file that is not a JSON array, or other contents."""
    members = read_members(path, is_question_file)
    templates = _templates(path, members)
    files = {name: _path_facts(name) for name in members if _FILE.fullmatch(name)}
    if not files:
        raise BadInput("holds no EntityQuestions files (dataset/dev/P19.dev.json and the like)", path)
    for name, file in sorted(files.items(), key=lambda entry: _sort_key(entry[1])):
        if options.split in (None, file.split) and options.dataset in (None, file.dataset):
            yield from _questions(members[name], member_place(path, name), file, templates)


def _path_facts(name: str) -> _PathFacts:
    match = _FILE.fullmatch(name)
    if match is None:
        raise ValueError(f"{name} is not a file of EntityQuestions")
    if match["main"]:
        return _PathFacts(MAIN, match["main"], match["split"])
    if match["bucket_set"]:
        return _PathFacts(match["bucket_set"], match["bucket_relation"], "test", int(match["bucket"]))
    return _PathFacts(match["one_off"], match["one_off_relation"], match["one_off_split"])


def _sort_key(file: _PathFacts) -> tuple[bool, str, int, int, int]:
    splits = ("train", "dev", "test")
    return file.dataset != MAIN, file.dataset, splits.index(file.split), int(file.relation[1:]), file.bucket or 0


def _templates(path: Path, members: dict[str, bytes]) -> dict[str, str]:
    named = [name for name in members if name.split("/")[-1] == TEMPLATES_FILE]
    if not named:
        return TEMPLATES
    place = member_place(path, named[0])
    try:
        templates = fields.parse_object(_decode(members[named[0]], place))
    except fields.FieldError as error:
        raise BadInput(str(error), place) from None
    for key, wording in templates.items():
        if not isinstance(wording, str) or wording.count("[X]") != 1:
            raise BadInput(f"the wording of {key!r} must be text with one [X]", place)
    return templates


def _questions(
    data: bytes, position: str, file: _PathFacts, templates: dict[str, str]
) -> Iterator[ImportedQuestion | BadInput]:
    template = templates.get(f"{file.relation}_{file.dataset}") or templates.get(file.relation)
    if template is None:
        raise BadInput(f"the wordings ({TEMPLATES_FILE}) do not name {file.relation}", position)
    before, after = template.split("[X]")
    for index, (line, record) in enumerate(_array_elements(_decode(data, position), position)):
        try:
            if not isinstance(record, dict):
                raise fields.FieldError(f"this is {fields.type_in_words(record)}, not a question")
            text = fields.required_text(record, "question")
            if not (text.startswith(before) and text.endswith(after) and len(text) > len(before) + len(after)):
                raise fields.FieldError(
                    f"the question {text[:100]!r} is not worded {template!r}, as {file.relation} is"
                )
            question = Question(
                id=f"{file.prefix}.{index}",
                text=text,
                answers=fields.texts(record, "answers"),
                relation=file.relation,
                subject=text[len(before) : len(text) - len(after)],
                template=template,
                bucket=file.bucket,
                dataset=file.dataset,
                split=as_split(file.split),
            )
            if message := question_fault(question):
                raise fields.FieldError(message)
            yield ImportedQuestion(question, position, line)
        except fields.FieldError as error:
            yield BadInput(str(error), position, line)


def _decode(data: bytes, position: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput("bytes that are not UTF-8", position, data.count(b"\n", 0, error.start) + 1) from None


def _array_elements(text: str, position: str) -> Iterator[tuple[int, object]]:
    """Yield the elements of a JSON array, each with its line."""
    stream = JsonStream([text], position)
    if stream.peek() != "[":
        raise BadInput("this is not a JSON array of questions", position, 1)
    yield from stream.array()
    stream.end()


FORMATS = [Format("entityquestions", "questions", "EntityQuestions, its folder or a tar of it", recognise, read)]
