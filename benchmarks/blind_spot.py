"""The generated encyclopedia that `blindspot demo` makes: how blind dense retrieval is, and what cleaning changes.

python -m benchmarks.blind_spot --seeds 0,1,2 --folder FOLDER     Success@5 of BM25 and dense retrieval by frequency
python -m benchmarks.blind_spot --trained 0,1,2 --folder FOLDER   the noisy and the clean training set, by training seed

A passage is relevant if its text contains an answer (rule: dpr), as on the Compare page. Intervals and p values count by
fact: its two wordings are one observation. The trainings have the demo's settings, fixed before they were run; their
intervals are over seeds and facts.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from blindspot.analysis.accuracy import Estimate, proportion, success_from_ranks
from blindspot.analysis.buckets import frequency_group
from blindspot.analysis.crossed import crossed_mean
from blindspot.analysis.significance import compare, independent_difference
from blindspot.backend.core.study import Study
from blindspot.backend.core.units import Units, units_of
from blindspot.backend.data.encyclopedia import SECOND_DATASET
from blindspot.backend.demo.making import PASSAGES, SPLIT
from blindspot.backend.evaluation.comparison import Comparison, measure

K = 5
KS = (1, 5, 20)
GROUPS = ("<=1", "2-3", "4-9", "10+")


@dataclass(frozen=True)
class Found:
    """Questions of one encyclopedia: (q,) bool for each retriever, what groups them, and their units of observation."""

    bm25: np.ndarray
    dense: np.ndarray
    group: np.ndarray
    second: np.ndarray
    units: Units


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0,1,2", help="seeds of the encyclopedias")
    parser.add_argument(
        "--trained", help="seeds of the trainings: compare the two training sets on the first encyclopedia"
    )
    parser.add_argument("--passages", type=int, default=PASSAGES, help="passages of each encyclopedia")
    parser.add_argument("--folder", type=Path, help="keep the studies here; studies already here are used")
    options = parser.parse_args()
    seeds = [int(seed) for seed in options.seeds.split(",")]
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        if options.trained:
            study = searched(folder, options.passages, seeds[0])
            print("\n".join(cleaning(study, [int(seed) for seed in options.trained.split(",")])))
            return
        for seed in seeds:
            study = searched(folder, options.passages, seed)
            print(f"seed {seed}")
            print("\n".join(table(found_in(study))), flush=True)


def searched(folder: Path, passages: int, seed: int) -> Study:
    """The demo's study with its BM25 and dense runs."""
    from blindspot.backend.demo.making import RUNS, make_first_parts, missing_parts

    study = make_first_parts(folder / f"seed-{seed}", passages, seed)
    for part in missing_parts(study):
        if RUNS["dense"] not in study.runs() and part.title in ("encode the passages", f"retrieve dense over {SPLIT}"):
            part.make(study, None)
    return study


def found_in(study: Study) -> Found:
    from blindspot.backend.demo.making import RUNS

    compared = Comparison.of_runs(*(measure(study, RUNS[kind]) for kind in ("bm25", "dense")))
    groups = [frequency_group(question.frequency or 0) for question in compared.questions]
    return Found(
        bm25=success_from_ranks(compared.first_ranks_a, K),
        dense=success_from_ranks(compared.first_ranks_b, K),
        group=np.array(["10+" if group in ("10-29", "30-99", "100+") else group for group in groups]),
        second=np.array([question.dataset == SECOND_DATASET for question in compared.questions]),
        units=compared.units,
    )


def table(found: Found) -> list[str]:
    lines = [found.units.count_words(), f"{'mentions':>10} {'questions':>9} {'facts':>6} {'BM25':>6} {'dense':>6}"]
    for group in GROUPS:
        rows = found.group == group
        shares = (f"{100 * found.bm25[rows].mean():>6.1f}", f"{100 * found.dense[rows].mean():>6.1f}")
        lines.append(f"{group:>10} {rows.sum():>9} {found.units.units_of_rows(rows).count:>6} {' '.join(shares)}")
    for name, hits in (("BM25", found.bm25), ("dense", found.dense)):
        frequent, rare = (_share(hits, found, group) for group in (GROUPS[-1], GROUPS[0]))
        lines.append(f"{name}: {_points(independent_difference(frequent, rare))} fewer at 1 mention than at 10 or more")
    ahead = compare(found.bm25, found.dense, units=found.units.codes)
    lines.append(f"all: BM25 finds {_points(ahead.estimate)} more, p {ahead.p:.4f}")
    only_bm25, only_dense = (found.bm25 & ~found.dense), (found.dense & ~found.bm25)
    lines.append(
        f"only BM25: {only_bm25.sum()} questions; only dense: {only_dense.sum()}, "
        f"{(only_dense & found.second).sum()} of them in the second wording"
    )
    return lines


