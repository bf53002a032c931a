"""The reranker by the number of labelled questions: Success@1, 5 and 20 of BM25's first 100 ranks, reordered.

    python -m benchmarks.reranker --study DIR

DIR is a study with the runs bm25-train and bm25-dev and a dense index of minilm. A labelled
question has all its gold; its other passages are negatives unless they hold an answer. Draws are by seeds 1 to 5. Dev
questions only measure. Intervals are 95%: over questions by units of observation, and over the draws where there are any.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

import numpy as np

from benchmarks.machine import machine, spent
from benchmarks.tables import percent, row
from blindspot.backend.core.gold import gold_matrix
from blindspot.backend.core.study import Study
from blindspot.backend.core.units import units_of
from blindspot.backend.judges.feature_cache import cached_features
from blindspot.backend.judges.feature_judge import examples_of, trainable_questions
from blindspot.backend.judges.feature_model import NEGATIVE, POSITIVE, UNKNOWN, Examples, fit_ranker
from blindspot.backend.judges.lists import Lists
from blindspot.backend.judges.settings import RERANK_DEPTH, FeatureJudgeSettings

SEEDS = (1, 2, 3, 4, 5)
SIZES = (0, 1, 2, 5, 10, 30, 50, 100, 300, 1000, 2000)
KS = (1, 5, 20)
REFERENCE = 200
JUDGED = 10  # ranks that a person judges


class Bench:
    """Lists, features, gold and answers of train and dev, each computed once."""

    def __init__(self, folder: Path):
        self.study = Study.open(folder)
        self.train, self.dev = self.study.run("bm25-train"), self.study.run("bm25-dev")
        self.questions = self.study.questions.with_ids(self.dev.question_ids)
        self.lists, self.features = cached_features(self.study, self.dev, self.questions, RERANK_DEPTH, "minilm")
        self.answers = np.asarray(self.dev.answers("dpr"))[:, :RERANK_DEPTH]
        self.units = units_of(self.questions, self.study.settings.unit)

    @cached_property
    def gold(self) -> np.ndarray:
        return gold_matrix(self.study.corpus, self.lists.rows, self.questions)[0]

    @cached_property
    def usable(self) -> tuple[Lists, np.ndarray, np.ndarray, np.ndarray]:
        """Lists of the training questions with gold, in memory: with features, gold and answers."""
        ids = trainable_questions(self.study, self.train)
        questions = [q for q in self.study.questions.with_ids(ids) if q.gold]
        lists, features = cached_features(self.study, self.train, questions, RERANK_DEPTH, "minilm")
        gold, _ = gold_matrix(self.study.corpus, lists.rows, questions)
        answers = np.asarray(self.train.answers("dpr"))[[self.train.row(q.id) for q in questions], :RERANK_DEPTH]
        return lists, features, gold, answers

    def drawn(self, count: int, seed: int) -> np.ndarray:
        """Places of training questions; a larger draw of a seed holds the smaller ones."""
        return np.random.default_rng(seed).permutation(len(self.usable[0].questions))[:count]

    def examples(self, places: np.ndarray, judged_alone: bool = False) -> Examples:
        lists, features, gold, answers = self.usable
        truth = np.where(gold, POSITIVE, np.where(answers, UNKNOWN, NEGATIVE)).astype(np.int8)[places]
        if judged_alone:
            truth[:, JUDGED:] = UNKNOWN
        chosen = Lists([lists.questions[i] for i in places], lists.rows[places], lists.scores[places])
        reference = features[self.drawn(REFERENCE, 0)]
        return examples_of(chosen, features[places], truth, answers[places], reference)

    def scores(self, rank: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        scores = np.full(self.lists.rows.shape, -np.inf)
        present = self.lists.rows >= 0
        scores[present] = rank(self.features[present])
        return scores

    def success(self, scores: np.ndarray) -> np.ndarray:
        """(3, q) bool: an answer in the first 1, 5 and 20."""
        answers = np.take_along_axis(self.answers, np.argsort(-scores, axis=1, kind="stable"), 1)
        return np.array([answers[:, :k].any(axis=1) for k in KS])

    def shown(self, table: np.ndarray, signed: bool = False) -> str:
        return percent(table, self.units.codes, signed)


def curve(bench: Bench) -> None:
    from sklearn.metrics import roc_auc_score

    settings = FeatureJudgeSettings()
    base = bench.success(-np.arange(RERANK_DEPTH)[None].repeat(len(bench.questions), 0))
    first = bench.gold[:, :20].ravel()
    row(
        "questions",
        *(f"Success@{k}" for k in KS),
        "@1 of the draws",
        "@1 less the size before",
        "AUC of gold, first 20",
    )
    row("BM25", *(bench.shown(values[None]) for values in base), "", "", "")
    before = None
    for size in SIZES:
        tables, aucs = [], []
        for seed in SEEDS:
            scores = bench.scores(fit_ranker(bench.examples(bench.drawn(size, seed)), settings).ranking_scores)
            tables.append(bench.success(scores))
            aucs.append(roc_auc_score(first, scores[:, :20].ravel()))
        table = np.array(tables)
        draws = " ".join(f"{100 * each:.1f}" for each in table[:, 0].mean(axis=1))
        step = "" if before is None else bench.shown(table[:, 0].astype(float) - before[:, 0], signed=True)
        row(f"{size:,}", *(bench.shown(table[:, i]) for i in range(len(KS))), draws, step, f"{np.mean(aucs):.3f}")
        before = table


def seconds(bench: Bench) -> None:
    """One question at a time: BM25 and the reranker of its first 100 ranks, without and with the judge's features of meaning."""
    from blindspot.backend.judges.feature_judge import FeatureJudge, learn_judge
    from blindspot.backend.judges.rerank import Rerank
    from blindspot.backend.retrieval.bm25 import BM25

    began, used = time.monotonic(), time.process_time()
    learned = learn_judge(bench.study, "timed", "bm25-train", encoder="minilm", replace=True)
    print(
        f"learned in {time.monotonic() - began:.1f} s ({time.process_time() - used:.1f} s of the processor); {learned.report['auc']:.3f}"
    )
    below = BM25(bench.study)
    reranker = Rerank(bench.study, FeatureJudge(bench.study, "timed"), below)
    texts = [question.text for question in bench.questions[:60]]
    for name, retriever in (("BM25", below), ("reranked", reranker)):
        for text in texts[:10]:
            retriever.search([text], 100)
        times = [spent(lambda: retriever.search([text], 100)) for text in texts[10:]]  # noqa: B023
        wall, processor = np.median(np.array(times), axis=0) * 1000
        print(f"{name}: {wall:.0f} ms a question (median of {len(times)}), {processor:.0f} ms of the processor")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", type=Path, required=True)
    print(machine())
    bench = Bench(parser.parse_args().study)
    curve(bench)
    seconds(bench)


if __name__ == "__main__":
    main()
