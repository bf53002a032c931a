"""The demo study: a generated encyclopedia, imported, indexed and retrieved in three ways.

Finished steps are skipped.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from analysis.accuracy import wilson
from backend.core import jobs
from backend.core.study import SETTINGS_FILE, Study
from backend.data import encyclopedia
from backend.data.importing.importer import import_passages, import_questions
from backend.progress import Progress
from backend.retrieval import bm25, dense
from backend.retrieval.retrieve import retrieve
from db.errors import Refused

SPLIT = "dev"
SOURCE = "encyclopedia"  # the folder in the study that holds the generated files
RUNS = {"bm25": "bm25-dev", "dense": "minilm-dev", "hybrid": "hybrid-dev"}


def make_demo(folder: Path, passages: int, seed: int, progress: Progress | None = None) -> tuple[Study, list[str]]:
    """Create the demo study, or its missing parts.

    Returns: the study, and lines that describe what the encyclopedia shows.

    Raises Refused if `folder` holds something else, or a demo of another size or seed.
    """
    study = Study.open(folder) if (folder / SETTINGS_FILE).is_file() else Study.create(folder, "Generated encyclopedia")
    source = study.path(SOURCE)
    result = _generated(source, passages, seed, progress)
    if not study.has_corpus:
        jobs.run(import_passages, study, str(source / "passages.tsv"), progress=progress)
    if not study.questions.counts():
        jobs.run(import_questions, study, str(source / "questions.jsonl"), progress=progress)
    indexes, runs = study.parts("indexes"), study.runs()
    if "bm25" not in indexes:
        jobs.run(bm25.build_index, study, progress=progress)
    if "minilm" not in indexes:
        jobs.run(dense.build_index, study, "minilm", progress=progress)
    for kind, name in RUNS.items():
        if name not in runs:
            jobs.run(retrieve, study, kind, split=SPLIT, name=name, progress=progress)
    return study, [_size(result), *shows(study)]


def _generated(source: Path, passages: int, seed: int, progress: Progress | None) -> dict:
    """Return the summary of the generated files; generate them if they do not exist."""
    about = source / "about.json"
    if about.is_file():
        result = json.loads(about.read_text())
        if (result["passages"], result["seed"]) != (passages, seed):
            raise Refused(
                f"{source.parent} already has a demo of {result['passages']:,} passages from seed {result['seed']}; "
                "choose another folder, or delete it"
            )
        return result
    result = encyclopedia.write(source, passages, seed, progress)
    about.write_text(json.dumps(result) + "\n")
    return result


def _size(made: dict) -> str:
    return (
        f"A generated encyclopedia: {made['passages']:,} passages about {made['entities']:,} entities, "
        f"{made['questions']:,} questions, {made['planted']:,} of them with planted false negatives (seed {made['seed']})."
    )


def shows(study: Study) -> list[str]:
    """Return a line for each figure of this study's BM25 and dense runs, with n and a 95% interval."""
    bm25_run, dense_run = study.run(RUNS["bm25"]), study.run(RUNS["dense"])
    questions = study.questions.some(bm25_run.question_ids)
    with open(study.path(SOURCE, "truth.jsonl"), encoding="utf-8") as file:
        truth = {row["question"]: row["passages"] for row in map(json.loads, file)}
    found = encyclopedia.describe(
        questions,
        truth,
        np.asarray(bm25_run.hits.ordinals),
        np.asarray(dense_run.hits.ordinals),
        (np.asarray(bm25_run.answers()), np.asarray(dense_run.answers())),
    )
    lines = {
        "false_negatives": "of the unlabelled passages in the dense top 5 answer the question: planted false negatives",
        "only_bm25": "of the questions are answered in BM25's top 5 only",
        "only_dense": "of the questions are answered in the dense top 5 only",
        "bm25_first_wording": "Success@5 of BM25 on questions in the wording of the template",
        "bm25_second_wording": "Success@5 of BM25 on the same facts in other wordings",
    }
    return [_line(found[name], text) for name, text in lines.items()]


def _line(figure: dict, text: str) -> str:
    low, high = wilson(round(figure["share"] * figure["n"]), figure["n"])
    assert low is not None and high is not None, "every figure covers at least one question"
    return f"{100 * figure['share']:5.1f}%  {text} (95%: {100 * low:.1f} to {100 * high:.1f}, n={figure['n']:,})"
