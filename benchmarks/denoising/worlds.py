"""The two collections on which retrievers are compared. Each is prepared step by step; finished steps are skipped."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.denoising import plan
from benchmarks.denoising.planted import annotate, moved, prepared, truth_of
from benchmarks.denoising.retrievers import Bench, set_name
from blindspot.analysis.buckets import bucket_group, bucket_order
from blindspot.backend.core.study import Study
from blindspot.backend.progress import Progress
from blindspot.backend.training_sets.training_set import TrainingSet
from blindspot.db.records import Question

Say = Callable[[str], None]


def encyclopedia_bench(folder: Path, policies: Sequence[str], device: str | None, say: Say) -> Bench:
    """Prepare the encyclopedia, labels, a training set of each policy, and a judge if a policy needs one."""
    from benchmarks.denoising.finding import find

    study, told = prepared(folder, plan.PASSAGES, plan.ENCYCLOPEDIA_SEED), _told(say)
    truth = truth_of(study)
    _run(study)
    annotate(study, _set(study, "none", None), truth)
    judge = _judged(study, device, told) if any("cross_encoder" in policy for policy in policies) else None
    for policy in policies:
        _set(study, policy, judge if "cross_encoder" in policy else None)
    questions = _questions(study, plan.MEASURED)

    known = study.corpus.ordinals({passage for question in questions for passage in truth[question.id]})
    answering = [[known[passage] for passage in truth[question.id]] for question in questions]

    def relevant(cell: Path) -> np.ndarray:
        return np.array(
            [np.isin(row, right) for row, right in zip(np.load(cell / "ordinals.npy"), answering, strict=True)]
        )

    return Bench(
        folder,
        study,
        plan.DUAL,
        questions,
        lambda encoder, into: find(study, encoder, questions, max(plan.KS), into, device, told),
        relevant,
    )


def _judged(study: Study, device: str | None, told: Progress) -> str:
    """Train a cross-encoder without labels, as in step 2 of the recipe, and score all mined passages."""
    from blindspot.backend.recipes.settings import JUDGED_POLICY, SMALL_CROSS
    from blindspot.backend.training.cross_encoder import train_cross_encoder
    from blindspot.backend.training.scoring import score_run

    _set(study, JUDGED_POLICY, None, f"{plan.JUDGE}-set", random=plan.LAST - plan.MINED)
    if not (study.path("models", plan.JUDGE) / "training.json").is_file():
        train_cross_encoder(
            study, plan.JUDGE, f"{plan.JUDGE}-set", settings={**SMALL_CROSS, **plan.CROSS}, device=device, progress=told
        )
    score_run(study, plan.JUDGE, plan.RUN, plan.MINED, device, told)
    return plan.JUDGE


def real_bench(folder: Path, data: Path, device: str | None, say: Say) -> Bench:
    """Prepare the questions of EntityQuestions that 100,000 Wikipedia passages answer, with one gold passage each, and
    MiniLM vectors of the passages.
    """
    study, told = _real_study(folder, data, device), _told(say)
    _run(study)
    for policy in plan.REAL_POLICIES:
        _set(study, policy, None)
    questions = _questions(study, plan.REAL_MEASURED)

    def find(encoder: Any, into: Path) -> None:
        from blindspot.backend.retrieval.encoder import load_encoder
        from blindspot.backend.retrieval.search import ExactSearch
        from blindspot.backend.text.answers import match_run

        vectors = np.load(study.path("indexes", "minilm", "embeddings.npy"), mmap_mode="r")
        asked = load_encoder(encoder, device).encode_questions([question.text for question in questions])
        hits = ExactSearch(vectors, "dot", device).search(asked, max(plan.KS), told)
        np.save(into / "ordinals.npy", hits.ordinals)
        np.save(into / "answers.dpr.npy", match_run(study.corpus, questions, hits.ordinals))

    return Bench(folder, study, plan.REAL_DUAL, questions, find, lambda cell: np.load(cell / "answers.dpr.npy"))


def buckets(questions: Sequence[Question]) -> dict[str, np.ndarray]:
    """Return groups by mentions of the subject, from rare to frequent, (q,) bool."""
    names = np.array([bucket_group(question.bucket, question.frequency) for question in questions])
    return {name: names == name for name in sorted(set(names.tolist()), key=bucket_order)}


def _real_study(folder: Path, data: Path, device: str | None) -> Study:
    from blindspot.backend.data.importing.importer import import_frequencies, import_passages, import_questions
    from blindspot.backend.retrieval import bm25, dense

    if (folder / "study").is_dir():
        return Study.open(folder / "study")
    shutil.rmtree(folder / "unfinished", ignore_errors=True)
    study = Study.create(folder / "unfinished", "EntityQuestions")
    import_passages(study, str(data / "passages_100k.tsv.xz"))
    import_questions(study, str(data / "questions.jsonl.xz"), gold="one")
    import_frequencies(study, str(data / "entity_mentions.tsv.xz"))
    bm25.build_index(study)
    dense.build_index(study, "minilm", data / "minilm_passages.npy", device)
    return moved(study, folder / "study")


def _run(study: Study) -> None:
    from blindspot.backend.retrieval.retrieve import retrieve

    if plan.RUN not in study.runs():
        retrieve(study, "bm25", split="train", k=plan.LAST, name=plan.RUN)


def _set(study: Study, policy: str, model: str | None, name: str | None = None, random: int = 0) -> TrainingSet:
    from blindspot.backend.training_sets.builder import build

    name = name or set_name(policy)
    if name in study.parts("training_sets"):
        return TrainingSet.open(study, name)
    return build(study, name, [plan.RUN], policy=policy, model=model, first=plan.FIRST, last=plan.MINED, random=random)


def _questions(study: Study, splits: Sequence[str]) -> list[Question]:
    from blindspot.backend.core.splits import questions_in_split

    return [question for split in splits for question in questions_in_split(study, split)]


def _told(say: Say) -> Progress:
    return lambda done, total, doing: say(f"{doing} {done} of {total or '?'}")
