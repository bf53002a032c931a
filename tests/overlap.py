"""The demo's collections as objects, and a study of one with known truth, searched by plain token overlap, without Java and torch."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import numpy as np

from blindspot.backend.core.runs import write_run
from blindspot.backend.core.study import Study
from blindspot.backend.data.encyclopedia import answering_passages, collection
from blindspot.backend.text.gold_matching import lower_tokens
from blindspot.db.records import Hits, Passage, Question
from tests.studies import make_study

RUN = "overlap"


def encyclopedia_study(folder: Path, passages: int = 600, depth: int = 10) -> tuple[Study, dict[str, set[str]]]:
    """The study, with dev and test questions and one run over them; and the ids of all passages that answer each
    question."""
    texts, truth = passages_of(passages), answering_passages(collection(passages))
    questions = [question for question in questions_of(passages) if question.split != "train"]
    study = make_study(folder, texts, questions)
    hits = _overlap([f"{p.title} {p.text}" for p in texts], [q.text for q in questions], depth)
    write_run(study, RUN, [q.id for q in questions], hits, {"retriever": RUN, "kind": "imported"})
    return study, {question.id: truth[question.id] for question in questions}


def passages_of(passages: int) -> list[Passage]:
    """The passages of a collection of the demo's data."""
    with gzip.open(collection(passages) / "passages.tsv.gz", "rt", encoding="utf-8", newline="") as file:
        return [Passage(row["id"], row["title"], row["text"]) for row in csv.DictReader(file, delimiter="\t")]


def questions_of(passages: int) -> list[Question]:
    """The questions of a collection of the demo's data."""
    with gzip.open(collection(passages) / "questions.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    lists = ("answers", "gold")
    return [Question(text=row.pop("question"), **row | {name: tuple(row[name]) for name in lists}) for row in rows]


def _overlap(passages: list[str], questions: list[str], depth: int) -> Hits:
    """Rank passages by the summed inverse document frequency of the question's words that they contain."""
    words: dict[str, int] = {}
    tokens = [[words.setdefault(word, len(words)) for word in lower_tokens(text)] for text in passages]
    holds = np.zeros((len(passages), len(words)), np.float32)
    for row, columns in enumerate(tokens):
        holds[row, columns] = 1
    asks = np.zeros((len(questions), len(words)), np.float32)
    for row, text in enumerate(questions):
        asks[row, [words[word] for word in lower_tokens(text) if word in words]] = 1
    scores = (asks * np.log(len(passages) / holds.sum(axis=0))) @ holds.T
    ordinals = np.argsort(-scores, axis=1, kind="stable")[:, :depth].astype(np.int32)
    return Hits(ordinals, np.take_along_axis(scores, ordinals, axis=1))