def _share(hits: np.ndarray, found: Found, group: str) -> Estimate:
    rows = found.group == group
    return proportion(hits[rows], found.units.codes[rows])


def _points(estimate: Estimate) -> str:
    value, low, high = estimate.percent
    return f"{value:.1f} points (95%: {low:.1f} to {high:.1f})"


def cleaning(study: Study, seeds: Sequence[int]) -> Iterator[str]:
    """Yield Success of the models trained on the noisy and on the clean set, and their difference over seeds and facts:
    on the demo's dev questions, and on dev and test together, which have about twice the facts. No training sees either.
    """
    from blindspot.backend.demo.making import CLEAN, NOISY

    for splits in ((SPLIT,), (SPLIT, "test")):
        before = [measure(study, _before(study, split)) for split in splits]
        units = units_of([question for each in before for question in each.questions], study.settings.unit)
        first = {
            name: np.array([_first(study, name, seed, splits) for seed in seeds], np.int32) for name in (NOISY, CLEAN)
        }
        yield f"{' and '.join(splits)}: {units.count_words()}; training seeds {', '.join(map(str, seeds))}"
        start = np.concatenate([each.first_ranks for each in before])
        for k in KS:
            noisy, clean = (success_from_ranks(first[name], k).astype(float) for name in (NOISY, CLEAN))
            yield f"Success@{k}: before {100 * success_from_ranks(start, k).mean():.1f}, {_compared(noisy, clean, units)}"


def _compared(noisy: np.ndarray, clean: np.ndarray, units: Units) -> str:
    """Compare (s, q) successes. The verdict holds for all of KS together."""
    level = 1 - 0.05 / len(KS)
    by_seed = ", ".join(f"{100 * each:+.1f}" for each in (clean - noisy).mean(axis=1))
    alone, together = (crossed_mean(clean - noisy, units.codes, each, is_signed=True) for each in (0.95, level))
    _, low, high = together.percent
    word = "established" if low > 0 or high < 0 else "inconclusive"
    return (
        f"noisy {100 * noisy.mean():.1f}, clean {100 * clean.mean():.1f}; clean - noisy {_points(alone)}, by seed {by_seed}: "
        f"{word} ({100 * level:.1f}%: {low:+.1f} to {high:+.1f})"
    )


def _before(study: Study, split: str) -> str:
    """Return the run of the encoder before training."""
    from blindspot.backend.demo.making import RUNS
    from blindspot.backend.retrieval.retrieve import retrieve

    name = RUNS["dense"].replace(SPLIT, split)
    if name not in study.runs():
        retrieve(study, "dense", split=split, name=name, encoder="minilm")
    return name


def _first(study: Study, name: str, seed: int, splits: Sequence[str]) -> np.ndarray:
    """Return the first ranks of the model that a training seed makes of a training set; seed 0 is the demo's."""
    from blindspot.backend.demo.making import MODELS, TRAINING, missing_parts, trained_parts
    from blindspot.backend.training.dual_encoder import try_model

    model = MODELS[name] if seed == 0 else f"{MODELS[name]}-{seed}"
    for part in trained_parts(name, model, "minilm", TRAINING | {"seed": seed}):
        if not part.exists(study):
            for needed in missing_parts(study):  # the training sets of a new demo
                if "training set" in needed.title or needed.title in ("make a batch", "simulate annotators"):
                    needed.make(study, None)
            part.make(study, None)
    return np.concatenate([measure(study, try_model(study, model, split)).first_ranks for split in splits])


if __name__ == "__main__":
    main()
