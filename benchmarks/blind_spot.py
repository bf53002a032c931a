"""The blind spot of the generated encyclopedia that `blindspot demo` makes: Success@5 of BM25 and of dense retrieval by
frequency.

python -m benchmarks.blind_spot --seeds 0,1,2 --folder FOLDER

A passage is relevant if its text contains an answer (rule: dpr), as on the Compare page. Intervals and p values treat
the questions about one subject as one observation: the two wordings of a question are not independent.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from blindspot.analysis.accuracy import found_by
from blindspot.analysis.buckets import frequency_group
from blindspot.analysis.significance import sign_flip
from blindspot.backend.core.study import Study
from blindspot.backend.data.encyclopedia import SECOND_DATASET
from blindspot.backend.demo.making import PASSAGES, SPLIT
from blindspot.backend.evaluation.comparison import Comparison, measure

K = 5
GROUPS = ("<=1", "2-3", "4-9", "10+")
RESAMPLES = 10_000


@dataclass(frozen=True)
class Found:
    """Questions of one encyclopedia: (q,) bool for each retriever, and what groups them."""

    bm25: np.ndarray
    dense: np.ndarray
    group: np.ndarray
    subject: np.ndarray
    second: np.ndarray


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0,1,2", help="seeds of the encyclopedias")
    parser.add_argument("--passages", type=int, default=PASSAGES, help="passages of each encyclopedia")
    parser.add_argument("--folder", type=Path, help="keep the studies here; studies already here are used")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        for seed in map(int, options.seeds.split(",")):
            study = searched(options.folder or Path(temporary), options.passages, seed)
            print(f"seed {seed}")
            print("\n".join(table(found_in(study))), flush=True)


def searched(folder: Path, passages: int, seed: int) -> Study:
    """The demo's study with its BM25 and dense runs."""
    from blindspot.backend.demo.making import RUNS, begin, missing

    study = begin(folder / f"seed-{seed}", passages, seed)
    for part in missing(study):
        if RUNS["dense"] not in study.runs() and part.title in ("encode the passages", f"retrieve dense over {SPLIT}"):
            part.make(study, None)
    return study


def found_in(study: Study) -> Found:
    from blindspot.backend.demo.making import RUNS

    compared = Comparison.of(*(measure(study, RUNS[kind]) for kind in ("bm25", "dense")))
    groups = [frequency_group(question.frequency or 0) for question in compared.questions]
    return Found(
        bm25=found_by(compared.first_a, K),
        dense=found_by(compared.first_b, K),
        group=np.array(["10+" if group in ("10-29", "30-99", "100+") else group for group in groups]),
        subject=np.array([question.subject for question in compared.questions]),
        second=np.array([question.dataset == SECOND_DATASET for question in compared.questions]),
    )


def table(found: Found) -> list[str]:
    lines = [f"{'mentions':>10} {'questions':>9} {'BM25':>6} {'dense':>6}"]
    for group in GROUPS:
        rows = found.group == group
        shares = (f"{100 * found.bm25[rows].mean():>6.1f}", f"{100 * found.dense[rows].mean():>6.1f}")
        lines.append(f"{group:>10} {rows.sum():>9} {' '.join(shares)}")
    for name, hits in (("BM25", found.bm25), ("dense", found.dense)):
        fall, low, high = fall_by_frequency(hits, found)
        lines.append(f"{name}: {fall:.1f} points fewer at 1 mention than at 10 or more (95%: {low:.1f} to {high:.1f})")
    gap, low, high, p = bm25_ahead(found)
    lines.append(f"all: BM25 finds {gap:.1f} points more (95%: {low:.1f} to {high:.1f}), p {p:.4f}")
    only_bm25, only_dense = (found.bm25 & ~found.dense), (found.dense & ~found.bm25)
    lines.append(
        f"only BM25: {only_bm25.sum()} questions; only dense: {only_dense.sum()}, "
        f"{(only_dense & found.second).sum()} of them in the second wording"
    )
    return lines


def fall_by_frequency(hits: np.ndarray, found: Found) -> tuple[float, float, float]:
    """Success at 10 mentions or more less Success at 1, in points, with a bootstrap interval over subjects."""
    rare, frequent = (_by_subject(hits, found, found.group == group) for group in (GROUPS[0], GROUPS[-1]))
    rng = np.random.default_rng(0)
    return _points(
        frequent[0].sum() / frequent[1].sum() - rare[0].sum() / rare[1].sum(),
        _resampled(frequent, rng) - _resampled(rare, rng),
    )


def bm25_ahead(found: Found) -> tuple[float, float, float, float]:
    """BM25's Success less the dense one, in points, with a bootstrap interval over subjects and the p value of the
    sign-flip test.
    """
    difference = found.bm25.astype(float) - found.dense
    sums = _by_subject(difference, found, np.ones(len(difference), bool))
    estimate = _points(difference.mean(), _resampled(sums, np.random.default_rng(0)))
    return *estimate, sign_flip(sums[0])


def _by_subject(values: np.ndarray, found: Found, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(subjects,) sum of the values, and number of questions, of each subject."""
    _, member = np.unique(found.subject[rows], return_inverse=True)
    return np.bincount(member, weights=values[rows].astype(float)), np.bincount(member)


def _resampled(sums: tuple[np.ndarray, np.ndarray], rng: np.random.Generator) -> np.ndarray:
    """(RESAMPLES,) mean over the questions of subjects drawn with replacement."""
    total, count = sums
    drawn = rng.integers(0, len(total), (RESAMPLES, len(total)))
    return total[drawn].sum(1) / count[drawn].sum(1)


def _points(value: float, resampled: np.ndarray) -> tuple[float, float, float]:
    low, high = np.quantile(resampled, [0.025, 0.975])
    return 100 * float(value), 100 * float(low), 100 * float(high)


if __name__ == "__main__":
    main()
