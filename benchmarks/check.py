"""Do the intervals of `blindspot check` cover, and how many labels do they need? How long does a check take?

    python -m benchmarks.check                      # simulated files with known truth
    python -m benchmarks.check --make STUDY F       # write a real file F.jsonl with its truth F.npy, from the study of benchmarks.study
    python -m benchmarks.check --file F --truth T   # a real file: T.npy says which of its negative pairs are false
    python -m benchmarks.check --rows 100000        # seconds and memory of a check

Simulated files have 20,000 negative pairs. A pair's suspicion is normal; that of false ones is higher by so much that the
area under the ROC curve (AUC) is as stated. The engine is not told the AUC. Each run draws and judges pairs with its
seed, and looks at the interval after every label: it covers if the truth is inside all of them. "fixed" are the labels
that a simple random sample of a fixed size takes for the same half-width, with one look at the end.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.machine import machine, peak_memory
from blindspot.analysis.rate_sequence import rate_sequence
from blindspot.analysis.weighted_draws import Cells, draw_order
from blindspot.backend.checking.suspicion import EXPECTED, cells_by_suspicion

if TYPE_CHECKING:
    from blindspot.backend.checking.building import CheckedStudy
    from blindspot.backend.checking.pairs import NegativePairs
    from blindspot.db.records import Passage

RUNS, DRAWS, PAIRS = 1000, 300, 20_000
STOPS = (50, 100, 150, 200, 300)
FILES = (
    (0.10, 0.5),
    (0.10, 0.7),
    (0.10, 0.8),
    (0.10, 0.9),
    (0.10, 0.95),
    (0.02, 0.8),
    (0.30, 0.8),
    (0.0, 0.5),
    (0.0, 0.8),
)
"""Share of false negatives, and AUC of the suspicion; 0.5 for none."""
TARGET = 0.02
BLOCK = 100  # runs in memory together
RULE_SAMPLES = 20
DEPTH = 1000  # hits of BM25 in which the positive of a real file must be
WORDS = ("riv", "cas", "tre", "sing", "eng", "val", "mus", "art", "vote", "port")


def simulated(rate: float, auc: float, seed: int = 0) -> tuple[np.ndarray, Cells, np.ndarray]:
    """Return which pairs are false, the cells, and each pair's cell."""
    from scipy.stats import norm

    rng = np.random.default_rng(seed)
    false = np.arange(PAIRS) < round(rate * PAIRS)
    if auc == 0.5:
        return false, Cells(np.array([PAIRS]), np.array([EXPECTED]), np.ones(1)), np.zeros(PAIRS, np.int64)
    cells, member = cells_by_suspicion(rng.normal(size=PAIRS) + math.sqrt(2) * norm.ppf(auc) * false)
    return false, cells, member


def measure(false: np.ndarray, cells: Cells, member: np.ndarray, runs: int) -> dict[str, object]:
    """Return coverage at all stops together, and at some stops the median half-width, the share below TARGET, and the
    estimate's mean error and root mean square error.
    """
    truth, covered, widths, clean, errors = false.mean(), 0, [], [], []
    at = np.array([stop - 1 for stop in STOPS])
    for start in range(0, runs, BLOCK):
        seeds = range(start, min(start + BLOCK, runs))
        orders = np.array([draw_order(cells.weights[member], seed, DRAWS)[0] for seed in seeds])
        found = rate_sequence(false[orders], member[orders], cells)
        covered += int(((found.low <= truth + 1e-12) & (found.high >= truth - 1e-12)).all(axis=1).sum())
        widths.append(found.half_width[:, at])
        clean.append(found.high[:, at] <= TARGET + 1e-12)
        errors.append(found.estimate[:, at] - truth)
    return {
        "covers": covered / runs,
        "half_width": np.median(np.concatenate(widths), axis=0).tolist(),
        "clean": np.concatenate(clean).mean(axis=0).tolist(),
        "bias": np.concatenate(errors).mean(axis=0).tolist(),
        "rmse": np.sqrt((np.concatenate(errors) ** 2).mean(axis=0)).tolist(),
    }


def fixed_labels(rate: float, half_width: float) -> int:
    """Return the size of a simple random sample with this half-width (95%, normal)."""
    return math.ceil(1.959964**2 * rate * (1 - rate) / half_width**2)


def report(rows: Iterator[tuple[str, float, dict[str, object]]]) -> None:
    heads = " ".join(f"{f'± at {stop}':>9}" for stop in STOPS)
    print(
        f"{'file':<34}{'covers':>8} {heads}   fixed for ± at 150, 300; at most {TARGET:.0%} proved at 200; mean error (root mean square) of the estimate at 50, 100"
    )
    for name, rate, found in rows:
        widths = found["half_width"]
        assert isinstance(widths, list)
        fixed = ", ".join(f"{fixed_labels(rate, widths[STOPS.index(stop)]):,}" for stop in (150, 300)) if rate else "-"
        clean = found["clean"]
        bias, rmse = found["bias"], found["rmse"]
        assert isinstance(clean, list) and isinstance(bias, list) and isinstance(rmse, list)
        errors = ", ".join(
            f"{100 * bias[place]:+.1f} ({100 * rmse[place]:.1f})" for place in map(STOPS.index, (50, 100))
        )
        print(
            f"{name:<34}{found['covers']:>8.1%} {' '.join(f'{100 * width:>9.1f}' for width in widths)}   {fixed}; "
            f"{clean[STOPS.index(200)]:.0%}; {errors}",
            flush=True,
        )


