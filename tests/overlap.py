"""A study of a generated encyclopedia with known truth, searched by plain token overlap, without Java and torch."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from blindspot.backend.core.runs import write_run
from blindspot.backend.core.study import Study
from blindspot.backend.data.encyclopedia import Encyclopedia
from blindspot.backend.text.gold_matching import lower_tokens
from blindspot.db.records import Hits
from tests.studies import make_study

RUN = "overlap"


def encyclopedia_study(
    folder: Path, passages: int = 500, depth: int = 10, seed: int = 0
) -> tuple[Study, dict[str, set[str]]]:
    """The study, with dev and test questions and one run over them; and the ids of all passages that answer each
    question."""
    made = Encyclopedia(passages, seed)
    texts = list(made.passages())
    asked = [(question, ordinals) for question, ordinals in made.questions_with_passages() if question.split != "train"]
    questions = [question for question, _ in asked]
    study = make_study(folder, texts, questions)
    hits = _overlap([f"{p.title} {p.text}" for p in texts], [q.text for q in questions], depth)
    write_run(study, RUN, [q.id for q in questions], hits, {"retriever": RUN, "kind": "imported"})
    return study, {question.id: {texts[ordinal].id for ordinal in ordinals} for question, ordinals in asked}


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
