"""The common interface of all kinds of judges. All store their scores in the same way
(`blindspot.backend.judges.scores`).

A judge gives the probability that a passage answers a question. A kind of judge is registered in the module that
defines it. An installed package adds kinds through the entry point group `blindspot.judges`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np

from blindspot.backend.core.manifest import Manifest, read_manifest
from blindspot.backend.core.registry import Registry, instance_check
from blindspot.backend.core.settings import check_name
from blindspot.backend.core.study import Study
from blindspot.backend.judges.lists import Lists, score_hits
from blindspot.backend.judges.scores import ScoreStore
from blindspot.backend.progress import Progress
from blindspot.db.errors import Missing, Refused


class Judge(Protocol):
    """An open judge.

    calibrated: whether its probabilities are calibrated on labels.
    """

    @property
    def name(self) -> str: ...

    @property
    def calibrated(self) -> bool: ...

    def judge(self, lists: Lists, progress: Progress | None = None) -> np.ndarray:
        """Return (q, k) float64 probabilities of the hits of some lists; NaN where padded."""
        ...


@dataclass(frozen=True, slots=True)
class JudgeCard:
    """A judge's description, read without opening the judge.

    Attributes:
        kind: the name of its kind.
        learned_from: the run or training set.
        calibrated: as in `Judge`.
        base_rate: share of positives in the lists that it was calibrated on; None if unknown.
        scored: whether the study has its scores.
    """

    name: str
    kind: str
    learned_from: str
    calibrated: bool
    base_rate: float | None
    scored: bool


class JudgeKind(ABC):
    """A kind of judge: lists the judges of this kind in a study, opens them, and names the job that stores a judge's
    scores for a run.

    run_job: a registered job that takes (study, judge, run) and stores probabilities in `scores/<judge>/`; None for a
    kind whose
        scores come from elsewhere.
    scores_any_pair: an open judge scores pairs that it has never seen, at no cost but time. The probabilities of other
    judges are read from `scores/`.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    help: ClassVar[str]
    run_job: ClassVar[Callable[..., dict[str, Any]] | None]
    scores_any_pair: ClassVar[bool] = True

    @abstractmethod
    def cards(self, study: Study) -> list[JudgeCard]:
        """Return the judges of this kind in a study."""

    @abstractmethod
    def open(self, study: Study, name: str, device: str | None = None) -> Judge:
        """Open a judge. Raises Missing if there is no judge of that name, and Refused if it was made for another
        collection.
        """


class StoredJudge:
    """A judge that scores no new pair: it only has the scores of `scores/<name>/`. Raises Missing if there are none."""

    def __init__(self, study: Study, name: str):
        self.study, self.name = study, name
        self._store = ScoreStore.open(study, name)
        self.calibrated = bool(self._store.manifest["calibrated"])

    def judge(self, lists: Lists, progress: Progress | None = None) -> np.ndarray:
        """Return the stored scores, (q, k) float64; NaN where padded, and for pairs without a score."""
        known = self._store.scores_of(question.id for question in lists.questions)
        return score_hits(
            self.study, lists, lambda pairs: [known.get(q.id, {}).get(passage.id, np.nan) for q, passage in pairs]
        )


class StoredJudgeKind(JudgeKind):
    """A kind whose judges have a folder in judges/ with a manifest, and only have scores for pairs that they have
    already judged.
    """

    scores_any_pair = False

    def cards(self, study: Study) -> list[JudgeCard]:
        scored = study.parts("scores")
        return [self.card(name, about, name in scored) for name, about in stored_judges(study, self.name).items()]

    def open(self, study: Study, name: str, device: str | None = None) -> Judge:
        if stored_manifest(study, name, self.name) is None:
            raise Missing(f"there is no judge {name!r} of the kind {self.title!r}")
        return StoredJudge(study, name)

    @abstractmethod
    def card(self, name: str, manifest: Manifest, has_scores: bool) -> JudgeCard:
        """Return the card of a judge. manifest: its manifest. has_scores: whether the study has its scores."""

    def thresholds(self, manifest: Manifest) -> tuple[float, float]:
        """Return two thresholds: a passage with a score below the first is a negative, and from the second on a
        positive.
        """
        return 0.5, 0.5


