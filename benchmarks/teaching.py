"""From the reranker into the retriever: a judge of 100 labelled questions teaches MiniLM from all training questions.

    python -m benchmarks.teaching --study DIR [--parts settings adapter question encoder]

DIR is a study of the real data with the runs bm25-train, hybrid-train (made here if it is missing) and a dense index of
minilm. The judge learns from 100 training questions with their gold, and reorders hybrid retrieval's first 100 passages of
all training questions, whose gold nobody sees. Beside it, with the same budget: BM25's lists as they are, and gold.

settings: an adapter's settings by held-out facts of train. Everything else was fixed there; dev is only measured, by
answers (rule dpr). question: the question tower alone, over the index as it is. encoder: the whole encoder; its passages
are encoded again. Both make models, indexes and runs of the study, and the same command resumes them. Intervals are 95%:
over facts and seeds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import machine
from benchmarks.tables import percent, row
from blindspot.backend.core.gold import gold_matrix
from blindspot.backend.core.settings import EncoderSettings, add_encoder
from blindspot.backend.core.study import Study
from blindspot.backend.core.units import units_of
from blindspot.backend.judges.feature_cache import cached_features
from blindspot.backend.judges.feature_judge import examples_of, trainable_questions
from blindspot.backend.judges.feature_model import NEGATIVE, POSITIVE, UNKNOWN, fit_ranker
from blindspot.backend.judges.lists import Lists, lists_of
from blindspot.backend.judges.settings import RERANK_DEPTH, FeatureJudgeSettings
from blindspot.backend.retrieval.dense import Dense
from blindspot.backend.retrieval.encoder import load_encoder
from blindspot.backend.retrieval.question_vectors import question_vectors
from blindspot.backend.retrieval.retrieve import retrieve
from blindspot.backend.retrieval.search import ExactSearch
from blindspot.backend.text.answers import match_run
from blindspot.backend.training.adapter import questions_of_lists
from blindspot.backend.training.adapter_map import TrainingQuestions, learn_map, pad_rows
from blindspot.backend.training.checkpoints import TrainingFolders
from blindspot.backend.training.dual_encoder import train, try_model
from blindspot.backend.training.estimate import estimate
from blindspot.backend.training.judged_lists import JudgedLists, ListExamples, ListTeacher, sort_lists
from blindspot.backend.training.share_index import share_index
from blindspot.backend.training.stored_vectors import StoredVectors
from blindspot.backend.training.training_settings import AdapterSettings, DualEncoderSettings
from blindspot.db.records import Question

LABELLED = 100
SEEDS = (1, 2, 3)
KS = (1, 5, 20)
TIMED = 64  # passages that are encoded for the forecast
HELD_OUT = 1000  # questions of whole facts that choose settings
NEGATIVES = 20  # of hybrid's first ranks, for gold
FIXED: dict[str, Any] = {"scale": 20.0, "weight_decay": 0.0, "steps": 400, "held_out": 0}
TRIED = ((0.5, 20, 20.0), (1.0, 20, 20.0), (2.0, 20, 20.0), (2.0, 20, 40.0), (4.0, 20, 20.0), (2.0, 100, 20.0))
"""Times the judge's log-odds, ranks that teach, scale of the similarities."""


