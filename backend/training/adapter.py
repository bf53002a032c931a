"""An adapter: a map of question vectors over an index as it stands, learned in seconds on a CPU.

The passages keep their vectors, so nothing is encoded or indexed again. The map is linear, q + W q, or a residual MLP, q + V gelu(U q);
it begins as the identity. The result is an encoder like any other: a sentence-transformers folder whose question side ends in the map.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from backend.core.declared import build
from backend.core.jobs import job
from backend.core.manifest import read_manifest, whole_folder, write_json, write_manifest
from backend.core.settings import add_encoder, check_name
from backend.retrieval.dense import Dense
from backend.retrieval.question_vectors import question_vectors
from backend.retrieval.search import ExactSearch
from backend.training.training_settings import AdapterSettings
from backend.training_sets.training_set import TrainingSet
from db.errors import Refused

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

    from backend.core.study import Study
    from backend.progress import Progress

TRAINING = "training.json"
SCALES = (10.0, 20.0, 40.0)
WEIGHT_DECAYS = (0.0, 0.1)
FALLBACK = (20.0, 0.0)  # where too few questions are held out to choose
HELD_OUT_ENOUGH = 30
MEASURED_AT = 20
PADDED = -1


@dataclass(frozen=True)
class TrainedAdapter:
    """A trained adapter: its folder, what was chosen, and Success@20 of held-out training questions before and after."""

    name: str
    folder: str
    questions: int
    scale: float
    weight_decay: float
    held_out: int
    before: float | None
    after: float | None
    seconds: float


@dataclass(frozen=True)
class TrainingQuestions:
    """Training questions as arrays.

    vectors: (q, d) float32. positives, negatives: (q, p) and (q, h) int64 passage rows, PADDED at the end.
    """

    vectors: np.ndarray
    positives: np.ndarray
    negatives: np.ndarray

    def __len__(self) -> int:
        return len(self.vectors)

    def __getitem__(self, rows: np.ndarray) -> TrainingQuestions:
        return TrainingQuestions(self.vectors[rows], self.positives[rows], self.negatives[rows])


@job("train adapter")
def train_adapter(
    study: Study,
    name: str,
    training_set: str,
    encoder: str = "minilm",
    settings: dict[str, Any] | None = None,
    replace: bool = False,
    progress: Progress | None = None,
) -> TrainedAdapter:
    """Learn a map of an encoder's question vectors from a training set; it becomes an encoder of study.toml, with its index.

    Args:
        encoder: an encoder with a dense index in the study, whose similarity is dot or cosine.
        settings: what differs from the defaults of `AdapterSettings`.

    Raises:
        Refused: the name is taken, the similarity is l2, or the set has no question with a positive. Missing: no such index or set.
    """
    started = time.monotonic()
    chosen = build(AdapterSettings, settings or {})
    known = study.settings.encoders.get(name)
    if known is not None and (not replace or known.model != str(study.path("models", name))):
        raise Refused(f"study.toml already names an encoder {name!r}; choose another name")
    folder = study.path("models", check_name(name, "model"))
    if folder.exists() and not replace:
        raise Refused(f"there is already a model named {name!r}; choose another name, or replace it")
    dense = Dense(study, encoder)
    if dense.manifest["similarity"] == "l2":
        raise Refused(
            f"encoder {encoder!r} ranks by Euclidean distance; an adapter maps vectors of dot product or cosine"
        )
    opened = TrainingSet.open(study, training_set)
    questions = read_questions(study, dense, opened, progress)
    learned = learn(questions, dense.vectors, dense.unit_length, chosen, progress)
    about = {
        "kind": "adapter",
        "name": name,
        "encoder": encoder,
        "encoder_hash": dense.manifest["model_hash"],
        "training_set": training_set,
        "fingerprint": opened.manifest["fingerprint"],
        "settings": asdict(chosen),
        "questions": len(questions),
        **learned.about,
    }
    with study.building(f"models/{name}"), whole_folder(folder) as building:
        _save(dense, learned.map, building)
        write_json(building / TRAINING, about)
    if known is None:
        base = study.settings.encoders[encoder]
        add_encoder(
            study.settings_path,
            name,
            {"model": str(folder), "passage_template": base.passage_template, "max_tokens": base.max_tokens},
        )
    share_index(study, encoder, name)
    return TrainedAdapter(
        name, str(folder), len(questions), **learned.about, seconds=round(time.monotonic() - started, 1)
    )


def read_questions(
    study: Study, dense: Dense, opened: TrainingSet, progress: Progress | None = None
) -> TrainingQuestions:
    """Return the questions of a training set that have a positive, with the rows of their positives and hard negatives.

    Raises Refused if there is none.
    """
    found = [
        (question, [pair.passage for pair in positives], [pair.passage for pair in negatives])
        for question, positives, negatives in opened.examples(hard=True)
        if positives
    ]
    if not found:
        raise Refused(f"training set {opened.name!r} has no question with a positive; there is nothing to learn from")
    rows = study.corpus.ordinals({id for _, *both in found for ids in both for id in ids})
    texts = [question.text for question in study.questions.some([id for id, _, _ in found])]
    return TrainingQuestions(
        question_vectors(study, dense, texts, progress),
        _padded([[rows[id] for id in positives] for _, positives, _ in found]),
        _padded([[rows[id] for id in negatives] for _, _, negatives in found]),
    )


def _padded(lists: Sequence[Sequence[int]]) -> np.ndarray:
    found = np.full((len(lists), max(map(len, lists), default=0)), PADDED, np.int64)
    for i, each in enumerate(lists):
        found[i, : len(each)] = each
    return found


@dataclass(frozen=True)
class Learned:
    """A learned map and how it was chosen: `scale`, `weight_decay`, `held_out`, `before`, `after`."""

    map: Module
    about: dict[str, Any]


def learn(
    questions: TrainingQuestions,
    vectors: np.ndarray,
    unit_length: bool,
    settings: AdapterSettings,
    progress: Progress | None = None,
) -> Learned:
    """Choose scale and weight decay on held-out questions, then learn from all of them.

    Args:
        vectors: (n, d) float16, the passages; may be a memory map.
        unit_length: whether vectors have length 1, so that mapped questions are normalised.
    """
    order = np.random.default_rng(settings.seed).permutation(len(questions))
    held_out, rest = order[: min(settings.held_out, len(order) // 5)], order[min(settings.held_out, len(order) // 5) :]
    scales = SCALES if settings.scale is None else (settings.scale,)
    decays = WEIGHT_DECAYS if settings.weight_decay is None else (settings.weight_decay,)
    grid = [(scale, decay) for scale in scales for decay in decays]
    enough = len(held_out) >= HELD_OUT_ENOUGH
    if not enough and len(grid) > 1:
        grid = [
            (settings.scale or FALLBACK[0], FALLBACK[1] if settings.weight_decay is None else settings.weight_decay)
        ]
    success = []
    for number, (scale, decay) in enumerate(grid if enough else ()):
        doing = f"choosing scale and weight decay ({number + 1} of {len(grid)})"
        found = _fit(questions[rest], vectors, unit_length, settings, scale, decay, progress, doing)
        success.append(_success(found, questions[held_out], vectors, unit_length))
    scale, decay = grid[int(np.argmax(success)) if success else 0]
    before = _success(None, questions[held_out], vectors, unit_length) if enough else None
    final = _fit(questions, vectors, unit_length, settings, scale, decay, progress, "learning")
    return Learned(
        final,
        {
            "scale": scale,
            "weight_decay": decay,
            "held_out": len(held_out) if enough else 0,
            "before": before,
            "after": max(success) if success else None,
        },
    )


def _fit(
    questions: TrainingQuestions,
    vectors: np.ndarray,
    unit_length: bool,
    settings: AdapterSettings,
    scale: float,
    weight_decay: float,
    progress: Progress | None,
    doing: str,
) -> Module:
    import torch

    generator = np.random.default_rng(settings.seed)
    with torch.random.fork_rng():
        torch.manual_seed(settings.seed)
        mapped = make_map(vectors.shape[1], settings)
    optimizer = torch.optim.AdamW(mapped.parameters(), settings.learning_rate, weight_decay=weight_decay)
    order = np.empty(0, np.int64)
    for step in range(settings.number_of_steps):
        if progress is not None and step % 10 == 0:
            progress(step, settings.number_of_steps, doing)
        if len(order) < min(settings.batch, len(questions)):
            order = np.concatenate([order, generator.permutation(len(questions))])
        rows, order = order[: settings.batch], order[settings.batch :]
        loss = _loss(mapped, questions[rows], vectors, unit_length, settings, scale, generator)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    return mapped.eval()


def make_map(dimension: int, settings: AdapterSettings) -> Module:
    """Return the map as a torch module from (q, d) to (q, d), which begins as the identity."""
    import torch

    class Residual(torch.nn.Module):
        """q + V gelu(U q + u) with V = 0 at first; or, linear, q + W q with W = 0 at first."""

        def __init__(self) -> None:
            super().__init__()
            linear = settings.kind == "linear"
            self.inner = None if linear else torch.nn.Linear(dimension, settings.hidden)
            self.outer = torch.nn.Linear(dimension if linear else settings.hidden, dimension, bias=False)
            torch.nn.init.zeros_(self.outer.weight)

        def forward(self, questions: Tensor) -> Tensor:
            hidden = questions if self.inner is None else torch.nn.functional.gelu(self.inner(questions))
            return questions + self.outer(hidden)

    return Residual()


def _loss(
    mapped: Module,
    batch: TrainingQuestions,
    vectors: np.ndarray,
    unit_length: bool,
    settings: AdapterSettings,
    scale: float,
    generator: np.random.Generator,
) -> Tensor:
    """Cross-entropy of one positive a question against the positives, hard negatives and random passages of the whole batch.

    A passage that is known to answer another question of the batch is masked for that question (DPR's negatives, without the known
    false ones).
    """
    import torch

    number = (batch.positives != PADDED).sum(axis=1)
    positive = batch.positives[np.arange(len(batch)), generator.integers(number)]
    given = (batch.negatives != PADDED).sum(axis=1)
    places = generator.random((len(batch), settings.hard_negatives)) * given[:, None]
    hard = (
        np.take_along_axis(batch.negatives, places.astype(np.int64), axis=1)[given > 0].ravel()
        if batch.negatives.shape[1] and settings.hard_negatives
        else np.empty(0, np.int64)
    )
    random = generator.integers(len(vectors), size=min(settings.random_passages, len(vectors)))
    columns, target = np.unique(np.concatenate([positive, hard, random]), return_inverse=True)
    passages = torch.from_numpy(np.asarray(vectors[columns], np.float32))
    questions = mapped(torch.from_numpy(batch.vectors))
    if unit_length:
        questions = torch.nn.functional.normalize(questions, dim=1)
    scores = scale * questions @ passages.T
    places = np.searchsorted(columns, batch.positives).clip(max=len(columns) - 1)
    known = columns[places] == batch.positives
    rows, which = np.nonzero(known)
    masked = np.zeros(scores.shape, bool)
    masked[rows, places[rows, which]] = True
    wanted = target[: len(batch)]
    masked[np.arange(len(batch)), wanted] = False
    return torch.nn.functional.cross_entropy(
        scores.masked_fill(torch.from_numpy(masked), -torch.inf), torch.from_numpy(wanted.astype(np.int64))
    )


def _success(mapped: Module | None, questions: TrainingQuestions, vectors: np.ndarray, unit_length: bool) -> float:
    """Success@20 over all passages, by the known positives."""
    import torch

    asked = questions.vectors
    if mapped is not None:
        with torch.no_grad():
            found = mapped(torch.from_numpy(asked))
            asked = (torch.nn.functional.normalize(found, dim=1) if unit_length else found).numpy()
    hits = ExactSearch(vectors, "dot", None).search(asked, min(MEASURED_AT, len(vectors)), None).ordinals
    known = np.where(questions.positives == PADDED, PADDED - 1, questions.positives)
    return float((hits[:, :, None] == known[:, None, :]).any(axis=(1, 2)).mean())


def _save(dense: Dense, mapped: Module, folder: Path) -> None:
    """Save base model and map as one sentence-transformers folder, in modules of the library alone."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Router

    base: list[Any] = list(dense.encoder.model)
    if type(base[0]).__name__ == "Router":
        towers = dict(base[0].sub_modules)
        question = [*towers["query"], *base[1:]]
        passage = [*towers["document"], *base[1:]]
    else:
        question, passage = base, base
    ending = [Normalize()] if dense.unit_length else []
    router = Router.for_query_document([*question, *as_dense_modules(mapped), *ending], list(passage))
    model = SentenceTransformer(modules=[router], similarity_fn_name="cosine" if dense.unit_length else "dot")
    model.save(str(folder))


