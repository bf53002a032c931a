"""The feature judge: a model that is trained on features of a run's hits, stored in `models/<name>/`, and applied to
other runs.

A judge is stored as arrays and JSON, so opening it takes milliseconds and cannot run code.
"""

from __future__ import annotations

import json
import time
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from blindspot.backend.core.declared import build_settings
from blindspot.backend.core.gold import gold_matrix
from blindspot.backend.core.jobs import job
from blindspot.backend.core.manifest import atomic_folder, read_json, write_json
from blindspot.backend.core.runs import Run
from blindspot.backend.core.sampling import nested_sample
from blindspot.backend.core.settings import check_name
from blindspot.backend.core.study import Study
from blindspot.backend.data.leaks import eligible_questions
from blindspot.backend.judges.calibration import ProbabilityCalibration
from blindspot.backend.judges.feature_model import (
    NEGATIVE,
    POSITIVE,
    RANK,
    UNKNOWN,
    Examples,
    FeatureJudgeSettings,
    FeatureModel,
    fit_model,
    report,
)
from blindspot.backend.judges.features import FEATURES, WordWeights, feature_matrix
from blindspot.backend.judges.judge import JUDGES, JudgeCard, JudgeKind, new_model_folder
from blindspot.backend.judges.lists import (
    QUESTIONS_PER_STEP,
    Lists,
    judge_lists,
    lists_of,
    refuse_other_retriever,
    scored_rows,
)
from blindspot.backend.judges.scorers import from_arrays, to_arrays
from blindspot.backend.judges.scores import ScoreStore
from blindspot.backend.judges.settings import RERANK_DEPTH
from blindspot.backend.progress import Progress
from blindspot.backend.retrieval.dense import Dense
from blindspot.backend.retrieval.question_vectors import question_vectors
from blindspot.backend.retrieval.retriever import kind_of_run
from blindspot.db.errors import BadInput, Missing, Refused
from blindspot.db.judgements import Consensus
from blindspot.db.labels import Labels
from blindspot.db.records import Question

KIND = "feature-judge"
ABOUT, MODEL, WORDS = "training.json", "model.npz", "words.json"
MAXIMUM_QUESTIONS = 2000  # more lists than these add nothing that could be measured on real data
REFERENCE_LISTS = 200  # lists that standardise features
SELDOM_RIGHT = 30  # below this rank about 1% of the passages answer on real data


@dataclass(frozen=True)
class LearnedJudge:
    """The result of `learn_judge`: the judge's name and its cross-validated quality."""

    name: str
    report: dict[str, Any]
    seconds: float


@job("learn judge", extras=("judges",))
def learn_judge(
    study: Study,
    name: str,
    run: str,
    encoder: str | None = None,
    settings: dict[str, Any] | None = None,
    replace: bool = False,
    progress: Progress | None = None,
) -> LearnedJudge:
    """Train a judge on the labelled training questions of a run, and store its probabilities for their hits.

    People's labels take precedence over gold. Dev and test questions, and questions that leak from them, are left out.

    run: a run over training questions, by the retriever whose lists will be judged. encoder: its dense index provides the
    semantic features; None for no such features. settings: differences from the defaults of `FeatureJudgeSettings`.

    Raises:
        Refused: a judge of that name exists, or there are too few labelled questions. Missing: no such run or index.
    """
    from blindspot.backend.judges.feature_cache import cached_features, word_weights

    started = time.monotonic()
    chosen = build_settings(FeatureJudgeSettings, settings or {})
    folder = new_model_folder(study, name, replace)
    opened = study.run(run)
    lists, truth, answers = labelled_lists(study, opened, chosen, progress)
    _, features = cached_features(study, opened, lists.questions, trained_ranks(chosen), encoder, progress)
    present = lists.rows >= 0
    others = reference_questions(study, opened, lists.questions)
    reference = cached_features(study, opened, others, trained_ranks(chosen), encoder, progress)[1] if others else None
    examples = examples_of(lists, features, truth, answers, reference)
    if progress is not None:
        progress(0, None, "learning")
    model, out_of_fold = fit_model(examples, chosen)
    about = {
        "kind": KIND,
        "name": name,
        "run": run,
        "retriever": opened.manifest["retriever"],
        **_retriever_of(opened),
        "encoder": encoder,
        "corpus": study.corpus.digest,
        "label_events": Labels(study.labels_path).last_event,
        "calibration": asdict(model.calibration),
        "rerank_depth": lists.rows.shape[1],
        **report(examples, model, out_of_fold, chosen),
    }
    weights = word_weights(study)
    with study.lock_part(f"models/{name}"), atomic_folder(folder) as building:
        arrays = {"columns": model.columns, "feature_medians": model.medians, **to_arrays(model.scorer)}
        np.savez(building / MODEL, **arrays)  # type: ignore[arg-type]  # no array is called allow_pickle
        write_json(building / WORDS, {"passages": weights.passages, "frequencies": weights.frequencies})
        write_json(building / ABOUT, about)
    probabilities = np.full(lists.rows.shape, np.nan)
    probabilities[present] = out_of_fold
    _store_out_of_fold(study, name, lists, probabilities, replace)
    return LearnedJudge(name, about, round(time.monotonic() - started, 1))