class Bench:
    """Lists, features, vectors and questions of train and dev, each computed once."""

    def __init__(self, folder: Path):
        self.study = Study.open(folder)
        if "hybrid-train" not in self.study.runs():
            retrieve(self.study, "hybrid", split="train", name="hybrid-train")
        self.dense = Dense(self.study, "minilm")
        run = self.study.run("hybrid-train")
        self.questions = self.study.questions.with_ids(trainable_questions(self.study, run))
        self.lists, self.features = cached_features(self.study, run, self.questions, RERANK_DEPTH, "minilm")
        self.gold = gold_matrix(self.study.corpus, self.lists.rows, self.questions)[0]
        self.answers = np.asarray(run.answers("dpr"))[[run.row(q.id) for q in self.questions], :RERANK_DEPTH]
        self.facts = units_of(self.questions, self.study.settings.unit).codes

    @cached_property
    def dev(self) -> list[Question]:
        return self.study.questions.with_ids(self.study.run("bm25-dev").question_ids)

    @cached_property
    def dev_facts(self) -> np.ndarray:
        return units_of(self.dev, self.study.settings.unit).codes

    @cached_property
    def vectors(self) -> np.ndarray:
        """The passages in memory: every adapter searches them all."""
        return np.array(self.dense.vectors)

    def judged(self, seed: int, places: np.ndarray | None = None) -> JudgedLists:
        """The lists in the order of a judge of LABELLED questions, drawn from some places; default from all."""
        pool = np.arange(len(self.questions)) if places is None else places
        drawn = np.random.default_rng(seed).permutation(pool)[:LABELLED]
        truth = np.where(self.gold, POSITIVE, np.where(self.answers, UNKNOWN, NEGATIVE)).astype(np.int8)[drawn]
        chosen = Lists([self.questions[i] for i in drawn], self.lists.rows[drawn], self.lists.scores[drawn])
        reference = self.features[np.random.default_rng(0).permutation(pool)[:200]]
        examples = examples_of(chosen, self.features[drawn], truth, self.answers[drawn], reference)
        present, scores = self.lists.rows >= 0, np.full(self.lists.rows.shape, np.nan)
        scores[present] = fit_ranker(examples, FeatureJudgeSettings()).ranking_scores(self.features[present])
        return JudgedLists(self.questions, *sort_lists(self.lists.rows, scores), f"judge-{seed}", "hybrid-train")

    def unordered(self, seed: int) -> JudgedLists:
        """BM25's lists of the same questions with BM25's scores: the teacher that nobody labelled for."""
        lists = lists_of(self.study.run("bm25-train"), self.questions, RERANK_DEPTH)
        return JudgedLists(self.questions, *sort_lists(lists.rows, lists.scores), "bm25", "bm25-train")

    def gold_taught(self) -> TrainingQuestions:
        """All gold of the questions, and the other passages of hybrid retrieval's first ranks as negatives."""
        known = self.study.corpus.ordinals({id for q in self.questions for id in q.gold})
        positives = [[known[id] for id in q.gold if id in known] for q in self.questions]
        negatives = [
            [row for row in rows[:NEGATIVES].tolist() if row >= 0 and row not in gold]
            for rows, gold in zip(self.lists.rows, map(set, positives), strict=True)
        ]
        return TrainingQuestions(self.question_vectors(self.questions), pad_rows(positives), pad_rows(negatives))

    def question_vectors(self, questions: list[Question]) -> np.ndarray:
        return question_vectors(self.study, self.dense, [question.text for question in questions])

    def success(self, questions: list[Question], vectors: np.ndarray, passages: np.ndarray | None = None) -> np.ndarray:
        """(3, q) bool: an answer in the first 1, 5 and 20 of all passages."""
        search = ExactSearch(self.vectors if passages is None else passages, "dot", None)
        right = match_run(self.study.corpus, questions, search.search(vectors, max(KS)).ordinals)
        return np.array([right[:, :k].any(axis=1) for k in KS])


def mapped(learned: Any, vectors: np.ndarray) -> np.ndarray:
    import torch

    with torch.no_grad():
        return torch.nn.functional.normalize(learned.map(torch.from_numpy(vectors)), dim=1).numpy()


def head(bench: Bench, what: str) -> np.ndarray:
    """Print the head of a table over dev and the start's line; return the start's values."""
    print(f"\n{what}; n = {len(bench.dev):,} dev questions about {len(set(bench.dev_facts.tolist())):,} facts\n")
    row("taught by", *(f"Success@{k}" for k in KS), "@20 over MiniLM", "@20 of the seeds", "CPU seconds a seed")
    start = bench.success(bench.dev, bench.question_vectors(bench.dev))
    row("nobody: MiniLM", *(percent(each[None], bench.dev_facts) for each in start), "", "", "")
    return start


