"""The label judge: predicts, from people's labels of some pairs, whether the pairs that nobody judged are positive.

It is trained only on people's labels. It uses two features that the feature judge does not have: whether a passage
contains an answer, and whether such a passage names the question's subject. It therefore judges lists of training
questions, whose answers are known, and is used to clean training sets, not to rerank. With few labels its predictions
stay near the prior estimate by which the judging queue is ordered. This prior has the weight of PRIOR_LABELS labels.
"""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from blindspot.analysis.intervals import wilson
from blindspot.backend.core.jobs import job
from blindspot.backend.core.manifest import Manifest, atomic_folder, write_manifest
from blindspot.backend.core.settings import check_name
from blindspot.backend.core.study import Study
from blindspot.backend.judges.feature_cache import cached_features
from blindspot.backend.judges.feature_judge import (
    apply_labels,
    labels_and_answers_of,
    settled_labels,
    trainable_questions,
)
from blindspot.backend.judges.feature_model import NEGATIVE, POSITIVE
from blindspot.backend.judges.judge import JUDGES, JudgeCard, StoredJudgeKind, refuse_taken, stored_manifest
from blindspot.backend.judges.lists import Lists, refuse_other_retriever, scored_rows
from blindspot.backend.judges.scores import ScoreStore
from blindspot.backend.judging.priority import Calibration, Evidence
from blindspot.backend.progress import Progress
from blindspot.backend.text.answers import mentions_subject
from blindspot.db.errors import BadInput, Missing, Refused
from blindspot.db.labels import Labels
from blindspot.db.records import Question

KIND = "labels"
MODEL = "model.npz"
DEPTH = 20
THRESHOLD = 0.5  # a passage from it on is a positive, below it a negative
PRIOR_LABELS = 10.0  # the number of labels that the prior estimate counts as
PENALTY = 0.3  # C of the logistic regression: strong, because labels are few
PRIOR_PAIRS = 5000  # pairs that carry the prior estimate, drawn with the seed
FOLDS = 5
UNLABELLED = -2  # in `LabelledLists.truth`: nobody judged the pair


@dataclass(frozen=True)
class LabelledLists:
    """The pairs of some lists, flattened.

    Attributes:
        lists, places: the lists, and (n, 2) int64 the question and rank (from 0) of each pair.
        features: (n, f) float32.
        prior: (n,) the estimate before any label.
        truth: (n,) int8 POSITIVE, NEGATIVE, UNKNOWN (unsure or in dispute) or UNLABELLED.
    """

    lists: Lists
    places: np.ndarray
    features: np.ndarray
    prior: np.ndarray
    truth: np.ndarray

    @property
    def is_labelled(self) -> np.ndarray:
        """Return which pairs people labelled positive or negative without a dispute, (n,) bool."""
        return (self.truth == POSITIVE) | (self.truth == NEGATIVE)


@dataclass(frozen=True)
class LabelModel:
    """A fitted logistic regression over the feature judge's features, the answer match and the mention of the subject.

    Attributes:
        mean, scale, weights: (f,) float64.
        intercept: () float64.
    """

    mean: np.ndarray
    scale: np.ndarray
    weights: np.ndarray
    intercept: np.ndarray

    def probabilities(self, features: np.ndarray) -> np.ndarray:
        """Return (n,) float64 from features (n, f)."""
        from scipy.special import expit

        return np.asarray(expit((features - self.mean) / self.scale @ self.weights + self.intercept), np.float64)


