"""Train and save the linear maps that adapters apply to question vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from blindspot.backend.retrieval.search import ExactSearch
from blindspot.backend.training.training_settings import AdapterSettings

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

    from blindspot.backend.progress import Progress
    from blindspot.db.records import Hits


SCALES = (20.0, 10.0, 40.0)  # with too few held-out questions the first value of each is used
WEIGHT_DECAYS = (0.0, 3.0)
STEPS = 200
STEP_FACTORS = (1, 2)
HELD_OUT_ENOUGH = 30
CUTOFFS = (1, 5, 20)
PADDED = -1


@dataclass(frozen=True)
class TrainingQuestions:
    """The training questions of an adapter, as arrays.

    Attributes:
        vectors: (q, d) float32.
        positives, negatives: (q, p) and (q, h) int64 passage rows, PADDED at the end.
        log_odds: (q, p) float32 of the positives where a judge scored a whole list: each passage is a positive as far as
            its share in the softmax; -inf where padded. None where the positives are certain.
    """

    vectors: np.ndarray
    positives: np.ndarray
    negatives: np.ndarray
    log_odds: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.vectors)

    def __getitem__(self, rows: np.ndarray) -> TrainingQuestions:
        log_odds = None if self.log_odds is None else self.log_odds[rows]
        return TrainingQuestions(self.vectors[rows], self.positives[rows], self.negatives[rows], log_odds)

    @property
    def known_positives(self) -> np.ndarray:
        """(q, p) rows of the passages that count as right: the positives, of judged lists the first one alone."""
        return self.positives if self.log_odds is None else self.positives[:, :1]


def pad_rows(lists: Sequence[Sequence[int]]) -> np.ndarray:
    """Return lists of rows as (q, m) int64, with PADDED at the end."""
    array = np.full((len(lists), max(map(len, lists), default=0)), PADDED, np.int64)
    for i, list_ in enumerate(lists):
        array[i, : len(list_)] = list_
    return array


@dataclass(frozen=True)
class LearnedMap:
    """A trained map, with the chosen hyper-parameters (`scale`, `weight_decay`, `steps`) and the held-out results by
    which they were chosen (`held_out`, `before`, `after`).
    """

    map: Module
    about: dict[str, Any]


@dataclass(frozen=True)
class MapLearner:
    """Trains maps. Holds the data that all fits share.

    Attributes:
        vectors: (n, d) float16, the passages; may be a memory map.
        unit_length: whether vectors have length 1, so that mapped questions are normalised.
    """

    vectors: np.ndarray
    unit_length: bool
    settings: AdapterSettings
    progress: Progress | None = None

    def fit(self, questions: TrainingQuestions, scale: float, weight_decay: float, steps: int, activity: str) -> Module:
        """Train a map on all of these questions, with a learning rate that decreases linearly to 0."""
        import torch

        settings = self.settings
        generator = np.random.default_rng(settings.seed)
        order = np.empty(0, np.int64)
        with torch.random.fork_rng():
            torch.manual_seed(settings.seed)
            mapped = make_map(self.vectors.shape[1])
            optimizer = torch.optim.AdamW(mapped.parameters(), settings.learning_rate, weight_decay=weight_decay)
            for step in range(steps):
                if self.progress is not None and step % 10 == 0:
                    self.progress(step, steps, activity)
                for group in optimizer.param_groups:
                    group["lr"] = settings.learning_rate * (1 - step / steps)
                if len(order) < min(settings.batch, len(questions)):
                    order = np.concatenate([order, generator.permutation(len(questions))])
                rows, order = order[: settings.batch], order[settings.batch :]
                loss = self.loss(mapped, questions[rows], scale, generator)
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                optimizer.step()
        return mapped.eval()

    def loss(
        self, question_map: Module, batch: TrainingQuestions, scale: float, generator: np.random.Generator
    ) -> Tensor:
        """Return the loss of a batch: against its positives, or against a judge's lists where they are given."""
        loss_of = self._loss_of_positives if batch.log_odds is None else self._loss_of_lists
        return loss_of(question_map, batch, scale, generator)

    def _loss_of_positives(
        self, question_map: Module, batch: TrainingQuestions, scale: float, generator: np.random.Generator
    ) -> Tensor:
        """Return the cross-entropy loss of one positive per question against the positives, hard negatives and random
        passages of the whole batch.

        These are DPR's in-batch negatives without known false negatives: a passage that is known to answer a question is
        masked for that question.
        """
        import torch

        number = (batch.positives != PADDED).sum(axis=1)
        positive = batch.positives[np.arange(len(batch)), generator.integers(number)]
        n_negatives = (batch.negatives != PADDED).sum(axis=1)
        places = generator.random((len(batch), self.settings.hard_negatives)) * n_negatives[:, None]
        hard = (
            np.take_along_axis(batch.negatives, places.astype(np.int64), axis=1)[n_negatives > 0].ravel()
            if batch.negatives.shape[1] and self.settings.hard_negatives
            else np.empty(0, np.int64)
        )
        random = generator.integers(len(self.vectors), size=min(self.settings.random_passages, len(self.vectors)))
        columns, target = np.unique(np.concatenate([positive, hard, random]), return_inverse=True)
        scores = self._scores(question_map, batch, columns, scale)
        places = np.searchsorted(columns, batch.positives).clip(max=len(columns) - 1)
        known = columns[places] == batch.positives
        rows, known_places = np.nonzero(known)
        masked = np.zeros(scores.shape, bool)
        masked[rows, places[rows, known_places]] = True
        labels = target[: len(batch)]
        masked[np.arange(len(batch)), labels] = False
        return torch.nn.functional.cross_entropy(
            scores.masked_fill(torch.from_numpy(masked), -torch.inf), torch.from_numpy(labels.astype(np.int64))
        )

    def _loss_of_lists(
        self, question_map: Module, batch: TrainingQuestions, scale: float, generator: np.random.Generator
    ) -> Tensor:
        """Cross-entropy of a judge's distribution over each question's list against the mapped questions' distribution over
        the lists of the whole batch and random passages.
        """
        import torch

        assert batch.log_odds is not None
        random = generator.integers(len(self.vectors), size=min(self.settings.random_passages, len(self.vectors)))
        listed = batch.positives != PADDED
        columns = np.unique(np.concatenate([batch.positives[listed], random]))
        scores = self._scores(question_map, batch, columns, scale)
        places = np.searchsorted(columns, np.where(listed, batch.positives, columns[0]))
        taught = torch.from_numpy(batch.log_odds).softmax(1)
        return -(taught * scores.log_softmax(1).gather(1, torch.from_numpy(places))).sum(1).mean()

    def _scores(self, question_map: Module, batch: TrainingQuestions, columns: np.ndarray, scale: float) -> Tensor:
        """(q, n) similarities times `scale` of mapped questions and the passages of some rows."""
        import torch

        questions = question_map(torch.from_numpy(batch.vectors))
        if self.unit_length:
            questions = torch.nn.functional.normalize(questions, dim=1)
        return scale * questions @ torch.from_numpy(np.asarray(self.vectors[columns], np.float32)).T

    def choose(self, training: TrainingQuestions, held_out: TrainingQuestions) -> tuple[MapSettings, float, float]:
        """Choose scale, then weight decay, then the number of steps, one at a time with the others fixed, by success on
        held-out questions.

        The measure is the mean of Success@1, 5 and 20. Also returns Success@20 before and after.
        """
        settings, best = self.settings, self.default
        scales = SCALES if settings.scale is None else (settings.scale,)
        decays = WEIGHT_DECAYS if settings.weight_decay is None else (settings.weight_decay,)
        factors = STEP_FACTORS if settings.steps is None else (1,)
        options: tuple[Callable[[MapSettings], list[MapSettings]], ...] = (
            lambda choice: [choice._replace(scale=scale) for scale in scales],
            lambda choice: [choice._replace(weight_decay=decay) for decay in decays],
            lambda choice: [choice._replace(steps=choice.steps * factor) for factor in factors],
        )
        measured: dict[MapSettings, np.ndarray] = {}

        def success(choice: MapSettings) -> np.ndarray:
            if choice not in measured:
                mapped = self.fit(training, *choice, f"choosing settings on held-out questions ({len(measured) + 1})")
                measured[choice] = self.success(mapped, held_out)
            return measured[choice]

        for others in options:
            best = max(others(best), key=lambda choice: success(choice).mean())
        before = self.success(None, held_out)
        return best, float(before[-1]), float(success(best)[-1])

    @property
    def default(self) -> MapSettings:
        settings = self.settings
        return MapSettings(
            SCALES[0] if settings.scale is None else settings.scale,
            WEIGHT_DECAYS[0] if settings.weight_decay is None else settings.weight_decay,
            settings.steps or STEPS,
        )

    def search(self, question_map: Module | None, questions: TrainingQuestions, k: int) -> Hits:
        """Return the passages nearest to the mapped questions."""
        import torch

        vectors = questions.vectors
        if question_map is not None:
            with torch.no_grad():
                mapped_vectors = question_map(torch.from_numpy(vectors))
                vectors = (
                    torch.nn.functional.normalize(mapped_vectors, dim=1) if self.unit_length else mapped_vectors
                ).numpy()
        return ExactSearch(self.vectors, "dot", None).search(vectors, min(k, len(self.vectors)), self.progress)

    def success(self, question_map: Module | None, questions: TrainingQuestions) -> np.ndarray:
        """Return Success@1, 5 and 20 over all passages, (3,), with the known positives as relevant."""
        hits = self.search(question_map, questions, max(CUTOFFS)).ordinals
        known = np.where(questions.known_positives == PADDED, PADDED - 1, questions.known_positives)
        right = (hits[:, :, None] == known[:, None, :]).any(axis=2)
        return np.array([right[:, :k].any(axis=1).mean() for k in CUTOFFS])


