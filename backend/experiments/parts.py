"""What experiments are made of: question sets, runs, training sets, models. Each says what it needs, and makes itself once.

A part is a frozen dataclass; its fields, parts among them, are all that it depends on. `Workbench.make` makes it, through the same
functions as the commands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from backend.manifest import read_manifest
from backend.settings import EncoderSettings
from backend.training.cross_encoder import CrossEncoderSettings
from backend.training.denoising import Thresholds
from backend.training.examples import Example
from backend.training.leaks import drawn
from backend.training.training_settings import DualEncoderSettings
from db.errors import Missing, Refused
from db.records import Question

if TYPE_CHECKING:
    from backend.experiments.workbench import Workbench
    from backend.runs import Run

Progress = Callable[[int, "int | None", str], None]
TUNED_AT = 20  # Success@20, as in the DPR paper's tables


class Part:
    """Base of all parts. folder: where it lies in a study. plural: what several are called."""

    folder, plural = "", "small parts"

    def own_name(self, bench: Workbench) -> str | None:
        """A name that is no hash: of what the study holds already."""
        return None

    def title(self) -> str:
        """What this is, in a few words; shown while it is made."""
        return type(self).__name__.lower()

    def needs(self) -> Iterator[Part]:
        """The parts that it is made of, each before what needs it."""
        for field in fields(self):
            yield from _parts_in(getattr(self, field.name))

    def recipe(self, bench: Workbench) -> dict[str, Any]:
        """All that it depends on, as JSON: parts by name."""
        return {"part": type(self).__name__, **{field.name: _plain(getattr(self, field.name), bench) for field in fields(self)}}

    def finished(self, bench: Workbench) -> bool:
        return read_manifest(bench.path(self.folder, bench.name(self))) is not None

    def make(self, bench: Workbench, name: str, progress: Progress | None) -> None:
        raise NotImplementedError

    def note(self, bench: Workbench) -> str | None:
        """What a reader of the result must know of how this came out."""
        return None


def _parts_in(value: Any) -> Iterator[Part]:
    if isinstance(value, Part):
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from _parts_in(each)


def _plain(value: Any, bench: Workbench) -> Any:
    if isinstance(value, Part):
        return bench.name(value)
    if isinstance(value, Asked):
        return {"ids": value.digest(bench)}
    if isinstance(value, (tuple, list)):
        return [_plain(each, bench) for each in value]
    if hasattr(value, "__dataclass_fields__"):
        return {field.name: _plain(getattr(value, field.name), bench) for field in fields(value)}
    return value


@dataclass(frozen=True)
class Asked:
    """Which questions: of a split or a set as `retrieve` takes it, of some relations alone, `limit` of them drawn with `seed`.

    every: (first, step), as (1, 2) for the second half of them.
    """

    split: str
    relations: tuple[str, ...] = ()
    limit: int | None = None
    seed: int = 0
    every: tuple[int, int] = (0, 1)

    def of(self, bench: Workbench) -> list[Question]:
        """The questions, in the study's order. Raises Missing for none."""
        from backend.retrieval.retrieve import questions_of

        found = {each.id: each for each in questions_of(bench, self.split) if not self.relations or each.relation in self.relations}
        if not found:
            raise Missing(f"no question of {self.split!r} asks for {', '.join(self.relations)}")
        first, step = self.every
        return [found[id] for id in drawn(list(found), self.limit, self.seed)][first::step]

    def digest(self, bench: Workbench) -> str:
        """Of the questions' ids."""
        from backend.runs import question_set_hash

        return question_set_hash([question.id for question in self.of(bench)])


@dataclass(frozen=True)
class Named(Part):
    """An encoder that study.toml names. Nothing is to be made."""

    encoder: str

    def own_name(self, bench: Workbench) -> str:
        return self.encoder

    def recipe(self, bench: Workbench) -> dict[str, Any]:
        return {"part": "encoder", "weights": bench.weights(self.encoder)}

    def finished(self, bench: Workbench) -> bool:
        return bool(bench.weights(self.encoder))


