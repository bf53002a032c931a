"""Score passages with a trained cross-encoder: logits and probabilities of pairs, or all passages of a run. A
cross-encoder is a kind of judge (see `blindspot.backend.judges.judge`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from blindspot.backend.core.jobs import job
from blindspot.backend.core.manifest import read_object
from blindspot.backend.core.model_files import open_model, readable_model
from blindspot.backend.core.study import Study
from blindspot.backend.judges.calibration import (
    ProbabilityCalibration,
    brier_score,
    cross_validated_probabilities,
    fit,
    measure_thresholds,
    reliability,
)
from blindspot.backend.judges.judge import JUDGES, JudgeCard, JudgeKind
from blindspot.backend.judges.lists import Lists, judge_lists, score_hits
from blindspot.backend.judges.scores import ScoreStore
from blindspot.backend.progress import Progress
from blindspot.backend.training.checkpoints import uses_bfloat16
from blindspot.backend.training.training_settings import Precision
from blindspot.db.errors import Missing, Refused
from blindspot.db.records import Passage

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder

TRAINING, CALIBRATION = "training.json", "calibration.json"
TEMPLATE = "{title} [SEP] {text}"
PER_STEP = 8  # questions whose pairs are scored, and stored, together


@dataclass(frozen=True, slots=True)
class LabelledPair:
    """A (question, passage) pair that is known to be positive or negative."""

    question_id: str
    question: str
    passage: Passage
    positive: bool


def logits(
    model: CrossEncoder, pairs: Sequence[tuple[str, Passage]], batch: int = 32, precision: Precision = "auto"
) -> np.ndarray:
    """Return the raw scores (logits) of (question, passage) pairs, (n,) float64."""
    import torch

    if not pairs:
        return np.zeros(0)
    texts = [(question, TEMPLATE.format(title=passage.title, text=passage.text)) for question, passage in pairs]
    device = torch.device(model.device).type
    with torch.autocast(device, torch.bfloat16, enabled=uses_bfloat16(precision, device)):
        predictions = model.predict(
            texts,
            batch_size=batch,
            activation_fn=torch.nn.Identity(),
            show_progress_bar=False,
            convert_to_numpy=False,
            convert_to_tensor=True,
        )
    return predictions.double().cpu().numpy().reshape(len(pairs))


def calibrate(
    model: CrossEncoder,
    pairs: Sequence[LabelledPair],
    method: str = "auto",
    seed: int = 0,
    base_rate: float | None = None,
) -> dict:
    """Calibrate on labelled pairs outside the training data. Returns the content of calibration.json.

    Args:
        base_rate: share of positives among what the model will score; the probabilities are corrected to it. None: as
            among the pairs.

    Raises:
        Refused: the pairs are of one class.
    """
    positive = np.array([pair.positive for pair in pairs], bool)
    scores = logits(model, [(pair.question, pair.passage) for pair in pairs])
    fitted = fit(scores, positive, method)
    questions = [pair.question_id for pair in pairs]
    apart = cross_validated_probabilities(scores, positive, questions, fitted.method, seed)
    shown = fitted(scores) if apart is None else apart
    rate = float(positive.mean())
    return {
        **asdict(fitted if base_rate is None else correct_base_rate(fitted, rate, base_rate)),
        "base_rate": rate if base_rate is None else base_rate,
        "pairs": len(pairs),
        "positives": int(positive.sum()),
        "questions": len(set(questions)),
        "measured_on": "the pairs it was fitted to: too few for more"
        if apart is None
        else "pairs that the fit did not see, by folds",
        "brier": brier_score(shown, positive),
        "thresholds": measure_thresholds(shown, positive),
        "reliability": reliability(shown, positive),
    }


def correct_base_rate(
    calibration: ProbabilityCalibration, fitted_at: float, base_rate: float
) -> ProbabilityCalibration:
    """Return a calibration whose odds are corrected from one share of positives to another (Saerens et al. 2002).

    This is correct if the distributions of the scores of positives and of negatives are the same where the calibration
    was fitted and where it is used.
    """
    ratio = (base_rate / (1 - base_rate)) / (fitted_at / (1 - fitted_at))
    if calibration.method == "isotonic":
        points = tuple((x, ratio * y / (ratio * y + 1 - y)) for x, y in calibration.points)
        return replace(calibration, points=points)
    return replace(calibration, intercept=calibration.intercept + float(np.log(ratio)))


class CrossEncoderScorer:
    """A trained cross-encoder that gives probabilities.

    calibrated: False if there was nothing to calibrate on; probabilities are then the plain logistic of the scores.
    """

    def __init__(self, folder: Path, device: str | None = None):
        """Open the scorer and check its folder. Raises Missing if it has no cross-encoder trained by Blindspot."""
        from sentence_transformers import CrossEncoder

        about = read_object(folder / TRAINING) if (folder / TRAINING).is_file() else {}
        if about.get("kind") != "cross-encoder":
            raise Missing(f"{folder} holds no cross-encoder; train one with 'blindspot train cross-encoder'")
        self.name, self.about = folder.name, about
        opened = open_model(about.get("ready", folder))
        if "ready" in about and weights_hash(Path(opened.path)) != about["model_hash"]:
            raise Refused(f"{about['ready']} has changed since it was added as {folder.name!r}; add it again")
        with readable_model(opened.path):
            self.model = CrossEncoder(opened.path, device=device, **opened.sentence_transformers)
        path = folder / CALIBRATION
        self.report = read_object(path) if path.is_file() else None
        self.calibrated = self.report is not None
        self.probabilities = (
            ProbabilityCalibration("platt")
            if self.report is None
            else ProbabilityCalibration(
                self.report["method"],
                self.report["slope"],
                self.report["intercept"],
                tuple(map(tuple, self.report["points"])),
            )
        )

    def score(self, pairs: Sequence[tuple[str, Passage]], batch: int = 32, precision: Precision = "auto") -> np.ndarray:
        """Return the probability that each passage answers its question, (n,) float64."""
        return self.probabilities(logits(self.model, pairs, batch, precision))


def weights_hash(folder: Path) -> str:
    """Return the SHA-256 of the files that influence the scores."""
    whole = hashlib.sha256()
    for path in sorted([*folder.rglob("*.safetensors"), *folder.rglob("tokenizer.json")]):
        whole.update(json.dumps([str(path.relative_to(folder)), path.stat().st_size]).encode())
        with open(path, "rb") as file:
            whole.update(hashlib.file_digest(file, "sha256").digest())
    return whole.hexdigest()


class CrossEncoderJudge:
    """A trained cross-encoder as a `Judge`."""

    def __init__(self, study: Study, scorer: CrossEncoderScorer):
        self.study, self.scorer = study, scorer

    @property
    def name(self) -> str:
        return self.scorer.name

    @property
    def calibrated(self) -> bool:
        return self.scorer.calibrated

    def judge(self, lists: Lists, progress: Progress | None = None) -> np.ndarray:
        """Return (q, k) float64 probabilities; NaN where padded."""
        probabilities = np.full(lists.rows.shape, np.nan)
        for begin in range(0, len(lists.questions), PER_STEP):
            if progress is not None:
                progress(begin, len(lists.questions), f"judging passages with {self.name}")
            block = slice(begin, begin + PER_STEP)
            part = Lists(lists.questions[block], lists.rows[block], lists.scores[block])
            probabilities[block] = score_hits(
                self.study, part, lambda pairs: self.scorer.score([(question.text, p) for question, p in pairs])
            )
        return probabilities


@job("score run", extras=("dense",))
def score_run(
    study: Study, model: str, run: str, depth: int = 100, device: str | None = None, progress: Progress | None = None
) -> dict:
    """Score the top `depth` passages of each question of a run, and store the probabilities (a job).

    Pairs with a stored probability are skipped.

    Raises:
        Missing: no such model or run.
    """
    opened, scorer = study.run(run), CrossEncoderScorer(study.path("models", model), device)
    store = ScoreStore.create(study, model, scorer.calibrated, {"model_hash": scorer.about["model_hash"]})
    judge = CrossEncoderJudge(study, scorer).judge
    judged = judge_lists(study, store, opened, depth, judge, PER_STEP, progress=progress)
    return {"name": model, "run": run, "scored": judged["pairs"], "kept": len(store)}


class CrossEncoderKind(JudgeKind):
    name, title = "cross-encoder", "cross-encoder"
    help = "a trained model that reads question and passage together"
    run_job = staticmethod(score_run)

    def cards(self, study: Study) -> list[JudgeCard]:
        folder = study.path("models")
        scored = study.parts("scores")
        cards = []
        for path in sorted(folder.glob(f"*/{TRAINING}")) if folder.is_dir() else []:
            about = read_object(path)
            if about.get("kind") != self.name:
                continue
            name, calibration = path.parent.name, path.parent / CALIBRATION
            report = read_object(calibration) if calibration.is_file() else None
            base_rate = None if report is None else report.get("base_rate")
            learned_from = str(about.get("training_set") or "")
            cards.append(JudgeCard(name, self.name, learned_from, report is not None, base_rate, name in scored))
        return cards

    def open(self, study: Study, name: str, device: str | None = None) -> CrossEncoderJudge:
        return CrossEncoderJudge(study, CrossEncoderScorer(study.path("models", name), device))


JUDGES.register(CrossEncoderKind())