def fit_label_model(
    features: np.ndarray, positive: np.ndarray, pool: np.ndarray, prior: np.ndarray, seed: int = 0
) -> LabelModel:
    """Fit a logistic regression to labels and to a prior estimate.

    Each pair of the pool is used twice: as a positive with its prior probability p as weight, and as a negative with
    weight 1 - p. Together these have the weight of PRIOR_LABELS labels. The model can therefore be fitted without any
    label, and labels of only one class do not make it certain.

    Args:
        features, positive: (m, f) and (m,) bool of the labelled pairs; m may be 0.
        pool, prior: (n, f) and (n,) of the pairs that the model will judge.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    drawn = np.random.default_rng(seed).permutation(len(pool))[:PRIOR_PAIRS]
    scaler = StandardScaler().fit(pool[drawn])
    carriers, estimate = scaler.transform(pool[drawn]), prior[drawn]
    weight = PRIOR_LABELS / len(drawn)
    examples = [carriers, carriers] + ([scaler.transform(features)] if len(features) else [])
    truth = np.concatenate([np.ones(len(drawn)), np.zeros(len(drawn)), np.asarray(positive, np.float64)])
    weights = np.concatenate([weight * estimate, weight * (1 - estimate), np.ones(len(positive))])
    regression = LogisticRegression(C=PENALTY, max_iter=1000).fit(np.vstack(examples), truth, sample_weight=weights)
    return LabelModel(scaler.mean_, scaler.scale_, regression.coef_[0], regression.intercept_[0])


def fit_to_pairs(pairs: LabelledLists, seed: int = 0) -> LabelModel:
    """Fit the model to the labelled pairs of some lists."""
    known = pairs.is_labelled
    return fit_label_model(pairs.features[known], pairs.truth[known] == POSITIVE, pairs.features, pairs.prior, seed)


def labelled_pairs(
    study: Study,
    run: str,
    encoder: str | None = None,
    depth: int = DEPTH,
    last_event: int | None = None,
    questions: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> LabelledLists:
    """Return the pairs of a run's lists, without gold passages, together with people's labels.

    Args:
        run: labels of its questions that may train are learned from.
        encoder: whose dense index gives the features of meaning; None goes without them.
        last_event: the last label event that counts; default all.
        questions: ids of the questions whose lists are judged; default those that may train. Their own labels count
            only if they may train.

    Raises Missing for an unknown run or index, and Refused if no question of the run may be used for training.
    """
    opened = study.run(run)
    trainable = set(trainable_questions(study, opened))
    wanted = trainable | set(questions or ())
    ids = [id for id in opened.question_ids if id in wanted]
    if not ids:
        raise Refused(f"run {run!r} holds no question that may train; retrieve over train")
    records = study.questions.with_ids(ids)
    lists, features = cached_features(study, opened, records, min(depth, opened.hits.k), encoder, progress)
    labels = Labels(study.labels_path, read_only=True)
    consensus = labels.consensus() if last_event is None else labels.consensus_as_of(last_event) if last_event else []
    by_people = settled_labels(pair for pair in consensus if pair.question in trainable)
    _, answers = labels_and_answers_of(study, opened, lists, {}, progress)
    truth = np.full(lists.rows.shape, UNLABELLED, np.int8)
    apply_labels(study, lists, by_people, truth)
    return flatten_lists(
        lists, features, answers, hits_with_answer_and_subject(study, lists, answers), truth, gold_rows(study, records)
    )


def gold_rows(study: Study, questions: Sequence[Question]) -> list[set[int]]:
    """Return the collection rows of each question's gold passages."""
    rows = study.corpus.ordinals({id for question in questions for id in question.gold})
    return [{rows[id] for id in question.gold if id in rows} for question in questions]


def hits_with_answer_and_subject(study: Study, lists: Lists, answers: np.ndarray) -> np.ndarray:
    """Return which hits contain an answer and name the question's subject, (q, k) bool."""
    named = np.zeros(answers.shape, bool)
    rows = np.unique(lists.rows[answers]).tolist()
    passages = dict(zip(rows, study.corpus.passages(rows), strict=True))
    for i, j in np.argwhere(answers).tolist():
        question = lists.questions[i]
        if question.subject:
            named[i, j] = mentions_subject(passages[int(lists.rows[i, j])], question)
    return named


