"""What denoising policies remove, on a generated encyclopedia with known truth. Nothing is trained.

    python -m benchmarks.denoising [--passages 3000] [--seed 0] [--study DIR --model JUDGE]

The share of false negatives among the negatives that each policy keeps, the share of true negatives that it costs, and
how many of its positives are right. Every figure is measured against `truth.jsonl`, which lists all passages that answer
a question. The encyclopedia has planted false negatives (docs/encyclopedia.md), so its shares are no evidence about
other collections.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.encyclopedia_study import JUDGED, RIGHT, annotate, prepared, truth_of
from benchmarks.machine import machine
from blindspot.analysis.audit import Rate, rate
from blindspot.analysis.intervals import wilson
from blindspot.backend.core.study import Study
from blindspot.backend.training_sets.builder import make_training_set
from blindspot.backend.training_sets.spec import TrainingSetSpec
from blindspot.backend.training_sets.training_set import Pair, TrainingSet, training_sets

POLICIES = ("none", "answer_match", "cross_encoder", "labels", "answer_match+labels", "cross_encoder+labels")
RUN = "bm25-train"  # negatives from BM25, as in DPR
FIRST, LAST = 1, 100  # ranks, as in RocketQA for NQ
SPANS = ((1, 10), (11, 100), (1, 100))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passages", type=int, default=3000, help="number of passages of the generated encyclopedia")
    parser.add_argument("--seed", type=int, default=0, help="seed of the encyclopedia")
    parser.add_argument("--study", type=Path, help="use a copy of this study of an encyclopedia")
    parser.add_argument("--model", help="cross-encoder that has scored the study's training questions")
    options = parser.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory() as folder:
        if options.study is not None:
            shutil.copytree(options.study, Path(folder) / "study")
            measure_policies(Study.open(Path(folder) / "study"), options.model)
        else:
            measure_policies(prepared(Path(folder), options.passages, options.seed), options.model)


def measure_policies(study: Study, model: str | None) -> None:
    from blindspot.backend.retrieval.retrieve import retrieve

    truth = truth_of(study)
    if RUN not in study.runs():
        retrieve(study, "bm25", split="train", k=LAST, name=RUN)
    policies = [policy for policy in POLICIES if model is not None or "cross_encoder" not in policy]
    labels = None
    for policy in policies:
        request = TrainingSetSpec(
            f"benchmark-{policy.replace('+', '-')}", (RUN,), policy, first=FIRST, last=LAST, model=model
        )
        made = make_training_set(study, request)
        if labels is None:  # the first is "none": every mined passage is in it
            labels = annotate(study, made, truth)
    sets = [TrainingSet.open(study, name) for name in training_sets(study) if name.startswith("benchmark-")]
    sets.sort(key=lambda each: POLICIES.index(each.manifest["policy"]))
    count = sets[0].manifest["counts"]["questions"]
    print(
        f"{len(study.corpus):,} passages, {count:,} training questions, ranks {FIRST} to {LAST} of {RUN}; {labels:,} "
        f"labels at ranks 1 to {JUDGED}, each right with probability {RIGHT}"
    )
    print(f"left out: {sets[0].manifest['left_out'] or 'no question'}")
    print("\n".join(table(sets, truth, SPANS)))
    if model is None:
        print("No cross-encoder was given (--model), so its two policies are not shown.")


def table(sets: Sequence[TrainingSet], truth: Mapping[str, set[str]], spans: Sequence[tuple[int, int]]) -> list[str]:
    """Return lines with the negatives of each set over each span of ranks, then its positives."""
    lines = [
        f"\n{'policy':<22}{'ranks':>8}{'mined':>9}{'kept':>9}{'false ones of the kept':>26}{'of all false ones':>26}"
        f"{'true ones lost':>26}"
    ]
    lines += [_negatives(set_, truth, span) for span in spans for set_ in sets]
    lines.append(f"\n{'policy':<22}{'positives':>10}  of these right (95%)")
    lines += [_positives(set_, truth) for set_ in sets]
    return [*lines, "\nIntervals are at 95%: for shares a bootstrap over questions, for positives Wilson."]


def _mined(training_set: TrainingSet, span: Sequence[int]) -> Iterator[Pair]:
    return (
        pair for _, pairs in training_set.groups() for pair in pairs if pair.mined and span[0] <= pair.rank <= span[1]
    )


def _negatives(training_set: TrainingSet, truth: Mapping[str, set[str]], span: Sequence[int]) -> str:
    pairs = list(_mined(training_set, span))
    false = np.array([pair.passage in truth[pair.question] for pair in pairs])
    kept = np.array([pair.role == "negative" for pair in pairs])
    questions = np.array([pair.question for pair in pairs])
    left = rate(false[kept], np.ones(kept.sum(), bool), np.ones(kept.sum()), questions[kept])
    return (
        f"{training_set.manifest['policy']:<22}{f'{span[0]}-{span[1]}':>8}{len(pairs):>9,}{kept.sum():>9,}{_share(left):>26}"
        f"{_part((false & kept).sum(), false.sum()):>26}{_part((~false & ~kept).sum(), (~false).sum()):>26}"
    )


def _positives(training_set: TrainingSet, truth: Mapping[str, set[str]]) -> str:
    found = [pair for _, pairs in training_set.groups() for pair in pairs if pair.role == "positive"]
    right = sum(pair.passage in truth[pair.question] for pair in found)
    low, high = wilson(right, len(found))
    return (
        f"{training_set.manifest['policy']:<22}{len(found):>10,}{100 * right / len(found):>9.1f}% "
        f"({100 * low:.1f} to {100 * high:.1f})"
    )


def _share(found: Rate) -> str:
    return "-" if found.value is None else f"{100 * found.value:.2f}% ({100 * found.low:.2f} to {100 * found.high:.2f})"


def _part(count: int, of: int) -> str:
    return f"{count:,} of {of:,} ({100 * count / of:.1f}%)" if of else "-"


if __name__ == "__main__":
    main()
