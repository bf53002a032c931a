"""The learning curve: the value of labels on dev, computed again in seconds after new labels.

A point learns the feature judge and an adapter from the labels so far, reorders the dev lists of BM25 with the judge,
and searches dev with the adapter. Everything is learned from training questions alone; dev questions only measure.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.accuracy import wilson
from backend.core import jobs
from backend.core.gold import gold_matrix
from backend.core.jobs import job
from backend.core.manifest import whole_folder, write_json, write_manifest
from backend.core.runs import write_run
from backend.core.sampling import nested_sample
from backend.evaluation.relevance import Relevance, relevant
from backend.judges.feature_cache import kept_features
from backend.judges.feature_judge import (
    MAXIMUM_QUESTIONS,
    Lists,
    examples_of,
    settled_labels,
    trainable_questions,
    truth_of,
)
from backend.judges.feature_model import NEGATIVE, POSITIVE, UNKNOWN, FeatureRanker, fit_ranker
from backend.judges.rerank import rerank
from backend.judges.settings import FeatureJudgeSettings
from backend.retrieval.dense import Dense, dense_indexes
from backend.retrieval.question_vectors import question_vectors
from backend.retrieval.retriever import kind_of_run
from backend.text.answers import DEFAULT_RULE, match_run
from backend.training.adapter_map import TrainingQuestions, learn, padded
from backend.training.curve_points import (
    FOLDER,
    LABELS_PER_POINT,
    PAIRS,
    SCOPES,
    ChangedPair,
    CurveOutcome,
    CurvePoint,
    Reason,
    Scope,
    Share,
    curve_points,
    due,
    finished_batches,
    point_before,
)
from backend.training.training_settings import AdapterSettings
from db.errors import Missing, Refused
from db.judgements import Consensus
from db.labels import Labels
from db.records import Hits

if TYPE_CHECKING:
    from backend.core.runs import Run
    from backend.core.study import Study
    from backend.progress import Progress

KIND = "learning curve"
AUTOMATIC: tuple[Reason, ...] = ("start", "labels", "batch")
JOBS_LOOKED_AT = 20
SUCCESS_OF_ADAPTER = 20
ADAPTER_QUESTIONS = 100
ROLES = {POSITIVE: "positive", NEGATIVE: "negative", UNKNOWN: "left out"}
NOT_USED = "not used"
RUNS_KEPT = 2  # of each scope: the last point's and the one it is compared with


@dataclass(frozen=True, slots=True)
class CurveInputs:
    """The runs and the index that a curve is measured with. encoder: None without a dense index."""

    train: str
    dev: str
    retriever: str
    encoder: str | None


def curve_inputs(
    study: Study, train: str | None = None, dev: str | None = None, encoder: str | None = None
) -> CurveInputs:
    """Choose the defaults: the newest runs of one lexical retriever over train and dev, and the first encoder's index.

    Raises Missing with the command that makes what lacks.
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
    """The runs of lexical retrievers over a split, the newest first."""
    of_split = [name for name, manifest in runs.items() if manifest.get("split") == split]
    kinds = {name: kind_of_run(runs[name]) for name in of_split}
    return [name for name in reversed(of_split) if (kind := kinds[name]) is not None and kind.lexical]


def _can_be_adapted(study: Study, encoder: str) -> bool:
    manifest = study.parts("indexes")[encoder]
    return manifest.get("similarity") != "l2" and "vectors_of" not in manifest and encoder in study.settings.encoders


@job(KIND, light=True)
def add_point(
    study: Study,
    reason: Reason = "asked",
    train: str | None = None,
    dev: str | None = None,
    encoder: str | None = None,
    seed: int = 0,
    until: int | None = None,
    progress: Progress | None = None,
) -> CurvePoint:
    """Add a point to the learning curve of the labels so far.

    The first point of a curve is preceded by one without labels, so that there is something to compare with.

    Args:
        reason: what called for the point.
        train, dev, encoder: see `curve_inputs`.
        until: the last label event that counts; default all.

    Raises:
        Missing: no runs to learn from or to measure with. Refused: another process adds a point.
    """
    with study.building(FOLDER):
        inputs = curve_inputs(study, train, dev, encoder)
        bench = _Bench(study, inputs, seed, progress)
        last_event = bench.labels.last_event if until is None else until
        points = curve_points(study)
        if last_event and point_before(points, last_event, bench.about) is None:
            # The first point of a curve needs one without labels to be compared with.
            points.append(_add(bench, "start", 0, points))
        added = _add(bench, reason, last_event, points)
        # Labels that came meanwhile found this job at work and started none.
        while reason in AUTOMATIC and (again := due(study)) in AUTOMATIC:
            added = _add(bench, again, bench.labels.last_event, curve_points(study))
        return added


