"""Cross-encoders as a kind of judge (see `blindspot.backend.judges.judge`)."""

from __future__ import annotations

import numpy as np

from blindspot.backend.core.manifest import read_object
from blindspot.backend.core.study import Study
from blindspot.backend.judges.judge import JUDGES, JudgeCard, JudgeKind
from blindspot.backend.judges.lists import Lists
from blindspot.backend.progress import Progress
from blindspot.backend.training.scoring import CALIBRATION, PER_STEP, CrossEncoderScorer, score_run

TRAINING = "training.json"


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
            places = np.argwhere(lists.rows[begin : begin + PER_STEP] >= 0) + [begin, 0]
            rows = lists.rows[places[:, 0], places[:, 1]].tolist()
            passages = self.study.corpus.passages(rows)
            pairs = [(lists.questions[i].text, p) for i, p in zip(places[:, 0].tolist(), passages, strict=True)]
            probabilities[places[:, 0], places[:, 1]] = self.scorer.score(pairs)
        return probabilities


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