@dataclass(frozen=True)
class Bm25Index(Part):
    """The study's own index."""

    folder, plural = "indexes", "indexes"

    def own_name(self, bench: Workbench) -> str:
        return "bm25"

    def title(self) -> str:
        return "indexing passages for BM25"

    def make(self, bench: Workbench, name: str, progress: Progress | None) -> None:
        from backend.retrieval.bm25 import build_index

        build_index(bench, progress=progress)


@dataclass(frozen=True)
class Index(Part):
    """The passages' vectors by an encoder. The study's own where it has one."""

    folder, plural = "indexes", "indexes"
    encoder: Part

    def own_name(self, bench: Workbench) -> str:
        return bench.name(self.encoder)

    def title(self) -> str:
        return "encoding passages"

    def make(self, bench: Workbench, name: str, progress: Progress | None) -> None:
        from backend.retrieval.dense import build_index

        build_index(bench, name, device=bench.device, progress=progress)


@dataclass(frozen=True)
class Hits(Part):
    """A run: the k best passages of each question. Base of those below."""

    folder, plural = "runs", "runs"
    asked: Asked
    k: int

    def title(self) -> str:
        return f"searching the questions of {self.asked.split}"

    def open(self, bench: Workbench) -> Run:
        return bench.run(bench.name(self))

    def search(self, bench: Workbench, questions: Sequence[Question], k: int, progress: Progress | None) -> tuple[Any, dict]:
        """(hits, what the manifest says of how they were found)."""
        raise NotImplementedError

    def make(self, bench: Workbench, name: str, progress: Progress | None) -> None:
        from backend.runs import write_run

        questions = self.asked.of(bench)
        hits, settings = self.search(bench, questions, min(self.k, len(bench.corpus)), progress)
        write_run(bench, name, [question.id for question in questions], hits, {**settings, "split": self.asked.split}, progress=progress)


@dataclass(frozen=True)
class Bm25Hits(Hits):
    """k1, b: None for the study's."""

    index: Bm25Index = Bm25Index()
    k1: float | None = None
    b: float | None = None

    def recipe(self, bench: Workbench) -> dict[str, Any]:
        settings = bench.settings.bm25
        used = {"k1": settings.k1 if self.k1 is None else self.k1, "b": settings.b if self.b is None else self.b}
        return {**super().recipe(bench), **used}

    def search(self, bench, questions, k, progress):
        from backend.retrieval.bm25 import BM25

        retriever = BM25(bench, self.k1, self.b)
        return retriever.search([question.text for question in questions], k, progress), retriever.settings


@dataclass(frozen=True)
class DenseHits(Hits):
    """index: of the passages. questions: what encodes the questions, where it is not the index's own encoder."""

    index: Index = None
    questions: Part | None = None

    def search(self, bench, questions, k, progress):
        from backend.retrieval.dense import Dense

        retriever = Dense(bench, bench.name(self.index), bench.device)
        texts = [question.text for question in questions]
        if self.questions is None:
            return retriever.search(texts, k, progress), retriever.settings
        from backend.retrieval.encoder import load_encoder

        encoder = load_encoder(bench.settings.encoders[bench.name(self.questions)], bench.device)
        vectors = encoder.encode_questions(texts)
        if retriever.manifest["similarity"] == "cosine" and not np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-3):
            raise Refused(f"the index of {retriever.name!r} is searched by cosine, and the questions' vectors have no unit length; train "
                          "both towers")
        return retriever.search_vectors(vectors, k, progress), retriever.settings


@dataclass(frozen=True)
class HybridHits(Hits):
    """BM25 and dense joined, see `Hybrid`. weight: None for the study's."""

    index: Index = None
    method: str = "weighted"
    weight: float | None = None
    bm25: Bm25Index = Bm25Index()

    def search(self, bench, questions, k, progress):
        from backend.retrieval.hybrid import Hybrid

        retriever = Hybrid(bench, bench.name(self.index), self.method, self.weight, device=bench.device)
        return retriever.search([question.text for question in questions], k, progress), retriever.settings


