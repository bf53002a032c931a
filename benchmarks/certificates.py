"""Do certificates and prediction-powered intervals hold when the judge is wrong on purpose, and what do they save?

    python -m benchmarks.certificates [--studies 500] [--passages 3000] [--seed 1901]

One generated encyclopedia with known truth, one feature judge (learned once, from gold and from people's labels of the
first 20 ranks of 60 questions: the pilot), then 500 simulated studies. Each study draws its sample again and has its
pairs judged by the truth; the encyclopedia, the retriever's lists, the judge and the pilot stay. Judges: the feature
judge as it is; its scores raised (three times, plus 0.1) and lowered (a quarter); and reversed (1 - score).

Certificates: the 95% bound after twice the planned draws covers the true share, over all looks before as well; and
the labels that meet the target in half and in four of five studies, against simple random samples with hypergeometric
bounds (Clopper and Pearson's for a finite set), of the smallest fixed size that meets it with the same power. Both take
the found false negatives out of the set.

Intervals: the share of false negatives among the first 20 unlabelled ranks, from audits of 20 and of 60 questions with 8
passages each.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from analysis.audit import rate
from analysis.certificates import bets, pilot_chances, plan, times_to
from analysis.exact_bounds import sample_size_alone
from analysis.prediction_powered import ScoredSample, powered_rate
from analysis.weighted_draws import cells_of, draw_order
from backend.core.study import Study
from benchmarks.machine import machine
from db.events import Choice, LabelEvent
from db.labels import Labels
from db.people import People

STUDIES = 500
PASSAGES, SEED = 3000, 1902
# Seeds 7 and 8 were used during development. With seed 1901 plans that were too short were found and mended.
DEPTH, PILOT_QUESTIONS, PILOT_RANKS = 100, 60, 20
KEEP_BELOW = 0.1
SETS = (("none", 1, 0.08), ("none", 11, 0.03), ("judge", 1, 0.02))
"""Policy, first rank, share of false negatives to certify."""
AUDITS = (20, 60)
POOL, SHOWN = 20, 8
LONGEST = 2000
COVERS = 0.94
RUN, JUDGE = "bm25-train", "feature"
BIASES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "as it is": lambda scores: scores,
    "raised": lambda scores: np.clip(3 * scores + 0.1, 0, 1),
    "lowered": lambda scores: scores / 4,
    "reversed": lambda scores: 1 - scores,
}


@dataclass(frozen=True)
class TruePairs:
    """n pairs of a set's negatives: whether each is false, the judge's score, answer match, rank, question, and whether
    the pilot judged it.
    """

    false: np.ndarray
    scores: np.ndarray
    answers: np.ndarray
    ranks: np.ndarray
    questions: np.ndarray
    pilot: np.ndarray

    def some(self, rows: np.ndarray) -> TruePairs:
        return TruePairs(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class Tried:
    """What some studies gave: the share that covers, planned draws, and labels at which half and four of five meet."""

    covered: float
    planned: int
    half: float
    most: float


def prepared_sets(folder: Path, passages: int, seed: int) -> dict[str, TruePairs]:
    """Return the negatives of each policy's set over an encyclopedia."""
    from backend.judges.feature_judge import learn_judge
    from backend.retrieval.retrieve import retrieve
    from backend.training_sets.builder import build
    from backend.training_sets.training_set import TrainingSet
    from benchmarks.denoising.planted import prepared, truth_of

    study = prepared(folder, passages, seed)
    retrieve(study, "bm25", split="train", k=DEPTH, name=RUN)
    truth = truth_of(study)
    build(study, "none", [RUN], first=1, last=DEPTH)
    pilot = _pilot(study, TrainingSet.open(study, "none"), truth)
    learn_judge(study, JUDGE, RUN, settings={"depth": DEPTH})
    build(
        study, "judge", [RUN], policy="judge", model=JUDGE, thresholds={"keep_below": KEEP_BELOW}, first=1, last=DEPTH
    )
    return {name: _true_pairs(study, TrainingSet.open(study, name), truth, pilot) for name in ("none", "judge")}