def _retriever_of(run: Run) -> dict[str, Any]:
    """Return the name and options of the retriever that made a run. A reranker with this judge opens the same
    retriever.
    """
    kind = kind_of_run(run.manifest)
    if kind is None:
        return {}
    return {
        "retriever_name": kind.retriever_of(run.manifest),
        "retriever_options": kind.options_of_run(run.manifest),
    }


def labelled_lists(
    study: Study, run: Run, settings: FeatureJudgeSettings, progress: Progress | None = None
) -> tuple[Lists, np.ndarray, np.ndarray]:
    """Return the lists of a run's training questions, the labels (q, k) int8 of their hits, and which hits contain an
    answer.

    The label of a hit is determined in this order. If people labelled it, their label counts; "related" is NEGATIVE,
    and "unsure" and disputes are UNKNOWN. A gold passage is POSITIVE. A hit that contains an answer is UNKNOWN. If the
    question has neither gold passages nor answers, hits up to rank SELDOM_RIGHT are UNKNOWN. All other hits are
    NEGATIVE.
    """
    in_run = trainable_questions(study, run)
    by_people = settled_labels(Labels(study.labels_path).consensus(in_run))
    questions = [q for q in study.questions.with_ids(in_run) if q.gold or q.id in by_people]
    if not questions:
        raise Refused(
            f"run {run.name!r} holds no training question with gold passages or labels; retrieve over train, or "
            "label some"
        )
    # Every question that a person judged, and a sample of those with gold alone.
    sampled = set(nested_sample([q.id for q in questions if q.id not in by_people], MAXIMUM_QUESTIONS, settings.seed))
    questions = [q for q in questions if q.id in by_people or q.id in sampled]
    lists = lists_of(run, questions, trained_ranks(settings))
    return (lists, *labels_and_answers_of(study, run, lists, by_people, progress))


def trained_ranks(settings: FeatureJudgeSettings) -> int:
    """Return how many ranks of a list the judge is trained on: enough for judging and for reranking."""
    return max(settings.depth, RERANK_DEPTH)


def reference_questions(study: Study, run: Run, training_questions: Sequence[Question]) -> list[Question]:
    """Return training questions whose lists are used only to standardise features; [] if the judge is already trained
    on enough lists.
    """
    if len(training_questions) >= REFERENCE_LISTS:
        return []
    known = {question.id for question in training_questions}
    more = [id for id in trainable_questions(study, run) if id not in known][
        : REFERENCE_LISTS - len(training_questions)
    ]
    return study.questions.with_ids(more)


def examples_of(
    lists: Lists,
    features: np.ndarray,
    truth: np.ndarray,
    answers: np.ndarray,
    reference: np.ndarray | None = None,
) -> Examples:
    """Flatten lists to training examples. features: (q, k, f). truth, answers: (q, k). reference: features (r, k, f) of
    other lists.
    """
    present = lists.rows >= 0
    numbers = np.broadcast_to(np.arange(len(lists.questions))[:, None], lists.rows.shape)
    flat = features[present]
    if reference is not None:
        reference = np.concatenate([flat, reference[~np.isnan(reference[:, :, RANK])]])
    return Examples(flat, truth[present], numbers[present].astype(np.int64), answers[present], reference)


def trainable_questions(study: Study, run: Run) -> list[str]:
    """Return the ids of a run's questions that may be used for training: those of the split train, without leaks and
    bad questions.
    """
    bad = frozenset(Labels(study.labels_path, read_only=True).bad_questions())
    eligible = set(eligible_questions(study, ["train"], bad).ids)
    return [id for id in run.question_ids if id in eligible]


def settled_labels(pairs: Iterable[Consensus]) -> dict[str, dict[str, int]]:
    """Convert people's labels to POSITIVE, NEGATIVE or UNKNOWN, by question and passage. "Related" becomes NEGATIVE;
    "unsure" and disputes become UNKNOWN.
    """
    by_question: dict[str, dict[str, int]] = {}
    for pair in pairs:
        settled = {"positive": POSITIVE, "negative": NEGATIVE, "related": NEGATIVE}.get(pair.label or "", UNKNOWN)
        by_question.setdefault(pair.question, {})[pair.passage] = settled
    return by_question