def real(path: Path, truth: Path, runs: int) -> Iterator[tuple[str, float, dict[str, object]]]:
    """Measure a real file, with and without suspicion; then print what the rules promise and keep."""
    from blindspot.backend.checking.check import check
    from blindspot.backend.checking.pairs import negative_pairs
    from blindspot.backend.checking.suspicion import suspicion

    false = np.load(truth)
    with tempfile.TemporaryDirectory() as folder:
        found = check(path, Path(folder) / "study")
        pairs = negative_pairs(found.checked_study.occurrences)
        if len(pairs) != len(false):
            raise SystemExit(f"{truth} has {len(false):,} pairs, the file {len(pairs):,}")
        cells, member = cells_by_suspicion(suspicion(pairs)[0])
        yield f"{path.name}, suspicion", false.mean(), measure(false, cells, member, runs)
        alone = Cells(np.array([len(pairs)]), np.array([EXPECTED]), np.ones(1))
        yield f"{path.name}, none", false.mean(), measure(false, alone, np.zeros(len(pairs), np.int64), runs)
        np.save(found.checked_study.folder / "cells.npy", member.astype(np.int16))
        report_rules(found.checked_study, pairs, false, cells, member)


def report_rules(
    checked: CheckedStudy, pairs: NegativePairs, false: np.ndarray, cells: Cells, member: np.ndarray
) -> None:
    """Print what the chosen rows of some samples say and what is true, and how well each rule tells all pairs apart."""
    from sklearn.metrics import roc_auc_score

    from blindspot.backend.checking.rules import compare_rules, pairs_kept_by, statistics
    from blindspot.backend.checking.sample import JudgedDraws, SamplePlan, interval

    chosen: dict[str, list[float]] = {}
    names, inside, inside_dropped, promises, rates = [], [], [], 0, 0
    for seed in range(RULE_SAMPLES):
        order, _ = draw_order(cells.weights[member], seed, DRAWS)
        plan = SamplePlan(cells, order, member[order], seed, [], [])
        judged = JudgedDraws(pairs, plan, false[order], np.zeros(DRAWS, bool))
        _, low, high = interval(judged.false, judged.unsettled, judged.cells, cells)
        rates += low <= false.mean() <= high
        curve = compare_rules(checked, judged)
        shares = [float(false[pairs_kept_by(row.rule, pairs, judged)].mean()) for row in curve.rows]
        inside += [row.low <= share <= row.high for row, share in zip(curve.rows, shares, strict=True)]
        dropped = [float(false[~pairs_kept_by(row.rule, pairs, judged)].mean()) for row in curve.rows]
        inside_dropped += [row.dropped_low <= s <= row.dropped_high for row, s in zip(curve.rows, dropped, strict=True)]
        if curve.chosen is None:
            names.append("no rule")
            continue
        row, share = curve.rows[curve.chosen], shares[curve.chosen]
        promise = curve.bounds(row).most
        kept = pairs_kept_by(row.rule, pairs, judged)
        promises += share <= promise
        names.append(row.rule.as_text())
        figures = {
            "kept": row.kept,
            "false among them, %: estimate": 100 * row.false_share,
            "in truth": 100 * share,
            "promise": 100 * promise,
            "false dropped in truth": 100 * (false & ~kept).sum() / false.sum(),
            "true kept in truth": 100 * (~false & kept).sum() / (~false).sum(),
            "questions emptied": row.questions_emptied,
        }
        for name, value in figures.items():
            chosen.setdefault(name, []).append(value)
    print(f"chosen: {', '.join(names)}")
    for name, values in chosen.items():
        print(f"{name}: {min(values):,.1f}; {np.median(values):,.1f}; {max(values):,.1f}")
    print(
        f"promises kept {promises} of {len(chosen['kept']) if chosen else 0}; intervals of the rate cover {rates} of "
        f"{RULE_SAMPLES}, of what all rows keep {np.mean(inside):.1%}, drop {np.mean(inside_dropped):.1%}"
    )
    kinds = {name: -values for name, values in statistics(pairs).items()} | {"suspicion": member}
    print("AUC over all pairs: " + ", ".join(f"{name} {roc_auc_score(false, kinds[name]):.2f}" for name in kinds))


