"""Train question encoder and reader together over a fixed index (Karpukhin et al. 2020, appendix D).

The passage encoder does not change, so its index stays valid. Each step encodes the questions of a batch, retrieves the
top 100 passages for each with the current encoder, and minimises the sum of two losses:

- retriever: a softmax over all passages retrieved for the batch (up to 1,600 for 16 questions), with the negative log
of the total probability of the passages that contain the question's answer as the loss, as in ORQA; - reader:
`reader_loss`, on 24 passages sampled from the question's own first 5 positives and first 30 negatives.

A question whose retrieved passages contain no answer is skipped in that step. `models/<name>/` is a reader's folder,
with the question encoder in `question_encoder/`. `question_vectors` encodes questions with that encoder, so that the
same index can be searched and the reader can read the hits.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from blindspot.backend.core.extras import require
from blindspot.backend.core.manifest import read_object, text_sha256
from blindspot.backend.core.model_files import open_model, readable_model
from blindspot.backend.progress import Progress
from blindspot.backend.reader.examples import NEGATIVE, POSITIVE, ReaderExample, may_train
from blindspot.backend.reader.model import KIND, ReaderModel, start_folder, start_reader
from blindspot.backend.reader.settings import JointSettings
from blindspot.backend.reader.training import TrainedReader, save_best
from blindspot.backend.retrieval.dense import Dense, encoder_settings
from blindspot.backend.text.answers import match_run, rule_for
from blindspot.backend.training.checkpoints import (
    TRAINING,
    building_model,
    load_checkpoint,
    new_model_folder,
    readable_training_errors,
    set_schedule,
    training_arguments,
    training_device,
)
from blindspot.backend.training.examples import batch_sampler, hold_out
from blindspot.backend.training.training_log import LOG, working_folder
from blindspot.backend.training.training_settings import UNIT_SCALE
from blindspot.db.errors import Missing, Refused
from blindspot.db.records import Question

if TYPE_CHECKING:
    from blindspot.backend.core.study import Study

QUESTION_ENCODER = "question_encoder"


def train_joint(
    study: Study,
    name: str,
    encoder: str,
    start: str = "minilm",
    settings: dict[str, Any] | None = None,
    device: str | None = None,
    progress: Progress | None = None,
) -> TrainedReader:
    """Train question encoder and reader on the training questions of a study, or resume an interrupted training.

    encoder: the dual encoder to start from, whose dense index stays fixed; if it has one tower, the question encoder is
    a copy of it. start: the reader's initial model, see `train_reader`.

    Raises:
        Missing: the encoder has no dense index, or an initial model cannot be loaded.
        Refused: an index by distance, no training question with answers, or as in training a reader.
    """
    from transformers import TrainingArguments

    from blindspot.backend.reader.joint_trainer import JointModel, question_tower
    from blindspot.backend.reader.trainer import FIGURE

    require("train")
    target, on = new_model_folder(study, name, False), training_device(device)
    chosen = JointSettings(**(settings or {}))
    chosen = replace(chosen, passages=chosen.passages_on(on))
    index, questions = _fixed_index(study, encoder, device), _training_questions(study)
    training, aside = hold_out(questions, chosen.held_out, chosen.seed)
    arguments = training_arguments(TrainingArguments, working_folder(study, name), chosen, on, FIGURE)
    arguments.greater_is_better = True
    began = time.monotonic()
    with building_model(study, name, False), readable_training_errors(chosen.batch):
        reader = start_reader(start_folder(study, start), chosen.layers, chosen.tokens, chosen.seed)
        model = JointModel(question_tower(encoder_settings(study, encoder), chosen.question_tokens), reader.network)
        texts = (part for question in questions for part in (question.id, question.text, *question.answers))
        request = {
            "start": start,
            "encoder": encoder,
            "index_hash": index.manifest["model_hash"],
            "settings": asdict(chosen),
            "examples": text_sha256(study.corpus.digest, *texts),
        }
        working = Path(arguments.output_dir)
        checkpoint = load_checkpoint(working, request, False)
        trained_on, held_out = ([questions[i] for i in numbers] for numbers in (training, aside))
        passages = RetrievedPassages(study, index, chosen)
        _run_trainer(passages, model, reader, arguments, trained_on, held_out, checkpoint, progress)
        about = {
            "kind": KIND,
            "joint": True,
            "name": name,
            "questions": len(training),
            "held_out": len(aside),
            "device": on,
            "seconds": round(time.monotonic() - began, 1),
        }
        return _save_best(working, target, model, reader, request | about)


def _fixed_index(study: Study, encoder: str, device: str | None) -> Dense:
    index = Dense(study, encoder, device)
    if index.manifest["similarity"] == "l2":
        raise Refused(f"the index of {encoder!r} uses l2 similarity; joint training needs dot products or cosines")
    return index


def _training_questions(study: Study) -> list[Question]:
    may = may_train(study)
    questions = [question for question in study.questions.all() if question.id in may and question.answers]
    if not questions:
        raise Refused("there is no training question with answers to train on; import some with --split train")
    return questions


def _run_trainer(
    retrieved: RetrievedPassages,
    model: Any,
    reader: ReaderModel,
    arguments: Any,
    training: list[Question],
    held_out: list[Question],
    checkpoint: Path | None,
    progress: Progress | None,
) -> None:
    from blindspot.backend.reader.joint_trainer import JointTrainer, Keys, keys_of
    from blindspot.backend.reader.trainer import FIGURE, SECOND
    from blindspot.backend.training.trainer import CheckpointCallback, is_finished, run

    settings = retrieved.settings
    sampler = batch_sampler(len(training), settings)
    texts = sampler.batch * settings.passages_on(arguments.device.type), len(held_out) * settings.read
    set_schedule(arguments, settings, sampler.steps, sampler.batch, 10 if held_out else 0, *texts)
    if checkpoint is not None and is_finished(checkpoint, arguments, settings.patience):
        return
    sizes = {"questions": len(held_out), "passages": settings.read}
    trainer = JointTrainer(
        model=model,
        args=arguments,
        sampler=sampler,
        dataset=Keys(len(training)),
        data_collator=keys_of,
        retrieved=retrieved,
        training=training,
        held_out=held_out,
        inputs=reader.inputs,
        callbacks=[
            CheckpointCallback(
                Path(arguments.output_dir), sampler, (FIGURE, SECOND), settings.patience, sizes, progress
            )
        ],
    )
    run(trainer, checkpoint)


@dataclass(frozen=True)
class RetrievedPassages:
    """Retrieves the passages for a batch of questions.

    scale: factor of the scores before the softmax: 1, or 20 for vectors of unit length.
    """

    study: Study
    index: Dense
    settings: JointSettings

    @property
    def scale(self) -> float:
        return UNIT_SCALE if self.index.unit_length else 1.0

    def retrieve(
        self, questions: Sequence[Question], vectors: np.ndarray, k: int | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the rows of each question's passages (q, k), the distinct rows of all questions (u,), and whether each
        distinct passage contains each question's answer, (q, u) bool.
        """
        ordinals = self.index.search_vectors(
            vectors, min(k or self.settings.retrieved, len(self.study.corpus))
        ).ordinals
        union = np.unique(ordinals[ordinals >= 0])
        return ordinals, union, match_run(self.study.corpus, questions, np.tile(union, (len(questions), 1)))

    def example(self, question: Question, ordinals: np.ndarray, contains_answer: np.ndarray) -> ReaderExample | None:
        """Return the question with its highest-ranked positives and negatives; None if no passage contains
        an answer.
        """
        positives = np.flatnonzero(contains_answer)[: self.settings.positives]
        negatives = np.flatnonzero(~contains_answer)[: self.settings.negatives]
        if not len(positives):
            return None
        at = np.sort(np.concatenate([positives, negatives]))
        return self.whole_example(question, ordinals[at], contains_answer[at])

    def whole_example(self, question: Question, ordinals: np.ndarray, contains_answer: np.ndarray) -> ReaderExample:
        """Return the question with all its retrieved passages."""
        passages = self.study.corpus.passages(ordinals.tolist())
        roles = np.where(contains_answer, POSITIVE, NEGATIVE).tolist()
        return ReaderExample(
            question.id, question.text, question.answers, tuple(passages), tuple(roles), rule_for(question)
        )


