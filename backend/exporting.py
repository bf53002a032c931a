"""Write parts of a study in the form that other tools read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from backend.formats import dpr_results, trec
from backend.runs import Run
from db.errors import Refused
from db.records import Passage, Question

if TYPE_CHECKING:
    from backend.study import Study

SUFFIXES = {"trec": ".trec", "dpr": ".json"}
QUESTIONS_PER_BLOCK = 200


def export_run(study: Study, name: str, format: str, path: Path | None = None) -> Path:
    """Write a run as a TREC run ("trec") or as DPR's retriever output ("dpr"); returns the file.

    Args:
        path: default NAME.trec or NAME.json in the current folder.

    Raises Refused for an unknown format, Missing for an unknown run.
    """
    if format not in SUFFIXES:
        raise Refused(f"--format must be one of {', '.join(SUFFIXES)}, not {format!r}")
    run = study.run(name)
    path = path or Path(name + SUFFIXES[format])
    if format == "trec":
        ids = ([passage.id for passage in passages] for block in _blocks(study, run) for passages in block)
        trec.write_run(path, name, run.question_ids, ids, run.hits.scores)
    else:
        dpr_results.write_results(path, _entries(study, run))
    return path


def _blocks(study: Study, run: Run) -> Iterator[list[list[Passage]]]:
    """The passages of each question in rank order, some questions at a time."""
    for start in range(0, len(run.hits), QUESTIONS_PER_BLOCK):
        ordinals = run.hits.ordinals[start:start + QUESTIONS_PER_BLOCK]
        passages = iter(study.corpus.passages(ordinals[ordinals >= 0].tolist()))
        yield [[next(passages) for _ in range(int((row >= 0).sum()))] for row in ordinals]


def _entries(study: Study, run: Run) -> Iterator[tuple[Question, list[tuple[Passage, float, bool]]]]:
    answers, row = run.answers(run.manifest["rule"]), 0
    for block in _blocks(study, run):
        questions = study.questions.some(run.question_ids[row:row + len(block)])
        for question, passages in zip(questions, block, strict=True):
            scores, matches = run.hits.scores[row].tolist(), answers[row].tolist()
            yield question, list(zip(passages, scores, matches, strict=False))
            row += 1
