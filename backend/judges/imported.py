"""Import another tool's judgements as a judge of this study: TREC qrels, UMBRELA's output, RLHN's data, JSON lines.

A model made these judgements, so they are stored as a judge's scores and not as people's labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blindspot.backend.core.jobs import job
from blindspot.backend.core.manifest import Manifest, atomic_folder, write_manifest
from blindspot.backend.core.settings import check_name
from blindspot.backend.core.study import Study
from blindspot.backend.data.formats import fields
from blindspot.backend.data.formats.streams import (
    ByteSource,
    file_sha256,
    first_bytes,
    has_invalid_utf8,
    numbered_lines,
)
from blindspot.backend.data.formats.trec import read_qrels
from blindspot.backend.data.importing.rejected_rows import RejectedRows
from blindspot.backend.data.importing.tools import readable_write_errors
from blindspot.backend.judges.judge import JUDGES, JudgeCard, StoredJudgeKind, grade_score, refuse_taken
from blindspot.backend.judges.scores import ScoreStore
from blindspot.backend.progress import Progress
from blindspot.db.errors import BadInput, Refused

KIND = "imported"
UMBRELA_TOP = 3
MAXIMUM_GRADE = 100  # a number above it is probably no grade
LABELS = {"positive": 1.0, "related": 0.25, "negative": 0.0}
_QUESTION_KEYS = ("question_id", "query_id", "qid")
_PASSAGE_KEYS = ("passage_id", "docid", "doc_id", "pid")


@dataclass(frozen=True, slots=True)
class ImportedJudgement:
    """One judgement in a file. Question and passage are ids, or texts if the file has no ids.

    Attributes:
        grade: A whole number from 0, or None if the file has a score.
        score: A number from 0 to 1.
    """

    line: int
    question: str
    passage: str
    grade: int | None
    score: float | None = None
    by_text: bool = False


Reader = Callable[[Path], Iterator["ImportedJudgement | BadInput"]]


@job("import judgements")
def import_judgements(
    study: Study,
    name: str,
    path: str,
    format: str = "qrels",
    positive_from: int | None = None,
    replace: bool = False,
    skip_bad: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Import judgements as a judge. If one is invalid, none is imported, unless `skip_bad` is set.

    Args:
        format: qrels, umbrela, rlhn or jsonl.
        positive_from: The lowest positive grade; default 2 for umbrela, else 1.
        skip_bad: Leave out wrong lines and pairs that the study lacks, and list them in a file, instead of raising.

    Raises:
        BadInput: the first error with file and line. Refused: the name is taken, or an unknown format.
    """
    if format not in READERS:
        raise Refused(f"--format must be one of {', '.join(READERS)}, not {format!r}")
    folder, source = study.path("judges", check_name(name, "judge")), Path(path)
    refuse_taken(study, name, KIND, replace)
    with readable_write_errors(study.folder), RejectedRows(study.folder, source, skip_bad) as rejected:
        if progress is not None:
            progress(0, None, "reading judgements")
        read = []
        for row in READERS[format](source):
            if isinstance(row, BadInput):
                rejected.add(row)
            else:
                read.append(row)
        known = _judgements_of_known_pairs(study, read, source, rejected)
        if not known:
            raise rejected.first or BadInput("holds no judgements", source)
        lowest = positive_from if positive_from is not None else 2 if format == "umbrela" else 1
        scores, top = _scores_of(known, lowest, UMBRELA_TOP if format == "umbrela" else 1)
        about = {
            "kind": KIND,
            "name": name,
            "format": format,
            "file": source.name,
            "sha256": file_sha256(source),
            "positive_from": lowest,
            "top": top,
        }
        with study.lock_part(f"judges/{name}"):
            ScoreStore.remove(study, name)
            store = ScoreStore.create(study, name, False, {"model_hash": about["sha256"]})
            store.add((question, passage, score) for (question, passage), score in scores.items())
            with atomic_folder(folder) as building:
                write_manifest(building, about)
    return {
        "judge": name,
        "pairs": len(scores),
        "left_out": rejected.count,
        "file": rejected.file and str(rejected.file),
    }


