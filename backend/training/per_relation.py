"""One passage index with a question encoder for each relation (EntityQuestions, Sciavolino et al. 2021, section 5,
Table 4).

The passage tower of a trained dual encoder does not change, so its index stays valid. For each relation only the
question tower is trained, on that relation's questions. `models/<name>/` holds a sentence-transformers folder for each
relation, and specialised.json, written last. A question whose relation has no encoder uses the model's own.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from blindspot.backend.core.jobs import job
from blindspot.backend.core.manifest import read_object, write_json
from blindspot.backend.core.model_files import open_model, readable_model
from blindspot.backend.progress import Progress
from blindspot.backend.retrieval.dense import Dense, encoder_settings
from blindspot.backend.training.checkpoints import new_model_folder
from blindspot.backend.training.distributed import is_main_process
from blindspot.backend.training.dual_encoder import train
from blindspot.backend.training.examples import Subset, TrainingExamples
from blindspot.backend.training.training_settings import DualEncoderSettings
from blindspot.db.errors import Missing, Refused
from blindspot.db.records import Hits, Question

if TYPE_CHECKING:
    from blindspot.backend.core.runs import Run
    from blindspot.backend.core.settings import EncoderSettings
    from blindspot.backend.core.study import Study

ABOUT_FILE = "specialised.json"
MIN_QUESTIONS = 10  # minimum questions of a relation for a separate encoder


@job("train per-relation", extras=("train",))
def train_per_relation(
    study: Study,
    name: str,
    encoder: str,
    training_set: str,
    settings: dict[str, Any] | None = None,
    device: str | None = None,
    replace_old: bool = False,
    progress: Progress | None = None,
    least: int = MIN_QUESTIONS,
) -> dict:
    """The job: train a question encoder for each relation with at least `least` questions, over the dense index of
    `encoder`.

    After an interruption, finished relations are not trained again.

    Raises:
        Missing: the encoder has no dense index.
        Refused: the encoder has one tower for both sides, or no relation has enough questions.
    """
    from blindspot.backend.training.examples import TrainingSetExamples
    from blindspot.backend.training_sets.training_set import TrainingSet

    target, index = new_model_folder(study, name, replace_old), Dense(study, encoder, device)
    examples = TrainingSetExamples(study, TrainingSet.open(study, training_set))
    working = study.path("models", f".{name}~specialised")
    chosen = replace(DualEncoderSettings(**(settings or {})), only="question", towers="two")
    about = {
        "kind": "question encoders by relation",
        "name": name,
        "encoder": encoder,
        "model_hash": index.manifest["model_hash"],
        "training_set": training_set,
    }
    with (
        study.building(f"models/{name}", lambda: new_model_folder(study, name, replace_old))
        if is_main_process()
        else nullcontext()
    ):
        relations = train_relations(
            encoder_settings(study, encoder), examples, working, chosen, device, about, progress, least
        )
        if is_main_process():
            write_json(working / ABOUT_FILE, about | {"relations": relations})
            shutil.rmtree(target, ignore_errors=True)
            working.rename(target)
    return {"name": name, "relations": len(relations)}


def train_relations(
    start: EncoderSettings,
    examples: TrainingExamples,
    folder: Path,
    settings: DualEncoderSettings,
    device: str | None = None,
    about: dict | None = None,
    progress: Progress | None = None,
    least: int = MIN_QUESTIONS,
) -> dict[str, dict]:
    """Train each relation into folder/<number>, one after another, and return a record of each.

    Only the question tower is stored.
    """
    from sentence_transformers import SentenceTransformer

    from blindspot.backend.training.initial_model import has_two_towers, tower

    by_relation: dict[str, list[int]] = {}
    for number in range(len(examples)):
        if relation := examples[number].relation:
            by_relation.setdefault(relation, []).append(number)
    enough = sorted(relation for relation, numbers in by_relation.items() if len(numbers) >= least)
    if not enough:
        raise Refused(f"no relation has {least} questions in this training set; each question encoder needs that many")
    trained_towers = {}
    for place, relation in enumerate(enough):
        checkpoint = folder / f"relation-{place}"
        if not (checkpoint / "done.json").is_file():
            whole = folder / f"whole-{place}"
            trained = train(
                start,
                Subset(examples, by_relation[relation]),
                whole,
                folder / f"working-{place}",
                settings,
                device=device,
                about={**(about or {}), "relation": relation},
                progress=progress and partial(_report, progress, relation),
            )
            if is_main_process():
                with readable_model(whole):
                    model = SentenceTransformer(str(whole), device="cpu")
                if not has_two_towers(model):
                    raise Refused(
                        "this encoder has one tower for questions and passages; training it would change the index"
                    )
                alone = SentenceTransformer(modules=list(tower(model, "question")), device="cpu")
                alone.save_pretrained(str(checkpoint), create_model_card=False)
                write_json(
                    checkpoint / "done.json",
                    {
                        "folder": checkpoint.name,
                        "questions": len(by_relation[relation]),
                        "steps": trained.steps,
                        "best_step": trained.best_step,
                        "average_rank": trained.average_rank,
                    },
                )
                shutil.rmtree(whole)
        trained_towers[relation] = read_object(checkpoint / "done.json") if is_main_process() else {}
    return trained_towers


def _report(progress: Progress, relation: str, done: int, total: int | None, doing: str) -> None:
    progress(done, total, f"{doing} {relation}")


class PerRelationRetriever:
    """The question encoders by relation, over one dense index."""

    def __init__(self, study: Study, name: str, device: str | None = None):
        """Raises Missing if there are none of this name, Refused if the index has changed since."""
        self.folder, self.device = study.path("models", name), device
        if not (self.folder / ABOUT_FILE).is_file():
            raise Missing(f"no question encoders named {name!r}; train them with 'blindspot train per-relation'")
        self.about = read_object(self.folder / ABOUT_FILE)
        self.index = Dense(study, self.about["encoder"], device)
        if self.index.manifest["model_hash"] != self.about["model_hash"]:
            raise Refused(
                f"the index of {self.about['encoder']!r} is not the one that {name!r} was trained for; train it again"
            )
        self.name = name

    def encode(self, questions: Sequence[Question]) -> np.ndarray:
        """(q, d) float32 vectors, each by the encoder of the question's relation, or else by the index's own."""
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
        """The k best passages of each question."""
        return self.index.search_vectors(self.encode(questions), k, progress)


@job("retrieve per-relation", extras=("dense",))
def retrieve_per_relation(
    study: Study,
    name: str,
    split: str | None = None,
    k: int = 100,
    run: str | None = None,
    replace_old: bool = False,
    device: str | None = None,
    progress: Progress | None = None,
) -> Run:
    """The job: retrieve the questions of a split, each with the encoder of its relation."""
    from blindspot.backend.core.runs import claim_run, write_run
    from blindspot.backend.core.splits import questions_in_split
    from blindspot.backend.retrieval.retrieve import default_name

    retriever, questions = PerRelationRetriever(study, name, device), questions_in_split(study, split)
    run = run or default_name(name, split)
    with claim_run(study, run, replace_old):
        hits = retriever.search(questions, min(k, len(study.corpus)), progress)
        routed = sum(question.relation in retriever.about["relations"] for question in questions)
        settings = {**retriever.index.settings, "retriever": name, "split": split, "routed": routed}
        ids = [question.id for question in questions]
        return write_run(study, run, ids, hits, settings, replace=replace_old, progress=progress)
