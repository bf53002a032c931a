"""A study of a generated encyclopedia, its truth, and a simulated annotator."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from blindspot.backend.core.study import Study
from blindspot.backend.data import encyclopedia
from blindspot.backend.training_sets.training_set import TrainingSet
from blindspot.db.events import Choice, LabelEvent
from blindspot.db.labels import Labels
from blindspot.db.people import People

JUDGED = 10  # ranks of every training question that the simulated annotator judges
RIGHT = 0.95  # probability of a correct label; a wrong label swaps positive and negative
ANNOTATOR_SEED = 0


def prepared(folder: Path, passages: int, seed: int) -> Study:
    """Return a study of an encyclopedia with a BM25 index in folder/study; reuse a finished one."""
    from blindspot.backend.data.importing.importer import import_passages, import_questions
    from blindspot.backend.retrieval.bm25 import build_index

    if (folder / "study").is_dir():
        return Study.open(folder / "study")
    shutil.rmtree(folder / "unfinished", ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    study = Study.create(folder / "unfinished", "encyclopedia")
    source = study.path("encyclopedia")
    encyclopedia.write_encyclopedia(source, passages, seed)
    import_passages(study, str(source / "passages.tsv"))
    import_questions(study, str(source / "questions.jsonl"))
    build_index(study)
    return moved(study, folder / "study")


def moved(study: Study, target: Path) -> Study:
    """Move the complete study to its final name."""
    study.folder.rename(target)
    return Study.open(target)


def truth_of(study: Study) -> dict[str, set[str]]:
    """Return all passages that answer each question."""
    with open(study.path("encyclopedia", "truth.jsonl"), encoding="utf-8") as file:
        return {row["question"]: set(row["passages"]) for row in map(json.loads, file)}


def annotate(study: Study, training_set: TrainingSet, truth: Mapping[str, set[str]]) -> int:
    """Let one person judge the mined passages at the top ranks of every question, and return the number of labels. A
    second call adds nothing.
    """
    people, name = People(study.labels_path), "simulated"
    if name not in {person.name for person in people.all()}:
        people.add(name)
    labels, random = Labels(study.labels_path, passages=study.corpus.ordinals), np.random.default_rng(ANNOTATOR_SEED)
    given = 0
    for question, pairs in training_set.groups():
        choices = []
        for pair in pairs:
            if pair.mined and pair.rank <= JUDGED:
                answers = (pair.passage in truth[question]) == (random.random() < RIGHT)
                choices.append(
                    Choice(pair.passage, "positive" if answers else "negative", pair.run, pair.rank, pair.score)
                )
        if choices:
            labels.add(name, LabelEvent(f"simulated-{question}", "label", question, tuple(choices)))
            given += len(choices)
    return given
