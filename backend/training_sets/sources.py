"""Read the sources of a training set when its build starts: runs, scores, questions without leaks, and
people's labels.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from blindspot.backend.core.manifest import file_sha256, text_sha256
from blindspot.backend.core.runs import Run
from blindspot.backend.core.study import Study
from blindspot.backend.data.leaks import EligibleQuestions, eligible_questions
from blindspot.backend.judges.scores import ScoreStore
from blindspot.backend.progress import Progress
from blindspot.backend.training_sets.spec import TrainingSetSpec
from blindspot.db.errors import Missing
from blindspot.db.labels import Labels

VERSION = 2
"""Version of the method that builds pairs; it is part of the fingerprint."""
NOT_SEARCHED = "no run searched it"


@dataclass(frozen=True, slots=True)
class TrainingSetSources:
    """The sources of a training set, read when the build starts. labels: question to passage to label; "open" if people
    disagree.
    """

    runs: list[Run]
    scores: ScoreStore | None
    questions: list[str]
    left_out: dict[str, str]
    labels: dict[str, dict[str, str]]
    about: dict[str, Any]
    fingerprint: str

    @classmethod
    def read_sources(
        cls, study: Study, spec: TrainingSetSpec, scores: ScoreStore | None, progress: Progress | None
    ) -> TrainingSetSources:
        if progress:
            progress(0, None, "looking for leaks")
        runs = [study.run(name) for name in dict.fromkeys(spec.runs)]
        last, labels, bad = _labels(study, spec)
        chosen = eligible_questions(study, spec.questions, bad, spec.relations, spec.limit, spec.seed)
        questions, left_out = _searched_questions(runs, chosen)
        about = {
            "corpus": study.corpus.digest,
            "questions": chosen.digest,
            "runs": {run.name: _run_hash(run) for run in runs},
            "labels": {"last_event": last, "used": spec.cleaning.labels},
            "scores": None if scores is None else {"model": scores.model, "digest": scores.digest},
        }
        # Labels given in the meantime matter only if the policy uses labels.
        request = {key: value for key, value in spec.as_dict().items() if key not in ("name", "until")}
        inputs = {**about, "labels": last if spec.cleaning.labels else None, "left_out": sorted(left_out.items())}
        return cls(
            runs,
            scores,
            questions,
            left_out,
            labels,
            about,
            text_sha256(str(VERSION), json.dumps([request, inputs], sort_keys=True)),
        )


def _labels(study: Study, spec: TrainingSetSpec) -> tuple[int, dict[str, dict[str, str]], set[str]]:
    """Return the last event used, people's labels by question and passage, and the questions that people
    marked as bad.
    """
    store = Labels(study.labels_path, read_only=True)
    last = store.last_event if spec.until is None else min(spec.until, store.last_event)
    if not spec.cleaning.labels:
        return last, {}, set()
    by_question: dict[str, dict[str, str]] = defaultdict(dict)
    for pair in store.consensus_as_of(last):
        by_question[pair.question][pair.passage] = pair.label or "open"
    return last, by_question, store.bad_questions_as_of(last)


def _searched_questions(runs: Sequence[Run], eligible: EligibleQuestions) -> tuple[list[str], dict[str, str]]:
    questions = [id for id in eligible.ids if not runs or any(run.row(id) is not None for run in runs)]
    if eligible.ids and not questions:
        names = ", ".join(run.name for run in runs)
        raise Missing(
            f"{names} searched none of the {len(eligible.ids):,} questions that may train; make a run over them with "
            "'blindspot retrieve --split train'"
        )
    return questions, eligible.left_out | dict.fromkeys(set(eligible.ids).difference(questions), NOT_SEARCHED)


def _run_hash(run: Run) -> str:
    return text_sha256(*(file_sha256(run.folder / name) for name in ("questions.json", "ordinals.npy", "scores.npy")))