@dataclass(frozen=True)
class TunedHybridHits(HybridHits):
    """tuned_on: the questions on which the weight is chosen, the best of WEIGHTS by Success@20."""

    tuned_on: Asked = None

    def search(self, bench, questions, k, progress):
        from backend.answers import DEFAULT_RULE
        from backend.retrieval.hybrid import Hybrid
        from backend.retrieval.retrieve import accuracy_by_weight

        retriever = Hybrid(bench, bench.name(self.index), "weighted", device=bench.device)
        accuracy = accuracy_by_weight(bench, retriever, self.tuned_on.of(bench), DEFAULT_RULE, progress)
        retriever.weight = max(accuracy, key=lambda weight: (accuracy[weight], -weight))
        hits = retriever.search([question.text for question in questions], k, progress)
        return hits, {**retriever.settings, "tuned": {str(weight): round(value, 4) for weight, value in accuracy.items()}}


@dataclass(frozen=True)
class TunedBm25Hits(Bm25Hits):
    """tuned_on: the questions on which k1 and b are chosen, the best of `grid` by Success@20; the first of equally good ones."""

    tuned_on: Asked = None
    grid: tuple[tuple[float, float], ...] = ()

    def search(self, bench, questions, k, progress):
        from backend.answers import match_run
        from backend.retrieval.bm25 import BM25

        asked = self.tuned_on.of(bench)
        texts = [question.text for question in asked]
        found = {}
        for number, pair in enumerate(self.grid):
            if progress is not None:
                progress(number, len(self.grid), "trying k1 and b")
            ordinals = BM25(bench, *pair).search(texts, min(TUNED_AT, len(bench.corpus))).ordinals
            found[pair] = float(match_run(bench.corpus, asked, ordinals).any(axis=1).mean())
        retriever = BM25(bench, *max(found, key=found.get))
        hits = retriever.search([question.text for question in questions], k, progress)
        return hits, {**retriever.settings, "tuned": {f"{k1:g}, {b:g}": round(value, 4) for (k1, b), value in found.items()}}


@dataclass(frozen=True)
class TrainingData(Part):
    """A training set; see `SetRequest`, whose fields these are.

    mined: runs over its questions. judge: a cross-encoder's scores of what was mined. limit: so many of its questions, drawn with `seed`.
    may_be_empty: it adds to another set, and adds nothing where none of its questions has a positive.
    """

    folder, plural = "training_sets", "training sets"
    questions: tuple[str, ...] = ("train",)
    relations: tuple[str, ...] = ()
    limit: int | None = None
    positives: tuple[str, ...] = ("gold",)
    mined: tuple[Hits, ...] = ()
    first: int = 1
    last: int = 100
    policy: str = "none"
    judge: tuple[Scores, ...] = ()
    thresholds: Thresholds = Thresholds()
    random: int = 0
    other_gold: int = 0
    until: int | None = None
    seed: int = 0
    may_be_empty: bool = False

    def title(self) -> str:
        return "making a training set"

    def finished(self, bench: Workbench) -> bool:
        return super().finished(bench) or self.empty(bench)

    def empty(self, bench: Workbench) -> bool:
        return self.may_be_empty and bench.record(self).is_file() and not super().finished(bench)

    def note(self, bench: Workbench) -> str | None:
        return f"No question of {', '.join(self.questions)} has a positive, so they add nothing." if self.empty(bench) else None

    def needs(self) -> Iterator[Part]:
        if "distant" in self.positives:
            yield Bm25Index()
        yield from super().needs()

    def make(self, bench: Workbench, name: str, progress: Progress | None) -> None:
        from backend.training.building import NothingTrains, make_training_set
        from backend.training.request import SetRequest

        request = SetRequest(
            name, tuple(bench.name(each) for each in self.mined), self.policy, self.questions, self.positives, self.first, self.last,
            bench.name(self.judge[0].judge) if self.judge else None, self.thresholds, self.random, self.other_gold, seed=self.seed,
            until=self.until, relations=self.relations, limit=self.limit)
        try:
            make_training_set(bench, request, progress)
        except NothingTrains:
            if not self.may_be_empty:
                raise

    def examples(self, bench: Workbench) -> Sequence[Example]:
        """What it holds to train on, easy negatives too."""
        from backend.training.set_examples import SetExamples
        from backend.training.training_set import TrainingSet

        return [] if self.empty(bench) else SetExamples(bench, TrainingSet.open(bench, bench.name(self)), hard=False)