def _save_best(working_folder: Path, target: Path, model: Any, reader: ReaderModel, description: dict) -> TrainedReader:
    from safetensors.torch import load_model

    def write(checkpoint: Path, building: Path) -> None:
        load_model(model, checkpoint / "model.safetensors", device="cpu")
        model.cpu()
        model.reader.save_pretrained(building)
        reader.inputs.tokenizer.save_pretrained(building)
        model.questions.save_pretrained(str(building / QUESTION_ENCODER), create_model_card=False)
        shutil.copy2(working_folder / LOG, building / LOG)

    made = TrainedReader(
        target.name,
        str(target),
        0,
        0,
        None,
        description["held_out"],
        description["questions"],
        {},
        description["seconds"],
    )
    return save_best(working_folder, target, made, description, write)


def question_vectors(
    study: Study, name: str, texts: Sequence[str], device: str | None = None
) -> tuple[Dense, np.ndarray]:
    """Return the index of a joint training, and the vectors of questions (q, d) float32 from its question encoder.

    Raises:
        Missing: the training does not exist. Refused: the index has changed since.
    """
    from sentence_transformers import SentenceTransformer

    folder = study.path("models", name)
    about = read_object(folder / TRAINING) if (folder / TRAINING).is_file() else {}
    if not about.get("joint"):
        raise Missing(f"{name!r} is not a joint training of question encoder and reader")
    index = Dense(study, about["encoder"], device)
    if index.manifest["model_hash"] != about["index_hash"]:
        raise Refused(f"the index of {about['encoder']!r} has changed since {name!r} was trained; train {name!r} again")
    opened = open_model(folder / QUESTION_ENCODER)
    with readable_model(opened.path):
        model = SentenceTransformer(opened.path, device=device, **opened.sentence_transformers)
    return index, model.encode(
        list(texts), show_progress_bar=False, normalize_embeddings=index.manifest["similarity"] == "cosine"
    ).astype(np.float32)