@job("learning curve history", light=True)
def add_history(
    study: Study,
    train: str | None = None,
    dev: str | None = None,
    encoder: str | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> list[int]:
    """Add the points that are lacking for every LABELS_PER_POINT labels that people gave so far; return their numbers.

    Raises as `add_point` does.
    """
    inputs = curve_inputs(study, train, dev, encoder)
    known = {point.last_event for point in curve_points(study) if point.inputs == asdict(inputs)}
    training = set(trainable_questions(study, study.run(inputs.train)))
    labels = Labels(study.labels_path, read_only=True)
    events = [
        event.number
        for event in labels.events(by_people=True)
        if event.kind in ("label", "adjudicate") and event.question in training and event.number is not None
    ]
    numbers = [number for number in events[LABELS_PER_POINT - 1 :: LABELS_PER_POINT] if number not in known]
    return [
        add_point(study, "history", train, dev, encoder, seed, until=number, progress=progress).number
        for number in numbers
    ]


def is_unfinished(study: Study) -> bool:
    """Whether a point is being computed, or waits to be."""
    return any(job.unfinished and job.kind.startswith(KIND) for job in jobs.recent(study, JOBS_LOOKED_AT))


def start_if_due(study: Study) -> str | None:
    """Start the job that adds a point if labels call for one; return its id. Asked after every label, so it is quick.

    Whoever labels need not have the right to train: the study asks for the point, not the person.
    """
    reason = due(study)
    if reason is None:
        return None
    recent = [job for job in jobs.recent(study, JOBS_LOOKED_AT) if job.kind == KIND]
    if recent and recent[0].unfinished:
        return None
    labels = Labels(study.labels_path, read_only=True)
    if recent and recent[0].state != "done":
        # A point that failed would fail again after every label.
        tried = int(recent[0].arguments.get("until") or 0)
        if sum(labels.labels_since(tried, ("train",)).values()) < LABELS_PER_POINT:
            return None
    try:
        curve_inputs(study)
    except Missing:
        return None
    return jobs.submit(add_point, study, reason, until=0 if reason == "start" else labels.last_event)


def _add(bench: _Bench, reason: Reason, last_event: int, points: Sequence[CurvePoint]) -> CurvePoint:
    started = time.monotonic()
    study = bench.study
    number = max((point.number for point in points), default=0) + 1
    before = point_before(list(points), last_event, bench.about)
    consensus = bench.consensus(last_event)
    by_people = settled_labels(pair for pair in consensus if pair.question in bench.trainable)
    changed = bench.changed(consensus, [] if before is None else bench.consensus(before.last_event))
    outcomes: dict[str, np.ndarray] = {}
    scopes: dict[str, CurveOutcome] = {}
    for scope in SCOPES:
        scopes[scope], scope_figures = _learn_scope(bench, scope, by_people, number, before)
        outcomes |= {f"{scope}_{name}": values for name, values in scope_figures.items()}
    authors = bench.authors(0 if before is None else before.last_event, last_event)
    content = {
        "kind": "learning curve point",
        "number": number,
        "reason": reason,
        "labels": sum(len(labels) for labels in by_people.values()),
        "judged": len(by_people),
        "held_out_labels": sum(pair.question in bench.held_out for pair in consensus),
        "last_event": last_event,
        "new_labels": sum(authors.values()),
        "changed": len(changed),
        "before": None if before is None else before.number,
        "authors": authors,
        "batches": finished_batches(study),
        "inputs": bench.about,
        "settings": {"seed": bench.seed, "judge": asdict(bench.settings), "adapter": asdict(bench.adapter_settings)},
        "relevance": bench.relevance.kind,
        "base_reranker": asdict(share(bench.relevance.relevant[:, 0])),
        "base_adapter": None if bench.base_adapter is None else asdict(share(bench.base_adapter)),
        "scopes": {scope: asdict(each) for scope, each in scopes.items()},
        "seconds": round(time.monotonic() - started, 1),
    }
    with whole_folder(study.path(FOLDER, str(number))) as building:
        ids = np.array([q.id for q in bench.relevance.questions])
        np.savez(building / "outcomes.npz", allow_pickle=False, questions=ids, **outcomes)
        write_json(building / PAIRS, [[pair.question, pair.passage, pair.before, pair.now] for pair in changed])
        write_manifest(building, content)
    _forget_runs(study, curve_points(study))
    return next(point for point in curve_points(study) if point.number == number)


def _learn_scope(
    bench: _Bench,
    scope: Scope,
    by_people: Mapping[str, Mapping[str, int]],
    number: int,
    before: CurvePoint | None,
) -> tuple[CurveOutcome, dict[str, np.ndarray]]:
    """Learn from one scope; return its figures, and the dev questions (q,) bool that reranker and adapter answer."""
    lists, features, truth, answers = bench.training_lists(scope, by_people)
    ranker: FeatureRanker | None = None
    if len(lists.questions):
        try:
            bench.report("learning the judge")
            ranker = fit_ranker(examples_of(lists, features, truth, answers), bench.settings)
        except Refused:
            ranker = None  # too few labels for a judge: the list keeps its order
    name = f"curve-{scope}-{number}"
    reordered = bench.reranked(ranker)
    bench.keep_run(name, scope, reordered, number)
    first = bench.first_relevant(ranker)
    outcomes = {"reranker": first}
    adapted = bench.adapted(lists, truth, by_people)
    if adapted is not None:
        outcomes["adapter"] = adapted
    earlier = None if before is None else bench.outcomes(before, scope)
    learned = CurveOutcome(
        questions=len(lists.questions),
        model=None if ranker is None else ranker.kind,
        reranker=share(first),
        adapter=None if adapted is None else share(adapted),
        answered=0 if earlier is None else int((first & ~earlier).sum()),
        lost=0 if earlier is None else int((~first & earlier).sum()),
        run=name,
        run_before=None if before is None else before.scopes[scope].run,
    )
    return learned, outcomes


class _Bench:
    """The lists, features and vectors that all points of a curve share. This class ensures that dev data never trains:
    `trainable` holds ids of training questions alone, and only `training_lists` gives examples."""

    def __init__(self, study: Study, inputs: CurveInputs, seed: int, progress: Progress | None):
        self.study, self.inputs, self.seed, self.progress = study, inputs, seed, progress
        self.about = asdict(inputs)
        self.labels = Labels(study.labels_path, read_only=True)
        self.train, self.dev = study.run(inputs.train), study.run(inputs.dev)
        self.settings = FeatureJudgeSettings(depth=min(20, self.train.hits.k, self.dev.hits.k), seed=seed)
        self.adapter_settings = AdapterSettings(scale=20.0, weight_decay=0.0, held_out=0, seed=seed)
        self.trainable = set(trainable_questions(study, self.train))

    def report(self, doing: str) -> None:
        if self.progress is not None:
            self.progress(0, None, doing)

    @cached_property
    def held_out(self) -> set[str]:
        rows = self.study.questions.connection.execute("SELECT id FROM question WHERE split IN ('dev', 'test')")
        return {id for (id,) in rows}

    @cached_property
    def dense(self) -> Dense | None:
        return None if self.inputs.encoder is None else Dense(self.study, self.inputs.encoder)

    def consensus(self, last_event: int) -> list[Consensus]:
        if last_event >= self.labels.last_event:
            return self.labels.consensus()
        return self.labels.consensus_as_of(last_event) if last_event else []

    def authors(self, since: int, until: int) -> dict[str, int]:
        """How many labels of training questions each person gave after one event, up to another."""
        later = self.labels.labels_since(until, ("train",))
        counts = {name: n - later.get(name, 0) for name, n in self.labels.labels_since(since, ("train",)).items()}
        return {name: n for name, n in counts.items() if n}

    # What is learned from

    def training_lists(
        self, scope: Scope, by_people: Mapping[str, Mapping[str, int]]
    ) -> tuple[Lists, np.ndarray, np.ndarray, np.ndarray]:
        """Return lists, features (q, k, f), truth (q, k) and answers (q, k) of the training questions of a scope."""
        ids = [id for id in self.train.question_ids if id in by_people and id in self.trainable]
        if scope == "all":
            ids = [id for id in self.train.question_ids if id in set(ids) or id in self._sampled]
        questions = [q for q in self.study.questions.some(ids) if q.gold or q.id in by_people]
        lists, features = kept_features(
            self.study, self.train, questions, self.settings.depth, self.inputs.encoder, self.progress
        )
        return lists, features, *truth_of(self.study, self.train, lists, by_people, self.progress)

    @cached_property
    def _sampled(self) -> set[str]:
        """Training questions that may have gold, as many as a judge learns from."""
        rows = self.study.questions.connection.execute("SELECT id FROM question WHERE split = 'train' AND gold <> '[]'")
        with_gold = {id for (id,) in rows} & self.trainable
        ids = [id for id in self.train.question_ids if id in with_gold]
        return set(nested_sample(ids, MAXIMUM_QUESTIONS, self.seed))

    def changed(self, now: Sequence[Consensus], before: Sequence[Consensus]) -> list[ChangedPair]:
        """Return the training pairs whose role differs between two states of the labels."""
        labels = [settled_labels(pair for pair in each if pair.question in self.trainable) for each in (before, now)]
        touched = sorted(
            {(question, passage) for label in labels for question in label for passage in label[question]}
            - {
                (question, passage)
                for question in labels[0].keys() & labels[1].keys()
                for passage, label in labels[0][question].items()
                if labels[1][question].get(passage) == label
            }
        )
        machine = self._machine_roles(touched)
        pairs = []
        for question, passage in touched:
            roles = [
                ROLES[label[question][passage]] if passage in label.get(question, {}) else machine[question, passage]
                for label in labels
            ]
            if roles[0] != roles[1]:
                pairs.append(ChangedPair(question, passage, *roles))
        return pairs

    def _machine_roles(self, pairs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
        """The role of each pair without labels: by gold, else by the training run's list."""
        if not pairs:
            return {}
        questions = self.study.questions.some(dict.fromkeys(question for question, _ in pairs))
        rows = self.study.corpus.ordinals({passage for _, passage in pairs})
        lists, _ = kept_features(
            self.study, self.train, questions, self.settings.depth, self.inputs.encoder, self.progress
        )
        truth, _ = truth_of(self.study, self.train, lists, {}, self.progress)
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
    def relevance(self) -> Relevance:
        """Which hits of the dev run are relevant. Its rows are the dev questions that can be measured."""
        questions = self.study.questions.some(self.dev.question_ids)
        relevance = relevant(self.study, self.dev, "answers", self.rule, questions)
        if not len(relevance.rows):
            raise Missing(
                f"no question of {self.dev.name!r} has answers or gold passages, so nothing measures the curve"
            )
        return relevance

    @property
    def rule(self) -> str:
        return str(self.dev.manifest.get("rule", DEFAULT_RULE))

    @cached_property
    def _dev_features(self) -> np.ndarray:
        depth = self.settings.depth
        questions = self.study.questions.some(self.dev.question_ids)
        return kept_features(self.study, self.dev, questions, depth, self.inputs.encoder, self.progress)[1]

    def _scores(self, ranker: FeatureRanker) -> np.ndarray:
        present = ~np.isnan(self._dev_features[:, :, 1])
        scores = np.full(present.shape, np.nan)
        scores[present] = ranker.ranking_scores(self._dev_features[present])
        return scores

    def reranked(self, ranker: FeatureRanker | None) -> Hits:
        """Return the first ranks of the dev run in the order of a judge."""
        depth = self.settings.depth
        hits = Hits(np.asarray(self.dev.hits.ordinals[:, :depth]), np.asarray(self.dev.hits.scores[:, :depth]))
        return hits if ranker is None else rerank(hits, self._scores(ranker))

    def first_relevant(self, ranker: FeatureRanker | None) -> np.ndarray:
        """(q',) bool: is the first hit relevant, after reranking?"""
        if ranker is None:
            return self.relevance.relevant[:, 0].astype(bool)
        scores = self._scores(ranker)[self.relevance.rows]
        first = np.argmax(np.where(np.isnan(scores), -np.inf, scores), axis=1)
        return self.relevance.relevant[np.arange(len(first)), first].astype(bool)

    @cached_property
    def _dev_vectors(self) -> np.ndarray:
        assert self.dense is not None
        texts = [question.text for question in self.relevance.questions]
        return question_vectors(self.study, self.dense, texts, self.progress)

    def adapted(self, lists: Lists, truth: np.ndarray, by_people: Mapping[str, Mapping[str, int]]) -> np.ndarray | None:
        """(q',) bool: does an adapter, learned from the same questions, find an answer in the first 20? None without an
        index.

        With fewer than ADAPTER_QUESTIONS an adapter does worse than the encoder alone, so none is trained.
        """
        if self.dense is None:
            return None
        positives, negatives = self._training_rows(lists, truth, by_people)
        learnable = [i for i, row in enumerate(positives) if row]
        if len(learnable) < ADAPTER_QUESTIONS:
            return self.base_adapter
        texts = [lists.questions[i].text for i in learnable]
        training_questions = TrainingQuestions(
            question_vectors(self.study, self.dense, texts, self.progress),
            padded([positives[i] for i in learnable]),
            padded([negatives[i] for i in learnable]),
        )
        return self._found_by(
            learn(
                training_questions, self.dense.vectors, self.dense.unit_length, self.adapter_settings, self.progress
            ).map
        )

    def _training_rows(
        self, lists: Lists, truth: np.ndarray, by_people: Mapping[str, Mapping[str, int]]
    ) -> tuple[list[list[int]], list[list[int]]]:
        """The rows of each question's positives and hard negatives: from gold, from people, and from the list."""
        named = {passage for q in lists.questions for passage in (*q.gold, *by_people.get(q.id, {}))}
        rows = self.study.corpus.ordinals(named) if named else {}
        positives, negatives = [], []
        for question, row, known in zip(lists.questions, lists.rows.tolist(), truth.tolist(), strict=True):
            labels = by_people.get(question.id, {})
            said = dict.fromkeys(question.gold, POSITIVE) | dict(labels)
            roles = dict(zip(row, known, strict=True)) | {rows[p]: label for p, label in said.items() if p in rows}
            positives.append(sorted(p for p, role in roles.items() if role == POSITIVE and p >= 0))
            negatives.append(sorted(p for p, role in roles.items() if role == NEGATIVE and p >= 0))
        return positives, negatives

    @cached_property
    def base_adapter(self) -> np.ndarray | None:
        """(q',) bool: does the encoder find an answer in the first 20 before learning?"""
        return None if self.dense is None else self._found_by(None)

    def _found_by(self, mapped: Any) -> np.ndarray:
        """(q',) bool: is there a relevant passage in the first 20 of the dev questions, mapped or as they are?"""
        assert self.dense is not None
        self.report("searching dev")
        vectors = self._dev_vectors
        if mapped is not None:
            import torch

            with torch.no_grad():
                mapped_vectors = mapped(torch.from_numpy(vectors))
                vectors = (
                    torch.nn.functional.normalize(mapped_vectors, dim=1) if self.dense.unit_length else mapped_vectors
                ).numpy()
        rows = self.dense.search_vectors(vectors, min(SUCCESS_OF_ADAPTER, len(self.study.corpus))).ordinals
        questions = self.relevance.questions
        if self.relevance.kind == "gold":
            return np.asarray(gold_matrix(self.study.corpus, rows, questions)[0].any(axis=1))
        return np.asarray(match_run(self.study.corpus, questions, rows, self.rule, self.progress).any(axis=1))

    # What is kept

    def keep_run(self, name: str, scope: Scope, hits: Hits, number: int) -> Run:
        """Keep the reranked dev lists as a run, so that Compare can open them."""
        about = {
            "retriever": f"rerank:curve-{scope}",
            "kind": "rerank",
            "judge": f"the judge of point {number}",
            "depth": self.settings.depth,
            "over": {"retriever": self.inputs.retriever, "run": self.inputs.dev},
            "split": self.dev.manifest.get("split"),
            "learning_curve": number,
            "scope": scope,
            "seed": self.seed,
            "rule": self.rule,
        }
        return write_run(self.study, name, self.dev.question_ids, hits, about, rule=self.rule, replace=True)

    def outcomes(self, point: CurvePoint, scope: Scope) -> np.ndarray | None:
        """(q',) bool: the questions that the reranker of an earlier point answered; None if that measured others."""
        path = self.study.path(FOLDER, str(point.number), "outcomes.npz")
        with np.load(path, allow_pickle=False) as file:
            if file["questions"].tolist() != [question.id for question in self.relevance.questions]:
                return None
            return file[f"{scope}_reranker"]


def share(hits: np.ndarray) -> Share:
    """Return a share with its Wilson interval. hits: (q,) bool, at least one."""
    count, n = int(hits.sum()), len(hits)
    low, high = wilson(count, n)
    assert low is not None and high is not None
    return Share(count / n, n, low, high)


def _forget_runs(study: Study, points: Sequence[CurvePoint]) -> None:
    """Delete the runs of older points; their figures stay. The last points' runs and those they are compared with stay
    too.
    """
    recent_runs = {
        name
        for point in points[-RUNS_KEPT:]
        for scope in point.scopes.values()
        for name in (scope.run, scope.run_before)
    }
    for name, manifest in study.parts("runs").items():
        if manifest.get("learning_curve") is not None and name not in recent_runs:
            shutil.rmtree(study.path("runs", name), ignore_errors=True)