def line(bench: Bench, name: str, tables: list[np.ndarray], start: np.ndarray, seconds: list[float]) -> None:
    table = np.array(tables)
    cells = [percent(table[:, i], bench.dev_facts) for i in range(len(KS))]
    over = percent(table[:, -1].astype(float) - start[-1], bench.dev_facts, signed=True)
    row(
        name,
        *cells,
        over,
        " ".join(f"{100 * each:.1f}" for each in table[:, -1].mean(axis=1)),
        f"{np.mean(seconds):.0f}",
    )


def settings(bench: Bench) -> None:
    """How sharp the judge's distribution is, and how many ranks teach; seed 1, on held-out facts of train."""
    facts = np.unique(bench.facts)
    aside = np.random.default_rng(7).permutation(facts)[: round(len(facts) * HELD_OUT / len(bench.questions))]
    out = np.isin(bench.facts, aside)
    held, rest = [bench.questions[i] for i in np.flatnonzero(out)], np.flatnonzero(~out)
    whole, asked = bench.judged(1, rest), bench.question_vectors(held)
    print(f"\nSettings of an adapter, n = {len(held):,} held-out training questions, one seed\n")
    row("log-odds times", "ranks", "scale", *(f"Success@{k}" for k in KS))
    row("MiniLM", "", "", *(f"{100 * each.mean():.1f}" for each in bench.success(held, asked)))
    for sharpness, ranks, scale in TRIED:
        lists = JudgedLists([bench.questions[i] for i in rest], whole.rows[rest], whole.log_odds[rest], "", "")
        questions = questions_of_lists(bench.study, bench.dense, lists, None, ranks, sharpness)
        learned = learn_map(questions, bench.vectors, True, AdapterSettings(**FIXED | {"scale": scale}))
        right = bench.success(held, mapped(learned, asked))
        row(sharpness, ranks, scale, *(f"{100 * each.mean():.1f}" for each in right))


def adapter(bench: Bench) -> None:
    start = head(
        bench, f"Adapters over MiniLM's index, {len(bench.questions):,} training questions, {len(SEEDS)} seeds"
    )
    asked = bench.question_vectors(bench.dev)
    teachers: dict[str, Callable[[int], TrainingQuestions]] = {
        f"a judge of {LABELLED} labelled questions": lambda seed: questions_of_lists(
            bench.study, bench.dense, bench.judged(seed)
        ),
        "BM25's lists as they are": lambda seed: questions_of_lists(bench.study, bench.dense, bench.unordered(seed)),
        "gold of all questions": lambda seed: bench.gold_taught(),
    }
    for name, teach in teachers.items():
        tables, seconds = [], []
        for seed in SEEDS:
            questions, began = teach(seed), time.process_time()
            learned = learn_map(questions, bench.vectors, True, AdapterSettings(**FIXED, seed=seed))
            seconds.append(time.process_time() - began)
            tables.append(bench.success(bench.dev, mapped(learned, asked)))
        line(bench, name, tables, start, seconds)


QUESTION: dict[str, Any] = {
    "only": "question",
    "passage_tokens": 256,
    "question_tokens": 32,
    "batch": 128,
    "hard_negatives": 20,
    "learning_rate": 1e-4,
    "steps": 72,
    "evaluate_every": 36,
}
ENCODER: dict[str, Any] = {
    "towers": "shared",
    "passage_tokens": 64,
    "question_tokens": 32,
    "batch": 32,
    "hard_negatives": 3,
    "learning_rate": 1e-4,
    "steps": 160,
    "evaluate_every": 80,
    "held_out": 100,
    "pool": 400,
}


