"""What the feature judge drops, where its gain comes from, and what relabelling pays, on a study of the real data.
(How it reranks after so many labels: `benchmarks.reranker`. Adapters: `benchmarks.teaching`.)

    python -m benchmarks.judges --study DIR [--parts judge relabel sources]

DIR is a study with the runs bm25-train and bm25-dev and a dense index of minilm (`python -m benchmarks.study`, then
`blindspot retrieve --with bm25 --split train`); question vectors are kept in it. Nothing about dev is learned or
chosen: settings and thresholds come from training questions. Success is on answers (rule dpr), gold is the question
set's. Intervals are 95% percentile bootstraps over questions, and over draws too where something is drawn.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from benchmarks.machine import machine, spent
from benchmarks.tables import row
from blindspot.backend.core.gold import gold_matrix
from blindspot.backend.core.study import Study
from blindspot.backend.judges.feature_judge import features_of, labelled_lists
from blindspot.backend.judges.feature_model import (
    NEGATIVE,
    POSITIVE,
    UNKNOWN,
    Examples,
    FeatureModel,
    fit_model,
    report,
)
from blindspot.backend.judges.features import FEATURES, Family, WordWeights, columns, lower_case_words
from blindspot.backend.judges.lists import Lists, lists_of
from blindspot.backend.judges.settings import FeatureJudgeSettings
from blindspot.backend.retrieval.dense import Dense
from blindspot.backend.text.answers import match_run
from blindspot.db.records import Hits, Question

RESAMPLES = 2000
DRAWS = 8
DEPTH = 20  # ranks of each list
RELABELLED = (100, 300)
ACCURACY = 0.95  # of the simulated annotator
PARAPHRASES = {
    "P106": "{} earns a living as what?", "P112": "By whom was {} established?", "P127": "To whom does {} belong?",
    "P131": "In which region does {} lie?", "P136": "What genre is {} known for?", "P159": "In which city is {} based?",
    "P17": "{} is situated in what nation?", "P170": "Name the creator of {}.", "P175": "Which artist recorded {}?",
    "P176": "Name the manufacturer of {}.", "P19": "What is the birthplace of {}?", "P20": "What was the place of {}'s death?",
    "P26": "Name the spouse of {}.", "P264": "Which record company released {}?", "P276": "At what place can one find {}?",
    "P36": "Which city is the seat of government of {}?", "P40": "Name a son or daughter of {}.",
    "P407": "In what tongue is {}?", "P413": "In what role does {} play on the team?", "P495": "From what nation does {} come?",
    "P50": "Which writer wrote {}?", "P69": "Which school did {} attend?", "P740": "In which city did {} form?",
    "P800": "Name a notable work of {}.",
}  # fmt: skip
"""By relation, a wording that no training question has."""


class Bench:
    """The study, its lists, and their features, each computed once."""

    def __init__(self, folder: Path):
        self.study = Study.open(folder)
        self.train, self.dev = self.study.run("bm25-train"), self.study.run("bm25-dev")
        self.questions = self.study.questions.with_ids(self.dev.question_ids)
        self.weights, self.dense = WordWeights.of_study(self.study), Dense(self.study, "minilm")
        self.answers = np.asarray(self.dev.answers("dpr"))

    @cached_property
    def learned(self) -> tuple[FeatureModel, dict]:
        """The judge of the lists' first 20 ranks, and its report on training questions."""
        settings = FeatureJudgeSettings()
        examples = self.examples()
        model, out_of_fold = fit_model(examples, settings)
        return model, report(examples, model, out_of_fold, settings)

    def examples(self) -> Examples:
        lists, truth, answers = labelled_lists(self.study, self.train, FeatureJudgeSettings(depth=DEPTH))
        return flat(lists.rows, self.features(lists), truth, answers)

    @cached_property
    def labelled(self) -> tuple[Lists, np.ndarray, np.ndarray, np.ndarray]:
        """Training lists with features, gold and answers, to draw questions from."""
        lists, _, answers = labelled_lists(self.study, self.train, FeatureJudgeSettings())
        gold, _ = gold_matrix(self.study.corpus, lists.rows, lists.questions)
        return lists, self.features(lists), gold, answers

    def features(self, lists: Lists) -> np.ndarray:
        return features_of(self.study, lists, self.weights, self.dense)

    @cached_property
    def dev_features(self) -> np.ndarray:
        return self.features(lists_of(self.dev, self.questions, DEPTH))

    @cached_property
    def dev_rows(self) -> np.ndarray:
        return np.asarray(self.dev.hits.ordinals[:, :DEPTH])

    def reranked(self, model: FeatureModel) -> np.ndarray:
        """(q, DEPTH) bool: which passages hold an answer, in the judge's order."""
        return in_order(model, self.dev_features, self.answers[:, :DEPTH])