def flatten_lists(
    lists: Lists,
    features: np.ndarray,
    answers: np.ndarray,
    names_subject: np.ndarray,
    truth: np.ndarray,
    gold: Sequence[set[int]],
) -> LabelledLists:
    """Flatten lists to pairs, without gold passages. features: (q, k, f). answers, names_subject, truth: (q, k). gold:
    the rows of each question's gold passages.
    """
    is_gold = np.array([[row in known for row in rows] for rows, known in zip(lists.rows.tolist(), gold, strict=True)])
    places = np.argwhere((lists.rows >= 0) & ~is_gold)
    i, j = places.T
    has_answers = np.array([bool(question.answers) for question in lists.questions], bool)[i]
    has_subject = np.array([bool(question.subject) for question in lists.questions], bool)[i]
    columns = [np.nan_to_num(features[i, j]), answers[i, j][:, None], names_subject[i, j][:, None]]
    calibration = Calibration()
    pair_evidence: list[Evidence] = [
        _pair_evidence(*known)
        for known in zip(
            has_answers.tolist(),
            has_subject.tolist(),
            answers[i, j].tolist(),
            names_subject[i, j].tolist(),
            strict=True,
        )
    ]
    prior = np.array(
        [calibration.probability(each, rank) for each, rank in zip(pair_evidence, (j + 1).tolist(), strict=True)]
    )
    return LabelledLists(lists, places, np.hstack(columns).astype(np.float64), prior, truth[i, j])


def _pair_evidence(has_answers: bool, has_subject: bool, answer: bool, contains_subject: bool) -> Evidence:
    if not has_answers:
        return None, None
    return (True, contains_subject if has_subject else None) if answer else (False, None)


@dataclass(frozen=True)
class LearnedLabelJudge:
    """The result of `learn_label_judge`. labels, positives: number of pairs that it was trained on. pairs: number of
    pairs that it judged. right: cross-validated accuracy on the labels, with a 95% interval; None if too few questions
    have labels.
    """

    name: str
    labels: int
    positives: int
    pairs: int
    right: float | None
    low: float | None
    high: float | None


@job("learn from labels", extras=("judges",))
def learn_label_judge(
    study: Study,
    name: str,
    run: str,
    encoder: str | None = None,
    until: int | None = None,
    replace: bool = False,
    seed: int = 0,
    progress: Progress | None = None,
) -> LearnedLabelJudge:
    """Train a judge on people's labels, judge the unlabelled passages of a run's lists, and store the probabilities.

    The denoising policies judge and judge+labels use these probabilities (`--model NAME`). Where people judged a pair,
    their label is used instead.

    Args: see `labelled_pairs`.

    Raises:
        Refused: the name is taken, or nobody has labelled a pair of the first ranks. Missing: no such run or index.
    """
    folder = study.path("judges", check_name(name, "judge"))
    refuse_taken(study, name, KIND, replace)
    pairs = labelled_pairs(study, run, encoder, last_event=until, progress=progress)
    model = fit_to_pairs(pairs, seed)
    labels, positives = int(pairs.is_labelled.sum()), int((pairs.truth == POSITIVE).sum())
    if not labels:
        raise Refused(
            f"nobody has labelled a passage of the first {DEPTH} ranks of {run!r} for a training question; label some "
            "first"
        )
    right = _right_out_of_fold(pairs, seed)
    learned = LearnedLabelJudge(name, labels, positives, len(pairs.places), *right)
    with study.lock_part(f"judges/{name}"):
        ScoreStore.remove(study, name)
        store = ScoreStore.create(study, name, calibrated=True, description={"judge": KIND})
        store.add(_pair_scores(study, pairs, model))
        with atomic_folder(folder) as building:
            np.savez(building / MODEL, **asdict(model))
            write_manifest(
                building,
                {
                    "kind": KIND,
                    **asdict(learned),
                    "run": run,
                    "retriever": study.run(run).manifest["retriever"],
                    "encoder": encoder,
                    "until": until,
                    "seed": seed,
                    "base_rate": positives / labels,
                    "keep_below": THRESHOLD,
                    "propose_above": THRESHOLD,
                },
            )
    return learned