def make_real(folder: Path, out: Path, negatives: int = 5) -> None:
    """Write n-tuples of the train questions of the real data: the first gold passage, and the first other ones that BM25
    finds, with BM25's scores. All gold passages are the truth. Questions whose first gold BM25 does not find in `DEPTH`
    are left out.
    """
    from blindspot.backend.checking.building import question_id
    from blindspot.backend.checking.check import check
    from blindspot.backend.checking.pairs import negative_pairs
    from blindspot.backend.core.study import Study
    from blindspot.backend.data.leaks import words_key
    from blindspot.backend.retrieval.bm25 import BM25

    study = Study.open(folder)
    asked = study.questions.all(split="train")
    gold = [[study.corpus.ordinals(each.gold)[id] for id in each.gold] for each in asked]
    answers: dict[bytes, set[str]] = {}
    hits = BM25(study).search([each.text for each in asked], DEPTH)
    path = out.with_suffix(".jsonl")
    with open(path, "w", encoding="utf-8") as file:
        for question, positives, ordinals, scores in zip(asked, gold, hits.ordinals, hits.scores, strict=True):
            found = dict(zip(ordinals.tolist(), scores.tolist(), strict=True))
            if positives[0] not in found:
                continue
            chosen = [positives[0], *[each for each in found if each not in (positives[0], -1)][:negatives]]
            texts = [_with_title(passage) for passage in study.corpus.passages(chosen)]
            true = map(_with_title, study.corpus.passages(positives))
            answers.setdefault(words_key(question.text), set()).update(true)
            row = {"query": question.text, "answer": texts[0]}
            row |= {f"negative_{number}": text for number, text in enumerate(texts[1:], 1)}
            file.write(json.dumps({**row, "scores": [found[each] for each in chosen]}) + "\n")
    with tempfile.TemporaryDirectory() as temporary:
        made = check(path, Path(temporary) / "study").checked_study
        pairs, corpus, questions = negative_pairs(made.occurrences), made.study.corpus, made.study.questions
        owners, truth = {}, np.zeros(len(pairs), bool)
        for place, (question, passage) in enumerate(zip(pairs.question.tolist(), pairs.passage.tolist(), strict=True)):
            if question not in owners:
                owners[question] = answers[words_key(questions.get(question_id(question)).text)]
            truth[place] = corpus.passage(passage).text in owners[question]
    np.save(out.with_suffix(".npy"), truth)
    print(f"{path}: {made.manifest['rows']:,} rows, {len(truth):,} negative pairs, {truth.mean():.1%} false by gold")


def _with_title(passage: Passage) -> str:
    return f"{passage.title} {passage.text}"


def generated_file(path: Path, rows: int, passages: int = 100_000) -> Path:
    """Write n-tuples with five negatives of a hundred words each, drawn from `passages` different ones."""
    rng = np.random.default_rng(0)
    vocabulary = [f"{word}{number}" for word in WORDS for number in range(2000)]
    texts = [
        " ".join(vocabulary[each] for each in rng.integers(len(vocabulary), size=100).tolist()) for _ in range(passages)
    ]
    with open(path, "w", encoding="utf-8") as file:
        for row in range(rows):
            places = rng.integers(passages, size=6).tolist()
            record = {
                "anchor": f"what is the {vocabulary[row % len(vocabulary)]} of {row}?",
                "positive": texts[places[0]],
            }
            record |= {f"negative_{number}": texts[place] for number, place in enumerate(places[1:], 1)}
            file.write(json.dumps(record) + "\n")
    return path


def timed(rows: int) -> None:
    """Print seconds and memory until the facts are there, and until the first pair can be judged."""
    from blindspot.backend.checking.check import check

    with tempfile.TemporaryDirectory() as folder:
        path = generated_file(Path(folder) / "mined.jsonl", rows)
        size = path.stat().st_size
        before = peak_memory()
        began, processor = time.monotonic(), time.process_time()
        found = check(path, Path(folder) / "study")
        facts, used = time.monotonic() - began, time.process_time() - processor
        found.draw()
        drawn = time.monotonic() - began - facts
        peak = peak_memory()
    print(
        f"{rows:,} rows, {size / 1e6:,.0f} MB: facts after {facts:,.0f} s ({used:,.0f} s of the processor), the first pair "
        f"{drawn:,.1f} s later; peak memory {peak:,.0f} MB (before: {before:,.0f} MB)",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of each file")
    parser.add_argument("--file", type=Path, help="a real file")
    parser.add_argument("--truth", type=Path, help="its truth, .npy, in the order of its negative pairs")
    parser.add_argument("--make", type=Path, nargs=2, metavar=("STUDY", "FILE"), help="write a real file and its truth")
    parser.add_argument("--rows", type=int, help="time a check of so many rows instead")
    arguments = parser.parse_args()
    print(machine())
    if arguments.make:
        make_real(*arguments.make)
    elif arguments.rows:
        timed(arguments.rows)
    elif arguments.file:
        report(real(arguments.file, arguments.truth, arguments.runs))
    else:
        report(
            (f"{rate:.0%} false, AUC {auc:.2f}" if auc > 0.5 else f"{rate:.0%} false, no suspicion", rate, measure(*simulated(rate, auc), arguments.runs))
            for rate, auc in FILES
        )  # fmt: skip


if __name__ == "__main__":
    main()