def _pilot(study: Study, made, truth: Mapping[str, set[str]]) -> set[tuple[str, str]]:
    """Let people judge the first ranks of some questions by the truth, and return the pairs."""
    People(study.labels_path).add("simulated")
    labels = Labels(study.labels_path, passages=study.corpus.ordinals)
    groups = list(made.groups())
    chosen = np.random.default_rng(0).choice(len(groups), min(PILOT_QUESTIONS, len(groups)), replace=False)
    judged = set()
    for question, pairs in (groups[place] for place in chosen.tolist()):
        shown = [pair.passage for pair in pairs if pair.mined and pair.rank is not None and pair.rank <= PILOT_RANKS]
        choices = tuple(Choice(id, "positive" if id in truth[question] else "negative") for id in shown)
        if choices:
            labels.add("simulated", LabelEvent(f"pilot-{question}", "label", question, choices))
            judged |= {(question, id) for id in shown}
    return judged


def _true_pairs(study: Study, made, truth: Mapping[str, set[str]], pilot: set[tuple[str, str]]) -> TruePairs:
    from backend.judges.scores import ScoreStore

    rows = [pair for _, pairs in made.groups() for pair in pairs if pair.role == "negative"]
    known = ScoreStore.open(study, JUDGE)([pair[:2] for pair in rows])
    return TruePairs(
        np.array([pair.passage in truth[pair.question] for pair in rows]),
        np.array([known.get(pair[:2], np.nan) for pair in rows]),
        np.array([float(bool(pair.answer)) for pair in rows]),
        np.array([pair.rank for pair in rows]),
        np.array([pair.question for pair in rows]),
        np.array([pair[:2] in pilot for pair in rows]),
    )


def chances_of(pairs: TruePairs, pilot: TruePairs, bias: str, with_answers: bool, piloted: bool) -> np.ndarray:
    """Return the chances that `training-set certify` would steer by."""
    scores = BIASES[bias](np.concatenate([pairs.scores, pilot.scores]))
    if not piloted:
        return scores[: len(pairs.scores)]
    answers = np.concatenate([pairs.answers, pilot.answers]) * with_answers
    places = len(pairs.scores) + np.arange(len(pilot.scores))
    return pilot_chances(scores, answers, places, pilot.false)[0][: len(pairs.scores)]


def certify(pairs: TruePairs, chances: np.ndarray, target: float, studies: int) -> Tried:
    """Draw and judge some studies of a set, each with its seed."""
    cells, member = cells_of(chances)
    made = plan(cells, target)
    n = min(len(member), LONGEST, max(2 * made.draws, 100))
    weights = made.cells.weights[member]
    orders = np.array([draw_order(weights, seed, n)[0] for seed in range(studies)])
    tried = bets(pairs.false[orders], member[orders], made.cells, target, made.horizon)
    times = times_to(tried, target)
    covered = float((tried.upper() >= pairs.false.mean()).mean())
    half, most = (float(np.quantile(times, share, method="higher")) for share in (0.5, 0.8))
    return Tried(covered, made.draws, half, most)


def intervals(pairs: TruePairs, bias: str, n: int, studies: int) -> dict[str, tuple[float, float, float, float]]:
    """Return share covered, mean width, mean estimate and mean lambda of both intervals over audits of n questions."""
    inside = pairs.ranks <= POOL
    pool = pairs.some(inside)
    scores, truth = BIASES[bias](pool.scores), pool.false.mean()
    _, member = np.unique(pool.questions, return_inverse=True)
    rows_of = [np.flatnonzero(member == place) for place in range(member.max() + 1)]
    found: dict[str, list[tuple[float, float, float, float]]] = {"powered": [], "classical": []}
    for seed in range(studies):
        rng = np.random.default_rng(seed)
        rows, probabilities = [], []
        for place in rng.choice(len(rows_of), n, replace=False).tolist():
            shown = rng.permutation(rows_of[place])[:SHOWN].tolist()
            rows += shown
            probabilities += [n / len(rows_of) * len(shown) / len(rows_of[place])] * len(shown)
        sample = ScoredSample(
            pool.false[rows], np.ones(len(rows), bool), scores[rows], np.array(probabilities), pool.questions[rows]
        )
        mine = powered_rate(sample, scores)
        other = rate(sample.hits, sample.settled, sample.probabilities, sample.questions, resamples=500)
        for name, each, weight in (("powered", mine, mine.weight), ("classical", other, 0.0)):
            assert each.value is not None and each.low is not None and each.high is not None
            found[name].append((each.low <= truth <= each.high, each.high - each.low, each.value, weight))
    return {
        name: (float(means[0]), float(means[1]), float(means[2]), float(means[3]))
        for name, rows_found in found.items()
        for means in [np.mean(rows_found, axis=0)]
    }


