"""The analyses at EntityQuestions' size: 22,075 questions x 3 runs x 100 hits, and growth from 1,000 to 100,000
questions.

    python -m benchmarks.analysis [--questions 22075] [--growth 1000,10000,100000]

Runs, questions and gold are generated. The runs are memory-mapped, the questions are in memory. Imports happen before
the clock starts.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.app import RUNS, make_study
from benchmarks.machine import machine, peak_memory, timed
from blindspot.analysis import flips

if TYPE_CHECKING:
    from blindspot.backend.core.study import Study

EVERYTHING, SLOW = 2.0, 10.0  # targets in seconds: all analyses together; the finder and the overlap, each


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--questions", type=int, default=22_075)
    parser.add_argument("--passages", type=int, default=20_000)
    parser.add_argument(
        "--growth", default="1000,10000,100000", help="numbers of questions, separated by commas; empty for none"
    )
    options = parser.parse_args()
    print(machine())
    counted = everything(options.questions, options.passages)
    total = sum(seconds for name, seconds, slow in counted if not slow)
    for name, seconds, slow in counted:
        print(f"{name:<78} {1000 * seconds:>8,.0f} ms" + (f"   aim {SLOW:.0f} s" if slow else ""))
    print(f"{'together, but for the finder and the overlap':<78} {1000 * total:>8,.0f} ms   aim {EVERYTHING:.0f} s")
    print(f"peak memory {peak_memory():,.0f} MiB\n")
    print(f"{'questions':>10} {'together':>10} {'overlap':>10} {'finder':>10}   ms")
    for questions in map(int, filter(None, options.growth.split(","))):
        grown = everything(questions, options.passages)
        together = sum(seconds for _, seconds, slow in grown if not slow)
        overlap, finder = (seconds for _, seconds, slow in grown if slow)
        print(f"{questions:>10,} {1000 * together:>10,.0f} {1000 * overlap:>10,.0f} {1000 * finder:>10,.0f}")


def everything(questions: int, passages: int) -> list[tuple[str, float, bool]]:
    """Time every analysis: (name, seconds, whether it has its own target)."""
    with tempfile.TemporaryDirectory() as folder:
        study = make_study(Path(folder) / "study", passages, questions)
        return [(name, timed(work)[1], slow) for name, work, slow in analyses(study)]


Analysis = tuple[str, Callable[[], object], bool]
"""What is computed, the function that does it, and whether it takes long."""
Held = dict[str, Any]
"""Results that later analyses start from, by name."""


def analyses(folder: Path) -> Iterator[Analysis]:
    import plotly.graph_objects  # noqa: F401
    import scipy.special  # noqa: F401

    from blindspot.backend.core.study import Study

    study, held = Study.open(folder), Held()
    yield from _of_two_runs(study, held)
    yield from _of_three_runs(held)
    yield from _of_slices(held)


def _keep(held: Held, key: str, work: Callable[[], object]) -> Callable[[], None]:
    def done() -> None:
        held[key] = work()

    return done


def _of_two_runs(study: Study, held: Held) -> Iterator[Analysis]:
    from blindspot.backend.evaluation.comparison import Comparison, by_group, figures_at, macro_at, measure

    records = study.questions.with_ids(study.run(next(iter(RUNS))).question_ids)

    def measured() -> object:
        return {name: measure(study, name, questions=records) for name in RUNS}

    def both_groups() -> None:
        compared = held["comparison"]
        for by in ("relation", "bucket"):
            by_group(compared, 5, compared.groups(by))
            flips.flip_table(compared.first_ranks_a, compared.first_ranks_b, 5)

    def pair() -> object:
        return Comparison.of_runs(*list(held["runs"].values())[:2])

    yield "first relevant rank of 3 runs", _keep(held, "runs", measured), False
    yield "two runs side by side", _keep(held, "comparison", pair), False
    ks = (1, 5, 20, 100)
    yield "difference, interval and p at 1, 5, 20, 100", lambda: [figures_at(held["comparison"], k) for k in ks], False
    yield "the same, averaged over relations", lambda: [macro_at(held["comparison"], k) for k in ks], False
    yield "by relation and by bucket: success, difference, p (Holm), flips", both_groups, False


def _of_three_runs(held: Held) -> Iterator[Analysis]:
    from blindspot.backend.evaluation.panel import Panel, frequency_curves, relation_table
    from blindspot.backend.evaluation.report_plots import curve_plot, dumbbell

    def curves() -> None:
        relations = np.unique(held["panel"].relations).tolist()
        held["curves"] = [frequency_curves(held["panel"], 20, relation) for relation in ["", *relations]]

    def plots() -> None:
        table = held["table"]
        dumbbell(table, list(RUNS), [row.group for row in table.rows])
        curve_plot(held["curves"][0], list(RUNS))

    def table() -> object:
        return relation_table(held["panel"], 20)

    yield "three runs on one panel", _keep(held, "panel", lambda: Panel.of_runs(held["runs"])), False
    yield "success@1, 5, 20, 100 by relation, 3 runs, macro and micro", _keep(held, "table", table), False
    yield "curves along 8 buckets, all relations and each", curves, False
    yield "both plots", plots, False


def _of_slices(held: Held) -> Iterator[Analysis]:
    from blindspot.backend.evaluation.slice_finder import find_slices
    from blindspot.backend.evaluation.slices import Facts

    first = f'relation:P19 and not group:"<=1 mentions" and first({next(iter(RUNS))})<=5'
    tags = ("only_a", "only_b", "both_fail", "gold_below_unlabelled", "answer_in_unlabelled")

    def one_slice() -> None:
        held["facts"] = Facts(held["comparison"], 5)
        held["facts"].mask(first)

    yield 'a slice: relation:P19 and not group:"<=1 mentions" and first(...)<=5', one_slice, False
    yield "every tag", lambda: [held["facts"].tag(name) for name in tags], False
    yield "rank-biased overlap of every pair of lists", lambda: held["comparison"].overlap, True
    yield "slice finder (reads the gold passages too)", lambda: find_slices(held["facts"]), True


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", str(os.cpu_count() or 1))
    main()