JUDGES: Registry[JudgeKind] = Registry(
    "kind of judge",
    modules=(
        "blindspot.backend.judges.feature_judge",
        "blindspot.backend.training.scoring",
        "blindspot.backend.judges.llm.judging",
        "blindspot.backend.judges.imported",
    ),
    group="blindspot.judges",
    check=instance_check(JudgeKind),
)


def stored_judges(study: Study, kind: str) -> dict[str, Manifest]:
    """Return the manifests of the judges of a kind in judges/, by name, oldest first."""
    return {name: about for name, about in study.parts("judges").items() if about.get("kind") == kind}


def stored_manifest(study: Study, name: str, kind: str) -> Manifest | None:
    """Return the manifest of a judge in judges/; None if there is none of this name and kind."""
    about = read_manifest(study.path("judges", check_name(name, "judge")))
    return about if about is not None and about.get("kind") == kind else None


def stored_thresholds(study: Study, name: str) -> tuple[float, float] | None:
    """Return `StoredJudgeKind.thresholds` of a judge; None if no judge in judges/ has this name."""
    about = read_manifest(study.path("judges", check_name(name, "judge")))
    kind = JUDGES.get(about["kind"]) if about is not None else None
    return kind.thresholds(about) if about is not None and isinstance(kind, StoredJudgeKind) else None


def judges_of(study: Study) -> list[JudgeCard]:
    """Return the cards of all judges in a study, grouped by kind."""
    return [card for kind in JUDGES for card in kind.cards(study)]


def unknown_judges(study: Study) -> dict[str, str]:
    """Return one line about each stored judge whose kind is not registered, by name.

    Such a judge was made by a package that is not installed. Its scores can still be
    used.
    """
    return {
        name: f"{about.get('kind')}, a kind of judge whose package is not installed; "
        "its stored scores can still be used"
        for name, about in study.parts("judges").items()
        if about.get("kind") not in JUDGES
    }


def kind_title(kind: str) -> str:
    """Return the title of a kind of judge; an unknown kind is returned unchanged."""
    return JUDGES.get(kind).title if kind in JUDGES else kind


def judge_kind_of(study: Study, name: str) -> JudgeKind:
    """Return the kind of a judge. Raises Missing for an unknown judge (the message lists the existing ones), and
    Refused if its kind is not registered.
    """
    cards = judges_of(study)
    for card in cards:
        if card.name == name:
            return JUDGES.get(card.kind)
    if line := unknown_judges(study).get(name):
        raise Refused(f"{name}: {line}")
    known = ", ".join(card.name for card in cards)
    raise Missing(
        f"there is no judge {name!r}; "
        + (f"judges here: {known}" if known else f"learn one with 'blindspot judge learn {name} --run RUN'")
    )


def new_model_folder(study: Study, name: str, replace: bool) -> Path:
    """Return the folder for a new model. Raises Refused if a model of this name exists and `replace` is false, or if a
    judge without a model has this name, whose scores those of the model would overwrite.
    """
    target = study.path("models", check_name(name, "model"))
    if study.path("judges", name).exists():
        raise Refused(f"there is already a judge named {name!r}; choose another name")
    if target.exists() and not replace:
        raise Refused(f"there is already a model named {name!r}; choose another name, or replace it")
    return target


def grade_score(grade: int, positive_from: int, top: int) -> float:
    """Convert a grade from 0 to `top` to a score from 0 to 1. Positive grades are above 0.5, the others below."""
    if grade >= positive_from:
        return 0.5 + 0.5 * (grade - positive_from + 1) / (top - positive_from + 1)
    return 0.5 * grade / positive_from


def refuse_taken(study: Study, name: str, kind: str, replace: bool) -> None:
    """Raise Refused if the name is taken by something else, or by a judge of this kind and `replace` is false."""
    taken = next((card for card in judges_of(study) if card.name == name), None)
    if taken is None and not any(study.path(part, name).exists() for part in ("judges", "scores", "models")):
        return
    if taken is None or taken.kind != kind:
        raise Refused(f"there is already a model or judge named {name!r}; choose another name")
    if not replace:
        raise Refused(f"there is already a judge named {name!r}; choose another name, or give --replace")