def _judgements_of_known_pairs(
    study: Study, judgements: list[ImportedJudgement], path: Path, rejected: RejectedRows
) -> dict[tuple[str, str], ImportedJudgement]:
    """Return the judgements of pairs in the study, by question and passage id. If a pair has several judgements, the
    last one is returned.
    """
    ids = [each for each in judgements if not each.by_text]
    questions = {id: id for id in study.questions.known_ids({each.question for each in ids})}
    passages = {id: id for id in study.corpus.ordinals({each.passage for each in ids})}
    texts = [each for each in judgements if each.by_text]
    question_texts, passage_texts = _ids_by_text(study, texts) if texts else ({}, {})
    by_pair: dict[tuple[str, str], ImportedJudgement] = {}
    for each in judgements:
        question = (question_texts if each.by_text else questions).get(each.question)
        passage = (passage_texts if each.by_text else passages).get(each.passage)
        if question is None or passage is None:
            what, value = ("question", each.question) if question is None else ("passage", each.passage)
            rejected.add(BadInput(f"{what} {value[:60]!r} is not in the study", path, each.line))
        else:
            by_pair[question, passage] = each
    return by_pair


def _ids_by_text(study: Study, judgements: Iterable[ImportedJudgement]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the ids of the study's questions and passages, by text, for the texts in these judgements."""
    asked = {each.question for each in judgements}
    wanted = {each.passage for each in judgements}
    questions = {question.text: question.id for question in study.questions.all() if question.text in asked}
    passages: dict[str, str] = {}
    for passage in study.corpus.scan():
        for text in (passage.text, f"{passage.title} {passage.text}", f"{passage.title}\n{passage.text}"):
            if text in wanted:
                passages.setdefault(text, passage.id)
    return questions, passages


def _scores_of(
    judgements: Mapping[tuple[str, str], ImportedJudgement], lowest_positive: int, minimum_top_grade: int
) -> tuple[dict[tuple[str, str], float], int | None]:
    """Return the score of each pair: the file's score, or its grade mapped to 0..1 so that positive grades are above
    0.5.
    """
    grades = [each.grade for each in judgements.values() if each.grade is not None]
    highest = max([minimum_top_grade, *grades])
    if not 1 <= lowest_positive <= highest:
        raise Refused(f"--positive-from must be a grade of the file from 1 to {highest}, not {lowest_positive}")

    scores = {
        pair: float(each.score or 0.0) if each.grade is None else grade_score(each.grade, lowest_positive, highest)
        for pair, each in judgements.items()
    }
    return scores, highest if grades else None


def _read_qrels(path: Path) -> Iterator[ImportedJudgement | BadInput]:
    for row in read_qrels(path):
        if isinstance(row, BadInput):
            yield row
        elif row.grade > MAXIMUM_GRADE:
            yield BadInput(f"the grade is {row.grade}; it must be at most {MAXIMUM_GRADE}", path, row.line)
        else:
            yield ImportedJudgement(row.line, row.question_id, row.passage_id, max(row.grade, 0))


def _read_umbrela(path: Path) -> Iterator[ImportedJudgement | BadInput]:
    """Read UMBRELA's output: qrels, or JSON lines with `judgment` and with ids or texts."""
    is_json = first_bytes(path).lstrip().startswith(b"{")
    yield from _rows(path, _umbrela_row) if is_json else _read_qrels(path)


def _umbrela_row(line: int, row: dict[str, Any]) -> Iterator[ImportedJudgement]:
    grade = fields.integer(row, "judgment", "judgement")
    if grade is None:
        raise fields.FieldError("lacks 'judgment'")
    if not 0 <= grade <= 3:
        raise fields.FieldError(f"the judgment is {grade}; it must be from 0 to 3")
    question = _first_id_present(row, _QUESTION_KEYS)
    passage = _first_id_present(row, _PASSAGE_KEYS)
    if question is not None and passage is not None:
        yield ImportedJudgement(line, question, passage, grade)
    else:
        yield ImportedJudgement(
            line, fields.required_text(row, "query"), fields.required_text(row, "passage"), grade, by_text=True
        )


def _rlhn_row(line: int, row: dict[str, Any]) -> Iterator[ImportedJudgement]:
    """Yield the judgements in a row of RLHN: a query with `positive_passages` and `negative_passages`, as RLHN's model
    relabelled them.
    """
    question = _first_id_present(row, _QUESTION_KEYS)
    if question is None:
        raise fields.FieldError("lacks 'query_id'")
    if "positive_passages" not in row:
        raise fields.FieldError("lacks 'positive_passages'")
    for key, grade in (("negative_passages", 0), ("positive_passages", 1)):
        passages = row.get(key) or []
        if not isinstance(passages, list):
            raise fields.FieldError(f"{key!r} must be a list")
        for passage in passages:
            id = _first_id_present(passage, _PASSAGE_KEYS) if isinstance(passage, dict) else None
            if id is None:
                raise fields.FieldError(f"a passage of {key!r} lacks 'docid'")
            yield ImportedJudgement(line, question, id, grade)


def _jsonl_row(line: int, row: dict[str, Any]) -> Iterator[ImportedJudgement]:
    question = _first_id_present(row, (*_QUESTION_KEYS, "question"))
    passage = _first_id_present(row, (*_PASSAGE_KEYS, "passage"))
    if question is None or passage is None:
        raise fields.FieldError(f"lacks {'question' if question is None else 'passage'!r}")
    label, grade, score = row.get("label"), fields.integer(row, "grade"), row.get("score", row.get("probability"))
    if label is not None:
        if label not in LABELS:
            raise fields.FieldError(f"the label is {str(label)[:40]!r}; it must be one of {', '.join(LABELS)}")
        yield ImportedJudgement(line, question, passage, None, LABELS[label])
    elif grade is not None:
        if not 0 <= grade <= MAXIMUM_GRADE:
            raise fields.FieldError(f"the grade is {grade}; it must be from 0 to {MAXIMUM_GRADE}")
        yield ImportedJudgement(line, question, passage, grade)
    elif isinstance(score, int | float) and not isinstance(score, bool) and 0 <= score <= 1:
        yield ImportedJudgement(line, question, passage, None, float(score))
    else:
        raise fields.FieldError("needs a label, a grade, or a score between 0 and 1")


def _rows(
    path: Path, of_row: Callable[[int, dict[str, Any]], Iterator[ImportedJudgement]]
) -> Iterator[ImportedJudgement | BadInput]:
    for line, text in numbered_lines(ByteSource(path)):
        try:
            if has_invalid_utf8(text):
                raise fields.FieldError("this line contains bytes that are not UTF-8")
            yield from list(of_row(line, fields.parse_object(text)))
        except fields.FieldError as error:
            yield BadInput(str(error), path, line)


def _first_id_present(row: dict[str, Any], names: tuple[str, ...]) -> str | None:
    return next((found for name in names if (found := fields.identifier(row, name, required=False))), None)


READERS: dict[str, Reader] = {
    "qrels": _read_qrels,
    "umbrela": _read_umbrela,
    "rlhn": lambda path: _rows(path, _rlhn_row),
    "jsonl": lambda path: _rows(path, _jsonl_row),
}


class ImportedKind(StoredJudgeKind):
    name, title = KIND, "imported"
    help = "judgements of another tool, from a file"
    run_job = None

    def card(self, name: str, manifest: Manifest, has_scores: bool) -> JudgeCard:
        return JudgeCard(name, KIND, str(manifest.get("file", "")), False, None, has_scores)


JUDGES.register(ImportedKind())
