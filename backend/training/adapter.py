"""Train an adapter: a linear map of question vectors for an existing index, trained in seconds on a CPU.

Passage vectors do not change, so nothing is encoded or indexed again. The map is q + W q, and begins as the identity
(`make_map` in adapter_map.py). The result is an ordinary encoder: a sentence-transformers folder in which the map is the last module of the
question encoder.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from blindspot.backend.core.declared import build_settings
from blindspot.backend.core.jobs import job
from blindspot.backend.core.manifest import atomic_folder
from blindspot.backend.core.settings import add_encoder
from blindspot.backend.judges.judge import new_model_folder
from blindspot.backend.retrieval.dense import Dense
from blindspot.backend.retrieval.question_vectors import question_vectors
from blindspot.backend.training.adapter_map import TrainingQuestions, as_dense_module, learn_map, pad_rows
from blindspot.backend.training.checkpoints import write_training_json
from blindspot.backend.training.judged_lists import SHARPNESS, JudgedLists, judged_lists, required_teacher
from blindspot.backend.training.share_index import share_index
from blindspot.backend.training.training_settings import AdapterSettings
from blindspot.backend.training_sets.training_set import TrainingSet
from blindspot.db.errors import Refused

if TYPE_CHECKING:
    from torch.nn import Module

    from blindspot.backend.core.study import Study
    from blindspot.backend.progress import Progress


TAUGHT_RANKS = 20  # of a judged list; on held-out training questions of the real data more taught no better


@dataclass(frozen=True)
class TrainedAdapter:
    """A trained adapter: its folder, the chosen hyper-parameters, and Success@20 on held-out training questions before
    and after training.
    """

    name: str
    folder: str
    questions: int
    scale: float
    weight_decay: float
    steps: int
    held_out: int
    before: float | None
    after: float | None
    seconds: float


@job("train adapter", extras=("dense",))
def train_adapter(
    study: Study,
    name: str,
    training_set: str | None = None,
    encoder: str = "minilm",
    settings: dict[str, Any] | None = None,
    replace: bool = False,
    run: str | None = None,
    progress: Progress | None = None,
) -> TrainedAdapter:
    """Train a map of an encoder's question vectors. The result is added to study.toml as an encoder that uses the same
    index.

    It learns from a training set, or from what the judge `distil` of the settings says of a run's lists.

    Args:
        encoder: an encoder with a dense index in the study, whose similarity is dot or cosine.
        settings: what differs from the defaults of `AdapterSettings`.
        run: the run whose lists the judge teaches; default the one that a feature judge learned from.

    Raises:
        Refused: the name is taken, the similarity is l2, both or neither of set and judge are named, or no question has a
        positive; and as `judged_lists` raises. Missing: no such index or set.
    """
    started = time.monotonic()
    chosen = build_settings(AdapterSettings, settings or {})
    known = study.settings.encoders.get(name)
    if known is not None and (not replace or known.model != str(study.path("models", name))):
        raise Refused(f"study.toml already names an encoder {name!r}; choose another name")
    folder = new_model_folder(study, name, replace)
    dense = _require_adaptable_index(Dense(study, encoder))
    questions, source = _training_questions(study, dense, training_set, run, chosen, progress)
    learned = learn_map(questions, dense.vectors, dense.unit_length, chosen, progress)
    about = {
        "kind": "adapter",
        "name": name,
        "encoder": encoder,
        "encoder_hash": dense.manifest["model_hash"],
        **source,
        "settings": asdict(chosen),
        "questions": len(questions),
        **learned.about,
        "seconds": round(time.monotonic() - started, 1),
    }
    with study.lock_part(f"models/{name}"), atomic_folder(folder) as building:
        _save_adapted_encoder(dense, learned.map, building)
        write_training_json(building, about)
    if known is None:
        base = study.settings.encoders[encoder]
        add_encoder(
            study.settings_path,
            name,
            {"model": str(folder), "passage_template": base.passage_template, "max_tokens": base.max_tokens},
        )
    share_index(study, encoder, name, adapter=True)
    return TrainedAdapter(
        name, str(folder), len(questions), **learned.about, seconds=round(time.monotonic() - started, 1)
    )


def _require_adaptable_index(dense: Dense) -> Dense:
    """Return the index if an adapter can be trained for it. Raises Refused otherwise."""
    if dense.manifest["similarity"] == "l2":
        raise Refused(
            f"encoder {dense.name!r} ranks by Euclidean distance; an adapter maps vectors of dot product or cosine"
        )
    if "dimensions" in dense.manifest:
        raise Refused(
            f"encoder {dense.name!r} keeps only the first dimensions of its vectors; adapters need all of them"
        )
    return dense


def _training_questions(
    study: Study,
    dense: Dense,
    training_set: str | None,
    run: str | None,
    settings: AdapterSettings,
    progress: Progress | None,
) -> tuple[TrainingQuestions, dict[str, Any]]:
    """Return what the map learns from, and where it comes from as training.json says it."""
    if training_set is not None and settings.distil is not None:
        raise Refused(
            "an adapter learns from a training set (--on) or from a judge of a run's lists (--distil), not both"
        )
    if (judge := required_teacher(training_set, settings.distil, run)) is not None:
        lists = judged_lists(study, judge, run, progress)
        return questions_of_lists(study, dense, lists, progress), {"run": lists.run, "fingerprint": lists.digest}
    assert training_set is not None
    opened = TrainingSet.open(study, training_set)
    questions = read_questions(study, dense, opened, progress)
    return questions, {"training_set": training_set, "fingerprint": opened.manifest["fingerprint"]}


def questions_of_lists(
    study: Study,
    dense: Dense,
    lists: JudgedLists,
    progress: Progress | None = None,
    list_depth: int = TAUGHT_RANKS,
    sharpness: float = SHARPNESS,
) -> TrainingQuestions:
    """Return the questions of judged lists: each learns the judge's distribution over the first ranks of its list."""
    vectors = question_vectors(study, dense, [question.text for question in lists.questions], progress)
    rows, log_odds = lists.rows[:, :list_depth], sharpness * lists.log_odds[:, :list_depth]
    return TrainingQuestions(vectors, rows, np.empty((len(rows), 0), np.int64), log_odds)


