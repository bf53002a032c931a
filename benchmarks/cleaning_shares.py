"""At what share of false negatives does cleaning begin to matter, and for whom? Registered in docs/experiments.md.

    python -m benchmarks.cleaning_shares --out FOLDER [--table]

On a generated encyclopedia, whose truth names every passage that answers, the share of false negatives is set. Each cell
(a learner, a number of training questions, a share, an arm) and seed leaves a file in FOLDER; finished ones are not run
again. --table prints what is there.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path

import numpy as np

from benchmarks.cleaning import KS
from benchmarks.encyclopedia_study import prepared, truth_of
from benchmarks.tables import percent
from blindspot.backend.core.units import units_of
from blindspot.backend.judges.feature_judge import features_of
from blindspot.backend.judges.feature_model import NEGATIVE, POSITIVE, Examples, fit_model
from blindspot.backend.judges.features import WordWeights
from blindspot.backend.judges.lists import lists_of
from blindspot.backend.judges.settings import FeatureJudgeSettings
from blindspot.backend.retrieval.dense import Dense, build_index
from blindspot.backend.retrieval.encoder import load_encoder
from blindspot.backend.retrieval.retrieve import retrieve
from blindspot.backend.training.checkpoints import TrainingFolders
from blindspot.backend.training.dual_encoder import initial_encoder_settings, train
from blindspot.backend.training.examples import Example
from blindspot.backend.training.stored_vectors import StoredVectors
from blindspot.backend.training.training_settings import DualEncoderSettings

PASSAGES, WORLD = 20_000, 401
SHARES = (0.0, 0.05, 0.15, 0.30, 0.50)  # of the negatives that are false, as far as a question has so many
SIZES = {100: 40, 700: 100}  # training questions, and batches of 16
ARMS = ("none", "dropped", "random-dropped")
LEARNERS = ("retriever", "reranker")
SEEDS = (1, 2, 3)  # each draws questions and negatives, and trains
NEGATIVES = 2
TRUE_RANKS, RANKS = 20, 100  # BM25's ranks that true negatives, and false ones, are drawn from
START = "minilm"


@dataclass(frozen=True)
class Cell:
    learner: str
    size: int
    share: float
    arm: str
    seed: int

    @property
    def file(self) -> str:
        return f"{self.learner}-{self.size}-{round(100 * self.share)}-{self.arm}-{self.seed}.json"


def cells() -> Iterator[Cell]:
    for seed, size, share, arm, learner in product(SEEDS, SIZES, SHARES, ARMS, LEARNERS):
        if share or arm == "none":
            yield Cell(learner, size, share, arm, seed)


class Bench:
    """The encyclopedia with its lists, its truth and its features, each computed once."""

    def __init__(self, folder: Path):
        self.folder, self.study = folder, prepared(folder / "encyclopedia", PASSAGES, WORLD)
        if START not in self.study.parts("indexes"):
            build_index(self.study, START)
        for split in ("train", "dev"):
            if f"bm25-{split}" not in self.study.runs():
                retrieve(self.study, "bm25", split=f"encyclopedia/{split}", k=RANKS, name=f"bm25-{split}")
        self.truth = truth_of(self.study)
        self.ids = np.array([passage.id for passage in self.study.corpus.passages(range(len(self.study.corpus)))])

    @cached_property
    def dense(self) -> Dense:
        return Dense(self.study, START)

    @cached_property
    def dev(self):
        return self.study.questions.with_ids(self.study.run("bm25-dev").question_ids)

    def lists(self, split: str, depth: int = RANKS):
        run = self.study.run(f"bm25-{split}")
        return lists_of(run, self.study.questions.with_ids(run.question_ids), depth)

    def right(self, questions, rows: np.ndarray) -> np.ndarray:
        """(q, k) bool: which passages answer, by the generator's truth."""
        return np.array(
            [
                [row >= 0 and self.ids[row] in self.truth[q.id] for row in given]
                for q, given in zip(questions, rows, strict=True)
            ]
        )

    @cached_property
    def train_lists(self):
        """The lists of the training questions, and which of their passages answer."""
        lists = self.lists("train")
        return lists, self.right(lists.questions, lists.rows)

    def features(self, split: str) -> np.ndarray:
        path = self.folder / f"features-{split}.npy"
        if not path.is_file():
            lists = self.lists(split)
            np.save(path, features_of(self.study, lists, WordWeights.of_study(self.study), self.dense))
        return np.load(path, allow_pickle=False)


def drawn(bench: Bench, cell: Cell) -> list[tuple[int, int, list[int]]]:
    """(list number, place of gold, places of the kept negatives) of each training question.

    The draws of a seed are shared by all shares and arms: a negative that is false at 5% is false at 50% too.
    """
    lists, right = bench.train_lists
    rng = np.random.default_rng(cell.seed)
    usable = []
    for i, question in enumerate(lists.questions):
        gold = np.flatnonzero((bench.ids[lists.rows[i]] == question.gold[0]) & (lists.rows[i] >= 0))
        false = np.flatnonzero(right[i] & (bench.ids[lists.rows[i]] != question.gold[0]))
        true = np.flatnonzero(~right[i, :TRUE_RANKS] & (lists.rows[i, :TRUE_RANKS] >= 0))
        if len(gold) and len(false) >= NEGATIVES and len(true) >= NEGATIVES:
            usable.append((i, int(gold[0]), false, true))
    if len(usable) < cell.size:
        raise SystemExit(f"only {len(usable)} training questions have {NEGATIVES} false and true negatives")
    chosen = []
    for at in rng.permutation(len(usable))[: max(SIZES)]:
        i, gold, false, true = usable[at]
        chance, false, true = rng.random(NEGATIVES), rng.permutation(false), rng.permutation(true)
        chosen.append((i, gold, [int(false[j] if chance[j] < cell.share else true[j]) for j in range(NEGATIVES)]))
    chosen = chosen[: cell.size]  # the 100 are the first of the 700
    wrong = {(i, j) for i, _, places in chosen for j in places if right[i, j]}
    pairs = [(i, j) for i, _, places in chosen for j in places]
    dropped: set[tuple[int, int]] = set()
    if cell.arm == "dropped":
        dropped = wrong
    elif cell.arm == "random-dropped":
        dropped = {pairs[at] for at in rng.choice(len(pairs), len(wrong), replace=False)}
    return [(i, gold, [j for j in places if (i, j) not in dropped]) for i, gold, places in chosen]


