"""The data from which the points of a learning curve are computed: lists and features of train and dev questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from blindspot.analysis.accuracy import proportion
from blindspot.backend.core.runs import Run, write_reordered_run
from blindspot.backend.core.sampling import nested_sample
from blindspot.backend.core.study import Study
from blindspot.backend.core.units import units_of
from blindspot.backend.evaluation.relevance import Relevance, relevant
from blindspot.backend.judges.feature_cache import cached_features
from blindspot.backend.judges.feature_judge import (
    MAXIMUM_QUESTIONS,
    Lists,
    examples_of,
    labels_and_answers_of,
    reference_questions,
    settled_labels,
    trainable_questions,
    trained_ranks,
)
from blindspot.backend.judges.feature_model import NEGATIVE, POSITIVE, RANK, UNKNOWN, FeatureRanker, fit_ranker
from blindspot.backend.judges.rerank import rerank
from blindspot.backend.judges.settings import FeatureJudgeSettings
from blindspot.backend.progress import Progress
from blindspot.backend.retrieval.dense import dense_indexes
from blindspot.backend.retrieval.retriever import kind_of_run
from blindspot.backend.text.answers import DEFAULT_RULE
from blindspot.backend.training.stored_curve_points import FOLDER, ChangedPair, CurvePoint, Scope, Share
from blindspot.db.errors import Missing
from blindspot.db.judgements import Consensus
from blindspot.db.labels import Labels
from blindspot.db.records import Hits

ROLES = {POSITIVE: "positive", NEGATIVE: "negative", UNKNOWN: "left out"}
NOT_USED = "not used"


@dataclass(frozen=True, slots=True)
class CurveInputs:
    """The runs with which a learning curve is measured, and the index that gives the semantic features and that adapters
    are trained for. encoder: None without such an index.
    """

    train: str
    dev: str
    retriever: str
    encoder: str | None


def curve_inputs(
    study: Study, train: str | None = None, dev: str | None = None, encoder: str | None = None
) -> CurveInputs:
    """Choose the runs and the index. The defaults are the newest runs of the same lexical retriever over train and dev,
    and the index of the first encoder.

    Raises Missing if one of them does not exist; the message names the command that makes it.
    """
    runs = study.parts("runs")
    for inputs in (train, dev):
        if inputs is not None and inputs not in runs:
            raise Missing(f"there is no run {inputs!r}; runs here: {', '.join(runs) or 'none yet'}")
    dev_runs = [dev] if dev is not None else _lexical_runs(runs, "dev")
    train_runs = [train] if train is not None else _lexical_runs(runs, "train")
    for split, found in (("train", train_runs), ("dev", dev_runs)):
        if not found:
            raise Missing(
                f"the learning curve needs a BM25 run over {split}; run: blindspot retrieve --with bm25 --split {split}"
            )
    pairs = [(a, b) for a in train_runs for b in dev_runs if runs[a]["retriever"] == runs[b]["retriever"]]
    if not pairs:
        raise Missing(
            f"the runs {train_runs[0]} and {dev_runs[0]} are of different retrievers; retrieve train and dev with "
            "the same one"
        )
    if encoder is None:
        encoder = next((name for name in dense_indexes(study) if _can_be_adapted(study, name)), None)
    return CurveInputs(*pairs[0], str(runs[pairs[0][0]]["retriever"]), encoder)


def _lexical_runs(runs: Mapping[str, Mapping[str, Any]], split: str) -> list[str]:
    """Return the runs of lexical retrievers over a split, newest first."""
    of_split = [name for name, manifest in runs.items() if manifest.get("split") == split]
    kinds = {name: kind_of_run(runs[name]) for name in of_split}
    return [name for name in reversed(of_split) if (kind := kinds[name]) is not None and kind.lexical]


def _can_be_adapted(study: Study, encoder: str) -> bool:
    manifest = study.parts("indexes")[encoder]
    return manifest.get("similarity") != "l2" and "vectors_of" not in manifest and encoder in study.settings.encoders


class CurveBench:
    """The lists and features that all points of a learning curve share. This class ensures that dev data is
    never used for training: `trainable` holds only ids of training questions, and training examples come only from
    `training_lists`.
    """

    def __init__(self, study: Study, inputs: CurveInputs, seed: int, progress: Progress | None):
        self.study, self.inputs, self.seed, self.progress = study, inputs, seed, progress
        self.about = asdict(inputs)
        self.labels = Labels(study.labels_path, read_only=True)
        self.train, self.dev = study.run(inputs.train), study.run(inputs.dev)
        self.settings = FeatureJudgeSettings(depth=min(20, self.train.hits.k, self.dev.hits.k), seed=seed)
        self.depth = min(trained_ranks(self.settings), self.train.hits.k, self.dev.hits.k)
        self.trainable = set(trainable_questions(study, self.train))

    def report(self, activity: str) -> None:
        if self.progress is not None:
            self.progress(0, None, activity)

    @cached_property
    def held_out(self) -> set[str]:
        rows = self.study.questions.connection.execute("SELECT id FROM question WHERE split IN ('dev', 'test')")
        return {id for (id,) in rows}

    def consensus(self, last_event: int) -> list[Consensus]:
        if last_event >= self.labels.last_event:
            return self.labels.consensus()
        return self.labels.consensus_as_of(last_event) if last_event else []

    def authors(self, since: int, last_event: int) -> dict[str, int]:
        """Return the number of labels that each person gave to training questions after the event `since`, up to the
        event `last_event`.
        """
        later = self.labels.labelled_passages_since(last_event, ("train",))
        counts = {
            name: n - later.get(name, 0) for name, n in self.labels.labelled_passages_since(since, ("train",)).items()
        }
        return {name: n for name, n in counts.items() if n}

    # What is learned from

    def training_lists(
        self, scope: Scope, by_people: Mapping[str, Mapping[str, int]]
    ) -> tuple[Lists, np.ndarray, np.ndarray, np.ndarray]:
        """Return the lists, features (q, k, f), labels (q, k) and answer matches (q, k) of the training questions in a
        scope.
        """
        ids = [id for id in self.train.question_ids if id in by_people and id in self.trainable]
        if scope == "all":
            ids = [id for id in self.train.question_ids if id in set(ids) or id in self._sampled_questions]
        questions = [q for q in self.study.questions.with_ids(ids) if q.gold or q.id in by_people]
        lists, features = cached_features(
            self.study, self.train, questions, self.depth, self.inputs.encoder, self.progress
        )
        return lists, features, *labels_and_answers_of(self.study, self.train, lists, by_people, self.progress)

    def fit(self, lists: Lists, features: np.ndarray, truth: np.ndarray, answers: np.ndarray) -> FeatureRanker:
        """Train a ranker on the result of `training_lists`. Without labels the ranker is the prior."""
        others = reference_questions(self.study, self.train, lists.questions)
        reference = None
        if others:
            reference = cached_features(self.study, self.train, others, self.depth, self.inputs.encoder, self.progress)[
                1
            ]
        self.report("learning the judge")
        return fit_ranker(examples_of(lists, features, truth, answers, reference), self.settings)

    @cached_property
    def _sampled_questions(self) -> set[str]:
        """Return the sample of training questions whose gold passages are used, with as many questions as a judge is
        trained on.
        """
        rows = self.study.questions.connection.execute("SELECT id FROM question WHERE split = 'train' AND gold <> '[]'")
        with_gold = {id for (id,) in rows} & self.trainable
        ids = [id for id in self.train.question_ids if id in with_gold]
        return set(nested_sample(ids, MAXIMUM_QUESTIONS, self.seed))

    def changed_pairs(self, new_labels: Sequence[Consensus], old_labels: Sequence[Consensus]) -> list[ChangedPair]:
        """Return the training pairs whose role (positive, negative or unused) differs between two states of
        the labels.
        """
        labels = [
            settled_labels(pair for pair in each if pair.question in self.trainable)
            for each in (old_labels, new_labels)
        ]
        touched = sorted(
            {(question, passage) for label in labels for question in label for passage in label[question]}
            - {
                (question, passage)
                for question in labels[0].keys() & labels[1].keys()
                for passage, label in labels[0][question].items()
                if labels[1][question].get(passage) == label
            }
        )
        machine = self._roles_without_labels(touched)
        pairs = []
        for question, passage in touched:
            roles = [
                ROLES[label[question][passage]] if passage in label.get(question, {}) else machine[question, passage]
                for label in labels
            ]
            if roles[0] != roles[1]:
                pairs.append(ChangedPair(question, passage, *roles))
        return pairs

    def _roles_without_labels(self, pairs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
        """Return the role of each pair if there were no labels: by gold, or else by the training run's list."""
        if not pairs:
            return {}
        questions = self.study.questions.with_ids(dict.fromkeys(question for question, _ in pairs))
        rows = self.study.corpus.ordinals({passage for _, passage in pairs})
        lists, _ = cached_features(self.study, self.train, questions, self.depth, self.inputs.encoder, self.progress)
        truth, _ = labels_and_answers_of(self.study, self.train, lists, {}, self.progress)
        places = {question.id: i for i, question in enumerate(questions)}
        roles = {}
        for question, passage in pairs:
            place = places[question]
            at = np.flatnonzero(lists.rows[place] == rows.get(passage, -2))
            if passage in questions[place].gold:
                roles[question, passage] = ROLES[POSITIVE]
            else:
                roles[question, passage] = ROLES[int(truth[place, at[0]])] if len(at) else NOT_USED
        return roles

    # What is measured, on dev

    @cached_property
    def units(self) -> np.ndarray:
        """The unit of observation of each dev question that can be measured, (q',) int64."""
        return units_of(self.relevance.questions, self.study.settings.unit).codes

    @cached_property
    def relevance(self) -> Relevance:
        """The relevance of the dev run's hits, whose rows are the measurable dev questions."""
        questions = self.study.questions.with_ids(self.dev.question_ids)
        relevance = relevant(self.study, self.dev, "answers", self.rule, questions)
        if not len(relevance.rows):
            raise Missing(
                f"no question of {self.dev.name!r} has answers or gold passages, so nothing measures the curve"
            )
        return relevance

    def measured_questions(self, limit: int) -> np.ndarray:
        """Return the indexes of at most `limit` measurable dev questions, in their order."""
        return np.sort(np.random.default_rng(self.seed).permutation(len(self.relevance.rows))[:limit])

    @property
    def rule(self) -> str:
        return str(self.dev.manifest.get("rule", DEFAULT_RULE))

    @cached_property
    def dev_features(self) -> np.ndarray:
        questions = self.study.questions.with_ids(self.dev.question_ids)
        return cached_features(self.study, self.dev, questions, self.depth, self.inputs.encoder, self.progress)[1]

    def rerank_dev_run(self, ranker: FeatureRanker) -> tuple[Hits, np.ndarray]:
        """Rerank the top hits of the dev run with a ranker. Return the hits, and whether each question's first hit is
        relevant, (q',) bool.
        """
        hits = Hits(
            np.asarray(self.dev.hits.ordinals[:, : self.depth]), np.asarray(self.dev.hits.scores[:, : self.depth])
        )
        present = ~np.isnan(self.dev_features[:, :, RANK])
        scores = np.full(present.shape, np.nan)
        scores[present] = ranker.ranking_scores(self.dev_features[present])
        of_relevance = scores[self.relevance.rows]
        first = np.argmax(np.where(np.isnan(of_relevance), -np.inf, of_relevance), axis=1)
        return rerank(hits, scores), self.relevance.relevant[np.arange(len(first)), first].astype(bool)

    # What is kept

    def keep_run(self, name: str, scope: Scope, hits: Hits, number: int) -> Run:
        """Store the reranked dev lists as a run, so that the Compare page can open them."""
        about = {
            "retriever": f"rerank:curve-{scope}",
            "kind": "rerank",
            "judge": f"the judge of point {number}",
            "depth": self.depth,
            "over": {"retriever": self.inputs.retriever, "run": self.inputs.dev},
            "split": self.dev.manifest.get("split"),
            "learning_curve": number,
            "scope": scope,
            "seed": self.seed,
        }
        return write_reordered_run(self.study, name, self.dev, hits, about)

    def stored_outcomes(self, point: CurvePoint, scope: Scope) -> np.ndarray | None:
        """Return the dev questions on which the reranker of an earlier point succeeded, (q',) bool; None if that point
        was measured on other questions.
        """
        path = self.study.path(FOLDER, str(point.number), "outcomes.npz")
        with np.load(path, allow_pickle=False) as file:
            if file["questions"].tolist() != [question.id for question in self.relevance.questions]:
                return None
            return file[f"{scope}_reranker"]


def share_with_interval(hits: np.ndarray, units: np.ndarray) -> Share:
    """Return a share with its interval. hits: (q,) bool, at least one; units: (q,) int, the unit of each question."""
    found = proportion(hits, units)
    assert found.value is not None and found.low is not None and found.high is not None
    return Share(found.value, found.n, found.low, found.high, found.units)