def trained(bench: Bench, name: str, lists: JudgedLists, chosen: DualEncoderSettings) -> float:
    """Train a model of the study, or resume it, and retrieve with it for dev. Return the CPU seconds of training now."""
    study, began = bench.study, time.process_time()
    target = study.path("models", name)
    begin = study.settings.encoders["minilm"]
    stored = StoredVectors.open(study, "minilm", chosen.passage_tokens) if chosen.only else None
    if not target.exists():
        examples, teacher = ListExamples(study, lists), ListTeacher(study, lists)
        cost = estimate(begin, examples, chosen, stored_vectors=stored)
        print(
            f"forecast of {name}: {cost.steps:,} steps of {cost.seconds_per_step:.2f} s, {cost.seconds / 60:.0f} minutes"
        )
        if not chosen.only:
            print(
                f"then {len(study.corpus):,} passages to encode: {indexing_minutes(study, begin, chosen):.0f} minutes"
            )
        place = TrainingFolders(target, study.path("models", f".{name}~training"), progress=said)
        train(begin, examples, place, chosen, teacher=teacher, stored_vectors=stored)
    seconds = time.process_time() - began
    if name not in study.settings.encoders:
        about = {"passage_template": begin.passage_template, "max_tokens": chosen.passage_tokens}
        add_encoder(study.settings_path, name, {"model": str(target), **about})
        if chosen.only:
            share_index(study, "minilm", name)
    try_model(study, name, progress=said)
    return seconds


def indexing_minutes(study: Study, begin: EncoderSettings, chosen: DualEncoderSettings) -> float:
    encoder = load_encoder(replace(begin, max_tokens=chosen.passage_tokens), "cpu")
    passages = study.corpus.passages(range(TIMED))
    encoder.encode_passages(passages[:16])
    began = time.monotonic()
    encoder.encode_passages(passages)
    return (time.monotonic() - began) / TIMED * len(study.corpus) / 60


def said(done: int, total: int | None, doing: str) -> None:
    if done % 10 == 0:
        print(f"  {time.strftime('%H:%M:%S')} {doing} {done:,} of {total or 0:,}", flush=True)


def towers(bench: Bench, what: str, stem: str, chosen: dict[str, Any], seeds: tuple[int, ...]) -> None:
    """Models of the study named after the teacher and the seed; what is done is not done again."""
    seconds: dict[str, list[float]] = {}
    names = {
        f"a judge of {LABELLED} labelled questions": (bench.judged, seeds),
        "BM25's lists as they are": (bench.unordered, seeds[:1]),
    }
    for name, (teach, of_teacher) in names.items():
        for seed in of_teacher:
            model = f"{stem}-{'judge' if teach == bench.judged else 'bm25'}-{seed}"
            spent = trained(bench, model, teach(seed), DualEncoderSettings(**chosen, seed=seed))
            seconds.setdefault(name, []).append(spent)
    start = head(bench, what)
    for name, (teach, of_teacher) in names.items():
        models = [f"{stem}-{'judge' if teach == bench.judged else 'bm25'}-{seed}" for seed in of_teacher]
        answers = [np.asarray(bench.study.run(f"{model}-dev").answers("dpr")) for model in models]
        tables = [np.array([each[:, :k].any(axis=1) for k in KS]) for each in answers]
        line(bench, name, tables, start, seconds[name])


def question(bench: Bench) -> None:
    towers(bench, "The question tower alone, over MiniLM's index", "asked", QUESTION, SEEDS)


def encoder(bench: Bench) -> None:
    towers(bench, "The whole encoder, passages encoded again", "whole", ENCODER, SEEDS[:1])


PARTS = {"settings": settings, "adapter": adapter, "question": question, "encoder": encoder}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", type=Path, required=True)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=["settings", "adapter"])
    arguments = parser.parse_args()
    print(machine())
    bench = Bench(arguments.study)
    for part in arguments.parts:
        began = time.monotonic()
        PARTS[part](bench)
        print(f"\n{part}: {time.monotonic() - began:,.0f} s", flush=True)


if __name__ == "__main__":
    main()