def retriever(bench: Bench, cell: Cell) -> np.ndarray:
    """(q, k) bool over dev: the question tower fine-tuned, passages from the index. The last checkpoint is measured."""
    lists, _ = bench.train_lists
    examples = []
    for i, gold, kept in drawn(bench, cell):
        passages = bench.study.corpus.passages([int(lists.rows[i, j]) for j in (gold, *kept)])
        question = lists.questions[i]
        examples.append(Example(question.id, question.text, (passages[0],), tuple(passages[1:]), question.relation))
    start, tokens = initial_encoder_settings(bench.study, START), bench.dense.manifest["max_tokens"]
    settings = DualEncoderSettings(
        towers="two", only="question", batch=16, hard_negatives=NEGATIVES, in_batch=True, passage_tokens=tokens,
        steps=SIZES[cell.size], held_out=0, learning_rate=5e-5, precision="float32", seed=cell.seed,
    )  # fmt: skip
    name = cell.file.removesuffix(".json")
    place = TrainingFolders(bench.folder / f"{name}.model", bench.folder / f"{name}.training", "cpu", about={})
    shutil.rmtree(place.target, ignore_errors=True)
    train(start, examples, place, settings, stored_vectors=StoredVectors.open(bench.study, START, tokens))
    encoder = load_encoder(
        type(start)(model=str(place.target), passage_template=start.passage_template, max_tokens=tokens), "cpu"
    )
    vectors = encoder.encode_questions([question.text for question in bench.dev])
    hits = bench.dense.search_vectors(vectors, max(KS))
    shutil.rmtree(place.target)
    return bench.right(bench.dev, hits.ordinals)


def reranker(bench: Bench, cell: Cell) -> np.ndarray:
    """(q, k) bool over dev: BM25's first 100 in the order of the feature judge."""
    features = bench.features("train")
    rows, truth, numbers = [], [], []
    for number, (i, gold, kept) in enumerate(drawn(bench, cell)):
        for place, label in ((gold, POSITIVE), *((j, NEGATIVE) for j in kept)):
            rows.append(features[i, place])
            truth.append(label)
            numbers.append(number)
    examples = Examples(
        np.array(rows), np.array(truth, np.int8), np.array(numbers, np.int64), np.zeros(len(rows), bool)
    )
    model, _ = fit_model(examples, FeatureJudgeSettings(depth=RANKS, seed=cell.seed))
    lists, dev = bench.lists("dev"), bench.features("dev")
    scores = model.ranking_scores(dev.reshape(-1, dev.shape[-1])).reshape(dev.shape[:2])
    order = np.argsort(np.where(lists.rows >= 0, -scores, np.inf), axis=1, kind="stable")
    return bench.right(lists.questions, np.take_along_axis(lists.rows, order, 1))


def run(bench: Bench, cell: Cell) -> None:
    right = (retriever if cell.learner == "retriever" else reranker)(bench, cell)
    found = {str(k): right[:, :k].any(axis=1).astype(int).tolist() for k in KS}
    (bench.folder / cell.file).write_text(json.dumps({"found": found}), encoding="utf-8")


def table(bench: Bench) -> None:
    """The difference of cleaning and of dropping at random from no cleaning, and of the two, by share."""
    units = units_of(bench.dev, bench.study.settings.unit).codes
    print("| learner | training questions | share false | Success@ | none | dropped less none | dropped less random |")
    print("|---|---|---|---|---|---|---|")
    for learner, size, share in product(LEARNERS, SIZES, SHARES):
        arms = ARMS if share else ARMS[:1]
        files = {seed: [bench.folder / Cell(learner, size, share, arm, seed).file for arm in arms] for seed in SEEDS}
        seeds = [seed for seed, paths in files.items() if all(path.is_file() for path in paths)]
        if not seeds:
            continue
        for k in KS:
            values = [
                np.array([json.loads(files[seed][at].read_text())["found"][str(k)] for seed in seeds], float)
                for at in range(len(arms))
            ]
            shown = [percent(values[0], units, False)]
            shown += [percent(values[1] - values[at], units, True) for at in (0, 2)] if share else ["", ""]
            print(f"| {learner} | {size} | {share:.0%} | {k} | {' | '.join(shown)} | ({len(seeds)} seeds)")
    print(f"\nn = {len(bench.dev):,} dev questions about as many facts; 95% intervals over seeds and facts.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    bench = Bench(arguments.out)
    for cell in () if arguments.table else cells():
        if not (bench.folder / cell.file).is_file():
            run(bench, cell)
            print(cell.file, flush=True)
    table(bench)


if __name__ == "__main__":
    main()