def flat(rows: np.ndarray, features: np.ndarray, truth: np.ndarray, answers: np.ndarray) -> Examples:
    given = rows >= 0
    numbers = np.broadcast_to(np.arange(len(rows))[:, None], rows.shape)
    return Examples(features[given], truth[given].astype(np.int8), numbers[given].astype(np.int64), answers[given])


def in_order(model: FeatureModel, features: np.ndarray, answers: np.ndarray) -> np.ndarray:
    scores = model.ranking_scores(features.reshape(-1, features.shape[-1])).reshape(features.shape[:2])
    scores = np.where(np.isnan(features[:, :, 1]), -np.inf, scores)
    return np.take_along_axis(answers, np.argsort(-scores, axis=1, kind="stable"), 1)


def success(right: np.ndarray, k: int) -> np.ndarray:
    """(q,) 100 where an answer is among the first k, else 0."""
    return 100.0 * right[:, :k].any(axis=1)


def interval(values: np.ndarray, statistic: Callable[[np.ndarray], float] | None = None, digits: int = 3) -> str:
    """The mean of values (questions,) or (draws, questions), with its interval; or a statistic of question numbers."""
    rng = np.random.default_rng(0)
    n = values.shape[-1]
    if statistic is not None:
        point, made = statistic(np.arange(n)), [statistic(rng.integers(n, size=n)) for _ in range(RESAMPLES // 10)]
        low, high = np.percentile(made, [2.5, 97.5])
        return f"{point:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"
    table = np.atleast_2d(values)
    made = [
        table[rng.integers(len(table), size=len(table))].mean(axis=0)[rng.integers(n, size=n)].mean()
        for _ in range(RESAMPLES)
    ]
    return f"{table.mean():.1f} ({np.percentile(made, 2.5):.1f} to {np.percentile(made, 97.5):.1f})"


def head(title: str, *cells: str) -> None:
    print(f"\n### {title}\n", flush=True)
    row(*cells)
    print("|" + "---|" * len(cells), flush=True)


def judge(bench: Bench) -> None:
    """Area under the curve of gold on dev, and what the threshold from training questions drops there."""
    from sklearn.metrics import average_precision_score, roc_auc_score

    model, about = bench.learned
    features, answers = bench.dev_features, bench.answers[:, :DEPTH]
    gold, _ = gold_matrix(bench.study.corpus, bench.dev_rows, bench.questions)
    p = model.probabilities(features.reshape(-1, features.shape[-1])).reshape(gold.shape)
    n = f"n = {len(gold):,} questions, {gold.size:,} pairs, {gold.sum():,} gold"
    head(f"The judge, BM25's first {DEPTH} ({n})", "measure", "BM25's score", "judge")
    for name, measure in (("AUC of gold", roc_auc_score), ("average precision", average_precision_score)):
        cells = [
            interval(
                gold[:, 0], lambda q, scores=scores, measure=measure: float(measure(gold[q].ravel(), scores[q].ravel()))
            )
            for scores in (features[:, :, 0], p)
        ]
        row(name, *cells)
    threshold = about["drop"]["value"]
    print(
        f"\nLearned from {about['labelled_questions']:,} training questions ({about['model']}). Threshold from "
        f"training questions out of fold: {threshold:.4f}, below which {about['drop']['share']:.1%} are gold "
        f"({about['drop']['low']:.1%} to {about['drop']['high']:.1%})."
    )
    head("At that threshold, on dev", "share", "%, 95% interval", "n")
    others = ~gold & ~answers
    for name, inside, hit in (
        ("gold removed (a false negative, were it mined)", gold, p >= threshold),
        ("passages without an answer lost", others, p >= threshold),
        ("gold among what is kept", p < threshold, gold),
    ):
        both = inside & hit

        def share(q: np.ndarray, both: np.ndarray = both, inside: np.ndarray = inside) -> float:
            return 100 * float(both[q].sum() / inside[q].sum())

        row(name, interval(gold[:, 0], share, 1), f"{inside.sum():,}")


def draws(bench: Bench, count: int) -> list[np.ndarray]:
    """Questions, as rows of the training lists, that have a gold passage in their list."""
    _, _, gold, _ = bench.labelled
    usable = np.flatnonzero(gold.any(axis=1))
    return [np.sort(np.random.default_rng(100 + draw).choice(usable, count, replace=False)) for draw in range(DRAWS)]


def relabel(bench: Bench) -> None:
    """One gold positive a question and the rest negative; dropping what holds an answer; an annotator's labels for
    it.
    """
    lists, features, gold, answers = bench.labelled
    first = gold & (np.cumsum(gold, axis=1) == 1)
    head(
        f"False negatives relabelled ({DRAWS} draws, an annotator who is right {ACCURACY:.0%} of the time, n = "
        f"{len(bench.questions):,})",
        "questions",
        "training",
        "Success@1",
        "over noisy",
        "passages judged a question",
    )
    for count in RELABELLED:
        found: dict[str, list[np.ndarray]] = {}
        judged = 0
        for number, chosen in enumerate(draws(bench, count)):
            rng = np.random.default_rng(200 + number)
            suspected = (answers & ~first)[chosen]
            judged += int(suspected.sum())
            said = np.where(rng.random(suspected.shape) < ACCURACY, gold[chosen], ~gold[chosen])
            noisy = np.where(first[chosen], POSITIVE, NEGATIVE)
            for name, truth in (
                ("noisy", noisy),
                ("answer matches dropped", np.where(suspected, UNKNOWN, noisy)),
                ("false negatives dropped by the annotator", np.where(suspected & said, UNKNOWN, noisy)),
                ("false negatives relabelled positive", np.where(suspected & said, POSITIVE, noisy)),
            ):
                examples = flat(lists.rows[chosen], features[chosen], truth, answers[chosen])
                model, _ = fit_model(examples, FeatureJudgeSettings())
                found.setdefault(name, []).append(success(bench.reranked(model), 1))
        base = np.array(found["noisy"])
        for name, values in found.items():
            table = np.array(values)
            shown = "" if "annotator" not in name and "relabelled" not in name else f"{judged / DRAWS / count:.1f}"
            row(count, name, interval(table), "" if name == "noisy" else interval(table - base), shown)


def sources(bench: Bench) -> None:
    """Which features the gain comes from, where it is, and what namesakes and other wordings take away."""
    examples = bench.examples()
    families: tuple[Family, ...] = ("list", "dense", "words")
    subsets: dict[str, tuple[Family, ...]] = {
        "all": families,
        **{f"without {family}": tuple(each for each in families if each != family) for family in families},
        **{f"{family} alone": (family,) for family in families},
    }
    gold, _ = gold_matrix(bench.study.corpus, bench.dev_rows, bench.questions)
    whole = success(bench.reranked(bench.learned[0]), 1)
    head(
        f"By family of features (n = {len(gold):,})",
        "features",
        "number",
        "AUC of gold",
        "Success@1",
        "less all features",
    )
    for name, chosen in subsets.items():
        model = fitted_on(examples, chosen)
        after = success(bench.reranked(model), 1)
        row(
            name,
            len(columns(chosen)),
            auc(bench, model, gold),
            interval(after),
            "" if name == "all" else interval(after - whole),
        )
    before, after = success(bench.answers, 1), whole
    frequencies = np.array([question.frequency or 0 for question in bench.questions])
    head("By how often the subject is mentioned", "mentions", "n", "BM25 @1", "reranked @1", "difference")
    for low, high in ((0, 1), (2, 3), (4, 9), (10, 29), (30, 99), (100, 10**9)):
        inside = (frequencies >= low) & (frequencies <= high)
        row(f"{low} to {high}" if high < 10**9 else f"{low} or more", inside.sum(), *gain(before, after, inside))
    head("By relation", "relation", "n", "BM25 @1", "reranked @1", "difference")
    relations = np.array([question.relation for question in bench.questions])
    for relation in np.unique(relations):
        row(relation, (relations == relation).sum(), *gain(before, after, relations == relation))
    namesakes(bench, before, after)
    paraphrases(bench, before, after)


def fitted_on(examples: Examples, families: Sequence[Family]) -> FeatureModel:
    """A judge that knows some families of features alone."""
    features = examples.features.copy()
    features[:, np.setdiff1d(np.arange(len(FEATURES)), columns(families))] = np.nan
    return fit_model(Examples(features, examples.truth, examples.questions, examples.answers), FeatureJudgeSettings())[
        0
    ]


def auc(bench: Bench, model: FeatureModel, gold: np.ndarray) -> str:
    from sklearn.metrics import roc_auc_score

    features = bench.dev_features
    scores = model.ranking_scores(features.reshape(-1, features.shape[-1])).reshape(gold.shape)
    return interval(gold[:, 0], lambda q: float(roc_auc_score(gold[q].ravel(), scores[q].ravel())))


def gain(before: np.ndarray, after: np.ndarray, inside: np.ndarray) -> tuple[str, str, str]:
    return f"{before[inside].mean():.1f}", f"{after[inside].mean():.1f}", interval((after - before)[inside])


def namesakes(bench: Bench, before: np.ndarray, after: np.ndarray) -> None:
    """Questions whose list holds articles that share the subject's name: "Springfield, Ohio" where "Springfield" is
    asked for.
    """
    counts = []
    for question, rows in zip(bench.questions, bench.dev_rows, strict=True):
        titles = {p.title.lower() for p in bench.study.corpus.passages([row for row in rows.tolist() if row >= 0])}
        name = lower_case_words(question.subject or "")
        counts.append(
            sum(set(name) <= set(lower_case_words(title)) and lower_case_words(title) != name for title in titles)
        )
    others = np.array(counts)
    head(
        "Other articles whose title holds the subject's name, among the first 20",
        "articles",
        "n",
        "BM25 @1",
        "reranked @1",
        "difference",
    )
    for label, inside in (("none", others == 0), ("1", others == 1), ("2 or more", others > 1)):
        row(label, inside.sum(), *gain(before, after, inside))


def paraphrases(bench: Bench, before: np.ndarray, after: np.ndarray) -> None:
    """Every dev question in a wording that no training question has; the judge is the one that learned from the usual
    wordings.
    """
    from blindspot.backend.retrieval.bm25 import BM25

    asked = [Question(q.id, PARAPHRASES[q.relation or ""].format(q.subject), q.answers) for q in bench.questions]
    hits: Hits = BM25(bench.study).search([question.text for question in asked], DEPTH)
    answers = match_run(bench.study.corpus, bench.questions, hits.ordinals)
    right = in_order(bench.learned[0], bench.features(Lists(asked, hits.ordinals, hits.scores)), answers)
    other, reordered = success(answers, 1), success(right, 1)
    head(
        f"The same questions in another wording (n = {len(asked):,})", "wording", "BM25 @1", "reranked @1", "difference"
    )
    row("as in training", f"{before.mean():.1f}", f"{after.mean():.1f}", interval(after - before))
    row("another", f"{other.mean():.1f}", f"{reordered.mean():.1f}", interval(reordered - other))
    row(
        "another less usual",
        interval(other - before),
        interval(reordered - after),
        interval(reordered - other - after + before),
    )


PARTS: dict[str, Callable[[Bench], None]] = {
    "judge": judge, "relabel": relabel, "sources": sources,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", type=Path, required=True)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    arguments = parser.parse_args()
    print(machine())
    bench = Bench(arguments.study)
    for part in arguments.parts:
        wall, processor = spent(lambda: PARTS[part](bench))  # noqa: B023
        print(f"\n{part}: {wall:,.0f} s, {processor:,.0f} s of the processor", flush=True)


if __name__ == "__main__":
    main()