def _pair_scores(study: Study, pairs: LabelledLists, model: LabelModel) -> list[tuple[str, str, float]]:
    """Return (question id, passage id, probability) for each pair."""
    probabilities = np.full(pairs.lists.rows.shape, np.nan)
    probabilities[tuple(pairs.places.T)] = model.probabilities(pairs.features)
    return scored_rows(study, pairs.lists, probabilities)


@job("judge with labels")
def judge_with_labels(study: Study, name: str, run: str, progress: Progress | None = None) -> dict[str, Any]:
    """Judge the top-ranked hits of every list of a run, and add the probabilities to the judge's stored scores.

    Stored probabilities are not replaced.

    Raises:
        Missing: no such judge, run or index. Refused: the run was made by another retriever than the one whose lists the
            judge learned from, or an older version learned the judge. BadInput: the judge's file is damaged.
    """
    about, model = _stored_model(study, name)
    opened = study.run(run)
    refuse_other_retriever(name, about["retriever"], opened)
    pairs = labelled_pairs(study, run, about["encoder"], questions=opened.question_ids, progress=progress)
    store = ScoreStore.open(study, name)
    known = store.scores_of(opened.question_ids)
    rows = [row for row in _pair_scores(study, pairs, model) if row[1] not in known.get(row[0], ())]
    return {"judge": name, "run": run, "questions": len({row[0] for row in rows}), "pairs": store.add(rows)}


def _stored_model(study: Study, name: str) -> tuple[Manifest, LabelModel]:
    about, folder = stored_manifest(study, name, KIND), study.path("judges", name)
    if about is None:
        raise Missing(f"there is no judge {name!r}; make one with 'blindspot judge generalise {name} --run RUN'")
    if not (folder / MODEL).is_file():
        raise Refused(
            f"an older version learned {name!r} and stored its scores alone; learn it again: blindspot judge generalise "
            f"{name} --run RUN --replace"
        )
    try:
        with np.load(folder / MODEL, allow_pickle=False) as file:
            return about, LabelModel(**{field.name: file[field.name] for field in fields(LabelModel)})
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise BadInput(f"is damaged ({error}); learn the judge again", folder / MODEL) from error


def _right_out_of_fold(pairs: LabelledLists, seed: int) -> tuple[float | None, float | None, float | None]:
    """Return the cross-validated share of labels predicted correctly, with its interval. Each label is predicted by a
    model that was trained without labels of the same question.
    """
    known = np.flatnonzero(pairs.is_labelled)
    questions = np.unique(pairs.places[known, 0])
    if len(questions) < 2 * FOLDS:
        return None, None, None
    fold_of = dict(
        zip(questions.tolist(), np.random.default_rng(seed).permutation(len(questions)) % FOLDS, strict=True)
    )
    folds = np.array([fold_of[question] for question in pairs.places[known, 0].tolist()])
    right = 0
    for fold in range(FOLDS):
        learned, held_out = known[folds != fold], known[folds == fold]
        model = fit_label_model(
            pairs.features[learned], pairs.truth[learned] == POSITIVE, pairs.features, pairs.prior, seed
        )
        positive = model.probabilities(pairs.features[held_out]) >= THRESHOLD
        right += int((positive == (pairs.truth[held_out] == POSITIVE)).sum())
    return right / len(known), *wilson(right, len(known))


class LabelJudgeKind(StoredJudgeKind):
    """Judges trained on people's labels. Their probabilities are stored when they are trained."""

    name, title = KIND, "labels generalised"
    help = "what people's labels of some pairs say about the other pairs, with answer match and subject"
    run_job = staticmethod(judge_with_labels)

    def card(self, name: str, manifest: Manifest, has_scores: bool) -> JudgeCard:
        return JudgeCard(name, KIND, manifest["run"], True, manifest["base_rate"], has_scores)

    def thresholds(self, manifest: Manifest) -> tuple[float, float]:
        return float(manifest["keep_below"]), float(manifest["propose_above"])


JUDGES.register(LabelJudgeKind())