def as_dense_modules(mapped: Any) -> list[Any]:
    """Return the map as Dense modules of the library, so that it loads wherever sentence-transformers does.

    A Dense module has a residual connection of its own, but not around two layers. Since gelu(x) - gelu(-x) = x, the hidden layer
    [U; I; -I] of the MLP carries q past the non-linearity.
    """
    import torch
    from sentence_transformers.sentence_transformer.modules import Dense as DenseModule

    outer = mapped.outer.weight.detach()
    d = outer.shape[0]
    if mapped.inner is None:
        return [DenseModule(d, d, bias=False, activation_function=None, init_weight=outer, use_residual=True)]
    identity = torch.eye(d)
    inner = mapped.inner
    width = inner.out_features + 2 * d
    into = torch.cat([inner.weight.detach(), identity, -identity])
    bias = torch.cat([inner.bias.detach(), torch.zeros(2 * d)])
    out = torch.cat([outer, identity, -identity], dim=1)
    return [
        DenseModule(d, width, activation_function=torch.nn.GELU(), init_weight=into, init_bias=bias),
        DenseModule(width, d, bias=False, activation_function=None, init_weight=out),
    ]


def share_index(study: Study, encoder: str, name: str) -> None:
    """Make the index of an adapted encoder: the vectors of the encoder that it adapts, under a manifest of its own."""
    source, folder = study.path("indexes", encoder), study.path("indexes", name)
    with study.building(f"indexes/{name}"):
        (folder / "manifest.json").unlink(missing_ok=True)
        folder.mkdir(parents=True, exist_ok=True)
        vectors = folder / "embeddings.npy"
        vectors.unlink(missing_ok=True)
        try:
            os.link(source / vectors.name, vectors)  # one file under two names: no second copy on the disk
        except OSError:
            shutil.copyfile(source / vectors.name, vectors)
        from backend.retrieval.encoder import load_encoder

        described = load_encoder(study.settings.encoders[name]).describe()
        manifest: dict[str, Any] = read_manifest(source) or {}
        kept = {key: manifest[key] for key in ("passages", "corpus", "dtype", "unit_length")}
        write_manifest(
            folder,
            {
                "kind": "dense index",
                "encoder": name,
                **kept,
                **described,
                "made_by": f"adapter over {encoder}",
                "vectors_of": encoder,
            },
        )
