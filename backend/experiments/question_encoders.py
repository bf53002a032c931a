"""Train a question encoder for each relation over one passage index (EntityQuestions, Sciavolino et al. 2021, section
5, Table 4).

The passage tower of a trained dual encoder does not change, so its index stays valid. For each relation only the
question tower is trained, on that relation's questions. `models/<name>/` holds a sentence-transformers folder for each
relation, and specialised.json, written last. A question whose relation has no encoder uses the model's own.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from blindspot.backend.core.manifest import read_object, write_json
from blindspot.backend.core.model_files import open_model, readable_model
from blindspot.backend.core.settings import EncoderSettings
from blindspot.backend.core.study import Study
from blindspot.backend.experiments.hits import Index, RunPart
from blindspot.backend.experiments.parts import required
from blindspot.backend.experiments.trainings import Model, TrainingData
from blindspot.backend.judges.judge import new_model_folder
from blindspot.backend.progress import Progress
from blindspot.backend.retrieval.dense import Dense, encoder_settings
from blindspot.backend.training.checkpoints import TrainingFolders
from blindspot.backend.training.dual_encoder import train
from blindspot.backend.training.examples import Subset, TrainingExamples
from blindspot.backend.training.training_settings import DualEncoderSettings
from blindspot.db.errors import Missing, Refused
from blindspot.db.records import Hits, Question

if TYPE_CHECKING:
    from blindspot.backend.experiments.workbench import Workbench

ABOUT_FILE = "specialised.json"
MIN_QUESTIONS = 10  # minimum questions of a relation for a separate encoder


def train_per_relation(
    study: Study,
    name: str,
    encoder: str,
    training_set: str,
    settings: DualEncoderSettings,
    device: str | None = None,
    progress: Progress | None = None,
    minimum: int = MIN_QUESTIONS,
) -> dict[str, dict]:
    """Train a question encoder for each relation with at least `minimum` questions, over the dense index of `encoder`.
    Return a record of each training, by relation.

    After an interruption, finished relations are not trained again.

    Raises:
        Missing: the encoder has no dense index.
        Refused: the encoder has one tower for both sides, or no relation has enough questions.
    """
    from blindspot.backend.training.examples import TrainingSetExamples
    from blindspot.backend.training_sets.training_set import TrainingSet

    target, index = new_model_folder(study, name, False), Dense(study, encoder, device)
    examples = TrainingSetExamples(study, TrainingSet.open(study, training_set))
    working = study.path("models", f".{name}~specialised")
    about = {
        "kind": "question encoders by relation",
        "name": name,
        "encoder": encoder,
        "model_hash": index.manifest["model_hash"],
        "training_set": training_set,
    }
    by_relation: dict[str, list[int]] = {}
    for number in range(len(examples)):
        if relation := examples[number].relation:
            by_relation.setdefault(relation, []).append(number)
    enough = sorted(relation for relation, numbers in by_relation.items() if len(numbers) >= minimum)
    if not enough:
        raise Refused(
            f"no relation has {minimum} questions in this training set; each question encoder needs that many"
        )
    chosen, start = replace(settings, only="question", towers="two"), encoder_settings(study, encoder)
    relations = {}
    with study.lock_part(f"models/{name}", lambda: new_model_folder(study, name, False)):
        for place, relation in enumerate(enough):
            folder = working / f"relation-{place}"
            if not (folder / "done.json").is_file():
                subset = Subset(examples, by_relation[relation])
                say = progress and partial(_report, progress, relation)
                _train_one(start, subset, folder, chosen, device, about | {"relation": relation}, say)
            relations[relation] = read_object(folder / "done.json")
        write_json(working / ABOUT_FILE, about | {"relations": relations})
        shutil.rmtree(target, ignore_errors=True)
        working.rename(target)
    return relations


def _train_one(
    start: EncoderSettings,
    examples: TrainingExamples,
    folder: Path,
    settings: DualEncoderSettings,
    device: str | None,
    description: dict,
    progress: Progress | None,
) -> None:
    """Train the encoder of one relation, and store only its question tower."""
    from sentence_transformers import SentenceTransformer

    from blindspot.backend.training.initial_model import has_two_towers, tower_modules

    whole, working = folder.with_name(f"{folder.name}~whole"), folder.with_name(f"{folder.name}~working")
    place = TrainingFolders(whole, working, device, about=description, progress=progress)
    trained = train(start, examples, place, settings)
    with readable_model(whole):
        model = SentenceTransformer(str(whole), device="cpu")
    if not has_two_towers(model):
        raise Refused("this encoder has one tower for questions and passages; training it would change the index")
    alone = SentenceTransformer(modules=list(tower_modules(model, "question")), device="cpu")
    alone.save_pretrained(str(folder), create_model_card=False)
    done = {key: getattr(trained, key) for key in ("steps", "best_step", "average_rank")}
    write_json(folder / "done.json", {"folder": folder.name, "questions": len(examples), **done})
    shutil.rmtree(whole)


def _report(progress: Progress, relation: str, completed: int, total: int | None, activity: str) -> None:
    progress(completed, total, f"{activity} {relation}")


class PerRelationRetriever:
    """A retriever that encodes each question with the encoder of its relation and searches one dense index."""

    def __init__(self, study: Study, name: str, device: str | None = None):
        """Open the encoders. Raises Missing if there are none of this name, and Refused if the index has changed since
        they were trained.
        """
        self.folder, self.device = study.path("models", name), device
        if not (self.folder / ABOUT_FILE).is_file():
            raise Missing(f"no question encoders named {name!r}; run: blindspot experiment specialised")
        self.about = read_object(self.folder / ABOUT_FILE)
        self.index = Dense(study, self.about["encoder"], device)
        if self.index.manifest["model_hash"] != self.about["model_hash"]:
            raise Refused(
                f"the index of {self.about['encoder']!r} is not the one that {name!r} was trained for; train it again"
            )
        self.name = name

    def encode(self, questions: Sequence[Question]) -> np.ndarray:
        """Return the question vectors, (q, d) float32, each from the encoder of the question's relation, or else from
        the index's own encoder.
        """
        from sentence_transformers import SentenceTransformer

        vectors = np.empty((len(questions), self.index.manifest["dimension"]), np.float32)
        rows: dict[str | None, list[int]] = {}
        for row, question in enumerate(questions):
            rows.setdefault(question.relation if question.relation in self.about["relations"] else None, []).append(row)
        for relation, some in rows.items():
            texts = [questions[row].text for row in some]
            if relation is None:
                vectors[some] = self.index.encode(texts)
            else:
                folder = open_model(self.folder / self.about["relations"][relation]["folder"])
                with readable_model(folder.path):
                    model = SentenceTransformer(folder.path, device=self.device, **folder.sentence_transformers)
                unit = self.index.manifest["similarity"] == "cosine"
                vectors[some] = model.encode(texts, show_progress_bar=False, normalize_embeddings=unit)
        return vectors

    def search(self, questions: Sequence[Question], k: int, progress: Progress | None = None) -> Hits:
        """Return the k best passages of each question."""
        return self.index.search_vectors(self.encode(questions), k, progress)


@dataclass(frozen=True)
class QuestionEncoders(Model):
    """One encoder for each relation with at least `least` questions in a training set. Questions of other relations use
    the index's own encoder.
    """

    plural, what = "sets of question encoders", "a question encoder for each relation"
    data: TrainingData
    settings: DualEncoderSettings
    index: Index
    least: int = MIN_QUESTIONS

    def finished(self, bench: Workbench) -> bool:
        return (bench.path("models", bench.name(self)) / ABOUT_FILE).is_file()

    def make(self, bench: Workbench, name: str, progress: Progress | None) -> None:
        train_per_relation(
            bench,
            name,
            bench.name(self.index),
            bench.name(self.data),
            self.settings,
            bench.device,
            progress,
            self.least,
        )


@dataclass(frozen=True)
class SpecialisedHits(RunPart):
    """A run in which each question is searched with the encoder of its relation."""

    encoders: QuestionEncoders = required()

    def search(self, bench, questions, k, progress):
        retriever = PerRelationRetriever(bench, bench.name(self.encoders), bench.device)
        return retriever.search(questions, k, progress), retriever.index.settings