class Joined:
    """The examples of several training sets as one."""

    def __init__(self, sets: Sequence[Sequence[Example]]):
        self._sets, self._ends = sets, np.cumsum([len(each) for each in sets])

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __getitem__(self, index: int) -> Example:
        index = range(len(self))[index]
        place = int(np.searchsorted(self._ends, index, side="right"))
        return self._sets[place][index - (int(self._ends[place - 1]) if place else 0)]


class Model(Part):
    """A part that is trained."""

    folder, plural = "models", "models"

    def finished(self, bench: Workbench) -> bool:
        return (bench.path("models", bench.name(self)) / "training.json").is_file()


@dataclass(frozen=True)
class DualEncoder(Model):
    """A dual encoder trained on one or several training sets together, from a start. settings: its seed among them."""

    plural = "dual encoders"
    data: tuple[TrainingData, ...]
    settings: DualEncoderSettings
    start: Part = Named("minilm")

    def title(self) -> str:
        return f"training a dual encoder (seed {self.settings.seed})"

    def make(self, bench: Workbench, name: str, progress: Progress | None) -> None:
        from backend.training.dual_encoder import train
        from backend.training.training_log import working_folder

        train(self._start(bench), examples_of(bench, self.data), bench.path("models", name), working_folder(bench, name), self.settings,
              device=bench.device, progress=progress)

    def _start(self, bench: Workbench) -> EncoderSettings:
        return bench.settings.encoders[bench.name(self.start)]


def found_by(model: DualEncoder, asked: Asked, k: int) -> DenseHits:
    """A run of a trained dual encoder. Where its question tower alone learned, the vectors of passages are those of its start."""
    settings = model.settings
    changed = settings.layers, settings.pooling, settings.normalise
    same = settings.only == "question" and settings.similarity == "dot" and set(changed) == {None}
    return DenseHits(asked, k, Index(model.start), model) if same else DenseHits(asked, k, Index(model))


def examples_of(bench: Workbench, data: Sequence[TrainingData]) -> Joined:
    """What is in training sets that are made, easy negatives too."""
    return Joined([each.examples(bench) for each in data])


@dataclass(frozen=True)
class CrossEncoder(Model):
    """A cross-encoder trained on what a training set mined, and calibrated on questions held out of it."""

    plural = "cross-encoders"
    data: tuple[TrainingData, ...]
    settings: CrossEncoderSettings
    start: Part = Named("minilm")

    def title(self) -> str:
        return f"training a cross-encoder (seed {self.settings.seed})"

    def make(self, bench: Workbench, name: str, progress: Progress | None) -> None:
        from backend.training.cross_encoder import train_cross_encoder
        from backend.training.recipe_stages import model_of

        train_cross_encoder(bench, name, bench.name(self.data[0]), model_of(bench, bench.name(self.start)), asdict_of(self.settings),
                            bench.device, progress=progress)


@dataclass(frozen=True)
class Scores(Part):
    """What a cross-encoder says of the first `depth` passages of a run."""

    folder, plural = "scores", "judged runs"
    judge: CrossEncoder
    hits: Hits
    depth: int

    def title(self) -> str:
        return "judging passages with the cross-encoder"

    def finished(self, bench: Workbench) -> bool:
        return bench.record(self).is_file()

    def make(self, bench: Workbench, name: str, progress: Progress | None) -> None:
        from backend.training.scoring import score_run

        score_run(bench, bench.name(self.judge), bench.name(self.hits), self.depth, bench.device, progress)


def asdict_of(settings: Any) -> Mapping[str, Any]:
    return {field.name: getattr(settings, field.name) for field in fields(settings)}