def read_questions(
    study: Study, dense: Dense, training_set: TrainingSet, progress: Progress | None = None
) -> TrainingQuestions:
    """Return the questions of a training set that have a positive, with the rows of their positives and hard negatives.

    Raises Refused if there is no such question.
    """
    questions = []
    for question, positives, negatives in training_set.examples(hard=True):
        known = dict.fromkeys(pair.passage for pair in positives)
        if known:
            questions.append((question, list(known), [pair.passage for pair in negatives if pair.passage not in known]))
    if not questions:
        raise Refused(
            f"training set {training_set.name!r} has no question with a positive; there is nothing to learn from"
        )
    rows = study.corpus.ordinals({id for _, *both in questions for ids in both for id in ids})
    texts = [question.text for question in study.questions.with_ids([id for id, _, _ in questions])]
    return TrainingQuestions(
        question_vectors(study, dense, texts, progress),
        pad_rows([[rows[id] for id in positives] for _, positives, _ in questions]),
        pad_rows([[rows[id] for id in negatives] for _, _, negatives in questions]),
    )


def _save_adapted_encoder(dense: Dense, question_map: Module, folder: Path) -> None:
    """Save the base model and the map as one sentence-transformers folder, using only modules of that library."""
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
    router = Router.for_query_document([*question, as_dense_module(question_map), *ending], list(passage))
    whole = dense.encoder.model
    model = SentenceTransformer(
        modules=[router],
        prompts={name: prompt for name, prompt in whole.prompts.items() if prompt},
        default_prompt_name=whole.default_prompt_name,
        similarity_fn_name="cosine" if dense.unit_length else "dot",
    )
    model.save(str(folder))