def labels_and_answers_of(
    study: Study, run: Run, lists: Lists, by_people: Mapping[str, Mapping[str, int]], progress: Progress | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the labels (q, k) int8 of the hits of some lists, and which hits contain an answer; see
    `labelled_lists`.
    """
    gold, _ = gold_matrix(study.corpus, lists.rows, lists.questions)
    answers = _answers(study, run, lists, progress)
    known = np.array([bool(q.gold or q.answers) for q in lists.questions], dtype=bool)[:, None]
    open_ranks = ~known & (np.arange(lists.rows.shape[1]) < SELDOM_RIGHT)
    truth = np.where(gold, POSITIVE, np.where(answers | open_ranks, UNKNOWN, NEGATIVE)).astype(np.int8)
    apply_labels(study, lists, by_people, truth)
    return truth, answers


def _answers(study: Study, run: Run, lists: Lists, progress: Progress | None) -> np.ndarray:
    """Return which hits contain an answer, (q, k) bool, from the run's stored answer matrix if there is one."""
    if run.rules:
        places = np.array([run.row(question.id) for question in lists.questions], dtype=np.int64)
        rule = run.manifest["rule"] if run.manifest.get("rule") in run.rules else run.rules[0]
        return np.asarray(run.answers(rule)[places, : lists.rows.shape[1]])
    from blindspot.backend.text.answers import match_run

    return match_run(study.corpus, lists.questions, lists.rows, progress=progress)


def apply_labels(study: Study, lists: Lists, by_people: Mapping[str, Mapping[str, int]], truth: np.ndarray) -> None:
    """Write people's labels of hits into `truth` (q, k), in place."""
    rows = study.corpus.ordinals({passage for labels in by_people.values() for passage in labels})
    for i, question in enumerate(lists.questions):
        for passage, label in by_people.get(question.id, {}).items():
            if passage in rows:
                truth[i, lists.rows[i] == rows[passage]] = label


def features_of(
    study: Study, lists: Lists, weights: WordWeights, dense: Dense | None, progress: Progress | None = None
) -> np.ndarray:
    """Return the features (q, k, f) float32 of some lists. The semantic features are NaN if there is no dense index."""
    texts = [question.text for question in lists.questions]
    similarity = None
    if dense is not None:
        similarity = dense.score_vectors(question_vectors(study, dense, texts, progress), lists.rows)
    features_by_list = np.empty((*lists.rows.shape, len(FEATURES)), np.float32)
    for begin in range(0, len(texts), QUESTIONS_PER_STEP):
        if progress is not None:
            progress(begin, len(texts), "reading questions and passages")
        block = slice(begin, begin + QUESTIONS_PER_STEP)
        dense_scores = None if similarity is None else similarity[block]
        features_by_list[block] = feature_matrix(
            study, texts[block], lists.rows[block], lists.scores[block], weights, dense_scores
        )
    return features_by_list


def _store_out_of_fold(study: Study, name: str, lists: Lists, probabilities: np.ndarray, replace: bool) -> None:
    """Store the cross-validated (out-of-fold) probabilities for the judge's own training questions."""
    if replace:
        ScoreStore.remove(study, name)
    store = ScoreStore.create(study, name, calibrated=True, description={"judge": KIND})
    store.add(scored_rows(study, lists, probabilities))


def feature_judge_manifest(study: Study, name: str) -> dict[str, Any]:
    """Return a judge's record `models/<name>/training.json`. Raises Missing if there is no such judge, and Refused if
    it was trained on other passages.
    """
    path = study.path("models", check_name(name, "model")) / ABOUT
    about = read_json(path) if path.is_file() else {}
    if not isinstance(about, dict) or about.get("kind") != KIND:
        raise Missing(f"unknown feature judge {name!r}; learn one with 'blindspot judge learn {name} --run RUN'")
    if about["corpus"] != study.corpus.digest:
        raise Refused(f"the judge {name!r} learned from other passages than this study holds; learn it again")
    return about


class FeatureJudge:
    """An open feature judge of a study."""

    def __init__(self, study: Study, name: str):
        """Open a judge. Raises Missing if there is no judge of that name, and Refused if it was trained on other
        passages.
        """
        self.about = feature_judge_manifest(study, name)
        self.study, self.name = study, name
        self.settings = build_settings(FeatureJudgeSettings, self.about["settings"])
        self.model, self.weights = read_model(study.path("models", name), self.about)

    @property
    def depth(self) -> int:
        """The number of top ranks of a list for which the judge's probabilities are calibrated."""
        return self.settings.depth

    @property
    def rerank_depth(self) -> int:
        """The number of top ranks of a list that the judge is trained to rerank."""
        return int(self.about["rerank_depth"])

    def features(self, lists: Lists, progress: Progress | None = None) -> np.ndarray:
        """Return the features (q, k, f) of some lists."""
        return features_of(self.study, lists, self.weights, self._dense_index, progress)

    def share_dense(self, dense: Dense) -> None:
        """Use an index that the caller has open instead of opening it again."""
        self.__dict__["_dense_index"] = dense

    @cached_property
    def _dense_index(self) -> Dense | None:
        return None if self.about["encoder"] is None else Dense(self.study, self.about["encoder"])

    @property
    def calibrated(self) -> bool:
        return True

    def judge(self, lists: Lists, progress: Progress | None = None) -> np.ndarray:
        """Return the probabilities for some lists, (q, k) float64; NaN where padded."""
        return self.probabilities(self.features(lists, progress))

    def calibrated_part(self, lists: Lists) -> np.ndarray:
        """Return the result of `judge`, with NaN at ranks whose probabilities are not calibrated."""
        probabilities = self.judge(lists)
        probabilities[:, self.depth :] = np.nan
        return probabilities

    def probabilities(self, features: np.ndarray) -> np.ndarray:
        """Return the probabilities, (q, k) float64, for features (q, k, f); NaN where padded."""
        return self._score_lists(self.model.probabilities, features)

    def ranking_scores(self, features: np.ndarray) -> np.ndarray:
        """Return log-odds for ranking, (q, k) float64, for features (q, k, f); NaN where padded."""
        return self._score_lists(self.model.ranking_scores, features)

    def _score_lists(self, score: Callable[[np.ndarray], np.ndarray], features: np.ndarray) -> np.ndarray:
        probabilities = np.full(features.shape[:2], np.nan)
        present = ~np.isnan(features[:, :, RANK])  # the rank is known of every hit
        probabilities[present] = score(features[present])
        return probabilities


def read_model(folder: Path, manifest: Mapping[str, Any]) -> tuple[FeatureModel, WordWeights]:
    """Return the model and the word weights in a judge's folder. Raises BadInput if a file is damaged."""
    try:
        with np.load(folder / MODEL, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        content = json.loads((folder / WORDS).read_text(encoding="utf-8"))
        calibration = manifest["calibration"]
        model = FeatureModel(
            manifest["model"],
            arrays["columns"],
            from_arrays(manifest["model"], arrays),
            arrays["feature_medians"],
            ProbabilityCalibration(**{**calibration, "points": tuple(map(tuple, calibration["points"]))}),
            manifest["base_rate"],
        )
        return model, WordWeights(content["frequencies"], content["passages"])
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise BadInput(f"is missing or damaged ({error}); learn the judge again", folder) from error


@job("judge run", extras=("judges",))
def judge_run(study: Study, name: str, run: str, progress: Progress | None = None) -> dict[str, Any]:
    """Judge the top-ranked hits of every list of a run, and store the probabilities in `scores/<name>/`.

    Stored probabilities are not replaced, because those of the judge's training questions are out-of-fold.

    Raises:
        Refused: the run was made by another retriever than the one whose lists the judge learned from.
    """
    judge, opened = FeatureJudge(study, name), study.run(run)
    refuse_other_retriever(name, judge.about["retriever"], opened)
    store = ScoreStore.open(study, name)
    known = store.questions()
    questions = [id for id in opened.question_ids if id not in known]
    return judge_lists(
        study, store, opened, judge.rerank_depth, judge.calibrated_part, questions=questions, progress=progress
    )


def feature_judges(study: Study) -> list[dict[str, Any]]:
    """Return a card for each feature judge of a study, by name."""
    folder = study.path("models")
    abouts = [read_json(path) for path in sorted(folder.glob(f"*/{ABOUT}"))] if folder.is_dir() else []
    return [about for about in abouts if about.get("kind") == KIND]


class FeatureJudgeKind(JudgeKind):
    name, title = KIND, "feature judge"
    help = "a small model over features of a retriever's lists, learned in seconds"
    run_job = staticmethod(judge_run)

    def cards(self, study: Study) -> list[JudgeCard]:
        scored = study.parts("scores")
        return [
            JudgeCard(about["name"], KIND, about["run"], True, about.get("base_rate"), about["name"] in scored)
            for about in feature_judges(study)
        ]

    def open(self, study: Study, name: str, device: str | None = None) -> FeatureJudge:
        return FeatureJudge(study, name)


JUDGES.register(FeatureJudgeKind())
