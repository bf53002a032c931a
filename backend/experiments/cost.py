"""Estimate the cost of an experiment: the number of missing parts and the time to make them, extrapolated from a short
trial of each model.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any

from blindspot.backend.core.study import Study
from blindspot.backend.data.leaks import eligible_questions
from blindspot.backend.experiments.hits import Bm25Hits, Index, RunPart
from blindspot.backend.experiments.papers import WITHOUT_TRAINING
from blindspot.backend.experiments.parts import Part, StudyEncoder
from blindspot.backend.experiments.plan import Cell, PaperClaim
from blindspot.backend.experiments.question_encoders import QuestionEncoders
from blindspot.backend.experiments.readers import ReaderModelPart, ReadingPart
from blindspot.backend.experiments.relation_training import AdaptedTrainingData, ReshapedEncoder
from blindspot.backend.experiments.running import all_parts, experiment_named, hashable_options
from blindspot.backend.experiments.trainings import CrossEncoder, DualEncoder, ScoresPart, TrainingData
from blindspot.backend.experiments.workbench import Workbench
from blindspot.backend.text.number_words import duration, quantity
from blindspot.backend.training.examples import Example
from blindspot.backend.training.training_settings import DualEncoderSettings
from blindspot.db.errors import BlindspotError

TIMED_PASSAGES = 32  # passages encoded in a timing trial
TIMED_BATCH = 4  # questions in a timing trial of training without a GPU; the time of a batch grows with its size
BM25 = "bm25"  # the retriever of a run by BM25
PAIRS = 4  # texts that a cross-encoder or reader is timed on


@dataclass(frozen=True, slots=True)
class PlannedParts:
    """The parts of an experiment that exist already, and the parts that it would make. cells, claims, notes: of its
    plan.
    """

    existing: Sequence[Part]
    waiting: Sequence[Part]
    cells: Sequence[Cell] = ()
    claims: Sequence[PaperClaim] = ()
    notes: Sequence[str] = ()

    @property
    def trainings(self) -> str:
        """Return the models that it would train in words, as in "12 dual encoders and 3 cross-encoders"; "" for none."""
        models = _count_by_kind([part for part in self.waiting if part.folder == "models"])
        return _cost_in_words(models).replace(", ", " and ") if models else ""

    def as_words(self) -> tuple[str, str]:
        """Return the missing and the finished parts in words, as in "4 runs, 1 index"."""
        return _cost_in_words(_count_by_kind(self.waiting)), _cost_in_words(_count_by_kind(self.existing))


def planned_parts(
    study: Study, experiment: str, options: Mapping[str, Any] | None = None, device: str | None = None
) -> PlannedParts:
    """Return the parts of an experiment without running a trial. Makes and writes nothing."""
    chosen, bench = experiment_named(experiment), Workbench(study, device)
    plan = chosen.plan(chosen.setting(hashable_options(options or {})), bench)
    found = dict.fromkeys(all_parts(plan))
    parts = [part for part in found if not isinstance(part, StudyEncoder)]
    finished_parts = {part for part in parts if part.finished(bench)}
    return PlannedParts(
        [part for part in parts if part in finished_parts],
        [part for part in parts if part not in finished_parts],
        plan.cells,
        plan.claims,
        tuple(plan.notes),
    )


def next_without_training(study: Study, known: Collection[str]) -> tuple[str, PlannedParts] | None:
    """Return the first experiment that trains nothing, is not in `known` and can run on this study, with its parts."""
    for name in WITHOUT_TRAINING:
        if name not in known:
            with suppress(BlindspotError):
                return name, planned_parts(study, name)
    return None


def _count_by_kind(parts: Sequence[Part]) -> Counter[str]:
    return Counter(part.plural for part in parts)


def _cost_in_words(kinds: Mapping[str, int]) -> str:
    return ", ".join(quantity(count, _singular_noun(plural), plural) for plural, count in kinds.items()) or "nothing"


def _singular_noun(plural: str) -> str:
    """Return the singular of a noun phrase: "index" for "indexes", "set of encoders" for "sets of encoders"."""
    head = re.split(" of | with ", plural)[0]
    return head[: -2 if head.endswith("xes") else -1] + plural[len(head) :]


@dataclass(frozen=True, slots=True)
class ExperimentCost:
    """The estimated cost of an experiment: the seconds for the missing parts, and the kinds of parts that these leave
    out.

    The time of a search is extrapolated from the study's own runs, and is 0 without any.
    """

    seconds: float
    kinds_without_estimate: tuple[str, ...]

    def as_words(self) -> list[str]:
        """Return the time in a sentence, and the kinds of parts that it leaves out in another if there are any."""
        source = "on this machine, from a trial of each model and the study's own runs"
        sentences = [f"About {duration(self.seconds)} of training, encoding and searching {source}."]
        if self.kinds_without_estimate:
            sentences.append(f"Not included in that time: {', '.join(self.kinds_without_estimate)}.")
        return sentences


def cost(
    study: Study, experiment: str, options: Mapping[str, Any] | None = None, device: str | None = None
) -> ExperimentCost:
    """Estimate the cost without making or writing a part.

    The estimate includes training, encoding and searching, but not building training sets.
    """
    return cost_of_parts(study, planned_parts(study, experiment, options, device), device)


def cost_of_parts(study: Study, planned: PlannedParts, device: str | None = None) -> ExperimentCost:
    """Estimate the cost of the planned parts. Without trainings and encodings among them, no model is tried."""
    reckoned, seconds = _CostEstimator(Workbench(study, device)), 0.0
    unknown: dict[str, None] = {}
    for part in planned.waiting:
        found = reckoned.seconds(part)
        seconds += found or 0.0
        if found is None:
            unknown[part.plural] = None
    return ExperimentCost(seconds, tuple(unknown))


class _CostEstimator:
    """Estimates how many seconds a part takes. Parts that do the same work share one trial."""

    def __init__(self, bench: Workbench):
        self.bench = bench
        self._passages = list(islice(bench.corpus.scan(), 4 * TIMED_PASSAGES))
        self._trials: dict[Any, float] = {}
        self._admitted: dict[Any, list[str]] = {}

    def seconds(self, part: Part) -> float | None:
        """Return the estimated seconds for a part; None for parts that cannot be estimated."""
        if isinstance(part, DualEncoder):
            return self._step_count(part.settings, sum(map(self._question_count, part.data))) * self._step_seconds(
                part.settings, _initial_encoder(part.start)
            )
        if isinstance(part, QuestionEncoders):
            return self._relation_steps(part) * self._step_seconds(part.settings, _initial_encoder(part.index.encoder))
        if isinstance(part, Index):
            return self._encoding_seconds(part)
        if isinstance(part, CrossEncoder):
            texts = part.settings.batch * (1 + part.settings.negatives)
            return (
                self._step_count(part.settings, self._question_count(part.data))
                * texts
                * self._pair_seconds(part, is_trained=True)
            )
        if isinstance(part, ScoresPart):
            return (
                self._searched_question_count(part.hits) * part.depth * self._pair_seconds(part.judge, is_trained=False)
            )
        if isinstance(part, ReaderModelPart):
            texts = part.settings.batch * part.settings.passages_on(self._device)
            return (
                self._step_count(part.settings, self._searched_question_count(part.hits))
                * texts
                * self._pair_seconds(part, is_trained=True)
            )
        if isinstance(part, ReadingPart):
            return self._searched_question_count(part.hits) * part.k * self._pair_seconds(part.reader, is_trained=False)
        if isinstance(part, RunPart):
            return self._searched_question_count(part) * self._search(isinstance(part, Bm25Hits))
        return (
            0.0
            if isinstance(part, (TrainingData, AdaptedTrainingData, ReshapedEncoder)) or part.folder == "indexes"
            else None
        )

    @cached_property
    def _device(self) -> str:
        from blindspot.backend.training.checkpoints import training_device

        return training_device(self.bench.device)

    def _question_count(self, data: TrainingData | AdaptedTrainingData) -> int:
        return len(self._training_question_ids(data))

    def _training_question_ids(self, data: TrainingData | AdaptedTrainingData) -> list[str]:
        """Return the ids of a training set's questions. They are cached, because all seeds and most rows of an
        experiment share them.
        """
        key = data.questions, data.relations, data.limit
        if key not in self._admitted:
            self._admitted[key] = eligible_questions(
                self.bench, data.questions, relations=data.relations, limit=data.limit
            ).ids
        return self._admitted[key]

    def _search(self, is_bm25: bool) -> float:
        """Return the seconds to search a question: those of the slowest run of the study by BM25, or not by BM25."""
        return max(
            (
                run["search_seconds"] / run["questions"]
                for run in self.bench.parts("runs").values()
                if run.get("search_seconds") and run.get("questions") and (run.get("retriever") == BM25) == is_bm25
            ),
            default=0.0,
        )

    def _searched_question_count(self, hits: RunPart) -> int:
        return len(hits.asked.questions_of(self.bench))

    def _step_count(self, settings: Any, questions: int) -> int:
        return settings.steps or max(1, round(settings.epochs * (questions // min(settings.batch, max(questions, 1)))))

    def _relation_steps(self, part: QuestionEncoders) -> int:
        """Estimate the number of training steps for the encoders of all relations together."""
        counts = Counter(
            question.relation
            for question in self.bench.questions.with_ids(self._training_question_ids(part.data))
            if question.relation
        )
        return sum(self._step_count(part.settings, count) for count in counts.values() if count >= part.least)

    def _step_seconds(self, settings: DualEncoderSettings, origin: str) -> float:
        from blindspot.backend.training.estimate import estimate

        key = (origin, replace(settings, seed=0, epochs=1, steps=1))
        if key not in self._trials:
            batch = settings.batch if self._device == "cuda" else min(settings.batch, TIMED_BATCH)
            n_questions = 2 * batch + 2
            texts = self._passages * (1 + 2 * n_questions // len(self._passages))
            examples = [Example(str(n), texts[n].text[:60], (texts[n],), (texts[-n - 1],)) for n in range(n_questions)]
            tried = estimate(
                self.bench.settings.encoders[origin],
                examples,
                replace(settings, batch=batch, steps=2, held_out=0),
                self.bench.device,
            )
            self._trials[key] = tried.seconds_per_step * settings.batch / batch
        return self._trials[key]

    def _pair_seconds(self, part: CrossEncoder | ReaderModelPart, is_trained: bool) -> float:
        """Estimate the seconds to encode or train on one pair of question and passage that is read as one text."""
        settings = part.settings
        key = ("pair", _initial_encoder(part.start), settings.layers, settings.tokens, settings.precision, is_trained)
        if key not in self._trials:
            self._trials[key] = self._seconds_per_pair(part, is_trained)
        return self._trials[key]

    def _seconds_per_pair(self, part: CrossEncoder | ReaderModelPart, is_trained: bool) -> float:
        import torch

        from blindspot.backend.training.checkpoints import uses_bfloat16
        from blindspot.backend.training.initial_model import ModelShape, load_initial_model

        settings, device = part.settings, self._device
        shape = ModelShape("shared", None, settings.layers, None, "dot", settings.tokens, settings.tokens)
        encoder: Any = load_initial_model(self.bench.settings.encoders[_initial_encoder(part.start)], shape, device)[0]
        network = encoder.auto_model.train(is_trained)
        half = uses_bfloat16(settings.precision, device)
        ids = torch.full((PAIRS, settings.tokens), 1, device=device)
        for _ in range(2):
            began = time.monotonic()
            with torch.set_grad_enabled(is_trained), torch.autocast(device, torch.bfloat16, enabled=half):
                states = network(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state
            if is_trained:
                states.float().sum().backward()
            states.sum().item()  # waits for a GPU
        return (time.monotonic() - began) / PAIRS

    def _encoding_seconds(self, part: Index) -> float:
        trained = part.encoder if isinstance(part.encoder, DualEncoder) else None
        key = (
            "encoding",
            _initial_encoder(part.encoder),
            trained and (trained.settings.layers, trained.settings.passage_tokens),
        )
        if key not in self._trials:
            self._trials[key] = self._seconds_per_passage(part, trained)
        return self._trials[key] * len(self.bench.corpus)

    def _seconds_per_passage(self, part: Index, trained_encoder: DualEncoder | None) -> float:
        from blindspot.backend.training.initial_model import load_initial_model

        start = self.bench.settings.encoders[_initial_encoder(part.encoder)]
        if trained_encoder is None:
            from blindspot.backend.retrieval.encoder import load_encoder

            encode = load_encoder(start, self.bench.device).encode_passages
        else:
            model = load_initial_model(start, trained_encoder.settings.shape, self.bench.device or "cpu").eval()

            def encode(passages):
                return model.encode_document(
                    [start.passage_template.format(title=passage.title, text=passage.text) for passage in passages]
                )

        tried = self._passages[:TIMED_PASSAGES]
        encode(tried[:4])
        began = time.monotonic()
        encode(tried)
        return (time.monotonic() - began) / len(tried)


def _initial_encoder(part: Part) -> str:
    """Return the encoder of study.toml from which a chain of trainings starts."""
    while not isinstance(part, StudyEncoder):
        part = getattr(part, "start")  # noqa: B009  every other part of the chain has one
    return part.encoder