class MapSettings(NamedTuple):
    """The settings chosen on held-out questions."""

    scale: float
    weight_decay: float
    steps: int


def learn_map(
    questions: TrainingQuestions,
    vectors: np.ndarray,
    unit_length: bool,
    settings: AdapterSettings,
    progress: Progress | None = None,
) -> LearnedMap:
    """Choose scale, weight decay and the number of steps on held-out questions, and then train on all questions.

    Args:
        vectors: (n, d) float16, the passages; may be a memory map.
        unit_length: whether vectors have length 1, so that mapped questions are normalised.
    """
    learner = MapLearner(vectors, unit_length, settings, progress)
    order = np.random.default_rng(settings.seed).permutation(len(questions))
    aside = min(settings.held_out, len(order) // 5)
    held_out, rest = questions[order[:aside]], questions[order[aside:]]
    enough = aside >= HELD_OUT_ENOUGH
    choice, before, after = learner.choose(rest, held_out) if enough else (learner.default, None, None)
    mapped = learner.fit(questions, *choice, "learning")
    return LearnedMap(
        mapped, {**choice._asdict(), "held_out": aside if enough else 0, "before": before, "after": after}
    )


def make_map(dimension: int) -> Module:
    """Return the map as a torch module from (q, d) to (q, d): q + W q, with W = 0 at first."""
    import torch

    class Residual(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.outer = torch.nn.Linear(dimension, dimension, bias=False)
            torch.nn.init.zeros_(self.outer.weight)

        def forward(self, questions: Tensor) -> Tensor:
            return questions + self.outer(questions)

    return Residual()


def as_dense_module(question_map: Any) -> Any:
    """Return the map as a Dense module of the library, so that it loads wherever sentence-transformers does."""
    from sentence_transformers.sentence_transformer.modules import Dense as DenseModule

    weight = question_map.outer.weight.detach()
    d = len(weight)
    return DenseModule(d, d, bias=False, activation_function=None, init_weight=weight, use_residual=True)
