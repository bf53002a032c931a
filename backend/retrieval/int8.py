"""What 8-bit integers cost a dense index, measured before they are believed.

The loss depends on the model and on the texts, so it is measured on the study itself: how far the vectors move, and
how many dev questions still find their gold passage, among a sample of passages.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from blindspot.analysis.significance import difference
from blindspot.backend.core.manifest import read_json, write_json
from blindspot.backend.progress import Progress
from blindspot.backend.retrieval.encoder import Encoder
from blindspot.backend.retrieval.passage_encoder import PassageEncoder
from blindspot.db.errors import Refused
from blindspot.db.records import Question

if TYPE_CHECKING:
    from blindspot.backend.core.study import Study

QUESTIONS, PASSAGES, KS, SEED = 500, 2000, (1, 20), 0
MIN_MEAN_COSINE = 0.98
MOST_LOST = 0.02
"""int8 is refused if more than this share of questions may be lost: the lower end of the interval, at 1 or 20."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Success@k of int8 less that of float32, over the same questions and passages, with its 95% interval."""

    k: int
    n: int
    float32: float
    int8: float
    difference: float
    low: float
    high: float


def int8_loss(
    study: Study, encoder: Encoder, int8: PassageEncoder, file: Path, progress: Progress | None = None
) -> dict:
    """Measure the loss of int8, and keep it in `file` for a resumed encoding.

    Up to 500 dev questions with gold and their gold passages are drawn with seed 0, and other passages up to 2,000 in
    all. Both precisions search these passages.

    Returns:
        cosine_mean, cosine_min of the int8 vectors to the float32 vectors; passages; success: a `Loss` for each k in
        `KS`, none without dev questions with gold.

    Raises Refused if the loss is above `MIN_MEAN_COSINE` or `MOST_LOST`.
    """
    about = {"model_hash": encoder.model_hash, "corpus": study.corpus.digest}
    known = read_json(file) if file.is_file() else None
    if isinstance(known, dict) and known.get("about") == about:
        return _accepted(known["loss"])
    questions, gold = _dev_questions(study)
    rows = _pool(len(study.corpus), gold)
    if progress is not None:
        progress(0, len(rows), "measuring what int8 loses")
    passages = study.corpus.passages(rows.tolist())
    exact = encoder.encode_passages(passages)
    ours = int8.encode(int8.tokenise(passages)).float().numpy()
    norms = np.linalg.norm(exact, axis=1) * np.linalg.norm(ours, axis=1)
    cosines = (exact * ours).sum(1) / np.maximum(norms, 1e-12)
    loss = {
        "passages": len(rows),
        "cosine_mean": round(float(cosines.mean()), 5),
        "cosine_min": round(float(cosines.min()), 5),
        "success": [],
    }
    if questions:
        vectors = encoder.encode_questions([question.text for question in questions])
        relevant = [np.flatnonzero(np.isin(rows, own)) for own in gold]
        first = [_first_gold(vectors, found, relevant, encoder.similarity) for found in (exact, ours)]
        loss["success"] = [asdict(_loss(k, *(rank < k for rank in first))) for k in KS]
    file.parent.mkdir(parents=True, exist_ok=True)
    write_json(file, {"about": about, "loss": loss})
    return _accepted(loss)


def _dev_questions(study: Study) -> tuple[list[Question], list[list[int]]]:
    """Return up to `QUESTIONS` dev questions with gold, drawn with `SEED`, and the rows of the gold passages."""
    found = [question for question in study.questions.all(split="dev") if question.gold]
    chosen = np.random.default_rng(SEED).permutation(len(found))[:QUESTIONS]
    questions = [found[number] for number in sorted(chosen.tolist())]
    rows = study.corpus.ordinals({passage for question in questions for passage in question.gold})
    gold = [[rows[passage] for passage in question.gold if passage in rows] for question in questions]
    return questions, gold


def _pool(passages: int, gold: list[list[int]]) -> np.ndarray:
    """Return the rows of all gold passages and of others drawn with `SEED`, ascending."""
    wanted = {row for own in gold for row in own}
    for row in np.random.default_rng(SEED).permutation(passages).tolist():
        if len(wanted) >= min(PASSAGES, passages):
            break
        wanted.add(row)
    return np.array(sorted(wanted), np.int64)


def _first_gold(questions: np.ndarray, passages: np.ndarray, relevant: list[np.ndarray], similarity: str) -> np.ndarray:
    """Return (q,) the rank, from 0, of each question's first gold passage."""
    scores = questions @ passages.T
    if similarity == "l2":
        scores = 2 * scores - (passages**2).sum(1)
    best = np.array([row[own].max() if len(own) else -np.inf for row, own in zip(scores, relevant, strict=True)])
    return (scores > best[:, None]).sum(1)


def _loss(k: int, exact: np.ndarray, ours: np.ndarray) -> Loss:
    change = difference(ours.astype(float), exact.astype(float))
    value, low, high = (0.0 if each is None else float(each) for each in (change.value, change.low, change.high))
    return Loss(k, len(exact), float(exact.mean()), float(ours.mean()), value, low, high)


def _accepted(loss: dict) -> dict:
    if loss["cosine_mean"] < MIN_MEAN_COSINE:
        raise Refused(
            f"int8 moves this encoder's vectors too far: mean cosine {loss['cosine_mean']:.3f} to float32, at least "
            f"{MIN_MEAN_COSINE} is needed; use --precision auto"
        )
    for each in loss["success"]:
        if each["low"] < -MOST_LOST:
            raise Refused(
                f"int8 may lose too much: Success@{each['k']} {100 * each['difference']:+.1f} points "
                f"[{100 * each['low']:+.1f}, {100 * each['high']:+.1f}] on {each['n']} dev questions, at most "
                f"{100 * MOST_LOST:.0f} may be lost; use --precision auto"
            )
    return loss