def report_certificates(sets: Mapping[str, TruePairs], studies: int) -> float:
    """Print the tables of certificates, and return the lowest coverage."""
    lowest = 1.0
    pilot = sets["none"].some(sets["none"].pilot)
    for policy, first, target in SETS:
        pairs = sets[policy].some((sets[policy].ranks >= first) & ~sets[policy].pilot)
        share, size = float(pairs.false.mean()), len(pairs.false)
        alone = [sample_size_alone(share, target, size, power) for power in (0.5, 0.8)]
        print(
            f"\n{policy}, ranks {first} to {DEPTH}: {size:,} unjudged negatives, {share:.2%} false; target {target:.1%}; "
            f"simple random samples need {alone[0]:,} and {alone[1]:,} labels (half, four of five)"
        )
        print(f"{'judge':<44}{'covers':>8}{'planned':>9}{'half':>7}{'4 of 5':>8}{'of alone':>10}")
        rows: list[tuple[str, np.ndarray]] = [("no judge", np.full(size, np.nan))]
        for bias in BIASES:
            for words, with_answers, piloted in (
                ("pilot, answers", True, True),
                ("pilot", False, True),
                ("no pilot", False, False),
            ):
                rows.append((f"{bias}, {words}", chances_of(pairs, pilot, bias, with_answers, piloted)))
        for words, chances in rows:
            tried = certify(pairs, chances, target, studies)
            lowest = min(lowest, tried.covered)
            print(
                f"{words:<44}{tried.covered:>8.1%}{tried.planned:>9,}{tried.half:>7,.0f}{tried.most:>8,.0f}"
                f"{tried.most / alone[1]:>10.0%}",
                flush=True,
            )
    return lowest


def report_intervals(pairs: TruePairs, studies: int) -> float:
    """Print the table of intervals, and return the lowest coverage."""
    lowest = 1.0
    truth = pairs.false[pairs.ranks <= POOL].mean()
    print(f"\nFalse negatives at ranks 1 to {POOL}: {truth:.2%} in truth")
    print(
        f"{'questions':<11}{'judge':<12}{'covers':>8}{'width':>8}{'mean':>8}{'lambda':>8}   labels alone: covers, width"
    )
    for n in AUDITS:
        for bias in BIASES:
            found = intervals(pairs, bias, n, studies)
            covered, width, mean, weight = found["powered"]
            lowest = min(lowest, covered)
            print(
                f"{n:<11}{bias:<12}{covered:>8.1%}{width:>8.3f}{mean:>8.2%}{weight:>8.2f}   "
                f"{found['classical'][0]:.1%}, {found['classical'][1]:.3f}",
                flush=True,
            )
    return lowest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=STUDIES)
    parser.add_argument("--passages", type=int, default=PASSAGES)
    parser.add_argument("--seed", type=int, default=SEED)
    arguments = parser.parse_args()
    print(machine())
    began = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        sets = prepared_sets(Path(folder), arguments.passages, arguments.seed)
        lowest = min(report_intervals(sets["none"], arguments.studies), report_certificates(sets, arguments.studies))
    print(
        f"\nLowest coverage {lowest:.1%}: {'at least' if lowest >= COVERS else 'LESS THAN'} {COVERS:.0%}; "
        f"{time.process_time() - began:,.0f} s of the processor"
    )


if __name__ == "__main__":
    main()
